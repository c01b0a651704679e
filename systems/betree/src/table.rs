//! The block translation table: where each block is, what it refers to, and how many refer to it.
//!
//! A block is alive while a block on storage or a [`BlockRef`] in memory refers to it. The table holds the whole
//! reference graph, so freeing a tree of nodes needs no reading. It also owns the free space: both can only
//! change together.

use crate::alloc::FreeMap;
use crate::block::{BlockId, BlockInfo, BlockKind, BlockRef, Reaper, Segment};
use crate::held::Held;
use crate::wire::{Decoded, Malformed, Reader, put_int, put_u32};
use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

struct Entry {
    info: Arc<BlockInfo>,
    /// What of an extent is in memory; goes when the space is free.
    held: Option<Arc<Held>>,
    refs: u32,
}

impl Entry {
    fn new(info: Arc<BlockInfo>, refs: u32) -> Entry {
        // What is spilled is wanted once, much later.
        let held = (info.kind == BlockKind::Extent).then(Arc::default);
        Entry { info, held, refs }
    }
}

struct Inner {
    blocks: HashMap<BlockId, Entry>,
    free: FreeMap,
    next_id: BlockId,
    inner_nodes: usize,
    /// Units of spilled extents.
    spilled_units: u64,
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
    reaper: Arc<Reaper>,
    keep_discards: bool,
}

impl Table {
    /// An empty table over units `[start, end)`. With `keep_discards` freed segments are remembered for
    /// [`Table::take_discards`].
    pub fn new(start: u64, end: u64, keep_discards: bool) -> Self {
        let inner = Inner {
            blocks: HashMap::new(),
            free: FreeMap::new(start, end),
            next_id: 1,
            inner_nodes: 0,
            spilled_units: 0,
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
        }
    }

    /// Locks, and first settles the references dropped since the last time.
    fn lock(&self) -> Locked<'_> {
        let inner = self.inner.lock().unwrap_or_else(|e| e.into_inner());
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
        inner.inner_nodes += usize::from(info.kind == BlockKind::Inner);
        inner.spilled_units += spilled_units(&info);
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
        let nodes = inner.blocks.values().filter(|e| !e.info.kind.is_extent()).count();
        (nodes, inner.blocks.len() - nodes)
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

    /// The encoded table of everything reachable from `root`.
    pub fn encode(&self, root: BlockId) -> Vec<u8> {
        let inner = self.lock();
        let mut reached: Vec<BlockId> = vec![root];
        let mut seen: HashSet<BlockId> = reached.iter().copied().collect();
        let mut at = 0;
        let mut out = Vec::new();
        while let Some(id) = reached.get(at).copied() {
            at += 1;
            if let Some(e) = inner.blocks.get(&id) {
                put_block(&mut out, id, &e.info);
                reached.extend(e.info.out.iter().filter(|o| seen.insert(**o)));
            }
        }
        let mut all = Vec::with_capacity(out.len() + 10);
        put_int(&mut all, reached.len() as u64);
        all.extend_from_slice(&out);
        all
    }

    /// Fills an empty table from [`Table::encode`]; returns a reference to `root`.
    pub fn decode(&self, bytes: &[u8], root: BlockId) -> Decoded<BlockRef> {
        let mut wrong = Vec::new();
        let root = self.adopt(bytes, root, &mut wrong)?;
        match wrong.first() {
            None => Ok(root),
            Some((_, why)) => Err(Malformed(why)),
        }
    }

    /// Like [`Table::decode`], but leaves out blocks whose place is taken or does not exist and references to missing
    /// ones. Adds what is wrong, and with which block, to `wrong`.
    pub fn adopt(
        &self,
        bytes: &[u8],
        root: BlockId,
        wrong: &mut Vec<(BlockId, &'static str)>,
    ) -> Decoded<BlockRef> {
        let mut r = Reader::new(bytes);
        let mut inner = self.lock();
        for _ in 0..r.count()? {
            let (id, info) = read_block(&mut r)?;
            if inner.blocks.contains_key(&id) {
                wrong.push((id, "block listed twice"));
                continue;
            }
            let taken = info.segments.iter().take_while(|s| inner.free.take(**s)).count();
            if taken < info.segments.len() {
                info.segments[..taken].iter().for_each(|s| _ = inner.free.free(*s));
                wrong.push((id, "block overlaps another or lies outside the storage"));
                continue;
            }
            inner.next_id = inner.next_id.max(id + 1);
            inner.inner_nodes += usize::from(info.kind == BlockKind::Inner);
            inner.spilled_units += spilled_units(&info);
            inner.blocks.insert(id, Entry::new(Arc::new(info), 0));
        }
        r.finish()?;
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
    fn release(&mut self, mut dropped: Vec<BlockId>, keep_discards: bool) {
        while let Some(id) = dropped.pop() {
            let Some(e) = self.blocks.get_mut(&id) else { continue };
            e.refs -= 1;
            if e.refs > 0 {
                continue;
            }
            if let Some(dead) = self.blocks.remove(&id) {
                self.inner_nodes -= usize::from(dead.info.kind == BlockKind::Inner);
                self.spilled_units -= spilled_units(&dead.info);
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

/// Appends segments.
pub fn put_segments(out: &mut Vec<u8>, segments: &[Segment]) {
    put_int(out, segments.len() as u64);
    for s in segments {
        put_int(out, s.start);
        put_int(out, s.units as u64);
    }
}

/// Reads segments.
pub fn read_segments(r: &mut Reader<'_>) -> Decoded<Vec<Segment>> {
    (0..r.count()?).map(|_| Ok(Segment { start: r.int()?, units: r.int32()? })).collect()
}

/// Encodes any blocks as a table.
#[cfg(test)]
pub(crate) fn encode_list(list: &[(BlockId, BlockInfo)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_int(&mut out, list.len() as u64);
    list.iter().for_each(|(id, info)| put_block(&mut out, *id, info));
    out
}

fn put_block(out: &mut Vec<u8>, id: BlockId, info: &BlockInfo) {
    put_int(out, id);
    out.push(match info.kind {
        BlockKind::Leaf => 0,
        BlockKind::Extent => 1,
        BlockKind::Inner => 2,
        BlockKind::Spilled => 3,
    });
    put_segments(out, &info.segments);
    put_int(out, info.len as u64);
    put_int(out, info.head_len as u64);
    put_int(out, info.sums.len() as u64);
    info.sums.iter().for_each(|s| put_u32(out, *s));
    put_int(out, info.out.len() as u64);
    info.out.iter().for_each(|id| put_int(out, *id));
}

fn read_block(r: &mut Reader<'_>) -> Decoded<(BlockId, BlockInfo)> {
    let id = r.int()?;
    let kind = match r.u8()? {
        0 => BlockKind::Leaf,
        1 => BlockKind::Extent,
        2 => BlockKind::Inner,
        3 => BlockKind::Spilled,
        _ => return Err(Malformed("unknown kind of block")),
    };
    let segments = read_segments(r)?;
    let (len, head_len) = (r.int32()?, r.int32()?);
    let sums = (0..r.count()?).map(|_| r.u32()).collect::<Decoded<_>>()?;
    let out = (0..r.count()?).map(|_| r.int()).collect::<Decoded<_>>()?;
    Ok((id, BlockInfo { kind, segments, len, head_len, sums, out }))
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
        let bytes = table.encode(root.id());
        let other = Table::new(2, 102, false);
        let back = other.decode(&bytes, root.id()).expect("decode");
        assert_eq!(other.free_units(), 89);
        assert_eq!(other.audit(2, 102, &[]), Vec::<String>::new());
        assert!(other.reference(stray.id()).is_none());
        drop(back);
        assert_eq!(other.free_units(), 100, "dropping the root frees everything");
        for cut in 0..bytes.len() {
            assert!(Table::new(2, 102, false).decode(&bytes[..cut], root.id()).is_err());
        }
        assert!(Table::new(2, 8, false).decode(&bytes, root.id()).is_err(), "outside the storage");
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
}
