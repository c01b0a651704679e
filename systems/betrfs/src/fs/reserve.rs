//! Space that `fallocate` reserves: which blocks of a file are reserved, and which of those are unwritten.
//!
//! Every write takes new space in the store. So for each unwritten block the store *promises* the space of one, and a block that
//! is written over may borrow a part of the store's reserve until the old data is free.
//!
//! * A file's blocks are *reserved* by `fallocate` and *unreserved* by truncating, punching and removing it. Its areas, and how many of
//!   their blocks are *unwritten*, are kept in its `06` key and change in the same batch as its data. Which blocks these are
//!   is seen by looking at the keys of the data, once.
//! * The store's promise, in bytes, is at any time that of the unwritten blocks of all files as their keys tell them.
//!   What a file no longer needs is *taken back*.

mod areas;
mod bitmap;
mod format;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::Ordering;

use betree::WriteBatch;

pub(crate) use self::areas::Reserved;
use self::bitmap::Bitmap;
pub(crate) use self::format::decode;
use self::format::{AREAS_MAX, blocks_of, encode};
use super::Fs;
use crate::error::{Error, Result};
use crate::key::{self, BLOCK};
use crate::node::{Node, State};
use crate::record::{Inode, RESERVED, SPARSE};

/// Bytes of the store's free space that a block may need: its data, its key, and a quarter for the nodes above.
pub(super) const BLOCK_SPACE: u64 = (BLOCK as u64 + 128) / 4 * 5;

/// Areas have at most so many times the blocks that the device has room for: data may be short, but their marks take memory.
const DEVICES_MAX: u64 = 4;

/// What a write of some blocks takes of what is reserved.
#[derive(Debug, Default)]
pub(super) struct Claim {
    first: u64,
    end: u64,
    /// Blocks of them that were unwritten.
    unwritten: u64,
    /// All of them are reserved.
    within: bool,
    /// Key and value that go with the data.
    pub pair: Option<(Vec<u8>, Vec<u8>)>,
}

impl Claim {
    /// Says in `batch`, which writes the blocks, what it takes.
    pub fn add_to(&self, batch: &mut WriteBatch) {
        if self.within {
            batch.overwrites();
        }
        if let Some((key, value)) = &self.pair {
            batch.put(key, value).from_promise(self.unwritten * BLOCK_SPACE);
        }
    }
}

impl Fs {
    /// Promises again what was promised when the file system was open last.
    pub(super) fn promise_again(&self) -> Result<()> {
        for item in self.db.scan(&key::all_reserved()) {
            // Who writes to a file of which that makes no sense will hear of it.
            let unwritten = self.decode_here(&item?.1).map_or(0, |(unwritten, _)| unwritten);
            self.db.promise_again(unwritten * BLOCK_SPACE);
        }
        Ok(())
    }

    /// The numbers in the value of a file's key, if such a device can have made it.
    fn decode_here(&self, value: &[u8]) -> Result<(u64, Vec<(u64, u64)>)> {
        let (unwritten, areas) = decode(value)?;
        if blocks_of(&areas) > self.reserved_max() || unwritten * BLOCK_SPACE > self.db.stats().capacity_bytes
        {
            return Err(Error::Corrupt("more is reserved for a file than the device has".into()));
        }
        Ok((unwritten, areas))
    }

    /// Blocks that may be reserved for one file.
    fn reserved_max(&self) -> u64 {
        self.db.stats().capacity_bytes / BLOCK as u64 * DEVICES_MAX
    }

    /// What of the file is reserved, if anything.
    pub(super) fn reserved<'s>(&self, node: &Node, state: &'s mut State) -> Result<Option<&'s mut Reserved>> {
        if state.inode.flags & RESERVED != 0 && state.reserved.is_none() {
            state.reserved = Some(Box::new(self.read_reserved(node, state)?));
        }
        Ok(state.reserved.as_deref_mut())
    }

    fn read_reserved(&self, node: &Node, state: &State) -> Result<Reserved> {
        let key = key::reserved(node.ino);
        let Some(value) = self.db.get(&key)? else { return Ok(Reserved::default()) };
        let (promised, areas) = self.decode_here(&value)?;
        let mut reserved = Reserved::default();
        for (first, end) in areas {
            reserved.reserve(&self.unwritten_of(
                node,
                state,
                first,
                end,
                std::slice::from_ref(&(first..end)),
            )?);
        }
        let unwritten = reserved.unwritten();
        if unwritten != promised {
            // An earlier version counted some blocks wrong. The key is set right at once: it tells what is promised.
            let mut batch = WriteBatch::new();
            batch.put(&key, &encode(&reserved, unwritten)).from_reserve();
            self.commit(batch)?;
            self.count_promised(promised, unwritten);
        }
        Ok(reserved)
    }

    /// The blocks `[first, end)`, with those of `gaps` set that have no data.
    fn unwritten_of(
        &self,
        node: &Node,
        state: &State,
        first: u64,
        end: u64,
        gaps: &[Range<u64>],
    ) -> Result<Bitmap> {
        let mut blocks = Bitmap::new(first, end);
        for gap in gaps {
            gap.clone().for_each(|block| blocks.set(block, true));
            self.for_written(node, state, gap, |block| blocks.set(block, false))?;
        }
        Ok(blocks)
    }

    /// Calls `each` with those of the blocks in `range` that have data.
    fn for_written(
        &self,
        node: &Node,
        state: &State,
        range: &Range<u64>,
        mut each: impl FnMut(u64),
    ) -> Result<()> {
        let end = state.inode.size.div_ceil(BLOCK as u64).clamp(range.start, range.end);
        if state.inode.flags & SPARSE == 0 {
            (range.start..end).for_each(each);
            return Ok(());
        }
        self.streams.flush_file(node.ino)?;
        let mut keys = self.db.scan(&key::blocks(&node.home(state)?, range.start, Some(end)));
        while let Some(key) = keys.next_key() {
            key::block_number(&key?).into_iter().for_each(&mut each);
        }
        Ok(())
    }

    /// What a write of the blocks `[first, end)` takes of what is reserved for the file.
    pub(super) fn claim(&self, node: &Node, state: &mut State, first: u64, end: u64) -> Result<Claim> {
        let Some(reserved) = self.reserved(node, state)? else { return Ok(Claim::default()) };
        let unwritten = reserved.unwritten_in(first, end);
        let value = || encode(reserved, reserved.unwritten() - unwritten);
        let pair = (unwritten > 0).then(|| (key::reserved(node.ino), value()));
        Ok(Claim { first, end, unwritten, within: reserved.covers(first, end), pair })
    }

    /// The blocks of `claim` have been written.
    pub(super) fn claimed(&self, state: &mut State, claim: &Claim) {
        if claim.unwritten > 0
            && let Some(reserved) = &mut state.reserved
        {
            reserved.write(claim.first, claim.end);
            self.take_back(claim.unwritten);
        }
    }

    /// Adds to `batch` that the blocks `[first, end)` are not reserved any more; returns what is, if that is less than before. Nothing
    /// has happened before [`Fs::set_reserved`].
    pub(super) fn unreserve(
        &self,
        batch: &mut WriteBatch,
        node: &Node,
        state: &mut State,
        inode: &mut Inode,
        (first, end): (u64, u64),
    ) -> Result<Option<Reserved>> {
        let Some(reserved) = self.reserved(node, state)? else { return Ok(None) };
        let mut left = reserved.clone();
        left.unreserve(first, end);
        if left.areas().len() > AREAS_MAX {
            return Err(Error::NotSupported);
        }
        if left == *reserved {
            return Ok(None);
        }
        put_reserved(batch, node, inode, &left);
        Ok(Some(left))
    }

    /// Adds to `batch` that the blocks `[first, end)` are reserved, those in `erased` after they have lost their data; returns what
    /// is reserved then, for which the store has promised the space. Until [`Fs::set_reserved`] the file has what it had; if the
    /// batch is not written, the difference is to be [taken back](Fs::take_back).
    pub(super) fn reserve(
        &self,
        batch: &mut WriteBatch,
        node: &Node,
        state: &mut State,
        inode: &mut Inode,
        (first, end): (u64, u64),
        erased: Range<u64>,
    ) -> Result<Reserved> {
        let mut reserved = self.reserved(node, state)?.cloned().unwrap_or_default();
        let before = reserved.unwritten();
        reserved.unreserve(erased.start, erased.end);
        let gaps = reserved.gaps(first, end);
        let new: u64 = gaps.iter().map(|gap| gap.end - gap.start).sum();
        if reserved.blocks() + new > self.reserved_max() {
            return Err(Error::NoSpace);
        }
        // Counted before anything is made of it: what does not fit must not take memory for each of its blocks.
        let mut lacking = new;
        let kept = |gap: &Range<u64>| {
            let before = gap.start..gap.end.min(erased.start).max(gap.start);
            let behind = gap.start.max(erased.end).min(gap.end)..gap.end;
            if erased.is_empty() { [gap.clone(), 0..0] } else { [before, behind] }
        };
        for part in gaps.iter().flat_map(kept) {
            self.for_written(node, state, &part, |_| lacking -= 1)?;
        }
        let more = (reserved.unwritten() + lacking).saturating_sub(before);
        self.promise(more)?;
        let mut add = || {
            let mut blocks = self.unwritten_of(node, state, first, end, &gaps)?;
            blocks.within(erased.start, erased.end).for_each(|block| blocks.set(block, true));
            reserved.reserve(&blocks);
            if reserved.areas().len() > AREAS_MAX { Err(Error::NotSupported) } else { Ok(()) }
        };
        add().inspect_err(|_| self.take_back(more))?;
        put_reserved(batch, node, inode, &reserved);
        Ok(reserved)
    }

    /// From now on `reserved` is what is reserved for the file. Of what it had before the store takes back what is not unwritten any
    /// more; more than before has been promised already.
    pub(super) fn set_reserved(&self, state: &mut State, reserved: Reserved) {
        let before = state.reserved.as_ref().map_or(0, |reserved| reserved.unwritten());
        self.take_back(before.saturating_sub(reserved.unwritten()));
        state.reserved = (!reserved.is_empty()).then(|| Box::new(reserved));
    }

    /// Data of the file were lost before they got to the store: what is reserved is again what that has.
    pub(super) fn reread_reserved(&self, node: &Node, state: &mut State) {
        let Some(reserved) = state.reserved.take() else { return };
        self.count_promised(reserved.unwritten(), self.unwritten(node, state).unwrap_or(0));
    }

    /// Unwritten blocks of the file; needs no look at its data.
    pub(super) fn unwritten(&self, node: &Node, state: &State) -> Result<u64> {
        match &state.reserved {
            Some(reserved) => Ok(reserved.unwritten()),
            None if state.inode.flags & RESERVED == 0 => Ok(0),
            None => {
                let value = self.db.get(&key::reserved(node.ino))?;
                // For one that makes no sense nothing is promised.
                Ok(value
                    .and_then(|value| self.decode_here(&value).ok())
                    .map_or(0, |(unwritten, _)| unwritten))
            }
        }
    }

    /// Has the store promise the space of so many blocks.
    fn promise(&self, blocks: u64) -> Result<()> {
        let bytes = blocks * BLOCK_SPACE;
        if bytes == 0 {
            return Ok(());
        }
        if bytes > self.space().available {
            // Of what was removed much comes back only when it is asked for.
            self.waits();
        }
        // What was collected was taken before, and counts as taken space only when it is in the store.
        self.streams.flush()?;
        Ok(self.db.promise(bytes)?)
    }

    /// Takes back the promise of so many blocks.
    pub(super) fn take_back(&self, blocks: u64) {
        self.db.take_back(blocks * BLOCK_SPACE);
    }

    /// A file has lost a name: takes back what was promised for its `unwritten` blocks, if that was the last and nobody holds it.
    pub(super) fn take_back_if_gone(&self, node: &Node, state: &State, unwritten: u64) {
        if state.dead && node.refs.load(Ordering::Acquire) == 0 {
            self.take_back(unwritten);
        }
    }

    /// What was promised for `before` blocks is from now on promised for `after`, whether there is space or not.
    fn count_promised(&self, before: u64, after: u64) {
        self.take_back(before.saturating_sub(after));
        self.db.promise_again(after.saturating_sub(before) * BLOCK_SPACE);
    }
}

/// Adds key and flag of what is reserved for a file.
pub(super) fn put_reserved(batch: &mut WriteBatch, node: &Node, inode: &mut Inode, reserved: &Reserved) {
    if reserved.is_empty() {
        batch.delete(&key::reserved(node.ino));
        inode.flags &= !RESERVED;
    } else {
        batch.put(&key::reserved(node.ino), &encode(reserved, reserved.unwritten()));
        inode.flags |= RESERVED;
    }
}
