//! Does again what a trace has recorded. Records begin in their order, each when it is due and a place of the queue is free; one
//! that cannot begin in time is late, and those behind it are as far as they have to be: due times stay what they are.

use workload::stream::Replay;
use workload::trace::Action;

use super::next::{READ, TRIM, WRITE};
use super::port::Port;
use super::{Fallible, Runner};
use crate::lane::RunFault;

impl<P: Port> Runner<'_, P> {
    /// Replays a trace once: true when it has come to its end, false when the time is up or the run's operations are done before.
    pub(super) fn replay(&mut self, replay: &Replay) -> Fallible<bool> {
        let mut now = self.clock.now();
        // a further pass follows when the trace before it was to end, or later
        let begin_ns = if self.replay_ends_ns == 0 { self.begin_ns } else { self.replay_ends_ns.max(now) };
        let due_at = |recorded_ns: u64| Some(begin_ns.saturating_add(replay.due_ns(recorded_ns)?));
        // what has no due time of its own was wanted with what is before it: at the last due time, or at the begin
        let mut wanted = due_at(0).filter(|_| replay.is_paced());
        for record in replay.trace.records() {
            if now >= self.deadline_ns || self.frame.shared.control.stopped() {
                return Ok(false);
            }
            self.end_ramp_if_over(now);
            let is_operation = record.action.operation().is_some();
            if is_operation && !self.may_begin()? {
                return Ok(false);
            }
            if let Some(due) = record.due_ns.and_then(due_at) {
                if !self.meet(due)? {
                    return Ok(false);
                }
                wanted = Some(due);
            }
            if is_operation && wanted.is_some() {
                self.offer = wanted;
            }
            let (file, offset, bytes) = (record.file as usize, record.offset, record.bytes as usize);
            self.fits(file, record.action, bytes)?;
            now = match record.action {
                Action::Read => self.transfer(file, READ, offset, bytes)?,
                Action::Write => self.transfer(file, WRITE, offset, bytes)?,
                Action::Trim => self.transfer(file, TRIM, offset, bytes)?,
                Action::Fsync => self.begin_sync(file, false)?,
                Action::Fdatasync => self.begin_sync(file, true)?,
                Action::Open => {
                    self.open(file)?;
                    self.clock.now()
                }
                Action::Close => {
                    self.quiesce()?;
                    self.close(file)?;
                    self.clock.now()
                }
            };
            self.issued += u64::from(is_operation);
        }
        self.quiesce()?;
        let end = due_at(replay.trace.length_ns).filter(|_| replay.trace.is_timed);
        self.replay_ends_ns = end.unwrap_or(now);
        // the last wait of a log has nothing behind it
        match end {
            Some(end) => self.meet(end),
            None => Ok(true),
        }
    }

    /// A record of a file that is there, and of a transfer for which there is memory: what a worker is told, it does not believe.
    #[inline]
    fn fits(&self, file: usize, action: Action, bytes: usize) -> Fallible<()> {
        let most = self.places.first().map_or(0, |place| place.buffer.len());
        let moves = matches!(action, Action::Read | Action::Write);
        if file < self.files.len() && (!moves || bytes <= most) {
            return Ok(());
        }
        Err(RunFault::boxed(format!(
            "{}: the trace is damaged: a record of {bytes} bytes of file {file}; there are {} files, and buffers of {most} bytes",
            self.frame.label,
            self.files.len()
        )))
    }
}
