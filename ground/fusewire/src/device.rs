//! The connection to the kernel: an open `/dev/fuse`.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::wire::OUT_HEADER_BYTES;

/// A poll that does not wait.
pub(crate) const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// `FUSE_DEV_IOC_CLONE` of linux/fuse.h: `_IOR(229, 0, uint32_t)`.
const IOC_CLONE: libc::Ioctl = 0x8004_e500_u32 as libc::Ioctl;

/// An open connection.
#[derive(Debug)]
pub(crate) struct Device(pub(crate) OwnedFd);

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Device {
    /// The same connection with a queue of its own for requests in work, which spares threads each other's lock.
    pub(crate) fn cloned(&self) -> io::Result<Device> {
        let fuse = rustix::fs::open(
            "/dev/fuse",
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )?;
        let mut source = self.0.as_raw_fd() as u32;
        // SAFETY: the request reads one u32, which is there.
        let done = unsafe { libc::ioctl(fuse.as_raw_fd(), IOC_CLONE, &raw mut source) };
        if done == 0 { Ok(Device(fuse)) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether the kernel has ended the connection.
    pub(crate) fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(self, PollFlags::empty())];
        poll(&mut polled, Some(&NOW)).is_ok() && polled[0].revents().contains(PollFlags::ERR)
    }

    /// Answers a request. Nobody waits any more for one that cannot be answered.
    pub(crate) fn answer(&self, unique: u64, errno: i32, bytes: &[u8]) {
        let header = out_header(unique, errno, bytes.len());
        let _ = rustix::io::writev(&self.0, &[IoSlice::new(&header), IoSlice::new(bytes)]);
    }

    /// The next request; None when the connection is gone.
    pub(crate) fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        loop {
            match rustix::io::read(&self.0, &mut *buffer) {
                Ok(bytes) => return Ok(Some(&buffer[..bytes])),
                // The request was taken back before it could be read.
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
                // Unmounted; and aborted, which a thread learns that reads again before the mount is gone. Over
                // io_uring both end the same way.
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

pub(crate) fn out_header(unique: u64, errno: i32, bytes: usize) -> [u8; OUT_HEADER_BYTES] {
    let mut header = [0; OUT_HEADER_BYTES];
    header[..4].copy_from_slice(&((OUT_HEADER_BYTES + bytes) as u32).to_ne_bytes());
    header[4..8].copy_from_slice(&(-errno).to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}
