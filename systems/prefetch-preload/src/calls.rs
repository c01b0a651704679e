//! The hooked functions of libc.
//!
//! Each does what the original does, and tells [`crate::watch`] before and after. `C-unwind`, since a thread may
//! be cancelled within a read: the unwinding passes through. Nothing here has a destructor.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::{iovec, off_t, size_t, ssize_t};
use prefetch_os::sys;

use crate::original::{Original, bare};
use crate::pass::passes;
use crate::watch::{self, HINTS, STATE};
use crate::{mappings, start, walker, worker};

originals! {
    READ = c"read" or instead::read, READ_CHK = c"__read_chk", READV = c"readv",
    PREAD = c"pread64" or instead::pread, PREAD_CHK = c"__pread64_chk", PREADV = c"preadv64", PREADV2 = c"preadv64v2",
    LSEEK = c"lseek64", CLOSE = c"close", CLOSE_RANGE = c"close_range", CLOSEFROM = c"closefrom",
    DUP2 = c"dup2", DUP3 = c"dup3",
    FADVISE = c"posix_fadvise64", READAHEAD = c"readahead", MADVISE = c"madvise",
    MMAP = c"mmap64", MUNMAP = c"munmap", MREMAP = c"mremap",
    OPEN = c"open64", OPEN_2 = c"__open64_2", OPENAT = c"openat64", OPENAT_2 = c"__openat64_2",
    SENDFILE = c"sendfile64", COPY_FILE_RANGE = c"copy_file_range", SPLICE = c"splice",
    UNSHARE = c"unshare", SETNS = c"setns", PRCTL = c"prctl", SYSCALL = c"syscall",
    SETUID = c"setuid", SETGID = c"setgid", SETREUID = c"setreuid", SETREGID = c"setregid",
    SETRESUID = c"setresuid", SETRESGID = c"setresgid", SETGROUPS = c"setgroups", SETEUID = c"seteuid",
    SETEGID = c"setegid",
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

/// What is done once for each pass of read and pread.
mod passed {
    use super::*;

    #[inline(never)]
    pub unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
        if watch::sleeps(fd) {
            return original_read!(fd, buffer, count);
        }
        // SAFETY: the same arguments.
        unsafe { looked::read(fd, buffer, count) }
    }

    #[inline(never)]
    pub unsafe extern "C-unwind" fn pread(
        fd: c_int,
        buffer: *mut c_void,
        count: size_t,
        offset: off_t,
    ) -> ssize_t {
        if watch::sleeps(fd) {
            return original_pread!(fd, buffer, count, offset);
        }
        // SAFETY: the same arguments.
        unsafe { looked::pread(fd, buffer, count, offset) }
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
        unsafe { passed::read(fd, buffer, count) }
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
        unsafe { passed::pread(fd, buffer, count, offset) }
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

    /// lseek(2).
    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t {
        // SAFETY: the same function on 64-bit systems.
        unsafe { lseek64(fd, offset, whence) }
    }

    /// lseek(2).
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t {
        let position = through!(LSEEK as fn(c_int, off_t, c_int) -> off_t, (fd, offset, whence), libc::SYS_lseek);
        watch::on_seek(fd, position);
        position
    }

    /// close(2).
    fn close(fd: c_int) -> c_int {
        watch::on_close(fd);
        through!(CLOSE as fn(c_int) -> c_int, (fd), libc::SYS_close)
    }

    /// close_range(2).
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        for fd in first..=last.min(crate::table::DESCRIPTORS as c_uint) {
            watch::on_close(fd as c_int);
        }
        through!(CLOSE_RANGE as fn(c_uint, c_uint, c_int) -> c_int, (first, last, flags), libc::SYS_close_range)
    }

    /// closefrom(3).
    fn closefrom(first: c_int) -> () {
        for fd in first.max(0)..crate::table::DESCRIPTORS as c_int {
            watch::on_close(fd);
        }
        let found = CLOSEFROM.get();
        if found.is_null() {
            bare(libc::SYS_close_range, &[first.max(0) as usize, u32::MAX as usize, 0]);
        } else {
            // SAFETY: dlsym found the function of this name, which has this type.
            unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(c_int)>(found)(first) }
        }
    }

    /// dup2(2).
    fn dup2(old: c_int, new: c_int) -> c_int {
        if old != new {
            watch::on_close(new);
        }
        let found = DUP2.get();
        if found.is_null() && old != new {
            return bare(libc::SYS_dup3, &[old as usize, new as usize, 0]) as c_int;
        }
        through!(DUP2 as fn(c_int, c_int) -> c_int, (old, new), libc::SYS_dup3)
    }

    /// dup3(2).
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
        watch::on_close(new);
        through!(DUP3 as fn(c_int, c_int, c_int) -> c_int, (old, new, flags), libc::SYS_dup3)
    }

    /// posix_fadvise(2). Hints are dropped in the mode `os-only`, and passed on in every other.
    fn posix_fadvise(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int {
        // SAFETY: the same function on 64-bit systems.
        unsafe { posix_fadvise64(fd, offset, len, advice) }
    }

    /// posix_fadvise(2).
    fn posix_fadvise64(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int {
        if STATE.load(core::sync::atomic::Ordering::Relaxed) == HINTS {
            return 0;
        }
        watch::on_advice(fd, advice);
        let found = FADVISE.get();
        if found.is_null() {
            return sys::fadvise(fd, offset as u64, len as u64, advice).err().unwrap_or(0);
        }
        through!(
            FADVISE as fn(c_int, off_t, off_t, c_int) -> c_int, (fd, offset, len, advice), libc::SYS_fadvise64
        )
    }

    /// readahead(2).
    fn readahead(fd: c_int, offset: off_t, count: size_t) -> ssize_t {
        if STATE.load(core::sync::atomic::Ordering::Relaxed) == HINTS {
            return 0;
        }
        through!(READAHEAD as fn(c_int, off_t, size_t) -> ssize_t, (fd, offset, count), libc::SYS_readahead)
    }

    /// madvise(2): read-ahead hints are dropped in the mode `os-only`.
    fn madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
        let hint = matches!(advice, libc::MADV_WILLNEED | libc::MADV_RANDOM | libc::MADV_SEQUENTIAL);
        if hint && STATE.load(core::sync::atomic::Ordering::Relaxed) == HINTS {
            return 0;
        }
        mappings::on_advice(address as usize, length, advice);
        through!(MADVISE as fn(*mut c_void, size_t, c_int) -> c_int, (address, length, advice), libc::SYS_madvise)
    }

    /// mmap(2).
    fn mmap(
        address: *mut c_void,
        length: size_t,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: off_t
    ) -> *mut c_void {
        // SAFETY: the same function on 64-bit systems.
        unsafe { mmap64(address, length, protection, flags, fd, offset) }
    }

    /// mmap(2).
    fn mmap64(
        address: *mut c_void,
        length: size_t,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: off_t
    ) -> *mut c_void {
        let mapped = through!(
            MMAP as fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void,
            (address, length, protection, flags, fd, offset), libc::SYS_mmap
        );
        mappings::on_map(mapped as usize, length, protection, flags, fd, offset);
        mapped
    }

    /// munmap(2).
    fn munmap(address: *mut c_void, length: size_t) -> c_int {
        mappings::on_unmap(address as usize, length);
        through!(MUNMAP as fn(*mut c_void, size_t) -> c_int, (address, length), libc::SYS_munmap)
    }

    /// mremap(2). The new address is passed on whether it was given or not, as a register.
    fn mremap(
        address: *mut c_void,
        length: size_t,
        wanted: size_t,
        flags: c_int,
        to: *mut c_void
    ) -> *mut c_void {
        mappings::on_unmap(address as usize, length);
        through!(
            MREMAP as fn(*mut c_void, size_t, size_t, c_int, *mut c_void) -> *mut c_void,
            (address, length, wanted, flags, to), libc::SYS_mremap
        )
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
        walker::on_open(libc::AT_FDCWD, path, flags, fd);
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
        walker::on_open(libc::AT_FDCWD, path, flags, fd);
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
        walker::on_open(directory, path, flags, fd);
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
        walker::on_open(directory, path, flags, fd);
        fd
    }

    /// unshare(2): some of it is allowed only to a process of one thread.
    fn unshare(flags: c_int) -> c_int {
        worker::stop();
        through!(UNSHARE as fn(c_int) -> c_int, (flags), libc::SYS_unshare)
    }

    /// setns(2): likewise.
    fn setns(fd: c_int, kind: c_int) -> c_int {
        worker::stop();
        through!(SETNS as fn(c_int, c_int) -> c_int, (fd, kind), libc::SYS_setns)
    }

    /// prctl(2): a filter for system calls ends all prefetching.
    fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
        if option == libc::PR_SET_SECCOMP {
            start::end();
        }
        through!(
            PRCTL as fn(c_int, usize, usize, usize, usize) -> c_int, (option, a, b, c, d), libc::SYS_prctl
        )
    }

    /// syscall(2): likewise for seccomp(2), unshare(2) and setns(2).
    fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
        match number {
            libc::SYS_seccomp => start::end(),
            libc::SYS_unshare | libc::SYS_setns => worker::stop(),
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

/// Hooks of calls that change credentials: the workers would keep the old ones.
macro_rules! credentials {
    ($($name:ident($($argument:ident: $type:ty),*) = $original:ident, $number:expr;)*) => {
        hooks! {
            $(
                /// Changes credentials: the workers end first.
                fn $name($($argument: $type),*) -> c_int {
                    worker::stop();
                    through!($original as fn($($type),*) -> c_int, ($($argument),*), $number)
                }
            )*
        }
    };
}

credentials! {
    setuid(user: c_uint) = SETUID, libc::SYS_setuid;
    setgid(group: c_uint) = SETGID, libc::SYS_setgid;
    setreuid(real: c_uint, effective: c_uint) = SETREUID, libc::SYS_setreuid;
    setregid(real: c_uint, effective: c_uint) = SETREGID, libc::SYS_setregid;
    setresuid(real: c_uint, effective: c_uint, saved: c_uint) = SETRESUID, libc::SYS_setresuid;
    setresgid(real: c_uint, effective: c_uint, saved: c_uint) = SETRESGID, libc::SYS_setresgid;
    setgroups(count: size_t, groups: *const c_uint) = SETGROUPS, libc::SYS_setgroups;
}

hooks! {
    /// Changes credentials: the workers end first.
    fn seteuid(user: c_uint) -> c_int {
        worker::stop();
        let found = SETEUID.get();
        if found.is_null() {
            return bare(libc::SYS_setresuid, &[usize::MAX, user as usize, usize::MAX]) as c_int;
        }
        through!(SETEUID as fn(c_uint) -> c_int, (user), libc::SYS_setresuid)
    }

    /// Changes credentials: the workers end first.
    fn setegid(group: c_uint) -> c_int {
        worker::stop();
        let found = SETEGID.get();
        if found.is_null() {
            return bare(libc::SYS_setresgid, &[usize::MAX, group as usize, usize::MAX]) as c_int;
        }
        through!(SETEGID as fn(c_uint) -> c_int, (group), libc::SYS_setresgid)
    }
}
