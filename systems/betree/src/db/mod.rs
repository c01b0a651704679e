//! The database: a memtable, frozen memtables and a tree, behind a log. `inner` has its state and the order of locks.

mod background;
mod checkpoint;
mod cursor;
mod drain;
mod inner;
mod open;
mod options;
mod recover;
mod repair;
mod run;
mod space;
mod stats;
#[cfg(test)]
pub(crate) mod tests;
mod verify;
mod write;

pub(crate) use recover::{LogContents, ring_of};
pub(crate) use repair::{Plan, rebuild};

pub use crate::store::CachedExtents;
pub use cursor::Cursor;
pub use options::Options;
pub use stats::Stats;
pub use verify::VerifyReport;

use crate::batch::WriteBatch;
use crate::error::{LostBatches, Result, StopReason};
use crate::key::KeyRange;
use background::Background;
use inner::Inner;
use std::sync::Arc;

/// An open store. May be shared between threads; every method may be called from any of them.
///
/// A write is visible to later reads when the call returns, and durable after a later [`Db::sync`] or
/// [`Db::checkpoint`]. After a crash the store holds a prefix of the batches in the order of their numbers,
/// and at least those before the last sync.
pub struct Db {
    inner: Arc<Inner>,
    background: Option<Background>,
    lost: Option<LostBatches>,
}

impl Db {
    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.inner.guarded(|inner| inner.get(key))
    }

    /// Sets the value of `key`.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<u64> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write(batch)
    }

    /// Removes `key`. Always succeeds on a full store.
    pub fn delete(&self, key: &[u8]) -> Result<u64> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write(batch)
    }

    /// Overwrites bytes of a value without reading it; see [`WriteBatch::patch`].
    pub fn patch(&self, key: &[u8], off: u32, bytes: &[u8]) -> Result<u64> {
        let mut batch = WriteBatch::new();
        batch.patch(key, off, bytes);
        self.write(batch)
    }

    /// Removes every key of `range`. Always succeeds on a full store.
    pub fn delete_range(&self, range: &KeyRange) -> Result<u64> {
        let mut batch = WriteBatch::new();
        batch.delete_range(range);
        self.write(batch)
    }

    /// Copies a range of keys by reference; see [`WriteBatch::clone_range`].
    pub fn clone_range(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let mut batch = WriteBatch::new();
        batch.clone_range(from, to);
        self.write(batch)
    }

    /// Moves a range of keys to another prefix; see [`WriteBatch::rename_range`].
    pub fn rename_range(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let mut batch = WriteBatch::new();
        batch.rename_range(from, to);
        self.write(batch)
    }

    /// Applies a batch atomically, as one log record; returns its number, which grows by one with each batch.
    ///
    /// [`Error::NoSpace`](crate::Error::NoSpace) and [`Error::Invalid`](crate::Error::Invalid) mean that nothing
    /// happened. Any other error leaves open whether the batch survives, and the store takes no more writes.
    pub fn write(&self, batch: WriteBatch) -> Result<u64> {
        self.inner.guarded(|inner| inner.write(batch))
    }

    /// True if a write would have to wait now until the tree has taken in what was written before.
    pub fn has_to_wait(&self) -> bool {
        self.inner.has_to_wait()
    }

    /// Keeps `bytes` of free space for batches to come that say so with [`WriteBatch::from_promise`]; what was deleted is made
    /// free if that is needed. Nothing of it outlives the store's closing.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace) if there is not so much; the storage's.
    pub fn promise(&self, bytes: u64) -> Result<()> {
        self.inner.guarded(|inner| inner.promise(bytes))
    }

    /// The same of space that was promised when the store was open before, and needs no look at what is free.
    pub fn promise_again(&self, bytes: u64) {
        self.inner.promise_again(bytes);
    }

    /// Takes back a promise of `bytes`: they have been written, or will not be.
    pub fn take_back(&self, bytes: u64) {
        self.inner.take_back(bytes);
    }

    /// Takes a checkpoint, and makes free what was deleted in `ranges`, unless a scan sees it. Costs the rewriting of the
    /// nodes on the way to each range, and of the leaves that lie in it in part; by itself a delete gets there with others.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace) if there is not enough for that; the storage's.
    pub fn settle(&self, ranges: &[KeyRange]) -> Result<()> {
        self.inner.guarded(|inner| inner.settle(ranges))
    }

    /// Makes every batch written before durable.
    pub fn sync(&self) -> Result<()> {
        self.sync_to(self.ask_sync()?).map(|_| ())
    }

    /// The first half of [`Db::sync`], which never waits: says that a sync is under way, so that a flush that is about to
    /// be made for others waits a moment for it, and returns the number of the last batch written. It must be followed by
    /// a [`Db::sync_to`] of that number or a higher one; one may follow many.
    pub fn ask_sync(&self) -> Result<u64> {
        self.inner.guarded(Inner::ask_sync)
    }

    /// Returns when batch `batch` is durable, with the number of the last one that is.
    pub fn sync_to(&self, batch: u64) -> Result<u64> {
        self.inner.guarded(|inner| inner.sync_to(batch))
    }

    /// Writes everything to the tree and starts the log anew.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.guarded(Inner::checkpoint)
    }

    /// Why the store takes no more writes: the first failed write or flush of any of its parts, with its cause. None while all is
    /// well. From then on nothing is acknowledged, and reads go on.
    pub fn failure(&self) -> Option<&StopReason> {
        self.inner.failure.get()
    }

    /// Does `work` for whoever keeps more in memory than the store has: if it panics, the store fails as if the panic were its own, and
    /// the panic goes on.
    pub fn guarded<T>(&self, work: impl FnOnce() -> T) -> T {
        self.inner.guarded(|_| work())
    }

    /// What [`Options::recover`] let go of when the store was opened: batches that had been durable.
    pub fn lost(&self) -> Option<&LostBatches> {
        self.lost.as_ref()
    }

    /// A scan of the keys in `range`, in order.
    ///
    /// It sees exactly the state when it was made: all batches written before, none written later. While it
    /// lives, the space of what it sees cannot be reused.
    pub fn scan(&self, range: &KeyRange) -> Cursor {
        let prefetch = self.background.as_ref().and_then(Background::prefetcher);
        self.inner.guarded(|_| Cursor::new(&self.inner, range, prefetch))
    }

    /// Number of the last batch written; after opening, of the last batch recovered.
    pub fn last_msn(&self) -> u64 {
        self.inner.read_front().last_msn
    }

    /// Figures about the store.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Takes a checkpoint, then reads every node and extent and checks every checksum, key order, reference and
    /// free unit. Writers wait meanwhile.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.inner.guarded(Inner::verify)
    }

    /// Takes a checkpoint and stops the background threads. Dropping without closing is like a crash, except
    /// that the log is written: opening replays it.
    pub fn close(mut self) -> Result<()> {
        let done = self.checkpoint();
        self.background.take();
        done
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        self.background.take();
        // A failure here is the same as a crash a moment earlier, which recovery handles.
        let _ = self.inner.log.commit(true);
    }
}
