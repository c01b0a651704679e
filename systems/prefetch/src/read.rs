//! What a shell tells of a read, what the core asks for and answers, and what is counted of it.

use crate::{Mode, Reason};

/// One read of the program.
#[derive(Debug, Clone, Copy)]
pub struct Read {
    /// Where it began, bytes.
    pub offset: u64,
    /// Bytes returned.
    pub len: u64,
    /// How long it took, ns.
    pub elapsed_ns: u64,
    /// When it ended, ns.
    pub now_ns: u64,
}

impl Read {
    /// Whether it took longer than copying out of the page cache: 12 us and 0.4 ns a byte.
    pub fn is_slow(&self) -> bool {
        self.elapsed_ns > 12_000 + self.len * 2 / 5
    }
}

/// The order of a stream's reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// Not confirmed.
    #[default]
    Unknown,
    /// Upwards, gaps of a page at most.
    Forward,
    /// Downwards, likewise.
    Backward,
    /// Pieces at a constant distance, bytes, of either sign.
    Stride(i64),
}

/// What the core asks of the kernel, about the file that was read.
pub trait Pages {
    /// Asks for a range. `false`: nothing more is to be asked for now.
    fn ask(&mut self, offset: u64, len: u64) -> bool;
    /// Whether all of a range is cached or on its way; `None` where that cannot be told.
    fn is_cached(&mut self, offset: u64, len: u64) -> Option<bool>;
    /// Whether the page at `offset` can be read without waiting; `None` where that cannot be told.
    fn is_ready(&mut self, offset: u64) -> Option<bool>;
}

/// What a read was, for the statistics, and how many of the next ones need no look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effect {
    /// It lies within what was asked for.
    pub covered: bool,
    /// Bytes asked for after it.
    pub asked: u64,
    /// Reads that may pass without a look.
    pub nap: u32,
    /// The order of its stream, and how far that is ahead at most, bytes; 0 when it is not prefetched.
    pub order: (Shape, u64),
    /// Why.
    pub reason: Reason,
}

/// Counters of one file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads that were looked at.
    pub reads: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Those that were slow: misses.
    pub slow: u64,
    /// Time in slow reads, ns.
    pub blocked_ns: u64,
    /// Bytes asked of the kernel.
    pub issued: u64,
    /// Bytes read out of what was prefetched.
    pub useful: u64,
    /// Slow reads of what had been asked for: it was still on its way.
    pub late: u64,
    /// Time saved, ns: one latency for each covered fast read (observing: what would have been saved).
    pub saved_ns: u64,
}

impl Counters {
    /// Those of one read, and what followed from it.
    pub fn of(read: &Read, effect: &Effect, latency_ns: u64, mode: Mode) -> Counters {
        let slow = read.is_slow();
        // Observing, what was slow would have been fast.
        let saved = effect.covered && slow == (mode == Mode::Observe);
        Counters {
            reads: 1,
            bytes: read.len,
            slow: u64::from(slow),
            blocked_ns: if slow { read.elapsed_ns } else { 0 },
            issued: if mode == Mode::Observe { 0 } else { effect.asked },
            useful: if effect.covered { read.len } else { 0 },
            late: u64::from(effect.covered && slow),
            saved_ns: if saved { latency_ns } else { 0 },
        }
    }

    /// The counters and their order on the statistics page.
    pub fn words(&self) -> [u64; 8] {
        let Counters { reads, bytes, slow, blocked_ns, issued, useful, late, saved_ns } = *self;
        [reads, bytes, slow, blocked_ns, issued, useful, late, saved_ns]
    }

    /// Counters from their words.
    pub fn from_words(words: [u64; 8]) -> Counters {
        let [reads, bytes, slow, blocked_ns, issued, useful, late, saved_ns] = words;
        Counters { reads, bytes, slow, blocked_ns, issued, useful, late, saved_ns }
    }
}

impl core::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        let (mut sum, more) = (self.words(), other.words());
        sum.iter_mut().zip(more).for_each(|(word, more)| *word = word.saturating_add(more));
        *self = Counters::from_words(sum);
    }
}
