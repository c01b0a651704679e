//! Cores: one run queue, placement, migration.
//!
//! A task that is woken waits in line for a core, keeps it until it sleeps, and gives it up after a slice if others
//! wait. Linux's fair scheduler comes to that among tasks that sleep often and compute shortly: none of them is far enough
//! ahead of another to be preempted, and idle cores take over what waits. Kernel threads (journal, workers) sleep
//! most of the time and preempt when woken. Each task still has a place: the core whose queues its requests use.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use ssd::Nanos;

use crate::sync::TaskId;

/// Computes for so long before it goes to the end of the line, ns (Linux 5.18 with eight processors and more:
/// `sched_min_granularity_ns`).
const SLICE_NS: Nanos = 3_000_000;

/// What the cores know of a task.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Awake: waits for a core or has one.
    awake: bool,
    /// Has a core.
    running: bool,
    /// Computed since it has it.
    used_ns: Nanos,
    /// Of what it was asked to compute, what comes after this slice.
    rest_ns: Nanos,
    core: u16,
}

#[derive(Debug)]
pub(crate) struct Cpu {
    cores: usize,
    held: Vec<Held>,
    /// Tasks that have a core, the kernel's not counted.
    taken: usize,
    /// Computing: when the slice ends.
    computing: BTreeSet<(Nanos, u64, TaskId)>,
    urgent: BinaryHeap<Reverse<(Nanos, u64, TaskId)>>,
    line: VecDeque<TaskId>,
    number: u64,
    /// Tasks awake on each core.
    load: Vec<u32>,
    /// Times a task was placed on another core than before.
    pub(crate) migrations: u64,
    /// Core time spent, in ns.
    pub(crate) busy_ns: u64,
}

impl Cpu {
    pub(crate) fn new(cores: u16) -> Cpu {
        let cores = usize::from(cores.max(1));
        Cpu {
            cores,
            held: Vec::new(),
            taken: 0,
            computing: BTreeSet::new(),
            urgent: BinaryHeap::new(),
            line: VecDeque::new(),
            number: 0,
            load: vec![0; cores],
            migrations: 0,
            busy_ns: 0,
        }
    }

    /// Cores in use, and all.
    pub(crate) fn used(&self) -> (u64, u64) {
        ((self.taken + self.urgent.len()).min(self.cores) as u64, self.cores as u64)
    }

    fn place(&mut self, was: u16) -> u16 {
        let here = self.load[usize::from(was)];
        if here == 0 {
            return was;
        }
        let n = self.load.len();
        let best = (1..=n).map(|i| (usize::from(was) + i) % n).min_by_key(|c| self.load[*c]).unwrap_or(0);
        if self.load[best] >= here {
            return was;
        }
        self.migrations += 1;
        best as u16
    }

    fn held(&mut self, task: TaskId) -> &mut Held {
        let i = task as usize;
        if self.held.len() <= i {
            self.held.resize(i + 1, Held::default());
        }
        &mut self.held[i]
    }

    /// The task, which was on core `was`, computes for `ns`; the core it is placed on: the one it was on, unless that
    /// is busier than the least busy one. It stays there until it sleeps.
    pub(crate) fn start(&mut self, now: Nanos, task: TaskId, was: u16, ns: Nanos, urgent: bool) -> u16 {
        self.busy_ns += ns;
        if !self.held(task).awake {
            let core = self.place(was);
            self.load[usize::from(core)] += 1;
            *self.held(task) = Held { awake: true, core, ..Held::default() };
        }
        if urgent {
            self.number += 1;
            self.urgent.push(Reverse((now + ns, self.number, task)));
            self.make_room(now);
        } else {
            self.held(task).rest_ns = ns;
            self.proceed(now, task);
        }
        self.held(task).core
    }

    /// The task has something to compute: on its core, or when its turn comes.
    fn proceed(&mut self, now: Nanos, task: TaskId) {
        let (running, used) = (self.held(task).running, self.held(task).used_ns);
        let crowded = self.taken + self.urgent.len() > self.cores;
        if running && (crowded || (used >= SLICE_NS && !self.line.is_empty())) {
            self.held(task).running = false;
            self.taken -= 1;
            if crowded {
                self.line.push_front(task);
            } else {
                self.line.push_back(task);
            }
            self.fill(now);
        } else if running {
            self.run(now, task);
        } else {
            self.line.push_back(task);
            self.fill(now);
        }
    }

    fn run(&mut self, now: Nanos, task: TaskId) {
        let h = self.held(task);
        if h.used_ns >= SLICE_NS {
            h.used_ns = 0;
        }
        let part = h.rest_ns.min(SLICE_NS - h.used_ns);
        h.used_ns += part;
        h.rest_ns -= part;
        self.number += 1;
        self.computing.insert((now + part, self.number, task));
    }

    /// Gives free cores to those in line.
    fn fill(&mut self, now: Nanos) {
        while self.taken + self.urgent.len() < self.cores {
            let Some(task) = self.line.pop_front() else { return };
            self.taken += 1;
            let h = self.held(task);
            (h.running, h.used_ns) = (true, 0);
            self.run(now, task);
        }
    }

    /// A kernel thread has no core of its own: whoever would need his longest waits for it.
    fn make_room(&mut self, now: Nanos) {
        while self.taken + self.urgent.len() > self.cores {
            let Some((end, _, task)) = self.computing.pop_last() else { return };
            let h = self.held(task);
            (h.running, h.rest_ns) = (false, h.rest_ns + (end - now));
            self.taken -= 1;
            self.line.push_front(task);
        }
    }

    /// When the next task ends its computation or slice.
    pub(crate) fn next(&self) -> Option<Nanos> {
        let sharing = self.computing.first().map(|(at, _, _)| *at);
        let urgent = self.urgent.peek().map(|Reverse((at, _, _))| *at);
        [sharing, urgent].into_iter().flatten().min()
    }

    /// Tasks that have computed by `now`, in order.
    pub(crate) fn advance(&mut self, now: Nanos, ended: &mut Vec<TaskId>) {
        while let Some(Reverse((at, _, task))) = self.urgent.peek().copied() {
            if at > now {
                break;
            }
            self.urgent.pop();
            ended.push(task);
        }
        self.fill(now);
        while let Some((at, _, task)) = self.computing.first().copied() {
            if at > now {
                break;
            }
            self.computing.pop_first();
            if self.held(task).rest_ns > 0 {
                self.proceed(now, task);
            } else {
                ended.push(task);
            }
        }
    }

    /// The task sleeps or has ended.
    pub(crate) fn leave(&mut self, now: Nanos, task: TaskId) {
        let h = std::mem::take(self.held(task));
        if h.awake {
            self.load[usize::from(h.core)] -= 1;
        }
        if h.running {
            self.taken -= 1;
            self.fill(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cpu: &mut Cpu) -> Vec<(Nanos, TaskId)> {
        let mut out = Vec::new();
        while let Some(t) = cpu.next() {
            let mut ended = Vec::new();
            cpu.advance(t, &mut ended);
            for task in &ended {
                cpu.leave(t, *task);
            }
            out.extend(ended.into_iter().map(|task| (t, task)));
        }
        out
    }

    #[test]
    fn more_tasks_than_cores_wait_in_line() {
        let mut cpu = Cpu::new(2);
        for task in 0..4 {
            cpu.start(0, task, (task % 2) as u16, 1000, false);
        }
        assert_eq!(cpu.used(), (2, 2));
        assert_eq!(run(&mut cpu), [(1000, 0), (1000, 1), (2000, 2), (2000, 3)]);
    }

    #[test]
    fn a_task_keeps_its_core_until_it_sleeps() {
        let mut cpu = Cpu::new(1);
        cpu.start(0, 0, 0, 1000, false);
        cpu.start(0, 1, 0, 1000, false);
        let mut ended = Vec::new();
        cpu.advance(1000, &mut ended);
        assert_eq!(ended, [0]);
        cpu.start(1000, 0, 0, 500, false);
        assert_eq!(run(&mut cpu), [(1500, 0), (2500, 1)]);
    }

    #[test]
    fn who_computes_for_long_lets_others_in() {
        let mut cpu = Cpu::new(1);
        cpu.start(0, 0, 0, 2 * SLICE_NS + 1000, false);
        cpu.start(0, 1, 0, 500, false);
        assert_eq!(run(&mut cpu), [(SLICE_NS + 500, 1), (2 * SLICE_NS + 1500, 0)]);
    }

    #[test]
    fn kernel_threads_take_a_core_at_once() {
        let mut cpu = Cpu::new(2);
        for task in 0..2 {
            cpu.start(0, task, 0, 1000 + u64::from(task), false);
        }
        cpu.start(100, 9, 1, 500, true);
        assert_eq!(run(&mut cpu), [(600, 9), (1000, 0), (1501, 1)]);
    }

    #[test]
    fn a_task_moves_only_to_a_quieter_core() {
        let mut cpu = Cpu::new(3);
        assert_eq!(cpu.start(0, 6, 1, 1000, false), 1);
        assert_eq!((cpu.start(0, 7, 1, 1000, false), cpu.migrations), (2, 1));
        cpu.start(0, 9, 0, 1000, false);
        assert_eq!(cpu.start(0, 5, 1, 1000, false), 1, "all are as busy");
    }
}
