//! MQFS on ccNVMe: each core has a journal; the queue in persistent device memory is the commit record. No group
//! commit over cores: each fsync writes its own transaction and, on a drive without power-loss protection, flushes.
//!
//! An fsync owns a journal from its first write to the end of its flush (the published sources take the journal's mutex:
//! the core's own, another free one, or the core's own after a wait). So there are at most as many fsyncs under way as
//! journals, each with a flush of its own, and what limits them is how many flushes the drive serves.

use std::rc::Rc;

use ssd::Token;

use super::call::Sync;
use super::writeback::{DataOrder, write_back};
use crate::commit::write_homes;
use crate::exec::TaskHandle;
use crate::files::FileId;
use crate::ledger::Entry;
use crate::request::{Request, Verb};
use crate::sync::Group;

/// All blocks of the transaction fly together and are waited for once.
pub(super) async fn sync(me: &TaskHandle<'_>, file: FileId, _: Sync) -> u32 {
    let j = acquire(me).await;
    let covered = sync_in(me, file, j).await;
    release(me, j);
    covered
}

/// A journal to own: the core's, the next free one, or the core's when its turn comes.
async fn acquire(me: &TaskHandle<'_>) -> usize {
    let (own, free) = me.with(|w| {
        let n = w.journals.len();
        let own = usize::from(w.who[me.id as usize].core) % n;
        let free = (0..n).map(|i| (own + i) % n).find(|j| !w.journals[*j].owned);
        if let Some(j) = free {
            w.journals[j].owned = true;
        }
        (own, free)
    });
    if let Some(j) = free {
        return j;
    }
    // Who gives it up hands it on.
    me.park(move |w, id| w.journals[own].owner_waiters.push_back(id)).await;
    own
}

fn release(me: &TaskHandle<'_>, j: usize) {
    me.with(|w| match w.journals[j].owner_waiters.pop_front() {
        Some(next) => w.wake(next),
        None => w.journals[j].owned = false,
    });
}

/// The fsync, in journal `j`.
async fn sync_in(me: &TaskHandle<'_>, file: FileId, j: usize) -> u32 {
    let data = write_back(me, file, DataOrder::default()).await;
    let metas = me.with(|w| std::mem::take(&mut w.files.file(file).pending));
    let costs = me.with(|w| w.setup.costs);
    me.compute((costs.log_block_ns + costs.file_block_ns) * metas.len() as u64 + costs.mmio_ns * 2).await;
    let blocks = metas.len() as u32 + 1;
    loop {
        let (free, reclaiming) = me.with(|w| (w.journals[j].free(), w.journals[j].reclaiming));
        if reclaiming {
            me.park(move |w, id| w.journals[j].handle_waiters.push(id)).await;
        } else if free < blocks + 8 {
            reclaim(me, j).await;
        } else {
            break;
        }
    }
    me.with(|w| w.journals[j].running.updates += 1);
    let group = Rc::new(Group::default());
    let (log, tid) = me.with(|w| {
        let first = w.tokens(blocks).0;
        let runs = w.journals[j].take(blocks);
        let log: Vec<(u64, u64)> =
            runs.iter().flat_map(|(l, n)| *l..l + u64::from(*n)).zip(first..).collect();
        let mut homes = Vec::new();
        let tid = w.journals[j].running.tid;
        w.journals[j].running.tid += 1;
        for (meta, (_, token)) in metas.iter().zip(&log[1..]) {
            let m = &mut w.files.metas[*meta as usize];
            m.token = m.token.max(*token);
            homes.push((m.lba, *token));
        }
        let data = data.blocks.clone();
        w.ledger.begin(Entry { journal: j, tid, log: log.clone(), homes, commit: None, data, acked: false });
        (log, tid)
    });
    let writes = log.iter().map(|(lba, token)| {
        Request::new(Verb::Write { fua: false }, me.id, *lba, 1, Token(*token)).waited(&group)
    });
    let writes = writes.collect();
    me.send(writes, false).await;
    me.wait(&group).await;
    let under_way = me.with(|w| w.files.file(file).writeback.clone());
    me.wait(&under_way).await;
    if !me.with(|w| w.setup.profile.power.plp) {
        me.flush(None).await;
    }
    me.with(|w| {
        w.ledger.acked(j, tid);
        w.ledger.data_acked(&data.blocks);
        let position = w.journals[j].head;
        let tx = crate::journal::Tx { tid, metas, position, ..Default::default() };
        w.journals[j].committed_txs.push_back(tx);
        w.journals[j].running.updates -= 1;
        if w.journals[j].running.updates == 0
            && let Some(task) = w.journals[j].updates_waiter.take()
        {
            w.wake(task);
        }
    });
    data.covered
}

/// The core's ring is full: writes its finished transactions home, flushes, and forgets them.
async fn reclaim(me: &TaskHandle<'_>, j: usize) {
    me.with(|w| w.journals[j].reclaiming = true);
    while me.with(|w| w.journals[j].running.updates > 0) {
        me.park(move |w, id| w.journals[j].updates_waiter = Some(id)).await;
    }
    // Cores share metadata blocks: one writes home at a time.
    while me.with(|w| w.journals[0].running.locked) {
        me.park(|w, id| w.journals[0].dispatched_waiters.push((0, id))).await;
    }
    me.with(|w| w.journals[0].running.locked = true);
    let (txs, homes) = me.with(|w| {
        let txs = std::mem::take(&mut w.journals[j].committed_txs);
        let mut metas: Vec<u32> = txs.iter().flat_map(|t| t.metas.iter().copied()).collect();
        metas.sort_unstable();
        metas.dedup();
        let homes: Vec<(u64, u64)> =
            metas.iter().map(|m| &w.files.metas[*m as usize]).map(|m| (m.lba, m.token)).collect();
        (txs, homes)
    });
    write_homes(me, &homes).await;
    me.flush(None).await;
    me.with(|w| {
        let before = txs.back().map_or(0, |t| t.tid + 1);
        w.ledger.retire(j, before, &homes);
        let tail = txs.iter().map(|t| t.position).max();
        let journal = &mut w.journals[j];
        journal.tail = tail.unwrap_or(journal.head).max(journal.tail);
        journal.reclaiming = false;
        let waiters = std::mem::take(&mut journal.handle_waiters);
        w.wake_all(waiters);
        w.journals[0].running.locked = false;
        let next = std::mem::take(&mut w.journals[0].dispatched_waiters);
        w.wake_all(next.into_iter().map(|(_, task)| task).collect());
    });
}
