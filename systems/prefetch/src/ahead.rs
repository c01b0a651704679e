//! What is prefetched ahead of a stream: from where, up to where, and whose turn it is.

use crate::PAGE;
use crate::course::{Course, Shape};

/// A request that is being timed, one of a stream at a time.
#[derive(Debug, Clone, Copy, Default)]
struct Probe {
    /// Its start and end, bytes.
    range: (u64, u64),
    /// When it was made, ns; 0 when none is timed.
    asked_ns: u64,
    /// How far ahead the stream was then, bytes.
    ahead: u64,
}

/// What was claimed ahead of a stream and what may be. Zeroes are a stream that is not prefetched.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ahead {
    active: bool,
    /// Where prefetching began, bytes.
    from: u64,
    /// Up to where it was issued, bytes: an end (forward), a start (backward), the next piece (stride).
    issued: u64,
    /// How far ahead it may be, bytes.
    depth: u64,
    /// Bytes of the run when the depth last grew.
    grown_bytes: u64,
    /// Bytes claimed and not read yet, taken from the memory budget; none while it is not prefetched.
    owed: u64,
    /// Nothing is asked for before this time, ns: see [`Model::turn_ns`](crate::model::Model::turn_ns).
    paced_ns: u64,
    /// Bytes asked for in this turn.
    turn_bytes: u64,
    /// A backward stride has reached the file's start.
    ended: bool,
    probe: Probe,
}

impl Ahead {
    /// Whether the stream is prefetched.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Where what was claimed ends, bytes: an end (forward), a start (backward), the next piece (stride).
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// How far ahead it may be, bytes.
    pub fn depth(&self) -> u64 {
        self.depth
    }

    /// When the next request may be made, ns.
    pub fn paced_ns(&self) -> u64 {
        self.paced_ns
    }

    /// Begins after the current piece.
    pub fn begin(&mut self, course: &Course, depth: u64) {
        let (from, grown_bytes) = (course.next(), course.run_bytes);
        *self = Ahead { active: true, from, issued: from, depth, grown_bytes, ..Ahead::default() };
    }

    /// Ends. The bytes that were claimed and not read are given back, to the budget.
    #[must_use]
    pub fn end(&mut self) -> u64 {
        self.active = false;
        core::mem::take(&mut self.owed)
    }

    /// A read found so much of what was prefetched; how much of it was still owed.
    pub fn use_up(&mut self, len: u64) -> u64 {
        let paid = len.min(self.owed);
        self.owed -= paid;
        paid
    }

    /// A read had to wait for what was asked for: half a depth and more after the depth last grew, doubles it up to `most`.
    pub fn grow(&mut self, course: &Course, most: u64) {
        if course.run_bytes - self.grown_bytes >= self.depth / 2 {
            (self.depth, self.grown_bytes) = ((self.depth * 2).min(most), course.run_bytes);
        }
    }

    /// A claim was made: its bytes are owed, and part of this turn.
    pub fn owe(&mut self, len: u64) -> u64 {
        self.owed += len;
        self.turn_bytes = self.turn_bytes.saturating_add(len);
        self.turn_bytes
    }

    /// The turn is over: nothing is asked for before a time, ns.
    pub fn end_turn(&mut self, until_ns: u64) {
        (self.turn_bytes, self.paced_ns) = (0, until_ns);
    }

    /// Another piece of a stride begins. Threads of one descriptor may leave their stream to each other: what is ahead then
    /// lies between the pieces, and counts no more.
    pub fn realign(&mut self, course: &Course) {
        let Shape::Stride(stride) = course.shape else { return };
        let (next, stride) = (course.next(), stride.unsigned_abs().max(1));
        let phase = self.issued.abs_diff(next) % stride;
        if self.active && !self.ended && phase.min(stride - phase) > (course.piece / 2).max(PAGE) {
            self.issued = next;
        }
    }

    /// Whether a range lies within what was prefetched.
    pub fn covers(&self, course: &Course, offset: u64) -> bool {
        if !self.active {
            return false;
        }
        match course.shape {
            Shape::Unknown => false,
            Shape::Backward => offset < self.from && offset >= self.issued,
            Shape::Stride(stride) if stride < 0 => offset <= self.from && offset > self.issued,
            _ => offset >= self.from && offset < self.issued,
        }
    }

    /// Times a range that was just claimed, unless another one is being timed.
    pub fn time_claim(&mut self, course: &Course, offset: u64, len: u64, now_ns: u64) {
        if self.probe.asked_ns == 0 {
            let range = (offset, offset.saturating_add(len));
            self.probe = Probe { range, asked_ns: now_ns, ahead: self.bytes(course) };
        }
    }

    /// When the range that a covered read has come to was claimed, ns, and how far ahead the stream was then.
    pub fn timed_claim(&mut self, course: &Course, offset: u64, len: u64) -> Option<(u64, u64)> {
        if self.probe.asked_ns == 0 {
            return None;
        }
        let end = offset.saturating_add(len);
        let (first, last) = self.probe.range;
        let touched = offset < last && end > first;
        let passed = if course.is_up() { offset >= last } else { end <= first };
        let claim = (self.probe.asked_ns, self.probe.ahead);
        if touched || passed {
            self.probe.asked_ns = 0;
        }
        touched.then_some(claim)
    }

    /// How far what was claimed leads beyond what is read next, bytes; `None`: that was overtaken.
    fn beyond(&self, course: &Course) -> Option<u64> {
        let next = course.next();
        if course.is_up() { self.issued.checked_sub(next) } else { next.checked_sub(self.issued) }
    }

    /// Bytes that were prefetched and not read yet.
    pub fn bytes(&self, course: &Course) -> u64 {
        let beyond = self.beyond(course).filter(|_| self.active).unwrap_or(0);
        match course.shape {
            Shape::Unknown => 0,
            Shape::Stride(stride) => (beyond / stride.unsigned_abs().max(1)).saturating_mul(course.piece),
            Shape::Forward | Shape::Backward => beyond,
        }
    }

    /// Whether nothing is left to claim in its direction.
    pub fn is_exhausted(&self, course: &Course, size: u64) -> bool {
        match course.shape {
            Shape::Unknown => true,
            Shape::Backward => self.issued == 0,
            _ if course.is_up() => self.issued >= size,
            _ => self.ended,
        }
    }

    /// Takes the next range to prefetch, at most `chunk` bytes, while less than `ahead_max` bytes are ahead.
    pub fn claim(&mut self, course: &Course, ahead_max: u64, chunk: u64, size: u64) -> Option<(u64, u64)> {
        if !self.active || self.ended || !course.is_confirmed() {
            return None;
        }
        if self.beyond(course).is_none() {
            self.issued = course.next();
        }
        let ahead = self.bytes(course);
        if let Shape::Stride(stride) = course.shape {
            let most = ahead_max.max(2 * course.piece);
            if ahead.saturating_add(course.piece) > most || self.issued >= size {
                return None;
            }
            let range = (self.issued, course.piece.min(size - self.issued));
            match self.issued.checked_add_signed(stride) {
                Some(issued) => self.issued = issued,
                None => self.ended = true,
            }
            return Some(range);
        }
        let (next, up) = (course.next(), course.is_up());
        let left = if up { size.saturating_sub(next) } else { next };
        let len = ahead_max.min(left).saturating_sub(ahead).min(chunk);
        let start = if up { self.issued } else { self.issued - len };
        self.issued = if up { start + len } else { start };
        (len > 0).then_some((start, len))
    }
}
