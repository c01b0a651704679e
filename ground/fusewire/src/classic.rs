//! Requests through `/dev/fuse`: threads that read one, answer it with a write, and read the next.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use crate::duty::Duty;
use crate::serve::{Answer, FileSystem, Origin, Reply};
use crate::wire::{IN_HEADER_BYTES, OUT_HEADER_BYTES, Operation, Request};

/// Bytes of fixed arguments, at most, before the data of a write.
const ARGUMENTS_BYTES: usize = 4096 - IN_HEADER_BYTES;
/// `FUSE_DEV_IOC_CLONE` of linux/fuse.h: `_IOR(229, 0, uint32_t)`.
const IOC_CLONE: libc::c_ulong = 0x8004_e500;

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

    /// Answers a request. Nobody waits any more for one that cannot be answered.
    pub(crate) fn answer(&self, unique: u64, errno: i32, bytes: &[u8]) {
        let header = out_header(unique, errno, bytes.len());
        let _ = rustix::io::writev(&self.0, &[IoSlice::new(&header), IoSlice::new(bytes)]);
    }

    fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
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

/// Reads the kernel's first request, which is INIT.
pub(crate) fn read_init(device: &Device) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 8192 + IN_HEADER_BYTES];
    match device.read(&mut buffer)? {
        Some(bytes) => Ok(bytes.to_vec()),
        None => Err(io::Error::other("unmounted before the handshake")),
    }
}

/// One thread.
pub(crate) struct Worker<F> {
    pub(crate) device: Arc<Device>,
    pub(crate) fs: Arc<F>,
    pub(crate) duty: Option<Arc<Duty>>,
    pub(crate) request_bytes_max: usize,
}

impl<F: FileSystem> Worker<F> {
    /// Serves until the connection is gone.
    pub(crate) fn run(&self) -> io::Result<()> {
        let served = self.run_on();
        if let Some(duty) = &self.duty {
            // Nobody else may come to call those who rest.
            duty.end();
        }
        served
    }

    fn run_on(&self) -> io::Result<()> {
        // Both are taken from the system as they are touched.
        let mut asked = vec![0; self.request_bytes_max + IN_HEADER_BYTES + ARGUMENTS_BYTES];
        let mut told = vec![0; self.request_bytes_max + OUT_HEADER_BYTES];
        while let Some(bytes) = self.device.read(&mut asked)? {
            match Request::parse(bytes) {
                Some(request) => self.take(&request, &mut told),
                None => {
                    if let Some(header) = crate::wire::Header::parse(bytes) {
                        self.device.answer(header.unique, libc::EIO, &[]);
                    }
                }
            }
        }
        Ok(())
    }

    fn take(&self, request: &Request<'_>, told: &mut [u8]) {
        let header = &request.header;
        match request.operation {
            Operation::Forget { lookups } => self.fs.forget(header.node, lookups),
            Operation::BatchForget(all) => {
                all.iter().for_each(|(node, lookups)| self.fs.forget(node, lookups));
            }
            // ENOSYS: no interrupts, please.
            Operation::Interrupt { .. } | Operation::Unknown => {
                self.device.answer(header.unique, libc::ENOSYS, &[]);
            }
            Operation::Destroy => self.device.answer(header.unique, 0, &[]),
            Operation::Init(_) => self.device.answer(header.unique, libc::EIO, &[]),
            _ => self.serve(request, told),
        }
    }

    fn serve(&self, request: &Request<'_>, told: &mut [u8]) {
        let waits = self.fs.may_wait(&request.operation);
        if let Some(duty) = &self.duty
            && waits
        {
            duty.slow();
        }
        let unique = request.header.unique;
        let (head, memory) = told.split_at_mut(OUT_HEADER_BYTES);
        let reply = Reply { memory, origin: Origin::Device(&self.device), unique };
        match self.fs.serve(request, reply).0 {
            Answer::Error(errno) => self.device.answer(unique, errno, &[]),
            Answer::InPlace(bytes) => {
                head.copy_from_slice(&out_header(unique, 0, bytes));
                let _ = rustix::io::write(&self.device.0, &told[..OUT_HEADER_BYTES + bytes]);
            }
            Answer::Owned(bytes) => self.device.answer(unique, 0, &bytes),
            Answer::Later => {}
        }
        if let Some(duty) = &self.duty
            && !waits
        {
            duty.done();
        }
    }
}
