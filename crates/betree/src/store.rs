//! Nodes and extents on storage: loading, writing back, caching.

use crate::block::{BlockId, BlockInfo, BlockKind, BlockRef, EXTENT_CHUNK};
use crate::cache::Cache;
use crate::codec::{Body, Compression, compress, decompress, extents_of};
use crate::error::{Doing, Error, Result};
use crate::flight::Flight;
use crate::header::{self, Placed};
use crate::message::{Base, ExtentSlice, Op, Value};
use crate::node::{Home, Inner, LeafPart, Meter, Node, NodeRef, Part, Slot};
use crate::steps::Steps;
use crate::storage::{BufPool, PooledBuf, Storage, UNIT, round_up};
use crate::table::Table;
use crate::wire::{Decoded, Malformed};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Bytes of encoded nodes that are written together.
const WRITE_BATCH_BYTES: usize = 8 << 20;

/// Bytes between two parts that are read along rather than skipped.
const READ_GAP_MAX: u32 = 128 << 10;

/// Bytes of parts read with one request.
const READ_RUN_MAX: u32 = 4 << 20;

/// Bytes of transfer buffers of each size that are kept for use again.
const POOL_BYTES: usize = 8 << 20;

/// Sizes at which nodes change shape, in bytes of [`Op::weight`] unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// A leaf above this splits.
    pub leaf_bytes: usize,
    /// A basement above this splits.
    pub basement_bytes: usize,
    /// An inner node whose pending messages exceed this flushes some to a child.
    pub buffer_bytes: usize,
    /// An inner node with more children splits.
    pub fanout: usize,
}

/// Counts of work done since the store was opened.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) node_bytes_written: AtomicU64,
    pub(crate) nodes_written: AtomicU64,
    pub(crate) extent_bytes_written: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) flushes_down: AtomicU64,
    pub(crate) subtrees_dropped: AtomicU64,
    /// Flushes that also committed the metadata of a file system below.
    pub(crate) stacked_flushes: Arc<AtomicU64>,
    /// Range deletes that were written as deletes of single keys, and these.
    pub(crate) ranges_expanded: AtomicU64,
    pub(crate) keys_expanded: AtomicU64,
    /// Values handed to the log although they are in an extent, in bytes.
    pub(crate) logged_twice_bytes: AtomicU64,
    /// Entries brought up to date by point queries beyond those they asked for.
    pub(crate) entries_applied: AtomicU64,
}

/// Adds to a counter that nobody synchronises with.
pub(crate) fn count(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Everything the tree needs to turn references into nodes and back.
pub struct Store {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) table: Table,
    pub(crate) meter: Arc<Meter>,
    pub(crate) cache: Cache,
    pub(crate) shape: Shape,
    pub(crate) compression: Compression,
    /// Number of the last message applied to the newest tree; stamped on new nodes.
    pub(crate) msn: AtomicU64,
    pub(crate) counters: Counters,
    pub(crate) steps: Steps,
    pub(crate) pool: BufPool,
    /// Threads that may still be started to flush subtrees side by side.
    pub(crate) helpers: AtomicUsize,
    /// Extents that are being written; with threads that do it, `behind` is set.
    pub(crate) flight: Arc<Flight>,
    pub(crate) behind: bool,
    /// Space is short: inner nodes keep fewer messages, so that they hardly grow.
    pub(crate) short: AtomicBool,
    /// New nodes in the order made, so children before parents.
    dirty: Mutex<VecDeque<Weak<Slot>>>,
    /// Held while nodes are written, so that none is written twice.
    writing: Mutex<()>,
}

/// Nodes encoded but not written yet.
#[derive(Default)]
struct Batch {
    bytes: usize,
    nodes: Vec<Staged>,
}

/// Stretches of blocks in memory: block number, offset in it, length, and where they are in a buffer.
struct Runs(Vec<(BlockId, u32, usize, PooledBuf, usize)>);

impl Runs {
    /// The stored bytes of a part, if they are here.
    fn get(&self, home: &Home) -> Option<&[u8]> {
        let id = home.block.id();
        self.0.iter().find_map(|(block, off, len, buf, skip)| {
            let at = home.off.checked_sub(*off).filter(|_| *block == id)? as usize;
            let end = at + home.stored as usize;
            (end <= *len).then(|| &buf[skip + at..skip + end])
        })
    }
}

struct Staged {
    slot: NodeRef,
    node: Arc<Node>,
    info: BlockInfo,
    buf: PooledBuf,
    placed: Vec<Placed>,
}

impl Store {
    /// A store over `storage` whose blocks `table` describes.
    pub fn new(
        storage: Arc<dyn Storage>,
        table: Table,
        shape: Shape,
        compression: Compression,
        cache_bytes: usize,
        steps: Steps,
    ) -> Self {
        let meter = Arc::new(Meter::default());
        Store {
            storage,
            table,
            cache: Cache::new(cache_bytes, meter.clone()),
            meter,
            shape,
            compression,
            msn: AtomicU64::new(0),
            counters: Counters::default(),
            steps,
            helpers: AtomicUsize::new(0),
            flight: Arc::default(),
            behind: false,
            pool: BufPool::new(if steps.malloc { POOL_BYTES } else { 0 }),
            short: AtomicBool::new(false),
            dirty: Mutex::default(),
            writing: Mutex::default(),
        }
    }

    /// Takes a new node into the care of the store.
    pub(crate) fn make(&self, node: Node) -> NodeRef {
        let slot = Slot::dirty(node, self.msn.load(Ordering::Relaxed), &self.meter);
        let mut dirty = self.dirty.lock().unwrap_or_else(|e| e.into_inner());
        if dirty.len() == dirty.capacity() {
            dirty.retain(|w| w.upgrade().is_some_and(|s| s.block().is_none()));
        }
        dirty.push_back(Arc::downgrade(&slot));
        slot
    }

    pub(crate) fn part<T: Body>(&self, body: T) -> Arc<Part<T>> {
        Part::dirty(body.packed(), &self.meter)
    }

    /// Messages that an inner node keeps when space is short.
    pub(crate) fn buffer_bytes_short(&self) -> usize {
        self.shape.buffer_bytes / 8
    }

    /// Messages that an inner node keeps.
    pub(crate) fn buffer_bytes(&self) -> usize {
        if self.short.load(Ordering::Relaxed) { self.buffer_bytes_short() } else { self.shape.buffer_bytes }
    }

    fn resolve(&self, id: BlockId) -> Decoded<BlockRef> {
        self.table.reference(id).ok_or(Malformed("reference to a block that does not exist"))
    }

    /// Reads bytes `[off, off + len)` of a block; returns a buffer and where in it they start.
    pub(crate) fn read_block(&self, info: &BlockInfo, off: usize, len: usize) -> Result<(PooledBuf, usize)> {
        let start = off / UNIT * UNIT;
        let mut buf = self.pool.take(off + len - start);
        let mut at = 0;
        for (from, n) in info.locate(start as u64, buf.len() as u64) {
            self.storage.read_at(&mut buf[at..at + n as usize], from).doing("reading a block")?;
            at += n as usize;
        }
        count(&self.counters.reads, 1);
        count(&self.counters.bytes_read, at as u64);
        if at < off + len - start {
            return Err(Error::corrupt("block", offset_of(info), "shorter than what refers to it"));
        }
        Ok((buf, off - start))
    }

    /// The node, read if need be.
    pub(crate) fn load(&self, slot: &NodeRef) -> Result<Arc<Node>> {
        let mut state = slot.lock();
        if let Some(node) = &state.node {
            return Ok(node.clone());
        }
        let block =
            slot.block().ok_or_else(|| Error::Invalid("node is neither in memory nor stored".into()))?;
        let info = block.info();
        let (buf, skip) = self.read_block(info, 0, info.head_len as usize)?;
        let bytes = &buf[skip..skip + info.head_len as usize];
        if info.sums.first() != Some(&crc32c::crc32c(bytes)) {
            return Err(Error::corrupt("node header", offset_of(info), "checksum mismatch"));
        }
        let node = header::decode(bytes, block, &self.meter, &mut |id| self.resolve(id))
            .map_err(|m| Error::corrupt("node header", offset_of(info), m.0))?;
        let node = Arc::new(node);
        state.node = Some(node.clone());
        drop(state);
        if matches!(*node, Node::Leaf(_)) {
            self.cache.insert(slot, false);
        }
        Ok(node)
    }

    /// The content of a part, read if need be.
    pub(crate) fn load_part<T: Body>(&self, part: &Arc<Part<T>>) -> Result<Arc<T>> {
        if let Some(body) = part.peek() {
            return Ok(body);
        }
        let body = {
            let mut state = part.lock();
            if let Some(body) = &state.body {
                return Ok(body.clone());
            }
            let home = state
                .home
                .clone()
                .ok_or_else(|| Error::Invalid("part is neither in memory nor stored".into()))?;
            let (buf, skip) = self.read_block(home.block.info(), home.off as usize, home.stored as usize)?;
            let stored = &buf[skip..skip + home.stored as usize];
            self.check_part(&home, stored)?;
            let body: Arc<T> = Arc::new(self.decode_part(&home, stored)?);
            part.loaded(&mut state, body.clone());
            body
        };
        self.cache.insert(part, T::KEEP);
        self.cache.trim();
        Ok(body)
    }

    fn read_stored(&self, home: &Home) -> Result<Vec<u8>> {
        let (buf, skip) = self.read_block(home.block.info(), home.off as usize, home.stored as usize)?;
        let bytes = &buf[skip..skip + home.stored as usize];
        self.check_part(home, bytes)?;
        Ok(bytes.to_vec())
    }

    fn check_part(&self, home: &Home, bytes: &[u8]) -> Result<()> {
        if crc32c::crc32c(bytes) == home.crc {
            return Ok(());
        }
        Err(Error::corrupt("node part", offset_of(home.block.info()) + home.off as u64, "checksum mismatch"))
    }

    fn decode_part<T: Body>(&self, home: &Home, stored: &[u8]) -> Result<T> {
        decompress(home.codec, stored, home.raw as usize)
            .and_then(|raw| T::decode(&raw, &mut |id| self.resolve(id)))
            .map_err(|m| Error::corrupt("node part", offset_of(home.block.info()) + home.off as u64, m.0))
    }

    /// Reads the leaf parts of a scan that lie one after the other on storage with one request.
    pub(crate) fn load_ahead(&self, parts: &[LeafPart]) -> Result<()> {
        self.load_parts(&parts.iter().map(|p| &p.body).collect::<Vec<_>>()).map(|_| ())
    }

    /// The contents of all `parts`, read with one request where they lie close together on storage. Returned, because
    /// the cache may drop them at once if it is over its budget.
    pub(crate) fn load_parts<T: Body>(&self, parts: &[&Arc<Part<T>>]) -> Result<Vec<Arc<T>>> {
        let mut missing = Vec::new();
        for part in parts {
            let state = part.lock();
            if let (None, Some(home)) = (&state.body, &state.home) {
                missing.push(home.clone());
            }
        }
        let runs = self.read_runs(missing)?;
        let mut out = Vec::with_capacity(parts.len());
        for part in parts {
            // The lock must not be held while the part is loaded.
            let home = part.lock().home.clone();
            let body = match home.as_ref().and_then(|home| Some((home, runs.get(home)?))) {
                None => self.load_part(part)?,
                Some((home, stored)) => {
                    self.check_part(home, stored)?;
                    let body: Arc<T> = Arc::new(self.decode_part(home, stored)?);
                    let mut state = part.lock();
                    if state.body.is_none() {
                        part.loaded(&mut state, body.clone());
                        drop(state);
                        self.cache.insert(*part, T::KEEP);
                    }
                    body
                }
            };
            out.push(body);
        }
        self.cache.trim();
        Ok(out)
    }

    /// Reads parts as they are stored, with one request for those that lie close together.
    fn read_runs(&self, mut homes: Vec<Home>) -> Result<Runs> {
        homes.sort_by_key(|home| (home.block.id(), home.off));
        let mut runs = Vec::new();
        let mut rest = &homes[..];
        while let [first, ..] = rest {
            let close = |pair: &[Home]| {
                let (a, b) = (&pair[0], &pair[1]);
                a.block.id() == b.block.id()
                    && b.off <= a.off + a.stored + READ_GAP_MAX
                    && b.off + b.stored <= first.off + READ_RUN_MAX
            };
            let n = 1 + rest.windows(2).take_while(|pair| close(pair)).count();
            let end = rest[n - 1].off + rest[n - 1].stored;
            let len = (end - first.off) as usize;
            let (buf, skip) = self.read_block(first.block.info(), first.off as usize, len)?;
            runs.push((first.block.id(), first.off, len, buf, skip));
            rest = &rest[n..];
        }
        Ok(Runs(runs))
    }

    /// Writes `root` and everything below that is not on storage; returns its block. Nothing is flushed.
    pub(crate) fn write_tree(&self, root: &NodeRef) -> Result<BlockRef> {
        let _writing = self.writing.lock().unwrap_or_else(|e| e.into_inner());
        let mut batch = Batch::default();
        self.stage(root, &mut batch)?;
        self.write_batch(&mut batch)?;
        root.block().cloned().ok_or_else(|| Error::Invalid("root was not written".into()))
    }

    /// Writes the oldest new nodes until at most `keep` bytes are unwritten, in the sense of
    /// [`Meter::unwritten`].
    pub(crate) fn write_dirty(&self, keep: usize) -> Result<()> {
        if self.meter.unwritten() <= keep {
            return Ok(());
        }
        let _writing = self.writing.lock().unwrap_or_else(|e| e.into_inner());
        let mut batch = Batch::default();
        while self.meter.unwritten().saturating_sub(batch.bytes) > keep {
            let oldest = self.dirty.lock().unwrap_or_else(|e| e.into_inner()).pop_front();
            let Some(oldest) = oldest else { break };
            let Some(slot) = oldest.upgrade() else { continue };
            if let Err(e) = self.stage(&slot, &mut batch).and_then(|()| {
                if batch.bytes > WRITE_BATCH_BYTES { self.write_batch(&mut batch) } else { Ok(()) }
            }) {
                self.dirty.lock().unwrap_or_else(|e| e.into_inner()).push_front(oldest);
                self.abandon(&mut batch);
                return Err(e);
            }
        }
        let written = self.write_batch(&mut batch);
        self.cache.trim();
        written
    }

    /// Encodes `slot` and what is new below it into the batch.
    fn stage(&self, slot: &NodeRef, batch: &mut Batch) -> Result<()> {
        if slot.block().is_some() || batch.nodes.iter().any(|s| Arc::ptr_eq(&s.slot, slot)) {
            return Ok(());
        }
        let node = self.load(slot)?;
        if let Node::Inner(inner) = &*node {
            inner.edges.iter().try_for_each(|e| self.stage(&e.child, batch))?;
            if inner.edges.iter().any(|e| e.child.block().is_none()) {
                self.write_batch(batch)?;
            }
        }
        let staged = match self.encode_node(slot, node) {
            Ok(staged) => staged,
            Err(e) => {
                self.abandon(batch);
                return Err(e);
            }
        };
        batch.bytes += staged.buf.len();
        batch.nodes.push(staged);
        if batch.bytes >= WRITE_BATCH_BYTES { self.write_batch(batch) } else { Ok(()) }
    }

    fn encode_node(&self, slot: &NodeRef, node: Arc<Node>) -> Result<Staged> {
        let mut placed = Vec::new();
        let mut body = if self.steps.malloc { Vec::with_capacity(slot.weight()) } else { Vec::new() };
        let mut out: BTreeSet<BlockId> = BTreeSet::new();
        match &*node {
            Node::Leaf(leaf) => {
                let runs = self.absent_parts(leaf.parts.iter().map(|p| &p.body))?;
                for p in &leaf.parts {
                    self.encode_part(&p.body, &runs, &mut body, &mut placed)?;
                }
            }
            Node::Inner(Inner { edges }) => {
                let runs = self.absent_parts(edges.iter().filter_map(|e| e.buffer.as_ref()))?;
                for e in edges {
                    out.extend(e.child.block().map(|b| b.id()));
                    if let Some(b) = &e.buffer {
                        self.encode_part(b, &runs, &mut body, &mut placed)?;
                    }
                }
            }
        }
        out.extend(placed.iter().flat_map(|p| p.extents.iter().copied()));
        let head = header::encode(&node, slot.msn(), &placed);
        let len = head.len() + body.len();
        let buf = self.pool.filled(&[&head, &body]);
        let segments = self.table.allocate((buf.len() / UNIT) as u64).ok_or(Error::NoSpace)?;
        let info = BlockInfo {
            kind: if matches!(*node, Node::Leaf(_)) { BlockKind::Leaf } else { BlockKind::Inner },
            segments,
            len: len as u32,
            head_len: head.len() as u32,
            sums: vec![crc32c::crc32c(&head)],
            out: out.into_iter().collect(),
        };
        Ok(Staged { slot: slot.clone(), node, info, buf, placed })
    }

    /// The stored bytes of those parts that are not in memory and go into a new node unchanged.
    fn absent_parts<'p, T: Body>(&self, parts: impl Iterator<Item = &'p Arc<Part<T>>>) -> Result<Runs> {
        let absent = parts.filter_map(|part| {
            let state = part.lock();
            state.body.is_none().then(|| state.home.clone()).flatten()
        });
        self.read_runs(absent.collect())
    }

    fn encode_part<T: Body>(
        &self,
        part: &Arc<Part<T>>,
        runs: &Runs,
        out: &mut Vec<u8>,
        placed: &mut Vec<Placed>,
    ) -> Result<()> {
        let (body, home) = {
            let state = part.lock();
            (state.body.clone(), state.home.clone())
        };
        let off = out.len() as u32;
        let p = match (body, home) {
            (Some(body), home) => {
                let extents = match home {
                    Some(h) => h.extents,
                    None => extents_of(body.entries()).into_iter().collect(),
                };
                let (codec, raw) = if self.compression == Compression::None {
                    body.encode(out);
                    (0, out.len() as u32 - off)
                } else {
                    let mut raw =
                        if self.steps.malloc { Vec::with_capacity(part.weight()) } else { Vec::new() };
                    body.encode(&mut raw);
                    let raw_len = raw.len() as u32;
                    let (codec, stored) = compress(self.compression, raw);
                    out.extend_from_slice(&stored);
                    (codec, raw_len)
                };
                let stored = &out[off as usize..];
                let crc = crc32c::crc32c(stored);
                Placed { off, stored: stored.len() as u32, raw, codec, crc, extents }
            }
            (None, Some(h)) => {
                match runs.get(&h) {
                    Some(stored) => {
                        self.check_part(&h, stored)?;
                        out.extend_from_slice(stored);
                    }
                    // It left memory a moment ago.
                    None => out.extend_from_slice(&self.read_stored(&h)?),
                }
                Placed { off, stored: h.stored, raw: h.raw, codec: h.codec, crc: h.crc, extents: h.extents }
            }
            (None, None) => return Err(Error::Invalid("part is neither in memory nor stored".into())),
        };
        placed.push(p);
        Ok(())
    }

    fn write_batch(&self, batch: &mut Batch) -> Result<()> {
        let writes: Vec<(u64, &[u8])> = batch.nodes.iter().flat_map(|s| scatter(&s.info, &s.buf)).collect();
        if let Err(e) = self.storage.write_many(&writes).doing("writing nodes") {
            self.abandon(batch);
            return Err(e);
        }
        batch.bytes = 0;
        for s in std::mem::take(&mut batch.nodes) {
            count(&self.counters.nodes_written, 1);
            count(&self.counters.node_bytes_written, s.buf.len() as u64);
            let block = self.table.insert(s.info);
            self.settle(&s.node, &s.placed, &block);
            s.slot.settle(block);
            if matches!(*s.node, Node::Leaf(_)) {
                self.cache.insert(&s.slot, false);
            }
        }
        Ok(())
    }

    /// Gives back the space of nodes that could not be written; they stay dirty.
    fn abandon(&self, batch: &mut Batch) {
        batch.bytes = 0;
        for s in batch.nodes.drain(..) {
            self.table.give_back(&s.info.segments);
        }
    }

    /// Tells the parts of a written node where they are.
    fn settle(&self, node: &Node, placed: &[Placed], block: &BlockRef) {
        match node {
            Node::Leaf(leaf) => {
                for (p, at) in leaf.parts.iter().zip(placed) {
                    if p.body.settle(at.home(block)) {
                        self.cache.insert(&p.body, false);
                    }
                }
            }
            Node::Inner(inner) => {
                for (b, at) in inner.edges.iter().filter_map(|e| e.buffer.as_ref()).zip(placed) {
                    if b.settle(at.home(block)) {
                        self.cache.insert(b, true);
                    }
                }
            }
        }
    }

    /// Writes an extent of `parts` one after the other. It becomes durable with the next flush, provided that
    /// [`Flight::drain`] was called before.
    pub(crate) fn write_extent(&self, parts: &[&[u8]]) -> Result<BlockRef> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let buf = self.pool.filled(parts);
        let segments = self.table.allocate((buf.len() / UNIT) as u64).ok_or(Error::NoSpace)?;
        let info = BlockInfo {
            kind: BlockKind::Extent,
            segments,
            len: len as u32,
            head_len: 0,
            sums: buf[..len].chunks(EXTENT_CHUNK).map(crc32c::crc32c).collect(),
            out: Vec::new(),
        };
        count(&self.counters.extent_bytes_written, buf.len() as u64);
        if self.behind {
            let block = self.table.insert(info);
            self.flight.send(block.clone(), buf)?;
            return Ok(block);
        }
        if let Err(e) = self.storage.write_many(&scatter(&info, &buf)).doing("writing an extent") {
            self.table.give_back(&info.segments);
            return Err(e);
        }
        Ok(self.table.insert(info))
    }

    /// Reads part of an extent, checking every chunk it touches.
    pub(crate) fn read_slice(&self, slice: &ExtentSlice) -> Result<Vec<u8>> {
        let info = slice.extent.info();
        let (off, len) = (slice.off as usize, slice.len as usize);
        if len == 0 {
            return Ok(Vec::new());
        }
        if let Some(bytes) = self.flight.read(slice.extent.id(), off, len) {
            return Ok(bytes);
        }
        let first = off / EXTENT_CHUNK * EXTENT_CHUNK;
        let last = ((off + len).div_ceil(EXTENT_CHUNK) * EXTENT_CHUNK).min(info.len as usize);
        let (buf, skip) = self.read_block(info, first, last - first)?;
        let bytes = &buf[skip..skip + last - first];
        for (i, chunk) in bytes.chunks(EXTENT_CHUNK).enumerate() {
            if info.sums.get(first / EXTENT_CHUNK + i) != Some(&crc32c::crc32c(chunk)) {
                return Err(Error::corrupt("extent", offset_of(info) + first as u64, "checksum mismatch"));
            }
        }
        Ok(bytes[off - first..off - first + len].to_vec())
    }

    /// The value that a message without anything below it leaves; `None` is no value.
    pub(crate) fn value_of(&self, op: &Op) -> Result<Option<Vec<u8>>> {
        let base = match &op.base {
            Base::Value(Value::Inline(bytes)) => Some(bytes.to_vec()),
            // What patches cover need not be read.
            Base::Value(Value::Slice(s)) if op.edits.as_ref().is_some_and(|e| e.cover(s.len)) => {
                Some(vec![0; s.len as usize])
            }
            Base::Value(Value::Slice(s)) => Some(self.read_slice(s)?),
            Base::Absent | Base::Keep => None,
        };
        Ok(match &op.edits {
            Some(edits) => edits.apply(base),
            None => base,
        })
    }
}

/// Pairs the segments of a block with the bytes that go there.
pub(crate) fn scatter<'a>(info: &BlockInfo, buf: &'a [u8]) -> Vec<(u64, &'a [u8])> {
    let mut rest = buf;
    let places = info.locate(0, buf.len() as u64);
    places
        .into_iter()
        .map(|(off, n)| {
            let (head, tail) = rest.split_at(n as usize);
            rest = tail;
            (off, head)
        })
        .collect()
}

/// Byte offset of a block, for messages. Round numbers keep it readable.
pub(crate) fn offset_of(info: &BlockInfo) -> u64 {
    info.segments.first().map_or(0, |s| s.start * UNIT as u64)
}

/// Units needed for `bytes`.
pub(crate) fn units_for(bytes: usize) -> u64 {
    (round_up(bytes) / UNIT) as u64
}
