//! A file or block device, through the page cache or with direct I/O.

use super::{AlignedBuf, Storage, UNIT};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// A regular file of fixed length, or a block device.
pub struct FileStorage {
    file: File,
    len: u64,
    direct: bool,
    block_device: bool,
}

impl FileStorage {
    /// Creates (or truncates) a sparse file of `len` bytes. `direct` asks for `O_DIRECT`.
    pub fn create(path: &Path, len: u64, direct: bool) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len(len)?;
        drop(file);
        Self::open(path, direct)
    }

    /// Opens an existing file or block device. `direct` asks for `O_DIRECT`, which some file systems refuse.
    pub fn open(path: &Path, direct: bool) -> io::Result<Self> {
        let flags = if direct { libc::O_DIRECT } else { 0 };
        Self::of(OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?, direct)
    }

    /// As [`FileStorage::open`], of what is open for reading and writing. Whoever shares the descriptor's flags sees them change.
    pub fn of_file(file: File, direct: bool) -> io::Result<Self> {
        let flags = if direct { libc::O_DIRECT } else { 0 };
        // SAFETY: the descriptor is open; this command takes a plain number.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Self::of(file, direct)
    }

    fn of(mut file: File, direct: bool) -> io::Result<Self> {
        let block_device = file.metadata()?.file_type().is_block_device();
        let len = file.seek(SeekFrom::End(0))? / UNIT as u64 * UNIT as u64;
        Ok(FileStorage { file, len, direct, block_device })
    }

    /// The descriptor, for submission through a ring.
    pub(super) fn raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// True if a transfer from `ptr` may go to the kernel as it is.
    pub(super) fn may_go_direct(&self, buf: &[u8]) -> bool {
        !self.direct || (buf.as_ptr() as usize).is_multiple_of(UNIT)
    }

    /// Refuses transfers beyond the capacity, so that a file never grows.
    pub(super) fn check_bounds(&self, off: u64, len: usize) -> io::Result<()> {
        match off.checked_add(len as u64) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "transfer beyond the end of the storage")),
        }
    }
}

impl Storage for FileStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
        self.check_bounds(off, buf.len())?;
        if self.may_go_direct(buf) {
            return self.file.read_exact_at(buf, off);
        }
        let mut bounce = AlignedBuf::zeroed(buf.len());
        self.file.read_exact_at(&mut bounce, off)?;
        buf.copy_from_slice(&bounce[..buf.len()]);
        Ok(())
    }

    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
        self.check_bounds(off, buf.len())?;
        if self.may_go_direct(buf) {
            return self.file.write_all_at(buf, off);
        }
        self.file.write_all_at(&AlignedBuf::from_slice(buf)[..buf.len()], off)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn flush_stacked(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn discard(&self, off: u64, len: u64) -> io::Result<()> {
        self.check_bounds(off, len as usize)?;
        let done = if self.block_device {
            const BLKDISCARD: libc::c_ulong = 0x1277;
            let range = [off, len];
            // SAFETY: the descriptor is open and BLKDISCARD reads two u64 from the pointer, which are there.
            unsafe { libc::ioctl(self.raw_fd(), BLKDISCARD as _, range.as_ptr()) }
        } else {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: the descriptor is open; fallocate takes plain numbers.
            unsafe { libc::fallocate(self.raw_fd(), mode, off as libc::off_t, len as libc::off_t) }
        };
        match done {
            0 => Ok(()),
            _ => match io::Error::last_os_error() {
                e if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
                e => Err(e),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_what_is_written_and_never_grows() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("image");
        let file = FileStorage::create(&path, 16 * UNIT as u64, false).expect("create");
        file.write_at(&AlignedBuf::from_slice(b"hello"), UNIT as u64).expect("write");
        file.flush().expect("flush");
        drop(file);
        let file = FileStorage::open(&path, false).expect("open");
        assert_eq!(file.len().expect("len"), 16 * UNIT as u64);
        let mut buf = vec![0u8; UNIT];
        file.read_at(&mut buf, UNIT as u64).expect("read");
        assert_eq!(&buf[..5], b"hello");
        assert!(file.write_at(&buf, 16 * UNIT as u64).is_err());
        file.discard(0, 2 * UNIT as u64).expect("discard is a hint");
    }
}
