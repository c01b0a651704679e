//! EXT4, ordered mode: Transfer-and-Flush.

use std::rc::Rc;

use super::call::Sync;
use super::writeback::{DataOrder, acknowledge, tid_of, write_back};
use crate::commit::{self, Order};
use crate::exec::TaskHandle;
use crate::files::FileId;
use crate::handle::{self, MAIN};
use crate::mutation::Mutation;
use crate::phases::Phase;
use crate::setup::Protocol;
use crate::sync::Group;

/// D, wait; commit, wait. Without a commit to wait for: a flush of its own.
pub(super) async fn sync(me: &TaskHandle<'_>, file: FileId, kind: Sync) -> u32 {
    let data = write_back(me, file, DataOrder::default()).await;
    if !me.with(|w| w.planted(Mutation::DataNotWaited)) {
        let under_way = me.with(|w| w.files.file(file).writeback.clone());
        me.wait(&under_way).await;
    }
    let tid = tid_of(me, file, kind.data_only());
    let mut late = true;
    if tid > me.with(|w| w.journals[MAIN].committed) {
        late = handle::request(me, tid, true);
        handle::ended(me, tid).await;
    }
    if late && me.with(|w| w.setup.protocol) != Protocol::Ext4NoBarrier {
        me.flush(None).await;
    }
    acknowledge(me, tid, &data.blocks);
    data.covered
}

/// The journal thread.
pub(super) async fn thread(me: TaskHandle<'_>) {
    loop {
        commit::await_request(&me).await;
        commit_one(&me).await;
    }
}

async fn commit_one(me: &TaskHandle<'_>) {
    let mut tx = commit::lock(me).await;
    let order = Order::default();
    let log = commit::write_log(me, &mut tx, order).await;
    for data in std::mem::take(&mut tx.data_groups) {
        me.wait(&data).await;
    }
    me.was(Phase::Data);
    if !me.with(|w| w.planted(Mutation::CommitBeforeDescriptor)) {
        me.wait(&log).await;
        commit::release_shadows(me, &tx);
    }
    me.was(Phase::Transfer);
    write_record(me, &tx).await;
    me.was(Phase::Record);
    if me.with(|w| w.planted(Mutation::CommitBeforeDescriptor)) {
        me.wait(&log).await;
        commit::release_shadows(me, &tx);
    }
    commit::finish(me, tx, true).await;
}

/// JC as the device allows: flush and FUA, flush and another flush, or a plain write.
async fn write_record(me: &TaskHandle<'_>, tx: &crate::journal::Tx) {
    let protocol = me.with(|w| w.setup.protocol);
    let fua = protocol == Protocol::Ext4;
    if protocol == Protocol::Ext4NoBarrier {
        let group = Rc::new(Group::default());
        let record = commit::record(me, tx, false, Order::default()).waited(&group);
        me.send(vec![record], false).await;
        return me.wait(&group).await;
    }
    commit::begin_flush(me, tx.tid);
    if !me.with(|w| w.planted(Mutation::CommitWithoutFlush)) {
        me.flush(None).await;
    }
    me.was(Phase::Flush);
    me.send_by_worker(commit::record(me, tx, fua, Order::default())).await;
    if !fua {
        me.flush(None).await;
    }
}
