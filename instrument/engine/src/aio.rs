//! Asynchronous writes of a blocking target: an io_uring of the thread's own, or threads where there is none.
//!
//! Filebench uses POSIX `aio_write`, which glibc makes from helper threads. An io_uring gives the same promise (the call
//! returns when the write is queued) without them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use io_uring::{IoUring, opcode, types};

use crate::aligned::AlignedBuffer;

/// Most writes in flight; one more waits for the oldest.
const DEPTH: u32 = 256;

/// A write in flight.
struct Write {
    data: AlignedBuffer,
    file: RawFd,
    offset: u64,
    bytes: usize,
    written: usize,
}

/// The outstanding writes of one thread.
pub struct Aio {
    ring: IoUring,
    /// The write in each place; its memory stays until it is reaped.
    places: Vec<Option<Write>>,
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
        u32::try_from(data.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let (file, bytes) = (file.as_raw_fd(), data.len());
        self.places[place] = Some(Write { data: buffer, file, offset, bytes, written: 0 });
        self.push(place)?;
        self.ring.submit()?;
        Ok(())
    }

    /// Queues what is left of the write in a place.
    fn push(&mut self, place: usize) -> io::Result<()> {
        let Some(write) = &self.places[place] else { return Ok(()) };
        let left = &write.data[write.written..write.bytes];
        let entry = opcode::Write::new(types::Fd(write.file), left.as_ptr(), left.len() as u32)
            .offset(write.offset + write.written as u64)
            .build()
            .user_data(place as u64);
        // SAFETY: the buffer is kept in `places` until its completion is reaped; the ring has room for every place.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))
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
        let completions: Vec<(usize, i32)> = self
            .ring
            .completion()
            .map(|completion| (completion.user_data() as usize, completion.result()))
            .collect();
        completions.into_iter().filter(|(place, result)| self.completed(*place, *result)).count()
    }

    /// Takes a result; false when the write was short, and what is left of it is on its way.
    fn completed(&mut self, place: usize, result: i32) -> bool {
        let mut failure = (result < 0).then(|| io::Error::from_raw_os_error(-result));
        if let Some(write) = &mut self.places[place]
            && failure.is_none()
        {
            write.written += result as usize;
            if result > 0 && write.written < write.bytes {
                match self.push(place) {
                    Ok(()) => return false,
                    Err(error) => failure = Some(error),
                }
            } else if write.written < write.bytes {
                failure = Some(io::Error::from(io::ErrorKind::WriteZero));
            }
        }
        self.spare.extend(self.places[place].take().map(|write| write.data));
        self.free.push(place);
        self.failure = self.failure.take().or(failure);
        true
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that may not grow past the limit takes a write in part: the rest is asked for again, and fails as such.
    #[test]
    fn a_short_write_is_continued() {
        let file = tempfile::tempfile().unwrap();
        let mut aio = Aio::new().unwrap();
        let place = aio.free.pop().unwrap();
        let mut data = AlignedBuffer::new(8192);
        data[..8192].fill(7);
        let write = Write { data, file: file.as_raw_fd(), offset: 4096, bytes: 8192, written: 0 };
        aio.places[place] = Some(write);
        assert!(!aio.completed(place, 4096), "half of it is left");
        assert_eq!(aio.outstanding(), 1);
        assert_eq!(aio.wait(1).unwrap(), 1);
        assert_eq!(file.metadata().unwrap().len(), 4096 + 8192);
        let place = aio.free.pop().unwrap();
        let write = Write { data: AlignedBuffer::new(100), file: -1, offset: 0, bytes: 100, written: 0 };
        aio.places[place] = Some(write);
        assert!(aio.completed(place, 0), "nothing was taken: it is not asked again");
        assert!(aio.failure.is_some());
    }
}
