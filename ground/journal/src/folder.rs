//! The seam below the journal: what it asks of the directory in which it lies. Tests put one there that fails.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use crate::JournalError;
use host::place::{self, DistrustReason, OpenError};

/// A directory of journals.
pub(crate) trait Folder: Debug + Send + Sync {
    /// Its path, for people.
    fn path(&self) -> &Utf8Path;
    /// Makes a file, which must not exist.
    fn create(&self, name: &str) -> io::Result<Box<dyn Log>>;
    /// Opens a file of ours.
    fn open(&self, name: &str) -> io::Result<Box<dyn Log>>;
    /// Gives a file another name; what had that is gone.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Forces names to disk.
    fn sync(&self) -> io::Result<()>;
    /// The names in it, sorted.
    fn names(&self) -> io::Result<Vec<String>>;
}

/// An open file. The lock goes when it is dropped, or when the process dies.
pub(crate) trait Log: Debug + Send {
    /// Writes to the end, perhaps less than all; how much.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Forces it to disk.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts it off.
    fn set_len(&mut self, bytes: u64) -> io::Result<()>;
    /// All of it.
    fn read(&self) -> io::Result<Vec<u8>>;
    /// Locks it, for this process alone or (`shared`) against those who want it alone; false: somebody else has it.
    fn try_lock(&mut self, shared: bool) -> io::Result<bool>;
    /// Whether it still has a name.
    fn is_linked(&self) -> bool;
}

/// A real directory, held by descriptor.
#[derive(Debug)]
pub(crate) struct Disk {
    path: Utf8PathBuf,
    dir: OwnedFd,
}

impl Disk {
    /// Opens the directory, if it can be relied on; `None` if there is none.
    pub(crate) fn open(dir: &Utf8Path) -> Result<Option<Disk>, JournalError> {
        let path = match dir.canonicalize_utf8() {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(JournalError::Io { path: dir.to_owned(), source }),
        };
        let dir = place::open_trusted(&path)?;
        Ok(Some(Disk { path, dir }))
    }

    /// As [`Disk::open`]; the directory is made if it is missing.
    pub(crate) fn make(dir: &Utf8Path) -> Result<Disk, JournalError> {
        let failed = |source| JournalError::Io { path: dir.to_owned(), source };
        // looked at first, so that nobody has directories made where he likes
        let there = dir.ancestors().find_map(|above| above.canonicalize_utf8().ok());
        place::check_for_new(&there.unwrap_or_else(|| "/".into()))?;
        if let Some(above) = dir.parent() {
            // whatever the umask is: what the group may write to is not relied on
            std::fs::DirBuilder::new().recursive(true).mode(0o755).create(above).map_err(failed)?;
        }
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        Self::open(dir)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
    }
}

impl From<OpenError> for JournalError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Distrust(DistrustReason { path, why, remedy }) => {
                JournalError::Unsafe { path, why, remedy }
            }
            OpenError::Io(path, source) => JournalError::Io { path, source },
        }
    }
}

impl Folder for Disk {
    fn path(&self) -> &Utf8Path {
        &self.path
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Log>> {
        let flags = OFlags::RDWR
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, name, flags, Mode::from_raw_mode(0o600))?;
        Ok(Box::new(File::from(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Log>> {
        // a pipe of that name must not keep us waiting
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.dir, name, flags, Mode::empty()) {
            Err(Errno::LOOP) => return Err(io::Error::other("is a symbolic link, which is not followed")),
            file => file?,
        };
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("is not a regular file"));
        }
        if let Err(DistrustReason { why, remedy, .. }) = place::check_own(&self.path.join(name), &stat) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{why}; {remedy}")));
        }
        Ok(Box::new(File::from(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.dir, from, &self.dir, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.dir, name, AtFlags::empty())?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.dir)?)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let names = place::names(&self.dir)?;
        let mut names: Vec<String> = names.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        Ok(names)
    }
}

impl Log for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        At { file: self, at: 0 }.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn try_lock(&mut self, shared: bool) -> io::Result<bool> {
        let how = match shared {
            true => FlockOperation::NonBlockingLockShared,
            false => FlockOperation::NonBlockingLockExclusive,
        };
        match flock(&*self, how) {
            Err(Errno::WOULDBLOCK) => Ok(false),
            locked => Ok(locked.map(|()| true)?),
        }
    }

    fn is_linked(&self) -> bool {
        rustix::fs::fstat(self).is_ok_and(|stat| stat.st_nlink > 0)
    }
}

/// Reads from the beginning whatever the position of the file.
struct At<'a> {
    file: &'a File,
    at: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
