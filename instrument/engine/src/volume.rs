//! A file system inside this process: no system calls, no kernel in between.
//!
//! What a file system in user space costs without FUSE is measured by running the same workload on a [`Volume`].

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::io;

use crate::clock::Clock;
use crate::control::Control;
use crate::event::Event;
use crate::psync::{DIRENT_BYTES, sleep_blocking, wait_blocking};
use crate::target::{OpenHow, Target};

/// Files that code of this process keeps. Paths are relative to its root, without a leading slash; a slash
/// may follow that of a directory. Threads call it at the same time. Errors are those of the system calls of the same names.
pub trait Volume: Sync {
    /// Opens a regular file, or makes it (mode 0644) when `create` says so and it is not there; returns its handle.
    fn open(&self, path: &CStr, create: bool) -> io::Result<u64>;
    /// Ends the use of a handle.
    fn close(&self, file: u64) -> io::Result<()>;
    /// Reads at an offset; 0 at the end of the file.
    fn read_at(&self, file: u64, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at an offset.
    fn write_at(&self, file: u64, data: &[u8], offset: u64) -> io::Result<usize>;
    /// Writes at the end, in one step.
    fn append(&self, file: u64, data: &[u8]) -> io::Result<usize>;
    /// Makes a file's data and metadata durable.
    fn fsync(&self, file: u64) -> io::Result<()>;
    /// Cuts or extends to `length` bytes.
    fn truncate(&self, file: u64, length: u64) -> io::Result<()>;
    /// Size of an open file in bytes.
    fn size(&self, file: u64) -> io::Result<u64>;
    /// Size by path in bytes, of any kind of file.
    fn stat(&self, path: &CStr) -> io::Result<u64>;
    /// Removes a file.
    fn unlink(&self, path: &CStr) -> io::Result<()>;
    /// Makes a directory.
    fn make_dir(&self, path: &CStr) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &CStr) -> io::Result<()>;
    /// Calls `each` with the name of every entry but `.` and `..`, and whether it is a directory.
    fn list_dir(&self, path: &CStr, each: &mut dyn FnMut(&[u8], bool)) -> io::Result<()>;
    /// Makes everything durable.
    fn sync(&self) -> io::Result<()>;
    /// Bytes that may still be written.
    fn free_bytes(&self) -> u64;
}

/// One thread's view of a [`Volume`]. An asynchronous write is complete when its call returns.
pub struct InProcess<'a> {
    volume: &'a dyn Volume,
    clock: Clock,
    control: &'a Control,
    /// Asynchronous writes that nobody has waited for, and the first failure among them.
    unreaped: Cell<usize>,
    failure: RefCell<Option<io::Error>>,
}

/// An open file, and whether each of its writes is to be durable.
#[derive(Debug)]
pub struct Handle {
    file: u64,
    sync: bool,
}

impl<'a> InProcess<'a> {
    /// A target for one thread.
    pub fn new(volume: &'a dyn Volume, control: &'a Control) -> InProcess<'a> {
        let clock = Clock::get();
        InProcess { volume, clock, control, unreaped: Cell::new(0), failure: RefCell::new(None) }
    }

    fn durable(&self, file: &Handle, written: usize) -> io::Result<usize> {
        if file.sync {
            self.volume.fsync(file.file)?;
        }
        Ok(written)
    }
}

impl Target for InProcess<'_> {
    type File = Handle;

    #[inline(always)]
    fn now(&self) -> u64 {
        self.clock.now()
    }

    async fn sleep_until(&self, deadline_ns: u64) {
        sleep_blocking(&self.clock, self.control, deadline_ns);
    }

    async fn wait(&self, event: &Event, seen: u32) {
        wait_blocking(self.control, event, seen);
    }

    async fn open(&self, path: &CStr, how: OpenHow) -> io::Result<Handle> {
        Ok(Handle { file: self.volume.open(path, how.create)?, sync: how.sync })
    }

    async fn close(&self, file: Handle) -> io::Result<()> {
        self.volume.close(file.file)
    }

    async fn read_at(&self, file: &Handle, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.volume.read_at(file.file, buffer, offset)
    }

    async fn write_at(&self, file: &Handle, data: &[u8], offset: u64) -> io::Result<usize> {
        let written = self.volume.write_at(file.file, data, offset)?;
        self.durable(file, written)
    }

    async fn append(&self, file: &Handle, data: &[u8]) -> io::Result<usize> {
        let written = self.volume.append(file.file, data)?;
        self.durable(file, written)
    }

    async fn fsync(&self, file: &Handle) -> io::Result<()> {
        self.volume.fsync(file.file)
    }

    async fn truncate(&self, file: &Handle, length: u64) -> io::Result<()> {
        self.volume.truncate(file.file, length)
    }

    async fn direct_alignment(&self, _file: &Handle) -> u64 {
        crate::aligned::ALIGNMENT as u64
    }

    async fn stat(&self, path: &CStr) -> io::Result<u64> {
        self.volume.stat(path)
    }

    async fn stat_open(&self, file: &Handle) -> io::Result<u64> {
        self.volume.size(file.file)
    }

    async fn unlink(&self, path: &CStr) -> io::Result<()> {
        self.volume.unlink(path)
    }

    async fn make_dir(&self, path: &CStr) -> io::Result<()> {
        self.volume.make_dir(path)
    }

    async fn remove_dir(&self, path: &CStr) -> io::Result<()> {
        self.volume.remove_dir(path)
    }

    async fn list_dir(&self, path: &CStr) -> io::Result<(u64, u64)> {
        // `.` and `..`, which directories of the kernel have
        let (mut count, mut bytes) = (2, 3 + 2 * DIRENT_BYTES);
        self.volume.list_dir(path, &mut |name, _| {
            count += 1;
            bytes += name.len() as u64 + DIRENT_BYTES;
        })?;
        Ok((count, bytes))
    }

    async fn aio_write(&self, file: &Handle, data: &[u8], offset: u64) -> io::Result<()> {
        let written = self.volume.write_at(file.file, data, offset).and_then(|written| {
            if written < data.len() {
                Err(io::ErrorKind::WriteZero.into())
            } else {
                self.durable(file, written)
            }
        });
        if let Err(error) = written {
            self.failure.borrow_mut().get_or_insert(error);
        }
        self.unreaped.set(self.unreaped.get() + 1);
        Ok(())
    }

    async fn aio_wait(&self, _at_least: usize) -> io::Result<usize> {
        let reaped = self.unreaped.take();
        self.failure.take().map_or(Ok(reaped), Err)
    }

    fn aio_outstanding(&self) -> usize {
        self.unreaped.get()
    }
}
