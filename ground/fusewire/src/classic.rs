//! Requests through `/dev/fuse`: threads that read one, answer it with a write, and read the next.

use std::io;
use std::sync::Arc;

use crate::device::{Device, out_header};
use crate::serve::{Answer, FileSystem, Origin, Reply};
use crate::throttle::WorkerThrottle;
use crate::wire::{IN_HEADER_BYTES, OUT_HEADER_BYTES, Operation, Request};

/// Bytes of fixed arguments, at most, before the data of a write.
const ARGUMENTS_BYTES: usize = 4096 - IN_HEADER_BYTES;

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
    pub(crate) duty: Option<Arc<WorkerThrottle>>,
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
            self.one(bytes, &mut told);
        }
        Ok(())
    }

    /// Serves what has come; `told` has room for the answer.
    pub(crate) fn one(&self, bytes: &[u8], told: &mut [u8]) {
        match Request::parse(bytes) {
            Some(request) => self.take(&request, told),
            None => {
                if let Some(header) = crate::wire::Header::parse(bytes) {
                    self.device.answer(header.unique, libc::EIO, &[]);
                }
            }
        }
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
            Answer::Later | Answer::Parked => {}
        }
        if let Some(duty) = &self.duty
            && !waits
        {
            duty.done();
        }
    }
}
