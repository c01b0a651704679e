//! One timed phase of one task.

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};

use rustix::time::{ClockId, clock_gettime};
use stats::Direction;

use crate::AppError;
use crate::bench::{Bench, Section, Tally};
use crate::span::{Span, StonewallMark};

/// A phase that runs.
pub(crate) struct Phase {
    name: &'static str,
    section: Section,
    marks_ns: [i64; 4],
    /// What this task does in it.
    pub tally: Tally,
    /// See [`Span::wall`].
    pub wall: Option<StonewallMark>,
}

/// Closes a file and hears whether that went well: network file systems may write what is left only then.
///
/// # Errors
/// What the system says.
pub(crate) fn close(file: impl Into<OwnedFd>) -> io::Result<()> {
    // SAFETY: the descriptor is this function's own, and nobody uses it afterwards.
    let closed = unsafe { libc::close(file.into().into_raw_fd()) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The monotonic clock of this host.
fn now_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

impl Phase {
    /// Waits for all tasks, and begins at the agreed moment.
    pub(crate) fn begin(
        bench: &Bench<'_>,
        name: &'static str,
        kind: &'static str,
        direction: Direction,
    ) -> Result<Phase, AppError> {
        let mut section = bench.open(name, kind, direction);
        bench.all_gather(0, true)?;
        section.restart();
        let now = now_ns();
        Ok(Phase { name, tally: section.tally(), section, marks_ns: [now; 4], wall: None })
    }

    /// All is open: the first operation begins now.
    pub(crate) fn opened(&mut self) {
        self.marks_ns[1] = now_ns();
        self.tally = self.section.tally_from_now();
    }

    /// The last operation has ended, its fsync too.
    pub(crate) fn transferred(&mut self) {
        self.marks_ns[2] = now_ns();
    }

    /// The time of the stonewall is up.
    pub(crate) fn walled(&mut self) {
        self.wall = Some(StonewallMark { at_ns: now_ns(), ops: self.tally.ops(), bytes: self.tally.bytes() });
    }

    /// The end. A phase that only opens and closes within its operations has no [`Phase::transferred`].
    pub(crate) fn end(mut self, bench: &mut Bench<'_>) -> Result<(), AppError> {
        self.marks_ns[3] = now_ns();
        if self.marks_ns[2] == self.marks_ns[0] {
            self.marks_ns[2] = self.marks_ns[3];
        }
        bench.close(self.section, &self.tally, None)?;
        bench.span(Span {
            phase: self.name.to_string(),
            marks_ns: self.marks_ns,
            ops: self.tally.ops(),
            bytes: self.tally.bytes(),
            wall: self.wall,
        });
        Ok(())
    }
}
