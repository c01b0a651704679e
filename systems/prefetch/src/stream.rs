//! One stream of reads: its course, what is ahead of it, its rate without, and how its reads went.

use crate::ahead::Ahead;
use crate::base::Base;
use crate::course::Course;

/// One stream of reads in a file. Plain data: it lives in zeroed shared memory, and zeroes are a free stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stream {
    /// The file's tick of the latest read; 0 is a free stream.
    pub used: u32,
    /// Which thread read it last, 0 when that is not known.
    pub reader: u32,
    /// Where it reads.
    pub course: Course,
    /// What is prefetched of it.
    pub ahead: Ahead,
    /// Its rate without prefetching.
    pub base: Base,
    /// When it was last read: see [`Device::stream_reads`](crate::Device::stream_reads).
    pub epoch: u64,
    /// The last eight timed reads: a bit is set when it was slow.
    slow: u8,
    /// Timed reads, at most 255.
    timed: u8,
}

impl Stream {
    /// A stream that begins with a read, which began at a time.
    pub fn begin(offset: u64, len: u64, tick: u32, begun_ns: u64) -> Stream {
        let (course, base) = (Course::begin(offset, len), Base::begin(begun_ns));
        Stream { used: tick, course, base, ..Stream::default() }
    }

    /// Whether the stream exists.
    pub fn is_used(&self) -> bool {
        self.used != 0
    }

    /// Whether it is prefetched.
    pub fn is_active(&self) -> bool {
        self.ahead.is_active()
    }

    /// Takes a read that fits.
    pub fn advance(&mut self, offset: u64, len: u64, tick: u32) {
        self.used = tick;
        if self.course.advance(offset, len) {
            self.ahead.realign(&self.course);
        }
    }

    /// Notes how long a read took.
    pub fn note_time(&mut self, slow: bool) {
        self.slow = self.slow << 1 | u8::from(slow);
        self.timed = self.timed.saturating_add(1);
    }

    /// Slow reads among the last eight timed ones.
    pub fn slow_count(&self) -> u32 {
        self.slow.count_ones()
    }

    /// Whether the next read is to be timed: while it is prefetched, new, or was slow lately.
    pub fn wants_time(&self) -> bool {
        self.is_active() || self.timed < 16 || self.slow != 0
    }

    /// Whether an offset lies within what was prefetched.
    pub fn covers(&self, offset: u64) -> bool {
        self.ahead.covers(&self.course, offset)
    }

    /// Starts prefetching after the current piece.
    pub fn activate(&mut self, depth: u64, now_ns: u64) {
        self.ahead.begin(&self.course, depth);
        self.base.settle(self.course.run_bytes, now_ns);
    }

    /// Its rate without prefetching, bytes/s.
    pub fn rate_alone(&self, now_ns: u64) -> u64 {
        self.base.alone(self.course.run_bytes, now_ns)
    }

    /// Bytes that were prefetched and not read yet.
    pub fn ahead_bytes(&self) -> u64 {
        self.ahead.bytes(&self.course)
    }

    /// Takes the next range to prefetch: see [`Ahead::claim`].
    pub fn claim(&mut self, ahead_max: u64, chunk: u64, size: u64) -> Option<(u64, u64)> {
        self.ahead.claim(&self.course, ahead_max, chunk, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(offsets: impl IntoIterator<Item = u64>, len: u64) -> Stream {
        let mut stream = Stream::default();
        for (tick, offset) in offsets.into_iter().enumerate() {
            if stream.is_used() {
                stream.advance(offset, len, tick as u32 + 1);
            } else {
                stream = Stream::begin(offset, len, tick as u32 + 1, 0);
            }
        }
        stream
    }

    const K: u64 = 1024;

    #[test]
    fn claims_stay_ahead_and_inside_the_file() {
        let mut stream = feed((0..4).map(|i| i * 64 * K), 64 * K);
        stream.activate(1 << 20, 0);
        let size = 600 * K;
        let mut claimed = Vec::new();
        while let Some(range) = stream.claim(1 << 20, 128 * K, size) {
            claimed.push(range);
        }
        assert_eq!(claimed, [(256 * K, 128 * K), (384 * K, 128 * K), (512 * K, 88 * K)]);
        assert_eq!(stream.ahead_bytes(), 344 * K);
        assert!(stream.covers(300 * K) && !stream.covers(600 * K));
    }

    #[test]
    fn backward_claims_go_down_to_zero() {
        let mut stream = feed((4..8).rev().map(|i| i * 64 * K), 64 * K);
        stream.activate(1 << 20, 0);
        assert_eq!(stream.claim(1 << 20, 192 * K, 512 * K), Some((64 * K, 192 * K)));
        assert_eq!(stream.claim(1 << 20, 192 * K, 512 * K), Some((0, 64 * K)));
        assert_eq!(stream.claim(1 << 20, 192 * K, 512 * K), None);
    }

    #[test]
    fn what_lies_between_the_pieces_is_not_ahead() {
        let mut stream = feed((0..4).map(|i| i * 256 * K), 64 * K);
        stream.activate(1 << 20, 0);
        while stream.claim(1 << 20, 1 << 20, 1 << 30).is_some() {}
        assert!(stream.ahead_bytes() >= 512 * K);
        // Another reader of the same blocks goes on, 32 KiB and again 32 KiB and 64 KiB later.
        for offset in [1056, 1344, 1632] {
            stream.advance(offset * K, 64 * K, 9);
        }
        assert_eq!(stream.claim(1 << 20, 1 << 20, 1 << 30), Some((1888 * K, 64 * K)));
    }

    #[test]
    fn stride_claims_are_pieces_and_a_backward_one_ends_at_zero() {
        let mut stream = feed((2..6).rev().map(|i| i * 320 * K), 64 * K);
        stream.activate(1 << 20, 0);
        assert_eq!(stream.claim(1 << 20, 1 << 20, 1 << 30), Some((320 * K, 64 * K)));
        assert_eq!(stream.claim(1 << 20, 1 << 20, 1 << 30), Some((0, 64 * K)));
        assert_eq!(stream.claim(1 << 20, 1 << 20, 1 << 30), None);
    }
}
