//! What a stream's transfers go through: the kernel, by one of three interfaces, or a file system in this process.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use io_uring::{IoUring, opcode, types};
use rustix::fs::{Advice, AtFlags, FallocateFlags, Mode, OFlags};
use workload::stream::QueueEngine;

use super::aio::Aio;
use super::mapped::Mapping;
use super::next::{READ, TRIM};
use super::open::OpenMode;
use crate::volume::Volume;

/// Results of operations that were in flight: place, and bytes or an error.
pub(crate) type Done = Vec<(usize, io::Result<usize>)>;

/// A transfer: [`READ`], write or [`TRIM`], of memory at an offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    pub way: usize,
    pub buffer: *mut u8,
    pub bytes: usize,
    pub offset: u64,
}

/// What transfers go through.
pub(crate) trait Port {
    /// An open file.
    type File;
    /// Opens a file.
    fn open(&self, path: &CStr, how: OpenMode) -> io::Result<Self::File>;
    /// Closes it.
    fn close(&self, file: Self::File) -> io::Result<()>;
    /// Removes it.
    fn unlink(&self, path: &CStr) -> io::Result<()>;
    /// The page cache lets it go.
    fn invalidate(&self, file: &Self::File);
    /// Makes a file durable, or its data alone.
    fn sync(&self, file: &Self::File, data_only: bool) -> io::Result<()>;
    /// Begins a transfer for a place; its result when it is done at once.
    ///
    /// # Safety
    /// The transfer's memory stays, and nobody else touches it, until its result is there.
    unsafe fn begin(
        &mut self,
        place: usize,
        file: &Self::File,
        transfer: Transfer,
    ) -> io::Result<Option<usize>>;
    /// Begins a sync; true when it is done at once.
    fn begin_sync(&mut self, _place: usize, file: &Self::File, data_only: bool) -> io::Result<bool> {
        self.sync(file, data_only).map(|()| true)
    }
    /// Hands over what was begun.
    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Waits for some results, at the longest for so many nanoseconds.
    fn wait(&mut self, _at_least: usize, _nanoseconds: Option<u64>, _done: &mut Done) -> io::Result<()> {
        Ok(())
    }
}

/// The kernel.
pub(crate) struct KernelPort<'a> {
    root: BorrowedFd<'a>,
    queue: Queue,
    /// Flags of each transfer (`RWF_`): of reads, and of writes.
    flags: [i32; 2],
}

/// An open file of the kernel's.
pub(crate) struct Open {
    file: OwnedFd,
    mapping: Option<Mapping>,
}

/// `RWF_DONTCACHE`, `RWF_ATOMIC` (linux/fs.h).
const DONT_CACHE: i32 = 0x80;
const ATOMIC: i32 = 0x40;
/// `BLKDISCARD` (linux/fs.h): `_IO(0x12, 119)`.
const DISCARD: libc::Ioctl = 0x1277;

enum Queue {
    None,
    Mapped,
    Aio(Aio),
    Ring(Box<IoUring>),
}

impl<'a> KernelPort<'a> {
    /// For files below `root`.
    pub(super) fn new(root: BorrowedFd<'a>, queue: workload::stream::IoQueue) -> io::Result<KernelPort<'a>> {
        let uncached = if queue.uncached { DONT_CACHE } else { 0 };
        // a read is never torn
        let flags = [uncached, uncached | if queue.atomic { ATOMIC } else { 0 }];
        let queue = match queue.engine {
            QueueEngine::Blocking => Queue::None,
            QueueEngine::Mapped => Queue::Mapped,
            QueueEngine::LibAio => Queue::Aio(Aio::new(queue.depth)?),
            QueueEngine::Uring => {
                let ring = IoUring::new(queue.depth.next_power_of_two()).map_err(|error| {
                    let hint = "io_uring is not available; see /proc/sys/kernel/io_uring_disabled";
                    io::Error::new(error.kind(), format!("{hint} ({error})"))
                })?;
                Queue::Ring(Box::new(ring))
            }
        };
        Ok(KernelPort { root, queue, flags })
    }
}

/// Discards blocks of a device, or punches a hole into a file.
#[cold]
fn discard(file: &OwnedFd, offset: u64, bytes: usize) -> io::Result<usize> {
    let range = [offset, bytes as u64];
    // SAFETY: the kernel reads two words, which are there.
    if unsafe { libc::ioctl(file.as_raw_fd(), DISCARD, range.as_ptr()) } == 0 {
        return Ok(bytes);
    }
    match io::Error::last_os_error() {
        // as a loop device does with its file
        error if error.raw_os_error() == Some(libc::ENOTTY) && bytes > 0 => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, flags, offset, bytes as u64)?;
            Ok(bytes)
        }
        error => Err(error),
    }
}

/// `preadv2`, `pwritev2` of one piece of memory.
///
/// # Safety
/// The transfer's memory is there, and nobody else touches it meanwhile.
unsafe fn vectored(file: &OwnedFd, transfer: Transfer, flags: i32) -> io::Result<usize> {
    let memory = libc::iovec { iov_base: transfer.buffer.cast(), iov_len: transfer.bytes };
    let call = if transfer.way == READ { libc::SYS_preadv2 } else { libc::SYS_pwritev2 };
    // the upper half of the offset is of machines with words of 32 bits
    // SAFETY: the vector is one piece of memory, which is there.
    let moved = unsafe {
        libc::syscall(call, file.as_raw_fd(), &raw const memory, 1, transfer.offset as libc::c_long, 0, flags)
    };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

fn push(ring: &mut IoUring, entry: &io_uring::squeue::Entry) -> io::Result<()> {
    // SAFETY: as promised to `Port::begin`; the ring has a place for each transfer.
    unsafe { ring.submission().push(entry) }.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))
}

impl Port for KernelPort<'_> {
    type File = Open;

    fn open(&self, path: &CStr, how: OpenMode) -> io::Result<Open> {
        let mut flags = if how.writes { OFlags::RDWR | OFlags::CREATE } else { OFlags::RDONLY };
        flags.set(OFlags::DIRECT, how.flags.direct);
        flags.set(OFlags::SYNC, how.flags.sync);
        flags.set(OFlags::DSYNC, how.flags.dsync);
        let file = rustix::fs::openat(self.root, path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o600))?;
        if how.flags.invalidate {
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        }
        if how.flags.advise {
            let advice = if how.random { Advice::Random } else { Advice::Sequential };
            rustix::fs::fadvise(&file, 0, None, advice)?;
        }
        let mapping = match self.queue {
            Queue::Mapped => Some(Mapping::of(&file, &how)?),
            _ => None,
        };
        Ok(Open { file, mapping })
    }

    fn close(&self, open: Open) -> io::Result<()> {
        use std::os::fd::IntoRawFd;
        drop(open.mapping);
        // SAFETY: the descriptor is owned here and not used again.
        unsafe { rustix::io::try_close(open.file.into_raw_fd()) }?;
        Ok(())
    }

    fn unlink(&self, path: &CStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.root, path, AtFlags::empty())?)
    }

    fn invalidate(&self, open: &Open) {
        // a wish
        let _ = rustix::fs::fadvise(&open.file, 0, None, Advice::DontNeed);
    }

    fn sync(&self, open: &Open, data_only: bool) -> io::Result<()> {
        if let Some(mapping) = &open.mapping {
            return mapping.sync();
        }
        Ok(if data_only { rustix::fs::fdatasync(&open.file) } else { rustix::fs::fsync(&open.file) }?)
    }

    #[inline]
    unsafe fn begin(&mut self, place: usize, open: &Open, transfer: Transfer) -> io::Result<Option<usize>> {
        let Transfer { way, buffer, bytes, offset } = transfer;
        if way == TRIM {
            return discard(&open.file, offset, bytes).map(Some);
        }
        let (file, flags) = (&open.file, self.flags[way]);
        match &mut self.queue {
            // SAFETY: the memory is the place's, and the call returns when it is done with it.
            Queue::None if flags != 0 => unsafe { vectored(file, transfer, flags) }.map(Some),
            Queue::None if way == READ => {
                // SAFETY: as above.
                let memory = unsafe { std::slice::from_raw_parts_mut(buffer, bytes) };
                Ok(Some(rustix::io::pread(file, memory, offset)?))
            }
            Queue::None => {
                // SAFETY: as above.
                let memory = unsafe { std::slice::from_raw_parts(buffer, bytes) };
                Ok(Some(rustix::io::pwrite(file, memory, offset)?))
            }
            Queue::Mapped => {
                let Some(mapping) = &open.mapping else { return Err(io::ErrorKind::InvalidInput.into()) };
                // SAFETY: as above.
                unsafe { mapping.copy(way, buffer, bytes, offset) }.map(|()| Some(bytes))
            }
            Queue::Aio(aio) => {
                // SAFETY: as promised.
                unsafe { aio.begin(place, way, file.as_raw_fd(), (buffer, bytes), offset, flags) };
                Ok(None)
            }
            Queue::Ring(ring) => {
                let (file, bytes) = (types::Fd(file.as_raw_fd()), bytes as u32);
                let entry = if way == READ {
                    opcode::Read::new(file, buffer, bytes).offset(offset).rw_flags(flags).build()
                } else {
                    opcode::Write::new(file, buffer, bytes).offset(offset).rw_flags(flags).build()
                };
                push(ring, &entry.user_data(place as u64)).map(|()| None)
            }
        }
    }

    fn begin_sync(&mut self, place: usize, open: &Open, data_only: bool) -> io::Result<bool> {
        match &mut self.queue {
            Queue::Ring(ring) => {
                let flags = if data_only { types::FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
                let entry = opcode::Fsync::new(types::Fd(open.file.as_raw_fd())).flags(flags).build();
                push(ring, &entry.user_data(place as u64)).map(|()| false)
            }
            // fio's libaio syncs by a call of its own
            Queue::Aio(aio) => {
                aio.submit()?;
                self.sync(open, data_only).map(|()| true)
            }
            Queue::None | Queue::Mapped => self.sync(open, data_only).map(|()| true),
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        match &mut self.queue {
            Queue::None | Queue::Mapped => Ok(()),
            Queue::Aio(aio) => aio.submit(),
            Queue::Ring(ring) => match ring.submit() {
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) =>
                {
                    Ok(())
                }
                submitted => submitted.map(drop),
            },
        }
    }

    fn wait(&mut self, at_least: usize, nanoseconds: Option<u64>, done: &mut Done) -> io::Result<()> {
        match &mut self.queue {
            Queue::None | Queue::Mapped => Ok(()),
            Queue::Aio(aio) => {
                if aio.queued() > 0 {
                    aio.submit()?;
                }
                aio.wait(at_least, nanoseconds, done)
            }
            Queue::Ring(ring) => {
                let before = done.len();
                reap(ring, done);
                if done.len() - before >= at_least {
                    return Ok(());
                }
                let wanted = at_least - (done.len() - before);
                let waited = match nanoseconds {
                    None => ring.submit_and_wait(wanted),
                    Some(ns) => {
                        let time =
                            types::Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
                        let arguments = types::SubmitArgs::new().timespec(&time);
                        ring.submitter().submit_with_args(wanted, &arguments)
                    }
                };
                match waited {
                    Err(error)
                        if !matches!(
                            error.raw_os_error(),
                            Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ETIME)
                        ) =>
                    {
                        return Err(error);
                    }
                    _ => reap(ring, done),
                }
                Ok(())
            }
        }
    }
}

fn reap(ring: &mut IoUring, done: &mut Done) {
    done.extend(ring.completion().map(|completion| {
        let result = usize::try_from(completion.result())
            .map_err(|_| io::Error::from_raw_os_error(-completion.result()));
        (completion.user_data() as usize, result)
    }));
}

/// A file system in this process.
pub(crate) struct VolumePort<'a> {
    pub volume: &'a dyn Volume,
}

impl Port for VolumePort<'_> {
    type File = u64;

    fn open(&self, path: &CStr, how: OpenMode) -> io::Result<u64> {
        self.volume.open(path, how.writes)
    }

    fn close(&self, file: u64) -> io::Result<()> {
        self.volume.close(file)
    }

    fn unlink(&self, path: &CStr) -> io::Result<()> {
        self.volume.unlink(path)
    }

    fn invalidate(&self, _file: &u64) {}

    fn sync(&self, file: &u64, _data_only: bool) -> io::Result<()> {
        self.volume.fsync(*file)
    }

    unsafe fn begin(&mut self, _place: usize, file: &u64, transfer: Transfer) -> io::Result<Option<usize>> {
        let Transfer { way, buffer, bytes, offset } = transfer;
        if way == TRIM {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let moved = if way == READ {
            // SAFETY: the memory is the place's, and the call returns when it is done with it.
            self.volume.read_at(*file, unsafe { std::slice::from_raw_parts_mut(buffer, bytes) }, offset)
        } else {
            // SAFETY: as above.
            self.volume.write_at(*file, unsafe { std::slice::from_raw_parts(buffer, bytes) }, offset)
        };
        moved.map(Some)
    }
}
