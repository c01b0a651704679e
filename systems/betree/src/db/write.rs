//! Writing: extents for large values, the log record, the memtable, and structural batches.

use super::inner::{CurrentViews, Frozen, Inner, View};
use super::space::table_units;
use crate::batch::{self, Change, Head, PACKED_VALUE_MIN, Pending, WriteBatch};
use crate::block::{BlockKind, BlockRef};
use crate::buffer::Buffer;
use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::heap;
use crate::key::{Key, KeyRange};
use crate::log::{AppendOutcome, Backlog, Log};
use crate::memtable::Memtable;
use crate::message::{Base, ExtentSlice, Op, Value};
use crate::node::NodeRef;
use crate::store::{count, units_for};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Frozen memtables that may wait before writers have to.
const FROZEN_MAX: usize = 2;
/// After so many attempts in vain to apply a memtable or take a checkpoint for want of space, writers that wait for it are refused. What frees
/// space does so within one or two, unless somebody keeps it.
const ATTEMPTS_MAX: u32 = 3;
/// After a memtable with so much on the heap has gone, the heap's free memory is given back.
const TRIM_BYTES: usize = 8 << 20;
/// Of batches with so many bytes the memtable and the log have one copy. In a smaller one the keys, which the memtable drops when
/// it has them already, are too large a part.
const SHARED_MIN: usize = 2 << 10;
/// An extent takes values until it has this many bytes.
const EXTENT_TARGET: usize = 1 << 20;

/// What became of a frozen memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApplyOutcome {
    /// There is none.
    Nothing,
    /// It is in the tree.
    Done,
    /// A checkpoint has to free something first, or the next one would not find its space.
    Postponed,
}

/// What happens to a memtable if space is short: what applying it makes is written by the next checkpoint, beside what it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpaceCheck {
    /// It is postponed, if a checkpoint frees something, and fails otherwise.
    Postpone,
    /// It fails: if more were in memory than fits, no checkpoint could be taken any more, and nothing would ever be free.
    Require,
    /// Nobody looks: in a recovery there is no checkpoint in between, and all of the log had its place before.
    Skip,
}

/// A batch ready to be logged.
struct StagedBatch {
    batch: WriteBatch,
    /// What the tree gets, if that is not what `batch` says: large values are in extents.
    changes: Option<Vec<Change>>,
    /// The log's record: this and the batch's changes, or all in one.
    head: Head,
    record: Option<Vec<u8>>,
    /// Extents that the record refers to.
    binds: Vec<BlockRef>,
}

impl StagedBatch {
    fn record(&self) -> [&[u8]; 2] {
        match &self.record {
            Some(record) => [record, &[]],
            None => [&self.head, self.batch.body()],
        }
    }

    /// True if the memtable and the log's record should have one copy of the batch's bytes.
    fn is_shared(&self) -> bool {
        self.record.is_none() && self.changes.is_none() && self.batch.body().len() >= SHARED_MIN
    }

    /// Appends the record to the log. Of what lies in `memtable` then the copy is returned.
    fn append_to(
        &self,
        log: &Log,
        msn: u64,
        memtable: &mut Memtable,
    ) -> Result<(AppendOutcome, Option<Bytes>)> {
        let binds = !self.binds.is_empty();
        if !self.is_shared() {
            return Ok((log.append(msn, &self.record(), binds)?, None));
        }
        let body = self.batch.body();
        let mut copy = None;
        let copied = || copy.insert(memtable.copy(body)).clone();
        let appended = log.append_shared(msn, &self.head, body.len(), copied, binds)?;
        Ok((appended, copy))
    }

    /// The changes, if somebody needs to look at them more closely.
    fn into_changes(self) -> Vec<Change> {
        self.changes.unwrap_or_else(|| self.batch.into_changes())
    }

    /// Adds everything to the memtable, which may have a `copy` of the batch's bytes.
    fn add_to(&self, memtable: &mut Memtable, copy: Option<Bytes>) {
        match &self.changes {
            Some(changes) => add_changes(memtable, changes),
            None => {
                let within = copy.as_ref();
                for change in batch::pending(copy.as_deref().unwrap_or(self.batch.body())) {
                    match change {
                        Pending::Put(key, value) => memtable.put(within, key, value),
                        Pending::Patch(key, off, bytes) => memtable.patch(within, key, off, bytes),
                        Pending::Key(key, op) => memtable.push(key, op),
                        Pending::DeleteRange(range) => memtable.delete_range(&range),
                        Pending::Structural => {}
                    }
                }
            }
        }
    }
}

/// Adds changes to a memtable, but for clones and renames.
pub(super) fn add_changes(memtable: &mut Memtable, changes: &[Change]) {
    for change in changes {
        match change {
            Change::Key(key, op) => memtable.push(key, op.clone()),
            Change::DeleteRange(range) => memtable.delete_range(range),
            Change::Clone { .. } | Change::Rename { .. } => {}
        }
    }
}

impl Inner {
    pub(super) fn write(&self, batch: WriteBatch) -> Result<u64> {
        batch.check().map_err(Error::Invalid)?;
        self.check_writable()?;
        if batch.is_structural() {
            return self.write_structural(batch);
        }
        if !self.options.steps.range && batch.deletes_range() {
            // Nobody else may write between looking for the keys and deleting them.
            let _gate = self.failure.unpoisoned(self.gate.write());
            let expanded = self.expand_ranges(batch)?;
            return self.write_messages(expanded);
        }
        let _gate = self.failure.unpoisoned(self.gate.read());
        self.write_messages(batch)
    }

    /// Writes a batch that only needs the memtable; the caller holds the gate.
    fn write_messages(&self, batch: WriteBatch) -> Result<u64> {
        self.admit(batch.demand())?;
        let mut staged = self.stage_and_record(batch)?;
        let (msn, waiting) = loop {
            self.throttle()?;
            let memtable_bytes = self.memtable_bytes();
            let mut front = self.write_front();
            if self.options.background && front.view.frozen.len() >= FROZEN_MAX {
                drop(front);
                self.wait()?;
                continue;
            }
            let msn = front.last_msn + 1;
            let appended = staged.append_to(&self.log, msn, &mut front.active);
            let (waiting, copy) = match appended.map_err(|e| self.fail(e))? {
                (AppendOutcome::Full, _) => {
                    drop(front);
                    self.make_log_room()?;
                    continue;
                }
                (AppendOutcome::Done(waiting), copy) => (waiting, copy),
            };
            front.last_msn = msn;
            staged.add_to(&mut front.active, copy);
            self.pin(msn, std::mem::take(&mut staged.binds));
            if front.active.memory() >= memtable_bytes {
                self.freeze_front(&mut front);
                self.progress.notify_all();
            }
            self.waiting.store(front.waiting(), Ordering::Relaxed);
            break (msn, waiting);
        };
        match waiting {
            Backlog::Little => {}
            Backlog::Enough if self.options.background => self.log.wake(),
            Backlog::Enough | Backlog::TooMuch => self.log.commit_ready().map_err(|e| self.fail(e))?,
        }
        Ok(msn)
    }

    /// Moves large values to extents and makes the record for the log.
    fn stage_and_record(&self, batch: WriteBatch) -> Result<StagedBatch> {
        let steps = &self.options.steps;
        let max = self.log.record_bytes_max();
        let head = batch.head();
        let len = head.len() + batch.body().len();
        // What the log cannot take goes to extents, however little it is: a small log refuses nothing that fits without it.
        let least = if len > max { 1 } else { self.options.extent_bytes.max(1) };
        let packs = batch.packable_bytes() >= least;
        let plain = |batch| StagedBatch { batch, changes: None, head, record: None, binds: Vec::new() };
        if !packs || !steps.page_sharing && len <= max {
            if len > max {
                return Err(too_long(len, max));
            }
            return Ok(plain(batch));
        }
        if !steps.cond_log && len <= max {
            let changes = self.stage(batch.clone().into_changes())?;
            let bytes: usize = batch::extents(&changes).iter().map(|e| e.info().len as usize).sum();
            count(&self.store.counters.logged_twice_bytes, bytes as u64);
            return Ok(StagedBatch { changes: Some(changes), ..plain(batch) });
        }
        let changes = self.stage(batch.into_changes())?;
        let record = batch::encode(&changes);
        if record.len() > max {
            return Err(too_long(record.len(), max));
        }
        Ok(StagedBatch {
            batch: WriteBatch::new(),
            binds: batch::extents(&changes),
            changes: Some(changes),
            head,
            record: Some(record),
        })
    }

    /// Replaces each range delete by deletes of the keys in it, unless the log has no room for so many.
    fn expand_ranges(&self, batch: WriteBatch) -> Result<WriteBatch> {
        let changes = batch.clone().into_changes();
        let mut out: Vec<Change> = Vec::new();
        let (mut keys, mut bytes) = (0, 0);
        let ranges = changes.iter().filter(|c| matches!(c, Change::DeleteRange(_))).count();
        let room = self.log.record_bytes_max() / 2;
        for change in changes {
            let Change::DeleteRange(range) = &change else {
                out.push(change);
                continue;
            };
            let mut found: BTreeSet<Key> = BTreeSet::new();
            for earlier in &out {
                if let Change::Key(key, _) = earlier
                    && range.contains(key)
                {
                    found.insert(key.clone());
                }
            }
            let Some(there) = self.keys(range, room - bytes)? else { return Ok(batch) };
            found.extend(there);
            bytes += found.iter().map(|k| k.len() + 8).sum::<usize>();
            if bytes > room {
                return Ok(batch);
            }
            keys += found.len();
            out.extend(found.into_iter().map(|key| Change::Key(key, Op::delete())));
        }
        count(&self.store.counters.ranges_expanded, ranges as u64);
        count(&self.store.counters.keys_expanded, keys as u64);
        Ok(WriteBatch::from_changes(&out))
    }

    /// Keeps extents in place as long as a recovery could meet their record.
    pub(super) fn pin(&self, msn: u64, extents: Vec<BlockRef>) {
        if !extents.is_empty() {
            let mut pins = self.failure.unpoisoned(self.pins.lock());
            pins.entry(msn).or_default().extend(extents);
        }
    }

    /// Moves large values to extents.
    fn stage(&self, mut changes: Vec<Change>) -> Result<Vec<Change>> {
        let mut at = 0;
        while at < changes.len() {
            let (mut bytes, mut members) = (0, Vec::new());
            while at < changes.len() && bytes < EXTENT_TARGET {
                if let Change::Key(_, Op { base: Base::Value(Value::Inline(b)), .. }) = &changes[at]
                    && b.len() >= PACKED_VALUE_MIN
                {
                    members.push((at, bytes as u32, b.clone()));
                    bytes += b.len();
                }
                at += 1;
            }
            if members.is_empty() {
                break;
            }
            let parts: Vec<&[u8]> = members.iter().map(|(_, _, b)| &b[..]).collect();
            let extent = self.store.write_extent(BlockKind::Extent, &parts)?;
            for (i, off, b) in members {
                let len = b.len() as u32;
                if let Change::Key(_, op) = &mut changes[i] {
                    *op = Op::put_slice(ExtentSlice { extent: extent.clone(), off, len });
                }
            }
        }
        Ok(changes)
    }

    /// Without background threads does what they would have done.
    fn throttle(&self) -> Result<()> {
        self.check_writable()?;
        if self.options.background {
            return Ok(());
        }
        while self.apply_oldest()? {}
        if self.log.fill() >= 500 || self.is_tight() || self.frees_much() {
            self.checkpoint()?;
        }
        Ok(())
    }

    pub(super) fn has_to_wait(&self) -> bool {
        self.read_front().view.frozen.len() >= FROZEN_MAX
    }

    /// Lets the log empty, by a checkpoint here or in the background.
    pub(super) fn make_log_room(&self) -> Result<()> {
        if !self.options.background {
            return self.checkpoint();
        }
        self.request_checkpoint();
        self.wait()?;
        self.check_writable()
    }

    /// Waits a moment for progress in the background. The time limit only guards against a lost wake-up.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is none, for want of space.
    fn wait(&self) -> Result<()> {
        let freed = || self.store.table.freed_units() != self.starved_at.load(Ordering::Relaxed);
        if self.starved.load(Ordering::Relaxed) >= ATTEMPTS_MAX && !freed() {
            return Err(Error::NoSpace);
        }
        let signals = self.signals.lock().unwrap_or_else(|e| e.into_inner());
        let _ = self.progress.wait_timeout(signals, Duration::from_millis(20));
        Ok(())
    }

    /// Applies the oldest frozen memtable to the tree, if there is one. If there is no space, a checkpoint frees some first.
    pub(super) fn apply_oldest(&self) -> Result<bool> {
        let applied = match self.apply_next(SpaceCheck::Postpone) {
            Ok(ApplyOutcome::Postponed) | Err(Error::NoSpace) => self.apply_after_checkpoint(),
            applied => applied,
        };
        if matches!(applied, Ok(ApplyOutcome::Done)) {
            self.starved.store(0, Ordering::Relaxed);
        }
        applied.map(|applied| applied == ApplyOutcome::Done)
    }

    fn apply_after_checkpoint(&self) -> Result<ApplyOutcome> {
        loop {
            let mut last = self.lock_checkpoint();
            self.checkpoint_applied(&mut last)?;
            let base = last.msn;
            drop(last);
            match self.apply_next(SpaceCheck::Require) {
                // Another thread has applied something since, and the next checkpoint frees what that has replaced.
                Err(Error::NoSpace) if Some(self.view().applied) != base => {}
                applied => return applied,
            }
        }
    }

    /// Applies the oldest frozen memtable to the tree.
    pub(super) fn apply_next(&self, check: SpaceCheck) -> Result<ApplyOutcome> {
        if self.view().frozen.is_empty() {
            return Ok(ApplyOutcome::Nothing);
        }
        self.drain_spilled()?;
        let loose = {
            let _tree = self.lock_tree();
            let view = self.view();
            let Some(oldest) = view.frozen.first() else { return Ok(ApplyOutcome::Nothing) };
            let drained = self.store.counters.drained_bytes.load(Ordering::Relaxed);
            self.store.msn.store(oldest.last_msn, Ordering::Relaxed);
            let buffer = oldest.buffer();
            let spilled = self.store.spill(&view.root, buffer, self.unwritten_max())?;
            let root = self.store.apply(&view.root, spilled.as_ref().unwrap_or(buffer))?;
            let applied = match check {
                SpaceCheck::Postpone if self.outdated_bytes() > 0 && !self.can_write_unwritten() => {
                    Ok(ApplyOutcome::Postponed)
                }
                SpaceCheck::Postpone | SpaceCheck::Require => {
                    self.require_checkpoint_space(&root).map(|()| ApplyOutcome::Done)
                }
                SpaceCheck::Skip => Ok(ApplyOutcome::Done),
            };
            if !matches!(applied, Ok(ApplyOutcome::Done)) {
                self.store.counters.drained_bytes.store(drained, Ordering::Relaxed);
                return applied;
            }
            let mut front = self.write_front();
            let frozen = front.view.frozen[1..].to_vec();
            front.view = Arc::new(View { frozen, root, applied: oldest.last_msn });
            self.waiting.store(front.waiting(), Ordering::Relaxed);
            drop(front);
            self.bind_log(oldest, view.applied, spilled.as_ref());
            oldest.loose
        };
        if !self.options.background {
            self.log.commit_ready().map_err(|e| self.fail(e))?;
        }
        if loose >= TRIM_BYTES {
            heap::trim();
        }
        self.progress.notify_all();
        // Once they run, a thread of its own writes nodes; only if it falls behind the work is shared.
        let keep = self.unwritten_max() * if self.store.behind { 2 } else { 1 };
        self.write_what_fits(keep)?;
        Ok(ApplyOutcome::Done)
    }

    /// Sees that a checkpoint of the tree at `root` will find its space. How much its nodes take is only known when they are
    /// written: they are, if it might not be there.
    fn require_checkpoint_space(&self, root: &NodeRef) -> Result<()> {
        if self.fits_unwritten() {
            return Ok(());
        }
        let block = self.store.write_tree(root)?;
        let table = &self.store.table;
        let changed = units_for(table.changes(block.id()).encode().len());
        if table.free_units() < table_units(changed) { Err(Error::NoSpace) } else { Ok(()) }
    }

    /// Lets one record that refers to what was spilled of a memtable stand for the records of its batches, as far as they have not
    /// been written: so the bytes are written once. `applied` is the last message before it. The tree is locked, so nothing of
    /// `spilled` has left it.
    fn bind_log(&self, memtable: &Frozen, applied: u64, spilled: Option<&Buffer>) {
        let upto = memtable.last_msn;
        let spilled = spilled.filter(|s| s.spilled_bytes() >= memtable.buffer().weight() / 2);
        let Some(spilled) = spilled else {
            self.log.free(upto);
            self.log.release_held();
            return;
        };
        if !self.bind_held(upto, applied, spilled) {
            self.log.free(upto);
        }
        // The next one is likely to be like this one.
        self.log.hold();
    }

    fn bind_held(&self, upto: u64, applied: u64, spilled: &Buffer) -> bool {
        // What is not the memtable's is not in `spilled`.
        let Some((first, held)) = self.log.held(upto).filter(|(first, _)| *first > applied) else {
            return false;
        };
        let (changes, record) = batch::of_buffer(spilled);
        let extents = batch::extents(&changes);
        // Records that have been written may name the other extents already, and no two may.
        let named = first > applied + 1 && extents.iter().any(|e| e.info().kind != BlockKind::Spilled);
        // What is little less is not worth a flush of the extents.
        if named || record.len() as u64 > (held / 2).min(self.log.record_bytes_max() as u64) {
            return false;
        }
        self.pin(upto, extents);
        let bound = self.log.bind(upto, &record);
        if bound {
            count(&self.store.counters.bound_bytes, held);
        }
        bound
    }

    /// A batch with clones: all writers wait, everything before is applied, and the batch becomes a new root.
    /// The root is made before anything is logged, so a failure leaves no trace.
    fn write_structural(&self, batch: WriteBatch) -> Result<u64> {
        self.admit(batch.demand())?;
        let _gate = self.failure.unpoisoned(self.gate.write());
        let mut staged = self.stage_and_record(batch)?;
        let binds = std::mem::take(&mut staged.binds);
        let record = staged.record().concat();
        let changes = staged.into_changes();
        loop {
            self.freeze();
            while self.apply_oldest()? {}
            let tree = self.lock_tree();
            let view = self.view();
            if !view.frozen.is_empty() {
                continue;
            }
            let msn = self.read_front().last_msn + 1;
            self.store.msn.store(msn, Ordering::Relaxed);
            let root = self.transform(&view.root, &changes)?;
            let appended = self.log.append(msn, &[&record], !binds.is_empty()).map_err(|e| self.fail(e))?;
            if matches!(appended, AppendOutcome::Full) {
                drop(tree);
                self.checkpoint()?;
                continue;
            }
            // It is no part of the next memtable.
            self.log.close_chunk();
            self.log.free(msn);
            let mut front = self.write_front();
            front.last_msn = msn;
            front.view = Arc::new(View { frozen: Vec::new(), root, applied: msn });
            self.waiting.store(front.waiting(), Ordering::Relaxed);
            self.pin(msn, binds);
            return Ok(msn);
        }
    }

    /// The tree after `changes`.
    pub(super) fn transform(&self, root: &NodeRef, changes: &[Change]) -> Result<NodeRef> {
        let mut root = root.clone();
        let mut messages = Memtable::default();
        for change in changes {
            match change {
                Change::Key(key, op) => messages.push(key, op.clone()),
                Change::DeleteRange(range) => messages.delete_range(range),
                Change::Clone { from, to } | Change::Rename { from, to } => {
                    root = self.store.apply(&root, &std::mem::take(&mut messages).freeze())?;
                    root = self.store.clone_prefix(&root, from, to)?;
                    if matches!(change, Change::Rename { .. }) {
                        messages.delete_range(&KeyRange::prefix(from));
                    }
                }
            }
        }
        let rest: Buffer = messages.freeze();
        self.store.apply(&root, &rest)
    }

    /// When nothing waits to be applied, the tree is the state after the newest batch, also if the last ones changed nothing.
    /// Without that, a recovery whose newest batch is empty would end with a checkpoint of the batch before, and the next
    /// recovery would take what follows for a gap in the log: what had been synced in between would be lost.
    pub(super) fn count_empty(&self) {
        let mut front = self.write_front();
        let view = &front.view;
        if front.active.is_empty() && view.frozen.is_empty() && view.applied < front.last_msn {
            let (root, applied) = (view.root.clone(), front.last_msn);
            front.view = Arc::new(View { frozen: Vec::new(), root, applied });
        }
    }

    /// Freezes the memtable if it holds anything.
    pub(super) fn freeze(&self) {
        let mut front = self.write_front();
        if !front.active.is_empty() {
            self.freeze_front(&mut front);
        }
    }

    /// Replaces the memtable by an empty one.
    fn freeze_front(&self, front: &mut CurrentViews) {
        let mut frozen = front.view.frozen.clone();
        frozen.push(Frozen::new(std::mem::take(&mut front.active), front.last_msn));
        front.view = Arc::new(View { frozen, root: front.view.root.clone(), applied: front.view.applied });
        self.log.close_chunk();
    }
}

fn too_long(bytes: usize, max: usize) -> Error {
    Error::Invalid(format!("batch of {bytes} log bytes, at most {max} are allowed"))
}
