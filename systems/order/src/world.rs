//! The state of a simulation, without the tasks' programs: time, processors, block layer, journals, files.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

use ssd::{Config, Nanos, Token};

use crate::cpu::Cpu;
use crate::device::Device;
use crate::files::{Files, MetaId, Tid};
use crate::journal::Journal;
use crate::ledger::{Ledger, Rule};
use crate::mutation::Mutation;
use crate::phases::Phases;
use crate::queues::{Block, Shape, TaskLabel};
use crate::request::Request;
use crate::setup::{Protocol, Setup};
use crate::sync::{Group, TaskId};

/// Process id of the journal thread, and of the worker that issues flushes, as in the shipped traces.
pub(crate) const JOURNAL_PID: u32 = 2688;
const WORKER_PID: u32 = 784;
/// Task number of the worker.
pub(crate) const WORKER: TaskId = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Wake(TaskId),
    Queue(u16),
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Nanos,
    pub(crate) setup: Setup,
    timers: BinaryHeap<Reverse<(Nanos, u64, Timer)>>,
    number: u64,
    pub(crate) ready: VecDeque<TaskId>,
    pub(crate) cpu: Cpu,
    pub(crate) block: Block,
    pub(crate) files: Files,
    pub(crate) journals: Vec<Journal>,
    pub(crate) ledger: Ledger,
    pub(crate) who: Vec<TaskLabel>,
    kernel: Vec<bool>,
    /// Per task: writes that its exit waits for.
    pub(crate) outstanding: Vec<Vec<Rc<Group>>>,
    done: Vec<Rc<Group>>,
    ended: Vec<TaskId>,
    /// Counters that programs post to and wait for: value, and (value waited for, task).
    pub(crate) events: Vec<(u64, Vec<(u64, TaskId)>)>,
    /// Of the journal thread.
    pub(crate) phases: Phases,
    /// Device events handled, for the limit of the liveness check.
    pub(crate) steps: u64,
}

impl World {
    pub(crate) fn new(setup: Setup) -> Result<World, ssd::error::ConfigError> {
        let protocol = setup.protocol;
        let regime = protocol.regime();
        let unit = 64 * 4096;
        let bytes = (setup.layout.blocks() * 4096).div_ceil(unit) * unit;
        let config = Config {
            profile: setup.profile.clone(),
            capacity_bytes: bytes,
            regime,
            seed: setup.seed ^ 0x55d,
            program_jitter: setup.program_jitter,
        };
        let mut device = Device::new(config, setup.watched, setup.pinning)?;
        if let Some(bug) = setup.firmware {
            device.ssd.plant(bug);
        }
        let queues = setup.queues.min(device.ssd.queues()).max(1);
        let shape = Shape {
            cores: setup.cores.max(1),
            queues,
            tags: setup.tags.max(1),
            pinning: setup.pinning,
            shortage: setup.shortage,
            streams: regime == ssd::Regime::Streams,
            barriers: regime == ssd::Regime::Barrier,
            mutation: setup.mutation,
            limits: setup.limits,
        };
        let mut block = Block::new(shape, device, setup.seed);
        block.trace.on = setup.traced;
        let count = if protocol == Protocol::Mqfs { setup.cores.max(1) } else { 1 };
        let size = setup.layout.journal / u32::from(count);
        let journals = (0..usize::from(count))
            .map(|i| Journal::new(JOURNAL_PID, 64 + i as u64 * u64::from(size), size))
            .collect();
        let rule = match protocol {
            Protocol::Mqfs => Rule::Each,
            Protocol::Horae => Rule::Prefix,
            _ => Rule::Record,
        };
        Ok(World {
            now: 0,
            timers: BinaryHeap::new(),
            number: 0,
            ready: VecDeque::new(),
            cpu: Cpu::new(setup.cores),
            block,
            files: Files::new(setup.layout),
            journals,
            ledger: Ledger::new(rule, setup.chained),
            who: vec![TaskLabel { name: "kworker", pid: WORKER_PID, core: 0 }],
            kernel: vec![true],
            outstanding: vec![Vec::new()],
            done: Vec::new(),
            ended: Vec::new(),
            events: Vec::new(),
            phases: Phases::default(),
            steps: 0,
            setup,
        })
    }

    pub(crate) fn planted(&self, mutation: Mutation) -> bool {
        self.setup.mutation == Some(mutation)
    }

    /// A new task's number.
    pub(crate) fn add_task(&mut self, name: &'static str, pid: u32, kernel: bool) -> TaskId {
        let task = self.who.len() as TaskId;
        let core = (task % u32::from(self.setup.cores.max(1))) as u16;
        self.who.push(TaskLabel { name, pid, core });
        self.kernel.push(kernel);
        self.outstanding.push(Vec::new());
        task
    }

    fn schedule(&mut self, time: Nanos, timer: Timer) {
        self.number += 1;
        self.timers.push(Reverse((time, self.number, timer)));
    }

    /// The task goes on at `time`.
    pub(crate) fn wake_at(&mut self, time: Nanos, task: TaskId) {
        self.schedule(time, Timer::Wake(task));
    }

    /// The task goes on after the delay of a wake-up.
    pub(crate) fn wake(&mut self, task: TaskId) {
        self.wake_at(self.now + self.setup.costs.wake_delay_ns, task);
    }

    pub(crate) fn wake_all(&mut self, tasks: Vec<TaskId>) {
        tasks.into_iter().for_each(|t| self.wake(t));
    }

    /// The task computes.
    pub(crate) fn compute(&mut self, task: TaskId, ns: Nanos) {
        let i = task as usize;
        self.who[i].core = self.cpu.start(self.now, task, self.who[i].core, ns, self.kernel[i]);
    }

    /// The task sleeps: its core is free, its plug list goes out.
    pub(crate) fn schedule_out(&mut self, task: TaskId) {
        self.cpu.leave(self.now, task);
        self.block.schedule_out(task, self.now, &self.who);
        self.retries();
    }

    /// Sends a request of `task`, into its plug list if it has one.
    pub(crate) fn bio(&mut self, mut request: Request) {
        request.core = self.who[request.task as usize].core;
        self.block.bio(request, self.now, &self.who);
        self.retries();
    }

    /// Ends the plug list of `end`'s task.
    pub(crate) fn unplug(&mut self, mut end: Request, barrier: bool) {
        end.core = self.who[end.task as usize].core;
        self.block.unplug(&end, barrier, self.now, &self.who);
        self.retries();
    }

    /// Whether senders wait for the dispatch: where commands carry an order, it is fixed then.
    pub(crate) fn awaits_dispatch(&self) -> bool {
        let hasty = [Mutation::DispatchNotAwaited, Mutation::MergeAcrossEpochs];
        self.setup.protocol.regime().is_ordered() && !hasty.iter().any(|m| self.planted(*m))
    }

    /// After the block layer has moved: wakes who waited for a dispatch, sets the timers of requeues.
    fn retries(&mut self) {
        for group in std::mem::take(&mut self.block.dispatched) {
            self.wake_all(group.done());
        }
        for queue in std::mem::take(&mut self.block.retry) {
            self.schedule(self.now + self.setup.limits.requeue_ns, Timer::Queue(queue));
        }
    }

    /// Fresh contents for `blocks` blocks.
    pub(crate) fn tokens(&mut self, blocks: u32) -> Token {
        self.block.device.tokens(blocks)
    }

    /// When something happens next by itself.
    pub(crate) fn next(&self) -> Option<Nanos> {
        let timer = self.timers.peek().map(|Reverse((t, _, _))| *t);
        let device = self.block.device.next_event().map(|t| t.max(self.now));
        [timer, device, self.cpu.next()].into_iter().flatten().min()
    }

    /// Does everything due at `t`; tasks that can go on are in `ready` then.
    pub(crate) fn advance(&mut self, t: Nanos) {
        self.now = t;
        self.steps += 1;
        if self.block.device.next_event().is_some_and(|d| d <= t) {
            let mut done = std::mem::take(&mut self.done);
            self.block.advance(t, &self.who, &mut done);
            self.retries();
            for group in done.drain(..) {
                self.wake_all(group.done());
            }
            self.done = done;
        }
        if self.cpu.next().is_some_and(|c| c <= t) {
            let mut ended = std::mem::take(&mut self.ended);
            self.cpu.advance(t, &mut ended);
            self.ready.extend(ended.drain(..));
            self.ended = ended;
        }
        while let Some(Reverse((due, _, timer))) = self.timers.peek().copied() {
            if due > t {
                break;
            }
            self.timers.pop();
            match timer {
                Timer::Wake(task) => self.ready.push_back(task),
                Timer::Queue(queue) => {
                    self.block.resume(queue, t, &self.who);
                    self.retries();
                }
            }
        }
    }

    /// Puts a metadata block in the running transaction of journal `j`; its tid.
    pub(crate) fn join(&mut self, j: usize, meta: MetaId) -> Tid {
        let tid = self.journals[j].running.tid;
        let m = &mut self.files.metas[meta as usize];
        if m.running != tid {
            m.running = tid;
            self.journals[j].join(meta);
        }
        tid
    }

    /// A counter for programs.
    pub(crate) fn event(&mut self, event: u32) -> &mut (u64, Vec<(u64, TaskId)>) {
        let i = event as usize;
        if self.events.len() <= i {
            self.events.resize(i + 1, (0, Vec::new()));
        }
        &mut self.events[i]
    }

    /// Raises a counter; tasks that wait for the value go on.
    pub(crate) fn post(&mut self, event: u32, by: u64) {
        let e = self.event(event);
        e.0 += by;
        let value = e.0;
        let mut due: Vec<TaskId> = Vec::new();
        e.1.retain(|(v, task)| {
            if *v <= value {
                due.push(*task);
            }
            *v > value
        });
        self.wake_all(due);
    }
}
