//! Loading nodes and their parts, with few requests for parts that lie close together.

use super::{Store, count, offset_of};
use crate::block::{BlockId, BlockInfo, BlockRef};
use crate::codec::{Body, decompress};
use crate::error::{Doing, Error, Result};
use crate::header;
use crate::node::{LeafPart, NOT_BELOW, Node, NodeRef, Part, PartAddress};
use crate::storage::{PooledBuf, UNIT};
use crate::wire::{Decoded, Malformed};
use std::sync::Arc;

/// Bytes between two parts that are read along rather than skipped.
const READ_GAP_MAX: u32 = 128 << 10;

/// Bytes of parts read with one request.
const READ_RUN_MAX: u32 = 4 << 20;

/// Stretches of blocks in memory: block number, offset in it, length, and where they are in a buffer.
pub(super) struct BlockRuns(Vec<(BlockId, u32, usize, PooledBuf, usize)>);

impl BlockRuns {
    /// The stored bytes of a part, if they are here.
    pub fn get(&self, home: &PartAddress) -> Option<&[u8]> {
        let id = home.block.id();
        self.0.iter().find_map(|(block, off, len, buf, skip)| {
            let at = home.off.checked_sub(*off).filter(|_| *block == id)? as usize;
            let end = at + home.stored as usize;
            (end <= *len).then(|| &buf[skip + at..skip + end])
        })
    }
}

impl Store {
    fn resolve(&self, id: BlockId) -> Decoded<BlockRef> {
        self.table.reference(id).ok_or(Malformed("reference to a block that does not exist"))
    }

    /// Reads bytes `[off, off + len)` of a block; returns a buffer and where in it they start.
    pub(crate) fn read_block(&self, info: &BlockInfo, off: usize, len: usize) -> Result<(PooledBuf, usize)> {
        self.read_blocks(&[(info, off, len)], false).map(|mut read| read.swap_remove(0))
    }

    /// Reads bytes `[off, off + len)` of each of several blocks side by side; returns for each a buffer and where in it
    /// they start. With `stay` the buffers are hardly larger than they must be.
    pub(super) fn read_blocks(
        &self,
        wanted: &[(&BlockInfo, usize, usize)],
        stay: bool,
    ) -> Result<Vec<(PooledBuf, usize)>> {
        for (info, off, len) in wanted {
            // A buffer has whole units, a block too; no memory is taken for what is not there.
            if (off + len) as u64 > info.units() * UNIT as u64 {
                return Err(Error::corrupt("block", offset_of(info), "shorter than what refers to it"));
            }
        }
        let start = |off: usize| off / UNIT * UNIT;
        let take = |len| if stay { self.pool.take_snug(len) } else { self.pool.take(len) };
        let mut bufs: Vec<_> = wanted.iter().map(|(_, off, len)| take(off + len - start(*off))).collect();
        let mut reads: Vec<(u64, &mut [u8])> = Vec::with_capacity(wanted.len());
        for ((info, off, _), buf) in wanted.iter().zip(&mut bufs) {
            let mut rest = &mut buf[..];
            for (from, n) in info.locate(start(*off) as u64, rest.len() as u64) {
                let (here, after) = rest.split_at_mut(n as usize);
                reads.push((from, here));
                rest = after;
            }
        }
        self.storage.read_many(&mut reads).doing("reading a block")?;
        count(&self.counters.reads, wanted.len() as u64);
        count(&self.counters.bytes_read, reads.iter().map(|(_, buf)| buf.len() as u64).sum());
        Ok(bufs.into_iter().zip(wanted).map(|(buf, (_, off, _))| (buf, off - start(*off))).collect())
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
        if !node.is_above_its_children(slot.level()) {
            return Err(Error::corrupt("node header", offset_of(info), NOT_BELOW));
        }
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

    /// The stored bytes of a part that moves to a new node unchanged, with its checksum. If they do not match it, when read
    /// once more either, they move all the same: whoever wants the part is told as before, and the rest of the node can change.
    pub(super) fn read_as_it_is(&self, home: &PartAddress) -> Result<Vec<u8>> {
        let read = || self.read_block(home.block.info(), home.off as usize, home.stored as usize);
        let stored = |(buf, skip): (PooledBuf, usize)| buf[skip..skip + home.stored as usize].to_vec();
        let bytes = stored(read()?);
        if self.check_part(home, &bytes).is_ok() { Ok(bytes) } else { Ok(stored(read()?)) }
    }

    pub(super) fn check_part(&self, home: &PartAddress, bytes: &[u8]) -> Result<()> {
        if crc32c::crc32c(bytes) == home.crc {
            return Ok(());
        }
        Err(Error::corrupt("node part", offset_of(home.block.info()) + home.off as u64, "checksum mismatch"))
    }

    fn decode_part<T: Body>(&self, home: &PartAddress, stored: &[u8]) -> Result<T> {
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
    pub(super) fn read_runs(&self, mut homes: Vec<PartAddress>) -> Result<BlockRuns> {
        homes.sort_by_key(|home| (home.block.id(), home.off));
        let mut stretches = Vec::new();
        let mut rest = &homes[..];
        while let [first, ..] = rest {
            let close = |pair: &[PartAddress]| {
                let (a, b) = (&pair[0], &pair[1]);
                a.block.id() == b.block.id()
                    && b.off <= (a.off + a.stored).saturating_add(READ_GAP_MAX)
                    && b.off + b.stored <= first.off.saturating_add(READ_RUN_MAX)
            };
            let n = 1 + rest.windows(2).take_while(|pair| close(pair)).count();
            let end = rest[n - 1].off + rest[n - 1].stored;
            stretches.push((&first.block, first.off, (end - first.off) as usize));
            rest = &rest[n..];
        }
        let wanted: Vec<_> =
            stretches.iter().map(|(block, off, len)| (&**block.info(), *off as usize, *len)).collect();
        let read = self.read_blocks(&wanted, false)?;
        let runs = stretches.iter().zip(read);
        Ok(BlockRuns(
            runs.map(|((block, off, len), (buf, skip))| (block.id(), *off, *len, buf, skip)).collect(),
        ))
    }
}
