//! The block layer: plug lists, software queues of cores, tag sets, hardware queues; ids are allotted at dispatch.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use ssd::tags::EpochCounters;
use ssd::{Nanos, Tags, Token};
use stats::rng::SplitMix;

use crate::device::Device;
use crate::mutation::Mutation;
use crate::request::{Request, Verb};
use crate::setup::Limits;
use crate::sync::{Group, TaskId};
use crate::trace::{Entry, Kind, Trace};

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
pub(crate) struct Who {
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

    /// The task's requests gather in a list from here on.
    pub(crate) fn plug(&mut self, task: TaskId) {
        let task = task as usize;
        if self.plugs.len() <= task {
            self.plugs.resize(task + 1, None);
        }
        self.plugs[task] = Some(Vec::new());
    }

    /// Takes a request into the task's plug list, or sends it.
    pub(crate) fn bio(&mut self, request: Request, now: Nanos, who: &[Who]) {
        let before = request.blocks;
        for part in request.split(self.shape.limits.command_blocks) {
            self.stats.split += u64::from(part.blocks < before);
            self.part(self.damaged(part), now, who);
        }
    }

    /// What the planted bugs of splitting do to a fragment.
    fn damaged(&self, mut part: Request) -> Request {
        if self.planted(Mutation::SplitDropsIds) && part.blocks == self.shape.limits.command_blocks {
            (part.stream, part.minor) = (None, None);
        }
        part
    }

    fn part(&mut self, request: Request, now: Nanos, who: &[Who]) {
        let (lax, limits) = (self.planted(Mutation::MergeAcrossEpochs), self.shape.limits);
        let Some(Some(plug)) = self.plugs.get_mut(request.task as usize) else {
            self.enqueue(request, now, who);
            return;
        };
        if let Some(last) = plug.last_mut()
            && last.may_merge(&request, lax)
            && last.blocks + request.blocks <= limits.command_blocks
        {
            last.merge(request);
            self.stats.merged += 1;
        } else {
            plug.push(request);
        }
        let full =
            plug.len() >= limits.plug_requests || plug.last().is_some_and(|r| r.blocks >= limits.plug_blocks);
        if full {
            let list = std::mem::take(plug);
            self.send_all(list, now, who);
        }
    }

    fn send_all(&mut self, list: Vec<Request>, now: Nanos, who: &[Who]) {
        for r in list {
            self.enqueue(r, now, who);
        }
    }

    /// The task is scheduled out: its plug list is sent, its epoch stays open.
    pub(crate) fn schedule_out(&mut self, task: TaskId, now: Nanos, who: &[Who]) {
        if let Some(Some(plug)) = self.plugs.get_mut(task as usize) {
            let list = std::mem::take(plug);
            self.send_all(list, now, who);
        }
    }

    /// Ends the plug list; with `barrier` its last request ends the epoch of `stream`.
    pub(crate) fn unplug(&mut self, end: &Request, barrier: bool, now: Nanos, who: &[Who]) {
        let Some(Some(mut list)) = self.plugs.get_mut(end.task as usize).map(Option::take) else { return };
        if !barrier {
            return self.send_all(list, now, who);
        }
        let first = self.planted(Mutation::SplitBarrierFirst);
        if let Some(last) = if first { list.first_mut() } else { list.last_mut() } {
            last.barrier = true;
            return self.send_all(list, now, who);
        }
        // All of it was sent early, without a barrier: one by itself.
        if !self.planted(Mutation::BarrierLostWithPlug) {
            end.groups.iter().chain(&end.on_dispatch).for_each(|g| g.add());
            self.enqueue(Request { barrier: true, ..end.clone() }, now, who);
        }
    }

    /// Puts a request in a software queue and runs the hardware queue behind it.
    pub(crate) fn enqueue(&mut self, mut request: Request, now: Nanos, who: &[Who]) {
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
    pub(crate) fn run(&mut self, queue: u16, now: Nanos, who: &[Who]) {
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
    pub(crate) fn resume(&mut self, queue: u16, now: Nanos, who: &[Who]) {
        self.hardware[usize::from(queue)].held = false;
        self.run(queue, now, who);
    }

    /// The ids of a request, taken at its dispatch; both streams of a dual write at once.
    fn allot(&mut self, r: &Request) -> Tags {
        if self.shape.barriers {
            if matches!(r.verb, Verb::Write { .. } | Verb::Barrier) {
                self.epoch_open = !r.barrier;
            }
            return Tags { barrier: r.barrier, ..Tags::default() };
        }
        let Some(stream) = r.stream.filter(|_| self.shape.streams) else { return Tags::default() };
        match r.verb {
            Verb::Flush => self.counters.flush(stream),
            Verb::Close => Tags { major: Some(ssd::StreamTag::new(stream, 0)), ..Tags::default() },
            Verb::Barrier => self.counters.write(stream, r.minor, true),
            Verb::Read => Tags::default(),
            Verb::Write { .. } => self.counters.write(stream, r.minor, r.barrier),
        }
    }

    /// What the planted bugs put in the command.
    fn sent_tags(&self, r: &Request, mut tags: Tags) -> Tags {
        match self.shape.mutation {
            Some(Mutation::BarrierBitNotSent) => tags.barrier = false,
            Some(Mutation::FlushWithoutIds) if r.verb == Verb::Flush => tags = Tags::default(),
            Some(Mutation::EpochShort) => {
                for t in [&mut tags.major, &mut tags.minor].into_iter().flatten() {
                    t.epoch &= 15;
                }
            }
            Some(Mutation::StreamId16) => {
                for t in [&mut tags.major, &mut tags.minor].into_iter().flatten() {
                    t.stream &= 0xffff;
                }
            }
            Some(Mutation::BarrierWithoutMembers) => {
                for t in [&mut tags.major, &mut tags.minor].into_iter().flatten() {
                    t.members = 0;
                }
            }
            Some(Mutation::MinorReadEarly) if r.verb == (Verb::Write { fua: false }) => {
                if let Some(t) = &mut tags.minor {
                    t.epoch = t.epoch.wrapping_add(1);
                }
            }
            _ => {}
        }
        tags
    }

    fn dispatch(&mut self, mut r: Request, queue: u16, now: Nanos, who: &[Who]) -> Result<(), Box<Request>> {
        if self.planted(Mutation::RequeueTakesNewIds) && r.verb == (Verb::Write { fua: false }) {
            r.sent = None;
        }
        let (id, tags) = match r.sent {
            Some(sent) => sent,
            None => {
                if self.shape.pinning && matches!(r.verb, Verb::Write { .. } | Verb::Barrier) {
                    self.unpin(&r);
                }
                let tags = self.allot(&r);
                let id = self.device.new_id();
                let honest = tags;
                let tags = self.sent_tags(&r, tags);
                self.device.announce(&r, id, honest, queue);
                if r.verb == Verb::Close
                    && let Some(stream) = r.stream
                {
                    self.counters.close(stream);
                }
                self.note(&r, id, tags, queue, now, who);
                self.dispatched.append(&mut r.on_dispatch);
                r.sent = Some((id, tags));
                r.dispatched_at = now;
                (id, tags)
            }
        };
        if self.shape.shortage > 0.0
            && (self.rng.below(1 << 20) as f64) < self.shape.shortage * f64::from(1 << 20)
        {
            return Err(Box::new(r));
        }
        self.device.submit(r, id, tags, queue, now)?;
        self.stats.commands += 1;
        self.hardware[usize::from(queue)].in_flight += 1;
        Ok(())
    }

    fn note(&mut self, r: &Request, id: u64, tags: Tags, queue: u16, now: Nanos, who: &[Who]) {
        if !self.trace.on {
            return;
        }
        let w = who[r.task as usize];
        let (kind, fua) = match r.verb {
            Verb::Read => (Kind::Read, false),
            Verb::Write { fua } => (Kind::Write, fua),
            Verb::Flush => (Kind::Flush, false),
            Verb::Barrier | Verb::Close => (Kind::Other, false),
        };
        let entry = Entry {
            at: now,
            done_at: 0,
            name: w.name,
            pid: w.pid,
            core: w.core,
            tags,
            queue: queue + 1,
            kind,
            fua,
            lba: r.lba,
            blocks: r.blocks,
            id,
        };
        self.trace.entries.push(entry);
    }

    /// Requests that have ended by `now`; appends the groups that are done with one more request.
    pub(crate) fn advance(&mut self, now: Nanos, who: &[Who], done: &mut Vec<Rc<Group>>) {
        let mut ended = Vec::new();
        self.device.advance(now, &mut ended);
        for (mut r, queue, at, accepted) in ended {
            let hw = &mut self.hardware[usize::from(queue)];
            hw.in_flight -= 1;
            hw.held = false;
            if !accepted {
                // The suspension list was full: again, with the same ids.
                if let Some((id, tags)) = r.sent {
                    r.sent = Some((self.device.renamed(id), tags));
                }
                self.hardware[usize::from(queue)].requeued.push_back(r);
                self.run(queue, now, who);
                continue;
            }
            if self.trace.on
                && let Some((id, _)) = r.sent
                && let Some(e) = self.trace.entries.iter_mut().rev().find(|e| e.id == id)
            {
                e.done_at = at;
            }
            if r.verb == Verb::Flush && r.stream.is_none() {
                self.next_flush(&r, queue, now, who);
            }
            done.append(&mut r.groups);
            self.run(queue, now, who);
        }
    }

    fn next_flush(&mut self, ended: &Request, queue: u16, now: Nanos, who: &[Who]) {
        let hw = &mut self.hardware[usize::from(queue)];
        hw.flushing = false;
        let groups = std::mem::take(&mut hw.next_flush);
        if groups.is_empty() {
            return;
        }
        let mut next = Request::new(Verb::Flush, ended.task, 0, 0, Token::ZERO);
        (next.groups, next.core) = (groups, ended.core);
        self.enqueue(next, now, who);
    }
}
