//! What a run stands on: a directory of the kernel's, or a [`Volume`] of this process.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::volume::Volume;

/// Where the files of a run are.
#[derive(Clone, Copy)]
pub enum Ground<'a> {
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
pub enum Making<'a> {
    /// The kernel's.
    Kernel(OwnedFd),
    /// A volume's, closed when dropped, and how far it is written.
    Volume(&'a dyn Volume, u64, u64),
}

impl<'a> Ground<'a> {
    /// Whether there is anything at `path`.
    pub fn exists(&self, path: &CStr) -> bool {
        self.size(path).is_ok()
    }

    /// Size in bytes of what is at `path`.
    pub fn size(&self, path: &CStr) -> io::Result<u64> {
        match self {
            Ground::Directory { fd, .. } => {
                Ok(rustix::fs::statat(fd, path, AtFlags::empty())?.st_size as u64)
            }
            Ground::Volume(volume) => volume.stat(path),
        }
    }

    /// Makes a directory, or finds it there.
    pub fn make_dir(&self, path: &CStr) -> io::Result<()> {
        let made = match self {
            Ground::Directory { fd, .. } => {
                rustix::fs::mkdirat(fd, path, Mode::from_raw_mode(0o755)).map_err(io::Error::from)
            }
            Ground::Volume(volume) => volume.make_dir(path),
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
            Ground::Directory { path: root, .. } => std::fs::remove_dir_all(root.join(path)),
            Ground::Volume(volume) => remove_all(*volume, path.as_bytes()),
        }
    }

    /// Opens a file for writing; makes it (mode 0644) when `create` says so.
    pub fn open(&self, path: &CStr, create: bool) -> io::Result<Making<'a>> {
        match *self {
            Ground::Directory { fd, .. } => {
                let mut flags = if create { OFlags::RDWR } else { OFlags::WRONLY };
                flags.set(OFlags::CREATE, create);
                let mode = Mode::from_raw_mode(0o644);
                Ok(Making::Kernel(rustix::fs::openat(fd, path, flags | OFlags::CLOEXEC, mode)?))
            }
            Ground::Volume(volume) => Ok(Making::Volume(volume, volume.open(path, create)?, 0)),
        }
    }

    /// Makes everything durable.
    pub fn sync(&self) -> Result<(), Error> {
        match self {
            Ground::Directory { path, fd } => {
                rustix::fs::syncfs(fd).map_err(|error| Error::io("cannot sync", path, error))
            }
            Ground::Volume(volume) => {
                volume.sync().map_err(|error| Error::io("cannot sync", "the volume", error))
            }
        }
    }

    /// Bytes that may still be written; 0 when it cannot be told.
    pub fn free_bytes(&self) -> u64 {
        match self {
            Ground::Directory { fd, .. } => {
                rustix::fs::fstatvfs(fd).map_or(0, |stat| stat.f_bavail * stat.f_frsize)
            }
            Ground::Volume(volume) => volume.free_bytes(),
        }
    }
}

impl Making<'_> {
    /// Writes some of `data` behind what was written before; returns how much.
    pub fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Making::Kernel(file) => loop {
                match rustix::io::write(file.as_fd(), data) {
                    Err(Errno::INTR) => {}
                    written => return Ok(written?),
                }
            },
            Making::Volume(volume, file, at) => {
                let written = volume.write_at(*file, data, *at)?;
                *at += written as u64;
                Ok(written)
            }
        }
    }

    /// Cuts or extends to `length` bytes.
    pub fn truncate(&self, length: u64) -> io::Result<()> {
        match self {
            Making::Kernel(file) => Ok(rustix::fs::ftruncate(file, length)?),
            Making::Volume(volume, file, _) => volume.truncate(*file, length),
        }
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        if let Making::Volume(volume, file, _) = self {
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
