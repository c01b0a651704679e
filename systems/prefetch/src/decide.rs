//! Whether a stream is prefetched, how far ahead, and in which pieces: pure functions of what is believed of the device,
//! of the stream, and of the streams before it in the file.
//!
//! The gain of prefetching is what the device is idle for while the program waits; the cost is what others wait for our
//! requests, and what is never read. Each objection below stands for one of these.

use crate::PAGE;
use crate::model::Model;
use crate::reason::Reason;
use crate::stream::{Shape, Stream};

/// What a file has taught about its streams.
#[derive(Debug, Clone, Copy)]
pub struct Past {
    /// When its latest read ended, ns.
    pub now_ns: u64,
    /// Whether the kernel does not read ahead: the program said so.
    pub random_hint: bool,
    /// The length that three quarters of the last runs did not exceed, bytes; unlimited before the first ended.
    pub usual_run: u64,
    /// How far ahead a stream may be, bytes: less after waste and evictions; 0 before the first.
    pub limit: u64,
    /// Whether more of what was prefetched was wasted than read.
    pub is_wasteful: bool,
    /// Whether all of it was fetched.
    pub is_fetched: bool,
    /// Whether no other stream is read near this one.
    pub is_alone: bool,
    /// Whether a forward stream's rate beside the kernel's read-ahead is known.
    pub is_ramped: bool,
}

/// What to do about a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing, and why.
    Leave(Reason),
    /// Prefetch it, at most so many bytes ahead at first.
    Prefetch(u64),
}

impl Past {
    /// Whether the kernel reads ahead of a stream, too.
    fn has_kernel(&self, stream: &Stream) -> bool {
        stream.shape == Shape::Forward && !self.random_hint
    }
}

/// Whether a confirmed stream is to be prefetched.
pub fn decide(model: &Model, stream: &Stream, past: &Past) -> Action {
    // No misses, nothing to gain.
    if stream.slow_count() < 2 {
        return Action::Leave(Reason::Cached);
    }
    let objection = match past.has_kernel(stream) {
        true => forward(model, stream, past),
        false => (!is_gainful(model, stream.rate_alone(past.now_ns))).then_some(Reason::Saturated),
    };
    if let Some(reason) = objection {
        return Action::Leave(reason);
    }
    if past.is_fetched {
        return Action::Leave(Reason::FetchedAll);
    }
    // It may be about to end.
    let (run, read) = (past.usual_run, stream.run_bytes);
    if run < u64::MAX && read >= run - run / 4 && read <= run + run / 4 {
        return Action::Leave(Reason::ShortRuns);
    }
    let tuning = model.tuning;
    if past.limit > 0 && past.limit <= tuning.ramp_bytes && past.is_wasteful {
        return Action::Leave(Reason::Wasteful);
    }
    Action::Prefetch((model.bdp() / 2 * 3).clamp(tuning.ramp_bytes, tuning.depth_bytes))
}

/// Whether a stream that the kernel does not read ahead of gains anything beside what the program has the device do
/// already: else there is little to gain, and each read would wait for what is prefetched for the others.
///
/// Rule: Full device.
fn is_gainful(model: &Model, own_rate: u64) -> bool {
    // Once some are prefetched what is delivered is our own doing.
    if model.streams > 0 {
        return true;
    }
    match model.demand.rate {
        // Of mappings no single wait is known, and no rate; of others there will be one soon.
        0 => !model.demand.is_noted,
        _ => model.is_gain(model.gain_ns(model.demand.peak, model.is_shared(own_rate))),
    }
}

/// Why a stream that the kernel reads ahead of is left to it.
fn forward(model: &Model, stream: &Stream, past: &Past) -> Option<Reason> {
    // It must show misses after the kernel had time to ramp up.
    if model.bdp() <= model.readahead || !past.is_ramped {
        return Some(Reason::KernelHasIt);
    }
    if leaves_out_much(model, stream, past.is_alone) {
        return Some(Reason::Wasteful);
    }
    // Runs of a few windows: the kernel is done before anything is confirmed.
    if past.usual_run <= 8 * model.readahead {
        return Some(Reason::ShortRuns);
    }
    // What lies between the blocks that are read has to come, too.
    let rate = stream.with_gaps(model.demand.rate);
    let own_rate = stream.with_gaps(stream.rate_alone(past.now_ns));
    let several = rate >= model.bandwidth / 5 && rate / 9 >= own_rate / 4;
    let gains = rate > 0 && !several && model.is_gain(model.gain_ns(rate, false));
    (!gains).then_some(Reason::Saturated)
}

/// Whether a forward stream leaves out more than a third, on a device that is not far enough for it: of what is
/// prefetched less is read, and more has to come for it.
pub fn leaves_out_much(model: &Model, stream: &Stream, is_alone: bool) -> bool {
    let far = stream.with_gaps(stream.with_gaps(model.tuning.sample * model.readahead));
    stream.with_gaps(100) >= 150 && model.bdp() < far && is_alone
}

/// One request of a stream, bytes: beside others no longer than they may wait for it; alone not less than the kernel's,
/// which it replaces.
pub fn request_bytes(model: &Model, stream: &Stream, random_hint: bool) -> u64 {
    let alone = model.chunk_bytes();
    if model.is_shared(stream.base_rate) {
        return alone.min(model.quantum_bytes());
    }
    match stream.shape {
        Shape::Forward if !random_hint => alone.max(model.readahead.min(model.call).min(1 << 20)),
        _ => alone,
    }
}

/// How far a stream may be ahead now, bytes: its depth, what it has read so far, the usual run, its share of the queue.
///
/// Rule: Depth.
pub fn ahead_max(model: &Model, stream: &Stream, past: &Past) -> u64 {
    let ramp_bytes = model.tuning.ramp_bytes;
    // A short forward run is mostly read ahead by the kernel already: less is staked on its going on. A stride
    // that was met three times is no accident: more is.
    let stake = match stream.shape {
        Shape::Forward if stream.run_bytes < 32 * ramp_bytes => 1,
        Shape::Stride(_) => 4,
        _ => 2,
    };
    let ramp = stream.proven_bytes().saturating_mul(stake).max(ramp_bytes);
    // Two requests. Those of a stride are pieces, however small: a device may take as long for each as for a long one.
    let least = match stream.shape {
        Shape::Forward if !past.random_hint => (2 * model.readahead).max(ramp_bytes),
        Shape::Stride(_) => 2 * stream.piece,
        _ => (2 * stream.piece).max(ramp_bytes),
    };
    // Up to the usual length, then nothing until the run has clearly outgrown it.
    let run_left = match past.usual_run.saturating_add(past.usual_run / 4) {
        most if stream.run_bytes > most => u64::MAX,
        _ => past.usual_run.saturating_sub(stream.run_bytes),
    };
    let share = model.share_bytes(least.min(1 << 20));
    stream.depth.min(ramp).min(run_left).min(share).min(past.limit.max(ramp_bytes))
}

/// Whether a stream that is prefetched is to ask for more now.
pub fn wants_more(model: &Model, stream: &Stream, past: &Past, size: u64) -> bool {
    if stream.is_exhausted(size) {
        return false;
    }
    let ahead_max = ahead_max(model, stream, past);
    // Streams with pieces claim one at a time; dense ones are left to gather a request.
    let threshold = match stream.shape {
        Shape::Stride(_) => stream.piece,
        _ => request_bytes(model, stream, past.random_hint).min(ahead_max / 2).max(PAGE),
    };
    stream.ahead() + threshold <= ahead_max.max(2 * threshold)
}
