//! The host's side of streams and epochs: counters, pinning, and the check of both.

use std::collections::HashMap;

use crate::command::{StreamTag, Tags};

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    epoch: u32,
    members: u32,
    queue: Option<u16>,
}

/// Epoch counters of all streams of a host. Ids are allotted at dispatch, both streams of a dual write at
/// once (OPIMQ, FAST'25 sections 4.3-4.5).
#[derive(Clone, Debug, Default)]
pub struct EpochCounters {
    streams: HashMap<u32, Counter>,
}

impl EpochCounters {
    /// Tags for one write of `major`, ordered in `minor` as well if given; `barrier` ends its epochs.
    pub fn write(&mut self, major: u32, minor: Option<u32>, barrier: bool) -> Tags {
        Tags { major: Some(self.take(major, barrier)), minor: minor.map(|s| self.take(s, barrier)), barrier }
    }

    /// Tags for a flush (or a barrier by itself) of every epoch `stream` has ended: it takes, and ends, an
    /// epoch number of its own (the open one, if that has members; those it does not cover).
    pub fn flush(&mut self, stream: u32) -> Tags {
        let open = self.streams.entry(stream).or_default();
        open.members += 1;
        let tag = StreamTag { stream, epoch: open.epoch, members: open.members };
        *open = Counter { epoch: open.epoch.wrapping_add(1), members: 0, queue: None };
        Tags { major: Some(tag), minor: None, barrier: true }
    }

    fn take(&mut self, stream: u32, barrier: bool) -> StreamTag {
        let c = self.streams.entry(stream).or_default();
        c.members += 1;
        let members = if barrier { c.members } else { 0 };
        let tag = StreamTag { stream, epoch: c.epoch, members };
        if barrier {
            *c = Counter { epoch: c.epoch.wrapping_add(1), members: 0, queue: None };
        }
        tag
    }

    /// Whether the stream's present epoch already has members.
    pub fn is_open(&self, stream: u32) -> bool {
        self.streams.get(&stream).is_some_and(|c| c.members > 0)
    }

    /// Epoch pinning: the queue the stream's present epoch is bound to, `here` if it is not bound yet. Ask
    /// before taking tags: the barrier write releases the binding.
    pub fn pin(&mut self, stream: u32, here: u16) -> u16 {
        *self.streams.entry(stream).or_default().queue.get_or_insert(here)
    }

    /// The stream ends; its counter starts again at 0.
    pub fn close(&mut self, stream: u32) {
        self.streams.remove(&stream);
    }
}

/// Checks a host's tags: P9 (one queue per epoch of a major stream) and P10 (epochs never go back, and
/// advance by one exactly after a barrier).
#[derive(Clone, Debug, Default)]
pub struct TagCheck {
    streams: HashMap<u32, Seen>,
    /// How often a stream was closed: each life is a stream of its own.
    lives: HashMap<u32, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    epoch: u64,
    ended: bool,
    queue: Option<u16>,
}

impl TagCheck {
    /// Notes one command in dispatch order. `Err` says which rule is broken. `Ok` gives, for the
    /// major and minor tag, a number of the stream's present life and its 64-bit epoch.
    ///
    /// # Errors
    /// The broken rule, in words.
    pub fn note(&mut self, tags: &Tags, queue: Option<u16>) -> Result<[Option<(u64, u64)>; 2], String> {
        let major = tags.major.map(|t| self.step(t, tags.barrier, queue)).transpose()?;
        let minor = tags.minor.map(|t| self.step(t, tags.barrier, None)).transpose()?;
        Ok([major, minor])
    }

    fn step(&mut self, tag: StreamTag, barrier: bool, queue: Option<u16>) -> Result<(u64, u64), String> {
        let s = self.streams.entry(tag.stream).or_insert(Seen { epoch: 0, ended: false, queue: None });
        if s.ended {
            *s = Seen { epoch: s.epoch + 1, ended: false, queue: None };
        }
        if tag.epoch != s.epoch as u32 {
            return Err(format!("P10: stream {} sends epoch {}, due is {}", tag.stream, tag.epoch, s.epoch));
        }
        if let (Some(was), Some(is)) = (s.queue, queue)
            && was != is
        {
            return Err(format!("P9: stream {} epoch {} on queues {was} and {is}", tag.stream, s.epoch));
        }
        s.queue = s.queue.or(queue);
        s.ended = barrier;
        let life = self.lives.get(&tag.stream).copied().unwrap_or(0);
        Ok((life << 32 | u64::from(tag.stream), s.epoch))
    }

    /// The stream ends.
    pub fn close(&mut self, stream: u32) {
        self.streams.remove(&stream);
        *self.lives.entry(stream).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shipped trace of one fsync (OPIMQ artifact): D [app,0][jbd,0] b1, JD [jbd,1] b0, JD [jbd,1] b1,
    /// JC [jbd,2] b1, FLUSH [jbd,3] b1, next D [app,1][jbd,4].
    #[test]
    fn counters_give_the_shipped_trace() {
        let (app, jbd) = (2736, 2688);
        let mut c = EpochCounters::default();
        let short =
            |t: Tags| (t.major.map(|t| (t.stream, t.epoch)), t.minor.map(|t| (t.stream, t.epoch)), t.barrier);
        assert_eq!(short(c.write(app, Some(jbd), true)), (Some((app, 0)), Some((jbd, 0)), true));
        assert_eq!(short(c.write(jbd, None, false)), (Some((jbd, 1)), None, false));
        assert_eq!(short(c.write(jbd, None, true)), (Some((jbd, 1)), None, true));
        assert_eq!(short(c.write(jbd, None, true)), (Some((jbd, 2)), None, true));
        assert_eq!(short(c.flush(jbd)), (Some((jbd, 3)), None, true));
        assert_eq!(short(c.write(app, Some(jbd), true)), (Some((app, 1)), Some((jbd, 4)), true));
    }

    #[test]
    fn pins_last_an_epoch() {
        let mut c = EpochCounters::default();
        assert_eq!(c.pin(1, 4), 4);
        c.write(1, None, false);
        assert_eq!(c.pin(1, 9), 4);
        c.write(1, None, true);
        assert_eq!(c.pin(1, 9), 9);
    }

    #[test]
    fn broken_rules_are_named() {
        let tag = |epoch, barrier| Tags { major: Some(StreamTag::new(3, epoch)), minor: None, barrier };
        let mut t = TagCheck::default();
        t.note(&tag(0, false), Some(1)).unwrap();
        assert!(t.note(&tag(0, false), Some(2)).unwrap_err().starts_with("P9"));
        assert!(t.note(&tag(1, false), Some(1)).unwrap_err().starts_with("P10"));
        t.note(&tag(0, true), Some(1)).unwrap();
        assert!(t.note(&tag(0, false), Some(1)).unwrap_err().starts_with("P10"));
    }
}
