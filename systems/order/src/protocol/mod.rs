//! The journal protocols: what a sync call and a commit wait for, and what they tell the device.

mod barrierfs;
mod call;
mod ext4;
mod horae;
mod mqfs;
mod opext4;
mod writeback;

pub use call::Sync;

use crate::exec::{Machine, TaskHandle};
use crate::files::FileId;
use crate::setup::Protocol;
use crate::world::JOURNAL_PID;
use writeback::DataOrder;

use std::rc::Rc;

/// Starts the threads a protocol has.
pub(crate) fn start(machine: &Rc<Machine<'_>>, protocol: Protocol) {
    match protocol {
        Protocol::Mqfs => {}
        Protocol::BarrierFs => {
            machine.start("jbd2", JOURNAL_PID, true, barrierfs::commit_thread);
            machine.start("jbd2-flush", JOURNAL_PID + 1, true, barrierfs::flush_thread);
        }
        Protocol::OpExt4 => machine.start("jbd2", JOURNAL_PID, true, opext4::thread),
        Protocol::Horae => machine.start("jbd2", JOURNAL_PID, true, horae::thread),
        _ => machine.start("jbd2", JOURNAL_PID, true, ext4::thread),
    }
}

/// A sync call of `file`.
pub(crate) async fn sync(me: &TaskHandle<'_>, file: FileId, kind: Sync) {
    let covered = match me.with(|w| w.setup.protocol) {
        Protocol::OpExt4 => opext4::sync(me, file, kind).await,
        Protocol::BarrierFs => barrierfs::sync(me, file, kind).await,
        Protocol::Mqfs => mqfs::sync(me, file, kind).await,
        Protocol::Horae => horae::sync(me, file, kind).await,
        _ => ext4::sync(me, file, kind).await,
    };
    me.with(|w| {
        let now = w.files.file(file).generation;
        w.ledger.synced(file, covered, now, kind.is_durable());
    });
}

/// Sends a file's dirty pages off without ending an epoch.
pub(crate) async fn write_out(me: &TaskHandle<'_>, file: FileId) {
    let (pid, protocol) = (me.pid(), me.with(|w| w.setup.protocol));
    let order = if protocol == Protocol::OpExt4 {
        DataOrder { stream: Some(pid), minor: Some(JOURNAL_PID), barrier: false }
    } else {
        DataOrder::default()
    };
    writeback::write_back(me, file, order).await;
    if protocol == Protocol::OpExt4 {
        opext4::note_writer(me, file, pid);
    }
}
