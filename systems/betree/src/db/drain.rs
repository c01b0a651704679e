//! Draining, as much as space asks for: spilled messages take their space a second time until they reach their leaves.

use super::inner::Inner;
use crate::error::{Error, Result};
use crate::key::{End, Key};
use crate::storage::UNIT;
use std::sync::atomic::Ordering;

/// A node is passed over if less than this part of its buffers is in use, as long as there are others.
const DRAINED_PART_MIN: usize = 8;

/// What waits in extents may take so many thirds of the space that nothing else needs; the rest is for what lies dead until the
/// next checkpoint. A half costs the same when it is reached, but is reached sooner.
const SPILLED_THIRDS_MAX: u64 = 2;

/// What a step of draining did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DrainStep {
    /// Messages reached their leaves.
    Passed,
    /// What waits there, or what it waits for, cannot be read.
    Damaged,
    /// All keys have had their turn.
    Turn,
    /// What the leaves would become leaves too little space for a checkpoint.
    NoRoom,
}

impl Inner {
    /// Passes spilled messages to their leaves, those of one parent of leaves after those of another, until what waits in extents
    /// takes at most a part of what nothing else needs.
    pub(super) fn drain_spilled(&self) -> Result<()> {
        let spilled_so_far = self.store.counters.spilled_bytes.load(Ordering::Relaxed);
        if self.store.table.spilled_units_known() == 0 || !self.spilled_too_much() {
            return Ok(());
        }
        let mut drain = self.failure.unpoisoned(self.drain.lock());
        if drain.dry_at == Some(spilled_so_far) {
            return Ok(());
        }
        // Nodes for which little waits are left for another turn, unless there are no others.
        let mut thresholds = [self.store.shape.buffer_bytes / DRAINED_PART_MIN, 1].into_iter();
        let mut least = thresholds.next();
        let mut in_vain = drain.from.is_empty();
        while let Some(bytes) = least
            && self.spilled_too_much()
        {
            match self.drain_next(&mut drain.from, bytes)? {
                DrainStep::Passed => {
                    in_vain = false;
                    self.write_what_fits(self.unwritten_max())?;
                }
                DrainStep::Damaged => {}
                // A checkpoint has to free something first.
                DrainStep::NoRoom => return Ok(()),
                DrainStep::Turn => {
                    least = if in_vain { thresholds.next() } else { least };
                    in_vain = true;
                }
            }
        }
        if least.is_none() {
            drain.dry_at = Some(spilled_so_far);
        }
        Ok(())
    }

    /// One step of [`drain_spilled`](Inner::drain_spilled), at or after `from`.
    pub(super) fn drain_next(&self, from: &mut Key, least: usize) -> Result<DrainStep> {
        let _tree = self.lock_tree();
        let view = self.view();
        if !self.can_rewrite_more() {
            return Ok(DrainStep::NoRoom);
        }
        let Some((key, end)) = self.store.first_waiting(&view.root, from, least, 0)? else {
            *from = Key::default();
            return Ok(DrainStep::Turn);
        };
        // At the end of the keys a turn begins anew, and ends when nothing is left for one.
        *from = match end {
            End::At(next) => next,
            End::Open => Key::default(),
        };
        let drained = self.store.counters.drained_bytes.load(Ordering::Relaxed);
        let root = match self.store.drain(&view.root, &key) {
            Ok(root) => root,
            // Nobody asked for these keys: whoever does will learn of it.
            Err(Error::Corrupt { .. }) => {
                return Ok(if from.is_empty() { DrainStep::Turn } else { DrainStep::Damaged });
            }
            Err(e) => return Err(e),
        };
        // Until the next checkpoint leaves and extents that were drained take their space besides.
        if !self.can_rewrite_more() {
            drop(root);
            self.store.counters.drained_bytes.store(drained, Ordering::Relaxed);
            return Ok(DrainStep::NoRoom);
        }
        self.put_root(root);
        Ok(DrainStep::Passed)
    }

    /// What the next checkpoint frees counts as free.
    fn spilled_too_much(&self) -> bool {
        let (free, spilled) = (self.store.table.free_units(), self.store.table.spilled_units_known());
        let waiting = (spilled * UNIT as u64).saturating_sub(self.drained_bytes());
        let room = (free + spilled) * UNIT as u64 + self.outdated_bytes();
        waiting > room.saturating_sub(self.needed_bytes()) / 3 * SPILLED_THIRDS_MAX
    }
}
