//! What is to be asked for next.

use super::{FileState, Request, STREAMS};
use crate::course::Shape;
use crate::decide;
use crate::reason::Reason;
use crate::stream::Stream;
use crate::tuning::T;
use crate::{Budget, Device};

impl FileState {
    /// The next range to prefetch for a stream: the one with the least ahead of it first. It is asked for at `now_ns`.
    /// `None` also while all streams that want something must wait for their turn: see [`FileState::next_claim_ns`].
    pub fn claim_at(&mut self, now_ns: u64, device: &Device, budget: &Budget) -> Option<Request> {
        let model = device.model();
        let ready =
            |s: &Stream| s.is_active() && s.ahead.paced_ns() <= now_ns && self.wants_more(s, device, &model);
        let at = (0..STREAMS)
            .filter(|at| self.streams.get(*at).is_some_and(ready))
            .min_by_key(|at| self.streams.get(*at).map(|stream| stream.ahead_bytes()))?;
        let (size, random_hint) = (self.size, self.random_hint);
        let stream = self.streams.get(at)?;
        // What it reads since it is prefetched is its own as well, not a sign of others.
        let own_rate = match stream.course.shape {
            Shape::Forward if !random_hint => 0,
            _ => stream.base.rate().max(stream.rate_alone(now_ns)),
        };
        if model.is_shared(own_rate) && device.free_ns(model.is_queued()) > now_ns.saturating_add(T::WAKE_NS)
        {
            return None;
        }
        let ahead_max = decide::ahead_max(&model, stream, &self.past(stream, true));
        let request = decide::request_bytes(&model, stream);
        let stream = self.streams.get_mut(at)?;
        let before = *stream;
        let (offset, len) = stream.claim(ahead_max, request, size)?;
        if !budget.take(len) {
            *stream = before;
            self.reason = Reason::NoMemory;
            return None;
        }
        let turn_bytes = stream.ahead.owe(len);
        stream.ahead.time_claim(&stream.course, offset, len, now_ns);
        device.queue.ask(now_ns, len, &model);
        if let Some(turn_ns) = model.turn_ns(turn_bytes, own_rate) {
            stream.ahead.end_turn(now_ns.saturating_add(turn_ns));
        }
        self.counters.issued += len;
        Some(Request::covering(offset, len))
    }

    /// When the first stream that wants something has its turn, ns; `None` without one.
    pub fn next_claim_ns(&self, device: &Device) -> Option<u64> {
        let model = device.model();
        let wanting = self
            .streams
            .iter()
            .filter(|stream| stream.is_active() && self.wants_more(stream, device, &model));
        wanting.map(|stream| stream.ahead.paced_ns().max(device.free_ns(model.is_queued()))).min()
    }
}
