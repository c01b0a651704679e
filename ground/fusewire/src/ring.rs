//! Requests through io_uring (Linux 6.14, Documentation/filesystems/fuse/fuse-io-uring.rst).
//!
//! The kernel has a queue for each CPU that there could ever be, and begins when all have an entry. A request goes to the
//! queue of the CPU on which it was made, and there to the entry that was given back last. Each thread of a CPU that is
//! online has an io_uring with one entry (or several) of its queue: a thread that is held up simply has no free entry, so
//! that others get the next requests. The queues of all other CPUs have an entry each with one thread for all of them, in
//! case that one comes online later. An answer and the wait for the next request are one system call.
//!
//! An entry's memory belongs to the kernel until the entry completes, then to its thread until the answer is
//! submitted; no other thread ever touches it. The handshake, forgets and notifications stay with `/dev/fuse`.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, mpsc};

use io_uring::squeue::Entry128;
use io_uring::{IoUring, SubmissionQueue, opcode, types};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::abort::AbortOnPanic;
use crate::device::{Device, out_header};
use crate::mailbox::{DeferredReplies, Mailbox, PostedReply};
use crate::serve::{Answer, FileSystem, Origin, Reply};
use crate::single_client::{SingleClientScheduler, WorkerSlot};
use crate::uring::{self, BELL, Io};
use crate::wire::{self, Header, OUT_HEADER_BYTES, Operation, Request};

/// Bytes of `struct fuse_uring_req_header`: header of request or answer, its arguments, the entry's own fields.
const HEADER_BYTES: usize = 288;
const ARGUMENTS: usize = 128;
const ENTRY: usize = 256;
/// In the entry's own fields: bytes of payload, of the request as of its answer.
const PAYLOAD_BYTES: usize = ENTRY + 16;
const HEADER_PAGE: usize = 4096;
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;
/// Offset of `len` in `struct io_uring_sqe`.
const SQE_LEN: usize = 24;
/// The connection, among the ring's registered files.
const FUSE: types::Fixed = types::Fixed(0);
/// A request with so little beside its fixed arguments is copied, so that the answer may be put together in its place.
const SIDE_BYTES: usize = 4096;

/// The memory of a thread's entries: for each a page for the header, then the payload. It is given back only when the kernel
/// has let go of every entry: until then it may write there, whatever became of the thread.
struct Memory {
    start: *mut u8,
    entries: usize,
    payload_bytes: usize,
    /// Entries that the kernel has not taken back.
    live: Cell<usize>,
    /// Header and payload of each entry, for the kernel.
    vectors: Vec<[libc::iovec; 2]>,
}

impl Memory {
    fn new(entries: usize, payload_bytes: usize) -> io::Result<Memory> {
        let (one, protection) = (HEADER_PAGE + payload_bytes, ProtFlags::READ | ProtFlags::WRITE);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), entries * one, protection, flags) }?;
        let start = start.cast::<u8>();
        let part = |start: *mut u8, bytes| libc::iovec { iov_base: start.cast(), iov_len: bytes };
        let vectors = (0..entries).map(|entry| {
            let header = start.wrapping_add(entry * one);
            [part(header, HEADER_BYTES), part(header.wrapping_add(HEADER_PAGE), payload_bytes)]
        });
        let live = Cell::new(0);
        Ok(Memory { start, entries, payload_bytes, live, vectors: vectors.collect() })
    }

    fn header(&self, entry: usize) -> *mut [u8; HEADER_BYTES] {
        self.vectors[entry][0].iov_base.cast()
    }

    fn payload(&self, entry: usize) -> *mut u8 {
        self.vectors[entry][1].iov_base.cast()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.live.get() > 0 {
            return;
        }
        let bytes = self.entries * (HEADER_PAGE + self.payload_bytes);
        // SAFETY: the mapping was made by `new`, nobody else knows it, and the kernel has let go of every entry.
        let _ = unsafe { munmap(self.start.cast(), bytes) };
    }
}

/// What all threads of a connection have in common.
pub(crate) struct Common<F> {
    pub(crate) device: Arc<Device>,
    pub(crate) fs: Arc<F>,
    /// Entries of each thread.
    pub(crate) entries: u16,
    /// Threads for each CPU.
    pub(crate) threads: usize,
    /// Stay on the queue's CPU.
    pub(crate) pin: bool,
    /// Stand back for a lone client.
    pub(crate) lone: Option<Arc<SingleClientScheduler>>,
    pub(crate) request_bytes_max: usize,
}

/// What a thread serves.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WorkerQueues {
    /// The queue of each of its entries.
    queues: Vec<u16>,
    /// They are all one, whose CPU is online.
    is_used: bool,
}

/// What each thread serves, with so many `threads` of as many `entries` for each of the `used` among all `cpus`.
fn shares(cpus: u16, used: &[u16], threads: usize, entries: u16) -> Vec<WorkerQueues> {
    let (used, spare): (Vec<u16>, Vec<u16>) = (0..cpus).partition(|cpu| used.contains(cpu));
    let own = |cpu| WorkerQueues { queues: vec![cpu; entries.into()], is_used: true };
    let mut all: Vec<WorkerQueues> =
        used.into_iter().flat_map(|cpu| std::iter::repeat_n(own(cpu), threads)).collect();
    if !spare.is_empty() {
        all.push(WorkerQueues { queues: spare, is_used: false });
    }
    all
}

/// One thread, for one CPU's queue or for those of all CPUs that are not used.
struct Worker<F> {
    common: Arc<Common<F>>,
    share: WorkerQueues,
    /// Whether the request in each entry is parked.
    is_parked: Vec<Cell<bool>>,
    memory: Memory,
    mailbox: Arc<Mailbox>,
    /// The request in each entry.
    unique: Vec<Cell<u64>>,
    /// Entries whose answer another thread will post.
    out: Cell<usize>,
    place: Option<WorkerSlot>,
}

fn command(queue: u16, operation: u32, commit: u64, entry: usize) -> Entry128 {
    // struct fuse_uring_cmd_req: flags, commit id, number of the queue
    let mut command = [0; 80];
    command[8..16].copy_from_slice(&commit.to_ne_bytes());
    command[16..18].copy_from_slice(&queue.to_ne_bytes());
    opcode::UringCmd80::new(FUSE, operation).cmd(command).build().user_data(entry as u64)
}

fn registration(queue: u16, vectors: &[libc::iovec; 2], entry: usize) -> Entry128 {
    let mut command = [0; 80];
    command[16..18].copy_from_slice(&queue.to_ne_bytes());
    let addr = Some(vectors.as_ptr() as u64);
    let made = opcode::UringCmd80::new(FUSE, REGISTER).cmd(command).addr(addr);
    let mut made = made.build().user_data(entry as u64);
    // SAFETY: an Entry128 is a struct io_uring_sqe of 128 bytes, whose `len` lies there; the crate has no setter for
    // it.
    unsafe { (&raw mut made).cast::<u8>().add(SQE_LEN).cast::<u32>().write(2) };
    made
}

fn push(queue: &mut SubmissionQueue<'_, Entry128>, command: &Entry128) {
    // SAFETY: the memory that a command names lives as long as the ring, and there is one command per entry at most
    // (and the bell's), so the queue has space.
    let pushed = unsafe { queue.push(command) };
    debug_assert!(pushed.is_ok());
}

impl<F: FileSystem> Worker<F> {
    fn new(
        common: Arc<Common<F>>,
        share: WorkerQueues,
        parking: Arc<DeferredReplies>,
    ) -> io::Result<Worker<F>> {
        let entries = share.queues.len();
        Ok(Worker {
            place: common.lone.as_ref().filter(|_| share.is_used).map(SingleClientScheduler::place),
            memory: Memory::new(entries, common.request_bytes_max)?,
            common,
            share,
            mailbox: Arc::new(Mailbox::new(parking)?),
            is_parked: vec![Cell::new(false); entries],
            unique: vec![Cell::new(0); entries],
            out: Cell::new(0),
        })
    }

    /// Serves until the connection is gone. `ready` hears once whether the kernel took the entries.
    ///
    /// # Panics
    /// The ring fails later: the queue may have no other, and whoever waits for its answers would wait for ever.
    fn run(self, ready: &mpsc::Sender<io::Result<()>>) -> io::Result<()> {
        if self.common.pin && self.share.is_used {
            let mut beside = CpuSet::new();
            beside.set(self.share.queues[0].into());
            // A CPU that is not there now has no requests either.
            let _ = sched_setaffinity(None, &beside);
        }
        let mut ready = Some(ready);
        let served = match uring::ring(self.share.queues.len() as u16) {
            Ok(mut io) => self.serve(&mut io, &mut ready),
            Err(error) => Err(error),
        };
        if let Err(error) = &served {
            let Some(ready) = ready else { panic!("a queue is not served any more: {error}") };
            let _ = ready.send(Err(io::Error::new(error.kind(), error.to_string())));
        }
        served
    }

    fn serve(
        &self,
        io: &mut IoUring<Entry128>,
        ready: &mut Option<&mpsc::Sender<io::Result<()>>>,
    ) -> io::Result<()> {
        io.submitter().register_files(&[self.common.device.as_fd().as_raw_fd()])?;
        let mut io = Io::new(io);
        push(&mut io.submission, &self.mailbox.answers.hear().into());
        for (entry, vectors) in self.memory.vectors.iter().enumerate() {
            push(&mut io.submission, &registration(self.share.queues[entry], vectors, entry));
            self.memory.live.update(|live| live + 1);
        }
        let io = RefCell::new(io);
        let mut side = vec![0; SIDE_BYTES];
        let mut least = 0;
        while self.memory.live.get() > 0 {
            io.borrow_mut().enter(least)?;
            loop {
                let done = io.borrow_mut().completion.next();
                let Some(done) = done else { break };
                if done.user_data() == BELL {
                    if !io_uring::cqueue::more(done.flags()) {
                        push(&mut io.borrow_mut().submission, &self.mailbox.answers.hear().into());
                    }
                } else if done.result() >= 0 {
                    self.take(done.user_data() as usize, &io, &mut side);
                } else {
                    self.memory.live.update(|live| live - 1);
                    if ready.is_some() || !is_end(-done.result()) && !self.common.device.has_ended() {
                        return Err(io::Error::from_raw_os_error(-done.result()));
                    }
                }
            }
            if let Some(ready) = ready.take() {
                let _ = ready.send(Ok(()));
            }
            least = 1;
            if self.out.get() > 0 && self.give_back(self.mailbox.answers.take(), &mut io.borrow_mut()) {
                least = 0;
            }
        }
        Ok(())
    }

    /// Commits what other threads have answered; whether that was anything.
    fn give_back(&self, posted: Vec<PostedReply>, io: &mut Io<'_, Entry128>) -> bool {
        let any = !posted.is_empty();
        for (entry, result) in posted {
            self.out.update(|out| out - 1);
            if self.is_parked[usize::from(entry)].take() {
                self.mailbox.parking.leave();
            }
            let answer = result.map_or_else(Answer::Error, Answer::Owned);
            self.commit(entry.into(), &answer, &mut io.submission);
        }
        any
    }

    /// Whether a request waits for this thread, which is busy with that in `entry`. What has been answered meanwhile
    /// goes out.
    fn is_wanted(&self, entry: u16, io: &RefCell<Io<'_, Entry128>>) -> bool {
        // Called from within the answer to a request only, when nobody has it borrowed.
        let Ok(mut io) = io.try_borrow_mut() else { return false };
        if self.mailbox.answers.has_post() {
            self.give_back(self.mailbox.answers.take_but(entry), &mut io);
        }
        io.is_pending()
    }

    /// Serves the request in an entry.
    fn take(&self, entry: usize, io: &RefCell<Io<'_, Entry128>>, side: &mut [u8]) {
        // SAFETY: the kernel has completed the entry, so that its memory is this thread's until the answer is
        // submitted, and no reference to it is left from the request before.
        let head = unsafe { *self.memory.header(entry) };
        let room = self.memory.payload_bytes;
        let payload = self.memory.payload(entry);
        // SAFETY: as above; the payload has `room` bytes.
        let payload = unsafe { std::slice::from_raw_parts_mut(payload, room) };
        let answer = match Header::parse(&head) {
            Some(header) => {
                self.unique[entry].set(header.unique);
                if let Some(place) = &self.place {
                    place.takes(header.pid);
                }
                let given = u32::from_ne_bytes([
                    head[PAYLOAD_BYTES],
                    head[PAYLOAD_BYTES + 1],
                    head[PAYLOAD_BYTES + 2],
                    head[PAYLOAD_BYTES + 3],
                ]);
                let given = (given as usize).min(room);
                let fixed = &head[ARGUMENTS..ENTRY];
                let wanted = || self.is_wanted(entry as u16, io);
                let origin = Origin::Ring(&self.mailbox, entry as u16, &wanted);
                if header.opcode == wire::opcode::WRITE || given > SIDE_BYTES {
                    let request = Request::of_parts(header, fixed, &payload[..given]);
                    let answer = answer(&*self.common.fs, header.unique, request, side, origin);
                    if let Answer::InPlace(bytes) = answer {
                        payload[..bytes].copy_from_slice(&side[..bytes]);
                    }
                    answer
                } else {
                    side[..given].copy_from_slice(&payload[..given]);
                    let request = Request::of_parts(header, fixed, &side[..given]);
                    answer(&*self.common.fs, header.unique, request, payload, origin)
                }
            }
            None => Answer::Error(libc::EIO),
        };
        match answer {
            Answer::Later => self.out.update(|out| out + 1),
            Answer::Parked => {
                self.out.update(|out| out + 1);
                self.is_parked[entry].set(true);
            }
            answer => self.commit(entry, &answer, &mut io.borrow_mut().submission),
        }
    }

    /// Puts an answer into its entry and gives that back.
    fn commit(&self, entry: usize, answer: &Answer, submission: &mut SubmissionQueue<'_, Entry128>) {
        let room = self.memory.payload_bytes;
        let (errno, bytes) = match answer {
            Answer::Error(errno) => (*errno, 0),
            Answer::InPlace(bytes) => (0, *bytes),
            Answer::Owned(bytes) if bytes.len() <= room => {
                // SAFETY: the entry is this thread's, see `take`; the bytes are elsewhere and fit.
                unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory.payload(entry), bytes.len());
                }
                (0, bytes.len())
            }
            Answer::Owned(_) | Answer::Later | Answer::Parked => (libc::EIO, 0),
        };
        let unique = self.unique[entry].get();
        let out = out_header(unique, errno, bytes);
        // SAFETY: as above, of the header, which is long enough for both.
        let head = unsafe { &mut *self.memory.header(entry) };
        head[..OUT_HEADER_BYTES].copy_from_slice(&out);
        head[PAYLOAD_BYTES..PAYLOAD_BYTES + 4].copy_from_slice(&(bytes as u32).to_ne_bytes());
        push(submission, &command(self.share.queues[entry], COMMIT_AND_FETCH, unique, entry));
    }
}

/// Whether the kernel takes an entry back with this since the connection has ended. While it does, others come too
/// ([`Device::has_ended`]). After anything else its queue would have an entry less, and with none its requests would wait
/// for ever.
fn is_end(errno: i32) -> bool {
    matches!(errno, libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED | libc::ENODEV)
}

fn answer<F: FileSystem>(
    fs: &F,
    unique: u64,
    request: Option<Request<'_>>,
    memory: &mut [u8],
    origin: Origin<'_>,
) -> Answer {
    match request {
        None => Answer::Error(libc::EIO),
        Some(Request { operation: Operation::Unknown, .. }) => Answer::Error(libc::ENOSYS),
        Some(Request { operation: Operation::Init(_) | Operation::Interrupt { .. }, .. }) => {
            Answer::Error(libc::EIO)
        }
        Some(Request { operation: Operation::Destroy, .. }) => Answer::InPlace(0),
        Some(request) => fs.serve(&request, Reply { memory, origin, unique }).0,
    }
}

/// Starts the threads of the queues of `cpus` CPUs, of which those `used` have threads of their own. An error leaves requests
/// waiting.
pub(crate) fn start<F: FileSystem>(
    common: Common<F>,
    cpus: u16,
    used: &[u16],
    name: &str,
) -> io::Result<Vec<std::thread::JoinHandle<io::Result<()>>>> {
    let common = Arc::new(common);
    let (tell, told) = mpsc::channel();
    let mut running = Vec::new();
    let parking = || Arc::new(DeferredReplies::new(common.threads * usize::from(common.entries) / 2));
    let parking: Vec<Arc<DeferredReplies>> = (0..cpus).map(|_| parking()).collect();
    for share in shares(cpus, used, common.threads, common.entries) {
        let (common, tell) = (common.clone(), tell.clone());
        // A queue with one entry has none to spare for an answer that waits for others.
        let none = || Arc::new(DeferredReplies::new(0));
        let queue = share.queues[0];
        let parking = if share.is_used { parking[usize::from(queue)].clone() } else { none() };
        let of = if share.is_used { queue.to_string() } else { "-rest".into() };
        let named = std::thread::Builder::new().name(format!("{name}-ring{of}"));
        running.push(named.spawn(move || {
            let _guard = AbortOnPanic::new();
            match Worker::new(common, share, parking) {
                Ok(worker) => worker.run(&tell),
                Err(error) => {
                    let _ = tell.send(Err(io::Error::new(error.kind(), error.to_string())));
                    Err(error)
                }
            }
        })?);
    }
    drop(tell);
    for _ in 0..running.len() {
        told.recv().unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()))?;
    }
    Ok(running)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cpus_that_are_used_have_threads_of_their_own() {
        let two = shares(240, &[0, 1], 8, 1);
        assert_eq!(two.len(), 17, "eight for each of two, and one");
        assert!(two[..16].iter().all(|share| share.is_used && share.queues.len() == 1));
        assert_eq!(two[16], WorkerQueues { queues: (2..240).collect(), is_used: false });
        assert_eq!(
            shares(2, &[0, 1], 3, 4),
            [0, 0, 0, 1, 1, 1].map(|cpu| WorkerQueues { queues: vec![cpu; 4], is_used: true })
        );
        // One that is online and should not be possible has no queue.
        assert_eq!(shares(1, &[0, 7], 1, 1).len(), 1);
    }
}
