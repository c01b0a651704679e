//! FUSE over io_uring (Linux 6.14, Documentation/filesystems/fuse/fuse-io-uring.rst): requests of each CPU arrive in
//! a ring of their own, and an answer fetches the next request in the same system call.
//!
//! The handshake and what is rare stay with `/dev/fuse`. An entry of a ring belongs to the kernel until it completes,
//! then to this process until its answer is handed over; whoever has the request has the entry's memory.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use io_uring::squeue::Entry128;
use io_uring::{IoUring, opcode, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::driver::{Answer, Driver};
use crate::engine::Outcome;
use crate::fuse::{REQUEST_BYTES_MAX, Reply};
use crate::wire::{Call, Carries, HEADER_BYTES, Todo};

/// Requests in flight per CPU; more wait in the kernel.
const ENTRIES: usize = 64;
const HEADER_PAGE: usize = 4096;
const ENTRY_BYTES: usize = HEADER_PAGE + REQUEST_BYTES_MAX as usize;
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;
const ENTER_GETEVENTS: u32 = 1;
/// User data of the command that ends when somebody wakes the ring's thread.
const WOKEN: u64 = u64::MAX;
/// Offset of `len` in `struct io_uring_sqe`.
const SQE_LEN: usize = 24;

thread_local! {
    /// The ring that this thread waits on.
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// One ring: the requests of one CPU.
#[derive(Debug)]
struct Ring {
    number: u16,
    fuse: OwnedFd,
    io: Rings,
    /// Held while entries are put into the submission queue; whether the ring's thread sleeps.
    submission: Mutex<bool>,
    /// Written to wake it.
    bell: OwnedFd,
    /// Something was pushed and not yet submitted.
    queued: AtomicBool,
    memory: *mut u8,
    /// Header and payload of each entry, for the kernel.
    vectors: Vec<[libc::iovec; 2]>,
}

struct Rings(IoUring<Entry128>);

impl std::fmt::Debug for Rings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IoUring")
    }
}

// SAFETY: the memory is reached through entries only, each of which has one holder at a time (see above); the
// submission queue is used under a lock, the completion queue by the ring's own thread.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// A request that waits for its answer.
#[derive(Debug)]
pub(crate) struct Waiting {
    ring: Arc<Ring>,
    entry: usize,
    call: Call,
    carries: Carries,
}

impl Answer for Waiting {
    fn answer(self, outcome: Outcome) {
        let mut written = [0; 8];
        let result = match (&outcome, self.carries) {
            (Outcome::Failed(error), _) => Err(*error),
            (Outcome::Data(data), Carries::Data) => Ok(&data[..]),
            (Outcome::Done, Carries::Written(bytes)) => {
                written[..4].copy_from_slice(&bytes.to_ne_bytes());
                Ok(&written[..])
            }
            (Outcome::Done, Carries::Nothing) => Ok(&[][..]),
            _ => Err(libc::EIO),
        };
        self.ring.answer(self.entry, &self.call, result);
    }
}

impl Ring {
    fn new(number: u16, fuse: OwnedFd) -> io::Result<Ring> {
        let io = IoUring::<Entry128>::builder().build(ENTRIES as u32 + 1)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that exists.
        let memory = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                ENTRIES * ENTRY_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let memory = memory.cast::<u8>();
        let vectors = (0..ENTRIES).map(|entry| {
            let header = memory.wrapping_add(entry * ENTRY_BYTES);
            let part = |start: *mut u8, bytes| libc::iovec { iov_base: start.cast(), iov_len: bytes };
            [part(header, HEADER_BYTES), part(header.wrapping_add(HEADER_PAGE), REQUEST_BYTES_MAX as usize)]
        });
        let vectors = vectors.collect();
        Ok(Ring {
            number,
            fuse,
            io: Rings(io),
            submission: Mutex::new(false),
            bell,
            queued: AtomicBool::new(false),
            memory,
            vectors,
        })
    }

    fn header(&self, entry: usize) -> *mut [u8; HEADER_BYTES] {
        self.memory.wrapping_add(entry * ENTRY_BYTES).cast()
    }

    fn payload(&self, entry: usize) -> *mut u8 {
        self.memory.wrapping_add(entry * ENTRY_BYTES + HEADER_PAGE)
    }

    fn command(&self, operation: u32, commit: u64, entry: usize) -> Entry128 {
        // struct fuse_uring_cmd_req: flags, commit id, number of the ring
        let mut command = [0; 80];
        command[8..16].copy_from_slice(&commit.to_ne_bytes());
        command[16..18].copy_from_slice(&self.number.to_ne_bytes());
        let fuse = types::Fd(self.fuse.as_raw_fd());
        let made = opcode::UringCmd80::new(fuse, operation).cmd(command);
        if operation != REGISTER {
            return made.build().user_data(entry as u64);
        }
        let vectors = &raw const self.vectors[entry];
        let mut made = made.addr(Some(vectors as u64)).build().user_data(entry as u64);
        // SAFETY: an Entry128 is a struct io_uring_sqe of 128 bytes, whose `len` lies there; the crate has no
        // setter for it.
        unsafe { (&raw mut made).cast::<u8>().add(SQE_LEN).cast::<u32>().write(2) };
        made
    }

    /// Lets the ring's own thread submit a command when it waits again. (The kernel runs the arrival of an entry's
    /// next request in the thread that submitted its command: that must be the one that takes the request.)
    fn push(&self, command: &Entry128) {
        let mut sleeps = self.submission.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: under the lock nobody else uses the submission queue. The memory that the command names lives
        // as long as the ring. There is one command per entry at most, so the queue has space.
        let pushed = unsafe { self.io.0.submission_shared().push(command) };
        debug_assert!(pushed.is_ok());
        self.queued.store(true, Ordering::Relaxed);
        if *sleeps && MINE.get() != usize::from(self.number) {
            *sleeps = false;
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Hears the bell, once or (as kernels from 5.13 on do) each time.
    fn listen(&self) {
        let bell = types::Fd(self.bell.as_raw_fd());
        let edge = (libc::EPOLLIN | libc::EPOLLET) as u32;
        let poll = opcode::PollAdd::new(bell, edge).multi(true).build().user_data(WOKEN);
        self.push(&poll.into());
    }

    fn answer(&self, entry: usize, call: &Call, result: Result<&[u8], i32>) {
        let (error, bytes) = match result {
            Ok(bytes) if bytes.len() <= REQUEST_BYTES_MAX as usize => (0, bytes),
            Ok(_) => (libc::EIO, &[][..]),
            Err(error) => (error, &[][..]),
        };
        // SAFETY: the request has not been answered, so its entry's memory is its holder's alone; payload and
        // header have room for what is put there, and `bytes` lies elsewhere.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.payload(entry), bytes.len());
            call.answer(&mut *self.header(entry), error, bytes.len());
        }
        self.push(&self.command(COMMIT_AND_FETCH, call.commit, entry));
    }

    /// Whether a request has arrived that its thread has not seen. Looked at while that thread spins for another
    /// answer, so that what has been answered meanwhile goes out.
    fn has_more(&self) -> bool {
        if self.queued.load(Ordering::Relaxed)
            && let Err(error) = self.enter(false)
        {
            eprintln!("ring {}: {error}", self.number);
        }
        // SAFETY: only the ring's own thread comes here.
        unsafe { !self.io.0.completion_shared().is_empty() }
    }

    fn next(&self) -> Option<io_uring::cqueue::Entry> {
        // SAFETY: only the ring's own thread comes here.
        unsafe { self.io.0.completion_shared().next() }
    }

    /// Submits what this thread has pushed; with `wait`, until a request has come.
    fn enter(&self, wait: bool) -> io::Result<()> {
        let pushed = {
            let mut sleeps = self.submission.lock().unwrap_or_else(PoisonError::into_inner);
            *sleeps = wait;
            self.queued.store(false, Ordering::Relaxed);
            // SAFETY: under the lock nobody else uses the submission queue.
            unsafe { self.io.0.submission_shared().len() }
        };
        let (least, flags) = if wait { (1, ENTER_GETEVENTS) } else { (0, 0) };
        // SAFETY: no argument is passed; the commands' memory lives as long as the ring.
        match unsafe { self.io.0.submitter().enter::<libc::sigset_t>(pushed as u32, least, flags, None) } {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Registers the entries and serves requests until the connection is gone. `registered` hears once whether the
    /// kernel took them.
    fn serve(
        self: &Arc<Ring>,
        driver: &Driver<Reply>,
        bytes: u64,
        registered: &mpsc::Sender<io::Result<()>>,
    ) {
        MINE.set(self.number.into());
        // requests of a CPU come to its ring: the thread beside them needs no other CPU to wake up
        let mut beside = CpuSet::new();
        beside.set(self.number.into());
        let _ = sched_setaffinity(None, &beside);
        self.listen();
        for entry in 0..ENTRIES {
            self.push(&self.command(REGISTER, 0, entry));
        }
        // a refusal is there when this returns, a request may be
        let mut tell = Some(registered);
        let mut entered = self.enter(false);
        let mut live = ENTRIES;
        loop {
            if let Err(error) = entered {
                match tell {
                    Some(tell) => drop(tell.send(Err(error))),
                    None => eprintln!("ring {}: {error}", self.number),
                }
                return;
            }
            while let Some(done) = self.next() {
                if done.user_data() == WOKEN {
                    if !io_uring::cqueue::more(done.flags()) {
                        self.listen();
                    }
                } else if done.result() >= 0 {
                    self.handle(done.user_data() as usize, driver, bytes);
                } else {
                    live -= 1;
                    if let Some(tell) = tell.take() {
                        let _ = tell.send(Err(io::Error::from_raw_os_error(-done.result())));
                    }
                    if live == 0 {
                        return;
                    }
                }
            }
            if let Some(tell) = tell.take() {
                let _ = tell.send(Ok(()));
            }
            entered = self.enter(true);
        }
    }

    fn handle(self: &Arc<Ring>, entry: usize, driver: &Driver<Reply>, bytes: u64) {
        // SAFETY: the kernel has completed the entry, so its memory is ours until the answer; the kernel wrote
        // header and `payload` bytes of payload, which the parser checks nothing of but what it returns.
        let call = unsafe { Call::parse(&*self.header(entry)) };
        let length = call.payload.min(REQUEST_BYTES_MAX as usize);
        // SAFETY: as above; `submit` does not keep the slice.
        let payload = unsafe { std::slice::from_raw_parts(self.payload(entry), length) };
        match call.todo(payload, bytes) {
            Todo::Answer(bytes) => self.answer(entry, &call, Ok(&bytes)),
            Todo::Fail(error) => self.answer(entry, &call, Err(error)),
            Todo::Ask(ask, carries) => {
                let waiting = Waiting { ring: self.clone(), entry, call, carries };
                driver.submit_until(ask, Reply::Ring(waiting), true, || self.has_more());
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`. The ring's thread has ended, which it does when the kernel has let
        // go of every entry, and no request waits.
        let _ = unsafe { munmap(self.memory.cast(), ENTRIES * ENTRY_BYTES) };
    }
}

/// Serves the connection of `fuse`, which has been shaken hands on, with a ring and a thread per possible CPU. An
/// error leaves requests waiting: abort the connection then.
pub(crate) fn serve(fuse: &OwnedFd, driver: &Arc<Driver<Reply>>, bytes: u64, cpus: u16) -> io::Result<()> {
    let (tell, told) = mpsc::channel();
    for number in 0..cpus {
        let ring = Arc::new(Ring::new(number, fuse.try_clone()?)?);
        let (driver, tell) = (driver.clone(), tell.clone());
        let named = std::thread::Builder::new().name(format!("ring-{number}"));
        named.spawn(move || ring.serve(&driver, bytes, &tell))?;
    }
    drop(tell);
    (0..cpus).try_for_each(|_| told.recv().unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into())))
}
