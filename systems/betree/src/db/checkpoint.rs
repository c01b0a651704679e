//! Checkpoints: a state of the tree becomes the one that a recovery starts from.

use super::inner::{Checkpoint, Inner};
use super::write::Applied;
use crate::error::{Doing, Error, Result};
use crate::storage::{AlignedBuf, UNIT};
use crate::store::units_for;
use crate::superblock::{Superblock, TABLE_SEGMENTS_MAX};
use std::sync::atomic::Ordering;

impl Inner {
    /// Writes the tree with every batch so far, its table and a superblock; then frees what only the previous
    /// checkpoint needed. Readers and writers go on meanwhile.
    pub(super) fn checkpoint(&self) -> Result<()> {
        self.check_writable()?;
        let mut last = self.checkpoint.lock().unwrap_or_else(|e| e.into_inner());
        self.freeze();
        let target = self.read_front().last_msn;
        let mut postpones = true;
        while self.view().applied < target {
            let applied = self.apply_next(postpones)?;
            postpones = applied != Applied::Postponed;
            match applied {
                Applied::Done => {}
                Applied::Postponed => self.checkpoint_applied(&mut last)?,
                Applied::Nothing => break,
            }
        }
        self.count_empty();
        self.checkpoint_applied(&mut last)?;
        drop(last);
        self.progress.notify_all();
        Ok(())
    }

    /// A checkpoint of what has been applied.
    pub(super) fn checkpoint_applied(&self, last: &mut Checkpoint) -> Result<()> {
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
        let table = self.store.table.encode(block.id());
        let buf = AlignedBuf::from_slice(&table);
        let units = units_for(buf.len());
        let segments = self.store.table.allocate(units).ok_or(Error::NoSpace)?;
        let spare = !self.store.short.load(Ordering::Relaxed);
        let copy = if spare { self.store.table.allocate(units) } else { None };
        let copy = copy.unwrap_or_default();
        let written = self.write_table(&segments, &buf).and_then(|()| self.write_table(&copy, &buf));
        if let Err(e) = written {
            self.store.table.give_back(&segments);
            self.store.table.give_back(&copy);
            return Err(e);
        }
        // So that this state could also be reached from the checkpoint before, should this one be damaged.
        self.log.commit(false).map_err(|e| self.fail(e))?;
        self.store.flight.drain().map_err(|e| self.fail(e))?;
        let storage = &*self.store.storage;
        // After a failed flush nobody knows which blocks survived, so nothing written since can be relied on.
        storage.flush().doing("flushing a checkpoint").map_err(|e| self.fail(e))?;
        let (log_pos, log_seq) = self.log.tail_after(applied);
        let superblock = Superblock {
            uuid: self.uuid,
            generation: last.generation + 1,
            life: self.life,
            units: self.units,
            log_units: self.log_units,
            shape: self.store.shape,
            table: segments,
            table_copy: copy,
            table_len: table.len() as u64,
            table_crc: crc32c::crc32c(&table),
            root: (block.id(), level, weight as u32, width as u32),
            msn: applied,
            log_pos,
            log_seq,
        };
        let written =
            if last.in_turn { superblock.write_in_turn(storage) } else { superblock.write(storage) };
        written.map_err(|e| self.fail(e))?;
        storage.flush().doing("flushing a superblock").map_err(|e| self.fail(e))?;
        last.generation += 1;
        self.store.table.give_back(&std::mem::replace(&mut last.table, superblock.table_segments()));
        drop(last.root.replace(block));
        self.log.release(applied);
        self.unpin(applied);
        self.written_at_checkpoint.store(nodes_written, Ordering::Relaxed);
        self.drained_at_checkpoint.store(drained, Ordering::Relaxed);
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.discard_freed()
    }

    fn write_table(&self, segments: &[crate::block::Segment], buf: &AlignedBuf) -> Result<()> {
        if segments.len() > TABLE_SEGMENTS_MAX {
            return Err(Error::NoSpace);
        }
        let mut at = 0;
        for s in segments {
            let n = s.units as usize * UNIT;
            let off = s.start * UNIT as u64;
            self.store.storage.write_at(&buf[at..at + n], off).doing("writing the translation table")?;
            at += n;
        }
        Ok(())
    }

    fn unpin(&self, msn: u64) {
        let mut pins = self.pins.lock().unwrap_or_else(|e| e.into_inner());
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
