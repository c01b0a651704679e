//! Writing a file's dirty pages (D), which all protocols share.

use std::rc::Rc;

use ssd::Token;

use crate::exec::TaskHandle;
use crate::files::{FileId, Tid};
use crate::handle;
use crate::journal::Ordered;
use crate::request::{Request, Verb};
use crate::setup::Protocol;
use crate::sync::Group;

/// How D is ordered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DataOrder {
    pub(super) stream: Option<u32>,
    pub(super) minor: Option<u32>,
    pub(super) barrier: bool,
}

/// A data write under way.
pub(super) struct Data {
    /// Data writes of the file up to and with this one.
    pub(super) covered: u32,
    pub(super) group: Rc<Group>,
    pub(super) blocks: Vec<Ordered>,
}

/// Dispatches the dirty pages of a file. Newly allocated blocks join the running transaction, whose handle stays open
/// until they are dispatched, so that no commit overtakes them.
pub(super) async fn write_back(me: &TaskHandle<'_>, file: FileId, order: DataOrder) -> Data {
    let mqfs = me.with(|w| w.setup.protocol == Protocol::Mqfs);
    let (mut tid, mut entered): (Tid, bool) = (0, false);
    loop {
        // Pages under write-back are stable: a second version waits for the first.
        let (before, allocates) = me.with(|w| {
            let f = w.files.file(file);
            (f.writeback.clone(), f.dirty.last().is_some_and(|last| *last >= f.allocated))
        });
        if !before.is_done() {
            me.wait(&before).await;
        } else if allocates && !entered {
            entered = true;
            let metas = me.with(|w| w.files.of_blocks(file));
            if mqfs {
                handle::change(me, file, metas, true).await;
            } else {
                handle::begin(me).await;
                me.compute(me.with(|w| w.setup.costs.handle_ns)).await;
                tid = handle::access(me, &metas).await;
            }
        } else {
            break;
        }
    }
    let (requests, data) = collect(me, file, order, tid);
    me.track(&data.group);
    if !requests.is_empty() {
        let sending = Rc::new(Group::default());
        sending.add();
        me.with(|w| w.files.file(file).sending = sending.clone());
        me.send(requests, order.barrier).await;
        me.with(|w| w.wake_all(sending.done()));
    }
    if tid > 0 {
        handle::end(me);
    }
    data
}

/// Turns the dirty pages into requests, and enters them where they matter.
fn collect(me: &TaskHandle<'_>, file: FileId, order: DataOrder, tid: Tid) -> (Vec<Request>, Data) {
    let group = Rc::new(Group::default());
    let mut requests: Vec<Request> = Vec::new();
    let mut blocks: Vec<Ordered> = Vec::new();
    me.with(|w| {
        let f = w.files.file(file);
        if tid > 0 {
            (f.sync_tid, f.datasync_tid) = (tid, tid);
        }
        let (base, pages) = (f.base, std::mem::take(&mut f.dirty));
        if let Some(last) = pages.last() {
            f.allocated = f.allocated.max(last + 1);
            f.writeback = group.clone();
            f.generation += 1;
        }
        let generation = f.generation - u32::from(f.generation > 0);
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for page in pages {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == page => *count += 1,
                _ => runs.push((page, 1)),
            }
        }
        for (first, count) in runs {
            let (lba, token) = (base + u64::from(first), w.tokens(count));
            blocks.push((lba, token.0, count));
            requests.push(data_request(me, lba, count, token, order, &group));
        }
        if tid > 0 {
            let tx = &mut w.journals[handle::MAIN].running;
            tx.data.extend(&blocks);
            tx.data_groups.push(group.clone());
        }
        w.ledger.chain(file, generation, &blocks);
    });
    let covered = me.with(|w| w.files.file(file).generation);
    (requests, Data { covered, group, blocks })
}

fn data_request(
    me: &TaskHandle<'_>,
    lba: u64,
    blocks: u32,
    token: Token,
    order: DataOrder,
    group: &Rc<Group>,
) -> Request {
    Request::new(Verb::Write { fua: false }, me.id, lba, blocks, token)
        .ordered(order.stream, order.minor)
        .waited(group)
}

/// The transaction a sync call must see committed; 0 if the inode is clean.
pub(super) fn tid_of(me: &TaskHandle<'_>, file: FileId, data_only: bool) -> Tid {
    me.with(|w| {
        let f = w.files.file(file);
        if data_only { f.datasync_tid } else { f.sync_tid }
    })
}

/// Waits until the file's last data write has its ids, whoever sends it.
pub(super) async fn sent(me: &TaskHandle<'_>, file: FileId) {
    let sending = me.with(|w| w.files.file(file).sending.clone());
    me.wait(&sending).await;
}

/// Makes the running transaction wait for data before its flush, which covers completed writes only; false if `tid`
/// is no longer the running one.
pub(super) fn joins_commit(me: &TaskHandle<'_>, tid: Tid, data: &Rc<Group>) -> bool {
    me.with(|w| {
        let running = &mut w.journals[handle::MAIN].running;
        let joins = running.tid == tid;
        if joins && !data.is_done() {
            running.data_groups.push(data.clone());
        }
        joins
    })
}

/// A durable sync call returns: the ledger holds the device to it.
pub(super) fn acknowledge(me: &TaskHandle<'_>, tid: Tid, data: &[Ordered]) {
    me.with(|w| {
        if tid > 0 {
            w.ledger.acked(handle::MAIN, tid);
        }
        w.ledger.data_acked(data);
    });
}
