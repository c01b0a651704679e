//! Asynchronous writes of a blocking target: an io_uring of the thread's own, or threads where there is none.
//!
//! Filebench uses POSIX `aio_write`, which glibc makes from helper threads. An io_uring gives the same promise (the call
//! returns when the write is queued) without them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};

use crate::aligned::AlignedBuffer;

/// Most writes in flight; one more waits for the oldest.
const DEPTH: u32 = 256;

/// The outstanding writes of one thread.
pub struct Aio {
    ring: IoUring,
    /// Data of the write in each place; the memory stays until the write is reaped.
    places: Vec<Option<AlignedBuffer>>,
    free: Vec<usize>,
    spare: Vec<AlignedBuffer>,
    failure: Option<io::Error>,
}

impl Aio {
    /// An empty set of writes. Fails where the kernel refuses io_uring.
    pub fn new() -> io::Result<Aio> {
        let ring = IoUring::new(DEPTH).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("aiowrite needs io_uring: {error} (see /proc/sys/kernel/io_uring_disabled)"),
            )
        })?;
        let free = (0..DEPTH as usize).rev().collect();
        Ok(Aio { ring, places: (0..DEPTH).map(|_| None).collect(), free, spare: Vec::new(), failure: None })
    }

    /// Writes in flight.
    pub fn outstanding(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Queues a write of a copy of `data`.
    pub fn write(&mut self, file: BorrowedFd<'_>, data: &[u8], offset: u64) -> io::Result<()> {
        if self.free.is_empty() {
            self.wait(1)?;
        }
        let place = self.free.pop().expect("a place is free after a wait");
        let mut buffer = match self.spare.pop() {
            Some(buffer) if buffer.len() >= data.len() => buffer,
            _ => AlignedBuffer::new(data.len()),
        };
        buffer[..data.len()].copy_from_slice(data);
        let length = u32::try_from(data.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let entry = opcode::Write::new(types::Fd(file.as_raw_fd()), buffer.as_ptr(), length)
            .offset(offset)
            .build()
            .user_data(place as u64);
        self.places[place] = Some(buffer);
        // SAFETY: the buffer is kept in `places` until its completion is reaped; the ring has room for every place.
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        self.ring.submit()?;
        Ok(())
    }

    /// Reaps at least `at_least` writes (or all there are) and returns how many; the first failure among them is
    /// the error.
    pub fn wait(&mut self, at_least: usize) -> io::Result<usize> {
        let wanted = at_least.min(self.outstanding());
        let mut reaped = 0;
        loop {
            reaped += self.reap();
            if reaped >= wanted {
                break;
            }
            match self.ring.submit_and_wait(wanted - reaped) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => drop(other?),
            }
        }
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(reaped),
        }
    }

    fn reap(&mut self) -> usize {
        let mut reaped = 0;
        for completion in self.ring.completion() {
            let place = completion.user_data() as usize;
            self.spare.extend(self.places[place].take());
            self.free.push(place);
            reaped += 1;
            if completion.result() < 0 && self.failure.is_none() {
                self.failure = Some(io::Error::from_raw_os_error(-completion.result()));
            }
        }
        reaped
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // The kernel still reads the buffers: they may go only when every write is done.
        while self.outstanding() > 0 {
            let before = self.outstanding();
            let _ = self.wait(before);
            if self.outstanding() == before {
                std::mem::take(&mut self.places).into_iter().flatten().for_each(std::mem::forget);
                return;
            }
        }
    }
}
