//! The hooked functions of libc.
//!
//! Each does what the original does, and tells [`crate::watch`] before and after. `C-unwind`, since a thread may
//! be cancelled within a read: the unwinding passes through. Nothing here has a destructor.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::{iovec, off_t, size_t, ssize_t};
use prefetch_os::sys;

use crate::original::{Original, bare};
use crate::pass::passes;
use crate::{gate, opens, watch};

originals! {
    READ = c"read" or instead::read, READ_CHK = c"__read_chk", READV = c"readv",
    PREAD = c"pread64" or instead::pread, PREAD_CHK = c"__pread64_chk", PREADV = c"preadv64", PREADV2 = c"preadv64v2",
    FADVISE = c"posix_fadvise64", READAHEAD = c"readahead", MADVISE = c"madvise",
    OPEN = c"open64", OPEN_2 = c"__open64_2", OPENAT = c"openat64", OPENAT_2 = c"__openat64_2",
    SENDFILE = c"sendfile64", COPY_FILE_RANGE = c"copy_file_range", SPLICE = c"splice",
    FCNTL = c"fcntl64", LOCKF = c"lockf64", PRCTL = c"prctl", SYSCALL = c"syscall",
}

/// Calls read(2) behind this library; there always is one.
macro_rules! original_read {
    ($($value:expr),*) => { found!(READ.get(), fn(c_int, *mut c_void, size_t) -> ssize_t, ($($value),*)) };
}

/// Calls pread(2) behind this library; there always is one.
macro_rules! original_pread {
    ($($value:expr),*) => { found!(PREAD.get(), fn(c_int, *mut c_void, size_t, off_t) -> ssize_t, ($($value),*)) };
}

/// What stands for read and pread until they are looked up.
mod instead {
    use super::*;

    pub unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
        bare(libc::SYS_read, &[fd as usize, buffer as usize, count])
    }

    pub unsafe extern "C-unwind" fn pread(
        fd: c_int,
        buffer: *mut c_void,
        count: size_t,
        offset: off_t,
    ) -> ssize_t {
        bare(libc::SYS_pread64, &[fd as usize, buffer as usize, count, offset as usize])
    }
}

/// The parts of the hooks of read and pread that look at a read: apart, since they need registers and a stack.
mod looked {
    use super::*;

    #[inline(never)]
    pub unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
        let before = watch::before(fd);
        let got = original_read!(fd, buffer, count);
        watch::after(before, fd, None, got);
        got
    }

    #[inline(never)]
    pub unsafe extern "C-unwind" fn pread(
        fd: c_int,
        buffer: *mut c_void,
        count: size_t,
        offset: off_t,
    ) -> ssize_t {
        let before = watch::before(fd);
        let got = original_pread!(fd, buffer, count, offset);
        watch::after(before, fd, Some(offset), got);
        got
    }
}

/// Where a call began that moved an offset by what it read; `None` when that was the descriptor's position.
fn moved(offset: *const off_t, got: ssize_t) -> Option<off_t> {
    // SAFETY: the call succeeded, so it has written there itself.
    (got > 0 && !offset.is_null()).then(|| unsafe { offset.read() } - got as off_t)
}

hooks! {
    /// read(2).
    fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
        if passes(fd) {
            return original_read!(fd, buffer, count);
        }
        // SAFETY: the same arguments.
        unsafe { looked::read(fd, buffer, count) }
    }

    /// read(2), fortified.
    fn __read_chk(fd: c_int, buffer: *mut c_void, count: size_t, size: size_t) -> ssize_t {
        if passes(fd) {
            jump!(READ_CHK as fn(c_int, *mut c_void, size_t, size_t) -> ssize_t, (fd, buffer, count, size));
        }
        let before = watch::before(fd);
        let got = through!(
            READ_CHK as fn(c_int, *mut c_void, size_t, size_t) -> ssize_t, (fd, buffer, count, size), libc::SYS_read
        );
        watch::after(before, fd, None, got);
        got
    }

    /// readv(2).
    fn readv(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t {
        let before = watch::before(fd);
        let got = through!(READV as fn(c_int, *const iovec, c_int) -> ssize_t, (fd, vector, count), libc::SYS_readv);
        watch::after(before, fd, None, got);
        got
    }

    /// pread(2).
    fn pread(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t {
        // SAFETY: the same function on 64-bit systems.
        unsafe { pread64(fd, buffer, count, offset) }
    }

    /// pread(2).
    fn pread64(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t {
        if passes(fd) {
            return original_pread!(fd, buffer, count, offset);
        }
        // SAFETY: the same arguments.
        unsafe { looked::pread(fd, buffer, count, offset) }
    }

    /// pread(2), fortified.
    fn __pread_chk(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t, size: size_t) -> ssize_t {
        // SAFETY: the same function on 64-bit systems.
        unsafe { __pread64_chk(fd, buffer, count, offset, size) }
    }

    /// pread(2), fortified.
    fn __pread64_chk(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t, size: size_t) -> ssize_t {
        if passes(fd) {
            jump!(
                PREAD_CHK as fn(c_int, *mut c_void, size_t, off_t, size_t) -> ssize_t,
                (fd, buffer, count, offset, size)
            );
        }
        let before = watch::before(fd);
        let got = through!(
            PREAD_CHK as fn(c_int, *mut c_void, size_t, off_t, size_t) -> ssize_t,
            (fd, buffer, count, offset, size), libc::SYS_pread64
        );
        watch::after(before, fd, Some(offset), got);
        got
    }

    /// preadv(2).
    fn preadv(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t {
        // SAFETY: the same function on 64-bit systems.
        unsafe { preadv64(fd, vector, count, offset) }
    }

    /// preadv(2).
    fn preadv64(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t {
        let before = watch::before(fd);
        let got = through!(
            PREADV as fn(c_int, *const iovec, c_int, off_t) -> ssize_t, (fd, vector, count, offset), libc::SYS_preadv
        );
        watch::after(before, fd, Some(offset), got);
        got
    }

    /// preadv2(2).
    fn preadv2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        // SAFETY: the same function on 64-bit systems.
        unsafe { preadv64v2(fd, vector, count, offset, flags) }
    }

    /// preadv2(2). An offset of -1 is the descriptor's position.
    fn preadv64v2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        let before = watch::before(fd);
        let found = PREADV2.get();
        let got = if found.is_null() {
            bare(libc::SYS_preadv2, &[fd as usize, vector as usize, count as usize, offset as usize, 0, flags as usize])
        } else {
            through!(
                PREADV2 as fn(c_int, *const iovec, c_int, off_t, c_int) -> ssize_t,
                (fd, vector, count, offset, flags), libc::SYS_preadv2
            )
        };
        watch::after(before, fd, (offset >= 0).then_some(offset), got);
        got
    }

    /// sendfile(2).
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        // SAFETY: the same function on 64-bit systems.
        unsafe { sendfile64(to, from, offset, count) }
    }

    /// sendfile(2).
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        let before = watch::before(from);
        let got = through!(
            SENDFILE as fn(c_int, c_int, *mut off_t, size_t) -> ssize_t, (to, from, offset, count), libc::SYS_sendfile
        );
        watch::after(before, from, moved(offset, got), got);
        got
    }

    /// copy_file_range(2).
    fn copy_file_range(
        from: c_int,
        offset: *mut off_t,
        to: c_int,
        to_offset: *mut off_t,
        count: size_t,
        flags: c_uint
    ) -> ssize_t {
        let before = watch::before(from);
        let got = through!(
            COPY_FILE_RANGE as fn(c_int, *mut off_t, c_int, *mut off_t, size_t, c_uint) -> ssize_t,
            (from, offset, to, to_offset, count, flags), libc::SYS_copy_file_range
        );
        watch::after(before, from, moved(offset, got), got);
        got
    }

    /// splice(2).
    fn splice(
        from: c_int,
        offset: *mut off_t,
        to: c_int,
        to_offset: *mut off_t,
        count: size_t,
        flags: c_uint
    ) -> ssize_t {
        let before = watch::before(from);
        let got = through!(
            SPLICE as fn(c_int, *mut off_t, c_int, *mut off_t, size_t, c_uint) -> ssize_t,
            (from, offset, to, to_offset, count, flags), libc::SYS_splice
        );
        watch::after(before, from, moved(offset, got), got);
        got
    }

    /// posix_fadvise(2). In the mode `os-only` hints how it will be read say nothing, as far as they are valid.
    fn posix_fadvise(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int {
        // SAFETY: the same function on 64-bit systems.
        unsafe { posix_fadvise64(fd, offset, len, advice) }
    }

    /// posix_fadvise(2).
    fn posix_fadvise64(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int {
        let advice = if is_dropped(advice) { libc::POSIX_FADV_NORMAL } else { advice };
        let found = FADVISE.get();
        if found.is_null() {
            return sys::fadvise(fd, offset as u64, len as u64, advice).err().unwrap_or(0);
        }
        through!(
            FADVISE as fn(c_int, off_t, off_t, c_int) -> c_int, (fd, offset, len, advice), libc::SYS_fadvise64
        )
    }

    /// readahead(2): nothing is read in the mode `os-only`.
    fn readahead(fd: c_int, offset: off_t, count: size_t) -> ssize_t {
        let count = if is_dropped(libc::POSIX_FADV_WILLNEED) { 0 } else { count };
        through!(READAHEAD as fn(c_int, off_t, size_t) -> ssize_t, (fd, offset, count), libc::SYS_readahead)
    }

    /// madvise(2): hints how it will be read are dropped in the mode `os-only`. Their numbers are those of posix_fadvise.
    fn madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
        let advice = if is_dropped(advice) { libc::MADV_NORMAL } else { advice };
        through!(MADVISE as fn(*mut c_void, size_t, c_int) -> c_int, (address, length, advice), libc::SYS_madvise)
    }

    /// open(2). The mode is passed on whether it was given or not, as a register.
    fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        // SAFETY: the same function on 64-bit systems.
        unsafe { open64(path, flags, mode) }
    }

    /// open(2).
    fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        let found = OPEN.get();
        let fd = if found.is_null() {
            let at = libc::AT_FDCWD as isize as usize;
            bare(libc::SYS_openat, &[at, path as usize, flags as usize, mode as usize]) as c_int
        } else {
            through!(OPEN as fn(*const c_char, c_int, c_uint) -> c_int, (path, flags, mode), libc::SYS_openat)
        };
        opens::on_open(libc::AT_FDCWD, path, flags, fd);
        fd
    }

    /// open(2), fortified.
    fn __open_2(path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: the same function on 64-bit systems.
        unsafe { __open64_2(path, flags) }
    }

    /// open(2), fortified.
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
        let found = OPEN_2.get();
        let fd = if found.is_null() {
            let at = libc::AT_FDCWD as isize as usize;
            bare(libc::SYS_openat, &[at, path as usize, flags as usize, 0]) as c_int
        } else {
            through!(OPEN_2 as fn(*const c_char, c_int) -> c_int, (path, flags), libc::SYS_openat)
        };
        opens::on_open(libc::AT_FDCWD, path, flags, fd);
        fd
    }

    /// openat(2).
    fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        // SAFETY: the same function on 64-bit systems.
        unsafe { openat64(directory, path, flags, mode) }
    }

    /// openat(2).
    fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        let fd = through!(
            OPENAT as fn(c_int, *const c_char, c_int, c_uint) -> c_int, (directory, path, flags, mode),
            libc::SYS_openat
        );
        opens::on_open(directory, path, flags, fd);
        fd
    }

    /// openat(2), fortified.
    fn __openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: the same function on 64-bit systems.
        unsafe { __openat64_2(directory, path, flags) }
    }

    /// openat(2), fortified.
    fn __openat64_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
        let fd = through!(
            OPENAT_2 as fn(c_int, *const c_char, c_int) -> c_int, (directory, path, flags), libc::SYS_openat
        );
        opens::on_open(directory, path, flags, fd);
        fd
    }

    /// fcntl(2): no file is opened for who locks parts of files. The argument is passed on as a register.
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        // SAFETY: the same function on 64-bit systems.
        unsafe { fcntl64(fd, command, argument) }
    }

    /// fcntl(2).
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        if matches!(command, libc::F_SETLK | libc::F_SETLKW) {
            opens::forbid();
        }
        through!(FCNTL as fn(c_int, c_int, usize) -> c_int, (fd, command, argument), libc::SYS_fcntl)
    }

    /// lockf(3).
    fn lockf(fd: c_int, command: c_int, len: off_t) -> c_int {
        // SAFETY: the same function on 64-bit systems.
        unsafe { lockf64(fd, command, len) }
    }

    /// lockf(3).
    fn lockf64(fd: c_int, command: c_int, len: off_t) -> c_int {
        opens::forbid();
        LOCKF.resolve_early();
        through!(LOCKF as fn(c_int, c_int, off_t) -> c_int, (fd, command, len), libc::SYS_fcntl)
    }

    /// prctl(2): before a filter for system calls, or one for the processor's counter, all watching ends.
    fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
        end_before(option);
        through!(
            PRCTL as fn(c_int, usize, usize, usize, usize) -> c_int, (option, a, b, c, d), libc::SYS_prctl
        )
    }

    /// syscall(2): likewise.
    fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
        match number {
            libc::SYS_seccomp => gate::close(),
            libc::SYS_prctl => end_before(a as c_int),
            libc::SYS_fcntl if matches!(b as c_int, libc::F_SETLK | libc::F_SETLKW) => opens::forbid(),
            _ => {}
        }
        let found = SYSCALL.get();
        if found.is_null() {
            return bare(number, &[a, b, c, d, e, f]) as c_long;
        }
        through!(
            SYSCALL as fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long,
            (number, a, b, c, d, e, f), number
        )
    }
}

/// Whether a hint is dropped.
fn is_dropped(advice: c_int) -> bool {
    let hint =
        matches!(advice, libc::POSIX_FADV_RANDOM | libc::POSIX_FADV_SEQUENTIAL | libc::POSIX_FADV_WILLNEED);
    hint && gate::state() == gate::HINTS
}

/// Who gives up gaining rights is about to put on a filter, perhaps by a call that nobody sees.
fn end_before(option: c_int) {
    if matches!(option, libc::PR_SET_SECCOMP | libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_TSC) {
        gate::close();
    }
}
