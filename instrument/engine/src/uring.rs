//! io_uring: many operations of one thread in flight.
//!
//! Each WML thread has a ring and runs `depth` lanes of its program over it. A lane that reads, writes or syncs puts an
//! entry into the ring and stops there; when the completion comes, that lane alone is polled again. Metadata calls
//! (open, stat, unlink ...) block the thread, as they do for other io_uring load generators.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use io_uring::{IoUring, opcode, squeue, types};
use rustix::fs::{AtFlags, Mode};

use crate::clock::Clock;
use crate::control::Control;
use crate::event::Event;
use crate::lane::{Lane, LaneEnd};
use crate::psync;
use crate::target::{OpenHow, Target};

/// Deepest queue for one thread.
pub const DEPTH_MAX: u32 = 4096;

/// How long the thread naps when every lane waits for something other than the ring.
const NAP_NS: u64 = 50_000;

/// What a lane waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitState {
    /// Nothing: poll it.
    Ready,
    /// A completion.
    Ring,
    /// Time, or another thread: poll it now and then.
    Elsewhere,
}

struct LaneSlot {
    waits: Cell<WaitState>,
    result: Cell<i32>,
}

/// Files below a directory, through a ring of the calling thread.
pub struct Uring<'a> {
    root: BorrowedFd<'a>,
    clock: Clock,
    control: &'a Control,
    ring: RefCell<IoUring>,
    places: Vec<LaneSlot>,
    current: Cell<usize>,
    in_flight: Cell<usize>,
    /// Results come later than the submission, so that each entry is submitted at once: what is collected first reaches the device in
    /// bursts, with nothing to do between them. A result that is there at once costs less when many entries are one call.
    is_late: Cell<bool>,
    /// Lanes that wait for something other than the ring.
    elsewhere: Cell<usize>,
    list_buffer: RefCell<Vec<MaybeUninit<u8>>>,
}

impl<'a> Uring<'a> {
    /// A ring for `depth` lanes. Fails when the kernel refuses io_uring.
    pub fn new(root: BorrowedFd<'a>, control: &'a Control, depth: u32) -> io::Result<Uring<'a>> {
        if !(1..=DEPTH_MAX).contains(&depth) {
            let message = format!("queue depth {depth} is not between 1 and {DEPTH_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .build(depth.next_power_of_two())
            .or_else(|_| IoUring::new(depth.next_power_of_two()))
            .map_err(|error| {
                let hint =
                    "io_uring is not available; use --io psync, or see /proc/sys/kernel/io_uring_disabled";
                io::Error::new(error.kind(), format!("{hint} ({error})"))
            })?;
        let place = || LaneSlot { waits: Cell::new(WaitState::Ready), result: Cell::new(0) };
        Ok(Uring {
            root,
            clock: Clock::get(),
            control,
            ring: RefCell::new(ring),
            places: (0..depth).map(|_| place()).collect(),
            current: Cell::new(0),
            in_flight: Cell::new(0),
            is_late: Cell::new(false),
            elsewhere: Cell::new(0),
            list_buffer: RefCell::new(Vec::new()),
        })
    }

    /// Runs all lanes to their ends.
    pub fn run<'l>(&self, lanes: Vec<Lane<'l, Self>>) -> Vec<(Lane<'l, Self>, LaneEnd)>
    where
        Self: 'l,
    {
        type Running<'f, 'l, 'a> = Pin<Box<dyn Future<Output = (Lane<'l, Uring<'a>>, LaneEnd)> + 'f>>;
        let start = |mut lane: Lane<'l, Self>| async move {
            let end = lane.run().await;
            (lane, end)
        };
        let mut running: Vec<Option<Running<'l, 'l, 'a>>> =
            lanes.into_iter().map(|lane| Some(Box::pin(start(lane)) as Running<'l, 'l, 'a>)).collect();
        let mut ended = Vec::with_capacity(running.len());
        let mut context = Context::from_waker(Waker::noop());
        let mut ready: Vec<usize> = (0..running.len()).collect();
        while ended.len() < running.len() {
            for number in ready.drain(..) {
                let Some(lane) = &mut running[number] else { continue };
                self.current.set(number);
                if let Poll::Ready(result) = lane.as_mut().poll(&mut context) {
                    ended.push(result);
                    running[number] = None;
                    self.places[number].waits.set(WaitState::Ring);
                }
            }
            self.gather(&mut ready);
        }
        ended
    }

    /// Submits what was queued, waits for something to happen, and lists the lanes that can go on.
    fn gather(&self, ready: &mut Vec<usize>) {
        let others = self.elsewhere.get() > 0;
        let mut ring = self.ring.borrow_mut();
        if self.in_flight.get() > 0 {
            // EINTR and EAGAIN: the loop comes back here.
            if !ring.submission().is_empty() {
                let _ = ring.submit();
            }
            let there = ring.completion().len();
            self.is_late.set(there < self.in_flight.get());
            if there == 0 && !others {
                let _ = ring.submit_and_wait(1);
            }
        }
        for completion in ring.completion() {
            let number = completion.user_data() as usize;
            self.in_flight.set(self.in_flight.get() - 1);
            self.places[number].result.set(completion.result());
            self.places[number].waits.set(WaitState::Ready);
            ready.push(number);
        }
        drop(ring);
        if others {
            if ready.is_empty() {
                Event::default().block(0, NAP_NS);
            }
            let places = self.places.iter().enumerate();
            ready.extend(
                places
                    .filter(|(_, place)| place.waits.get() == WaitState::Elsewhere)
                    .map(|(number, _)| number),
            );
        }
    }

    /// Queues one entry for the present lane and waits for its completion.
    fn submit(&self, entry: squeue::Entry) -> io::Result<Completion<'_, 'a>> {
        let lane = self.current.get();
        let entry = entry.user_data(lane as u64);
        let mut ring = self.ring.borrow_mut();
        // SAFETY: the buffers of the entry belong to the lane's future, which is not polled before the completion,
        // and neither moved nor dropped while the ring has it in flight (`run` polls every lane to its end).
        let pushed = unsafe { ring.submission().push(&entry) };
        if pushed.is_err() {
            ring.submit()?;
            // SAFETY: as above.
            unsafe { ring.submission().push(&entry) }
                .map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        }
        self.places[lane].waits.set(WaitState::Ring);
        self.in_flight.set(self.in_flight.get() + 1);
        if self.is_late.get() {
            // EAGAIN, EBUSY: what is left is submitted before the next wait.
            let _ = ring.submit();
        }
        Ok(Completion { uring: self, lane })
    }

    async fn transfer(&self, entry: squeue::Entry) -> io::Result<usize> {
        let result = self.submit(entry)?.await;
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result as usize) }
    }

    /// Lets the other lanes go on until this one is looked at again.
    fn pause(&self) -> Elsewhere<'_, 'a> {
        Elsewhere { uring: self, left: false }
    }
}

struct Completion<'u, 'a> {
    uring: &'u Uring<'a>,
    lane: usize,
}

impl Future for Completion<'_, '_> {
    type Output = i32;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<i32> {
        let place = &self.uring.places[self.lane];
        match place.waits.get() {
            WaitState::Ready => Poll::Ready(place.result.get()),
            _ => Poll::Pending,
        }
    }
}

struct Elsewhere<'u, 'a> {
    uring: &'u Uring<'a>,
    left: bool,
}

impl Future for Elsewhere<'_, '_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let place = &self.uring.places[self.uring.current.get()];
        if std::mem::replace(&mut self.left, true) {
            place.waits.set(WaitState::Ready);
            self.uring.elsewhere.set(self.uring.elsewhere.get() - 1);
            return Poll::Ready(());
        }
        place.waits.set(WaitState::Elsewhere);
        self.uring.elsewhere.set(self.uring.elsewhere.get() + 1);
        Poll::Pending
    }
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

impl Target for Uring<'_> {
    type File = OwnedFd;

    #[inline(always)]
    fn now(&self) -> u64 {
        self.clock.now()
    }

    async fn sleep_until(&self, deadline_ns: u64) {
        while self.clock.now() < deadline_ns && !self.control.stopped() {
            self.pause().await;
        }
    }

    async fn wait(&self, event: &Event, seen: u32) {
        while event.seen() == seen && !self.control.stopped() {
            self.pause().await;
        }
    }

    async fn open(&self, path: &CStr, how: OpenHow) -> io::Result<OwnedFd> {
        psync::open(self.root, path, how)
    }

    async fn close(&self, file: OwnedFd) -> io::Result<()> {
        // SAFETY: the descriptor is owned here and not used again.
        unsafe { rustix::io::try_close(file.into_raw_fd()) }?;
        Ok(())
    }

    async fn read_at(&self, file: &OwnedFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let entry =
            opcode::Read::new(types::Fd(file.as_raw_fd()), buffer.as_mut_ptr(), length(buffer.len())?);
        self.transfer(entry.offset(offset).build()).await
    }

    async fn write_at(&self, file: &OwnedFd, data: &[u8], offset: u64) -> io::Result<usize> {
        let entry = opcode::Write::new(types::Fd(file.as_raw_fd()), data.as_ptr(), length(data.len())?);
        self.transfer(entry.offset(offset).build()).await
    }

    async fn append(&self, file: &OwnedFd, data: &[u8]) -> io::Result<usize> {
        let entry = opcode::Write::new(types::Fd(file.as_raw_fd()), data.as_ptr(), length(data.len())?);
        self.transfer(entry.offset(0).rw_flags(libc::RWF_APPEND).build()).await
    }

    async fn fsync(&self, file: &OwnedFd) -> io::Result<()> {
        self.transfer(opcode::Fsync::new(types::Fd(file.as_raw_fd())).build()).await?;
        Ok(())
    }

    async fn fdatasync(&self, file: &OwnedFd) -> io::Result<()> {
        let entry = opcode::Fsync::new(types::Fd(file.as_raw_fd())).flags(types::FsyncFlags::DATASYNC);
        self.transfer(entry.build()).await?;
        Ok(())
    }

    async fn truncate(&self, file: &OwnedFd, length: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(file, length)?)
    }

    async fn direct_alignment(&self, file: &OwnedFd) -> u64 {
        psync::direct_alignment(file.as_fd())
    }

    async fn stat(&self, path: &CStr) -> io::Result<u64> {
        Ok(rustix::fs::statat(self.root, path, AtFlags::empty())?.st_size as u64)
    }

    async fn stat_open(&self, file: &OwnedFd) -> io::Result<u64> {
        Ok(rustix::fs::fstat(file)?.st_size as u64)
    }

    async fn unlink(&self, path: &CStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.root, path, AtFlags::empty())?)
    }

    async fn make_dir(&self, path: &CStr) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(self.root, path, Mode::from_raw_mode(0o755))?)
    }

    async fn remove_dir(&self, path: &CStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.root, path, AtFlags::REMOVEDIR)?)
    }

    async fn list_dir(&self, path: &CStr) -> io::Result<(u64, u64)> {
        psync::list_dir(self.root, path, &mut self.list_buffer.borrow_mut())
    }

    /// With a queue of its own a lane's `aiowrite` is a write: the other lanes go on meanwhile.
    async fn aio_write(&self, file: &OwnedFd, data: &[u8], offset: u64) -> io::Result<()> {
        let mut written = 0;
        while written < data.len() {
            match self.write_at(file, &data[written..], offset + written as u64).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                more => written += more,
            }
        }
        Ok(())
    }

    async fn aio_wait(&self, _at_least: usize) -> io::Result<usize> {
        Ok(0)
    }

    fn aio_outstanding(&self) -> usize {
        0
    }
}

/// Whether the kernel lets this process use io_uring.
pub fn available() -> io::Result<()> {
    IoUring::new(2).map(drop)
}
