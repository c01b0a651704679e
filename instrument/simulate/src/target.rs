//! The engine's target in virtual time: each operation of a lane is an operation of its task in the simulation.
//!
//! A lane is a future, a task is a [`Program`]: an [`LaneProgram`] is the latter and polls the former. When the lane does
//! something that takes time, its future leaves an [`Op`] in a [`Mailbox`] and is pending; the actor hands the operation to
//! the simulation, which asks for the next one when it has ended.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, CString};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use engine::sync::Event;
use engine::target::{OpenHow, Target};
use order::{FileId, Op, Program, Sync, View};

use crate::disk::PAGE_BYTES;

/// What a directory entry counts for in `listdir`, beside its name (as on real targets).
const DIRENT_BYTES: u64 = 279;

/// A file of a container.
#[derive(Debug)]
pub struct File {
    id: FileId,
    pages_max: u32,
    /// Logical size in bytes.
    size: Cell<u64>,
    exists: Cell<bool>,
    /// Index of the listing of its directory.
    parent: usize,
    name_bytes: u64,
}

/// A directory's entries and the bytes they count for.
#[derive(Debug, Default)]
struct Listing {
    entries: Cell<u64>,
    bytes: Cell<u64>,
}

/// The files of one container, and who waits in it.
#[derive(Debug, Default)]
pub struct Container {
    files: Vec<File>,
    by_path: HashMap<CString, usize>,
    listings: Vec<Listing>,
    by_dir: HashMap<Vec<u8>, usize>,
    /// Lanes that wait for an event: its address, for comparison only, and the lane's counter in the simulation.
    waiting: RefCell<Vec<(usize, u32)>>,
    /// Counters to be raised.
    due: RefCell<VecDeque<u32>>,
}

impl Container {
    /// The container knows one more file or directory.
    pub fn add(&mut self, path: CString, id: FileId, pages_max: u32, size: u64, exists: bool) {
        let bytes = path.as_bytes();
        let cut = bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let (dir, name_bytes) = (bytes[..cut].to_vec(), (bytes.len() - cut) as u64);
        let listings = &mut self.listings;
        let parent = *self.by_dir.entry(dir).or_insert_with(|| {
            listings.push(Listing::default());
            listings.len() - 1
        });
        let file =
            File { id, pages_max, size: Cell::new(size), exists: Cell::new(false), parent, name_bytes };
        self.by_path.insert(path, self.files.len());
        self.files.push(file);
        if exists {
            self.appear(self.files.len() - 1, true);
        }
    }

    /// A file comes or goes.
    fn appear(&self, file: usize, exists: bool) {
        let file = &self.files[file];
        if file.exists.replace(exists) != exists {
            let of = &self.listings[file.parent];
            let bytes = file.name_bytes + DIRENT_BYTES;
            if exists {
                of.entries.set(of.entries.get() + 1);
                of.bytes.set(of.bytes.get() + bytes);
            } else {
                of.entries.set(of.entries.get() - 1);
                of.bytes.set(of.bytes.get() - bytes);
            }
        }
    }

    fn find(&self, path: &CStr) -> io::Result<usize> {
        self.by_path.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn existing(&self, path: &CStr) -> io::Result<usize> {
        let file = self.find(path)?;
        if self.files[file].exists.get() { Ok(file) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// All lanes that wait shall look again.
    pub fn wake_all(&self) {
        let woken = std::mem::take(&mut *self.waiting.borrow_mut());
        self.due.borrow_mut().extend(woken.into_iter().map(|(_, lane)| lane));
    }

    /// A counter that is to be raised.
    pub fn next_due(&self) -> Option<u32> {
        self.due.borrow_mut().pop_front()
    }
}

/// What a lane and its task pass to each other.
#[derive(Debug, Default)]
pub struct Mailbox {
    now: Cell<u64>,
    op: Cell<Option<Op>>,
}

/// One lane's view of its container.
#[derive(Debug)]
pub struct VirtualTarget {
    mailbox: Rc<Mailbox>,
    container: Rc<Container>,
    /// The lane's counter in the simulation, and the value that it waits for.
    number: u32,
    waits: Cell<u64>,
    /// Processor time of an operation.
    call_ns: u64,
}

/// An open file: its index, whether each write is to be durable, whether reads go to the device.
#[derive(Debug)]
pub struct Open {
    file: usize,
    sync: bool,
    direct: bool,
}

impl VirtualTarget {
    /// A target for lane `number` of the simulation.
    pub fn new(container: Rc<Container>, number: u32, call_ns: u64) -> VirtualTarget {
        VirtualTarget { mailbox: Rc::default(), container, number, waits: Cell::new(0), call_ns }
    }

    /// Where it leaves its operations.
    pub fn mailbox(&self) -> Rc<Mailbox> {
        self.mailbox.clone()
    }

    /// Hands an operation to the simulation; ready when that has ended.
    async fn perform(&self, op: Op) {
        let mut handed = false;
        poll_fn(|_| {
            if std::mem::replace(&mut handed, true) {
                return Poll::Ready(());
            }
            self.mailbox.op.set(Some(op));
            Poll::Pending
        })
        .await;
    }

    async fn call(&self) {
        if self.call_ns > 0 {
            self.perform(Op::Compute(self.call_ns)).await;
        }
    }

    fn file(&self, open: &Open) -> &File {
        &self.container.files[open.file]
    }

    async fn put(&self, open: &Open, length: usize, offset: u64) -> io::Result<usize> {
        self.call().await;
        let file = self.file(open);
        if length > 0 {
            let (page, pages) = span(offset, length as u64, file.pages_max);
            file.size.set(file.size.get().max(offset + length as u64));
            self.perform(Op::Write { file: file.id, page, pages }).await;
            if open.sync {
                self.perform(Op::Sync(file.id, Sync::Fsync)).await;
            }
        }
        Ok(length)
    }
}

/// Pages of a transfer. A file has room for `pages_max`: what lies behind goes to its last ones, as a log is written round.
fn span(offset: u64, length: u64, pages_max: u32) -> (u32, u32) {
    let (first, last) = (offset / PAGE_BYTES, (offset + length - 1) / PAGE_BYTES);
    let pages = (last - first + 1).min(u64::from(pages_max)) as u32;
    (first.min(u64::from(pages_max - pages)) as u32, pages)
}

impl Target for VirtualTarget {
    type File = Open;
    const CARRIES_DATA: bool = false;

    fn now(&self) -> u64 {
        self.mailbox.now.get()
    }

    async fn sleep_until(&self, deadline_ns: u64) {
        let now = self.now();
        if deadline_ns > now {
            self.perform(Op::Sleep(deadline_ns - now)).await;
        }
    }

    async fn wait(&self, event: &Event, seen: u32) {
        if event.seen() != seen {
            return;
        }
        self.container.waiting.borrow_mut().push((std::ptr::from_ref(event).addr(), self.number));
        self.waits.set(self.waits.get() + 1);
        self.perform(Op::WaitFor { event: self.number, value: self.waits.get() }).await;
    }

    fn notified(&self, event: &Event) {
        let address = std::ptr::from_ref(event).addr();
        let mut due = self.container.due.borrow_mut();
        self.container.waiting.borrow_mut().retain(|(of, lane)| {
            if *of == address {
                due.push_back(*lane);
            }
            *of != address
        });
    }

    async fn open(&self, path: &CStr, how: OpenHow) -> io::Result<Open> {
        self.call().await;
        let file = self.container.find(path)?;
        let (id, exists) = (self.container.files[file].id, self.container.files[file].exists.get());
        if !exists {
            if !how.create {
                return Err(io::ErrorKind::NotFound.into());
            }
            self.container.appear(file, true);
            self.container.files[file].size.set(0);
            self.perform(Op::Create(id)).await;
        }
        Ok(Open { file, sync: how.sync, direct: how.direct })
    }

    async fn close(&self, _file: Open) -> io::Result<()> {
        self.call().await;
        Ok(())
    }

    async fn read_at(&self, open: &Open, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let file = self.file(open);
        let length = (buffer.len() as u64).min(file.size.get().saturating_sub(offset));
        // the end of a file costs next to nothing
        if length > 0 {
            self.call().await;
            if open.direct {
                let (page, pages) = span(offset, length, file.pages_max);
                self.perform(Op::Read { file: file.id, page, pages }).await;
            }
        }
        Ok(length as usize)
    }

    async fn write_at(&self, open: &Open, data: &[u8], offset: u64) -> io::Result<usize> {
        self.put(open, data.len(), offset).await
    }

    async fn append(&self, open: &Open, data: &[u8]) -> io::Result<usize> {
        let end = self.file(open).size.get();
        self.put(open, data.len(), end).await
    }

    async fn fsync(&self, open: &Open) -> io::Result<()> {
        self.perform(Op::Sync(self.file(open).id, Sync::Fsync)).await;
        Ok(())
    }

    async fn fdatasync(&self, open: &Open) -> io::Result<()> {
        self.perform(Op::Sync(self.file(open).id, Sync::Fdatasync)).await;
        Ok(())
    }

    async fn truncate(&self, open: &Open, length: u64) -> io::Result<()> {
        self.call().await;
        self.file(open).size.set(length);
        Ok(())
    }

    async fn direct_alignment(&self, _open: &Open) -> u64 {
        PAGE_BYTES
    }

    async fn stat(&self, path: &CStr) -> io::Result<u64> {
        self.call().await;
        Ok(self.container.files[self.container.existing(path)?].size.get())
    }

    async fn stat_open(&self, open: &Open) -> io::Result<u64> {
        self.call().await;
        Ok(self.file(open).size.get())
    }

    async fn unlink(&self, path: &CStr) -> io::Result<()> {
        self.call().await;
        let file = self.container.existing(path)?;
        self.container.appear(file, false);
        self.container.files[file].size.set(0);
        self.perform(Op::Delete(self.container.files[file].id)).await;
        Ok(())
    }

    async fn make_dir(&self, path: &CStr) -> io::Result<()> {
        self.call().await;
        let dir = self.container.find(path)?;
        if self.container.files[dir].exists.get() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.container.appear(dir, true);
        self.perform(Op::Create(self.container.files[dir].id)).await;
        Ok(())
    }

    async fn remove_dir(&self, path: &CStr) -> io::Result<()> {
        self.unlink(path).await
    }

    async fn list_dir(&self, path: &CStr) -> io::Result<(u64, u64)> {
        self.call().await;
        let path = path.to_bytes();
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let of = self.container.by_dir.get(path).map(|of| &self.container.listings[*of]);
        let (entries, bytes) = of.map_or((0, 0), |of| (of.entries.get(), of.bytes.get()));
        // `.` and `..`, as elsewhere
        Ok((2 + entries, 3 + 2 * DIRENT_BYTES + bytes))
    }

    async fn aio_write(&self, _open: &Open, _data: &[u8], _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn aio_wait(&self, _at_least: usize) -> io::Result<usize> {
        Ok(0)
    }

    fn aio_outstanding(&self) -> usize {
        0
    }
}

/// A lane as a program of the simulation.
pub struct LaneProgram<'r> {
    lane: Option<Pin<Box<dyn Future<Output = ()> + 'r>>>,
    mailbox: Rc<Mailbox>,
    container: Rc<Container>,
    /// What the lane wants next, while others are still to be woken.
    held: Option<Op>,
}

impl<'r> LaneProgram<'r> {
    /// An actor for the future of a lane, whose target has this mailbox.
    pub fn new(
        lane: impl Future<Output = ()> + 'r,
        mailbox: Rc<Mailbox>,
        container: Rc<Container>,
    ) -> LaneProgram<'r> {
        LaneProgram { lane: Some(Box::pin(lane)), mailbox, container, held: None }
    }

    fn poll(&mut self) -> Op {
        let Some(lane) = &mut self.lane else { return Op::End };
        let mut context = Context::from_waker(Waker::noop());
        if lane.as_mut().poll(&mut context).is_ready() {
            self.lane = None;
            // the end of a lane may be that of the run
            self.container.wake_all();
            return Op::End;
        }
        // a future that is pending without an operation would be an error of this module; the lane ends then
        self.mailbox.op.take().unwrap_or(Op::End)
    }
}

impl Program for LaneProgram<'_> {
    fn next(&mut self, view: View) -> Op {
        self.mailbox.now.set(view.now);
        let op = match self.held.take() {
            Some(op) => op,
            None => self.poll(),
        };
        if let Some(event) = self.container.next_due() {
            self.held = Some(op);
            return Op::Post { event, by: 1 };
        }
        op
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_stay_within_their_file() {
        assert_eq!(span(0, 1, 4), (0, 1));
        assert_eq!(span(4095, 2, 4), (0, 2));
        assert_eq!(span(4096, 4096, 4), (1, 1));
        assert_eq!(span(1 << 40, 8192, 4), (2, 2), "behind the end: the last pages");
        assert_eq!(span(0, 1 << 30, 4), (0, 4));
    }
}
