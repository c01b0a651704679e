//! One order of reads: recognised by equal steps, and how far ahead it was asked for.

use crate::tuning::{CHUNK, CONFIRM, ROW, WINDOW_MAX};
use crate::{Device, Effect, PAGE, Pages, Read, Reason, Shape};

/// The longest step, bytes: what lies farther apart belongs to different streams.
const STEP_MAX: u64 = 8 * WINDOW_MAX;
/// A gap that is read through, bytes: a request of its own would take the thread longer.
const GAP: u64 = 2 * PAGE;

/// A stream of one thread on one descriptor. Zeroes are one without a read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stream {
    start: i64,
    delta: i64,
    /// Where what was asked for ends.
    issued: i64,
    run: u64,
    /// How far ahead its late reads want it, bytes; 0 while it is not prefetched. And how far it was asked for.
    window: u64,
    most: u64,
    pair: Pair,
    agree: u32,
    epoch: u32,
    /// Slow reads in a row, and requests in a row for what was there.
    slow: u32,
    there: u32,
    /// When it was last read: reads of the file.
    pub(crate) used: u32,
}

/// Two requests that were made together: where their pieces begin as they are read, the bytes of each, 0 without any, and
/// when the first came, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    first: i64,
    second: i64,
    bytes: u64,
    came_ns: u64,
}

impl Stream {
    /// One that begins with a read.
    pub(crate) fn begin(read: &Read, tick: u32) -> Stream {
        Stream { start: read.offset as i64, run: read.len, used: tick, ..Stream::default() }
    }

    /// Whether something was asked for ahead of it.
    pub(crate) fn is_ahead(&self) -> bool {
        self.window > 0
    }

    /// Whether a read is where the latest step leads to, give or take a page.
    pub(crate) fn continues(&self, read: &Read) -> bool {
        let miss = (read.offset as i64).wrapping_sub(self.start).wrapping_sub(self.delta);
        self.agree > 0 && miss.unsigned_abs() <= (read.len / 8).max(PAGE - 1)
    }

    /// Whether it may be a step of a stream that is not confirmed.
    pub(crate) fn may_turn(&self, read: &Read) -> bool {
        let delta = (read.offset as i64).wrapping_sub(self.start);
        self.used > 0 && self.agree < CONFIRM - 1 && delta != 0 && delta.unsigned_abs() < STEP_MAX
    }

    /// Takes a read for the first of its steps.
    pub(crate) fn turn(&mut self, read: &Read) {
        self.delta = read.offset as i64 - self.start;
        self.start = read.offset as i64;
        self.agree = 1;
        self.run = 2 * read.len;
        self.window = 0;
    }

    fn shape(&self, len: u64) -> Shape {
        match self.delta {
            delta if delta > 0 && delta.unsigned_abs() <= len + PAGE => Shape::Forward,
            delta if delta < 0 && delta.unsigned_abs() <= len + PAGE => Shape::Backward,
            delta => Shape::Stride(delta),
        }
    }

    /// A read continued it.
    pub(crate) fn on_read(
        &mut self,
        read: &Read,
        device: &Device,
        observing: bool,
        pages: &mut impl Pages,
    ) -> Effect {
        let (at, slow) = (read.offset as i64, read.is_slow());
        let ahead = self.is_ahead();
        let covered = ahead && if self.delta < 0 { at >= self.issued } else { at < self.issued };
        self.agree = self.agree.saturating_add(1);
        self.start = at;
        self.run = self.run.saturating_add(read.len);
        if self.agree < CONFIRM {
            return Effect::default();
        }
        self.slow = if slow { self.slow.saturating_add(1) } else { 0 };
        match (covered, slow) {
            (false, true) => device.learn_miss(read.elapsed_ns),
            // It came too early.
            (true, true) => self.window = (self.window * 2).min(WINDOW_MAX),
            _ => {}
        }
        if covered {
            self.meet(read, slow, device);
        }
        device.join(&mut self.epoch, read.now_ns);
        let shape = self.shape(read.len);
        let effect = |reason| Effect { covered, order: (shape, 0), reason, ..Effect::default() };
        if !ahead {
            // The kernel reads ahead of these itself, far enough for a near device, unless it was told not to.
            if shape == Shape::Forward && device.bdp() <= 4 * CHUNK && self.slow < ROW {
                return effect(Reason::KernelHasIt);
            }
            if !slow {
                return effect(Reason::Cached);
            }
            if !device.may_begin(read.len, observing) {
                return effect(Reason::Saturated);
            }
            let least = if shape == Shape::Forward { 2 * CHUNK } else { 0 };
            self.window = 2 * read.len.max(least);
            self.most = self.window;
            self.issued = if self.delta > 0 { at + self.delta } else { at };
            self.pair.bytes = 0;
        }
        // What a pair says is waited for.
        let may = if self.pair.bytes > 0 { self.most } else { (2 * self.run).min(device.share()) };
        self.most = self.window.min(may);
        if self.most < 2 * read.len {
            self.window = 0;
            return effect(Reason::Saturated);
        }
        let asked = self.go_ahead(read, observing, pages);
        Effect { asked, order: (shape, self.most), ..effect(Reason::Prefetching) }
    }

    /// A read of what was asked for: the second of two requests comes as much later than the first as its bytes take.
    fn meet(&mut self, read: &Read, slow: bool, device: &Device) {
        let (from, to) = (read.offset as i64, (read.offset + read.len) as i64);
        let reached = |place: i64| if self.delta < 0 { from < place } else { to > place };
        let Pair { first, second, bytes, came_ns } = self.pair;
        if bytes > 0 && came_ns > 0 && reached(second) {
            device.learn_rate(bytes, read.now_ns.saturating_sub(came_ns), slow);
            self.pair.bytes = 0;
        } else if came_ns == 0 && reached(first) {
            if slow {
                self.pair.came_ns = read.now_ns;
            } else if bytes > 0 {
                // It came before it was read: the device is no slower than it is taken for.
                device.learn_rate(bytes, device.time_of(bytes), false);
                self.pair.bytes = 0;
            }
        }
    }

    /// Asks until the stream is `most` bytes ahead, as it reads them. Bytes asked for. Observing, nothing comes, and so says
    /// nothing.
    fn go_ahead(&mut self, read: &Read, observing: bool, pages: &mut impl Pages) -> u64 {
        let (at, len) = (read.offset as i64, read.len.max(1));
        let (step, sign) = (self.delta.unsigned_abs(), self.delta.signum());
        // A short gap is read, too; after a long one each piece is asked for by itself.
        let dense = step <= len + GAP;
        let piece =
            if dense { (self.most / 2).clamp(len.min(CHUNK), CHUNK).next_multiple_of(PAGE) } else { len };
        let reach = if dense { self.most * step / len } else { (self.most / len) * step };
        let advance = if dense { piece as i64 * sign } else { self.delta };
        // Of dense ones what is asked for ends here, of others the next piece begins here.
        let next = match (dense, sign) {
            (true, 1) => at + read.len as i64,
            (true, _) => at,
            (false, _) => at + self.delta,
        };
        self.issued = if sign > 0 { self.issued.max(next) } else { self.issued.min(next) };
        let mut asked = 0;
        while self.issued.abs_diff(at) < reach + u64::from(!dense) {
            let start = if dense && sign < 0 { self.issued - piece as i64 } else { self.issued };
            let end = start + piece as i64;
            let Some(bytes) = self.request(start.max(0), end, pages) else { break };
            self.issued += advance;
            asked += bytes;
            if start <= 0 && sign < 0 {
                break;
            }
        }
        if self.pair.bytes == 0 && asked >= 2 * piece && !observing {
            // The latest two: the kernel may have read ahead into the first ones.
            let first = self.issued - 2 * advance + if dense || sign > 0 { 0 } else { piece as i64 };
            self.pair = Pair { first, second: first + advance, bytes: piece, came_ns: 0 };
        }
        asked
    }

    /// Asks for a range, unless it is there. Bytes asked for; `None`: nothing more now.
    fn request(&mut self, start: i64, end: i64, pages: &mut impl Pages) -> Option<u64> {
        let (offset, len) = (start as u64, u64::try_from(end - start).ok().filter(|len| *len > 0)?);
        if pages.is_cached(offset, len) != Some(true) {
            self.there = 0;
            return pages.ask(offset, len).then_some(len);
        }
        self.there += 1;
        if self.there < ROW {
            return Some(0);
        }
        // It was there before: prefetched by somebody else, or read already.
        (self.there, self.window) = (0, 0);
        None
    }
}
