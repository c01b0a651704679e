//! What a run stands on: a directory of the kernel's, or a [`Volume`] of this process.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::volume::Volume;

/// Where the files of a run are.
#[derive(Clone, Copy)]
pub enum FileSpace<'a> {
    /// A directory.
    Directory {
        /// Its path.
        path: &'a Path,
        /// The same, open.
        fd: BorrowedFd<'a>,
    },
    /// A file system in this process.
    Volume(&'a dyn Volume),
}

/// A file that is being made.
pub enum NewFile<'a> {
    /// The kernel's.
    Kernel(OwnedFd),
    /// A volume's, closed when dropped, and how far it is written.
    Volume(&'a dyn Volume, u64, u64),
}

impl<'a> FileSpace<'a> {
    /// Whether there is anything at `path`.
    pub fn exists(&self, path: &CStr) -> bool {
        self.size(path).is_ok()
    }

    /// Size in bytes of what is at `path`.
    pub fn size(&self, path: &CStr) -> io::Result<u64> {
        match self {
            FileSpace::Directory { fd, .. } => {
                Ok(rustix::fs::statat(fd, path, AtFlags::empty())?.st_size as u64)
            }
            FileSpace::Volume(volume) => volume.stat(path),
        }
    }

    /// Makes a directory, or finds it there.
    pub fn make_dir(&self, path: &CStr) -> io::Result<()> {
        let made = match self {
            FileSpace::Directory { fd, .. } => {
                rustix::fs::mkdirat(fd, path, Mode::from_raw_mode(0o755)).map_err(io::Error::from)
            }
            FileSpace::Volume(volume) => volume.make_dir(path),
        };
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    /// Makes a directory and those above it.
    pub fn make_dirs(&self, path: &str) -> io::Result<()> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        ends.filter(|&end| end > 0).try_for_each(|end| self.make_dir(&CString::new(&path[..end])?))
    }

    /// Removes a directory with all that is in it.
    pub fn remove_all(&self, path: &str) -> io::Result<()> {
        match self {
            FileSpace::Directory { path: root, .. } => std::fs::remove_dir_all(root.join(path)),
            FileSpace::Volume(volume) => remove_all(*volume, path.as_bytes()),
        }
    }

    /// Opens a file for writing; makes it (mode 0644) when `create` says so.
    pub fn open(&self, path: &CStr, create: bool) -> io::Result<NewFile<'a>> {
        match *self {
            FileSpace::Directory { fd, .. } => {
                let mut flags = if create { OFlags::RDWR } else { OFlags::WRONLY };
                flags.set(OFlags::CREATE, create);
                let mode = Mode::from_raw_mode(0o644);
                Ok(NewFile::Kernel(rustix::fs::openat(fd, path, flags | OFlags::CLOEXEC, mode)?))
            }
            FileSpace::Volume(volume) => Ok(NewFile::Volume(volume, volume.open(path, create)?, 0)),
        }
    }

    /// Makes everything durable.
    pub fn sync(&self) -> Result<(), Error> {
        match self {
            FileSpace::Directory { path, fd } => {
                rustix::fs::syncfs(fd).map_err(|error| Error::io("cannot sync", path, error))
            }
            FileSpace::Volume(volume) => {
                volume.sync().map_err(|error| Error::io("cannot sync", "the volume", error))
            }
        }
    }

    /// Bytes that may still be written; 0 when it cannot be told.
    pub fn free_bytes(&self) -> u64 {
        match self {
            FileSpace::Directory { fd, .. } => {
                rustix::fs::fstatvfs(fd).map_or(0, |stat| stat.f_bavail * stat.f_frsize)
            }
            FileSpace::Volume(volume) => volume.free_bytes(),
        }
    }
}

impl NewFile<'_> {
    /// Writes some of `data` behind what was written before; returns how much.
    pub fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            NewFile::Kernel(file) => loop {
                match rustix::io::write(file.as_fd(), data) {
                    Err(Errno::INTR) => {}
                    written => return Ok(written?),
                }
            },
            NewFile::Volume(volume, file, at) => {
                let written = volume.write_at(*file, data, *at)?;
                *at += written as u64;
                Ok(written)
            }
        }
    }

    /// Allocates blocks for `length` bytes where the file system can; sets the size unless it is to stay.
    pub fn allocate(&self, length: u64, keep_size: bool) -> io::Result<()> {
        let NewFile::Kernel(file) = self else { return Ok(()) };
        if length == 0 {
            return Ok(());
        }
        let flags = if keep_size { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        match rustix::fs::fallocate(file, flags, 0, length) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            allocated => Ok(allocated?),
        }
    }

    /// Cuts or extends to `length` bytes.
    pub fn truncate(&self, length: u64) -> io::Result<()> {
        match self {
            NewFile::Kernel(file) => Ok(rustix::fs::ftruncate(file, length)?),
            NewFile::Volume(volume, file, _) => volume.truncate(*file, length),
        }
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if let NewFile::Volume(volume, file, _) = self {
            // as with the kernel's: what a close says of a file that is only prepared is told by the sync that follows
            let _ = volume.close(*file);
        }
    }
}

fn remove_all(volume: &dyn Volume, path: &[u8]) -> io::Result<()> {
    let mut entries = Vec::new();
    volume.list_dir(&CString::new(path)?, &mut |name, is_dir| {
        entries.push(([path, b"/", name].concat(), is_dir));
    })?;
    for (entry, is_dir) in entries {
        if is_dir { remove_all(volume, &entry)? } else { volume.unlink(&CString::new(entry)?)? }
    }
    volume.remove_dir(&CString::new(path)?)
}
