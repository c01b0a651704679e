//! What the log holds after a checkpoint, and applying it.
//!
//! The log is read twice, frame by frame: only one frame is in memory, however long the log is. The first pass finds the end, sees
//! that every batch makes sense, and takes the space of the extents that batches name out of the free space: before that nothing
//! may be allocated. The second pass applies one batch after the other, and the tree is written meanwhile as that of a running
//! store is. The log stays as it is to the end. A checkpoint in the middle, which is taken only where space is short, names the same
//! log as the one before, so a power cut meanwhile leaves a store that holds the same batches.

use super::inner::{Inner, View};
use super::write::{ApplyOutcome, SpaceCheck, add_changes};
use crate::batch::{self, Change};
use crate::block::BlockRef;
use crate::error::{Error, LostBatches, Result};
use crate::log::{self, Frames, LaterFrames, LogPosition, ReplayedFrame, Ring};
use crate::storage::{Storage, UNIT};
use crate::superblock::{LOG_START, Superblock};
use crate::table::Table;
use crate::wire::Malformed;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A batch and its number.
type Numbered = (u64, Vec<Change>);

/// The log of a store of `log_units`, whose frames of life `life` count.
pub(super) fn ring(uuid: u64, life: u64, log_units: u64) -> Ring {
    Ring { start: LOG_START * UNIT as u64, len: log_units * UNIT as u64, uuid, life }
}

/// The log of a checkpoint.
pub(crate) fn ring_of(sb: &Superblock) -> Ring {
    ring(sb.uuid, sb.life, sb.log_units)
}

/// Where the log goes on after a checkpoint.
pub(super) fn place_of(sb: &Superblock) -> LogPosition {
    LogPosition { pos: sb.log_pos, seq: sb.log_seq }
}

/// Consecutive frames of one life.
struct FrameRun {
    ring: Ring,
    from: LogPosition,
    /// Last message of the checkpoint that it follows.
    msn: u64,
    frames: usize,
}

/// The log after a checkpoint: where it is, and what of it has to be known before anything is written.
pub(crate) struct LogContents {
    /// Last message of the checkpoint.
    msn: u64,
    stretches: Vec<FrameRun>,
    end: LogPosition,
    /// Where the next frame may be, byte of the storage, if that cannot be read.
    pub unreadable: Option<u64>,
    /// Last message of the last frame.
    reached: u64,
    /// Frames.
    pub frames: usize,
    /// Batches after the checkpoint, up to the first that makes no sense.
    pub batches: usize,
    /// Number of the last of them, or of the checkpoint's last.
    pub last_msn: u64,
    /// Number and fault of the first that makes no sense.
    pub wrong: Option<(u64, Malformed)>,
    /// The extents that each batch names, in its order; as long as they are here, nothing takes their place.
    extents: BTreeMap<u64, Vec<BlockRef>>,
}

impl LogContents {
    /// Reads the log after checkpoint `sb`. The space of the extents in it is taken out of the free space of `table`, which holds
    /// the checkpoint's blocks.
    pub fn read(storage: &dyn Storage, table: &Table, sb: &Superblock) -> Result<LogContents> {
        let mut logged = LogContents::nothing(sb.msn, place_of(sb));
        logged.add(storage, table, ring_of(sb), place_of(sb), sb.msn)?;
        Ok(logged)
    }

    /// The same log, whose extents are taken out of the free space of another table.
    pub fn again(&self, storage: &dyn Storage, table: &Table) -> Result<LogContents> {
        let mut logged = LogContents::nothing(self.msn, self.end);
        for s in &self.stretches {
            logged.add(storage, table, s.ring, s.from, s.msn)?;
        }
        Ok(logged)
    }

    fn nothing(msn: u64, end: LogPosition) -> LogContents {
        LogContents {
            msn,
            stretches: Vec::new(),
            end,
            unreadable: None,
            reached: msn,
            frames: 0,
            batches: 0,
            last_msn: msn,
            wrong: None,
            extents: BTreeMap::new(),
        }
    }

    /// Also what follows `next`, a checkpoint of a later life, if nothing is missing in between. False if something is.
    pub fn go_on(&mut self, storage: &dyn Storage, table: &Table, next: &Superblock) -> Result<bool> {
        let follows = self.reached >= next.msn;
        if follows {
            self.add(storage, table, ring_of(next), place_of(next), next.msn)?;
        }
        Ok(follows)
    }

    /// Adds the frames of `ring` from `from` on, of which the first follows message `msn` or holds it.
    fn add(
        &mut self,
        storage: &dyn Storage,
        table: &Table,
        ring: Ring,
        from: LogPosition,
        msn: u64,
    ) -> Result<()> {
        let mut stretch = FrameRun { ring, from, msn, frames: 0 };
        let mut frames = Frames::new(storage, ring, from, msn);
        for frame in &mut frames {
            let frame = frame?;
            stretch.frames += 1;
            // A checkpoint in the middle of a recovery names frames that come before it.
            self.reached = self.reached.max(frame.last_msn);
            if self.wrong.is_none() {
                self.wrong = self.look_at(&frame, table).err();
            }
        }
        self.end = frames.place();
        self.unreadable = frames.unreadable();
        self.frames += stretch.frames;
        self.stretches.push(stretch);
        Ok(())
    }

    fn look_at(&mut self, frame: &ReplayedFrame, table: &Table) -> std::result::Result<(), (u64, Malformed)> {
        let records = log::records(frame.payload()).map_err(|m| (frame.first_msn, m))?;
        for (msn, record) in (frame.first_msn..).zip(records).filter(|(msn, _)| *msn > self.msn) {
            let mut named = Vec::new();
            let checked = batch::check(record, &mut |info| {
                let taken = info.segments.iter().take_while(|s| table.take(&[**s])).count();
                if taken < info.segments.len() {
                    table.give_back(&info.segments[..taken]);
                    return Err(Malformed("extent in use twice"));
                }
                let block = table.insert(info);
                named.push(block.clone());
                Ok(block)
            });
            checked.map_err(|m| (msn, m))?;
            if !named.is_empty() {
                self.extents.insert(msn, named);
            }
            self.batches += 1;
            self.last_msn = msn;
        }
        Ok(())
    }

    /// What lies behind the last frame, in the next `bytes` of the ring.
    pub fn later(&self, storage: &dyn Storage, bytes: u64) -> Result<LaterFrames> {
        let ring = self.stretches.last().map(|s| s.ring);
        ring.map_or(Ok(LaterFrames::default()), |ring| log::later_frames(storage, &ring, self.end, bytes))
    }

    /// The batches that superblock `sb` or `later` frames say were durable and that the log has lost.
    pub fn lost(&self, sb: &Superblock, later: &LaterFrames) -> Option<LostBatches> {
        let last = sb.durable.max(later.durable);
        let LogPosition { pos, seq } = self.end;
        let ring = ring_of(sb);
        let offset = ring.start + pos % ring.len;
        (last > self.reached).then(|| LostBatches { first: self.reached + 1, last, frame: seq, offset })
    }

    /// Where the next frame would be.
    pub fn end(&self) -> LogPosition {
        self.end
    }

    /// All extents that the batches name.
    pub fn extents(&self) -> impl Iterator<Item = &BlockRef> {
        self.extents.values().flatten()
    }

    /// The frames once more, one by one.
    pub fn frames<'a>(
        &'a self,
        storage: &'a dyn Storage,
    ) -> impl Iterator<Item = Result<ReplayedFrame>> + 'a {
        let frames = |s: &FrameRun| Frames::new(storage, s.ring, s.from, s.msn).take(s.frames);
        self.stretches.iter().flat_map(frames)
    }

    /// The batches of one of the frames that are counted in [`LogContents::batches`], one by one.
    pub fn batches<'a>(
        &'a self,
        frame: &'a ReplayedFrame,
    ) -> Result<impl Iterator<Item = Result<Numbered>> + 'a> {
        let records = match log::records(frame.payload()) {
            Ok(records) => records,
            Err(_) if self.wrong.is_some() => Vec::new(),
            Err(m) => return Err(corrupt(m.0)),
        };
        let numbered = (frame.first_msn..).zip(records);
        let counted = numbered.filter(|(msn, _)| *msn > self.msn && *msn <= self.last_msn);
        Ok(counted.map(|(msn, record)| {
            let mut named = self.extents.get(&msn).into_iter().flatten();
            let changes = batch::decode(record, &mut |info| {
                let known = named.next().filter(|block| block.info().segments == info.segments);
                known.cloned().ok_or(Malformed("extent that was not there before"))
            });
            changes.map(|changes| (msn, changes)).map_err(|m| corrupt(m.0))
        }))
    }

    /// Hands all batches to `apply`, in order.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the log is not what it was when it was read first; what `apply` says.
    pub fn replay(
        &self,
        storage: &dyn Storage,
        mut apply: impl FnMut(u64, Vec<Change>) -> Result<()>,
    ) -> Result<()> {
        let mut last = self.msn;
        for frame in self.frames(storage) {
            let frame = frame?;
            for batch in self.batches(&frame)? {
                let (msn, changes) = batch?;
                apply(msn, changes)?;
                last = msn;
            }
        }
        if last == self.last_msn { Ok(()) } else { Err(corrupt("a frame that was there before is missing")) }
    }
}

fn corrupt(why: &str) -> Error {
    Error::corrupt("log", LOG_START * UNIT as u64, why)
}

impl Inner {
    /// Applies the batches of the log that the checkpoint lacks. `logged` must be kept until there is a new one.
    pub(super) fn recover(&self, logged: &LogContents) -> Result<()> {
        if let Some((_, wrong)) = &logged.wrong {
            return Err(corrupt(wrong.0));
        }
        self.look_at_space();
        logged.replay(&*self.store.storage, |msn, changes| self.apply_logged(msn, &changes))?;
        self.end_replay(logged)
    }

    /// Applies what the last batches left in the memtable, so that the next checkpoint has all of the log.
    pub(super) fn end_replay(&self, logged: &LogContents) -> Result<()> {
        self.apply_front()?;
        self.count_empty();
        self.log.resume(logged.end(), self.read_front().last_msn);
        Ok(())
    }

    /// Applies a batch found in the log, which follows what the tree and the memtable hold.
    pub(super) fn apply_logged(&self, msn: u64, changes: &[Change]) -> Result<()> {
        if changes.iter().any(|c| matches!(c, Change::Clone { .. } | Change::Rename { .. })) {
            self.apply_front()?;
            self.store.msn.store(msn, Ordering::Relaxed);
            let root = self.transform(&self.view().root, changes)?;
            let mut front = self.write_front();
            front.last_msn = msn;
            front.view = Arc::new(View { frozen: Vec::new(), root, applied: msn });
            return Ok(());
        }
        let memtable_bytes = self.memtable_bytes();
        let mut front = self.write_front();
        front.last_msn = msn;
        add_changes(&mut front.active, changes);
        self.waiting.store(front.waiting(), Ordering::Relaxed);
        let full = front.active.memory() >= memtable_bytes;
        drop(front);
        if full { self.apply_front() } else { Ok(()) }
    }

    fn apply_front(&self) -> Result<()> {
        self.freeze();
        let target = self.read_front().last_msn;
        let mut last = self.lock_checkpoint();
        // A repair takes no checkpoint in between: its log may be of several lives, and a superblock names one.
        if last.replayed.is_some() {
            match self.apply_up_to(target, &mut last) {
                // What follows may free enough for the checkpoint that ends the recovery.
                Ok(()) | Err(Error::NoSpace) => {}
                Err(e) => return Err(e),
            }
        }
        drop(last);
        while self.apply_next(SpaceCheck::Skip)? != ApplyOutcome::Nothing {}
        // As before each batch that is written: a store that is short of space spills nothing and goes in small steps.
        self.look_at_space();
        Ok(())
    }
}
