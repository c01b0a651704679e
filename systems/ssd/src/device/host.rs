//! The host side: fetching commands, reads, taking writes into the cache.

use super::{Event, NO_FUA, Ssd};
use crate::command::{BLOCK_BYTES, Command, Nanos, Op, Status, Tags, Token};
use crate::ftl::Place;
use crate::mutation::Mutation;
use crate::order::Resolved;
use crate::regime::Regime;

/// The only stream of the `barrier` regime.
const BARRIER_STREAM: u32 = 0;
const NO_TAGS: Tags = Tags { major: None, minor: None, barrier: true };

impl Ssd {
    /// When the controller takes its next command.
    pub(super) fn fetch_time(&self) -> Option<Nanos> {
        let queue = *self.active.front()?;
        let (submitted, _) = self.queues[usize::from(queue)].front()?;
        Some((*submitted).max(self.controller_free))
    }

    /// Takes one command: round robin over the queues that hold one.
    pub(super) fn fetch(&mut self, t: Nanos) {
        let Some(queue) = self.active.pop_front() else { return };
        let Some((_, command)) = self.queues[usize::from(queue)].pop_front() else { return };
        if !self.queues[usize::from(queue)].is_empty() {
            self.active.push_back(queue);
        }
        self.queued -= 1;
        self.stats.commands += 1;
        self.controller_free = t + self.profile.host.command_ns + self.wake_up(t);
        self.last_activity = t;
        let start = self.controller_free;
        match command.op {
            Op::Read { want_tokens } => self.read(&command, want_tokens, start),
            Op::Flush | Op::FlushForFua { .. } => self.flush(&command, start),
            Op::CloseStream => {
                let i = self.begin(command.id);
                if let (Regime::Streams, Some(tag)) = (self.regime, command.tags.major) {
                    self.ftl.close_stream(tag.stream);
                    self.pump(start);
                }
                self.schedule(start, Event::Complete(i));
            }
            Op::Barrier if !self.orders(&command) => self.flush(&command, start),
            Op::Write { .. } | Op::Discard | Op::WriteZeroes { .. } | Op::Barrier => {
                if self.stalled.is_empty() && self.has_space(&command) {
                    self.write(&command, start);
                } else {
                    self.stats.stalled_writes += 1;
                    self.stalled.push_back(command);
                }
                self.pump(start);
            }
        }
    }

    /// Time to leave an idle state, if the device is in one.
    fn wake_up(&self, t: Nanos) -> Nanos {
        let p = &self.profile.power;
        if !p.idle_states || self.pending > 0 {
            return 0;
        }
        let idle = t - self.last_activity.min(t);
        if p.deep_after_ns > 0 && idle >= p.deep_after_ns {
            p.deep_wake_ns
        } else if idle >= p.idle_after_ns {
            p.idle_wake_ns
        } else {
            0
        }
    }

    fn has_space(&self, c: &Command) -> bool {
        let cache = &self.ftl.cache;
        // One queue: all that is waited for has arrived, so a full suspension list drains by itself.
        let (waiting, limit) = self.suspension();
        if self.regime == Regime::Barrier && c.op != Op::Barrier && waiting > 0 && waiting + c.blocks > limit
        {
            return false;
        }
        !matches!(c.op, Op::Write { .. }) || cache.used == 0 || cache.used + c.blocks <= cache.capacity
    }

    /// Blocks that wait for earlier epochs, and how many may.
    fn suspension(&self) -> (u32, u32) {
        let cache = &self.ftl.cache;
        let most = self.profile.ftl.suspended_blocks_max;
        if self.profile.power.plp {
            // Protected data waits in the cache, half of which must stay in motion.
            (cache.waiting + cache.uncommitted, most.min(cache.capacity / 2))
        } else {
            (cache.waiting, most)
        }
    }

    fn read(&mut self, c: &Command, want_tokens: bool, start: Nanos) {
        let i = self.begin(c.id);
        let mut tokens = want_tokens.then(|| Vec::with_capacity(c.blocks as usize));
        let mut ready = start;
        let (mut page, mut page_blocks) = (u32::MAX, 0u64);
        let mut missing = 0u64;
        self.stats.host_read_blocks += u64::from(c.blocks);
        for lpn in c.lba as u32..c.lba as u32 + c.blocks {
            let token = match self.ftl.locate(lpn) {
                Place::Unmapped => {
                    self.stats.unmapped_read_blocks += 1;
                    Token::ZERO
                }
                Place::Cache(token) => {
                    self.stats.cache_hit_blocks += 1;
                    token
                }
                Place::Flash(slot) => {
                    missing += 1;
                    let at = self.ftl.flash.geo.page_of(slot);
                    if at != page {
                        ready = ready.max(self.read_page(page, page_blocks, start));
                        (page, page_blocks) = (at, 0);
                    }
                    page_blocks += 1;
                    match self.ftl.flash.read(slot) {
                        Some(content) if content.lpn == lpn => content.token,
                        _ => {
                            self.inflight[i as usize].status = Status::MediaError { lba: u64::from(lpn) };
                            Token::ZERO
                        }
                    }
                }
            };
            if let Some(tokens) = &mut tokens {
                tokens.push(token);
            }
        }
        ready = ready.max(self.read_page(page, page_blocks, start));
        if missing > 0
            && let Some(end) = self.lines.access(start, c.lba, u64::from(c.blocks))
        {
            ready = end;
        }
        self.inflight[i as usize].tokens = tokens.map(Vec::into_boxed_slice);
        let sent = self.lines.send(start, ready, u64::from(c.blocks) * BLOCK_BYTES);
        self.schedule(sent + self.profile.host.read_ns, Event::Complete(i));
    }

    fn read_page(&mut self, page: u32, blocks: u64, start: Nanos) -> Nanos {
        if page == u32::MAX || self.profile.media.rotation.is_some() {
            return start;
        }
        self.stats.page_reads += 1;
        let (die, plane) = self.ftl.flash.geo.plane_of_page(page);
        self.lines.read_page(die, plane, start, blocks * BLOCK_BYTES)
    }

    /// The order this device sees in a command; None if its epoch is out of reach.
    fn resolve(&mut self, tags: &Tags) -> Result<Resolved, Status> {
        let mut resolved = Resolved::UNTAGGED;
        match self.regime {
            Regime::None | Regime::Flush => {}
            Regime::Barrier => {
                self.ftl.order.open(BARRIER_STREAM);
                resolved.major = (BARRIER_STREAM, self.barrier_epoch);
            }
            Regime::Streams => {
                let minor = tags.minor.filter(|_| self.ftl.mutation != Some(Mutation::MinorIgnored));
                for (tag, out) in [(tags.major, &mut resolved.major), (minor, &mut resolved.minor)] {
                    if let Some(tag) = tag {
                        let found = self.ftl.order.resolve(tag);
                        *out = found.ok_or(Status::EpochOutOfWindow { stream: tag.stream })?;
                    }
                }
            }
        }
        Ok(resolved)
    }

    /// What the flag means after the planted host bug.
    pub(super) fn is_barrier(&self, tags: &Tags) -> bool {
        tags.barrier && self.ftl.mutation != Some(Mutation::BarrierBitDropped)
    }

    fn admit(&mut self, c: &Command) -> Result<Resolved, Status> {
        let tags = self.resolve(&c.tags)?;
        let (waiting, limit) = self.suspension();
        let streams = self.regime == Regime::Streams && tags.is_tagged();
        if streams && waiting + c.blocks > limit && !self.ftl.order.ready(tags) {
            if self.ftl.mutation != Some(Mutation::RingFullForcesEpoch) {
                return Err(Status::SuspensionFull { limit });
            }
            self.ftl.force_forward(tags);
        }
        Ok(tags)
    }

    /// Takes a write or a trim in; there is space.
    pub(super) fn write(&mut self, c: &Command, start: Nanos) {
        if c.op == Op::Barrier {
            return self.barrier(c, start);
        }
        let i = self.begin(c.id);
        let (token, fua) = match c.op {
            Op::Write { token, fua } => (Some(token), fua),
            Op::WriteZeroes { fua } => (None, fua),
            _ => (None, false),
        };
        let tags = match self.admit(c) {
            Ok(tags) => tags,
            Err(status) => {
                self.inflight[i as usize].status = status;
                self.schedule(start, Event::Complete(i));
                return;
            }
        };
        let moved = if token.is_some() { u64::from(c.blocks) * BLOCK_BYTES } else { 0 };
        let host_done = self.lines.receive(start, moved) + self.profile.host.write_ns;
        let fua = fua && self.regime.honours_flush();
        let told = if fua { i } else { NO_FUA };
        if fua {
            self.stats.fua_writes += 1;
            let f = &mut self.inflight[i as usize];
            f.fua_left = if token.is_some() { c.blocks } else { 1 };
            f.host_done = host_done;
        }
        self.ftl.order.arrive(tags, if token.is_some() { c.blocks } else { 1 });
        let lpn = c.lba as u32;
        match token {
            Some(token) => {
                self.stats.host_write_blocks += u64::from(c.blocks);
                for b in 0..c.blocks {
                    self.ftl.accept_write(lpn + b, Token(token.0 + u64::from(b)), tags, told);
                }
            }
            None => {
                self.stats.trimmed_blocks += u64::from(c.blocks);
                self.ftl.accept_trim(lpn, c.blocks, tags, told);
            }
        }
        self.end_epoch(tags, &c.tags);
        self.ftl.settle();
        self.last_write = start;
        self.folding = false;
        if !fua {
            self.schedule(host_done, Event::Complete(i));
        }
    }

    /// Whether a barrier by itself means something here.
    fn orders(&self, c: &Command) -> bool {
        match self.regime {
            Regime::None | Regime::Flush => false,
            Regime::Barrier => true,
            Regime::Streams => c.tags.major.is_some(),
        }
    }

    /// Ends an epoch without a write.
    fn barrier(&mut self, c: &Command, start: Nanos) {
        let i = self.begin(c.id);
        match self.resolve(&c.tags) {
            Err(status) => self.inflight[i as usize].status = status,
            Ok(tags) => {
                self.ftl.order.arrive(tags, 0);
                self.end_epoch(tags, &Tags { barrier: true, ..c.tags });
            }
        }
        self.schedule(start, Event::Complete(i));
    }

    fn end_epoch(&mut self, tags: Resolved, host: &Tags) {
        if !tags.is_tagged() || !self.is_barrier(host) {
            return;
        }
        // With one queue the barrier is the last of its epoch to arrive: no count is needed.
        let single = self.regime == Regime::Barrier;
        self.ftl.barrier(tags, if single { &NO_TAGS } else { host });
        self.barrier_epoch += u64::from(single);
    }

    /// Lets stalled writes in, in order, as far as there is space.
    pub(super) fn unstall(&mut self, t: Nanos) {
        while let Some(c) = self.stalled.front() {
            if !self.has_space(c) {
                return;
            }
            if let Some(c) = self.stalled.pop_front() {
                self.write(&c, t.max(self.now));
            }
        }
    }
}
