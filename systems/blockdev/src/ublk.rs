//! The device without FUSE and loop: the kernel's ublk hands each request of its hardware queues to a thread here, FUA
//! included, by an io_uring of that thread.
//!
//! A queue's memory for a request belongs to the kernel until the command for it completes, then to the queue's thread until
//! the answer is submitted. The answer and the wait for the next request are one command. Only the queue's own thread may
//! give it: what other threads answer goes through a mailbox.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, mpsc};

use fusewire::uring::{self, BELL, Io, Mailbox};
use host::ublk::{DESCRIPTOR_BYTES, SECTOR, read_write};
use io_uring::{IoUring, SubmissionQueue, opcode, squeue, types};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::driver::{Driver, Waiter};
use crate::engine::{Outcome, Request as Ask};
use crate::image::BLOCK;

/// Largest request in bytes, as of the FUSE file.
pub(crate) const REQUEST_BYTES_MAX: u32 = crate::fuse::REQUEST_BYTES_MAX;
/// Requests of a queue at a time; more wait in the kernel. Each has memory of its own, of which as much is taken as its
/// largest request so far needed.
pub(crate) const DEPTH: u16 = 64;
/// `_IOWR('u', 0x20, struct ublksrv_io_cmd)` and `0x21`: waits for a request; answers one and waits for the next.
const FETCH: u32 = read_write(0x20, COMMAND_BYTES);
const COMMIT_AND_FETCH: u32 = read_write(0x21, COMMAND_BYTES);
/// Bytes of `struct ublksrv_io_cmd`.
const COMMAND_BYTES: u32 = 16;
const PAGE: usize = 4096;
/// Operations in a descriptor, and their flag.
const READ: u8 = 0;
const WRITE: u8 = 1;
const FLUSH: u8 = 2;
const DISCARD: u8 = 3;
const WRITE_ZEROES: u8 = 5;
const FUA: u32 = 1 << 13;

/// Who waits: a request of a queue.
#[derive(Debug)]
pub(crate) struct Waiting {
    mailbox: Arc<Mailbox<RequestResult>>,
    tag: u16,
    /// Bytes that the kernel is told were read or written.
    bytes: u32,
    answered: bool,
}

impl Waiting {
    fn give(&mut self, outcome: Outcome) {
        self.answered = true;
        let bytes = i32::try_from(self.bytes).unwrap_or(i32::MAX);
        let (result, data) = match outcome {
            Outcome::Failed(error) => (-error, None),
            Outcome::Data(data) => (bytes, Some(data)),
            Outcome::Done => (bytes, None),
        };
        self.mailbox.post(self.tag, (result, data));
    }
}

impl Waiter for Waiting {
    fn answer(mut self, outcome: Outcome) {
        self.give(outcome);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.answered {
            self.give(Outcome::Failed(libc::EIO));
        }
    }
}

/// The result that the kernel is told, and what was read.
type RequestResult = (i32, Option<Vec<u8>>);

/// A mapping that goes with its owner, unless the kernel may still write to it.
struct Mapping {
    start: *mut u8,
    bytes: usize,
    /// Commands that name it, and that the kernel has not taken back.
    live: Cell<usize>,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.live.get() > 0 {
            return;
        }
        // SAFETY: it was made by whoever made this value, nobody else knows it, and the kernel has let go of its commands.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

/// The device's door for its server, and what all queues have in common.
#[derive(Debug)]
pub(crate) struct Server<R> {
    pub(crate) door: File,
    pub(crate) driver: Arc<Driver<R>>,
    pub(crate) depth: u16,
}

/// One queue, served by one thread.
struct Queue<R> {
    server: Arc<Server<R>>,
    number: u16,
    /// What the kernel tells of each request.
    descriptors: Mapping,
    /// The bytes of each request.
    buffers: Mapping,
    mailbox: Arc<Mailbox<RequestResult>>,
}

fn push(queue: &mut SubmissionQueue<'_>, entry: &squeue::Entry) {
    // SAFETY: the memory that a command names lives until the kernel has taken it back, and there is one command per
    // request at most (and the bell's), so the queue has space.
    let pushed = unsafe { queue.push(entry) };
    debug_assert!(pushed.is_ok());
}

/// Serves `queues` queues, each by a thread. Returns when the kernel is about to hear of all of them; the threads end when the
/// device is taken away.
///
/// # Errors
/// The kernel's; what was begun then ends with the device.
pub(crate) fn serve<R>(server: Server<R>, queues: u16) -> io::Result<()>
where
    R: Waiter + From<Waiting> + 'static,
{
    let server = Arc::new(server);
    let (tell, told) = mpsc::channel();
    for number in 0..queues {
        let (server, tell) = (server.clone(), tell.clone());
        let named = std::thread::Builder::new().name(format!("ublk{number}"));
        named.spawn(move || match Queue::new(server, number) {
            Ok(queue) => queue.run(&tell),
            Err(error) => {
                let _ = tell.send(Err(error));
            }
        })?;
    }
    drop((server, tell));
    let gone = || io::Error::other("a queue's thread ended early");
    (0..queues).try_for_each(|_| told.recv().map_err(|_| gone())?)
}

impl<R: Waiter + From<Waiting>> Queue<R> {
    fn new(server: Arc<Server<R>>, number: u16) -> io::Result<Queue<R>> {
        let depth = usize::from(server.depth);
        let pages = |bytes: usize| bytes.next_multiple_of(PAGE);
        let stride = pages(usize::from(host::ublk::DEPTH_MAX) * DESCRIPTOR_BYTES);
        let bytes = pages(depth * DESCRIPTOR_BYTES);
        let offset = (usize::from(number) * stride) as u64;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            let flags = MapFlags::SHARED | MapFlags::POPULATE;
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, flags, &server.door, offset)
        }?;
        let descriptors = Mapping { start: start.cast(), bytes, live: Cell::new(0) };
        let bytes = depth * REQUEST_BYTES_MAX as usize;
        // SAFETY: as above.
        let start = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)
        }?;
        let buffers = Mapping { start: start.cast(), bytes, live: Cell::new(0) };
        Ok(Queue { server, number, descriptors, buffers, mailbox: Arc::new(Mailbox::new()?) })
    }

    /// Serves until the device is gone. `ready` hears once whether the kernel took the commands.
    fn run(self, ready: &mpsc::Sender<io::Result<()>>) {
        let served = uring::ring(self.server.depth).and_then(|mut ring| self.serve(&mut ring, ready));
        if let Err(error) = served {
            host::daemon::log::error(format_args!("queue {}: {error}", self.number));
            let _ = ready.send(Err(error));
        }
    }

    fn serve(&self, ring: &mut IoUring, ready: &mpsc::Sender<io::Result<()>>) -> io::Result<()> {
        let mut io = Io::new(ring);
        push(&mut io.submission, &self.mailbox.hear());
        (0..self.server.depth).for_each(|tag| push(&mut io.submission, &self.command(FETCH, tag, 0)));
        self.buffers.live.set(usize::from(self.server.depth));
        io.enter(0)?;
        let io = RefCell::new(io);
        let mut ready = Some(ready);
        while self.buffers.live.get() > 0 {
            loop {
                let done = io.borrow_mut().completion.next();
                let Some(done) = done else { break };
                match (done.user_data(), done.result()) {
                    (BELL, _) if io_uring::cqueue::more(done.flags()) => {}
                    (BELL, _) => push(&mut io.borrow_mut().submission, &self.mailbox.hear()),
                    (tag, 0..) => self.take(tag as u16, &io),
                    (tag, error) => {
                        self.buffers.live.update(|live| live - 1);
                        let error = io::Error::from_raw_os_error(-error);
                        if ready.is_some() {
                            return Err(error);
                        }
                        // the kernel takes all of them back with this when the device ends
                        if error.raw_os_error() != Some(libc::ENODEV) {
                            host::daemon::log::error(format_args!(
                                "ublk: tag {tag} is not served any more: {error}"
                            ));
                        }
                    }
                }
            }
            if let Some(ready) = ready.take() {
                let _ = ready.send(Ok(()));
            }
            let mut io = io.borrow_mut();
            // until nothing is left and others ring the bell
            while self.give_back(self.mailbox.take(), &mut io) {}
            if self.buffers.live.get() > 0 {
                io.enter(1)?;
            }
        }
        Ok(())
    }

    fn command(&self, command: u32, tag: u16, result: i32) -> squeue::Entry {
        // struct ublksrv_io_cmd: queue, tag, result, address of the request's memory
        let mut words = [0; 16];
        words[..2].copy_from_slice(&self.number.to_ne_bytes());
        words[2..4].copy_from_slice(&tag.to_ne_bytes());
        words[4..8].copy_from_slice(&result.to_ne_bytes());
        words[8..].copy_from_slice(&(self.buffer(tag) as u64).to_ne_bytes());
        let door = types::Fd(self.server.door.as_raw_fd());
        opcode::UringCmd16::new(door, command).cmd(words).build().user_data(tag.into())
    }

    fn buffer(&self, tag: u16) -> *mut u8 {
        self.buffers.start.wrapping_add(usize::from(tag) * REQUEST_BYTES_MAX as usize)
    }

    /// Puts what has been answered into the ring; whether that was anything.
    fn give_back(&self, posted: Vec<(u16, RequestResult)>, io: &mut Io<'_, squeue::Entry>) -> bool {
        for (tag, (result, data)) in &posted {
            if let Some(data) = data {
                let bytes = data.len().min(REQUEST_BYTES_MAX as usize);
                // SAFETY: the request was completed to this thread and its answer is not submitted yet, so that its memory,
                // of this size, is this thread's; the data are elsewhere.
                unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.buffer(*tag), bytes) };
            }
            push(&mut io.submission, &self.command(COMMIT_AND_FETCH, *tag, *result));
        }
        !posted.is_empty()
    }

    /// Whether a request waits for this thread, which is `busy` with another. What has been answered meanwhile goes out.
    fn is_wanted(&self, busy: u16, io: &RefCell<Io<'_, squeue::Entry>>) -> bool {
        let Ok(mut io) = io.try_borrow_mut() else { return false };
        if self.mailbox.has_post() {
            self.give_back(self.mailbox.take_but(busy), &mut io);
        }
        io.is_pending()
    }

    /// Hands the request of a tag to the device.
    fn take(&self, tag: u16, io: &RefCell<Io<'_, squeue::Entry>>) {
        let from = self.descriptors.start.wrapping_add(usize::from(tag) * DESCRIPTOR_BYTES);
        // SAFETY: the kernel has written the descriptor before it completed the command, and leaves it until the answer.
        let descriptor = unsafe { from.cast::<[u8; DESCRIPTOR_BYTES]>().read_volatile() };
        // SAFETY: the request's memory is this thread's until the answer is submitted, which is after this function's use of
        // it: the device copies what it keeps.
        let memory = unsafe { std::slice::from_raw_parts(self.buffer(tag), REQUEST_BYTES_MAX as usize) };
        let mailbox = self.mailbox.clone();
        match ask(&descriptor, memory) {
            Ok((ask, bytes)) => {
                let waiting = Waiting { mailbox, tag, bytes, answered: false };
                self.server.driver.submit_until(ask, R::from(waiting), true, || self.is_wanted(tag, io));
            }
            Err(error) => mailbox.post(tag, (-error, None)),
        }
    }
}

/// What a descriptor (`struct ublksrv_io_desc`) asks, and the bytes that its answer tells.
fn ask<'a>(descriptor: &[u8; DESCRIPTOR_BYTES], memory: &'a [u8]) -> Result<(Ask<'a>, u32), i32> {
    let half = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| descriptor[at + i]));
    let first = u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| descriptor[8 + i]));
    let (operation, fua) = ((half(0) & 0xff) as u8, half(0) & FUA != 0);
    if operation == FLUSH {
        return Ok((Ask::Flush, 0));
    }
    let (start, bytes) = (first.saturating_mul(SECTOR), u64::from(half(4)) * SECTOR);
    if !start.is_multiple_of(BLOCK as u64) || !bytes.is_multiple_of(BLOCK as u64) {
        return Err(libc::EINVAL);
    }
    let (lba, blocks) = (start / BLOCK as u64, (bytes / BLOCK as u64) as u32);
    match operation {
        READ if bytes <= memory.len() as u64 => Ok((Ask::Read { lba, blocks }, bytes as u32)),
        WRITE if bytes <= memory.len() as u64 => {
            Ok((Ask::Write { lba, data: &memory[..bytes as usize], fua }, bytes as u32))
        }
        DISCARD => Ok((Ask::Discard { lba, blocks }, 0)),
        // with FUA the kernel writes zeroes as any other data
        WRITE_ZEROES if !fua => Ok((Ask::WriteZeroes { lba, blocks }, 0)),
        WRITE_ZEROES => Err(libc::EOPNOTSUPP),
        _ => Err(libc::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(operation: u32, sectors: u32, first: u64) -> [u8; DESCRIPTOR_BYTES] {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes[..4].copy_from_slice(&operation.to_ne_bytes());
        bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
        bytes[8..16].copy_from_slice(&first.to_ne_bytes());
        bytes
    }

    #[test]
    fn requests_of_the_kernel_are_understood() {
        assert_eq!([FETCH, COMMIT_AND_FETCH], [0xc010_7520, 0xc010_7521]);
        let memory = vec![7; REQUEST_BYTES_MAX as usize];
        let asked = |operation, sectors, first| ask(&descriptor(operation, sectors, first), &memory);
        assert_eq!(asked(0, 16, 8), Ok((Ask::Read { lba: 1, blocks: 2 }, 8192)));
        assert_eq!(asked(1, 8, 80), Ok((Ask::Write { lba: 10, data: &memory[..4096], fua: false }, 4096)));
        assert_eq!(
            asked(1 | FUA, 8, 80),
            Ok((Ask::Write { lba: 10, data: &memory[..4096], fua: true }, 4096))
        );
        // other flags, such as those of how hard to try, change nothing
        assert_eq!(
            asked(1 | 1 << 8, 8, 0),
            Ok((Ask::Write { lba: 0, data: &memory[..4096], fua: false }, 4096))
        );
        assert_eq!(asked(2, 0, u64::MAX), Ok((Ask::Flush, 0)));
        assert_eq!(asked(3, 1 << 17, 0), Ok((Ask::Discard { lba: 0, blocks: 1 << 14 }, 0)));
        assert_eq!(asked(5, 8, 0), Ok((Ask::WriteZeroes { lba: 0, blocks: 1 }, 0)));
        assert_eq!(asked(5 | FUA, 8, 0), Err(libc::EOPNOTSUPP));
        for (operation, sectors, first) in [(1, 1, 0), (0, 8, 1), (4, 8, 0), (1, 4096, 0), (0, 8, u64::MAX)] {
            assert_eq!(asked(operation, sectors, first), Err(libc::EINVAL), "{operation} {sectors} {first}");
        }
    }
}
