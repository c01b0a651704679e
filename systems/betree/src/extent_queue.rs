//! Extents that have been promised a place but are still being written, so that a stream of them keeps the device busy.
//!
//! Until its bytes are on storage an extent is read from memory. Whoever needs extents to be there, before a flush,
//! calls [`ExtentWriteQueue::drain`].

use crate::block::{BlockId, BlockRef, scatter};
use crate::error::{Doing, Error, Result};
use crate::extent_cache::BorrowedBytes;
use crate::storage::{PooledBuf, Storage};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes that may be on their way before writers wait.
const BYTES_MAX: usize = 16 << 20;

struct Job {
    /// Keeps the space from being used for something else.
    block: BlockRef,
    buf: Arc<PooledBuf>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(u64, Arc<Job>)>,
    /// Everything queued or being written, by order of arrival and by number.
    unfinished: BTreeMap<u64, usize>,
    jobs: HashMap<BlockId, Arc<Job>>,
    bytes: usize,
    arrived: u64,
    failed: Option<String>,
    closed: bool,
}

/// The extents on their way.
#[derive(Default)]
pub(crate) struct ExtentWriteQueue {
    state: Mutex<State>,
    turn: Condvar,
    /// Number of extents on their way, to spare readers the lock.
    count: AtomicUsize,
}

impl ExtentWriteQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Hands over an extent; waits while too many bytes are on their way.
    pub fn send(&self, block: BlockRef, buf: Arc<PooledBuf>) -> Result<()> {
        let mut s = self.lock();
        loop {
            if let Some(why) = &s.failed {
                return Err(Error::ReadOnly(why.clone()));
            }
            if s.bytes == 0 || s.bytes + buf.len() <= BYTES_MAX {
                break;
            }
            s = self.turn.wait(s).unwrap_or_else(|e| e.into_inner());
        }
        s.arrived += 1;
        let (ticket, len, id) = (s.arrived, buf.len(), block.id());
        let job = Arc::new(Job { block, buf });
        s.bytes += len;
        s.unfinished.insert(ticket, len);
        s.jobs.insert(id, job.clone());
        s.queue.push_back((ticket, job));
        self.count.fetch_add(1, Ordering::Release);
        drop(s);
        self.turn.notify_all();
        Ok(())
    }

    /// Bytes `[off, off + len)` of an extent that is still on its way.
    pub fn read(&self, id: BlockId, off: usize, len: usize) -> Option<BorrowedBytes> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let buf = self.lock().jobs.get(&id)?.buf.clone();
        BorrowedBytes::of(buf, off, len)
    }

    /// Returns when every extent handed over before is on storage, though not flushed.
    pub fn drain(&self) -> Result<()> {
        let mut s = self.lock();
        let target = s.arrived;
        while s.failed.is_none() && s.unfinished.first_key_value().is_some_and(|(n, _)| *n <= target) {
            s = self.turn.wait(s).unwrap_or_else(|e| e.into_inner());
        }
        s.failed.as_ref().map_or(Ok(()), |why| Err(Error::ReadOnly(why.clone())))
    }

    /// Nothing more is written, because of `why`: whoever waits hears of it.
    pub fn fail(&self, why: &str) {
        self.lock().failed.get_or_insert_with(|| why.to_owned());
        self.turn.notify_all();
    }

    /// Bytes on their way.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Nothing will be sent any more: the threads may end.
    pub fn close(&self) {
        self.lock().closed = true;
        self.turn.notify_all();
    }

    /// Writes what is sent until [`ExtentWriteQueue::close`] is called and all is written. `keep` gets each extent that is on storage, before
    /// it is no longer found here.
    pub fn run(&self, storage: &dyn Storage, keep: &dyn Fn(&BlockRef, Arc<PooledBuf>)) {
        while self.work(storage, keep) || !self.lock().closed {}
    }

    /// Writes one extent, waiting a moment for one to come; false if there was none.
    fn work(&self, storage: &dyn Storage, keep: &dyn Fn(&BlockRef, Arc<PooledBuf>)) -> bool {
        let mut s = self.lock();
        if s.queue.is_empty() && !s.closed {
            let moment = Duration::from_millis(50);
            s = self.turn.wait_timeout(s, moment).unwrap_or_else(|e| e.into_inner()).0;
        }
        let Some((ticket, job)) = s.queue.pop_front() else { return false };
        drop(s);
        let failed = Some("a thread that wrote an extent panicked".into());
        let mut writing = Writing { flight: self, ticket, job: Some(job.clone()), failed };
        let places = scatter(job.block.info(), &job.buf);
        let written = storage.write_many(&places).doing("writing an extent");
        if written.is_ok() {
            keep(&job.block, job.buf.clone());
        }
        drop(places);
        drop(job);
        writing.failed = written.err().map(|e| e.to_string());
        true
    }
}

/// Held by a thread that writes an extent: however that ends, those that wait for it hear of it.
struct Writing<'a> {
    flight: &'a ExtentWriteQueue,
    ticket: u64,
    job: Option<Arc<Job>>,
    failed: Option<String>,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut s = self.flight.lock();
        if let Some(why) = self.failed.take() {
            s.failed.get_or_insert(why);
        }
        let found = self.job.as_ref().and_then(|job| s.jobs.remove(&job.block.id()));
        drop(s);
        // Whoever drains counts on it that an extent that nobody refers to takes no space any more.
        drop((found, self.job.take()));
        let mut s = self.flight.lock();
        let len = s.unfinished.remove(&self.ticket).unwrap_or(0);
        s.bytes -= len;
        self.flight.count.fetch_sub(1, Ordering::Release);
        drop(s);
        self.flight.turn.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockInfo, BlockKind};
    use crate::storage::{AlignedBuf, BufPool, SimStorage, UNIT};
    use crate::table::Table;

    #[test]
    fn what_has_been_drained_and_is_not_wanted_takes_no_space() {
        let (storage, table, pool) =
            (SimStorage::new(64 * UNIT as u64), Table::new(2, 64, false), BufPool::new(1 << 20));
        let flight = ExtentWriteQueue::default();
        let free = table.free_units();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| flight.run(&storage, &|_, _| {}));
            let wrong = (0..3000).find(|_| {
                let buf = pool.filled(&[&AlignedBuf::zeroed(UNIT)]);
                let info = BlockInfo {
                    kind: BlockKind::Extent,
                    segments: table.allocate(1).expect("space"),
                    len: UNIT as u32,
                    head_len: 0,
                    sums: vec![0],
                    out: Vec::new(),
                };
                flight.send(table.insert(info), Arc::new(buf)).expect("send");
                flight.drain().expect("drain");
                table.free_units() != free
            });
            flight.close();
            writer.join().expect("the writer");
            assert_eq!(wrong, None, "a round after which it took space");
        });
    }
}
