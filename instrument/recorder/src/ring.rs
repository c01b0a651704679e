//! The ring buffer between the programs in the kernel and us: a page with the reader's position, a page with the writers', and the
//! data, mapped twice in a row so that no record is cut. (Documentation/bpf/ringbuf.rst)

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The head of a record: its length, with two bits that say that it is being written, or was given up.
const HEAD_BYTES: u64 = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// The reader's end of a ring buffer.
#[derive(Debug)]
pub struct Ring {
    reader: NonNull<AtomicU64>,
    writer: NonNull<AtomicU64>,
    data: NonNull<u8>,
    bytes: u64,
    page: usize,
}

// SAFETY: the mappings belong to this value, and positions are atomic.
unsafe impl Send for Ring {}
// SAFETY: what a shared reference allows reads positions, which are atomic.
unsafe impl Sync for Ring {}

impl Ring {
    /// Maps the ring of a map that has so many bytes.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(map: &OwnedFd, bytes: u32) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let reading = ProtFlags::READ;
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let rest = page + 2 * bytes as usize;
        // SAFETY: new mappings, at an address of the kernel's choice.
        let reader = unsafe { mmap(std::ptr::null_mut(), page, both, MapFlags::SHARED, map, 0) }?;
        // SAFETY: as above.
        let writer = unsafe { mmap(std::ptr::null_mut(), rest, reading, MapFlags::SHARED, map, page as u64) };
        let writer = writer.inspect_err(|_| {
            // SAFETY: it was mapped above, and nothing points into it.
            let _ = unsafe { munmap(reader, page) };
        })?;
        let mapped = |at: *mut std::ffi::c_void| NonNull::new(at).ok_or(io::ErrorKind::Other);
        let (reader, writer) = (mapped(reader)?, mapped(writer)?);
        // SAFETY: the data follow the writers' page in the mapping.
        let data = unsafe { writer.cast::<u8>().add(page) };
        Ok(Ring { reader: reader.cast(), writer: writer.cast(), data, bytes: u64::from(bytes), page })
    }

    /// Hands over the records that are there, in their order, at most those of one time around the ring.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        // SAFETY: both pages are mapped as long as this value lives.
        let (reader, writer) = unsafe { (self.reader.as_ref(), self.writer.as_ref()) };
        let mut at = reader.load(Ordering::Acquire);
        let end = writer.load(Ordering::Acquire);
        while at < end {
            let place = (at & (self.bytes - 1)) as usize;
            // SAFETY: positions are multiples of 8 within the data.
            let head = unsafe { self.data.add(place).cast::<AtomicU32>().as_ref() }.load(Ordering::Acquire);
            if head & BUSY != 0 {
                break;
            }
            let length = u64::from(head & !(BUSY | DISCARDED));
            if head & DISCARDED == 0 {
                // SAFETY: a record that is not busy is whole, and stays until the reader's position passes it.
                let record = unsafe {
                    std::slice::from_raw_parts(
                        self.data.add(place + HEAD_BYTES as usize).as_ptr(),
                        length as usize,
                    )
                };
                each(record);
            }
            at += (HEAD_BYTES + length).next_multiple_of(8);
            reader.store(at, Ordering::Release);
        }
    }

    /// Bytes that wait to be read.
    pub fn waiting_bytes(&self) -> u64 {
        // SAFETY: both pages are mapped as long as this value lives.
        let (reader, writer) = unsafe { (self.reader.as_ref(), self.writer.as_ref()) };
        writer.load(Ordering::Acquire).saturating_sub(reader.load(Ordering::Acquire))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: both were mapped with these lengths, and nothing else points into them.
        unsafe {
            let _ = munmap(self.reader.as_ptr().cast(), self.page);
            let _ = munmap(self.writer.as_ptr().cast(), self.page + 2 * self.bytes as usize);
        }
    }
}
