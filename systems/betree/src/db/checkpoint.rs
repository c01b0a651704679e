//! Checkpoints: a state of the tree becomes the one that a recovery starts from.

use super::inner::{Checkpoint, Inner};
use super::write::{ApplyOutcome, SpaceCheck};
use crate::block::{BlockId, Segment};
use crate::error::{Doing, Error, Result};
use crate::place::{PieceList, StoredPiece, TableLocation};
use crate::storage::UNIT;
use crate::store::count;
use crate::superblock::Superblock;
use crate::table::TableDelta;
use std::sync::atomic::Ordering;

/// The table of a checkpoint that is being written.
struct NewTable {
    place: TableLocation,
    /// What the superblock says of it.
    list: PieceList,
    changes: TableDelta,
}

impl Inner {
    /// Writes the tree with every batch so far, its table and a superblock; then frees what only the previous
    /// checkpoint needed. Readers and writers go on meanwhile.
    pub(super) fn checkpoint(&self) -> Result<()> {
        self.check_writable()?;
        let mut last = self.lock_checkpoint();
        self.freeze();
        let target = self.read_front().last_msn;
        self.apply_up_to(target, &mut last)?;
        self.count_empty();
        self.checkpoint_applied(&mut last)?;
        drop(last);
        self.starved.store(0, Ordering::Relaxed);
        self.progress.notify_all();
        Ok(())
    }

    /// Applies what is frozen, as far as message `target`, with checkpoints in between where space has to be freed first.
    pub(super) fn apply_up_to(&self, target: u64, last: &mut Checkpoint) -> Result<()> {
        let mut check = SpaceCheck::Postpone;
        while self.view().applied < target {
            match self.apply_next(check) {
                Ok(ApplyOutcome::Done) => check = SpaceCheck::Postpone,
                // A checkpoint frees what has been replaced since the last one, by this thread or by another one in the meantime.
                Ok(ApplyOutcome::Postponed) | Err(Error::NoSpace)
                    if check == SpaceCheck::Postpone || last.msn != Some(self.view().applied) =>
                {
                    self.checkpoint_applied(last)?;
                    check = SpaceCheck::Require;
                }
                Ok(_) => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// A checkpoint of what has been applied.
    pub(super) fn checkpoint_applied(&self, last: &mut Checkpoint) -> Result<()> {
        match self.write_checkpoint(last) {
            Err(Error::NoSpace) => {
                // Whoever applies messages at the moment may have taken the space for a tree that he gives up: nobody does now.
                let _tree = self.lock_tree();
                self.store.flight.drain().map_err(|e| self.fail(e))?;
                self.write_checkpoint(last)
            }
            written => written,
        }
    }

    fn write_checkpoint(&self, last: &mut Checkpoint) -> Result<()> {
        let view = self.view();
        // Writers may have gone on, but whatever this root holds is exactly the batches up to `applied`.
        let (root, applied) = (view.root.clone(), view.applied);
        drop(view);
        let drained = self.store.counters.drained_bytes.load(Ordering::Relaxed);
        let block = self.store.write_tree(&root)?;
        let (level, weight, width) = (root.level(), root.weight(), root.width());
        // Whoever waits to take the next checkpoint counts on it that this one no longer keeps what that frees.
        drop(root);
        let nodes_written = self.store.counters.node_bytes_written.load(Ordering::Relaxed);
        if last.root.as_ref().is_some_and(|root| root.id() == block.id())
            && last.msn == Some(applied)
            && !last.in_turn
        {
            // Nothing has changed, but what was written for another state and a scan's may be free.
            self.written_at_checkpoint.store(nodes_written, Ordering::Relaxed);
            return self.discard_freed();
        }
        let table = self.write_table(last, block.id())?;
        // So that this state could also be reached from the checkpoint before, should this one be damaged.
        self.log.commit(false).map_err(|e| self.fail(e))?;
        self.store.flight.drain().map_err(|e| self.fail(e))?;
        let storage = &*self.store.storage;
        // After a failed flush nobody knows which blocks survived, so nothing written since can be relied on.
        storage.flush().doing("flushing a checkpoint").map_err(|e| self.fail(e))?;
        let (life, (log_pos, log_seq), durable) = match &last.replayed {
            // A recovery in the middle of its log: the next one reads the same frames and skips what this checkpoint has.
            Some(log) if applied < log.last_msn => (log.life, (log.from.pos, log.from.seq), log.durable),
            _ => (self.life, self.log.tail_after(applied), self.log.durable().max(applied)),
        };
        let superblock = Superblock {
            uuid: self.uuid,
            generation: last.generation + 1,
            life,
            units: self.units,
            log_units: self.log_units,
            shape: self.store.shape,
            table: table.list,
            root: (block.id(), level, weight as u32, width as u32),
            msn: applied,
            log_pos,
            log_seq,
            durable,
        };
        let written =
            if last.in_turn { superblock.write_in_turn(storage) } else { superblock.write(storage) };
        written.map_err(|e| self.fail(e))?;
        storage.flush().doing("flushing a superblock").map_err(|e| self.fail(e))?;
        last.generation += 1;
        last.msn = Some(applied);
        self.store.table.list_changes(&table.changes);
        std::mem::replace(&mut last.place, table.place).give_back_beside(&last.place, &self.store.table);
        drop(last.root.replace(block));
        self.log.release(applied);
        self.unpin(applied);
        self.written_at_checkpoint.store(nodes_written, Ordering::Relaxed);
        self.drained_at_checkpoint.store(drained, Ordering::Relaxed);
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.discard_freed()
    }

    /// Writes what the table of a tree with `root` has and that of the last checkpoint has not; all of it if there were many
    /// changes since that was written and it fits. Nothing is taken if it fails.
    fn write_table(&self, last: &Checkpoint, root: BlockId) -> Result<NewTable> {
        let table = &self.store.table;
        let changes = table.changes(root);
        if changes.is_empty() {
            return self.list_pieces(last.place.pieces.clone(), changes);
        }
        let bytes = changes.encode();
        if changes.are_whole() {
            return self.append_piece(Vec::new(), &bytes, changes);
        }
        if !last.place.takes_changes(bytes.len()) {
            let whole = table.whole(root);
            match self.append_piece(Vec::new(), &whole.encode(), whole) {
                Err(Error::NoSpace) => {}
                written => return written,
            }
        }
        self.append_piece(last.place.pieces.clone(), &bytes, changes)
    }

    fn append_piece(
        &self,
        mut pieces: Vec<StoredPiece>,
        bytes: &[u8],
        changes: TableDelta,
    ) -> Result<NewTable> {
        let (storage, table) = (&*self.store.storage, &self.store.table);
        let piece = StoredPiece::write(storage, table, bytes, self.spares())?;
        count(&self.store.counters.table_bytes_written, piece.segments().iter().map(Segment::bytes).sum());
        let taken = piece.segments();
        pieces.push(piece);
        self.list_pieces(pieces, changes).inspect_err(|_| table.give_back(&taken))
    }

    fn list_pieces(&self, pieces: Vec<StoredPiece>, changes: TableDelta) -> Result<NewTable> {
        let (storage, table) = (&*self.store.storage, &self.store.table);
        let (place, list) = TableLocation::write(pieces, storage, table, self.spares())?;
        let listed = place.lists.iter().flat_map(StoredPiece::segments).map(|s| s.bytes()).sum();
        count(&self.store.counters.table_bytes_written, listed);
        Ok(NewTable { place, list, changes })
    }

    /// Whether there is space for second copies.
    fn spares(&self) -> bool {
        !self.store.short.load(Ordering::Relaxed)
    }

    fn unpin(&self, msn: u64) {
        let mut pins = self.failure.unpoisoned(self.pins.lock());
        let later = pins.split_off(&(msn + 1));
        // Their blocks are freed when the lock has been given back.
        let _done = std::mem::replace(&mut *pins, later);
        drop(pins);
    }

    /// Tells the storage about space freed by this checkpoint. The space is out of circulation meanwhile.
    fn discard_freed(&self) -> Result<()> {
        if !self.options.discard {
            return Ok(());
        }
        let freed = self.store.table.take_discards();
        for s in &freed {
            let (off, len) = (s.start * UNIT as u64, s.units as u64 * UNIT as u64);
            // A hint that fails costs nothing but the space on a thin device.
            let _ = self.store.storage.discard(off, len);
        }
        self.store.table.give_back(&freed);
        Ok(())
    }
}
