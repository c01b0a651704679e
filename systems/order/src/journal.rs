//! The state of one journal: running and committing transactions, space, who waits for what.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::files::{MetaId, Tid};
use crate::sync::{Group, TaskId};

/// Blocks of data that must be on disk before the transaction's commit record: (first block, token, blocks).
pub(crate) type Ordered = (u64, u64, u32);

/// A transaction.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    pub(crate) tid: Tid,
    pub(crate) locked: bool,
    /// Open handles.
    pub(crate) updates: u32,
    pub(crate) metas: Vec<MetaId>,
    pub(crate) data: Vec<Ordered>,
    pub(crate) data_groups: Vec<Rc<Group>>,
    /// Somebody wants more than order.
    pub(crate) durable_wanted: bool,
    /// Its blocks in the journal: first position and count.
    pub(crate) position: u64,
    pub(crate) blocks: u32,
}

/// A transaction whose commit has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committing {
    pub(crate) tid: Tid,
    /// Somebody wants more than order.
    pub(crate) durable_wanted: bool,
    /// Its flush has been sent: it does not cover data written from now on.
    pub(crate) flushing: bool,
}

#[derive(Debug)]
pub(crate) struct Journal {
    /// The stream of its thread.
    pub(crate) stream: u32,
    pub(crate) first_lba: u64,
    pub(crate) capacity: u32,
    /// Positions count blocks since the start.
    pub(crate) head: u64,
    pub(crate) tail: u64,
    pub(crate) running: Tx,
    /// Transactions whose commit has begun, oldest first.
    pub(crate) committing: Vec<Committing>,
    /// Committed, not checkpointed.
    pub(crate) committed_txs: VecDeque<Tx>,
    /// The latest transaction that: is asked for, was dispatched to JC, has ended, is durable.
    pub(crate) requested: Tid,
    pub(crate) dispatched: Tid,
    pub(crate) committed: Tid,
    pub(crate) durable: Tid,
    /// The thread, while it sleeps.
    pub(crate) idle: Option<TaskId>,
    pub(crate) ended_waiters: Vec<(Tid, TaskId)>,
    pub(crate) dispatched_waiters: Vec<(Tid, TaskId)>,
    /// Tasks that wait for an unlocked running transaction; the committer that waits for handles.
    pub(crate) handle_waiters: Vec<TaskId>,
    pub(crate) updates_waiter: Option<TaskId>,
    /// The block map has been read.
    pub(crate) warm: bool,
    /// BarrierFS: dispatched transactions that wait for the flush thread.
    pub(crate) to_flush: VecDeque<Tx>,
    pub(crate) flusher_idle: Option<TaskId>,
    /// MQFS: somebody is making room.
    pub(crate) reclaiming: bool,
    /// MQFS: an fsync owns it; who wants to own it next.
    pub(crate) owned: bool,
    pub(crate) owner_waiters: VecDeque<TaskId>,
}

impl Journal {
    pub(crate) fn new(stream: u32, first_lba: u64, capacity: u32) -> Journal {
        Journal {
            stream,
            first_lba,
            capacity,
            head: 0,
            tail: 0,
            running: Tx { tid: 1, ..Tx::default() },
            committing: Vec::new(),
            committed_txs: VecDeque::new(),
            requested: 0,
            dispatched: 0,
            committed: 0,
            durable: 0,
            idle: None,
            ended_waiters: Vec::new(),
            dispatched_waiters: Vec::new(),
            handle_waiters: Vec::new(),
            updates_waiter: None,
            warm: false,
            to_flush: VecDeque::new(),
            flusher_idle: None,
            reclaiming: false,
            owned: false,
            owner_waiters: VecDeque::new(),
        }
    }

    /// Blocks not in use.
    pub(crate) fn free(&self) -> u32 {
        self.capacity - (self.head - self.tail) as u32
    }

    /// Takes `count` blocks; their runs of (first block, blocks), two where the ring wraps.
    pub(crate) fn take(&mut self, count: u32) -> Vec<(u64, u32)> {
        let at = (self.head % u64::from(self.capacity)) as u32;
        self.head += u64::from(count);
        let first = count.min(self.capacity - at);
        let mut runs = vec![(self.first_lba + u64::from(at), first)];
        if first < count {
            runs.push((self.first_lba, count - first));
        }
        runs
    }

    /// Puts a block into the running transaction.
    pub(crate) fn join(&mut self, meta: MetaId) {
        self.running.metas.push(meta);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_wraps_in_two_runs() {
        let mut j = Journal::new(1, 100, 10);
        assert_eq!(j.take(7), [(100, 7)]);
        assert_eq!(j.free(), 3);
        j.tail = 5;
        assert_eq!(j.take(6), [(107, 3), (100, 3)]);
        assert_eq!((j.free(), j.head), (2, 13));
    }
}
