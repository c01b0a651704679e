//! OPEXT4 on OPIMQ (FAST'25): order by stream and epoch, not by waiting.

use std::rc::Rc;

use super::call::Sync;
use super::writeback::{Data, DataOrder, acknowledge, sent, tid_of, write_back};
use crate::commit::{self, Order};
use crate::exec::TaskHandle;
use crate::files::FileId;
use crate::handle::{self, MAIN};
use crate::mutation::Mutation;
use crate::phases::Phase;
use crate::sync::Group;
use crate::world::JOURNAL_PID;

/// D as a dual-stream write, not waited for; then the commit, or a flush tagged with the caller's stream.
pub(super) async fn sync(me: &TaskHandle<'_>, file: FileId, kind: Sync) -> u32 {
    let pid = me.pid();
    let minor = (!me.with(|w| w.planted(Mutation::DataWithoutMinor))).then_some(JOURNAL_PID);
    let data = write_back(me, file, DataOrder { stream: Some(pid), minor, barrier: true }).await;
    sent(me, file).await;
    let stream = flush_stream(me, file, &data, pid);
    // Write-back that was started before left its epoch open.
    me.end_epoch(pid, Some(JOURNAL_PID)).await;
    if stream != pid {
        me.end_epoch(JOURNAL_PID, None).await;
    }
    let generation = me.with(|w| w.files.file(file).generation);
    let tid = tid_of(me, file, kind.data_only());
    let dispatched = me.with(|w| w.journals[MAIN].dispatched);
    if !kind.is_durable() {
        if tid > dispatched {
            handle::request(me, tid, false);
            handle::dispatched(me, tid).await;
        }
        return data.covered;
    }
    if tid > me.with(|w| w.journals[MAIN].committed) {
        let late = handle::request(me, tid, true);
        handle::ended(me, tid).await;
        // Somebody else's fbarrier may have committed it without a flush.
        if late || me.with(|w| w.journals[MAIN].durable) < tid {
            me.end_epoch(JOURNAL_PID, None).await;
            me.flush(Some(JOURNAL_PID)).await;
        }
    } else {
        let stream = if me.with(|w| w.journals[MAIN].durable) < tid { JOURNAL_PID } else { stream };
        if stream != pid {
            me.end_epoch(stream, None).await;
        }
        me.flush(Some(stream)).await;
    }
    acknowledge(me, tid, &data.blocks);
    me.with(|w| {
        let f = w.files.file(file);
        if f.generation == generation {
            f.writer = None;
        }
    });
    data.covered
}

/// The stream whose flush covers the file's data: the caller's, unless somebody else wrote some of it. All data is
/// in the journal thread's stream as well.
fn flush_stream(me: &TaskHandle<'_>, file: FileId, data: &Data, pid: u32) -> u32 {
    if !data.blocks.is_empty() {
        note_writer(me, file, pid);
    }
    me.with(|w| match w.files.file(file).writer {
        Some(other) if other != pid => JOURNAL_PID,
        _ => pid,
    })
}

/// `pid` has written data of the file: its stream covers it, if nobody else's data is under way.
pub(super) fn note_writer(me: &TaskHandle<'_>, file: FileId, pid: u32) {
    me.with(|w| {
        let f = w.files.file(file);
        f.writer = match f.writer {
            Some(other) if other != pid => Some(JOURNAL_PID),
            _ => Some(pid),
        };
    });
}

/// The journal thread: JD and JC back to back, one wait for JD, one flush if somebody wants more than order.
pub(super) async fn thread(me: TaskHandle<'_>) {
    loop {
        commit::await_request(&me).await;
        let mut tx = commit::lock(&me).await;
        let barrier = !me.with(|w| w.planted(Mutation::DescriptorWithoutBarrier));
        let log = commit::write_log(&me, &mut tx, Order { stream: Some(JOURNAL_PID), barrier }).await;
        let order = Order { stream: Some(JOURNAL_PID), barrier: true };
        let own = Rc::new(Group::default());
        let record = commit::record(&me, &tx, false, order).waited(&own);
        me.send(vec![record], true).await;
        commit::mark_dispatched(&me, tx.tid);
        me.was(Phase::Record);
        me.wait(&log).await;
        me.was(Phase::Transfer);
        commit::release_shadows(&me, &tx);
        let durable = commit::begin_flush(&me, tx.tid);
        if durable {
            me.flush(Some(JOURNAL_PID)).await;
        }
        me.was(Phase::Flush);
        commit::finish(&me, tx, durable).await;
    }
}
