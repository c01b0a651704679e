//! Contents of files: blocks of 4 KiB, a missing one reads as zeros. A write never reads.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use betree::{KeyRange, WriteBatch};

use super::remove::delete_blocks;
use super::stream::{Piece, put_blocks};
use super::{Fs, Reserved, now};
use crate::error::{Error, Result};
use crate::key::{self, BLOCK, SIZE_MAX};
use crate::node::{Loss, Node, State};
use crate::record::{Inode, SPARSE, XATTRS};

/// Bytes that go into one batch; a longer write is several operations.
const WRITE_MAX: usize = 1 << 20;
pub(super) const SIZE: u64 = BLOCK as u64;
/// Room in a batch for keys and a record.
const ROOM: usize = 384;
/// The attribute that holds a program's capabilities.
const CAPABILITIES: &[u8] = b"security.capability";

/// Which way a read or write came from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoPath {
    /// Its page cache, which holds these data now.
    Cache,
    /// That, which has collected them: the program is not waiting, and the kernel tells it of an error at its next sync. All
    /// writes come so.
    WriteBack,
    /// The same of pages that a program has changed through a mapping; what it writes by write(2) comes at once.
    Mapping,
    /// Past that.
    Direct,
}

impl IoPath {
    fn is_collected(self) -> bool {
        matches!(self, IoPath::WriteBack | IoPath::Mapping)
    }

    fn note(self, node: &Node) {
        // Looked at first: many threads may read one file.
        if self != IoPath::Direct && !node.cached.load(Ordering::Relaxed) {
            node.cached.store(true, Ordering::SeqCst);
        }
    }
}

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteOutcome {
    /// Bytes.
    pub bytes: usize,
    /// The set-user-ID or set-group-ID bit is gone, which the kernel does not know.
    pub stripped: bool,
    /// It went past a page cache that may hold what was there before.
    pub stale: bool,
}

pub(super) fn regular(inode: &Inode) -> Result<()> {
    match inode.kind() {
        libc::S_IFREG => Ok(()),
        libc::S_IFDIR => Err(Error::IsDirectory),
        _ => Err(Error::Invalid("not a regular file")),
    }
}

fn end_of(off: u64, len: u64) -> Result<u64> {
    off.checked_add(len).filter(|end| *end <= SIZE_MAX).ok_or(Error::TooLarge)
}

/// How far a write has come.
#[derive(Debug, Default)]
struct WriteProgress {
    /// Bytes from the first one on.
    done: usize,
    /// Where they end.
    end: u64,
    stripped: bool,
    stale: bool,
    /// What the file had lost before and the kernel is to hear with this write.
    refused: Option<Error>,
}

/// Whether a block of a file is reserved, and the first one behind it of which that is not so.
fn run_of(state: &State, block: u64) -> (bool, u64) {
    state.reserved.as_deref().map_or((false, u64::MAX), |reserved| reserved.run(block))
}

impl Inode {
    /// From now on there may be holes.
    fn make_sparse(&mut self) {
        if self.flags & SPARSE == 0 {
            self.flags |= SPARSE;
            self.blocks = self.size.div_ceil(SIZE);
        }
    }

    fn grow_to(&mut self, size: u64) {
        if size.div_ceil(SIZE) > self.size.div_ceil(SIZE) {
            self.make_sparse();
        }
        self.size = size;
    }
}

impl Fs {
    /// Up to `len` bytes from `off`; fewer only at the end of the file.
    ///
    /// # Errors
    /// [`Error::IsDirectory`], [`Error::Invalid`], the store's.
    pub fn read(&self, ino: u64, off: u64, len: usize) -> Result<Vec<u8>> {
        self.despite_losses(|| {
            let node = self.node(ino)?;
            let state = node.read();
            regular(&state.inode)?;
            let mut out = vec![0; left(&state.inode, off, len)];
            self.read_state(&node, &state, off, &mut out)?;
            Ok(out)
        })
    }

    /// Reads into `out` from `off` on; returns how many bytes, which are fewer only at the end of the file.
    ///
    /// # Errors
    /// As [`Fs::read`].
    pub fn read_into(&self, ino: u64, off: u64, out: &mut [u8]) -> Result<usize> {
        self.despite_losses(|| self.read_open(&self.node(ino)?, off, out))
    }

    /// Reads for the kernel.
    pub(crate) fn serve_read(&self, ino: u64, off: u64, out: &mut [u8], from: IoPath) -> Result<usize> {
        let node = self.node(ino)?;
        // Before the lock: whoever writes after this read knows of it.
        from.note(&node);
        self.despite_losses(|| self.read_open(&node, off, out))
    }

    fn read_open(&self, node: &Arc<Node>, off: u64, out: &mut [u8]) -> Result<usize> {
        let state = node.read();
        regular(&state.inode)?;
        let len = left(&state.inode, off, out.len());
        self.read_state(node, &state, off, &mut out[..len])?;
        Ok(len)
    }

    /// Reads what `out` has place for, all of which lies within the file, if it must from the store.
    fn read_state(&self, node: &Arc<Node>, state: &State, off: u64, out: &mut [u8]) -> Result<()> {
        match state.content.get() {
            // A read behind the end is of nothing.
            Some(content) if !out.is_empty() => content.read(off, out),
            _ => {
                self.read_node(node, state, off, out)?;
                self.contents.note(node, state, off, out);
            }
        }
        Ok(())
    }

    /// Reads what `out` has place for, all of which lies within the file.
    pub(super) fn read_node(&self, node: &Node, state: &State, off: u64, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        self.streams.flush_file(node.ino)?;
        let home = node.home(state)?;
        let (first, last) = (off / SIZE, (off + out.len() as u64 - 1) / SIZE);
        let mut filling = ReadBuffer { out, off, filled: 0 };
        if first == last {
            if let Some(value) = self.db.get(&key::block(&home, first))? {
                filling.place(first, &value);
            }
        } else {
            let mut blocks = self.db.scan(&key::blocks(&home, first, Some(last + 1)));
            let mut place = |key: &[u8], value: &[u8]| {
                filling.place(key::block_number(key).unwrap_or(first), value);
            };
            while let Some(shown) = blocks.visit(&mut place) {
                shown?;
            }
        }
        filling.zero_rest();
        Ok(())
    }

    /// Writes `data` at `off`; `kill_priv` as in [`super::SetAttr`]. Up to 1 MiB from the begin of a block on is one
    /// operation. Returns how many bytes were written: fewer if there was no space for the rest.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::IsDirectory`], [`Error::Invalid`], [`Error::NoSpace`]; [`Error::LostForSpace`] or
    /// [`Error::DataLost`] of what was taken before; the store's.
    pub fn write(&self, ino: u64, off: u64, data: &[u8], kill_priv: bool) -> Result<usize> {
        Ok(self.serve_write(ino, Some(off), data, kill_priv, IoPath::Direct)?.bytes)
    }

    /// Writes `data` at the end of the file; otherwise as [`Fs::write`]. Less is written also where it was interrupted by another
    /// file's loss, and somebody else has appended meanwhile.
    ///
    /// # Errors
    /// As [`Fs::write`].
    pub fn append(&self, ino: u64, data: &[u8]) -> Result<usize> {
        Ok(self.serve_write(ino, None, data, false, IoPath::Direct)?.bytes)
    }

    /// Writes at `off`, or at the end of the file. Of what the kernel has collected it writes all that there is space for, and an
    /// error says that something is missing.
    pub(crate) fn serve_write(
        &self,
        ino: u64,
        off: Option<u64>,
        data: &[u8],
        kill: bool,
        from: IoPath,
    ) -> Result<WriteOutcome> {
        let mut progress = WriteProgress::default();
        let ended = self.despite_losses(|| self.write_once(ino, off, data, kill, from, &mut progress));
        let WriteProgress { done, stripped, stale, refused, .. } = progress;
        match ended.and(refused.map_or(Ok(()), Err)) {
            // The next write meets it again.
            Err(_) if done > 0 && !from.is_collected() => {}
            ended => ended?,
        }
        Ok(WriteOutcome { bytes: done, stripped, stale })
    }

    fn write_once(
        &self,
        ino: u64,
        off: Option<u64>,
        data: &[u8],
        kill: bool,
        from: IoPath,
        progress: &mut WriteProgress,
    ) -> Result<()> {
        let _tree = self.shared();
        let node = self.node(ino)?;
        from.note(&node);
        let mut state = node.write();
        let mode = state.inode.mode;
        let ended = self.write_rest(&node, &mut state, off, data, kill, from, progress);
        progress.stripped |= state.inode.mode != mode;
        drop(state);
        progress.stale = from == IoPath::Direct && node.cached.load(Ordering::SeqCst);
        ended
    }

    /// Writes what is not done yet.
    #[expect(clippy::too_many_arguments, reason = "a write is that much")]
    fn write_rest(
        &self,
        node: &Arc<Node>,
        state: &mut State,
        off: Option<u64>,
        data: &[u8],
        kill: bool,
        from: IoPath,
        progress: &mut WriteProgress,
    ) -> Result<()> {
        regular(&state.inode)?;
        let first = off.unwrap_or(state.inode.size);
        let check =
            |loss: &mut Box<Loss>| if from.is_collected() { loss.report() } else { loss.check_write(first) };
        if let Some(Err(e)) = state.loss.as_mut().map(check) {
            // What was done may be lost.
            progress.done = 0;
            if !from.is_collected() {
                return Err(e);
            }
            // This is the kernel's report, and no sync comes here after it. Where programs write by write(2) as well, these
            // and the end are still to hear of it.
            if from == IoPath::WriteBack {
                state.loss = None;
            }
            progress.refused = Some(e);
        }
        if off.is_none() && progress.done > 0 && first != progress.end {
            // Somebody else has appended behind it: the rest would not follow what is done.
            return Ok(());
        }
        let off = off.map_or(first, |off| off.saturating_add(progress.done as u64));
        let data = &data[progress.done..];
        end_of(off, data.len() as u64)?;
        let home = node.home(state)?;
        let before = state.inode.size;
        // `done` ends where the first bytes are missing.
        let (mut at, mut done, mut most) = (0, 0, WRITE_MAX);
        // Each attempt in vain may cost a checkpoint: up to here blocks are tried one by one.
        let mut single_until = 0;
        let mut failed = None;
        while at < data.len() {
            let here = off + at as u64;
            if failed.is_some() {
                // What is not reserved finds no space either.
                let (is_reserved, end) = run_of(state, here / SIZE);
                let end = end.saturating_mul(SIZE);
                if !is_reserved {
                    at = data.len().min(usize::try_from(end - off).unwrap_or(usize::MAX));
                    continue;
                }
                most =
                    if here < single_until { BLOCK } else { most.min((end - here / SIZE * SIZE) as usize) };
            }
            let len = (most - (here % SIZE) as usize).min(data.len() - at);
            let losses = self.streams.losses();
            match self.write_piece(node, state, &home, here, &data[at..at + len], kill) {
                Ok(()) => {
                    at += len;
                    if failed.is_none() {
                        done = at;
                    }
                    // The rest is another operation: after a crash no write of 1 MiB is there in part.
                    if most < WRITE_MAX && !from.is_collected() {
                        break;
                    }
                    most = WRITE_MAX;
                }
                // What another file has lost says nothing of the space: the caller settles that and comes again with the rest; with
                // all, if it is this file.
                Err(Error::NoSpace) if self.streams.has_lost_since(losses) => {
                    failed = Some(Error::NoSpace);
                    if self.streams.loss_of(node.ino).is_some() {
                        (done, progress.done) = (0, 0);
                    }
                    break;
                }
                // What fits is written, as by ext4: programs count on a short write before the error.
                Err(Error::NoSpace) if (here % SIZE) as usize + len > BLOCK => {
                    most = self.shorter(state, here, len)
                }
                // The kernel drops all that it has collected, so what lies behind is written if it is reserved.
                Err(Error::NoSpace) if from.is_collected() => {
                    failed = Some(Error::NoSpace);
                    single_until = run_of(state, here / SIZE).1.saturating_mul(SIZE);
                    at += len;
                    most = WRITE_MAX;
                }
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            }
        }
        if let Some(loss) = &mut state.loss {
            loss.written(off, off + done as u64);
        }
        if done == data.len() && progress.done == 0 {
            self.contents.written(node, state, off, data, before);
        } else {
            // How much of the last piece there is nobody knows.
            state.changes();
        }
        progress.done += done;
        progress.end = off + done as u64;
        failed.map_or(Ok(()), Err)
    }

    /// Bytes of the next attempt, from the begin of the block at `off` on, after one of `len` bytes has found no space: they are all
    /// reserved, or none is.
    fn shorter(&self, state: &State, off: u64, len: usize) -> usize {
        let block = off / SIZE;
        let (is_reserved, end) = run_of(state, block);
        let run = (end - block).saturating_mul(SIZE);
        let least = if run < off % SIZE + len as u64 { run } else { len as u64 / 2 };
        // Each attempt in vain may cost a checkpoint.
        let fits = if is_reserved { least } else { least.min(self.space().available) };
        (fits as usize).next_multiple_of(BLOCK).max(BLOCK)
    }

    fn write_piece(
        &self,
        node: &Node,
        state: &mut State,
        home: &[u8],
        off: u64,
        data: &[u8],
        kill: bool,
    ) -> Result<()> {
        let end = off + data.len() as u64;
        let old_size = state.inode.size;
        let mut inode = state.inode.clone();
        let (first, last) = (off / SIZE, (end - 1) / SIZE);
        if off.div_ceil(SIZE) > old_size.div_ceil(SIZE) {
            inode.make_sparse();
        }
        inode.size = old_size.max(end);
        if inode.flags & SPARSE != 0 {
            inode.blocks = (inode.blocks + last + 1 - first).min(inode.size.div_ceil(SIZE));
        }
        let claim = self.claim(node, state, first, last + 1)?;
        let now = now();
        (inode.mtime, inode.ctime) = (now, now);
        if kill {
            inode.kill_priv();
        }
        // What is known of it only in memory is written with it, also where the write changes nothing more.
        let recorded = (inode != state.inode || state.unsaved) && !state.dead;
        let whole = off.is_multiple_of(SIZE) && (end.is_multiple_of(SIZE) || end >= old_size);
        let follows = state.last_end == off;
        // A write takes capabilities away, blindly: only what has attributes may have any.
        let capable = state.inode.flags & XATTRS != 0 && !state.incapable;
        let append = off == old_size && follows;
        let collects = || {
            whole && self.streams.takes(off, data.len())
                || off == old_size && self.streams.continues(node.ino, data.len())
        };
        if follows && !capable && !state.unsaved && collects() {
            let concat = |key: &[&[u8]], value: &[&[u8]]| (key.concat(), value.concat());
            let record = recorded.then(|| node.with_record(state, &inode, concat)).transpose()?;
            let reserved = claim.pair.clone();
            self.streams.push(Piece {
                ino: node.ino,
                home,
                off,
                old_size,
                data,
                record,
                reserved,
                append,
            })?;
        } else {
            let mut batch = WriteBatch::with_capacity(data.len() + data.len() / 32 + ROOM);
            put_blocks(&mut batch, home, off, data, old_size);
            if capable {
                batch.delete(&key::xattr(home, CAPABILITIES));
            }
            if recorded {
                node.with_record(state, &inode, |key, value| _ = batch.put_parts(key, value))?;
            }
            claim.add_to(&mut batch);
            let run = self.streams.run(node.ino);
            self.commit(batch)?;
            if append {
                self.streams.set_run(node.ino, run + 1);
            }
        }
        self.claimed(state, &claim);
        state.inode = inode;
        state.unsaved = false;
        state.incapable |= capable;
        state.last_end = end;
        Ok(())
    }

    /// Adds to `batch` what makes the file `size` bytes long.
    pub(super) fn resize(
        &self,
        batch: &mut WriteBatch,
        node: &Node,
        state: &State,
        inode: &mut Inode,
        size: u64,
    ) -> Result<()> {
        regular(inode)?;
        end_of(size, 0)?;
        if size >= inode.size {
            inode.grow_to(size);
            return Ok(());
        }
        let home = node.home(state)?;
        if size == 0 {
            delete_blocks(batch, &home, inode);
            inode.flags &= !SPARSE;
            (inode.size, inode.blocks) = (0, 0);
            return Ok(());
        }
        let first_gone = size.div_ceil(SIZE);
        if first_gone < inode.size.div_ceil(SIZE) {
            batch.delete_range(&key::blocks(&home, first_gone, None));
        }
        if !size.is_multiple_of(SIZE) {
            batch.truncate(&key::block(&home, size / SIZE), (size % SIZE) as u32);
        }
        inode.size = size;
        inode.blocks = inode.blocks.min(first_gone);
        Ok(())
    }

    /// `fallocate`: reserves space for a range and extends the file (mode 0), punches a hole, or zeroes a range, with or without
    /// keeping the size. What was reserved can be written however full the file system is, and written over; it is given up by
    /// truncating, punching a hole and removing the file. The blocks that the range touches count as the file's from then on, as
    /// far as it reaches.
    ///
    /// # Errors
    /// [`Error::NotSupported`] for other modes, and for a file with too many separate ranges; [`Error::NoSpace`]; as
    /// [`Fs::write`].
    pub fn allocate(&self, ino: u64, mode: i32, off: u64, len: u64) -> Result<()> {
        self.despite_losses(|| self.allocate_once(ino, mode, off, len))
    }

    fn allocate_once(&self, ino: u64, mode: i32, off: u64, len: u64) -> Result<()> {
        let keep = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let kind = mode & !libc::FALLOC_FL_KEEP_SIZE;
        let erase = match kind {
            0 => false,
            libc::FALLOC_FL_PUNCH_HOLE if keep => true,
            libc::FALLOC_FL_ZERO_RANGE => true,
            _ => return Err(Error::NotSupported),
        };
        if len == 0 {
            return Err(Error::Invalid("nothing to allocate"));
        }
        let end = end_of(off, len)?;
        let _tree = self.shared();
        let node = self.node(ino)?;
        let mut state = node.write();
        regular(&state.inode)?;
        state.changes();
        let mut inode = state.inode.clone();
        let mut batch = WriteBatch::new();
        let hole = if erase { HolePunch::new(off, end, inode.size) } else { HolePunch::default() };
        self.punch(&mut batch, &node, &mut state, &mut inode, &hole)?;
        let reserved = if kind == libc::FALLOC_FL_PUNCH_HOLE {
            let blocks = (hole.blocks.start, hole.blocks.end);
            self.unreserve(&mut batch, &node, &mut state, &mut inode, blocks)?
        } else {
            let blocks = (off / SIZE, end.div_ceil(SIZE));
            Some(self.reserve(&mut batch, &node, &mut state, &mut inode, blocks, hole.blocks.clone())?)
        };
        if kind == libc::FALLOC_FL_PUNCH_HOLE && (!hole.data.is_empty() || reserved.is_some()) {
            // It frees, and adds no block.
            batch.from_reserve();
        }
        if !keep && end > inode.size {
            inode.grow_to(end);
        }
        if kind != libc::FALLOC_FL_PUNCH_HOLE && inode.flags & SPARSE != 0 {
            // Every block that the range touches counts as there, as a write of it would have it.
            let touched = end.div_ceil(SIZE) - off / SIZE;
            inode.blocks = inode.blocks.saturating_add(touched).min(inode.size.div_ceil(SIZE));
        }
        let now = now();
        (inode.mtime, inode.ctime) = (now, now);
        let unwritten = |reserved: Option<&Reserved>| reserved.map_or(0, Reserved::unwritten);
        let more = unwritten(reserved.as_ref()).saturating_sub(unwritten(state.reserved.as_deref()));
        let put = self.put_record(&mut batch, &node, &state, &inode);
        if let Err(e) = put.and_then(|()| self.commit(batch)) {
            self.take_back(more);
            return Err(e);
        }
        if !hole.data.is_empty() {
            let home = node.home(&state)?;
            self.removed(hole.data.end - hole.data.start, || hole.keys(&home));
        }
        if let Some(reserved) = reserved {
            self.set_reserved(&mut state, reserved);
        }
        state.inode = inode;
        state.unsaved = false;
        Ok(())
    }

    /// Adds to `batch` that what lies in `hole` reads as zeros.
    fn punch(
        &self,
        batch: &mut WriteBatch,
        node: &Node,
        state: &mut State,
        inode: &mut Inode,
        hole: &HolePunch,
    ) -> Result<()> {
        let edges = hole.edges.iter().filter(|edge| !edge.is_empty());
        if hole.data.is_empty() && edges.clone().count() == 0 {
            return Ok(());
        }
        let sparse = inode.flags & SPARSE != 0;
        inode.make_sparse();
        let home = node.home(state)?;
        for edge in edges {
            let block = edge.start / SIZE;
            // One without data is zeros already, and would need space for them.
            if !sparse || self.has_data(node, state, &home, block)? {
                let zeros = vec![0; (edge.end - edge.start) as usize];
                batch.patch(&key::block(&home, block), (edge.start % SIZE) as u32, &zeros);
            }
        }
        if !hole.data.is_empty() {
            batch.delete_range(&hole.keys(&home));
            inode.blocks = inode.blocks.saturating_sub(hole.data.end - hole.data.start);
        }
        Ok(())
    }

    fn has_data(&self, node: &Node, state: &mut State, home: &[u8], block: u64) -> Result<bool> {
        if self.reserved(node, state)?.is_some_and(|reserved| reserved.is_unwritten(block)) {
            return Ok(false);
        }
        self.streams.flush_file(node.ino)?;
        Ok(self.db.get(&key::block(home, block))?.is_some())
    }
}

/// What is erased of a file.
#[derive(Default)]
struct HolePunch {
    /// Whole blocks, also behind the end of the file.
    blocks: Range<u64>,
    /// Those of them that the file reaches.
    data: Range<u64>,
    /// Bytes in front of them and behind, each in one block.
    edges: [Range<u64>; 2],
}

impl HolePunch {
    /// Of the file's data in it.
    fn keys(&self, home: &[u8]) -> KeyRange {
        key::blocks(home, self.data.start, Some(self.data.end))
    }

    /// `[off, end)` of a file of `size` bytes. Its last block goes whole if nothing of the file lies behind.
    fn new(off: u64, end: u64, size: u64) -> HolePunch {
        let first = off.div_ceil(SIZE);
        let last = if end >= size { size.div_ceil(SIZE).max(end / SIZE) } else { end / SIZE };
        let blocks = first..last.max(first);
        let data = first..last.min(size.div_ceil(SIZE)).max(first);
        let end = end.min(size).max(off);
        let front = off..(first * SIZE).min(end);
        let back = (last * SIZE).max(front.end).min(end)..end;
        HolePunch { blocks, data, edges: [front, back] }
    }
}

/// So many of `len` bytes from `off` on there are.
fn left(inode: &Inode, off: u64, len: usize) -> usize {
    (len as u64).min(inode.size.saturating_sub(off)) as usize
}

/// A buffer that is filled from front to back, whatever was in it before.
struct ReadBuffer<'a> {
    out: &'a mut [u8],
    /// Where in the file it begins.
    off: u64,
    /// Bytes of it that are as in the file.
    filled: usize,
}

impl ReadBuffer<'_> {
    /// Copies the part of block `number` that lies in the buffer; what is missing before it reads as zeros. Blocks come
    /// in order.
    fn place(&mut self, number: u64, value: &[u8]) {
        let (off, start) = (self.off, number * SIZE);
        let (from, to) = (off.max(start), (off + self.out.len() as u64).min(start + value.len() as u64));
        if from < to {
            let (begin, end) = ((from - off) as usize, (to - off) as usize);
            self.out[self.filled.min(begin)..begin].fill(0);
            self.out[begin..end].copy_from_slice(&value[(from - start) as usize..(to - start) as usize]);
            self.filled = end;
        }
    }

    /// What is missing to the end reads as zeros.
    fn zero_rest(&mut self) {
        self.out[self.filled..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use betree::SimStorage;

    use crate::fs::{Fs, NewFile, Options, SetAttr};

    const SEED: u64 = 22;

    fn open(storage: &SimStorage) -> Fs {
        let mut store = betree::Options::tiny();
        store.background = true;
        Fs::open(storage.clone(), &Options::with_store(store)).expect("open")
    }

    fn file(fs: &Fs, name: &[u8]) -> u64 {
        let new = NewFile { mode: libc::S_IFREG | 0o644, ..NewFile::default() };
        fs.make(1, name, new).expect("make").ino
    }

    /// Bytes that tell where they lie; their number is different each time, and hardly ever that of a block.
    fn piece(at: usize) -> Vec<u8> {
        (at..at + 1 + at * 7919 % 6000).map(|at| (at % 251) as u8).collect()
    }

    fn is_right(fs: &Fs, ino: u64, len: usize) {
        let found = fs.read(ino, 0, len + 1).expect("read");
        assert_eq!(found.len(), len);
        assert!(found.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
    }

    /// As ext4 does, and xfstests generic/275 wants.
    #[test]
    fn of_a_write_that_is_too_long_what_fits_is_written() {
        const LONG: usize = 1 << 20;
        let storage = SimStorage::new(128 << 20);
        Fs::format(storage.clone(), &Options::default()).expect("format");
        let fs = open(&storage);
        let ino = file(&fs, b"file");
        fs.write(ino, 0, b"begin", false).expect("write");
        fs.sync().expect("sync");
        // All but some 256 KiB is somebody else's.
        [24, 20, 16, 12].into_iter().for_each(|bits| while fs.store().promise(1 << bits).is_ok() {});
        fs.store().take_back(256 << 10);
        let data: Vec<u8> = (0..LONG).map(|at| (at % 251) as u8).collect();
        let mut sizes = Vec::new();
        let full = (0..100).find_map(|_| {
            let at = sizes.iter().sum::<usize>();
            fs.write(ino, at as u64, &data[at..], false).map(|n| sizes.push(n)).err()
        });
        assert!(matches!(full, Some(crate::Error::NoSpace)), "{full:?}");
        let all = sizes.iter().sum::<usize>();
        assert!((64 << 10..256 << 10).contains(&all) && sizes[0] * 2 > all, "{sizes:?}");
        assert_eq!(fs.attr(ino).expect("its size").size, all as u64);
        assert!(fs.read(ino, 0, LONG).expect("read") == data[..all]);
        fs.sync_of(ino).expect("what was taken is there");
        fs.close().expect("close");
        let report = crate::check(storage, false).expect("check");
        assert!(report.is_clean(), "{report}");
    }

    #[test]
    fn short_appends_in_a_row_become_few_batches_and_nothing_else_overtakes_them() {
        let storage = SimStorage::new(128 << 20);
        Fs::format(storage.clone(), &Options::default()).expect("format");
        let fs = open(&storage);
        let (log, other) = (file(&fs, b"log"), file(&fs, b"other"));
        let first = fs.ask_sync().expect("ask");
        let mut len = 0;
        for _ in 0..400 {
            len += fs.append(log, &piece(len)).expect("append");
        }
        assert_eq!(fs.attr(log).expect("its size").size, len as u64);
        is_right(&fs, log, len);
        let batches = fs.ask_sync().expect("ask") - first;
        assert!(batches < 100, "{batches} batches for 400 appends of {len} bytes");
        // Between others each is a batch of its own.
        let first = fs.ask_sync().expect("ask");
        for _ in 0..20 {
            len += fs.append(log, &piece(len)).expect("append");
            fs.write(other, 0, b"x", false).expect("write");
        }
        assert_eq!(fs.ask_sync().expect("ask") - first, 40);
        // Shorter, then longer: what was collected before must not come back.
        for _ in 0..20 {
            len += fs.append(log, &piece(len)).expect("append");
        }
        len -= 5000;
        fs.set_attr(log, &SetAttr { size: Some(len as u64), ..SetAttr::default() }).expect("truncate");
        for _ in 0..20 {
            len += fs.append(log, &piece(len)).expect("append");
        }
        fs.sync().expect("sync");
        let synced = len;
        for _ in 0..200 {
            len += fs.append(log, &piece(len)).expect("append");
        }
        // What is left when the power fails now: all that was synced, and some of the rest, in order.
        let cut = storage.power_cut(SEED);
        is_right(&fs, log, len);
        fs.close().expect("close");
        for (storage, least, most) in [(cut, synced, len), (storage, len, len)] {
            let fs = open(&storage);
            let log = fs.lookup(1, b"log").expect("the log").ino;
            let size = fs.attr(log).expect("its size").size as usize;
            assert!((least..=most).contains(&size), "seed {SEED}: {size} of {least} .. {most}");
            is_right(&fs, log, size);
            fs.close().expect("close");
            let report = crate::check(storage, false).expect("check");
            assert!(report.is_clean(), "{report}");
        }
    }
}
