//! The block layer: plug lists, software queues of cores, tag sets, hardware queues; ids are allotted at dispatch.

mod dispatch;
mod plug;

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use ssd::Nanos;
use ssd::tags::EpochCounters;
use stats::rng::SplitMix;

use crate::device::Device;
use crate::mutation::Mutation;
use crate::request::{Request, Verb};
use crate::setup::Limits;
use crate::sync::Group;
use crate::trace::Trace;

/// What the block layer is built from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) cores: u16,
    pub(crate) queues: u16,
    /// Commands in flight on each hardware queue.
    pub(crate) tags: u32,
    /// Ordered requests of an epoch stay on one queue.
    pub(crate) pinning: bool,
    /// Chance that a dispatch meets a shortage of resources and is requeued.
    pub(crate) shortage: f64,
    /// Whether the device reads stream tags.
    pub(crate) streams: bool,
    /// Whether the device reads the barrier flag alone (one queue).
    pub(crate) barriers: bool,
    pub(crate) limits: Limits,
    pub(crate) mutation: Option<Mutation>,
}

/// One hardware queue.
#[derive(Debug, Default)]
struct Hardware {
    /// Requeued requests: dispatched once, with ids, not accepted.
    requeued: VecDeque<Request>,
    in_flight: u32,
    /// A flush for untagged callers is under way; these wait for the next one.
    flushing: bool,
    next_flush: Vec<Rc<Group>>,
    /// Waits for the requeue timer or a completion.
    held: bool,
}

/// Counters of the block layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockStats {
    /// Commands dispatched.
    pub commands: u64,
    /// Requests merged into another.
    pub merged: u64,
    /// Fragments that splitting added.
    pub split: u64,
    /// Dispatches that were requeued.
    pub requeued: u64,
    /// Ordered requests that were sent to another queue than their core's.
    pub pinned_away: u64,
    /// Flushes that were joined with another.
    pub joined_flushes: u64,
}

#[derive(Debug)]
pub(crate) struct Block {
    shape: Shape,
    pub(crate) device: Device,
    plugs: Vec<Option<Vec<Request>>>,
    software: Vec<VecDeque<Request>>,
    hardware: Vec<Hardware>,
    pub(crate) counters: EpochCounters,
    pub(crate) trace: Trace,
    pub(crate) stats: BlockStats,
    rng: SplitMix,
    /// With a barrier flag alone: a write has been dispatched since the last barrier.
    pub(crate) epoch_open: bool,
    /// Groups that wait for a dispatch that has happened.
    pub(crate) dispatched: Vec<Rc<Group>>,
    /// Per stream: pinned requests that wait for their ids, and their core.
    undispatched: HashMap<u32, (u32, u16)>,
    /// Queues to try again after the requeue delay.
    pub(crate) retry: Vec<u16>,
}

/// A task as the trace shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskLabel {
    pub(crate) name: &'static str,
    pub(crate) pid: u32,
    pub(crate) core: u16,
}

impl Block {
    pub(crate) fn new(shape: Shape, device: Device, seed: u64) -> Block {
        Block {
            software: (0..shape.cores).map(|_| VecDeque::new()).collect(),
            hardware: (0..shape.queues).map(|_| Hardware::default()).collect(),
            shape,
            device,
            plugs: Vec::new(),
            counters: EpochCounters::default(),
            trace: Trace::default(),
            stats: BlockStats::default(),
            rng: SplitMix::new(seed ^ 0xb10c),
            epoch_open: false,
            undispatched: HashMap::new(),
            dispatched: Vec::new(),
            retry: Vec::new(),
        }
    }

    fn planted(&self, mutation: Mutation) -> bool {
        self.shape.mutation == Some(mutation)
    }

    fn queue_of(&self, core: u16) -> u16 {
        core % self.shape.queues
    }

    /// Puts a request in a software queue and runs the hardware queue behind it.
    pub(crate) fn enqueue(&mut self, mut request: Request, now: Nanos, who: &[TaskLabel]) {
        let here = request.core;
        if let Some(stream) = request.stream.filter(|_| self.shape.pinning && self.shape.streams)
            && matches!(request.verb, Verb::Write { .. } | Verb::Barrier)
        {
            let skipped = self.planted(Mutation::CachedRequestSkipsPin) && !request.barrier;
            if !skipped {
                request.core = self.pin(stream, here);
                self.stats.pinned_away += u64::from(request.core != here);
            }
        }
        if request.verb == Verb::Flush && request.stream.is_none() {
            let queue = usize::from(self.queue_of(request.core));
            let hw = &mut self.hardware[queue];
            if hw.flushing {
                hw.next_flush.append(&mut request.groups);
                self.stats.joined_flushes += 1;
                return;
            }
            hw.flushing = true;
        }
        let queue = self.queue_of(request.core);
        let lax = self.planted(Mutation::MergeAcrossEpochs);
        let waiting = &mut self.software[usize::from(request.core)];
        match waiting.back_mut() {
            Some(last)
                if last.may_merge(&request, lax)
                    && last.blocks + request.blocks <= self.shape.limits.command_blocks =>
            {
                if let Some(stream) = request.stream
                    && let Some(waiting) = self.undispatched.get_mut(&stream)
                {
                    waiting.0 -= 1;
                }
                last.merge(request);
                self.stats.merged += 1;
            }
            _ => waiting.push_back(request),
        }
        self.run(queue, now, who);
    }

    /// The core whose queue an ordered request takes: that of the stream's requests that still wait for their ids, else
    /// that of its open epoch. (Another thread's dual write may end the epoch while requests wait.)
    fn pin(&mut self, stream: u32, here: u16) -> u16 {
        let waiting = self.undispatched.get(&stream).copied();
        let core = waiting.map_or_else(|| self.counters.pin(stream, here), |(_, core)| core);
        self.undispatched.entry(stream).or_insert((0, core)).0 += 1;
        core
    }

    /// A pinned request gets its ids: it binds the epoch that it joins.
    fn unpin(&mut self, r: &Request) {
        let Some(stream) = r.stream else { return };
        if let Some((count, core)) = self.undispatched.get_mut(&stream) {
            *count -= 1;
            let (left, core) = (*count, *core);
            if left == 0 {
                self.undispatched.remove(&stream);
            }
            self.counters.pin(stream, core);
        }
    }

    /// Sends what a hardware queue can take: requeued requests first, then those of its cores.
    pub(crate) fn run(&mut self, queue: u16, now: Nanos, who: &[TaskLabel]) {
        if self.hardware[usize::from(queue)].held {
            return;
        }
        while self.hardware[usize::from(queue)].in_flight < self.shape.tags {
            let next = self.hardware[usize::from(queue)].requeued.pop_front();
            let next = next.or_else(|| {
                let mut cores = (queue..self.shape.cores).step_by(usize::from(self.shape.queues));
                cores.find_map(|core| self.software[usize::from(core)].pop_front())
            });
            let Some(request) = next else { return };
            if let Err(request) = self.dispatch(request, queue, now, who) {
                self.stats.requeued += 1;
                let hw = &mut self.hardware[usize::from(queue)];
                hw.requeued.push_front(*request);
                hw.held = true;
                self.retry.push(queue);
                return;
            }
        }
    }

    /// The requeue delay is over.
    pub(crate) fn resume(&mut self, queue: u16, now: Nanos, who: &[TaskLabel]) {
        self.hardware[usize::from(queue)].held = false;
        self.run(queue, now, who);
    }
}
