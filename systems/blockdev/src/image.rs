//! Where the newest bytes of every block lie: anonymous memory, or a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Bytes of one block.
pub(crate) const BLOCK: usize = ssd::BLOCK_BYTES as usize;

/// Sparse anonymous memory.
#[derive(Debug)]
pub(crate) struct Memory {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone; access goes through `&self` and `&mut self`.
unsafe impl Send for Memory {}

impl Memory {
    pub(crate) fn new(bytes: u64) -> io::Result<Memory> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        Ok(Memory { start: start.cast(), bytes })
    }

    fn slice(&self) -> &[u8] {
        // SAFETY: `start` is a mapping of `bytes` readable bytes for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }

    fn slice_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `slice`; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` and nothing refers to it any more.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

/// The newest bytes.
#[derive(Debug)]
pub(crate) enum Image {
    Ram(Memory),
    File(BackingFile),
}

/// A file, and what keeps every other loadline from it.
#[derive(Debug)]
pub(crate) struct BackingFile {
    pub(crate) file: File,
    pub(crate) _held: host::device::Hold,
}

impl Image {
    pub(crate) fn read(&self, lba: u64, to: &mut [u8]) -> io::Result<()> {
        let at = lba * BLOCK as u64;
        match self {
            Image::Ram(memory) => {
                to.copy_from_slice(&memory.slice()[at as usize..at as usize + to.len()]);
                Ok(())
            }
            Image::File(backing) => backing.file.read_exact_at(to, at),
        }
    }

    pub(crate) fn write(&mut self, lba: u64, from: &[u8]) -> io::Result<()> {
        let at = lba * BLOCK as u64;
        match self {
            Image::Ram(memory) => {
                memory.slice_mut()[at as usize..at as usize + from.len()].copy_from_slice(from);
                Ok(())
            }
            Image::File(backing) => backing.file.write_all_at(from, at),
        }
    }

    pub(crate) fn zero(&mut self, lba: u64) -> io::Result<()> {
        self.write(lba, &[0; BLOCK])
    }

    /// Touches every page, so that no write has to wait for memory.
    pub(crate) fn prefault(&mut self) {
        if let Image::Ram(memory) = self {
            for page in memory.slice_mut().chunks_mut(BLOCK) {
                // A volatile write cannot be left out although it changes nothing.
                // SAFETY: `page` is a valid, exclusive, non-empty slice.
                unsafe { std::ptr::write_volatile(page.as_mut_ptr(), page[0]) };
            }
        }
    }
}
