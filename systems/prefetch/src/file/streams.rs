//! The streams of a file, and which of them a read belongs to.

use crate::stream::Stream;

/// Streams of one open file; threads share it.
pub const STREAMS: usize = 16;

/// Up to [`STREAMS`] streams, and the count of the file's reads. Zeroes are none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Streams {
    all: [Stream; STREAMS],
    /// Grows with each read, and is never 0 after the first.
    tick: u32,
    /// Grows with reads that follow no known order: see [`Streams::knows`].
    unordered: u32,
}

impl Streams {
    /// Counts a read.
    pub(super) fn count(&mut self) {
        self.tick = self.tick.wrapping_add(1).max(1);
    }

    pub(super) fn tick(&self) -> u32 {
        self.tick
    }

    pub(super) fn get(&self, at: usize) -> Option<&Stream> {
        self.all.get(at)
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Stream> {
        self.all.get_mut(at)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.all.iter()
    }

    /// Whether a stream was read among the latest reads of the file.
    pub(super) fn is_late(&self, stream: &Stream) -> bool {
        self.tick.wrapping_sub(stream.used) <= 2 * STREAMS as u32
    }

    /// The stream that a read of a thread continues best.
    pub(super) fn best(&self, offset: u64, len: u64, reader: u32) -> Option<usize> {
        self.all
            .iter()
            .enumerate()
            .filter(|(_, stream)| stream.is_used())
            .filter_map(|(at, stream)| Some((stream.course.fit(offset, len)?, at)))
            .filter_map(|(fit, at)| Some((self.is_strange(at, reader)?, fit, at)))
            .min()
            .map(|(_, _, at)| at)
    }

    /// Whether a stream was left alone for so long, beside those that are read, that it is over.
    pub(super) fn over(&self) -> [bool; STREAMS] {
        let live = self.all.iter().filter(|s| s.is_used() && self.tick.wrapping_sub(s.used) <= 16).count();
        let patience = STREAMS as u32 / 2 + 4 * live as u32;
        self.all.map(|stream| {
            let idle = self.tick.wrapping_sub(stream.used) > patience;
            stream.is_used() && idle && stream.course.run_reads > 2
        })
    }

    /// Whose place a new stream takes: an unconfirmed one goes before a confirmed one, the longest unused first.
    pub(super) fn victim(&self) -> usize {
        let rank = |stream: &Stream| match (stream.is_used(), stream.course.is_confirmed()) {
            (false, _) => (0, 0),
            (true, confirmed) => (1 + u32::from(confirmed), stream.used),
        };
        (0..STREAMS).min_by_key(|at| self.all.get(*at).map(rank)).unwrap_or(0)
    }

    /// Whether threads are told apart: where most reads of a thread go on nowhere, several share a stream.
    fn knows(&self, reader: u32) -> bool {
        reader != 0 && (self.unordered / (32 * STREAMS as u32)).is_multiple_of(2)
    }

    /// Whether a stream is of another thread than this reader; `None` when that one still reads it.
    fn is_strange(&self, at: usize, reader: u32) -> Option<bool> {
        let stream = self.all.get(at)?;
        if !self.knows(reader) || stream.reader == reader {
            return Some(false);
        }
        let went_on = |other: &Stream| other.reader == stream.reader && other.used > stream.used;
        self.all.iter().any(went_on).then_some(true)
    }

    /// Notes whether a read was of a stream with a known order.
    pub(super) fn note_order(&mut self, is_confirmed: bool) {
        self.unordered = match is_confirmed {
            true if self.unordered.is_multiple_of(32 * STREAMS as u32) => self.unordered,
            true => self.unordered - 1,
            false => self.unordered.wrapping_add(STREAMS as u32),
        };
    }
}
