//! Space: what a writer may take, and what is kept for deletes and checkpoints.

use super::Options;
use super::inner::{Inner, View};
use crate::batch::Demand;
use crate::error::{Error, Result};
use crate::key::KeyRange;
use crate::node::NodeRef;
use crate::storage::UNIT;
use crate::store::units_for;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Units that are left for lists of the table's pieces, short ones.
const TABLE_LIST_UNITS: u64 = 3;
/// A checkpoint for the sake of space frees at least this part of all.
const FREED_PART_MIN: u64 = 64;

/// Bytes at which a memtable is full, with space on storage of `units`.
pub(super) fn memtable_bytes_max(options: &Options, units: u64) -> usize {
    let share = (units as usize * UNIT / 128).max(4096);
    options.memtable_bytes.min(share)
}

/// Units for a piece of the table of so many, and lists of pieces: one of a unit names 512 places of the piece, and may be in
/// places itself.
pub(super) fn table_units(piece: u64) -> u64 {
    piece + piece / 256 + TABLE_LIST_UNITS
}

impl Inner {
    pub(super) fn memtable_bytes(&self) -> usize {
        let normal = self.memtable_bytes_max();
        if self.store.short.load(Ordering::Relaxed) {
            normal.min(self.memtable_bytes_short())
        } else {
            normal
        }
    }

    fn memtable_bytes_max(&self) -> usize {
        memtable_bytes_max(&self.options, self.units)
    }

    /// Messages that may be applied between two checkpoints when space is short: what they rewrite, in the worst
    /// case a node on each level for every full edge, must fit half the basic reserve.
    fn memtable_bytes_short(&self) -> usize {
        let shape = &self.store.shape;
        let edge = (self.store.buffer_bytes_short() / shape.fanout).max(1);
        let levels = self.view().root.level() as usize + 2;
        let rewritten = levels * shape.leaf_bytes.max(UNIT) / edge + 1;
        (self.base_reserve_bytes() as usize / 2 / rewritten).max(64)
    }

    /// Sees whether space has become short or is plenty again.
    pub(super) fn look_at_space(&self) {
        let needed = self.needed_bytes();
        // What is known is never too much; asking takes longer.
        let short = self.store.table.free_units_known() * (UNIT as u64) < needed
            && self.store.table.free_units() * (UNIT as u64) < needed;
        if self.store.short.load(Ordering::Relaxed) != short {
            self.store.short.store(short, Ordering::Relaxed);
        }
    }

    /// Space below which it is short, in bytes.
    pub(super) fn needed_bytes(&self) -> u64 {
        self.units * UNIT as u64 / 5 + self.reserve_bytes()
    }

    /// Bytes of old versions of nodes that the next checkpoint frees, about.
    pub(super) fn outdated_bytes(&self) -> u64 {
        let written = self.store.counters.node_bytes_written.load(Ordering::Relaxed);
        written.saturating_sub(self.written_at_checkpoint.load(Ordering::Relaxed))
    }

    /// Bytes of spilled messages that have reached leaves and that the next checkpoint frees, about.
    pub(super) fn drained_bytes(&self) -> u64 {
        let drained = self.store.counters.drained_bytes.load(Ordering::Relaxed);
        drained.saturating_sub(self.drained_at_checkpoint.load(Ordering::Relaxed))
    }

    /// True if without a checkpoint space may become short, and one frees a good part.
    pub(super) fn frees_much(&self) -> bool {
        let freed = self.outdated_bytes() + self.drained_bytes();
        freed > self.units * UNIT as u64 / FREED_PART_MIN
            && self.store.table.free_units_known() * (UNIT as u64) < self.needed_bytes() + freed
    }

    /// New nodes in memory beyond this are written.
    pub(super) fn unwritten_max(&self) -> usize {
        (self.options.cache_bytes / 4).min(self.units as usize * UNIT / 32).max(2 * self.options.leaf_bytes)
    }

    /// Space that only deletes and checkpoints may use: for the nodes that are rewritten between checkpoints, and
    /// for the delete messages that inner nodes can still take.
    pub(super) fn reserve_bytes(&self) -> u64 {
        let growth = self.store.table.inner_nodes() * (self.store.buffer_bytes_short() + UNIT);
        self.base_reserve_bytes() + growth as u64
    }

    /// The part of the reserve for a checkpoint of all that may be unwritten.
    fn base_reserve_bytes(&self) -> u64 {
        let capacity = self.units * UNIT as u64;
        let needed = 2 * (self.unwritten_max() + self.memtable_bytes_max()) as u64;
        (capacity / 25).max(needed).min(capacity / 4)
    }

    /// Keeps so many bytes of free space for batches to come.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there are not as many, the storage's.
    pub(super) fn promise(&self, bytes: u64) -> Result<()> {
        if bytes > self.units * UNIT as u64 {
            return Err(Error::NoSpace);
        }
        // One at a time, so that of several who ask none is promised what another one was. Writers go on meanwhile: what has not been
        // granted yet takes nothing from them.
        let _promising = self.promising.lock().unwrap_or_else(|e| e.into_inner());
        // Not nothing at all, which is always let pass.
        let growth = usize::try_from(bytes / 5 * 4 + 1).unwrap_or(usize::MAX);
        self.admit(Demand { growth, ..Demand::default() })?;
        self.promise_again(bytes);
        Ok(())
    }

    /// Promises so many bytes without a look at what is free.
    pub(super) fn promise_again(&self, bytes: u64) {
        let more = |promised: u64| Some(promised.saturating_add(bytes));
        let _ = self.promised.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
    }

    /// So many promised bytes are taken, or not wanted any longer.
    pub(super) fn take_back(&self, bytes: u64) {
        let less = |promised: u64| Some(promised.saturating_sub(bytes));
        let _ = self.promised.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    /// Bytes that have been promised.
    pub(super) fn promised_bytes(&self) -> u64 {
        self.promised.load(Ordering::Acquire)
    }

    /// Lets a batch pass only if it and everything waiting will find space.
    pub(super) fn admit(&self, demand: Demand) -> Result<()> {
        self.look_at_space();
        if demand.growth == 0 {
            if self.refused_at.load(Ordering::Relaxed) != 0 {
                self.refused_at.store(0, Ordering::Relaxed);
            }
            return Ok(());
        }
        for attempt in 0..2 {
            if self.has_space(demand) {
                return Ok(());
            }
            let freed = self.store.table.freed_units() + 1;
            let plain = demand.promised == 0 && !demand.overwrites;
            let known = plain && self.refused_at.load(Ordering::Relaxed) == freed;
            if attempt == 1 || known && self.refusals.fetch_add(1, Ordering::Relaxed) % 64 != 63 {
                self.refused_at.store(freed, Ordering::Relaxed);
                return Err(Error::NoSpace);
            }
            // A checkpoint frees what was overwritten since the last one.
            self.checkpoint()?;
            if !self.has_space(demand) {
                self.reclaim(demand)?;
            }
        }
        Err(Error::NoSpace)
    }

    /// Moves what waits beside the keys in `ranges` down to the leaves, and takes checkpoints: what was deleted there is
    /// free then.
    pub(super) fn settle(&self, ranges: &[KeyRange]) -> Result<()> {
        self.checkpoint()?;
        let mut moved = false;
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let mut left = range.clone();
            while self.push_down(&mut left)? {
                moved = true;
                self.store.write_dirty(self.unwritten_max())?;
                if self.is_tight() {
                    self.checkpoint()?;
                }
            }
        }
        if moved { self.checkpoint() } else { Ok(()) }
    }

    /// Moves the first messages that wait beside keys in `left` one level down, and cuts off what is done. False if none
    /// wait. Takes a checkpoint first if the next one would not find its space otherwise.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if that would not help either; the storage's.
    fn push_down(&self, left: &mut KeyRange) -> Result<bool> {
        for postpones in [true, false] {
            let tree = self.lock_tree();
            let view = self.view();
            let drained = self.store.counters.drained_bytes.load(Ordering::Relaxed);
            let settled = self.store.push_down(&view.root, left)?;
            let Some((root, next)) = settled else { return Ok(false) };
            if self.can_write_unwritten() {
                self.put_root(root);
                left.lo = next;
                return Ok(true);
            }
            drop((root, view));
            self.store.counters.drained_bytes.store(drained, Ordering::Relaxed);
            drop(tree);
            if postpones {
                self.checkpoint()?;
            }
        }
        Err(Error::NoSpace)
    }

    /// Another root of the same content takes the place of the present one. The tree is locked.
    pub(super) fn put_root(&self, root: NodeRef) {
        let mut front = self.write_front();
        let (frozen, applied) = (front.view.frozen.clone(), front.view.applied);
        front.view = Arc::new(View { frozen, root, applied });
    }

    /// Writes new nodes beyond `keep` bytes. Without space they stay in memory; a checkpoint frees the space of their old
    /// versions first.
    pub(super) fn write_what_fits(&self, keep: usize) -> Result<()> {
        match self.store.write_dirty(keep) {
            Ok(()) | Err(Error::NoSpace) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Moves pending messages, deletes among them, down to the leaves until there is space or nothing is pending.
    fn reclaim(&self, demand: Demand) -> Result<()> {
        let mut left = KeyRange::all();
        for step in 1u64.. {
            let settled = match self.push_down(&mut left) {
                Err(Error::NoSpace) => false,
                settled => settled?,
            };
            if self.is_tight() || step % 64 == 0 || !settled {
                self.checkpoint()?;
                if !settled || self.has_space(demand) {
                    break;
                }
            }
            self.write_what_fits(self.unwritten_max())?;
        }
        Ok(())
    }

    fn has_space(&self, demand: Demand) -> bool {
        let waiting = self.waiting.load(Ordering::Relaxed);
        let data = (waiting + self.store.meter.unwritten() + demand.growth) as u64 / 4 * 5;
        let lent = if demand.overwrites { self.base_reserve_bytes() / 4 } else { 0 };
        let promised = self.promised_bytes().saturating_sub(demand.promised);
        let needed = (data + self.reserve_bytes() - lent).saturating_add(promised);
        let table = &self.store.table;
        table.free_units_known() * UNIT as u64 >= needed || table.free_units() * UNIT as u64 >= needed
    }

    /// True if a checkpoint would find its space now: what is unwritten, and the table, fit besides what they replace.
    pub(super) fn can_write_unwritten(&self) -> bool {
        self.fits_besides(self.base_reserve_bytes() / 8)
    }

    /// The same, certainly, however much of the table has changed.
    pub(super) fn fits_unwritten(&self) -> bool {
        let to_come = self.store.meter.unwritten() as u64 / 8;
        let bytes = self.store.table.piece_bytes_max() + to_come;
        self.fits_besides(table_units(units_for(bytes as usize)) * UNIT as u64)
    }

    /// The same, and half of the basic reserve stays for what the next messages rewrite.
    pub(super) fn can_rewrite_more(&self) -> bool {
        self.fits_besides(self.base_reserve_bytes() / 2)
    }

    fn fits_besides(&self, bytes: u64) -> bool {
        let free = self.store.table.free_units() * UNIT as u64;
        free >= bytes + self.store.meter.unwritten() as u64 / 4 * 5
    }

    /// True if space gets so short that a checkpoint should free some.
    pub(super) fn is_tight(&self) -> bool {
        // A checkpoint only helps if something was written since the last one.
        self.outdated_bytes() > 0 && !self.can_rewrite_more()
    }
}
