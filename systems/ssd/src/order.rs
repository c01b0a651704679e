//! Streams and epochs: when may a programmed page enter the map (OPIMQ, FAST'25 section 5).
//!
//! An epoch is *closed* once its barrier and all its members have arrived, and *mapped* once each member
//! is installed. A write is ready when every earlier epoch of each of its streams is mapped. A write that
//! is on flash before that waits in the list of each epoch that is not yet current; whichever stream
//! becomes current last releases it (sibling-aware delayed mapping).

use std::collections::{HashMap, VecDeque};

use crate::command::{StreamTag, Tags};
use crate::mutation::Mutation;

/// A stream may be this many epochs ahead of the oldest unmapped one.
pub const EPOCHS_AHEAD_MAX: u64 = 1 << 16;

/// Tags with 64-bit epochs; stream `NONE` = no tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) major: (u32, u64),
    pub(crate) minor: (u32, u64),
}

const NONE: u32 = u32::MAX;
const NO_TAG: (u32, u64) = (NONE, 0);

impl Resolved {
    pub(crate) const UNTAGGED: Resolved = Resolved { major: NO_TAG, minor: NO_TAG };

    pub(crate) fn is_tagged(&self) -> bool {
        self.major.0 != NONE
    }

    fn each(self) -> impl Iterator<Item = (u32, u64)> {
        [self.major, self.minor].into_iter().filter(|t| t.0 != NONE)
    }
}

#[derive(Debug, Default)]
struct Epoch {
    /// Blocks accepted and blocks in the map.
    arrived: u32,
    installed: u32,
    commands: u32,
    /// Commands the barrier announced; 0 = not told.
    members: u32,
    barrier: bool,
    waiting: Vec<u32>,
}

impl Epoch {
    fn mapped(&self) -> bool {
        self.barrier && self.commands >= self.members && self.installed == self.arrived
    }
}

#[derive(Debug, Default)]
struct Stream {
    /// The lowest epoch that is not mapped; `epochs[0]`.
    current: u64,
    epochs: VecDeque<Epoch>,
    closing: bool,
}

/// All streams of the device.
#[derive(Debug, Default)]
pub(crate) struct Order {
    streams: HashMap<u32, Stream>,
    pub(crate) mutation: Option<Mutation>,
}

impl Order {
    fn slot_of(&self, stream: u32) -> u32 {
        match self.mutation {
            Some(Mutation::StreamSlotCollision) => stream % 128,
            _ => stream,
        }
    }

    fn lax(&self) -> bool {
        matches!(
            self.mutation,
            Some(
                Mutation::StreamSlotCollision
                    | Mutation::EpochWrap16
                    | Mutation::RingFullForcesEpoch
                    | Mutation::EpochSlotMod128
            )
        )
    }

    /// Widens a host epoch by serial-number arithmetic around the stream's current one; None if it is
    /// already mapped or too far ahead.
    pub(crate) fn resolve(&mut self, tag: StreamTag) -> Option<(u32, u64)> {
        // `NONE` itself is a legal stream id of the host; fold it on the one value nobody minds.
        let stream = self.slot_of(if tag.stream == NONE { NONE - 1 } else { tag.stream });
        let current = self.streams.entry(stream).or_default().current;
        if self.mutation == Some(Mutation::EpochWrap16) {
            return Some((stream, u64::from(tag.epoch as u16)));
        }
        let ahead = tag.epoch.wrapping_sub(current as u32) as i32;
        if self.lax() {
            return Some((stream, current.saturating_add_signed(i64::from(ahead))));
        }
        (ahead >= 0 && (ahead as u64) < EPOCHS_AHEAD_MAX).then(|| (stream, current + ahead as u64))
    }

    /// Makes sure the stream is known.
    pub(crate) fn open(&mut self, stream: u32) {
        self.streams.entry(stream).or_default();
    }

    fn index(&self, current: u64, epoch: u64) -> Option<usize> {
        let ahead = epoch.checked_sub(current)? as usize;
        Some(if self.mutation == Some(Mutation::EpochSlotMod128) { ahead % 128 } else { ahead })
    }

    fn epoch(&mut self, (stream, epoch): (u32, u64)) -> Option<&mut Epoch> {
        let current = self.streams.get(&stream)?.current;
        let i = self.index(current, epoch)?;
        let s = self.streams.get_mut(&stream)?;
        while s.epochs.len() <= i {
            s.epochs.push_back(Epoch::default());
        }
        Some(&mut s.epochs[i])
    }

    /// One command with `blocks` blocks to install belongs to the epochs of `tags`.
    pub(crate) fn arrive(&mut self, tags: Resolved, blocks: u32) {
        for t in tags.each() {
            if let Some(e) = self.epoch(t) {
                e.commands += 1;
                e.arrived += blocks;
            }
        }
    }

    /// One of those blocks replaced a cached one of the same epochs: one less to install.
    pub(crate) fn cancel_install(&mut self, tags: Resolved) {
        for t in tags.each() {
            if let Some(e) = self.epoch(t) {
                e.arrived -= 1;
            }
        }
    }

    /// The barrier of the epochs of `tags` has come. Entries to look at again go to `wake`.
    pub(crate) fn barrier(&mut self, tags: Resolved, host: &Tags, wake: &mut Vec<u32>) {
        for (t, h) in [(tags.major, host.major), (tags.minor, host.minor)] {
            if t.0 == NONE {
                continue;
            }
            if let Some(e) = self.epoch(t) {
                e.barrier = true;
                e.members = h.map_or(0, |h| h.members);
            }
            self.complete(t.0, wake);
        }
    }

    /// Whether all earlier epochs of both streams are mapped.
    pub(crate) fn ready(&self, tags: Resolved) -> bool {
        tags.each().all(|t| self.tag_ready(t))
    }

    fn tag_ready(&self, (stream, epoch): (u32, u64)) -> bool {
        let Some(s) = self.streams.get(&stream) else { return true };
        match self.mutation {
            Some(Mutation::EpochSlotMod128) => epoch <= s.current || (epoch - s.current) % 128 == 0,
            _ => epoch <= s.current,
        }
    }

    /// `entry` is on flash and not ready.
    pub(crate) fn wait(&mut self, entry: u32, tags: Resolved) {
        for t in tags.each() {
            if !self.tag_ready(t)
                && let Some(e) = self.epoch(t)
            {
                e.waiting.push(entry);
            }
        }
    }

    /// One block of those epochs is in the map.
    pub(crate) fn installed(&mut self, tags: Resolved, wake: &mut Vec<u32>) {
        for t in tags.each() {
            if let Some(e) = self.epoch(t) {
                e.installed += 1;
            }
            self.complete(t.0, wake);
        }
    }

    fn complete(&mut self, stream: u32, wake: &mut Vec<u32>) {
        let Some(s) = self.streams.get_mut(&stream) else { return };
        while s.epochs.front().is_some_and(|e| e.mapped() || (s.closing && e.installed == e.arrived)) {
            s.epochs.pop_front();
            s.current += 1;
            if let Some(next) = s.epochs.front_mut() {
                wake.append(&mut next.waiting);
            }
        }
        if s.closing && s.epochs.is_empty() {
            self.streams.remove(&stream);
        }
    }

    /// Breaks the order: every waiting epoch counts as current (only for the planted bug).
    pub(crate) fn force_forward(&mut self, tags: Resolved, wake: &mut Vec<u32>) {
        for (stream, epoch) in tags.each() {
            if let Some(s) = self.streams.get_mut(&stream) {
                while s.current < epoch && !s.epochs.is_empty() {
                    let mut old = s.epochs.pop_front().unwrap_or_default();
                    wake.append(&mut old.waiting);
                    s.current += 1;
                    if let Some(next) = s.epochs.front_mut() {
                        wake.append(&mut next.waiting);
                    }
                }
            }
        }
    }

    /// No more commands of this stream will come.
    pub(crate) fn close(&mut self, stream: u32, wake: &mut Vec<u32>) {
        let stream = self.slot_of(if stream == NONE { NONE - 1 } else { stream });
        if let Some(s) = self.streams.get_mut(&stream) {
            s.closing = true;
        }
        self.complete(stream, wake);
    }

    /// Whether every epoch before this one is mapped.
    pub(crate) fn mapped_before(&self, tag: (u32, u64)) -> bool {
        self.streams.get(&tag.0).is_none_or(|s| s.current >= tag.1)
    }

    /// Streams whose oldest epoch still waits: (stream, epoch, closed, blocks missing from the map).
    pub(crate) fn waiting(&self) -> Vec<(u32, u32, bool, u32)> {
        let mut out: Vec<_> = self
            .streams
            .iter()
            .filter_map(|(id, s)| {
                let e = s.epochs.front()?;
                Some((*id, s.current as u32, e.barrier, e.arrived - e.installed))
            })
            .collect();
        out.sort_unstable();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(order: &mut Order, stream: u32, epoch: u32) -> Resolved {
        let major = order.resolve(StreamTag::new(stream, epoch)).unwrap();
        Resolved { major, minor: NO_TAG }
    }

    fn host(stream: u32, epoch: u32, members: u32) -> Tags {
        Tags { major: Some(StreamTag { stream, epoch, members }), minor: None, barrier: true }
    }

    #[test]
    fn an_epoch_opens_when_the_one_before_is_mapped() {
        let mut o = Order::default();
        let mut wake = vec![];
        let (a, b) = (tag(&mut o, 7, 0), tag(&mut o, 7, 1));
        for t in [a, b] {
            o.arrive(t, 1);
        }
        assert!(o.ready(a) && !o.ready(b));
        o.wait(42, b);
        o.installed(a, &mut wake);
        assert!(wake.is_empty(), "no barrier yet");
        o.barrier(a, &host(7, 0, 1), &mut wake);
        assert_eq!(wake, [42]);
        assert!(o.ready(b));
    }

    #[test]
    fn members_hold_a_barrier_that_overtook() {
        let mut o = Order::default();
        let mut wake = vec![];
        let a = tag(&mut o, 7, 0);
        o.arrive(a, 0);
        o.barrier(a, &host(7, 0, 2), &mut wake);
        let next = tag(&mut o, 7, 1);
        assert!(!o.ready(next));
        o.arrive(a, 1);
        o.installed(a, &mut wake);
        assert!(o.ready(next));
    }

    #[test]
    fn a_dual_write_waits_for_both_streams() {
        let mut o = Order::default();
        let mut wake = vec![];
        let (a0, j0) = (tag(&mut o, 1, 0), tag(&mut o, 2, 0));
        let dual = Resolved { major: o.resolve(StreamTag::new(1, 1)).unwrap(), minor: (2, 1) };
        o.arrive(dual, 1);
        o.wait(5, dual);
        o.barrier(a0, &host(1, 0, 0), &mut wake);
        assert_eq!(wake, [5]);
        assert!(!o.ready(dual));
        wake.clear();
        o.barrier(j0, &host(2, 0, 0), &mut wake);
        assert_eq!(wake, [5]);
        assert!(o.ready(dual));
    }

    #[test]
    fn epochs_wrap_at_32_bits() {
        let mut o = Order::default();
        let s = o.streams.entry(1).or_default();
        s.current = u64::from(u32::MAX);
        assert_eq!(o.resolve(StreamTag::new(1, u32::MAX)), Some((1, u64::from(u32::MAX))));
        assert_eq!(o.resolve(StreamTag::new(1, 3)), Some((1, (1 << 32) + 3)));
        assert_eq!(o.resolve(StreamTag::new(1, u32::MAX - 1)), None);
        assert_eq!(o.resolve(StreamTag::new(1, 1 << 20)), None);
    }

    #[test]
    fn closing_a_stream_frees_it() {
        let mut o = Order::default();
        let mut wake = vec![];
        let (a, b) = (tag(&mut o, 1, 0), tag(&mut o, 1, 2));
        for t in [a, b] {
            o.arrive(t, 1);
        }
        o.wait(9, b);
        o.installed(a, &mut wake);
        o.close(1, &mut wake);
        assert_eq!(wake, [9]);
        o.installed(b, &mut wake);
        assert!(o.streams.is_empty());
    }
}
