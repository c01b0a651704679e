//! The steps of a commit that the protocols put together: lock, log, commit record, end, checkpoint.

use std::rc::Rc;

use ssd::{Nanos, Token};

use crate::exec::TaskHandle;
use crate::files::Tid;
use crate::handle::MAIN;
use crate::journal::{Committing, Tx};
use crate::ledger::Entry;
use crate::mutation::Mutation;
use crate::params::{JOURNAL_REQUEST_BLOCKS, TAGS_PER_DESCRIPTOR};
use crate::phases::Phase;
use crate::request::{Request, Verb};
use crate::setup::Protocol;
use crate::sync::Group;

/// Block of the journal's superblock.
pub(crate) const SUPERBLOCK: u64 = 0;
/// Waiters woken between two computations of the journal thread.
const WAKE_LOT: usize = 4;

/// Sleeps until a commit is asked for.
pub(crate) async fn await_request(me: &TaskHandle<'_>) {
    while me.with(|w| {
        let j = &w.journals[MAIN];
        j.requested < j.running.tid
    }) {
        me.park(|w, id| w.journals[MAIN].idle = Some(id)).await;
    }
    me.was(Phase::Idle);
}

/// Takes the running transaction: locks it, waits for its handles, begins the next one.
pub(crate) async fn lock(me: &TaskHandle<'_>) -> Tx {
    me.compute(me.with(|w| w.setup.costs.commit_start_ns)).await;
    free_log_space(me).await;
    me.was(Phase::Start);
    me.with(|w| w.journals[MAIN].running.locked = true);
    while me.with(|w| w.journals[MAIN].running.updates > 0) {
        me.park(|w, id| w.journals[MAIN].updates_waiter = Some(id)).await;
    }
    me.was(Phase::Handles);
    me.with(|w| {
        let j = &mut w.journals[MAIN];
        let next = Tx { tid: j.running.tid + 1, ..Tx::default() };
        let tx = std::mem::replace(&mut j.running, next);
        j.committing.push(Committing { tid: tx.tid, durable_wanted: tx.durable_wanted, flushing: false });
        let waiters = std::mem::take(&mut j.handle_waiters);
        w.wake_all(waiters);
        tx
    })
}

/// Log blocks of a transaction: its descriptors and metadata.
fn log_blocks(metas: usize) -> u32 {
    let metas = metas as u32;
    if metas == 0 { 1 } else { metas + metas.div_ceil(TAGS_PER_DESCRIPTOR) }
}

/// A batch of the log: one descriptor and the blocks it names.
type Batch = Vec<(u64, u64)>;

/// Lays the transaction out in the journal and enters it in the ledger.
fn build_batches(me: &TaskHandle<'_>, tx: &mut Tx) -> Vec<Batch> {
    me.with(|w| {
        let blocks = log_blocks(tx.metas.len());
        let first = w.tokens(blocks).0;
        let j = &mut w.journals[MAIN];
        (tx.position, tx.blocks) = (j.head, blocks + 1);
        let runs = j.take(blocks);
        let lbas = runs.iter().flat_map(|(lba, n)| *lba..lba + u64::from(*n));
        let log: Vec<(u64, u64)> = lbas.zip(first..).collect();
        let mut homes = Vec::with_capacity(tx.metas.len());
        for (i, meta) in tx.metas.iter().enumerate() {
            let at = i as u32 + i as u32 / TAGS_PER_DESCRIPTOR + 1;
            let token = first + u64::from(at);
            let m = &mut w.files.metas[*meta as usize];
            (m.logged, m.token) = (tx.tid, token);
            homes.push((m.lba, token));
        }
        let batches = log.chunks(TAGS_PER_DESCRIPTOR as usize + 1).map(<[_]>::to_vec).collect();
        let data = std::mem::take(&mut tx.data);
        w.ledger.begin(Entry { journal: MAIN, tid: tx.tid, log, homes, commit: None, data, acked: false });
        batches
    })
}

/// Requests for consecutive blocks with consecutive contents.
fn requests(
    me: &TaskHandle<'_>,
    blocks: &[(u64, u64)],
    stream: Option<u32>,
    group: &Rc<Group>,
) -> Vec<Request> {
    let mut out: Vec<Request> = Vec::new();
    for (i, (lba, token)) in blocks.iter().enumerate() {
        // The descriptor is a request of its own; it merges in the plug list, if that is not sent before.
        if i > 1
            && let Some(last) = out.last_mut()
            && last.lba + u64::from(last.blocks) == *lba
            && last.blocks < JOURNAL_REQUEST_BLOCKS
        {
            last.blocks += 1;
            continue;
        }
        let request = Request::new(Verb::Write { fua: false }, me.id, *lba, 1, Token(*token));
        out.push(request.ordered(stream, None).waited(group));
    }
    out
}

/// Writes descriptors and metadata (JD); the group of their completion. With `stream` each batch is an epoch.
pub(crate) async fn write_log(me: &TaskHandle<'_>, tx: &mut Tx, order: Order) -> Rc<Group> {
    let batches = build_batches(me, tx);
    let group = Rc::new(Group::default());
    let cost = me.with(|w| w.setup.costs.log_block_ns);
    me.compute(me.with(|w| w.setup.costs.inode_ns) * tx.data_groups.len() as u64).await;
    for (i, batch) in batches.into_iter().enumerate() {
        me.compute(cost * batch.len() as u64).await;
        shade(me, tx, i);
        let mut list = requests(me, &batch, order.stream, &group);
        let cold = me.with(|w| !std::mem::replace(&mut w.journals[MAIN].warm, true));
        if cold && list.len() > 1 {
            let rest = list.split_off(1);
            send_in_two(me, list, rest, order.barrier).await;
        } else {
            me.send(list, order.barrier).await;
        }
    }
    me.was(Phase::Log);
    group
}

/// The blocks of batch `i` are in flight from now on: who wants to change one waits. (Before, it would be copied.)
fn shade(me: &TaskHandle<'_>, tx: &Tx, i: usize) {
    let per_batch = TAGS_PER_DESCRIPTOR as usize;
    me.with(|w| {
        for m in tx.metas.iter().skip(i * per_batch).take(per_batch) {
            w.files.metas[*m as usize].shadow += 1;
        }
    });
}

/// The first commit after a mount: the thread sleeps for the journal's block map, so the descriptor goes alone.
async fn send_in_two(me: &TaskHandle<'_>, first: Vec<Request>, rest: Vec<Request>, barrier: bool) {
    me.send(first, false).await;
    me.sleep(me.with(|w| w.setup.costs.cold_map_ns)).await;
    me.send(rest, barrier).await;
}

/// How a write is ordered: its stream, and whether its last request ends the epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order {
    pub(crate) stream: Option<u32>,
    pub(crate) barrier: bool,
}

/// The request of the commit record (JC).
pub(crate) fn record(me: &TaskHandle<'_>, tx: &Tx, fua: bool, order: Order) -> Request {
    let (lba, token) = me.with(|w| {
        let lba = w.journals[MAIN].take(1)[0].0;
        let token = w.tokens(1);
        w.ledger.commit(MAIN, tx.tid, lba, token.0);
        (lba, token)
    });
    Request::new(Verb::Write { fua }, me.id, lba, 1, token).ordered(order.stream, None)
}

/// JD has been transferred: its blocks may change again.
pub(crate) fn release_shadows(me: &TaskHandle<'_>, tx: &Tx) {
    me.with(|w| {
        for m in &tx.metas {
            let meta = &mut w.files.metas[*m as usize];
            meta.shadow -= 1;
            if meta.shadow == 0 {
                let waiters = std::mem::take(&mut meta.waiters);
                w.wake_all(waiters);
            }
        }
    });
}

/// JC is on its way: whoever wants order alone may go on.
pub(crate) fn mark_dispatched(me: &TaskHandle<'_>, tid: Tid) {
    me.with(|w| {
        let late = w.planted(Mutation::FbarrierWaits);
        let j = &mut w.journals[MAIN];
        if late && j.committed < tid {
            return;
        }
        j.dispatched = j.dispatched.max(tid);
        let mut due = Vec::new();
        j.dispatched_waiters.retain(|(t, task)| {
            if *t <= tid {
                due.push(*task);
            }
            *t > tid
        });
        w.wake_all(due);
    });
}

/// The commit has come to its flush. Whether somebody waits for more than order of the transaction.
pub(crate) fn begin_flush(me: &TaskHandle<'_>, tid: Tid) -> bool {
    me.with(|w| {
        let found = w.journals[MAIN].committing.iter_mut().find(|c| c.tid == tid);
        found.is_some_and(|c| {
            c.flushing = true;
            c.durable_wanted
        })
    })
}

/// Ends the commit: files its blocks for checkpoint, wakes who waits. All sleepers are woken one by one, also those
/// that wait for the next transaction and go back to sleep (one wait queue, as in jbd2).
pub(crate) async fn finish(me: &TaskHandle<'_>, tx: Tx, durable: bool) {
    let (costs, tid) = (me.with(|w| w.setup.costs), tx.tid);
    me.compute(costs.commit_end_ns + costs.file_block_ns * tx.metas.len() as u64).await;
    me.was(Phase::File);
    let (due, spurious) = me.with(|w| {
        let j = &mut w.journals[MAIN];
        j.committing.retain(|c| c.tid != tid);
        j.committed_txs.push_back(tx);
        j.committed = j.committed.max(tid);
        if durable {
            j.durable = j.durable.max(tid);
        }
        let (mut due, left): (Vec<_>, Vec<_>) = j.ended_waiters.iter().copied().partition(|(t, _)| *t <= tid);
        due.reverse();
        let spurious = left.len() as u64;
        j.ended_waiters = left;
        (due, spurious)
    });
    mark_dispatched(me, tid);
    me.compute(waking(me) * spurious).await;
    me.was(Phase::Spurious);
    for lot in due.chunks(WAKE_LOT) {
        me.compute(waking(me) * lot.len() as u64).await;
        me.with(|w| lot.iter().for_each(|(_, task)| w.wake(*task)));
    }
    me.was(Phase::Wake);
}

/// Processor time to wake one task now: with all cores busy it is put in line, with all of them idle one must be ended
/// its sleep; in between it is as likely as there are idle ones.
fn waking(me: &TaskHandle<'_>) -> Nanos {
    me.with(|w| {
        let (costs, (used, cores)) = (w.setup.costs, w.cpu.used());
        (costs.waiter_ns * used + costs.waiter_idle_ns * (cores - used)) / cores
    })
}

/// Checkpoints when less than a quarter of the journal is free, or the running transaction would not fit.
async fn free_log_space(me: &TaskHandle<'_>) {
    let (free, need, capacity) = me.with(|w| {
        let j = &w.journals[MAIN];
        (j.free(), log_blocks(j.running.metas.len()) * 2 + 8, j.capacity)
    });
    if free > need && free > capacity / 4 {
        return;
    }
    if me.with(|w| w.planted(Mutation::WrapWithoutCheckpoint)) {
        return me.with(|w| {
            let j = &mut w.journals[MAIN];
            j.committed_txs.clear();
            j.tail = j.head;
        });
    }
    checkpoint(me).await;
}

/// Writes blocks `(place, content)` to where they belong, and waits for them.
pub(crate) async fn write_homes(me: &TaskHandle<'_>, homes: &[(u64, u64)]) {
    let group = Rc::new(Group::default());
    let writes = homes.iter().map(|(lba, token)| {
        Request::new(Verb::Write { fua: false }, me.id, *lba, 1, Token(*token)).waited(&group)
    });
    let writes = writes.collect();
    me.send(writes, false).await;
    me.wait(&group).await;
}

/// Home blocks to write for the transactions that are retired: those no later transaction has logged.
fn homes(me: &TaskHandle<'_>, txs: &[Tx]) -> (Vec<(u64, u64)>, Tid) {
    me.with(|w| {
        let mut homes = Vec::new();
        let mut relies_on: Tid = 0;
        let last = txs.last().map_or(0, |tx| tx.tid);
        for tx in txs {
            for m in &tx.metas {
                let meta = &w.files.metas[*m as usize];
                if meta.logged == tx.tid {
                    homes.push((meta.lba, meta.token));
                } else if meta.logged > last {
                    relies_on = relies_on.max(meta.logged);
                }
            }
        }
        (homes, relies_on)
    })
}

/// Writes the metadata of the oldest committed transactions home and moves the journal's tail.
///
/// The home writes are untagged, so nothing orders them behind their commit records: commits that nobody wanted
/// durable are flushed first. A flush then covers the home writes and all that the tail relies on.
pub(crate) async fn checkpoint(me: &TaskHandle<'_>) {
    let (txs, durable, protocol, stream) = me.with(|w| {
        let j = &mut w.journals[MAIN];
        let half = j.committed_txs.len().div_ceil(2);
        let txs: Vec<Tx> = j.committed_txs.drain(..half).collect();
        (txs, j.durable, w.setup.protocol, w.journals[MAIN].stream)
    });
    let Some(last) = txs.last().map(|tx| tx.tid) else { return };
    let ordered = matches!(protocol, Protocol::OpExt4 | Protocol::BarrierFs);
    if ordered && durable < last && !me.with(|w| w.planted(Mutation::CheckpointWithoutFlush)) {
        let tagged = (protocol == Protocol::OpExt4).then_some(stream);
        me.flush(tagged).await;
    }
    let (homes, relies_on) = homes(me, &txs);
    write_homes(me, &homes).await;
    let flushes = protocol != Protocol::Ext4NoBarrier;
    if flushes && !me.with(|w| w.planted(Mutation::TailWithoutFlush)) {
        me.flush(None).await;
    }
    let token = me.with(|w| w.tokens(1));
    me.with(|w| w.ledger.move_tail(token.0, last + 1, homes, relies_on));
    let fua = flushes && protocol != Protocol::Ext4NoFua;
    me.send_by_worker(Request::new(Verb::Write { fua }, me.id, SUPERBLOCK, 1, token)).await;
    if protocol == Protocol::Ext4NoFua {
        me.flush(None).await;
    }
    me.with(|w| {
        w.ledger.tail_moved();
        let j = &mut w.journals[MAIN];
        j.tail = txs.iter().map(|tx| tx.position + u64::from(tx.blocks)).max().unwrap_or(j.tail);
    });
}
