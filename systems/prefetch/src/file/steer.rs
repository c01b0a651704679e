//! Whether a stream is prefetched, and how far ahead.

use super::{FileState, Look};
use crate::course::Shape;
use crate::decide::{self, Action, Past, decide};
use crate::model::Model;
use crate::reason::Reason;
use crate::stream::Stream;
use crate::tuning::T;
use crate::{Device, Mode};

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
            is_alone: self.streams.iter().filter(near).count() <= 1,
            is_ramped,
        }
    }

    pub(super) fn wants_more(&self, stream: &Stream, device: &Device, model: &Model) -> bool {
        !device.trial.holds() && decide::wants_more(model, stream, &self.past(stream, true), self.size)
    }

    pub(super) fn steer(&mut self, stream: &mut Stream, look: &Look) {
        let Look { ref read, covered, device, budget, mode, .. } = *look;
        if !stream.course.is_confirmed() {
            return self.settle(stream, device, budget);
        }
        let comparable = stream.course.shape == Shape::Forward && !self.random_hint && mode != Mode::Observe;
        if stream.is_active() {
            let is_alone = self.past(stream, true).is_alone;
            let gappy = comparable && decide::leaves_out_much(&device.model(), stream, is_alone);
            if gappy || device.trial.is_bad() {
                self.settle(stream, device, budget);
                self.reason = if gappy { Reason::Wasteful } else { Reason::NoGain };
                return;
            }
            if covered && read.is_slow() {
                stream.ahead.grow(&stream.course, T::DEPTH_BYTES);
            }
            return;
        }
        let model = device.model();
        let least_ns = device.latency_ns().saturating_mul(4);
        let (window, least_ns) = if model.is_far() {
            (0, 0)
        } else {
            ((4 * device.limits.readahead_bytes()).min(2 << 20), least_ns)
        };
        let ramped = stream.course.shape != Shape::Forward
            || self.random_hint
            || stream.base.is_known(stream.course.run_bytes, window, least_ns, read.now_ns);
        match decide(&model, stream, &self.past(stream, ramped), device.trial.is_bad()) {
            Action::Leave(reason) => self.reason = reason,
            Action::Prefetch(depth) => {
                stream.activate(depth, read.now_ns);
                device.live.begin();
                self.reason = if mode == Mode::Observe { Reason::Observing } else { Reason::Prefetching };
            }
        }
    }
}
