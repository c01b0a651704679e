//! FLUSH and FUA: when is a completed write safe.

use super::{Event, FlushJob, Ssd};
use crate::command::{Command, Nanos, Op};
use crate::mutation::Mutation;
use crate::order::Resolved;
use crate::regime::Regime;

impl Ssd {
    pub(super) fn flush(&mut self, c: &Command, start: Nanos) {
        let i = self.begin(c.id);
        self.stats.flushes += 1;
        self.stats.fua_flushes += u64::from(matches!(c.op, Op::FlushForFua { .. }));
        if !self.regime.honours_flush() {
            self.schedule(start, Event::Complete(i));
            return;
        }
        let mut stream = None;
        if let (Regime::Streams, Some(tag)) = (self.regime, c.tags.major) {
            match self.ftl.order.resolve(tag) {
                None => {
                    self.inflight[i as usize].status =
                        crate::command::Status::EpochOutOfWindow { stream: tag.stream };
                    self.schedule(start, Event::Complete(i));
                    return;
                }
                Some(found) => {
                    stream = Some(found);
                    let tags = Resolved { major: found, ..Resolved::UNTAGGED };
                    self.ftl.order.arrive(tags, 0);
                    if self.is_barrier(&c.tags) {
                        self.ftl.barrier(tags, &c.tags);
                    }
                }
            }
        }
        let global = stream.is_none();
        if self.ftl.mutation == Some(Mutation::FlushWithoutIds) {
            stream = None;
        }
        let f = &self.ftl;
        let (untagged, mut tagged) = (f.untagged.next(), if global { f.tagged.next() } else { 0 });
        if f.mutation == Some(Mutation::FlushWithoutIds) {
            tagged = f.tagged.next();
        }
        let clean = f.untagged.floor() >= untagged
            && f.tagged.floor() >= f.tagged.next()
            && f.journal.persisted() >= f.journal.next();
        let f = &self.profile.flush;
        let (overhead, overlap) = match c.op {
            // The drain begins with the flush instead of the write: as much later as it is shorter.
            Op::FlushForFua { since } => {
                let command_ns = self.profile.host.command_ns;
                let late = start.saturating_sub(since.saturating_add(command_ns));
                (f.fua_overhead_ns.saturating_sub(late), 0)
            }
            _ if clean || self.profile.power.plp => (f.clean_ns, 0),
            _ => (f.overhead_ns, f.overlap_ns),
        };
        self.flushes.push_back(FlushJob {
            command: i,
            untagged,
            tagged,
            stream,
            journal: None,
            start,
            overhead,
            overlap,
        });
        self.pump(start);
    }

    /// Whether all that the flush covers is in the map (or, protected, in order in the cache).
    fn drained(&self, job: &FlushJob) -> bool {
        let f = &self.ftl;
        if f.mutation == Some(Mutation::FlushBeforeSuspended) {
            // The buffer is emptied; what is under way or suspended is not waited for.
            return f.untagged.floor() >= job.untagged && f.cache.dirty() == 0;
        }
        f.untagged.floor() >= job.untagged
            && f.tagged.floor() >= job.tagged
            && job.stream.is_none_or(|s| f.order.mapped_before(s))
    }

    /// Whether a waiting flush needs partly filled units written.
    pub(super) fn flush_drains(&self) -> bool {
        let Some(job) = self.flushes.front() else { return false };
        if self.flush_ending || job.journal.is_some() {
            return false;
        }
        match self.ftl.cache.first_dirty() {
            None => false,
            Some(_) if job.stream.is_some() || self.ftl.mutation.is_some() => true,
            Some(e) if e.tags.is_tagged() => e.ticket < job.tagged,
            Some(e) => e.ticket < job.untagged,
        }
    }

    pub(super) fn flush_awaits_journal(&self) -> bool {
        self.flushes.front().is_some_and(|j| j.journal.is_some()) && !self.flush_ending
    }

    /// Moves the front flush on; true if it has come to an end.
    pub(super) fn step_flush(&mut self, t: Nanos) {
        if self.flush_ending {
            return;
        }
        let Some(job) = self.flushes.front() else { return };
        if job.journal.is_none() {
            if !self.drained(job) {
                return;
            }
            let plp = self.profile.power.plp;
            let early = self.ftl.mutation == Some(Mutation::FlushBeforeJournal);
            let position = if plp || early { 0 } else { self.ftl.journal.next() };
            if let Some(job) = self.flushes.front_mut() {
                job.journal = Some(position);
            }
        }
        let Some(job) = self.flushes.front() else { return };
        if job.journal.is_some_and(|j| self.ftl.journal.persisted() < j) {
            return;
        }
        let end = t.max(job.start) + job.overhead;
        let (command, overlap) = (job.command, job.overlap);
        self.flush_ending = true;
        self.schedule(end, Event::Complete(command));
        self.schedule(end.saturating_sub(overlap), Event::NextFlush);
    }

    /// FUA writes whose blocks have become durable.
    pub(super) fn step_fua(&mut self, t: Nanos) {
        while let Some(i) = self.ftl.fua_done.pop() {
            let f = &mut self.inflight[i as usize];
            f.fua_left -= 1;
            if f.fua_left > 0 {
                continue;
            }
            if self.profile.power.plp {
                let end = t.max(f.host_done) + self.profile.flush.fua_overhead_ns;
                self.schedule(end, Event::Complete(i));
            } else {
                self.journal_waiters.push_back((self.ftl.journal.next(), i));
            }
        }
        while let Some((position, i)) = self.journal_waiters.front().copied() {
            if self.ftl.journal.persisted() < position {
                return;
            }
            self.journal_waiters.pop_front();
            let end = t.max(self.inflight[i as usize].host_done) + self.profile.flush.fua_overhead_ns;
            self.schedule(end, Event::Complete(i));
        }
    }
}
