//! The block translation table: where each block is, what it refers to, and how many refer to it.
//!
//! A block is alive while a block on storage or a [`BlockRef`] in memory refers to it. The table holds the whole
//! reference graph, so freeing a tree of nodes needs no reading. It also owns the free space: both can only
//! change together.
//!
//! What of it is on storage, the blocks below the root of the last checkpoint, is *listed*. Those are counted by the references
//! among them as well, so that the difference to the next checkpoint is found by looking at what has changed.

mod pieces;

#[cfg(test)]
pub(crate) use pieces::encode_list;
pub use pieces::{TableDelta, put_segments, read_segments};
use pieces::{block_bytes_max, read_pieces};

use crate::alloc::FreeMap;
use crate::block::{BlockId, BlockInfo, BlockKind, BlockRef, ReferenceReaper, Segment};
use crate::extent_cache::ExtentCache;
use crate::storage::{FailureLatch, UNIT};
use crate::wire::{COUNT_MAX, Decoded, Malformed};
use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Blocks that are looked at before the table's lock is given back to whoever waits for it.
const BLOCKS_PER_LOCK: usize = 1024;

struct Entry {
    info: Arc<BlockInfo>,
    /// What of an extent is in memory; goes when the space is free.
    held: Option<Arc<ExtentCache>>,
    refs: u32,
    /// References from listed blocks, and from the last checkpoint to its root. Listed is what has any.
    listed: u32,
}

impl Entry {
    fn new(info: Arc<BlockInfo>, refs: u32) -> Entry {
        // What is spilled is wanted once, much later.
        let held = (info.kind == BlockKind::Extent).then(Arc::default);
        Entry { info, held, refs, listed: 0 }
    }
}

struct Inner {
    blocks: HashMap<BlockId, Entry>,
    free: FreeMap,
    next_id: BlockId,
    /// Root of the listed blocks.
    listed_root: Option<BlockId>,
    inner_nodes: usize,
    extents: usize,
    /// Units of spilled extents.
    spilled_units: u64,
    /// Bytes that all blocks take in a piece of the table, at most.
    listing_bytes: u64,
    /// Units freed since the table was made; lets a refused writer see that trying again may help.
    freed_units: u64,
    discards: Vec<Segment>,
}

/// The table, locked; says how much is free when it is unlocked.
struct Locked<'a> {
    inner: MutexGuard<'a, Inner>,
    table: &'a Table,
}

impl Deref for Locked<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.table.free_known.store(self.inner.free.units(), Ordering::Relaxed);
        self.table.inner_nodes.store(self.inner.inner_nodes, Ordering::Relaxed);
        self.table.spilled_known.store(self.inner.spilled_units, Ordering::Relaxed);
    }
}

/// The table. All methods may be called from any thread.
pub struct Table {
    inner: Mutex<Inner>,
    /// Free units and inner nodes when it was last unlocked.
    free_known: AtomicU64,
    inner_nodes: AtomicUsize,
    spilled_known: AtomicU64,
    reaper: Arc<ReferenceReaper>,
    keep_discards: bool,
    failure: Arc<FailureLatch>,
}

impl Table {
    /// An empty table over units `[start, end)`. With `keep_discards` freed segments are remembered for
    /// [`Table::take_discards`].
    pub fn new(start: u64, end: u64, keep_discards: bool) -> Self {
        let inner = Inner {
            blocks: HashMap::new(),
            free: FreeMap::new(start, end),
            next_id: 1,
            listed_root: None,
            inner_nodes: 0,
            extents: 0,
            spilled_units: 0,
            listing_bytes: 0,
            freed_units: 0,
            discards: Vec::new(),
        };
        Table {
            free_known: inner.free.units().into(),
            inner_nodes: AtomicUsize::new(0),
            spilled_known: AtomicU64::new(0),
            inner: Mutex::new(inner),
            reaper: Arc::default(),
            keep_discards,
            failure: Arc::default(),
        }
    }

    /// A panic in the middle of a change is a failure that `latch` keeps.
    pub(crate) fn failing(self, latch: &Arc<FailureLatch>) -> Self {
        Table { failure: latch.clone(), ..self }
    }

    /// Locks, and first settles the references dropped since the last time.
    fn lock(&self) -> Locked<'_> {
        let inner = self.failure.unpoisoned(self.inner.lock());
        let mut inner = Locked { inner, table: self };
        let dropped = self.reaper.take();
        if !dropped.is_empty() {
            inner.release(dropped, self.keep_discards);
        }
        inner
    }

    /// Takes space for a block of `units` units, or `None` if there is not enough.
    pub fn allocate(&self, units: u64) -> Option<Vec<Segment>> {
        self.lock().free.allocate(units)
    }

    /// Takes exactly these segments (of an extent found in the log); false if they are not free.
    pub fn take(&self, segments: &[Segment]) -> bool {
        let mut inner = self.lock();
        segments.iter().all(|s| inner.free.take(*s))
    }

    /// Gives back space that never became a block.
    pub fn give_back(&self, segments: &[Segment]) {
        let mut inner = self.lock();
        for s in segments {
            inner.free.free(*s);
        }
    }

    /// Makes a block of allocated space. The blocks it refers to must be alive.
    pub fn insert(&self, info: BlockInfo) -> BlockRef {
        let mut inner = self.lock();
        for id in &info.out {
            if let Some(e) = inner.blocks.get_mut(id) {
                e.refs += 1;
            }
        }
        let id = inner.next_id;
        inner.next_id += 1;
        let info = Arc::new(info);
        inner.count(&info);
        let entry = Entry::new(info.clone(), 1);
        let held = entry.held.clone();
        inner.blocks.insert(id, entry);
        BlockRef::with_held(id, info, held, self.reaper.clone())
    }

    /// A new reference to a living block.
    pub fn reference(&self, id: BlockId) -> Option<BlockRef> {
        let mut inner = self.lock();
        let e = inner.blocks.get_mut(&id)?;
        e.refs += 1;
        Some(BlockRef::with_held(id, e.info.clone(), e.held.clone(), self.reaper.clone()))
    }

    /// Free units.
    pub fn free_units(&self) -> u64 {
        self.lock().free.units()
    }

    /// Free units as far as is known without a lock: what was dropped since may be missing.
    pub fn free_units_known(&self) -> u64 {
        self.free_known.load(Ordering::Relaxed)
    }

    /// Bytes of the next piece of the table, at most: it lists blocks that exist now.
    pub fn piece_bytes_max(&self) -> u64 {
        // With the two counts that it begins with.
        self.lock().listing_bytes + 20
    }

    /// Units freed so far, ever growing.
    pub fn freed_units(&self) -> u64 {
        self.lock().freed_units
    }

    /// Number of inner nodes.
    pub fn inner_nodes(&self) -> usize {
        self.inner_nodes.load(Ordering::Relaxed)
    }

    /// Units of spilled extents, whole ones, as far as is known without a lock.
    pub fn spilled_units_known(&self) -> u64 {
        self.spilled_known.load(Ordering::Relaxed)
    }

    /// Number of living nodes and extents.
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.blocks.len() - inner.extents, inner.extents)
    }

    /// Segments freed since the last call, to be discarded on storage.
    ///
    /// The caller must hold off allocations it makes itself until it has discarded them: a segment may have been
    /// allocated again, so only segments that are still free are returned, taken out of the free space. Give
    /// them back with [`Table::give_back`].
    pub fn take_discards(&self) -> Vec<Segment> {
        let mut inner = self.lock();
        let candidates = std::mem::take(&mut inner.discards);
        candidates.into_iter().filter(|s| inner.free.take(*s)).collect()
    }

    /// What the table of a checkpoint with `root` has, and the last one has not; all of it if there was none since the store was
    /// opened. The caller holds both roots.
    pub fn changes(&self, root: BlockId) -> TableDelta {
        let listed_root = self.lock().listed_root;
        self.difference(root, listed_root)
    }

    /// All of the table of a checkpoint with `root`, which the caller holds.
    pub fn whole(&self, root: BlockId) -> TableDelta {
        self.difference(root, None)
    }

    fn difference(&self, root: BlockId, from: Option<BlockId>) -> TableDelta {
        let mut changes = TableDelta { root, from, ..TableDelta::default() };
        let TableDelta { added, removed, listed, .. } = &mut changes;
        let before = |e: &Entry| if from.is_some() { e.listed } else { 0 };
        self.walk(root, |id, e| {
            let count = listed.entry(id).or_insert_with(|| before(e));
            *count += 1;
            let new = *count == 1;
            if new {
                added.push((id, e.info.clone()));
            }
            new
        });
        if let Some(from) = from {
            self.walk(from, |id, e| {
                let count = listed.entry(id).or_insert_with(|| before(e));
                *count = count.saturating_sub(1);
                let gone = *count == 0;
                if gone {
                    removed.push(id);
                }
                gone
            });
        }
        removed.sort_unstable();
        changes
    }

    /// Visits the blocks to which references lead from `start`, once for each reference, and goes on below those for which `visit`
    /// says so. Somebody holds them all; the lock is given back now and then.
    fn walk(&self, start: BlockId, mut visit: impl FnMut(BlockId, &Entry) -> bool) {
        let mut left = vec![start];
        while !left.is_empty() {
            let inner = self.lock();
            for _ in 0..BLOCKS_PER_LOCK {
                let Some(id) = left.pop() else { break };
                if let Some(e) = inner.blocks.get(&id)
                    && visit(id, e)
                {
                    left.extend_from_slice(&e.info.out);
                }
            }
        }
    }

    /// A checkpoint whose table has these changes is in force; its root and that of the last one are held.
    pub fn list_changes(&self, changes: &TableDelta) {
        let mut inner = self.lock();
        if changes.from.is_none() {
            inner.blocks.values_mut().for_each(|e| e.listed = 0);
        }
        for (id, count) in &changes.listed {
            if let Some(e) = inner.blocks.get_mut(id) {
                e.listed = *count;
            }
        }
        inner.listed_root = Some(changes.root);
    }

    /// Fills an empty table from the pieces of a checkpoint's, the whole of some checkpoint and the changes since; returns a
    /// reference to `root`.
    pub fn decode(&self, pieces: &[Vec<u8>], root: BlockId) -> Decoded<BlockRef> {
        let mut wrong = Vec::new();
        let root = self.adopt(pieces, root, &mut wrong)?;
        match wrong.first() {
            // What is counted on from here must be readable again.
            None if self.lock().next_id > COUNT_MAX / 2 => {
                Err(Malformed("a block number that no store reaches"))
            }
            None => Ok(root),
            Some((_, why)) => Err(Malformed(why)),
        }
    }

    /// Like [`Table::decode`], but leaves out blocks whose place is taken or does not exist and references to missing
    /// ones. Adds what is wrong, and with which block, to `wrong`.
    pub fn adopt(
        &self,
        pieces: &[Vec<u8>],
        root: BlockId,
        wrong: &mut Vec<(BlockId, &'static str)>,
    ) -> Decoded<BlockRef> {
        let listed = read_pieces(pieces, wrong)?;
        let mut inner = self.lock();
        for (id, info) in listed {
            if id > COUNT_MAX || u64::from(info.len.max(info.head_len)) > info.units() * UNIT as u64 {
                wrong.push((id, "block with an impossible number or length"));
                continue;
            }
            let taken = info.segments.iter().take_while(|s| inner.free.take(**s)).count();
            if taken < info.segments.len() {
                info.segments[..taken].iter().for_each(|s| _ = inner.free.free(*s));
                wrong.push((id, "block overlaps another or lies outside the storage"));
                continue;
            }
            inner.next_id = inner.next_id.max(id + 1);
            inner.count(&info);
            inner.blocks.insert(id, Entry::new(Arc::new(info), 0));
        }
        let edges: Vec<(BlockId, BlockId)> =
            inner.blocks.iter().flat_map(|(id, e)| e.info.out.iter().map(|out| (*id, *out))).collect();
        for (from, to) in edges {
            match inner.blocks.get_mut(&to) {
                Some(e) => e.refs += 1,
                None => wrong.push((from, "reference to a missing block")),
            }
        }
        drop(inner);
        self.reference(root).ok_or(Malformed("root is missing"))
    }

    /// What is known of a block.
    pub fn info(&self, id: BlockId) -> Option<Arc<BlockInfo>> {
        self.lock().blocks.get(&id).map(|e| e.info.clone())
    }

    /// The blocks by number, with the count of references to each.
    pub fn list(&self) -> Vec<(BlockId, Arc<BlockInfo>, u32)> {
        let inner = self.lock();
        let mut all: Vec<_> = inner.blocks.iter().map(|(id, e)| (*id, e.info.clone(), e.refs)).collect();
        all.sort_by_key(|(id, _, _)| *id);
        all
    }

    /// The blocks from which one of `targets` can be reached, these included.
    pub fn ancestors(&self, targets: &HashSet<BlockId>) -> HashSet<BlockId> {
        let inner = self.lock();
        let mut above: HashMap<BlockId, Vec<BlockId>> = HashMap::new();
        for (id, e) in &inner.blocks {
            e.info.out.iter().for_each(|out| above.entry(*out).or_default().push(*id));
        }
        let mut found = targets.clone();
        let mut todo: Vec<BlockId> = targets.iter().copied().collect();
        while let Some(id) = todo.pop() {
            todo.extend(above.get(&id).into_iter().flatten().filter(|a| found.insert(**a)));
        }
        found
    }

    /// Blocks that cannot be reached from `root`.
    pub fn unreachable(&self, root: BlockId) -> Vec<BlockId> {
        let inner = self.lock();
        let mut seen = HashSet::from([root]);
        let mut todo = vec![root];
        while let Some(id) = todo.pop() {
            let out = inner.blocks.get(&id).map(|e| &e.info.out[..]).unwrap_or_default();
            todo.extend(out.iter().filter(|o| seen.insert(**o)));
        }
        let mut left: Vec<BlockId> = inner.blocks.keys().filter(|id| !seen.contains(id)).copied().collect();
        left.sort_unstable();
        left
    }

    /// Checks free space and reference counts against the graph; `extra` are segments in use that are no block.
    /// Returns what is wrong.
    pub fn audit(&self, start: u64, end: u64, extra: &[Segment]) -> Vec<String> {
        let inner = self.lock();
        let mut wrong = Vec::new();
        let mut spans: Vec<(u64, u64, String)> =
            inner.free.runs().map(|(s, n)| (s, s + n, "free space".to_string())).collect();
        let segments = |list: &[Segment], what: &str| -> Vec<(u64, u64, String)> {
            list.iter().map(|s| (s.start, s.start + s.units as u64, what.to_string())).collect()
        };
        spans.extend(segments(extra, "system area"));
        for (id, e) in &inner.blocks {
            spans.extend(segments(&e.info.segments, &format!("block {id}")));
        }
        spans.sort();
        let mut at = start;
        for (from, to, what) in &spans {
            if *from != at {
                let kind = if *from < at { "used twice" } else { "neither used nor free" };
                wrong.push(format!("units {}..{} are {kind} (before {what})", at.min(*from), at.max(*from)));
            }
            at = *to;
        }
        if at != end {
            wrong.push(format!("units {at}..{end} at the end are neither used nor free"));
        }
        let mut needed: HashMap<BlockId, u32> = HashMap::new();
        for e in inner.blocks.values() {
            e.info.out.iter().for_each(|id| *needed.entry(*id).or_default() += 1);
        }
        for (id, n) in needed {
            match inner.blocks.get(&id) {
                None => wrong.push(format!("block {id} is referred to but does not exist")),
                Some(e) if e.refs < n => {
                    wrong.push(format!("block {id} counts {} of {n} references", e.refs))
                }
                Some(_) => {}
            }
        }
        wrong
    }
}

impl Inner {
    /// Counts a block that has been added.
    fn count(&mut self, info: &BlockInfo) {
        self.inner_nodes += usize::from(info.kind == BlockKind::Inner);
        self.extents += usize::from(info.kind.is_extent());
        self.spilled_units += spilled_units(info);
        self.listing_bytes += block_bytes_max(info);
    }

    fn release(&mut self, mut dropped: Vec<BlockId>, keep_discards: bool) {
        while let Some(id) = dropped.pop() {
            let Some(e) = self.blocks.get_mut(&id) else { continue };
            e.refs -= 1;
            if e.refs > 0 {
                continue;
            }
            if let Some(dead) = self.blocks.remove(&id) {
                self.inner_nodes -= usize::from(dead.info.kind == BlockKind::Inner);
                self.extents -= usize::from(dead.info.kind.is_extent());
                self.spilled_units -= spilled_units(&dead.info);
                self.listing_bytes -= block_bytes_max(&dead.info);
                for s in &dead.info.segments {
                    self.free.free(*s);
                    self.freed_units += s.units as u64;
                    if keep_discards {
                        self.discards.push(*s);
                    }
                }
                dropped.extend_from_slice(&dead.info.out);
            }
        }
    }
}

/// The units of a block if it is a spilled extent.
fn spilled_units(info: &BlockInfo) -> u64 {
    if info.kind == BlockKind::Spilled { info.units() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(table: &Table, units: u64, out: &[&BlockRef]) -> BlockRef {
        let segments = table.allocate(units).expect("space");
        let out = out.iter().map(|b| b.id()).collect();
        table.insert(BlockInfo {
            kind: BlockKind::Leaf,
            segments,
            len: units as u32 * 4096,
            head_len: 10,
            sums: vec![1],
            out,
        })
    }

    #[test]
    fn space_returns_when_the_last_reference_goes() {
        let table = Table::new(2, 102, false);
        let leaf = node(&table, 10, &[]);
        let shared = node(&table, 5, &[]);
        let root = node(&table, 1, &[&leaf, &shared]);
        let other = node(&table, 1, &[&shared]);
        drop((leaf, shared));
        assert_eq!(table.free_units(), 100 - 17);
        drop(root);
        assert_eq!(table.free_units(), 100 - 6, "the shared block must stay");
        drop(other);
        assert_eq!((table.free_units(), table.freed_units()), (100, 17));
        assert_eq!(table.audit(2, 102, &[]), Vec::<String>::new());
        assert!(table.allocate(101).is_none());
    }

    #[test]
    fn only_what_the_root_reaches_is_saved() {
        let table = Table::new(2, 102, false);
        let leaf = node(&table, 10, &[]);
        let root = node(&table, 1, &[&leaf]);
        let stray = node(&table, 20, &[&leaf]);
        let bytes = table.whole(root.id()).encode();
        let other = Table::new(2, 102, false);
        let back = other.decode(std::slice::from_ref(&bytes), root.id()).expect("decode");
        assert_eq!(other.free_units(), 89);
        assert_eq!(other.audit(2, 102, &[]), Vec::<String>::new());
        assert!(other.reference(stray.id()).is_none());
        drop(back);
        assert_eq!(other.free_units(), 100, "dropping the root frees everything");
        for cut in 0..bytes.len() {
            assert!(Table::new(2, 102, false).decode(&[bytes[..cut].to_vec()], root.id()).is_err());
        }
        assert!(Table::new(2, 8, false).decode(&[bytes], root.id()).is_err(), "outside the storage");
    }

    #[test]
    fn audit_notices_lost_and_doubly_used_units() {
        let table = Table::new(0, 50, false);
        let _leak = table.allocate(3).expect("space");
        assert!(table.audit(0, 50, &[]).iter().any(|w| w.contains("neither")));
        assert!(table.audit(0, 50, &_leak).is_empty());
        let twice = [_leak[0], _leak[0]];
        assert!(table.audit(0, 50, &twice).iter().any(|w| w.contains("twice")));
    }

    /// What a table lists: number, first unit and references of each block.
    fn listed(table: &Table) -> Vec<(BlockId, u64, Vec<BlockId>)> {
        let list = table.list();
        list.into_iter().map(|(id, info, _)| (id, info.segments[0].start, info.out.clone())).collect()
    }

    /// Random trees that share blocks; the pieces of all checkpoints so far must give what is below the newest root, and no more,
    /// whoever holds what else.
    #[test]
    fn a_whole_table_and_the_changes_since_are_the_whole_table() {
        for seed in 0..60u64 {
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut below = |n: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random >> 8) as usize % n
            };
            let table = Table::new(0, 4000, false);
            let (mut living, mut held): (Vec<BlockRef>, Vec<BlockRef>) = Default::default();
            let (mut pieces, mut last): (Vec<Vec<u8>>, Option<BlockRef>) = Default::default();
            for round in 0..25 {
                for _ in 0..below(12) {
                    let mut out: Vec<&BlockRef> = Vec::new();
                    for _ in 0..below(4).min(living.len()) {
                        let block = &living[below(living.len())];
                        if out.iter().all(|o| o.id() != block.id()) {
                            out.push(block);
                        }
                    }
                    let block = node(&table, 1 + below(3) as u64, &out);
                    if living.len() > 20 {
                        living.swap_remove(below(20));
                    }
                    living.push(block);
                }
                if living.is_empty() {
                    continue;
                }
                let root = living[below(living.len())].clone();
                let changes = table.changes(root.id());
                assert_eq!(changes.are_whole(), last.is_none());
                // Now and then a checkpoint fails.
                if below(5) == 0 {
                    continue;
                }
                if below(8) == 0 {
                    pieces = vec![table.whole(root.id()).encode()];
                    table.list_changes(&table.whole(root.id()));
                } else {
                    pieces.push(changes.encode());
                    table.list_changes(&changes);
                }
                let same = last.replace(root.clone()).is_some_and(|last| last.id() == root.id());
                assert!(!same || changes.is_empty(), "seed {seed} round {round}");
                if below(3) == 0 {
                    held.push(root.clone());
                }
                let (grown, fresh) = (Table::new(0, 4000, false), Table::new(0, 4000, false));
                let _grown = grown.decode(&pieces, root.id()).expect("whole and changes");
                let whole = [table.whole(root.id()).encode()];
                let _fresh = fresh.decode(&whole, root.id()).expect("the whole");
                assert_eq!(listed(&grown), listed(&fresh), "seed {seed} round {round}");
                assert_eq!(grown.unreachable(root.id()), Vec::<BlockId>::new());
                let nodes = table.list().len();
                assert_eq!(table.counts(), (nodes, 0));
            }
        }
    }

    #[test]
    fn changes_that_contradict_the_table_are_refused() {
        let table = Table::new(0, 100, false);
        let leaf = node(&table, 1, &[]);
        let root = node(&table, 1, &[&leaf]);
        let whole = table.whole(root.id()).encode();
        let twice = [&[0, 1][..], &whole[1..]].concat();
        for changes in [vec![1, 77, 0], vec![1, leaf.id() as u8, 0], twice, vec![0], vec![0, 0, 0]] {
            let fresh = Table::new(0, 100, false);
            assert!(fresh.decode(&[whole.clone(), changes.clone()], root.id()).is_err(), "{changes:?}");
        }
        let fresh = Table::new(0, 100, false);
        assert!(fresh.decode(&[whole, vec![0, 0]], root.id()).is_ok(), "no changes");
    }
}
