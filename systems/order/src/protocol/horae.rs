//! HORAE (OSDI'20): ordering records go to persistent device memory first, then all blocks fly together, then one
//! flush. Recovery takes the prefix of the ordering log whose blocks are all there.

use std::rc::Rc;

use super::call::Sync;
use super::writeback::{DataOrder, acknowledge, joins_commit, tid_of, write_back};
use crate::commit::{self, Order};
use crate::exec::TaskHandle;
use crate::files::FileId;
use crate::handle::{self, MAIN};
use crate::sync::Group;

pub(super) async fn sync(me: &TaskHandle<'_>, file: FileId, kind: Sync) -> u32 {
    me.compute(me.with(|w| w.setup.costs.mmio_ns)).await;
    let data = write_back(me, file, DataOrder::default()).await;
    let tid = tid_of(me, file, kind.data_only());
    let under_way = me.with(|w| w.files.file(file).writeback.clone());
    let mut late = true;
    if tid > me.with(|w| w.journals[MAIN].committed) {
        late = !joins_commit(me, tid, &under_way) | handle::request(me, tid, true);
        handle::ended(me, tid).await;
    }
    if late {
        me.wait(&under_way).await;
        me.flush(None).await;
    }
    acknowledge(me, tid, &data.blocks);
    data.covered
}

/// The journal thread.
pub(super) async fn thread(me: TaskHandle<'_>) {
    loop {
        commit::await_request(&me).await;
        let mut tx = commit::lock(&me).await;
        me.compute(2 * me.with(|w| w.setup.costs.mmio_ns)).await;
        let log = commit::write_log(&me, &mut tx, Order::default()).await;
        let own = Rc::new(Group::default());
        let record = commit::record(&me, &tx, false, Order::default()).waited(&own);
        me.send(vec![record], false).await;
        me.wait(&log).await;
        me.wait(&own).await;
        commit::begin_flush(&me, tx.tid);
        for data in std::mem::take(&mut tx.data_groups) {
            me.wait(&data).await;
        }
        commit::release_shadows(&me, &tx);
        me.flush(None).await;
        commit::finish(&me, tx, true).await;
    }
}
