//! The plainest target: one blocking system call for each operation.

use std::cell::RefCell;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::fs::{Advice, AtFlags, Mode, OFlags, RawDir};
use rustix::io::{Errno, ReadWriteFlags};

use crate::aio::Aio;
use crate::clock::Clock;
use crate::control::Control;
use crate::event::Event;
use crate::target::{OpenHow, Target};

/// The longest that a thread waits before it looks whether the run was stopped.
const LOOK_AGAIN_NS: u64 = 100_000_000;

/// Size that Filebench counts for each directory entry beside its name: `sizeof(struct dirent) - 1` on 64-bit Linux.
pub(crate) const DIRENT_BYTES: u64 = 279;

/// Files below a directory, through system calls of the calling thread.
pub struct Psync<'a> {
    root: BorrowedFd<'a>,
    clock: Clock,
    control: &'a Control,
    aio: RefCell<Option<Aio>>,
    list_buffer: RefCell<Vec<MaybeUninit<u8>>>,
}

impl<'a> Psync<'a> {
    /// A target for one thread; paths are relative to `root`.
    pub fn new(root: BorrowedFd<'a>, control: &'a Control) -> Psync<'a> {
        Psync {
            root,
            clock: Clock::get(),
            control,
            aio: RefCell::new(None),
            list_buffer: RefCell::new(Vec::new()),
        }
    }

    fn with_aio<R>(&self, work: impl FnOnce(&mut Aio) -> io::Result<R>) -> io::Result<R> {
        let mut aio = self.aio.borrow_mut();
        if aio.is_none() {
            *aio = Some(Aio::new()?);
        }
        work(aio.as_mut().expect("set above"))
    }
}

/// Sleeps until the deadline, but looks now and then whether the run was stopped.
pub(crate) fn sleep_blocking(clock: &Clock, control: &Control, deadline_ns: u64) {
    let never = Event::default();
    loop {
        let now = clock.now();
        if now >= deadline_ns || control.stopped() {
            return;
        }
        never.block(0, (deadline_ns - now).min(LOOK_AGAIN_NS));
    }
}

/// Waits until `event` moves on from `seen`, or long enough to look whether the run was stopped.
pub(crate) fn wait_blocking(control: &Control, event: &Event, seen: u32) {
    control.waiting(|| event.block(seen, LOOK_AGAIN_NS));
}

/// Opens below `root`; shared by all real targets.
pub(crate) fn open(root: BorrowedFd<'_>, path: &CStr, how: OpenHow) -> io::Result<OwnedFd> {
    let mut flags = match (how.read, how.write) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    };
    flags.set(OFlags::CREATE, how.create);
    flags.set(OFlags::SYNC, how.sync);
    flags.set(OFlags::DIRECT, how.direct);
    let file = rustix::fs::openat(root, path, flags, Mode::from_raw_mode(0o666))?;
    if how.no_read_ahead {
        rustix::fs::fadvise(&file, 0, None, Advice::Random)?;
    }
    Ok(file)
}

/// Writes at the end of the file with `RWF_APPEND`: one call, and atomic between threads.
pub(crate) fn append(file: BorrowedFd<'_>, data: &[u8]) -> io::Result<usize> {
    let written = rustix::io::pwritev2(file, &[io::IoSlice::new(data)], 0, ReadWriteFlags::APPEND);
    match written {
        // A file system without the flag: two calls, as Filebench does.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let end = rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?;
            Ok(rustix::io::pwrite(file, data, end)?)
        }
        other => Ok(other?),
    }
}

/// Alignment that `O_DIRECT` needs on a file, by `statx` (Linux 6.1); the page size where the kernel does not say.
pub(crate) fn direct_alignment(file: BorrowedFd<'_>) -> u64 {
    let wanted = rustix::fs::StatxFlags::from_bits_retain(libc::STATX_DIOALIGN);
    match rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted) {
        Ok(stat) if stat.stx_mask & libc::STATX_DIOALIGN != 0 && stat.stx_dio_offset_align > 0 => {
            u64::from(stat.stx_dio_offset_align)
        }
        _ => crate::aligned::ALIGNMENT as u64,
    }
}

/// Reads the whole of a directory.
pub(crate) fn list_dir(
    root: BorrowedFd<'_>,
    path: &CStr,
    buffer: &mut Vec<MaybeUninit<u8>>,
) -> io::Result<(u64, u64)> {
    if buffer.is_empty() {
        buffer.resize(32 << 10, MaybeUninit::uninit());
    }
    let directory =
        rustix::fs::openat(root, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut entries = RawDir::new(&directory, buffer);
    let (mut count, mut bytes) = (0, 0);
    while let Some(entry) = entries.next() {
        let name = entry?.file_name().to_bytes().len() as u64;
        count += 1;
        bytes += name + DIRENT_BYTES;
    }
    Ok((count, bytes))
}

impl Target for Psync<'_> {
    type File = OwnedFd;

    #[inline(always)]
    fn now(&self) -> u64 {
        self.clock.now()
    }

    async fn sleep_until(&self, deadline_ns: u64) {
        sleep_blocking(&self.clock, self.control, deadline_ns);
    }

    async fn wait(&self, event: &Event, seen: u32) {
        wait_blocking(self.control, event, seen);
    }

    #[inline]
    async fn open(&self, path: &CStr, how: OpenHow) -> io::Result<OwnedFd> {
        open(self.root, path, how)
    }

    #[inline]
    async fn close(&self, file: OwnedFd) -> io::Result<()> {
        // SAFETY: the descriptor is owned here and not used again. (Dropping it would hide an error of a delayed write.)
        unsafe { rustix::io::try_close(file.into_raw_fd()) }?;
        Ok(())
    }

    #[inline]
    async fn read_at(&self, file: &OwnedFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(file, buffer, offset)?)
    }

    #[inline]
    async fn write_at(&self, file: &OwnedFd, data: &[u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwrite(file, data, offset)?)
    }

    #[inline]
    async fn append(&self, file: &OwnedFd, data: &[u8]) -> io::Result<usize> {
        append(file.as_fd(), data)
    }

    #[inline]
    async fn fsync(&self, file: &OwnedFd) -> io::Result<()> {
        Ok(rustix::fs::fsync(file)?)
    }

    #[inline]
    async fn fdatasync(&self, file: &OwnedFd) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(file)?)
    }

    async fn direct_alignment(&self, file: &OwnedFd) -> u64 {
        direct_alignment(file.as_fd())
    }

    async fn truncate(&self, file: &OwnedFd, length: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(file, length)?)
    }

    #[inline]
    async fn stat(&self, path: &CStr) -> io::Result<u64> {
        Ok(rustix::fs::statat(self.root, path, AtFlags::empty())?.st_size as u64)
    }

    #[inline]
    async fn stat_open(&self, file: &OwnedFd) -> io::Result<u64> {
        Ok(rustix::fs::fstat(file)?.st_size as u64)
    }

    #[inline]
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
        list_dir(self.root, path, &mut self.list_buffer.borrow_mut())
    }

    async fn aio_write(&self, file: &OwnedFd, data: &[u8], offset: u64) -> io::Result<()> {
        self.with_aio(|aio| aio.write(file.as_fd(), data, offset))
    }

    async fn aio_wait(&self, at_least: usize) -> io::Result<usize> {
        match &mut *self.aio.borrow_mut() {
            Some(aio) => aio.wait(at_least),
            None => Ok(0),
        }
    }

    fn aio_outstanding(&self) -> usize {
        self.aio.borrow().as_ref().map_or(0, Aio::outstanding)
    }
}
