//! What is to be asked for next.

use super::{FileState, Request, STREAMS};
use crate::decide;
use crate::reason::Reason;
use crate::stream::{Shape, Stream};
use crate::{Budget, Device};

impl FileState {
    /// The next range to prefetch for a stream: the one with the least ahead of it first. It is asked for at `now_ns`.
    /// `None` also while all streams that want something must wait for their turn: see [`FileState::next_claim_ns`].
    pub fn claim_at(&mut self, now_ns: u64, device: &Device, budget: &Budget) -> Option<Request> {
        let model = device.model();
        let ready = |s: &Stream| s.active && s.paced_ns <= now_ns && self.wants_more(s, device, &model);
        let at = (0..STREAMS)
            .filter(|at| self.streams.get(*at).is_some_and(ready))
            .min_by_key(|at| self.streams.get(*at).map(|stream| stream.ahead()))?;
        let (size, random_hint) = (self.size, self.random_hint);
        let stream = self.streams.get(at)?;
        let ahead_max = decide::ahead_max(&model, stream, &self.past(stream, true));
        let request = decide::request_bytes(&model, stream, random_hint);
        let stream = self.streams.get_mut(at)?;
        let before = *stream;
        let (offset, len) = stream.claim(ahead_max, request, size)?;
        if !budget.take(len) {
            *stream = before;
            self.reason = Reason::NoMemory;
            return None;
        }
        stream.owed += len;
        stream.time_claim(offset, len, now_ns);
        stream.turn_bytes = stream.turn_bytes.saturating_add(len);
        // What it reads since it is prefetched is its own as well, not a sign of others.
        let own_rate = stream.base_rate.max(stream.rate_alone(now_ns));
        let own_rate = (stream.shape != Shape::Forward || random_hint).then_some(own_rate);
        if let Some(turn_ns) = model.turn_ns(stream.turn_bytes, own_rate) {
            stream.turn_bytes = 0;
            stream.paced_ns = now_ns.saturating_add(turn_ns);
        }
        self.counters.issued += len;
        Some(Request::covering(offset, len))
    }

    /// When the first stream that wants something has its turn, ns; `None` without one.
    pub fn next_claim_ns(&self, device: &Device) -> Option<u64> {
        let model = device.model();
        let wanting =
            self.streams.iter().filter(|stream| stream.active && self.wants_more(stream, device, &model));
        wanting.map(|stream| stream.paced_ns).min()
    }

    /// Whether a claim would find something.
    pub fn has_claim(&self, device: &Device) -> bool {
        let model = device.model();
        self.streams.iter().any(|stream| stream.active && self.wants_more(stream, device, &model))
    }
}
