//! Handles: how an operation's metadata gets into the running transaction, and how a caller waits for a commit.

use crate::exec::TaskHandle;
use crate::files::{FileId, MetaId, Tid};
use crate::setup::Protocol;

/// The journal of all protocols but MQFS.
pub(crate) const MAIN: usize = 0;

/// Begins a handle: waits while the running transaction is being locked.
pub(crate) async fn begin(me: &TaskHandle<'_>) {
    loop {
        let locked = me.with(|w| {
            let j = &mut w.journals[MAIN];
            if !j.running.locked {
                j.running.updates += 1;
            }
            j.running.locked
        });
        if !locked {
            return;
        }
        me.park(|w, id| w.journals[MAIN].handle_waiters.push(id)).await;
    }
}

/// Gets write access to the blocks, waiting for those whose log write is in flight; the transaction's tid.
pub(crate) async fn access(me: &TaskHandle<'_>, metas: &[MetaId]) -> Tid {
    let mut tid = 0;
    for meta in metas {
        let meta = *meta;
        while me.with(|w| w.files.metas[meta as usize].shadow > 0) {
            me.park(move |w, id| w.files.metas[meta as usize].waiters.push(id)).await;
        }
        tid = me.with(|w| w.join(MAIN, meta));
    }
    tid
}

/// Ends a handle.
pub(crate) fn end(me: &TaskHandle<'_>) {
    me.with(|w| {
        let j = &mut w.journals[MAIN];
        j.running.updates -= 1;
        if j.running.updates == 0
            && let Some(task) = j.updates_waiter.take()
        {
            w.wake(task);
        }
    });
}

/// One operation's metadata changes, as a handle of their own. `data` says that fdatasync needs them.
pub(crate) async fn change(me: &TaskHandle<'_>, file: FileId, metas: Vec<MetaId>, data: bool) {
    let (cost, protocol) = me.with(|w| (w.setup.costs.handle_ns, w.setup.protocol));
    if protocol == Protocol::Mqfs {
        me.compute(cost).await;
        return me.with(|w| {
            let f = w.files.file(file);
            metas.into_iter().for_each(|m| {
                if !f.pending.contains(&m) {
                    f.pending.push(m);
                }
            });
        });
    }
    begin(me).await;
    me.compute(cost).await;
    let tid = access(me, &metas).await;
    me.with(|w| {
        let f = w.files.file(file);
        f.sync_tid = tid;
        if data {
            f.datasync_tid = tid;
        }
    });
    end(me);
}

/// Asks the journal thread for the commit of `tid`. True if its flush comes too late for data that is written already:
/// the caller must flush by itself afterwards.
pub(crate) fn request(me: &TaskHandle<'_>, tid: Tid, durable: bool) -> bool {
    me.with(|w| {
        let j = &mut w.journals[MAIN];
        j.requested = j.requested.max(tid);
        let mut late = false;
        if durable {
            if j.running.tid == tid {
                j.running.durable_wanted = true;
            } else if let Some(c) = j.committing.iter_mut().find(|c| c.tid == tid) {
                c.durable_wanted = true;
                late = c.flushing;
            }
        }
        if let Some(task) = j.idle.take() {
            w.wake(task);
        }
        late
    })
}

/// Waits until the commit of `tid` has ended.
pub(crate) async fn ended(me: &TaskHandle<'_>, tid: Tid) {
    while me.with(|w| w.journals[MAIN].committed < tid) {
        me.park(move |w, id| w.journals[MAIN].ended_waiters.push((tid, id))).await;
    }
}

/// Waits until the commit record of `tid` has been dispatched.
pub(crate) async fn dispatched(me: &TaskHandle<'_>, tid: Tid) {
    while me.with(|w| w.journals[MAIN].dispatched < tid) {
        me.park(move |w, id| w.journals[MAIN].dispatched_waiters.push((tid, id))).await;
    }
}
