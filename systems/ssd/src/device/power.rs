//! Power cut and recovery.

use rand::RngExt;

use super::Ssd;
use crate::command::{Nanos, Token};
use crate::error::RecoverError;

/// What a power cut left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerCut {
    /// Contents of every block as a recovery will find them. `Token(u64::MAX)` would be a block whose
    /// mapped page cannot be read, which only a planted bug brings about.
    pub image: Vec<Token>,
    /// Submitted commands that will never complete.
    pub lost_commands: u32,
    /// Blocks that power-loss protection saved from the cache.
    pub saved_blocks: u32,
}

/// What a recovery took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Map pages read.
    pub pages_read: u64,
    /// When the device takes commands again.
    pub ready_at: Nanos,
}

impl Ssd {
    /// Cuts the power at the device's present time: call `advance(now)` before. What was in DRAM is gone.
    /// Each flash operation under way ends whole or torn by the toss of the seeded coin. The device takes
    /// no commands until [`Ssd::recover`].
    pub fn power_cut(&mut self) -> PowerCut {
        let lost_commands = self.in_flight();
        let rng = &mut self.rng;
        self.dump = self.ftl.power_loss(&self.erasing, || rng.random());
        self.stats.power_cuts += 1;
        self.powered = false;
        self.queues.iter_mut().for_each(|q| q.clear());
        self.active.clear();
        self.events.clear();
        self.inflight.clear();
        self.inflight_free.clear();
        self.stalled.clear();
        self.flushes.clear();
        self.journal_waiters.clear();
        self.erasing.clear();
        self.outstanding.fill(0);
        self.gc_wanted.clear();
        (self.queued, self.pending) = (0, 0);
        (self.flush_ending, self.folding, self.force_drain, self.idle_armed) = (false, false, false, false);
        self.segment = None;
        self.barrier_epoch = 0;
        PowerCut { image: self.ftl.image(&self.dump), lost_commands, saved_blocks: self.dump.len() as u32 }
    }

    /// The oldest version of every block that a power cut from now on may bring back, seen in arrival order:
    /// what the map on flash names already. A store of payloads can forget whatever is older. Versions that
    /// only power-loss protection would save are not counted. Costs a copy of the map.
    pub fn durable_image(&self) -> Vec<Token> {
        self.ftl.image(&Vec::new())
    }

    /// Brings the device back up at `now` from what is on flash. Streams begin again at epoch 0.
    ///
    /// # Errors
    /// [`RecoverError::PowerOn`]; [`RecoverError::LostPage`] if the map names a page that is not there,
    /// which is a fault of the translation layer.
    pub fn recover(&mut self, now: Nanos) -> Result<Recovery, RecoverError> {
        if self.powered {
            return Err(RecoverError::PowerOn);
        }
        self.now = self.now.max(now);
        let dump = std::mem::take(&mut self.dump);
        let pages_read = self.ftl.recover(dump)?;
        let ready_at = self.now + pages_read * self.profile.media.read_ns;
        self.lines.reset(ready_at);
        self.controller_free = ready_at;
        (self.last_write, self.last_activity) = (ready_at, ready_at);
        self.powered = true;
        for die in 0..self.ftl.flash.geo.dies {
            self.want_gc_after_recovery(die);
        }
        self.pump(ready_at);
        Ok(Recovery { pages_read, ready_at })
    }

    fn want_gc_after_recovery(&mut self, die: u32) {
        if self.ftl.wants_gc(die) {
            self.gc_wanted.push(die);
        }
    }
}
