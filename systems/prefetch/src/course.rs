//! The way of a stream's reads: forward, backward or with a stride, recognised from the reads alone.

use crate::PAGE;
use crate::model::scale;
use crate::tuning::T;
use crate::vote::Deltas;

/// Reads remembered to recognise a direction through jitter.
const RECENT: usize = 8;

/// The order of a stream's reads, once it is confirmed by three reads that agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// Not confirmed.
    #[default]
    Unknown,
    /// Upwards, gaps smaller than the reads.
    Forward,
    /// Downwards, likewise.
    Backward,
    /// Pieces at a constant distance, bytes, of either sign.
    Stride(i64),
}

/// Where a stream reads, in which order, and how sure that is. Zeroes are one without a read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Course {
    /// What was recognised.
    pub shape: Shape,
    /// Start of the current piece, bytes.
    pub start: u64,
    /// End of the current piece, bytes.
    pub end: u64,
    /// Length of a piece: contiguous reads are one piece.
    pub piece: u64,
    /// Bytes read since the stream began.
    pub run_bytes: u64,
    /// Reads since the stream began.
    pub run_reads: u32,
    deltas: Deltas,
    recent: [u64; RECENT],
    contiguous: i8,
    gaps: u8,
    /// Bytes of the run when it was recognised late or anew: until then it says nothing.
    doubted_bytes: u64,
    /// Bytes read lately, and how far forward that led.
    dense: (u64, u64),
    /// Whether the latest read began a piece where the stride leads, or elsewhere.
    meets: Option<bool>,
    /// Grows with pieces that are not where the stride leads, falls with those that are.
    misfits: u8,
    /// Orders that were given up: the next one has to be met more often.
    mistakes: u8,
}

impl Course {
    /// One that begins with a read.
    pub fn begin(offset: u64, len: u64) -> Course {
        let mut course = Course {
            start: offset,
            end: offset.saturating_add(len),
            piece: len,
            run_bytes: len,
            run_reads: 1,
            ..Course::default()
        };
        course.remember(offset);
        course
    }

    /// Whether its order is known.
    pub fn is_confirmed(&self) -> bool {
        self.shape != Shape::Unknown
    }

    /// Whether it leads up in the file, as far as is known.
    pub fn is_up(&self) -> bool {
        !matches!(self.shape, Shape::Backward | Shape::Stride(..0))
    }

    /// Whether the latest read began where the one before ended.
    pub fn is_upwards(&self) -> bool {
        self.contiguous > 0
    }

    /// Whether a read lies in pages that the latest one has read: it found them, or waits for them with that one.
    pub fn has_read(&self, offset: u64, len: u64) -> bool {
        offset / PAGE >= self.start / PAGE
            && offset.saturating_add(len).div_ceil(PAGE) <= self.end.div_ceil(PAGE)
    }

    fn slack(&self, len: u64) -> u64 {
        len.saturating_mul(4).max(128 << 10)
    }

    /// Bytes read in its order.
    pub fn proven_bytes(&self) -> u64 {
        self.run_bytes - self.doubted_bytes
    }

    /// How well a read continues the stream: a smaller number is better, `None` not at all.
    pub fn fit(&self, offset: u64, len: u64) -> Option<u64> {
        let end = offset.saturating_add(len);
        match self.shape {
            Shape::Forward => {
                let distance = offset.abs_diff(self.end);
                (distance <= self.slack(len)).then_some(distance)
            }
            Shape::Backward => {
                let distance = end.abs_diff(self.start);
                (distance <= self.slack(len)).then_some(distance)
            }
            Shape::Stride(stride) => {
                if offset >= self.start && offset <= self.end {
                    return Some(0);
                }
                self.steps(offset, stride).map(|steps| steps - 1)
            }
            // A confirmed stream is always preferred to a guess.
            Shape::Unknown if offset == self.end || end == self.start => Some(1 << 40),
            Shape::Unknown => {
                let distance = offset.abs_diff(self.start);
                let window = len.saturating_mul(64).clamp(1 << 20, 64 << 20);
                (distance <= window).then(|| distance.saturating_add(1 << 41))
            }
        }
    }

    /// How many strides lead from the current piece to `offset`, 1 to 4.
    fn steps(&self, offset: u64, stride: i64) -> Option<u64> {
        let tolerance = (self.piece / 2).max(PAGE);
        (1..=4u64).find(|steps| {
            let to = i128::from(self.start) + i128::from(stride) * i128::from(*steps);
            (i128::from(offset) - to).unsigned_abs() <= u128::from(tolerance)
        })
    }

    /// Takes a read that fits; `true`: it began another piece of a stride.
    pub fn advance(&mut self, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len);
        self.run_reads = self.run_reads.saturating_add(1);
        self.run_bytes = self.run_bytes.saturating_add(len);
        match self.shape {
            Shape::Forward => {
                self.count_way(end, len);
                self.count_gap(offset > self.end.saturating_add(len));
                self.start = offset;
                self.end = self.end.max(end);
            }
            Shape::Backward => {
                self.count_gap(end.saturating_add(len) < self.start);
                self.start = self.start.min(offset);
                self.end = self.start.saturating_add(len);
            }
            Shape::Stride(_) if offset >= self.start && offset <= self.end => {
                let usual = self.start.saturating_add(self.piece + self.piece / 2);
                self.meets = (self.end <= usual && end > usual).then_some(false);
                self.end = self.end.max(end);
            }
            Shape::Stride(stride) => {
                self.meets = Some(self.steps(offset, stride) == Some(1));
                self.piece = (self.end - self.start).max(self.piece - self.piece / 8);
                (self.start, self.end) = (offset, end);
                self.remember(offset);
                return true;
            }
            Shape::Unknown => self.learn(offset, end),
        }
        self.remember(offset);
        false
    }

    /// Counts how far a reader that goes forward comes; a jump is no more than five reads.
    fn count_way(&mut self, end: u64, len: u64) {
        let (read, way) = self.dense;
        let read = read.saturating_add(len);
        // Several readers of one range come no farther than they read.
        let way = way.saturating_add(end.saturating_sub(self.end).min(len.saturating_mul(5)));
        self.dense = (read - read / 16, way - way / 16);
    }

    /// What a device would have to deliver for so much of it to be read, when all that lies between is prefetched.
    pub fn with_gaps(&self, amount: u64) -> u64 {
        let (read, way) = self.dense;
        scale(amount, way, read).max(amount)
    }

    /// Gaps wider than the reads, four in a row, are no dense stream: learn again.
    fn count_gap(&mut self, gap: bool) {
        self.gaps = if gap { self.gaps + 1 } else { 0 };
        if self.gaps >= 4 {
            self.gaps = 0;
            self.doubt();
        }
    }

    /// Takes how the latest read went. What is asked for nobody reads where the pieces lie elsewhere: where more than a
    /// third do, there is no stride. Learn again.
    ///
    /// Rule: Give up.
    pub fn count_misfit(&mut self, slow: bool) {
        if !matches!(self.shape, Shape::Stride(_)) {
            return;
        }
        self.misfits = match self.meets.take() {
            Some(true) => self.misfits.saturating_sub(1),
            // Another reader of the file may have had it fetched.
            Some(false) if slow => self.misfits + 2,
            _ => self.misfits,
        };
        if self.misfits >= T::MISFITS {
            self.misfits = 0;
            self.doubt();
        }
    }

    /// Its order was none: learn again, and believe it later.
    fn doubt(&mut self) {
        self.shape = Shape::Unknown;
        self.mistakes = self.mistakes.saturating_add(1);
        self.contiguous = 0;
        self.deltas.clear();
    }

    fn learn(&mut self, offset: u64, end: u64) {
        if offset >= self.start && end <= self.end {
            return;
        }
        if offset >= self.end && offset - self.end < PAGE {
            self.contiguous = self.contiguous.max(0) + 1;
            self.end = end;
        } else if end <= self.start && self.start - end < PAGE {
            self.contiguous = self.contiguous.min(0) - 1;
            self.start = offset;
        } else {
            self.deltas.push(offset.wrapping_sub(self.start) as i64);
            let len = end - offset;
            self.piece = (self.end - self.start).max(len);
            self.start = offset;
            self.end = end;
            self.contiguous = 0;
        }
        self.shape = self.recognise();
        if self.shape == Shape::Unknown && self.run_reads >= RECENT as u32 {
            self.shape = self.drift();
        }
        if self.is_confirmed() && self.run_reads > RECENT as u32 {
            self.doubted_bytes = self.run_bytes;
        }
        if self.shape == Shape::Unknown {
            // A piece that never ends would never end a vote either.
            self.contiguous = self.contiguous.clamp(-3, 3);
        }
    }

    /// How many of the last eight deltas have to agree, where three of four were not enough before or did not.
    fn agreeing(&self) -> Option<usize> {
        match self.mistakes {
            0 if !self.deltas.is_full() => None,
            0 | 1 => Some(6),
            _ => Some(8),
        }
    }

    /// What three reads that agree make of it.
    ///
    /// Rule: Confirm.
    fn recognise(&self) -> Shape {
        if self.contiguous >= 3 {
            return Shape::Forward;
        }
        if self.contiguous <= -3 {
            return Shape::Backward;
        }
        let Some(stride) = self.deltas.majority((self.piece / 8).max(PAGE), self.agreeing()) else {
            return Shape::Unknown;
        };
        let dense = stride.unsigned_abs() <= self.piece.saturating_add(self.piece / 2);
        match (dense, stride > 0) {
            (true, true) => Shape::Forward,
            (true, false) => Shape::Backward,
            _ => Shape::Stride(stride),
        }
    }

    /// Several readers of one range, or blocks of many sizes: dense, and the later reads lie beyond the earlier.
    fn drift(&self) -> Shape {
        let at = self.run_reads as usize;
        let start_of = |back: usize| self.recent.get((at + RECENT - back) % RECENT).copied().unwrap_or(0);
        let (mut low, mut high) = (u64::MAX, 0);
        let (mut older, mut newer) = (0u128, 0u128);
        for back in 0..RECENT {
            let start = start_of(back);
            low = low.min(start);
            high = high.max(start);
            let half = if back < RECENT / 2 { &mut newer } else { &mut older };
            *half += u128::from(start);
        }
        let mean_len = self.run_bytes / u64::from(self.run_reads.max(1));
        if high - low > mean_len.saturating_mul(2 * RECENT as u64) || high - low < mean_len.saturating_mul(2)
        {
            return Shape::Unknown;
        }
        let moved = u128::from(mean_len).saturating_mul(RECENT as u128 / 2);
        if newer > older + moved {
            Shape::Forward
        } else if older > newer + moved {
            Shape::Backward
        } else {
            Shape::Unknown
        }
    }

    fn remember(&mut self, offset: u64) {
        if let Some(slot) = self.recent.get_mut(self.run_reads as usize % RECENT) {
            *slot = offset;
        }
    }

    /// Where the next read is expected: an end (forward), a start (backward), the next piece (stride).
    pub fn next(&self) -> u64 {
        match self.shape {
            Shape::Forward | Shape::Unknown => self.end,
            Shape::Backward => self.start,
            Shape::Stride(stride) => self.start.saturating_add_signed(stride),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(offsets: impl IntoIterator<Item = u64>, len: u64) -> Course {
        let mut course = Course::default();
        for offset in offsets {
            if course.run_reads > 0 {
                assert!(course.fit(offset, len).is_some(), "{offset} does not fit {course:?}");
                course.advance(offset, len);
            } else {
                course = Course::begin(offset, len);
            }
        }
        course
    }

    const K: u64 = 1024;

    #[test]
    fn contiguous_reads_are_forward_or_backward() {
        assert_eq!(feed((0..4).map(|i| i * 4 * K), 4 * K).shape, Shape::Forward);
        assert_eq!(feed((0..3).map(|i| i * 4 * K), 4 * K).shape, Shape::Unknown);
        assert_eq!(feed((0..4).rev().map(|i| i * 4 * K), 4 * K).shape, Shape::Backward);
    }

    #[test]
    fn equal_gaps_are_a_stride_of_either_sign() {
        assert_eq!(feed((0..4).map(|i| i * 320 * K), 64 * K).shape, Shape::Stride(320 * 1024));
        assert_eq!(feed((0..4).rev().map(|i| i * 320 * K), 64 * K).shape, Shape::Stride(-320 * 1024));
    }

    #[test]
    fn pieces_of_several_reads_have_a_stride_too() {
        let reads = (0..5).flat_map(|piece| (0..3).map(move |part| piece * 1024 * K + part * 16 * K));
        let course = feed(reads, 16 * K);
        assert_eq!(course.shape, Shape::Stride(1024 * 1024));
        assert_eq!(course.piece, 48 * K);
    }

    #[test]
    fn jittered_readers_of_one_range_are_forward() {
        let order = [0u64, 2, 1, 3, 6, 4, 5, 7, 9, 8, 10, 12, 11];
        assert_eq!(feed(order.map(|i| i * 64 * K), 64 * K).shape, Shape::Forward);
    }

    #[test]
    fn variable_blocks_read_backwards_are_backward() {
        let mut at = 10_000 * K;
        let mut course = Course::begin(at, 4000);
        for len in [3900u64, 4100, 4050, 3980, 4096] {
            at -= len;
            course.advance(at, len);
        }
        assert_eq!(course.shape, Shape::Backward);
    }

    #[test]
    fn a_stride_by_chance_is_given_up_and_believed_later_the_next_time() {
        let read = |course: &mut Course, block: &mut u64, gap: u64, slow: bool| {
            *block += gap;
            course.advance(*block * 64 * K, 64 * K);
            course.count_misfit(slow);
        };
        let mut block = 6;
        let mut course = feed((0..4).map(|i| i * 128 * K), 64 * K);
        assert_eq!(course.shape, Shape::Stride(128 * 1024));
        // Fast ones were fetched for another reader; one of three may be elsewhere.
        (0..40).for_each(|_| read(&mut course, &mut block, 3, false));
        (0..40).for_each(|at| read(&mut course, &mut block, if at % 3 == 0 { 4 } else { 2 }, true));
        assert_eq!(course.shape, Shape::Stride(128 * 1024));
        [4, 3, 4].iter().for_each(|gap| read(&mut course, &mut block, *gap, true));
        assert_eq!(course.shape, Shape::Unknown);
        // Four times the same is not enough now, and what was read before proves nothing.
        [2, 2, 2, 2, 4].iter().for_each(|gap| read(&mut course, &mut block, *gap, true));
        assert_eq!(course.shape, Shape::Unknown);
        [2, 2].iter().for_each(|gap| read(&mut course, &mut block, *gap, true));
        assert_eq!(course.shape, Shape::Stride(128 * 1024));
        assert_eq!(course.proven_bytes(), 0);
        read(&mut course, &mut block, 2, true);
        assert_eq!(course.proven_bytes(), 64 * K);
    }

    #[test]
    fn a_piece_that_is_longer_once_is_no_misfit_however_many_reads_it_has() {
        let mut course = feed((0..5).flat_map(|i| (0..3).map(move |at| (1024 * i + at * 16) * K)), 16 * K);
        assert_eq!(course.shape, Shape::Stride(1024 * 1024));
        for at in 0..12 {
            course.advance((5 * 1024 + at * 16) * K, 16 * K);
            course.count_misfit(true);
        }
        assert_eq!(course.shape, Shape::Stride(1024 * 1024));
    }

    #[test]
    fn gaps_of_all_sizes_are_forward_but_a_stride_that_is_learned_anew_is_not() {
        let mut course = feed([0, 1, 4, 6, 9, 10, 14, 15, 17, 20].map(|block| block * 64 * K), 64 * K);
        assert_eq!(course.shape, Shape::Forward);
        assert!((180..300).contains(&course.with_gaps(100)), "{}", course.with_gaps(100));
        course.doubt();
        course.doubt();
        // The reads before are taken for a drift until four gaps in a row were wider than the reads.
        for at in 1..20 {
            course.advance((20 + 3 * at) * 64 * K, 64 * K);
        }
        assert_eq!(course.shape, Shape::Stride(192 * 1024));
        // Downwards, or with a jump, it is nothing.
        let random = [90, 80, 77, 75, 70, 66, 65, 61, 60, 40];
        assert_ne!(feed(random.map(|block| block * 64 * K), 64 * K).shape, Shape::Forward);
    }

    #[test]
    fn what_is_left_out_costs_and_what_others_read_is_not_left_out() {
        let after = |blocks: &mut dyn Iterator<Item = u64>| {
            let mut course = feed((0..4).map(|i| i * 64 * K), 64 * K);
            for block in blocks {
                course.advance(block * 64 * K, 64 * K);
            }
            assert_eq!(course.shape, Shape::Forward);
            course.with_gaps(100)
        };
        let mut at = 3;
        let cost = after(&mut [1, 0, 2, 3].iter().cycle().take(60).map(|gap| {
            at += 1 + gap;
            at
        }));
        assert!((220..280).contains(&cost), "{cost}");
        // Four readers, each of them ahead of the others at times.
        let cost = after(&mut (1..60).flat_map(|i| [2, 0, 3, 1].map(|of| 4 * i + of)));
        assert!(cost < 130, "{cost}");
    }

    #[test]
    fn random_reads_are_nothing() {
        let mut random = 12345u64;
        let mut confirmed = 0;
        for _ in 0..200 {
            let mut course = Course::begin(32 << 20, 64 * K);
            for _ in 2..20 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let offset = (random >> 33) % 1024 * 64 * K;
                if course.fit(offset, 64 * K).is_some() {
                    course.advance(offset, 64 * K);
                }
            }
            confirmed += u32::from(course.is_confirmed());
        }
        assert!(confirmed <= 10, "{confirmed} of 200 random courses were confirmed");
    }
}
