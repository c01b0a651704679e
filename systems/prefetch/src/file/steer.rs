//! Whether a stream is prefetched, and how far ahead.

use super::{FetchState, FileState, Read};
use crate::course::Shape;
use crate::decide::{self, Action, Experiments, Past, decide};
use crate::model::Model;
use crate::reason::Reason;
use crate::stream::Stream;
use crate::tuning::T;
use crate::{Budget, Device, Mode};

impl FileState {
    /// What the streams of this file taught, for a decision about one of them.
    pub(super) fn past(&self, stream: &Stream, is_ramped: bool) -> Past {
        // It is among the streams itself.
        let near = |other: &&Stream| {
            other.is_used()
                && self.streams.is_late(other)
                && other.course.end.abs_diff(stream.course.end) <= 1 << 20
        };
        Past {
            now_ns: self.now_ns,
            random_hint: self.random_hint,
            usual_run: self.reach.usual_run(),
            limit: self.reach.limit(),
            is_fetched: self.fetch == FetchState::Done,
            is_alone: self.streams.iter().filter(near).count() <= 1,
            is_ramped,
        }
    }

    pub(super) fn wants_more(&self, stream: &Stream, device: &Device, model: &Model) -> bool {
        !device.trial.holds() && decide::wants_more(model, stream, &self.past(stream, true), self.size)
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
        if !stream.course.is_confirmed() {
            return self.settle(stream, device, budget);
        }
        let comparable = stream.course.shape == Shape::Forward && !self.random_hint && mode != Mode::Observe;
        if stream.is_active() {
            // The kernel reads ahead of forward streams itself: compare, and give up on all of them together, since
            // a prefetched one would take the bandwidth of the others.
            if comparable && let Some(barren) = stream.is_barren(read.now_ns) {
                device.forward.learn(barren);
            }
            let barren = comparable && device.forward.is_barren();
            let is_alone = self.past(stream, true).is_alone;
            let gappy = comparable && decide::leaves_out_much(&device.model(), stream, is_alone);
            if barren || gappy || device.trial.is_bad() {
                self.settle(stream, device, budget);
                self.reason = if barren { Reason::Saturated } else { Reason::NoGain };
                return;
            }
            if covered && read.is_slow() {
                let allowed = decide::ahead_max(&device.model(), stream, &self.past(stream, true));
                stream.ahead.grow(&stream.course, T.depth_bytes, allowed);
            }
            return;
        }
        let model = device.model();
        let least_ns = device.latency_ns().saturating_mul(4);
        let (window, least_ns) =
            if model.is_far() { (0, 0) } else { ((4 * device.readahead_bytes()).min(2 << 20), least_ns) };
        let ramped = stream.course.shape != Shape::Forward
            || self.random_hint
            || stream.base.is_known(stream.course.run_bytes, window, least_ns, read.now_ns);
        let experiments = Experiments {
            is_bad: device.trial.is_bad(),
            is_tried: !model.is_far() && device.forward.is_tried(self.now_ns, model.latency_ns),
            is_barren: device.forward.is_barren(),
        };
        match decide(&model, stream, &self.past(stream, ramped), experiments) {
            Action::Leave(reason) => {
                self.reason = reason;
                if reason == Reason::NoGain && comparable {
                    device.forward.rest();
                }
            }
            Action::Prefetch(depth) => {
                stream.activate(depth, read.now_ns);
                device.stream_begins();
                if comparable {
                    device.forward.begin(read.now_ns);
                }
                self.reach.begin(T.depth_bytes);
                self.reason = if mode == Mode::Observe { Reason::Observing } else { Reason::Prefetching };
            }
        }
    }
}
