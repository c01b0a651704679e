//! Does one operation: the real system call, on a name below the target or a descriptor of the replay.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use recording::Call;
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, RenameFlags, Timestamps};
use rustix::io::Errno;

use super::files::link_target;
use super::paths::{Paths, ROOT};
use super::segments::Step;
use super::split::{InheritedFile, TRANSFER_BYTES_MAX};

/// No call moves more at once here; a longer transfer is several calls, of this size.
const PIECE_BYTES: usize = 16 << 20;
/// Written data begins at another place of a pool of random bytes each time.
const POOL_SHIFT_BYTES: usize = 1 << 20;
/// Of offsets and memory in direct I/O; no device asks for more than a page.
const ALIGNMENT: usize = 4096;
/// For entries of a directory, when a recording does not say how much was asked for.
const ENTRIES_BYTES: u64 = 32 << 10;
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);
/// No descriptor is there.
const CLOSED: i32 = -1;

/// Flags of open(2) that are kept. What is left out changes who is told of a file or owns it, not what the file system does.
const OPEN_FLAGS: i32 = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_DIRECT
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | libc::O_PATH
    | libc::O_TMPFILE
    | libc::O_LARGEFILE;

/// Page-aligned memory.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    from: usize,
}

impl Buffer {
    fn new(length: usize) -> Buffer {
        // memory that is there, and not only promised
        let bytes = vec![0xff; length + ALIGNMENT];
        let from = bytes.as_ptr().align_offset(ALIGNMENT);
        Buffer { bytes, from }
    }

    fn of(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() - self.from < length {
            // it is not made anew for each that is a little larger
            *self = Buffer::new(length.next_power_of_two());
        }
        &mut self.bytes[self.from..self.from + length]
    }
}

/// What all threads of a replay work on.
#[derive(Debug)]
pub(super) struct Target<'a> {
    root: OwnedFd,
    absolute: PathBuf,
    paths: &'a Paths,
    slots: Vec<AtomicI32>,
    pool: Buffer,
    pool_bytes: usize,
    undirected: AtomicU64,
}

/// Memory of one thread.
#[derive(Debug)]
pub(super) struct Scratch {
    buffer: Buffer,
}

impl Scratch {
    /// For small transfers; it grows.
    pub(super) fn new() -> Scratch {
        Scratch { buffer: Buffer::new(0) }
    }

    /// Makes room for what a call reads, before the call is timed.
    pub(super) fn prepare(&mut self, step: &Step) {
        if matches!(step.call, Call::Read | Call::Fault | Call::ReadDirectory) {
            self.buffer.of(step.bytes.min(PIECE_BYTES as u64) as usize);
        }
    }
}

impl<'a> Target<'a> {
    /// A target with places for descriptors; the longest write has so many bytes.
    pub(super) fn new(
        root: OwnedFd,
        absolute: PathBuf,
        paths: &'a Paths,
        slots: usize,
        write_bytes_max: u64,
        seed: u64,
    ) -> Target<'a> {
        let longest = write_bytes_max.min(PIECE_BYTES as u64) as usize;
        let pool_bytes = (longest + POOL_SHIFT_BYTES).next_multiple_of(ALIGNMENT);
        let mut pool = Buffer::new(pool_bytes);
        Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(pool.of(pool_bytes));
        let slots = (0..slots).map(|_| AtomicI32::new(CLOSED)).collect();
        Target { root, absolute, paths, slots, pool, pool_bytes, undirected: AtomicU64::new(0) }
    }

    /// Opens that were repeated without `O_DIRECT`, which the file system refuses.
    pub(super) fn undirected(&self) -> u64 {
        self.undirected.load(Ordering::Relaxed)
    }

    /// Opens what was open when the recording began.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn inherit(&self, file: InheritedFile) -> Result<(), Errno> {
        let flags = file.flags as i32 & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_TMPFILE)
            | file.flags as i32 & libc::O_DIRECTORY;
        let opened = self.open(file.path, flags as u32)?;
        self.put(file.slot, opened);
        Ok(())
    }

    fn put(&self, slot: u32, file: OwnedFd) {
        if let Some(place) = self.slots.get(slot as usize) {
            drop(owned(place.swap(file.into_raw_fd(), Ordering::AcqRel)));
        }
    }

    /// The descriptor in a place.
    fn descriptor(&self, slot: Option<u32>) -> Result<BorrowedFd<'_>, Errno> {
        let place = slot.and_then(|slot| self.slots.get(slot as usize)).ok_or(Errno::BADF)?;
        match place.load(Ordering::Acquire) {
            CLOSED => Err(Errno::BADF),
            // SAFETY: it was open when it was put there, and is closed by whoever takes it out. A recording in which one thread
            // closes what another one still uses may use what another open has made meanwhile, which is a file of the target too.
            number => Ok(unsafe { BorrowedFd::borrow_raw(number) }),
        }
    }

    fn open(&self, path: u32, flags: u32) -> Result<OwnedFd, Errno> {
        let flags = OFlags::from_bits_retain(flags & OPEN_FLAGS as u32) | OFlags::CLOEXEC | OFlags::NOCTTY;
        let name = self.paths.name(path);
        match rustix::fs::openat(&self.root, name, flags, FILE_MODE) {
            Err(Errno::INVAL) if flags.contains(OFlags::DIRECT) => {
                self.undirected.fetch_add(1, Ordering::Relaxed);
                // the first attempt may have made the file
                let again = flags - OFlags::DIRECT - OFlags::EXCL;
                rustix::fs::openat(&self.root, name, again, FILE_MODE)
            }
            opened => opened,
        }
    }

    /// Does an operation: what the system call returned, or the negative `errno`.
    pub(super) fn issue(&self, step: &Step, scratch: &mut Scratch) -> i64 {
        match self.call(step, scratch) {
            Ok(result) => result,
            Err(error) => -i64::from(error.raw_os_error()),
        }
    }

    fn call(&self, step: &Step, scratch: &mut Scratch) -> Result<i64, Errno> {
        let nothing = |()| 0;
        let path = step.path.unwrap_or(ROOT);
        match (step.call, step.slot) {
            (Call::Open, _) => self.opened(step, path),
            (Call::Close, slot) => {
                let place = slot.and_then(|slot| self.slots.get(slot as usize)).ok_or(Errno::BADF)?;
                let file = owned(place.swap(CLOSED, Ordering::AcqRel)).ok_or(Errno::BADF)?;
                // SAFETY: the descriptor is ours, and nobody uses it after this.
                unsafe { rustix::io::try_close(file.into_raw_fd()) }.map(nothing)
            }
            (Call::Fault, None) if step.path.is_some() => {
                let file = self.open(path, libc::O_RDONLY as u32)?;
                read(file.as_fd(), step, scratch)
            }
            (Call::Read | Call::Fault, slot) => read(self.descriptor(slot)?, step, scratch),
            (Call::Write, slot) => self.write(self.descriptor(slot)?, step),
            (Call::Fsync, slot) => rustix::fs::fsync(self.descriptor(slot)?).map(nothing),
            (Call::Fdatasync, slot) => rustix::fs::fdatasync(self.descriptor(slot)?).map(nothing),
            (Call::SyncRange, slot) => sync_range(self.descriptor(slot)?, step),
            (Call::Sync, _) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                rustix::fs::syncfs(rustix::fs::openat(&self.root, c".", flags, Mode::empty())?).map(nothing)
            }
            (Call::Truncate, None) if step.path.is_some() => {
                let file = self.open(path, libc::O_WRONLY as u32)?;
                rustix::fs::ftruncate(file, step.bytes).map(nothing)
            }
            (Call::Truncate, slot) => rustix::fs::ftruncate(self.descriptor(slot)?, step.bytes).map(nothing),
            (Call::Allocate, slot) => {
                let mode = FallocateFlags::from_bits_retain(step.flags);
                rustix::fs::fallocate(self.descriptor(slot)?, mode, step.offset, step.bytes).map(nothing)
            }
            (Call::ReadDirectory, slot) => entries(self.descriptor(slot)?, step, scratch),
            (Call::Stat, Some(_)) => rustix::fs::fstat(self.descriptor(step.slot)?).map(|_| 0),
            (Call::Link, Some(slot)) if step.path.is_none() => self.link_open(slot, step),
            (Call::SetAttributes, Some(_)) => {
                rustix::fs::futimens(self.descriptor(step.slot)?, &now()).map(nothing)
            }
            (_, _) => self.by_name(step, path),
        }
    }

    /// Gives a name to an open file that may have none (`O_TMPFILE`).
    fn link_open(&self, slot: u32, step: &Step) -> Result<i64, Errno> {
        use std::os::fd::AsRawFd;
        let to = self.paths.name(step.to.ok_or(Errno::INVAL)?);
        let from = format!("/proc/self/fd/{}", self.descriptor(Some(slot))?.as_raw_fd());
        rustix::fs::linkat(rustix::fs::CWD, from, &self.root, to, AtFlags::SYMLINK_FOLLOW).map(|()| 0)
    }

    fn opened(&self, step: &Step, path: u32) -> Result<i64, Errno> {
        let file = self.open(path, step.flags)?;
        // one that was to fail is not in anybody's way
        if let Some(slot) = step.slot {
            self.put(slot, file);
        }
        Ok(0)
    }

    fn by_name(&self, step: &Step, path: u32) -> Result<i64, Errno> {
        let (root, name, nothing) = (&self.root, self.paths.name(path), |()| 0);
        let second = || step.to.map(|to| self.paths.name(to)).ok_or(Errno::INVAL);
        match step.call {
            Call::Unlink => rustix::fs::unlinkat(root, name, AtFlags::empty()).map(nothing),
            Call::RemoveDirectory => rustix::fs::unlinkat(root, name, AtFlags::REMOVEDIR).map(nothing),
            Call::MakeDirectory => rustix::fs::mkdirat(root, name, DIRECTORY_MODE).map(nothing),
            Call::Rename => {
                let flags = RenameFlags::from_bits_retain(step.flags);
                let kept = flags & (RenameFlags::NOREPLACE | RenameFlags::EXCHANGE);
                rustix::fs::renameat_with(root, name, root, second()?, kept).map(nothing)
            }
            Call::Link => rustix::fs::linkat(root, name, root, second()?, AtFlags::empty()).map(nothing),
            Call::Symlink => {
                let target = link_target(&self.absolute, self.paths, step.to.unwrap_or(path));
                rustix::fs::symlinkat(target, root, name).map(nothing)
            }
            // what is not a link has no text of one
            Call::Stat if step.result == -i64::from(libc::EINVAL) => {
                rustix::fs::readlinkat(root, name, Vec::new()).map(|_| 0)
            }
            Call::Stat => {
                let flags = AtFlags::from_bits_retain(step.flags) & AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::statat(root, name, flags).map(|_| 0)
            }
            Call::SetAttributes => {
                let flags = AtFlags::from_bits_retain(step.flags) & AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::utimensat(root, name, &now(), flags).map(nothing)
            }
            _ => Err(Errno::BADF),
        }
    }

    fn write(&self, file: BorrowedFd<'_>, step: &Step) -> Result<i64, Errno> {
        let shift = (step.number as usize).wrapping_mul(ALIGNMENT) % POOL_SHIFT_BYTES;
        let pool = &self.pool.bytes[self.pool.from..self.pool.from + self.pool_bytes];
        transferred(step, |at, length| {
            let from = &pool[shift..];
            rustix::io::pwrite(file, &from[..length.min(from.len())], at)
        })
    }
}

/// The descriptor that was taken out of a place.
fn owned(number: i32) -> Option<OwnedFd> {
    // SAFETY: places hold descriptors that are owned by them alone, and this one was taken out.
    (number != CLOSED).then(|| unsafe { OwnedFd::from_raw_fd(number) })
}

impl Drop for Target<'_> {
    fn drop(&mut self) {
        self.slots.iter().for_each(|place| drop(owned(place.swap(CLOSED, Ordering::AcqRel))));
    }
}

/// One call, or for a transfer of more than [`PIECE_BYTES`] several until one is short.
fn transferred(step: &Step, mut piece: impl FnMut(u64, usize) -> Result<usize, Errno>) -> Result<i64, Errno> {
    let wanted = step.bytes.min(TRANSFER_BYTES_MAX);
    let mut done = 0u64;
    loop {
        let length = (wanted - done).min(PIECE_BYTES as u64) as usize;
        let moved = match piece(step.offset.saturating_add(done), length) {
            Ok(moved) => moved,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        };
        done += moved as u64;
        if moved < length || done >= wanted {
            break;
        }
    }
    Ok(done as i64)
}

fn read(file: BorrowedFd<'_>, step: &Step, scratch: &mut Scratch) -> Result<i64, Errno> {
    transferred(step, |at, length| rustix::io::pread(file, scratch.buffer.of(length), at))
}

fn sync_range(file: BorrowedFd<'_>, step: &Step) -> Result<i64, Errno> {
    use std::os::fd::AsRawFd;
    let (offset, bytes) = (step.offset as i64, step.bytes as i64);
    // SAFETY: the descriptor is open, the rest are numbers.
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, step.flags) };
    if result < 0 { Err(last_error()) } else { Ok(0) }
}

/// One getdents64, from where the descriptor is.
fn entries(file: BorrowedFd<'_>, step: &Step, scratch: &mut Scratch) -> Result<i64, Errno> {
    use std::os::fd::AsRawFd;
    let bytes = if step.bytes == 0 { ENTRIES_BYTES } else { step.bytes.min(PIECE_BYTES as u64) };
    let buffer = scratch.buffer.of(bytes as usize);
    // SAFETY: the kernel writes at most so many bytes to the buffer, which has them.
    let result =
        unsafe { libc::syscall(libc::SYS_getdents64, file.as_raw_fd(), buffer.as_mut_ptr(), buffer.len()) };
    if result < 0 { Err(last_error()) } else { Ok(result) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Attributes of recordings are not told: the times of a file are set instead, which the file system logs as well.
fn now() -> Timestamps {
    let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    Timestamps { last_access: now, last_modification: now }
}
