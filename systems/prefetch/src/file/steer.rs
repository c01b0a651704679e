//! Whether a stream is prefetched, and how far ahead.

use super::{FetchState, FileState, RUNS, Read, STREAMS};
use crate::reason::Reason;
use crate::stream::{Shape, Stream};
use crate::{Budget, Device, Mode, PAGE};

impl FileState {
    pub(super) fn wants_more(&self, stream: &Stream, device: &Device) -> bool {
        if device.trial.holds() {
            return false;
        }
        let ahead_max = self.ahead_max(stream, device);
        let threshold = self.chunk_bytes(stream, device).min(ahead_max / 2).max(PAGE);
        // Streams with pieces claim one at a time; dense ones are left to gather a chunk.
        let threshold = if matches!(stream.shape, Shape::Stride(_)) { stream.piece } else { threshold };
        !stream.is_exhausted(self.size) && stream.ahead() + threshold <= ahead_max.max(2 * threshold)
    }

    /// One request of a stream, bytes: beside others no longer than they may wait for it; alone not less than the kernel's,
    /// which it replaces.
    pub(super) fn chunk_bytes(&self, stream: &Stream, device: &Device) -> u64 {
        if device.is_shared(stream.base_rate) {
            return device.chunk_bytes().min(device.quantum_bytes());
        }
        match stream.shape {
            Shape::Forward if !self.random_hint => {
                device.chunk_bytes().max(device.readahead_bytes().min(device.call_bytes()).min(1 << 20))
            }
            _ => device.chunk_bytes(),
        }
    }

    pub(super) fn steer(
        &mut self,
        stream: &mut Stream,
        read: &Read,
        covered: bool,
        device: &Device,
        budget: &Budget,
        mode: Mode,
    ) {
        if !stream.is_confirmed() {
            self.settle(stream, device, budget);
            stream.active = false;
            stream.owed = 0;
            return;
        }
        let comparable = stream.shape == Shape::Forward && !self.random_hint && mode != Mode::Observe;
        if stream.active {
            // The kernel reads ahead of forward streams itself: compare, and give up on all of them together, since
            // a prefetched one would take the bandwidth of the others.
            if comparable && let Some(barren) = stream.is_barren(read.now_ns) {
                device.forward.learn(barren);
            }
            let barren = comparable && device.forward.is_barren();
            let gappy = comparable && self.leaves_out_much(stream, device);
            if barren || gappy || device.trial.is_bad() {
                self.settle(stream, device, budget);
                stream.active = false;
                stream.owed = 0;
                self.reason = if barren { Reason::Saturated } else { Reason::NoGain };
                return;
            }
            if covered && read.is_slow() {
                self.grow(stream, read, device);
            }
            return;
        }
        let least_ns = device.latency_ns().saturating_mul(4);
        let (window, least_ns) =
            if device.is_far() { (0, 0) } else { ((4 * device.readahead_bytes()).min(2 << 20), least_ns) };
        let ramped = stream.shape != Shape::Forward
            || self.random_hint
            || stream.has_base(window, least_ns, read.now_ns);
        match self.objection(stream, ramped, device) {
            Some(reason) => self.reason = reason,
            None => {
                let depth =
                    (device.bdp() * 3 / 2).clamp(device.tuning().ramp_bytes, device.tuning().depth_bytes);
                stream.activate(depth, read.now_ns);
                device.stream_begins();
                if comparable {
                    device.forward.begin(read.now_ns);
                }
                if self.limit == 0 {
                    self.limit = device.tuning().depth_bytes;
                }
                self.reason = if mode == Mode::Observe { Reason::Observing } else { Reason::Prefetching };
            }
        }
    }

    /// Why a confirmed stream is not prefetched.
    pub(super) fn objection(&self, stream: &Stream, ramped: bool, device: &Device) -> Option<Reason> {
        // Prefetching is for misses. A forward stream must show them after the kernel had time to ramp up.
        let forward = stream.shape == Shape::Forward;
        if stream.slow_count() < 2 {
            return Some(Reason::Cached);
        }
        if forward && !self.random_hint && (device.kernel_has_it() || !ramped) {
            return Some(Reason::KernelHasIt);
        }
        if forward && !self.random_hint && self.leaves_out_much(stream, device) {
            return Some(Reason::Wasteful);
        }
        // Runs of a few windows: the kernel is done before anything is confirmed.
        if forward && !self.random_hint && self.usual_run() <= 8 * device.readahead_bytes() {
            return Some(Reason::ShortRuns);
        }
        let busy = || {
            (!device.is_far() && device.forward.is_tried(self.now_ns, device.latency_ns()))
                || device.is_busy(stream.rate_alone(self.now_ns), |rate| stream.with_gaps(rate))
                || device.forward.leave()
        };
        if forward && !self.random_hint && busy() {
            return Some(Reason::Saturated);
        }
        if (!forward || self.random_hint) && device.is_filled(stream.rate_alone(self.now_ns)) {
            return Some(Reason::Saturated);
        }
        if device.trial.is_bad() {
            return Some(Reason::NoGain);
        }
        if self.fetch == FetchState::Done {
            return Some(Reason::FetchedAll);
        }
        let run = self.usual_run();
        if run < u64::MAX && stream.run_bytes >= run - run / 4 && stream.run_bytes <= run + run / 4 {
            return Some(Reason::ShortRuns);
        }
        if self.limit > 0 && self.limit <= 128 << 10 && self.counters.wasted > self.counters.useful {
            return Some(Reason::Wasteful);
        }
        None
    }

    /// Whether a forward stream leaves out more than a third, on a device that is not far enough for it: of what is
    /// prefetched less is read, and more has to come for it.
    fn leaves_out_much(&self, stream: &Stream, device: &Device) -> bool {
        let far = stream.with_gaps(stream.with_gaps(16 * device.readahead_bytes()));
        // It is among the streams itself.
        let near = |other: &&Stream| {
            let lately = self.tick.wrapping_sub(other.used) <= 2 * STREAMS as u32;
            other.is_used() && lately && other.end.abs_diff(stream.end) <= 1 << 20
        };
        let alone = || self.streams.iter().filter(near).count() <= 1;
        stream.with_gaps(100) >= 150 && device.bdp() < far && alone()
    }

    /// The length that three quarters of the last runs did not exceed; unlimited before the first ended.
    pub(super) fn usual_run(&self) -> u64 {
        let len = (self.runs_len as usize).min(RUNS);
        if len == 0 {
            return u64::MAX;
        }
        let mut sorted = self.runs;
        if let Some(known) = sorted.get_mut(..len) {
            known.sort_unstable();
        }
        sorted.get(len * 3 / 4).copied().unwrap_or(u64::MAX)
    }

    /// A read had to wait for what was asked for: go deeper, unless the last time brought nothing.
    pub(super) fn grow(&mut self, stream: &mut Stream, read: &Read, device: &Device) {
        let bytes = stream.run_bytes - stream.grown_bytes;
        if stream.run_bytes < stream.hold_bytes || bytes < stream.depth / 2 {
            return;
        }
        if self.ahead_max(stream, device) < stream.depth {
            // Something else than the depth is the limit: nothing is learned from the rate.
            stream.grown_bytes = stream.run_bytes;
            stream.grown_ns = read.now_ns;
            stream.rate = 0;
            return;
        }
        let elapsed = read.now_ns.saturating_sub(stream.grown_ns).max(1);
        let rate = (u128::from(bytes) * 1_000_000_000 / u128::from(elapsed)) as u64;
        // Little's law: so much in flight would be twice as fast if latency were the limit.
        let deep =
            u128::from(stream.depth) >= u128::from(rate) * u128::from(device.latency_ns()) / 500_000_000;
        if stream.rate != 0 && rate < stream.rate + stream.rate / 10 && deep {
            device.learn_saturated(rate.max(device.bandwidth()));
            stream.hold_bytes = stream.run_bytes + (64 << 20);
        } else {
            stream.depth = (stream.depth * 2).min(device.tuning().depth_bytes);
        }
        stream.rate = rate;
        stream.grown_bytes = stream.run_bytes;
        stream.grown_ns = read.now_ns;
    }

    /// How far a stream may be ahead now: its depth, what it has read so far, the usual run, all limits.
    ///
    /// Rule: Depth.
    pub(super) fn ahead_max(&self, stream: &Stream, device: &Device) -> u64 {
        // A short forward run is mostly read ahead by the kernel already: less is staked on its going on. A stride
        // that was met three times is no accident: more is.
        let stake = match stream.shape {
            Shape::Forward if stream.run_bytes < 4 << 20 => 1,
            Shape::Stride(_) => 4,
            _ => 2,
        };
        let ramp = stream.proven_bytes().saturating_mul(stake).max(128 << 10);
        // Two requests. Those of a stride are pieces, however small: a device may take as long for each as for a long one.
        let least = match stream.shape {
            Shape::Forward if !self.random_hint => (2 * device.readahead_bytes()).max(128 << 10),
            Shape::Stride(_) => 2 * stream.piece,
            _ => (2 * stream.piece).max(128 << 10),
        };
        let share = device.ahead_bytes_share(least.min(1 << 20));
        let run = self.usual_run();
        // Up to the usual length, then nothing until the run has clearly outgrown it.
        let run_left = if stream.run_bytes > run.saturating_add(run / 4) {
            u64::MAX
        } else {
            run.saturating_sub(stream.run_bytes)
        };
        stream.depth.min(ramp).min(run_left).min(share).min(self.limit.max(128 << 10))
    }
}
