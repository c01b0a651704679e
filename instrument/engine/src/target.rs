//! The seam between the interpreter and the world: files, time and waiting.
//!
//! A [`Target`] belongs to one thread. On a real target every future but those of io_uring is ready at its
//! first poll, so that the compiler leaves a plain loop of system calls; on a simulated one the same program
//! runs in virtual time.

use std::ffi::CStr;
use std::io;

use crate::event::Event;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenHow {
    /// Readable.
    pub read: bool,
    /// Writable.
    pub write: bool,
    /// Create it when it is not there (mode 0666 before the umask).
    pub create: bool,
    /// `O_SYNC`.
    pub sync: bool,
    /// `O_DIRECT`.
    pub direct: bool,
    /// `POSIX_FADV_RANDOM`.
    pub no_read_ahead: bool,
}

/// What a workload runs on. Paths are relative to the target's root.
///
/// Errors are those of the system calls of the same names.
#[expect(async_fn_in_trait, reason = "static dispatch within one thread; no Send bound is wanted")]
pub trait Target {
    /// An open file.
    type File;
    /// Whether it looks at the bytes that it is given, and fills those that it is asked for. Where it does not, as in a
    /// simulation, lengths alone count, and lanes make no data.
    const CARRIES_DATA: bool = true;

    /// Nanoseconds of this target's clock.
    fn now(&self) -> u64;
    /// Waits until `now()` reaches `deadline_ns`, or the run is stopped.
    async fn sleep_until(&self, deadline_ns: u64);
    /// Waits until `event` moves on from `seen`, or the run is stopped.
    async fn wait(&self, event: &Event, seen: u32);
    /// `event` has just moved on. Real targets' waiters see that themselves.
    #[inline(always)]
    fn notified(&self, _event: &Event) {}

    /// Opens.
    async fn open(&self, path: &CStr, how: OpenHow) -> io::Result<Self::File>;
    /// Closes.
    async fn close(&self, file: Self::File) -> io::Result<()>;
    /// Reads at an offset; 0 at the end of the file.
    async fn read_at(&self, file: &Self::File, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at an offset.
    async fn write_at(&self, file: &Self::File, data: &[u8], offset: u64) -> io::Result<usize>;
    /// Writes at the end of the file, in one step.
    async fn append(&self, file: &Self::File, data: &[u8]) -> io::Result<usize>;
    /// Makes a file's data and metadata durable.
    async fn fsync(&self, file: &Self::File) -> io::Result<()>;
    /// Makes a file's data durable, and the metadata that reading it needs.
    async fn fdatasync(&self, file: &Self::File) -> io::Result<()> {
        self.fsync(file).await
    }
    /// Cuts or extends to `length` bytes.
    async fn truncate(&self, file: &Self::File, length: u64) -> io::Result<()>;
    /// What offsets and lengths on a file opened with `direct` have to be multiples of, in bytes.
    async fn direct_alignment(&self, file: &Self::File) -> u64;
    /// Size by path.
    async fn stat(&self, path: &CStr) -> io::Result<u64>;
    /// Size of an open file.
    async fn stat_open(&self, file: &Self::File) -> io::Result<u64>;
    /// Removes a file.
    async fn unlink(&self, path: &CStr) -> io::Result<()>;
    /// Makes a directory, mode 0755 before the umask.
    async fn make_dir(&self, path: &CStr) -> io::Result<()>;
    /// Removes an empty directory.
    async fn remove_dir(&self, path: &CStr) -> io::Result<()>;
    /// Reads a whole directory; returns (entries, bytes of their names).
    async fn list_dir(&self, path: &CStr) -> io::Result<(u64, u64)>;

    /// Starts an asynchronous write; the data is copied first.
    async fn aio_write(&self, file: &Self::File, data: &[u8], offset: u64) -> io::Result<()>;
    /// Waits until at least `at_least` of the outstanding asynchronous writes are complete (all, when fewer are
    /// outstanding); returns how many were reaped. Reports the first failure among them.
    async fn aio_wait(&self, at_least: usize) -> io::Result<usize>;
    /// Asynchronous writes started and not yet reaped.
    fn aio_outstanding(&self) -> usize;
}
