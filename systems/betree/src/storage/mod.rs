//! Where the bytes live: the [`Storage`] trait, its file, io_uring and simulated forms, and the latch of failure around them.

mod aligned;
mod file;
pub(crate) mod latch;
mod pool;
mod sim;
mod stacked;
mod uring;

pub use aligned::AlignedBuf;
pub use file::FileStorage;
pub(crate) use latch::{FailureLatch, Latched};
pub(crate) use pool::{BufPool, PooledBuf};
pub use sim::{FaultPlan, SimStorage};
pub(crate) use stacked::Stacked;
pub use uring::UringStorage;

use std::io;
use std::path::Path;
use std::sync::Arc;

/// Size in bytes of the allocation unit; every transfer is a multiple of it, at a multiple of it.
pub const UNIT: usize = 4096;

/// A flat, fixed-length array of bytes with a volatile write cache: a file, a block device, a simulation.
///
/// Callers pass offsets and lengths that are multiples of [`UNIT`], in buffers from [`AlignedBuf`], so that
/// an implementation may use direct I/O. A completed write is visible to every later read, but survives a
/// power cut only once a later [`Storage::flush`] has returned; until then any subset of its sectors may.
pub trait Storage: Send + Sync {
    /// Capacity in bytes.
    fn len(&self) -> io::Result<u64>;

    /// True if the capacity is zero.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `buf` from `off`. Reading past the end is an error.
    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()>;

    /// Fills several buffers, each from its offset, side by side where that is possible; after an error they hold anything.
    fn read_many(&self, reads: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        reads.iter_mut().try_for_each(|(off, buf)| self.read_at(buf, *off))
    }

    /// Writes all of `buf` at `off`. Writing past the end is an error.
    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()>;

    /// Writes several buffers, in any order; on an error any subset may have been written.
    fn write_many(&self, writes: &[(u64, &[u8])]) -> io::Result<()> {
        writes.iter().try_for_each(|(off, buf)| self.write_at(buf, *off))
    }

    /// Makes every completed write durable.
    fn flush(&self) -> io::Result<()>;

    /// [`Storage::flush`], and also makes durable what a file system below keeps about the file, such as its times: what
    /// a store pays for that lies in a file of a journaling file system.
    fn flush_stacked(&self) -> io::Result<()> {
        self.flush()
    }

    /// Says that the content of a range is no longer needed; it reads as anything afterwards. A hint.
    fn discard(&self, off: u64, len: u64) -> io::Result<()>;
}

/// Opens an existing file or block device in the way of the step `sfl` (see [`crate::Features`]): with direct I/O and
/// io_uring where the kernel and the file system below allow it, else, or without the step, through the page cache.
pub fn open(path: &Path, sfl: bool) -> io::Result<Box<dyn Storage>> {
    if !sfl {
        return Ok(Box::new(FileStorage::open(path, false)?));
    }
    let direct = FileStorage::open(path, true).or_else(|_| FileStorage::open(path, false));
    match UringStorage::new(direct?) {
        Ok(ring) => Ok(Box::new(ring)),
        Err(_) => {
            let direct = FileStorage::open(path, true).or_else(|_| FileStorage::open(path, false));
            Ok(Box::new(direct?))
        }
    }
}

/// Rounds `n` bytes up to whole units, in bytes.
pub(crate) fn round_up(n: usize) -> usize {
    n.div_ceil(UNIT) * UNIT
}

macro_rules! forward {
    ($pointer:ident) => {
        impl<S: Storage + ?Sized> Storage for $pointer<S> {
            fn len(&self) -> io::Result<u64> {
                (**self).len()
            }

            fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
                (**self).read_at(buf, off)
            }

            fn read_many(&self, reads: &mut [(u64, &mut [u8])]) -> io::Result<()> {
                (**self).read_many(reads)
            }

            fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
                (**self).write_at(buf, off)
            }

            fn write_many(&self, writes: &[(u64, &[u8])]) -> io::Result<()> {
                (**self).write_many(writes)
            }

            fn flush(&self) -> io::Result<()> {
                (**self).flush()
            }

            fn flush_stacked(&self) -> io::Result<()> {
                (**self).flush_stacked()
            }

            fn discard(&self, off: u64, len: u64) -> io::Result<()> {
                (**self).discard(off, len)
            }
        }
    };
}

forward!(Box);
forward!(Arc);
