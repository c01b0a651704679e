//! BarrierFS (FAST'18): one queue, a barrier flag, a commit thread that dispatches and a flush thread that waits.

use std::rc::Rc;

use super::call::Sync;
use super::writeback::{DataOrder, acknowledge, joins_commit, sent, tid_of, write_back};
use crate::commit::{self, Order};
use crate::exec::TaskHandle;
use crate::files::FileId;
use crate::handle::{self, MAIN};
use crate::sync::Group;

/// D with a barrier, not waited for; then the commit, or a flush.
pub(super) async fn sync(me: &TaskHandle<'_>, file: FileId, kind: Sync) -> u32 {
    let data = write_back(me, file, DataOrder { barrier: true, ..DataOrder::default() }).await;
    sent(me, file).await;
    me.end_epoch(me.pid(), None).await;
    let tid = tid_of(me, file, kind.data_only());
    if !kind.is_durable() {
        if tid > me.with(|w| w.journals[MAIN].dispatched) {
            handle::request(me, tid, false);
            handle::dispatched(me, tid).await;
        }
        return data.covered;
    }
    let committed = me.with(|w| w.journals[MAIN].committed);
    let mut late = tid <= committed;
    if tid > committed {
        let under_way = me.with(|w| w.files.file(file).writeback.clone());
        late = !joins_commit(me, tid, &under_way) | handle::request(me, tid, true);
        handle::ended(me, tid).await;
    }
    if late || me.with(|w| w.journals[MAIN].durable) < tid {
        // A conventional flush covers what has completed.
        let under_way = me.with(|w| w.files.file(file).writeback.clone());
        me.wait(&under_way).await;
        me.flush(None).await;
    }
    acknowledge(me, tid, &data.blocks);
    data.covered
}

/// Control plane: dispatches JD and JC of one transaction after the other. A block whose log write is in flight keeps
/// its next handle, and so the next commit, waiting (the conflict list).
pub(super) async fn commit_thread(me: TaskHandle<'_>) {
    loop {
        commit::await_request(&me).await;
        let mut tx = commit::lock(&me).await;
        let order = Order { stream: None, barrier: true };
        let log = commit::write_log(&me, &mut tx, order).await;
        let own = Rc::new(Group::default());
        let record = commit::record(&me, &tx, false, order).waited(&own);
        me.send(vec![record], true).await;
        commit::mark_dispatched(&me, tx.tid);
        tx.data_groups.extend([log, own]);
        me.with(|w| {
            let j = &mut w.journals[MAIN];
            j.to_flush.push_back(tx);
            if let Some(task) = j.flusher_idle.take() {
                w.wake(task);
            }
        });
    }
}

/// Data plane: waits for transfers, flushes once for all transactions that are ready, wakes their callers.
pub(super) async fn flush_thread(me: TaskHandle<'_>) {
    loop {
        while me.with(|w| w.journals[MAIN].to_flush.is_empty()) {
            me.park(|w, id| w.journals[MAIN].flusher_idle = Some(id)).await;
        }
        let txs = me.with(|w| std::mem::take(&mut w.journals[MAIN].to_flush));
        let mut durable = false;
        for tx in &txs {
            for group in &tx.data_groups {
                me.wait(group).await;
            }
            commit::release_shadows(&me, tx);
            durable |= commit::begin_flush(&me, tx.tid);
        }
        if durable {
            me.flush(None).await;
        }
        for tx in txs {
            commit::finish(&me, tx, durable).await;
        }
    }
}
