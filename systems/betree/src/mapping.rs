//! Memory that comes from the kernel and goes back to it: on the heap, large pieces that come and go in all sizes would
//! leave holes that nothing else fits.

use std::ptr::{self, NonNull};

/// Pieces of this many bytes and more are worth a mapping.
pub(crate) const MAPPED_MIN: usize = 64 << 10;

const PAGE: usize = 4096;

/// `MADV_POPULATE_WRITE` of linux/mman.h (5.14).
const POPULATE_WRITE: libc::c_int = 23;

/// Zero-filled memory that begins at a page.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing is done with it through a shared reference.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `size` bytes, rounded up to pages, all of them there already; None if the kernel has none.
    pub fn new(size: usize) -> Option<Mapping> {
        let size = size.next_multiple_of(PAGE);
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping anywhere touches nothing that there is.
        let start = unsafe { libc::mmap(ptr::null_mut(), size, access, kind, -1, 0) };
        let start = NonNull::new(start).filter(|_| start != libc::MAP_FAILED)?;
        // Not by MAP_POPULATE, which does nothing in a process that locks its memory as far as it is touched, as a daemon
        // does. An older kernel refuses: then each page comes when it is touched.
        // SAFETY: this changes nothing that can be read in the mapping.
        unsafe { libc::madvise(start.as_ptr(), size, POPULATE_WRITE) };
        Some(Mapping { start: start.cast(), size })
    }

    /// Its first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is of this size, and nobody refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}
