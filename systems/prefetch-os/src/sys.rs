//! System calls without libc: no errno, no thread-local storage, no cancellation, no hooks.
//!
//! Every function returns what the kernel returned, or its error number as `Err`.

use core::ffi::CStr;

/// What the kernel answered: a value, or an errno.
pub type Answer = Result<usize, i32>;

fn answer(raw: isize) -> Answer {
    if (-4095..0).contains(&raw) { Err(-raw as i32) } else { Ok(raw as usize) }
}

/// One system call with up to six arguments.
///
/// # Safety
/// As the call itself: pointers among the arguments must be valid for what the kernel does with them.
#[cfg(target_arch = "x86_64")]
pub unsafe fn call(number: libc::c_long, a: [usize; 6]) -> Answer {
    let raw: isize;
    // SAFETY: the kernel's calling convention; rcx and r11 are clobbered. The caller vouches for the arguments.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => raw,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    answer(raw)
}

/// One system call with up to six arguments.
///
/// # Safety
/// As the call itself: pointers among the arguments must be valid for what the kernel does with them.
#[cfg(target_arch = "aarch64")]
pub unsafe fn call(number: libc::c_long, a: [usize; 6]) -> Answer {
    let raw: isize;
    // SAFETY: the kernel's calling convention. The caller vouches for the arguments.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number as usize,
            inlateout("x0") a[0] as isize => raw,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack)
        );
    }
    answer(raw)
}

/// cachestat(2), Linux 6.5; libc does not know it on all targets.
const SYS_CACHESTAT: libc::c_long = 451;

/// The answer of cachestat(2), in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CacheStat {
    /// In the page cache.
    pub cached: u64,
    /// Dirty.
    pub dirty: u64,
    /// Under write-back.
    pub writeback: u64,
    /// Evicted.
    pub evicted: u64,
    /// Evicted recently: bringing them back would be a refault.
    pub recently_evicted: u64,
}

/// Pages of a range in the page cache.
pub fn cachestat(fd: i32, offset: u64, len: u64) -> Result<CacheStat, i32> {
    let range = [offset, len];
    let mut stat = CacheStat::default();
    // SAFETY: both pointers live through the call and have the sizes of the kernel's structures.
    unsafe {
        call(SYS_CACHESTAT, [fd as usize, range.as_ptr() as usize, (&raw mut stat) as usize, 0, 0, 0])?;
    }
    Ok(stat)
}

/// readahead(2).
pub fn readahead(fd: i32, offset: u64, len: u64) -> Answer {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_readahead, [fd as usize, offset as usize, len as usize, 0, 0, 0]) }
}

/// posix_fadvise(2).
pub fn fadvise(fd: i32, offset: u64, len: u64, advice: i32) -> Answer {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_fadvise64, [fd as usize, offset as usize, len as usize, advice as usize, 0, 0]) }
}

/// preadv2(2) of one byte, with flags such as RWF_NOWAIT.
pub fn pread_byte(fd: i32, offset: u64, flags: i32) -> Answer {
    let mut byte = 0u8;
    let iov = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: the vector and its one byte live through the call.
    unsafe {
        call(
            libc::SYS_preadv2,
            [fd as usize, (&raw const iov) as usize, 1, offset as usize, 0, flags as usize],
        )
    }
}

/// read(2).
pub fn read(fd: i32, buffer: &mut [u8]) -> Answer {
    // SAFETY: the buffer is valid for its length.
    unsafe { call(libc::SYS_read, [fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) }
}

/// openat(2); `directory` may be `libc::AT_FDCWD`.
pub fn openat(directory: i32, path: &CStr, flags: i32, mode: u32) -> Result<i32, i32> {
    // SAFETY: the path is a C string.
    let fd = unsafe {
        call(
            libc::SYS_openat,
            [directory as isize as usize, path.as_ptr() as usize, flags as usize, mode as usize, 0, 0],
        )?
    };
    Ok(fd as i32)
}

/// What a name in a directory is, links not followed: fstatat(2).
pub fn stat_at(directory: i32, name: &CStr) -> Result<libc::stat, i32> {
    // SAFETY: the name is a C string; zeroes are a valid `stat`, and it is valid for writing.
    unsafe {
        let mut stat: libc::stat = core::mem::zeroed();
        let arguments = [
            directory as isize as usize,
            name.as_ptr() as usize,
            (&raw mut stat) as usize,
            libc::AT_SYMLINK_NOFOLLOW as usize,
            0,
            0,
        ];
        call(libc::SYS_newfstatat, arguments)?;
        Ok(stat)
    }
}

/// Removes a file from a directory: unlinkat(2).
pub fn unlink_at(directory: i32, name: &CStr) -> Answer {
    // SAFETY: the name is a C string.
    unsafe { call(libc::SYS_unlinkat, [directory as isize as usize, name.as_ptr() as usize, 0, 0, 0, 0]) }
}

/// Makes a file so many bytes long, all of them allocated: fallocate(2). Beyond [`file_bytes_max`] the kernel
/// would send SIGXFSZ.
pub fn allocate(fd: i32, bytes: u64) -> Answer {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_fallocate, [fd as usize, 0, 0, bytes as usize, 0, 0]) }
}

/// How long a file this process may make, bytes: its limit RLIMIT_FSIZE.
pub fn file_bytes_max() -> u64 {
    let mut limit = [0u64; 2];
    // SAFETY: the kernel's `rlimit64` is two words, valid for writing.
    let told = unsafe {
        call(libc::SYS_prlimit64, [0, libc::RLIMIT_FSIZE as usize, 0, limit.as_mut_ptr() as usize, 0, 0])
    };
    if told.is_ok() { limit[0] } else { 0 }
}

/// The effective user of this process.
pub fn effective_user() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_geteuid, [0; 6]) }.unwrap_or(usize::MAX) as u32
}

/// close(2).
pub fn close(fd: i32) {
    // SAFETY: no pointers.
    let _ = unsafe { call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// fstat(2).
pub fn fstat(fd: i32) -> Result<libc::stat, i32> {
    // SAFETY: zeroes are a valid `stat`, and it is valid for writing.
    unsafe {
        let mut stat: libc::stat = core::mem::zeroed();
        call(libc::SYS_fstat, [fd as usize, (&raw mut stat) as usize, 0, 0, 0, 0])?;
        Ok(stat)
    }
}

/// The type of the file system of a file: `f_type` of fstatfs(2).
pub fn fs_type(fd: i32) -> Result<i64, i32> {
    // SAFETY: zeroes are a valid `statfs`, and it is valid for writing.
    unsafe {
        let mut stat: libc::statfs = core::mem::zeroed();
        call(libc::SYS_fstatfs, [fd as usize, (&raw mut stat) as usize, 0, 0, 0, 0])?;
        Ok(stat.f_type as i64)
    }
}

/// The flags a file was opened with: fcntl(F_GETFL).
pub fn file_flags(fd: i32) -> Result<i32, i32> {
    // SAFETY: no pointers.
    let flags = unsafe { call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0])? };
    Ok(flags as i32)
}

/// The position of a descriptor: lseek(0, SEEK_CUR).
pub fn position(fd: i32) -> Result<u64, i32> {
    // SAFETY: no pointers.
    let at = unsafe { call(libc::SYS_lseek, [fd as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0])? };
    Ok(at as u64)
}

/// readlinkat(2) into a buffer; the bytes of the target.
pub fn readlink<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], i32> {
    // SAFETY: the path is a C string, the buffer valid for its length.
    let len = unsafe {
        call(
            libc::SYS_readlinkat,
            [
                libc::AT_FDCWD as isize as usize,
                path.as_ptr() as usize,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                0,
                0,
            ],
        )?
    };
    Ok(buffer.get(..len).unwrap_or_default())
}

/// Waits while `word` is `value`, for at most `timeout_ns`.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, value: u32, timeout_ns: u64) {
    let timeout = [timeout_ns / 1_000_000_000, timeout_ns % 1_000_000_000];
    // SAFETY: both pointers live through the call.
    let _ = unsafe {
        call(
            libc::SYS_futex,
            [
                word.as_ptr() as usize,
                libc::FUTEX_WAIT as usize,
                value as usize,
                timeout.as_ptr() as usize,
                0,
                0,
            ],
        )
    };
}

/// Wakes at most `count` waiters.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32, count: u32) {
    // SAFETY: the pointer is only used as a key.
    let _ = unsafe {
        call(libc::SYS_futex, [word.as_ptr() as usize, libc::FUTEX_WAKE as usize, count as usize, 0, 0, 0])
    };
}

/// The calling process.
pub fn getpid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_getpid, [0; 6]) }.unwrap_or(0) as u32
}

/// The monotonic clock, ns; by the vdso, without a system call on most machines.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: valid for writing. The clock always exists, so errno is not touched.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The monotonic clock of the latest tick, ns: cheaper than [`now_ns`], late by up to 10 ms.
pub fn coarse_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: valid for writing. The clock always exists, so errno is not touched.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Sleeps.
pub fn sleep_ns(ns: u64) {
    let time = [ns / 1_000_000_000, ns % 1_000_000_000];
    // SAFETY: the pointer lives through the call.
    let _ = unsafe { call(libc::SYS_nanosleep, [time.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// CPU time of this thread, ns.
pub fn thread_ns() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel's `timespec` is two words, valid for writing.
    let told = unsafe {
        let arguments = [libc::CLOCK_THREAD_CPUTIME_ID as usize, time.as_mut_ptr() as usize, 0, 0, 0, 0];
        call(libc::SYS_clock_gettime, arguments)
    };
    if told.is_ok() { time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1]) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn calls_answer_like_libc() {
        assert_eq!(getpid(), std::process::id());
        assert_eq!(close_error(), libc::EBADF);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 5000]).unwrap();
        let fd = file.as_raw_fd();
        assert_eq!(fstat(fd).unwrap().st_size, 5000);
        assert_eq!(position(fd), Ok(5000));
        assert_eq!(pread_byte(fd, 4999, 0), Ok(1));
        assert_eq!(pread_byte(fd, 5000, 0), Ok(0));
        assert_eq!(file_flags(fd).unwrap() & libc::O_ACCMODE, libc::O_RDWR);
        assert!(now_ns() > 0);
    }

    fn close_error() -> i32 {
        // SAFETY: no pointers.
        unsafe { call(libc::SYS_close, [usize::MAX, 0, 0, 0, 0, 0]) }.unwrap_err()
    }

    #[test]
    fn links_are_read_into_the_buffer() {
        let mut buffer = [0; 4096];
        let exe = readlink(c"/proc/self/exe", &mut buffer).unwrap();
        assert_eq!(exe, std::env::current_exe().unwrap().as_os_str().as_encoded_bytes());
        assert_eq!(readlink(c"/nowhere/at/all", &mut buffer), Err(libc::ENOENT));
    }
}
