//! Flowops that move data.

use std::ops::Range;

use workload::Kind;

use crate::aligned::{ALIGNMENT, AlignedBuffer};
use crate::lane::{AT_END, Lane, OpResult, RunFault};
use crate::program::Op;
use crate::target::Target;

/// Piece of a whole-file transfer whose `iosize` is not given.
const PIECE_BYTES_MAX: u64 = 16 << 20;

/// Where a sequential write turns back to the start of a file that is smaller than one transfer. (Filebench never
/// turns back: the file grows until the device is full.)
const SEQUENTIAL_WRAP_BYTES: u64 = 1 << 30;

/// The largest single transfer: the kernel's own limit, rounded down to a power of two.
pub(crate) const TRANSFER_BYTES_MAX: u64 = 1 << 30;

impl<T: Target> Lane<'_, T> {
    /// Bytes of one transfer, rounded up to what `O_DIRECT` needs.
    #[inline(always)]
    fn transfer_bytes(&mut self, op: &Op, slot: usize) -> Result<u64, Box<RunFault>> {
        let size = self.draws.eval(op.flow.io_size);
        let size = self.aligned(size, slot);
        if size > TRANSFER_BYTES_MAX {
            return Err(RunFault::boxed(format!("iosize={size} is above the largest transfer, 1 GiB")));
        }
        Ok(size)
    }

    #[inline(always)]
    fn aligned(&self, size: u64, slot: usize) -> u64 {
        match self.slots[slot].alignment {
            0 | 1 => size,
            alignment => size.saturating_add(alignment - 1) / alignment * alignment,
        }
    }

    /// Nominal size of the file in a slot.
    #[inline]
    fn nominal_bytes(&self, slot: usize) -> u64 {
        self.slots[slot]
            .of
            .map_or(0, |(fileset, file)| self.shared.filesets[fileset].layout.file_size(file as usize))
    }

    /// `workingset`, or the nominal size.
    #[inline]
    fn working_set_bytes(&mut self, op: &Op, slot: usize) -> u64 {
        match self.draws.eval(op.flow.working_set) {
            0 => self.nominal_bytes(slot),
            bytes => bytes,
        }
    }

    /// A random offset, a multiple of the transfer size; every block of the working set is equally likely, the last one
    /// included (Filebench practically never touches that).
    #[inline]
    fn random_offset(&mut self, op: &Op, slot: usize, size: u64) -> u64 {
        let blocks = self.working_set_bytes(op, slot) / size.max(1);
        if blocks <= 1 { 0 } else { self.rng.below(blocks) * size }
    }

    /// Where the next transfer of a `read` or `write` goes.
    #[inline]
    fn offset(&mut self, op: &Op, slot: usize, size: u64) -> Option<u64> {
        if let Some(offset) = op.flow.offset {
            return Some(self.draws.eval(offset));
        }
        op.flow.random.then(|| self.random_offset(op, slot, size))
    }

    /// Part of the read buffer for one transfer: somewhere in the thread's `memsize`.
    #[inline]
    fn incoming(&mut self, size: usize) -> Range<usize> {
        if self.read_buffer.len() < size {
            self.read_buffer = AlignedBuffer::new(size);
        }
        let places = self.read_buffer.len() / size.max(1).next_multiple_of(ALIGNMENT);
        let start = if places <= 1 {
            0
        } else {
            self.rng.below(places as u64) as usize * size.next_multiple_of(ALIGNMENT)
        };
        start..start + size
    }

    /// Part of the write buffer for one transfer, with contents that were never written before.
    #[inline]
    fn outgoing(&mut self, size: usize) -> Range<usize> {
        if self.write_buffer.len() < size {
            self.write_buffer = AlignedBuffer::new(size);
            if T::CARRIES_DATA {
                self.data.fill(&mut self.write_buffer);
            }
        }
        // As much of the pool as compressors look back over, and no more: the rest would only be cold.
        let window =
            self.write_buffer.len().min(size.max(workload::data::POOL_BYTES_MIN).next_multiple_of(ALIGNMENT));
        if self.write_position + size > window {
            self.write_position = 0;
        }
        let range = self.write_position..self.write_position + size;
        self.write_position += size.next_multiple_of(ALIGNMENT);
        if T::CARRIES_DATA {
            self.data.stamp(&mut self.write_buffer[range.clone()]);
        }
        range
    }

    #[inline]
    pub(crate) async fn read(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let slot = match self.open_slot(op).await? {
            Ok(slot) => slot,
            Err(did) => return Ok(did),
        };
        let size = self.transfer_bytes(op, slot)?;
        let offset = self.offset(op, slot, size);
        let buffer = self.incoming(size as usize);
        let place = &mut self.slots[slot];
        let Some(file) = &place.file else { return Ok(OpResult::Nothing) };
        let at = match offset {
            Some(offset) => offset,
            None if place.position == AT_END => self.target.stat_open(file).await?,
            None => place.position,
        };
        let got = self.target.read_at(file, &mut self.read_buffer[buffer], at).await? as u64;
        if offset.is_none() {
            // At the end of the file a sequential reader starts again.
            place.position = if got == 0 { 0 } else { at + got };
        }
        Ok(OpResult::Done(got))
    }

    #[inline]
    pub(crate) async fn write(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let slot = match self.open_slot(op).await? {
            Ok(slot) => slot,
            Err(did) => return Ok(did),
        };
        let size = self.transfer_bytes(op, slot)?;
        let offset = self.offset(op, slot, size);
        let wrap = match self.working_set_bytes(op, slot) {
            bytes if bytes >= size => bytes,
            _ => SEQUENTIAL_WRAP_BYTES,
        };
        let data = self.outgoing(size as usize);
        let place = &mut self.slots[slot];
        let Some(file) = &place.file else { return Ok(OpResult::Nothing) };
        let at = match offset {
            Some(offset) => offset,
            None if place.position.saturating_add(size) > wrap => 0,
            None => place.position,
        };
        let written = write_all(self.target, file, &self.write_buffer[data], at).await?;
        if offset.is_none() {
            place.position = at + written;
        }
        Ok(OpResult::Done(written))
    }

    #[inline]
    pub(crate) async fn read_whole(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let slot = match self.open_slot(op).await? {
            Ok(slot) => slot,
            Err(did) => return Ok(did),
        };
        let piece = match self.transfer_bytes(op, slot)? {
            0 => self.aligned(self.nominal_bytes(slot).clamp(1, PIECE_BYTES_MAX), slot),
            size => size,
        };
        let buffer = self.incoming(piece as usize);
        let place = &mut self.slots[slot];
        let Some(file) = &place.file else { return Ok(OpResult::Nothing) };
        let mut total = 0;
        loop {
            match self.target.read_at(file, &mut self.read_buffer[buffer.clone()], total).await? {
                0 => break,
                got => total += got as u64,
            }
        }
        place.position = total;
        Ok(OpResult::Done(total))
    }

    #[inline]
    pub(crate) async fn write_whole(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let slot = match self.open_slot(op).await? {
            Ok(slot) => slot,
            Err(did) => return Ok(did),
        };
        let source = usize::from(op.flow.src_fd);
        let total = match self.slots.get(source).and_then(|place| place.of) {
            Some(_) => self.nominal_bytes(source),
            None => self.working_set_bytes(op, slot),
        };
        let total = self.aligned(total, slot);
        let piece = match self.transfer_bytes(op, slot)? {
            0 => total.clamp(1, PIECE_BYTES_MAX),
            size => size,
        };
        let mut done = 0;
        while done < total {
            let data = self.outgoing(piece.min(total - done) as usize);
            let Some(file) = &self.slots[slot].file else { return Ok(OpResult::Nothing) };
            done += write_all(self.target, file, &self.write_buffer[data], done).await?;
        }
        self.slots[slot].position = done;
        Ok(OpResult::Done(done))
    }

    #[inline]
    pub(crate) async fn append(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let slot = match self.open_slot(op).await? {
            Ok(slot) => slot,
            Err(did) => return Ok(did),
        };
        let limit = self.transfer_bytes(op, slot)?;
        let size = match op.flow.kind {
            Kind::AppendFileRand if limit > 0 => {
                let size = self.rng.below(limit) + 1;
                self.aligned(size, slot)
            }
            _ => limit,
        };
        let data = self.outgoing(size as usize);
        let place = &mut self.slots[slot];
        let Some(file) = &place.file else { return Ok(OpResult::Nothing) };
        let written = if place.alignment > 1 {
            // `O_DIRECT` cannot start inside a block.
            let end = self.target.stat_open(file).await?.next_multiple_of(place.alignment);
            write_all(self.target, file, &self.write_buffer[data], end).await?
        } else {
            self.target.append(file, &self.write_buffer[data]).await? as u64
        };
        place.position = AT_END;
        if let Some((fileset, _)) = place.of
            && self.shared.filesets[fileset].grow(written)
            && self.shared.filesets[fileset].may_cut()
        {
            self.cut_back(slot).await?;
        }
        Ok(OpResult::Done(written))
    }

    /// Cuts an append-only file back to its nominal size, as a log is rotated.
    #[cold]
    async fn cut_back(&mut self, slot: usize) -> Result<(), Box<RunFault>> {
        let nominal = self.nominal_bytes(slot);
        let place = &self.slots[slot];
        let (Some(file), Some((fileset, _))) = (&place.file, place.of) else { return Ok(()) };
        let size = self.target.stat_open(file).await.unwrap_or(0);
        let cut = if size > nominal { self.target.truncate(file, nominal).await } else { Ok(()) };
        let gained = if cut.is_ok() { size.saturating_sub(nominal) } else { 0 };
        self.shared.filesets[fileset].shrink(gained);
        cut?;
        self.shared.cut_back.fetch_add(u64::from(gained > 0), std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    pub(crate) async fn fsync(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let number = usize::from(op.flow.fd).min(self.slots.len() - 1);
        let slot = &self.slots[number];
        match &slot.file {
            Some(file) if op.flow.dsync => self.target.fdatasync(file).await?,
            Some(file) => self.target.fsync(file).await?,
            None if slot.starved => return Ok(OpResult::Starved),
            None => return Err(RunFault::boxed(format!("file slot fd={number} is not open"))),
        }
        Ok(OpResult::Done(0))
    }

    /// Syncs every open file of a fileset; each counts as an operation.
    pub(crate) async fn fsync_set(&mut self, op: &Op, index: usize) -> Result<OpResult, Box<RunFault>> {
        let mut did = OpResult::Nothing;
        let mut start = self.target.now();
        for number in 0..self.slots.len() {
            let slot = &self.slots[number];
            let ours = op.flow.fileset.is_none() || slot.of.map(|(fileset, _)| fileset) == op.flow.fileset;
            let Some(file) = slot.file.as_ref().filter(|_| ours) else { continue };
            self.target.fsync(file).await?;
            if matches!(did, OpResult::Done(_)) {
                let now = self.target.now();
                self.completed(op, index, start, now, 0);
                start = now;
            }
            did = OpResult::Done(0);
        }
        Ok(did)
    }

    pub(crate) async fn aio_write(&mut self, op: &Op) -> Result<OpResult, Box<RunFault>> {
        let slot = match self.open_slot(op).await? {
            Ok(slot) => slot,
            Err(did) => return Ok(did),
        };
        let size = self.transfer_bytes(op, slot)?;
        let offset = match self.offset(op, slot, size) {
            Some(offset) => offset,
            None => self.random_offset(op, slot, size),
        };
        let data = self.outgoing(size as usize);
        let Some(file) = &self.slots[slot].file else { return Ok(OpResult::Nothing) };
        self.target.aio_write(file, &self.write_buffer[data], offset).await?;
        Ok(OpResult::Done(size))
    }

    /// Waits for half of what is outstanding, at least one.
    pub(crate) async fn aio_wait(&mut self) -> Result<OpResult, Box<RunFault>> {
        let half = self.target.aio_outstanding().div_ceil(2);
        self.target.aio_wait(half).await?;
        Ok(OpResult::Done(0))
    }
}

/// Writes all of `data`; a short write is continued, as the C library's users do.
#[inline]
async fn write_all<T: Target>(
    target: &T,
    file: &T::File,
    data: &[u8],
    offset: u64,
) -> Result<u64, Box<RunFault>> {
    let mut done = target.write_at(file, data, offset).await?;
    while done < data.len() {
        match target.write_at(file, &data[done..], offset + done as u64).await? {
            0 => return Err(RunFault::boxed("a write of no bytes: the device takes no more")),
            more => done += more,
        }
    }
    Ok(done as u64)
}
