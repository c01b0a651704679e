//! What a task does: a [`Program`] yields operations one by one, and a task carries them out.

use ssd::{Nanos, Token};

use crate::exec::TaskHandle;
use crate::files::FileId;
use crate::handle;
use crate::mutation::Mutation;
use crate::protocol::{self, Sync};
use crate::request::{Request, Verb};
use crate::setup::Protocol;
use crate::tally::Tally;

use std::cell::RefCell;
use std::rc::Rc;

/// One operation. Pages are 4096 bytes. Operations on a file that does not exist do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Computes for so long, on a core that is shared.
    Compute(Nanos),
    /// Does nothing for so long.
    Sleep(Nanos),
    /// Overwrites pages (buffered). What lies beyond the file's largest size is cut off.
    Write {
        /// The file.
        file: FileId,
        /// First page.
        page: u32,
        /// Number of pages.
        pages: u32,
    },
    /// Writes pages behind the end (buffered); at the largest size it overwrites the last ones.
    Append {
        /// The file.
        file: FileId,
        /// Number of pages.
        pages: u32,
    },
    /// Creates the file, empty.
    Create(FileId),
    /// Deletes the file.
    Delete(FileId),
    /// Renames it within its directory.
    Rename(FileId),
    /// Reads pages from the device, past the page cache.
    Read {
        /// The file.
        file: FileId,
        /// First page.
        page: u32,
        /// Number of pages.
        pages: u32,
    },
    /// Sends the dirty pages off without ending an epoch or waiting (`sync_file_range`).
    WriteOut(FileId),
    /// A sync call.
    Sync(FileId, Sync),
    /// Raises a counter that programs share.
    Post {
        /// The counter, any number; all are 0 at first.
        event: u32,
        /// By how much.
        by: u64,
    },
    /// Sleeps until a counter has reached a value.
    WaitFor {
        /// The counter.
        event: u32,
        /// The value.
        value: u64,
    },
    /// Adds to the operations that the report counts. Takes no time.
    Count(u64),
    /// The program has ended, its thread exits.
    End,
}

/// What a program sees when it is asked for its next operation.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Virtual time.
    pub now: Nanos,
    /// How long the last operation took; 0 before the first.
    pub took: Nanos,
}

/// Yields the operations of one thread. Called again as soon as the last operation has ended; whatever the program
/// shares with others (`Rc<RefCell<..>>`), it may change in between: only one program runs at a time.
pub trait Program {
    /// The next operation.
    fn next(&mut self, view: View) -> Op;
}

impl<F: FnMut(View) -> Op> Program for F {
    fn next(&mut self, view: View) -> Op {
        self(view)
    }
}

/// A task's life.
pub(crate) async fn run(me: TaskHandle<'_>, mut program: Box<dyn Program + '_>, tally: Rc<RefCell<Tally>>) {
    let mut view = View { now: me.now(), took: 0 };
    loop {
        let op = program.next(view);
        let begun = me.now();
        match op {
            Op::Count(n) => tally.borrow_mut().counted += n,
            Op::End => break,
            op => step(&me, op).await,
        }
        view = View { now: me.now(), took: me.now() - begun };
        if let Op::Sync(_, kind) = op {
            tally.borrow_mut().sync(kind, begun, view.now);
        }
    }
    exit(&me).await;
}

async fn step(me: &TaskHandle<'_>, op: Op) {
    match op {
        Op::Compute(ns) => me.compute(ns).await,
        Op::Sleep(ns) => me.sleep(ns).await,
        Op::Write { file, page, pages } => write(me, file, page, pages).await,
        Op::Append { file, pages } => {
            let page = me.with(|w| {
                let f = w.files.file(file);
                f.size.min(f.pages_max.saturating_sub(pages))
            });
            write(me, file, page, pages).await;
        }
        Op::Create(file) => create(me, file).await,
        Op::Delete(file) => delete(me, file).await,
        Op::Rename(file) => rename(me, file).await,
        Op::Read { file, page, pages } => read(me, file, page, pages).await,
        Op::WriteOut(file) => protocol::write_out(me, file).await,
        Op::Sync(file, kind) => protocol::sync(me, file, kind).await,
        Op::Post { event, by } => me.with(|w| w.post(event, by)),
        Op::WaitFor { event, value } => {
            if me.with(|w| w.event(event).0 < value) {
                me.park(move |w, id| w.event(event).1.push((value, id))).await;
            }
        }
        Op::Count(_) | Op::End => {}
    }
}

async fn write(me: &TaskHandle<'_>, file: FileId, page: u32, pages: u32) {
    let (changed, inode) = me.with(|w| {
        let (now, tick) = (w.now, w.setup.costs.tick_ns);
        let f = w.files.file(file);
        let end = (page.saturating_add(pages)).min(f.pages_max);
        if !f.exists || page >= end {
            return (false, 0);
        }
        f.dirty.extend(page..end);
        f.size = f.size.max(end);
        let changed = f.touched_at.is_none_or(|t| now / tick != t / tick);
        if changed {
            f.touched_at = Some(now);
        }
        (changed, w.files.inode(file))
    });
    if changed {
        handle::change(me, file, vec![inode], false).await;
    }
}

async fn create(me: &TaskHandle<'_>, file: FileId) {
    let metas = me.with(|w| {
        let f = w.files.file(file);
        (!std::mem::replace(&mut f.exists, true)).then(|| w.files.of_name(file, false))
    });
    let Some(metas) = metas else { return };
    change_name(me, file, metas).await;
}

async fn delete(me: &TaskHandle<'_>, file: FileId) {
    let there = me.with(|w| w.files.file(file).exists);
    if !there {
        return;
    }
    let under_way = me.with(|w| w.files.file(file).writeback.clone());
    me.wait(&under_way).await;
    let metas = me.with(|w| {
        let f = w.files.file(file);
        let with_blocks = f.allocated > 0;
        f.exists = false;
        f.dirty.clear();
        (f.size, f.allocated) = (0, 0);
        w.files.of_name(file, with_blocks)
    });
    change_name(me, file, metas).await;
}

async fn rename(me: &TaskHandle<'_>, file: FileId) {
    if me.with(|w| w.files.file(file).exists) {
        let metas = me.with(|w| w.files.of_rename(file));
        change_name(me, file, metas).await;
    }
}

/// A change that the file and its directory have in common.
async fn change_name(me: &TaskHandle<'_>, file: FileId, metas: Vec<u32>) {
    handle::change(me, file, metas.clone(), true).await;
    me.with(|w| {
        let f = w.files.file(file);
        let (dir, tid) = (f.dir, f.sync_tid);
        let d = w.files.file(dir);
        (d.sync_tid, d.datasync_tid) = (d.sync_tid.max(tid), d.datasync_tid.max(tid));
        if w.setup.protocol == Protocol::Mqfs {
            let new: Vec<u32> = metas.into_iter().filter(|m| !d.pending.contains(m)).collect();
            d.pending.extend(new);
        }
    });
}

async fn read(me: &TaskHandle<'_>, file: FileId, page: u32, pages: u32) {
    let group = Rc::default();
    let request = me.with(|w| {
        let f = w.files.file(file);
        let end = page.saturating_add(pages).min(f.pages_max);
        (page < end).then(|| {
            Request::new(Verb::Read, me.id, f.base + u64::from(page), end - page, Token::ZERO).waited(&group)
        })
    });
    if let Some(request) = request {
        me.compute(me.with(|w| w.setup.costs.submit_ns)).await;
        me.with(|w| w.bio(request));
        me.wait(&group).await;
    }
}

/// The thread exits: its last epoch may be open, and its stream must not stay with the device.
async fn exit(me: &TaskHandle<'_>) {
    let pid = me.pid();
    let leaves =
        me.with(|w| w.setup.protocol != Protocol::OpExt4 || w.planted(Mutation::ExitLeavesEpochOpen));
    if !leaves {
        for group in me.with(|w| std::mem::take(&mut w.outstanding[me.id as usize])) {
            me.wait(&group).await;
        }
        let close = Request::new(Verb::Close, me.id, 0, 0, Token::ZERO).ordered(Some(pid), None);
        me.with(|w| w.bio(close));
    }
}
