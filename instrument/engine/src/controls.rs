//! Flowops that steer instead of moving data: limiters, semaphores, finish conditions, delays.

use stats::outcome::Direction;
use workload::Kind;

use crate::lane::{Lane, OpResult, RunFault};
use crate::program::Op;
use crate::target::Target;

impl<T: Target> Lane<'_, T> {
    pub(crate) async fn control_op(&mut self, op: &Op, index: usize) -> Result<OpResult, Box<RunFault>> {
        match op.flow.kind {
            Kind::EventLimit | Kind::IopsLimit | Kind::OpsLimit | Kind::BwLimit => {
                Ok(self.limit(op, index).await)
            }
            Kind::FinishOnCount => Ok(self.finish(op, |(ops, _), value| ops >= value)),
            Kind::FinishOnBytes => Ok(self.finish(op, |(_, bytes), value| bytes > value)),
            Kind::SemBlock | Kind::SemPost => self.semaphore(op).await,
            Kind::Block => {
                let Some(event) = &op.event else { return Ok(OpResult::Nothing) };
                let seen = event.seen();
                while event.seen() == seen && !self.over() {
                    self.shared.control.idle(self.target.wait(event, seen)).await;
                }
                Ok(OpResult::Done(0))
            }
            Kind::Wakeup => {
                if let Some(event) = &op.event {
                    event.notify();
                    self.target.notified(event);
                }
                Ok(OpResult::Done(0))
            }
            Kind::Delay => {
                let seconds = self.draws.eval(op.flow.value);
                let until = self.target.now().saturating_add(seconds.saturating_mul(1_000_000_000));
                self.target.sleep_until(until.min(self.timing.deadline_ns)).await;
                Ok(OpResult::Done(0))
            }
            Kind::Hog => {
                let stores = self.draws.eval(op.flow.value);
                let buffer = &mut self.read_buffer;
                for store in 0..stores {
                    buffer[store as usize % 4096] = std::hint::black_box(store as u8);
                }
                Ok(OpResult::Done(0))
            }
            Kind::Print => {
                let text = op.flow.text.clone().unwrap_or_default();
                self.shared.say(format!("Message from {}: {text}", self.label));
                Ok(OpResult::Done(0))
            }
            Kind::TestRandVar => {
                let value = self.draws.eval_f64(op.flow.value);
                let (count, mean, squares) = &mut self.drawn;
                *count += 1;
                let off = value - *mean;
                *mean += off / *count as f64;
                *squares += off * (value - *mean);
                Ok(OpResult::Done(0))
            }
            _ => Ok(OpResult::Nothing),
        }
    }

    /// Takes as many places in the limiter's schedule as this thread owes, and waits until they are due. Without `eventgen` it
    /// is as if it were not there.
    async fn limit(&mut self, op: &Op, index: usize) -> OpResult {
        let Some(schedule) = &op.schedule else { return OpResult::Nothing };
        let owed = if op.flow.kind == Kind::EventLimit {
            1
        } else {
            let counter = self.limiter_counter(op);
            std::mem::replace(&mut self.charged[index], counter).abs_diff(counter)
        };
        if owed > 0 {
            let due = self.timing.begin_ns + schedule.take(owed);
            if !self.meet(due).await {
                return OpResult::Stopped;
            }
        }
        OpResult::Done(0)
    }

    /// What a limiter counts, of this thread alone: bytes, reads and writes, or all I/O operations.
    fn limiter_counter(&self, op: &Op) -> u64 {
        let bytes = op.flow.kind == Kind::BwLimit;
        let counts = |index: usize| {
            let watched = &self.program.ops[index];
            match op.flow.kind {
                Kind::IopsLimit => watched.direction != Direction::Neither,
                _ => watched.is_io,
            }
        };
        let sum = |index: usize| if bytes { self.done[index].1 } else { self.done[index].0 };
        if op.flow.target.is_some() {
            op.watched.iter().map(|&index| sum(index)).sum()
        } else {
            (0..self.done.len()).filter(|&index| counts(index)).map(sum).sum()
        }
    }

    fn finish(&mut self, op: &Op, reached: impl Fn((u64, u64), u64) -> bool) -> OpResult {
        let value = self.draws.eval(op.flow.value);
        let counter = if op.flow.target.is_some() {
            op.watched
                .iter()
                .fold((0, 0), |sum, &index| (sum.0 + self.done[index].0, sum.1 + self.done[index].1))
        } else {
            self.shared.totals.get(self.process).map_or((0, 0), |totals| (totals.ops(), totals.bytes()))
        };
        if reached(counter, value) { OpResult::Finished } else { OpResult::Done(0) }
    }

    async fn semaphore(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let count = i64::try_from(self.draws.eval(op.flow.value)).unwrap_or(i64::MAX);
        let control = self.shared.control;
        if op.flow.kind == Kind::SemBlock {
            // The thread's instances share the semaphores of its definition, one each.
            let own = self.instance % op.semaphores.len().max(1);
            let Some(semaphore) = op.semaphores.get(own) else { return Ok(OpResult::Nothing) };
            if !semaphore.block(self.target, control, count).await {
                return Ok(OpResult::Stopped);
            }
        } else {
            for semaphore in op.semaphores.iter() {
                if !semaphore.post(self.target, control, count, op.flow.blocking).await {
                    return Ok(OpResult::Stopped);
                }
            }
        }
        Ok(OpResult::Done(0))
    }
}
