//! Whether a stream is prefetched, how far ahead, and in which pieces: pure functions of what is believed of the device,
//! of the stream, and of the streams before it in the file.
//!
//! The gain of prefetching is what the device is idle for while the program waits; the cost is what others wait for our
//! requests, and what is never read. Each objection below stands for one of these.

use crate::PAGE;
use crate::course::Shape;
use crate::model::Model;
use crate::reason::Reason;
use crate::stream::Stream;
use crate::tuning::T;

/// What a file has taught about its streams.
#[derive(Debug, Clone, Copy)]
pub struct Past {
    /// When its latest read ended, ns.
    pub now_ns: u64,
    /// Whether the kernel does not read ahead: the program said so.
    pub random_hint: bool,
    /// The length that three quarters of the last runs did not exceed, bytes; unlimited before the first ended.
    pub usual_run: u64,
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
        stream.course.shape == Shape::Forward && !self.random_hint
    }
}

/// Whether a confirmed stream is to be prefetched. `is_bad`: reads were no faster with prefetching, or some were later.
pub fn decide(model: &Model, stream: &Stream, past: &Past, is_bad: bool) -> Action {
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
    if is_bad {
        return Action::Leave(Reason::NoGain);
    }
    Action::Prefetch((model.bdp() / 2 * 3).clamp(T::RAMP_BYTES, T::DEPTH_BYTES))
}

/// Whether a stream that the kernel does not read ahead of gains anything beside what the program has the device do
/// already: else there is little to gain, and each read would wait for what is prefetched for the others.
///
/// Rule: Gain.
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
///
/// Rule: Forward.
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
    let rate = stream.course.with_gaps(model.demand.rate);
    let own_rate = stream.course.with_gaps(stream.rate_alone(past.now_ns));
    let several = rate >= model.bandwidth / 5 && rate / 9 >= own_rate / 4;
    let gains = rate > 0 && !several && model.is_gain(model.gain_ns(rate, false));
    (!gains).then_some(Reason::Saturated)
}

/// Whether a forward stream leaves out more than a third, on a device that is not far enough for it: of what is
/// prefetched less is read, and more has to come for it.
pub fn leaves_out_much(model: &Model, stream: &Stream, is_alone: bool) -> bool {
    let far = stream.course.with_gaps(stream.course.with_gaps(T::SAMPLE * model.readahead));
    stream.course.with_gaps(100) >= 150 && model.bdp() < far && is_alone
}

/// One request of a stream, bytes: beside others no longer than they may wait for it.
pub fn request_bytes(model: &Model, stream: &Stream) -> u64 {
    match model.is_shared(stream.base.rate()) {
        true => model.chunk_bytes().min(model.quantum_bytes()),
        false => model.chunk_bytes(),
    }
}

/// How far a stream may be ahead now, bytes: its depth, what it has read so far, the usual run, its share of the queue.
///
/// Rule: Depth.
pub fn ahead_max(model: &Model, stream: &Stream, past: &Past) -> u64 {
    // A short forward run is mostly read ahead by the kernel already: less is staked on its going on. A stride
    // that was met three times is no accident: more is.
    let stake = match stream.course.shape {
        Shape::Forward if stream.course.run_bytes < 32 * T::RAMP_BYTES => 1,
        Shape::Stride(_) => 4,
        _ => 2,
    };
    let ramp = stream.course.proven_bytes().saturating_mul(stake).max(T::RAMP_BYTES);
    // Two requests. Those of a stride are pieces, however small: a device may take as long for each as for a long one.
    let least = match stream.course.shape {
        Shape::Forward if !past.random_hint => (2 * model.readahead).max(T::RAMP_BYTES),
        Shape::Stride(_) => 2 * stream.course.piece,
        _ => (2 * stream.course.piece).max(T::RAMP_BYTES),
    };
    // Up to the usual length, then nothing until the run has clearly outgrown it.
    let run_left = match past.usual_run.saturating_add(past.usual_run / 4) {
        most if stream.course.run_bytes > most => u64::MAX,
        _ => past.usual_run.saturating_sub(stream.course.run_bytes),
    };
    let share = model.share_bytes(least);
    stream.ahead.depth().min(ramp).min(run_left).min(share)
}

/// Whether a stream that is prefetched is to ask for more now.
pub fn wants_more(model: &Model, stream: &Stream, past: &Past, size: u64) -> bool {
    if stream.ahead.is_exhausted(&stream.course, size) {
        return false;
    }
    let ahead_max = ahead_max(model, stream, past);
    // Streams with pieces claim one at a time; dense ones are left to gather a request.
    let threshold = match stream.course.shape {
        Shape::Stride(_) => stream.course.piece,
        _ => request_bytes(model, stream).min(ahead_max / 2).max(PAGE),
    };
    stream.ahead_bytes() + threshold <= ahead_max.max(2 * threshold)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::model::Demand;

    const MS: u64 = 1_000_000;

    /// 1 GB/s, of which the program takes so many percent with several readers.
    fn model(latency_ns: u64, percent: u64) -> Model {
        let device = Device::new();
        (0..3).for_each(|_| device.learn_miss(latency_ns, 4096));
        let rate = 10_000_000 * percent;
        Model { demand: Demand { rate, peak: rate, grows: false, is_noted: true }, ..device.model() }
    }

    /// Backward, 64 KiB each, with so many of its reads slow; 64 MB/s by itself.
    fn stream(slow: u32) -> Stream {
        let mut stream = Stream::begin(64 << 20, 1 << 16, 1, 0);
        for read in 1..=8 {
            stream.advance((64 << 20) - (u64::from(read) << 16), 1 << 16, read + 1);
            stream.note_time(read <= slow);
        }
        assert_eq!(stream.course.shape, Shape::Backward);
        stream
    }

    fn past() -> Past {
        Past { now_ns: 9 * MS, random_hint: false, usual_run: u64::MAX, is_alone: true, is_ramped: true }
    }

    #[test]
    fn what_hits_is_left_alone_and_what_misses_is_prefetched() {
        let model = model(MS, 10);
        assert_eq!(decide(&model, &stream(1), &past(), false), Action::Leave(Reason::Cached));
        assert_eq!(decide(&model, &stream(2), &past(), false), Action::Prefetch(model.bdp() / 2 * 3));
    }

    /// The gain is what the device is idle for, less a thread that is woken for each read beside others.
    #[test]
    fn a_device_that_the_program_fills_is_left_to_it() {
        let full = |latency_ns, percent| {
            decide(&model(latency_ns, percent), &stream(8), &past(), false)
                == Action::Leave(Reason::Saturated)
        };
        for (latency_ns, most) in [(20_000, 50), (100_000, 50), (300_000, 73), (MS, 85), (20 * MS, 89)] {
            assert_eq!(
                [full(latency_ns, most - 1), full(latency_ns, most + 1)],
                [false, true],
                "{latency_ns}"
            );
        }
        assert!(!full(100_000, 5), "one stream alone makes nobody wait");
        // Our own doing, and what nobody has seen yet.
        let ours = Model { streams: 1, ..model(MS, 99) };
        assert_ne!(decide(&ours, &stream(8), &past(), false), Action::Leave(Reason::Saturated));
        let unseen = Model { demand: Demand::default(), ..model(MS, 99) };
        assert_ne!(decide(&unseen, &stream(8), &past(), false), Action::Leave(Reason::Saturated));
        let early = Model { demand: Demand { is_noted: true, ..Demand::default() }, ..unseen };
        assert_eq!(decide(&early, &stream(8), &past(), false), Action::Leave(Reason::Saturated));
    }

    #[test]
    fn nothing_is_farther_ahead_than_its_run_and_its_share() {
        let (model, mut stream) = (model(20 * MS, 10), stream(8));
        stream.activate(32 << 20, MS);
        let read = stream.course.proven_bytes();
        assert_eq!(ahead_max(&model, &stream, &past()), 2 * read);
        let shared = Model { streams: 64, ..model };
        assert_eq!(ahead_max(&shared, &stream, &past()), 128 << 10);
        let ending = Past { usual_run: stream.course.run_bytes + 4096, ..past() };
        assert_eq!(ahead_max(&model, &stream, &ending), 4096);
    }
}
