//! Dispatch: ids are taken, the command goes to the device, and comes back.

use std::rc::Rc;

use ssd::{Nanos, Tags, Token};

use super::{Block, TaskLabel};
use crate::mutation::Mutation;
use crate::request::{Request, Verb};
use crate::sync::Group;
use crate::trace::{Entry, Kind};

impl Block {
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

    pub(super) fn dispatch(
        &mut self,
        mut r: Request,
        queue: u16,
        now: Nanos,
        who: &[TaskLabel],
    ) -> Result<(), Box<Request>> {
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

    fn note(&mut self, r: &Request, id: u64, tags: Tags, queue: u16, now: Nanos, who: &[TaskLabel]) {
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
    pub(crate) fn advance(&mut self, now: Nanos, who: &[TaskLabel], done: &mut Vec<Rc<Group>>) {
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

    fn next_flush(&mut self, ended: &Request, queue: u16, now: Nanos, who: &[TaskLabel]) {
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
