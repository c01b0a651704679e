//! Cores: processor sharing, placement, migration.
//!
//! Tasks share the cores equally: with `m` runnable tasks each runs at `min(1, cores / m)`, what a fair scheduler
//! comes to. Kernel threads (journal, workers) sleep most of the time and preempt when woken, so they run at full rate
//! and the others share the rest. Each task still has a place: the core whose queues its requests use.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ssd::Nanos;

use crate::sync::TaskId;

/// Virtual work is counted in 1/1024 ns, rates in 1/2^20.
const WORK_SHIFT: u32 = 10;
const RATE_SHIFT: u32 = 20;

#[derive(Debug)]
pub(crate) struct Cpu {
    cores: u32,
    /// Work each sharing task has received since the start.
    work: u64,
    last: Nanos,
    sharing: BinaryHeap<Reverse<(u64, u64, TaskId)>>,
    urgent: BinaryHeap<Reverse<(Nanos, u64, TaskId)>>,
    number: u64,
    /// Runnable tasks placed on each core.
    load: Vec<u32>,
    /// Times a task was placed on another core than before.
    pub(crate) migrations: u64,
    /// Core time spent, in ns.
    pub(crate) busy_ns: u64,
}

impl Cpu {
    pub(crate) fn new(cores: u16) -> Cpu {
        Cpu {
            cores: u32::from(cores.max(1)),
            work: 0,
            last: 0,
            sharing: BinaryHeap::new(),
            urgent: BinaryHeap::new(),
            number: 0,
            load: vec![0; usize::from(cores.max(1))],
            migrations: 0,
            busy_ns: 0,
        }
    }

    fn rate(&self) -> u64 {
        let free = u64::from(self.cores).saturating_sub(self.urgent.len() as u64).max(1);
        let tasks = self.sharing.len().max(1) as u64;
        ((free << RATE_SHIFT) / tasks).min(1 << RATE_SHIFT)
    }

    fn pass(&mut self, now: Nanos) {
        let dt = now - self.last;
        self.work += (dt * self.rate()) >> (RATE_SHIFT - WORK_SHIFT);
        self.last = now;
    }

    /// Whether some core has nothing to do.
    pub(crate) fn has_idle(&self) -> bool {
        self.sharing.len() + self.urgent.len() < self.cores as usize
    }

    /// The core where the task runs next: the one it was on, unless that is busier than the least busy one.
    pub(crate) fn place(&mut self, was: u16) -> u16 {
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

    /// The task computes for `ns` on `core`.
    pub(crate) fn start(&mut self, now: Nanos, task: TaskId, core: u16, ns: Nanos, urgent: bool) {
        self.pass(now);
        self.number += 1;
        self.load[usize::from(core)] += 1;
        self.busy_ns += ns;
        if urgent {
            self.urgent.push(Reverse((now + ns, self.number, task)));
        } else {
            self.sharing.push(Reverse((self.work + (ns << WORK_SHIFT), self.number, task)));
        }
    }

    /// When the next task ends its computation.
    pub(crate) fn next(&self) -> Option<Nanos> {
        let shared = self.sharing.peek().map(|Reverse((work, _, _))| {
            let left = work.saturating_sub(self.work);
            self.last + (left << (RATE_SHIFT - WORK_SHIFT)).div_ceil(self.rate())
        });
        let urgent = self.urgent.peek().map(|Reverse((at, _, _))| *at);
        match (shared, urgent) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Tasks that end by `now`, in order.
    pub(crate) fn advance(&mut self, now: Nanos, ended: &mut Vec<TaskId>) {
        self.pass(now);
        while let Some(Reverse((at, _, task))) = self.urgent.peek().copied() {
            if at > now {
                break;
            }
            self.urgent.pop();
            ended.push(task);
        }
        while let Some(Reverse((work, _, task))) = self.sharing.peek().copied() {
            if work > self.work {
                break;
            }
            self.sharing.pop();
            ended.push(task);
        }
    }

    /// The task no longer runs on `core`.
    pub(crate) fn leave(&mut self, core: u16) {
        self.load[usize::from(core)] -= 1;
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
            out.extend(ended.into_iter().map(|task| (t, task)));
        }
        out
    }

    #[test]
    fn more_tasks_than_cores_share_them() {
        let mut cpu = Cpu::new(2);
        for task in 0..4 {
            cpu.start(0, task, (task % 2) as u16, 1000, false);
        }
        assert_eq!(run(&mut cpu), [(2000, 0), (2000, 1), (2000, 2), (2000, 3)]);
    }

    #[test]
    fn kernel_threads_run_at_full_rate() {
        let mut cpu = Cpu::new(2);
        for task in 0..2 {
            cpu.start(0, task, 0, 1000, false);
        }
        cpu.start(0, 9, 1, 500, true);
        let ends = run(&mut cpu);
        assert_eq!(ends[0], (500, 9));
        assert!(ends[1].0 >= 1250 && ends[1].0 <= 1252, "{ends:?}");
    }

    #[test]
    fn a_task_moves_only_to_a_quieter_core() {
        let mut cpu = Cpu::new(3);
        assert_eq!(cpu.place(1), 1);
        cpu.start(0, 7, 1, 1000, false);
        assert_eq!((cpu.place(1), cpu.migrations), (2, 1));
        cpu.start(0, 8, 2, 1000, false);
        cpu.start(0, 9, 0, 1000, false);
        assert_eq!(cpu.place(1), 1, "all are as busy");
    }
}
