//! A file that is mapped: transfers are copies, the kernel reads and writes pages as they are touched.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::next::READ;
use super::open::OpenMode;

/// The begin of a file, as memory.
pub(super) struct Mapping {
    memory: *mut u8,
    bytes: usize,
    /// What was copied leaves the cache at once, as far as the kernel does that (`direct=1`).
    direct: bool,
}

impl Mapping {
    /// Maps a file up to the end of the stream's part.
    pub(super) fn of(file: &OwnedFd, how: &OpenMode) -> io::Result<Mapping> {
        let bytes = usize::try_from(how.end).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let mut access = if how.reads { libc::PROT_READ } else { 0 };
        if how.writes {
            access |= libc::PROT_WRITE;
        }
        // SAFETY: the kernel chooses the place of a mapping of its own.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = Mapping { memory: memory.cast(), bytes, direct: how.flags.direct };
        if how.flags.advise {
            let advice = if how.random { libc::MADV_RANDOM } else { libc::MADV_SEQUENTIAL };
            // SAFETY: the range is the mapping's.
            checked(unsafe { libc::madvise(memory, bytes, advice) })?;
        }
        Ok(mapping)
    }

    /// Copies from the file ([`READ`]) or to it.
    ///
    /// # Safety
    /// There are so many bytes at `buffer`, and nobody else touches them meanwhile.
    pub(super) unsafe fn copy(
        &self,
        way: usize,
        buffer: *mut u8,
        bytes: usize,
        offset: u64,
    ) -> io::Result<()> {
        let inside = offset.checked_add(bytes as u64).is_some_and(|end| end <= self.bytes as u64);
        if !inside {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: the offset lies within the mapping.
        let there = unsafe { self.memory.add(offset as usize) };
        let (from, to) = if way == READ { (there, buffer) } else { (buffer, there) };
        // SAFETY: both are there, and one is memory of this process alone.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        if self.direct {
            // SAFETY: the range lies within the mapping; msync wants the begin of a page.
            checked(unsafe { libc::msync(there.cast(), bytes, libc::MS_SYNC) })?;
        }
        Ok(())
    }

    /// Writes out what was changed.
    pub(super) fn sync(&self) -> io::Result<()> {
        // SAFETY: the range is the mapping's.
        checked(unsafe { libc::msync(self.memory.cast(), self.bytes, libc::MS_SYNC) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping's, which nobody uses any more.
        unsafe { libc::munmap(self.memory.cast(), self.bytes) };
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
