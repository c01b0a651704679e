//! The file behind the statistics page: made so that no access to its mapping can raise a signal in the program.
//!
//! A page of a mapped file that the file system cannot give room to is SIGBUS for whoever touches it. So all is
//! allocated before it is mapped, on file systems where that is a promise, and touched once by the kernel, which
//! answers where the program would be killed. Whatever fails, the program goes on without statistics.

use core::ffi::CStr;
use core::sync::atomic::AtomicU64;

use prefetch_os::area::BYTES;
use prefetch_os::memory::{decimal, join};
use prefetch_os::sys;

/// File systems that write allocated blocks in place, so that a mapping never needs room again: tmpfs, ramfs, ext2 to
/// ext4, XFS; and overlayfs, which containers have above one of these. Others (btrfs, FUSE, NFS) may look for room, or
/// a server, when a page is touched after it was written back.
const STEADY: [i64; 5] = [0x0102_1994, 0x8584_58f6, 0xef53, 0x5846_5342, 0x794c_7630];

/// Makes the file of process `pid` in a directory and maps it: [`BYTES`] bytes of zeroes.
pub fn page(directory: &CStr, pid: u32) -> Option<*mut AtomicU64> {
    // The kernel's answer to a longer file is SIGXFSZ.
    if sys::file_bytes_max() < BYTES as u64 {
        return None;
    }
    let (mut digits, mut name) = ([0; 20], [0; 24]);
    let name = join(&[decimal(u64::from(pid), &mut digits)], &mut name)?;
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let place = sys::openat(libc::AT_FDCWD, directory, flags, 0).ok()?;
    let mapped = is_private(place).then(|| make(place, name)).flatten();
    sys::close(place);
    mapped
}

/// Whether a directory is this user's, and nobody else writes in it.
fn is_private(directory: i32) -> bool {
    let owned = |stat: libc::stat| stat.st_uid == sys::effective_user() && stat.st_mode & 0o022 == 0;
    let steady = |kind: i64| STEADY.contains(&(kind & 0xffff_ffff));
    sys::fstat(directory).is_ok_and(owned) && sys::fs_type(directory).is_ok_and(steady)
}

fn make(directory: i32, name: &CStr) -> Option<*mut AtomicU64> {
    // What an ended process of this number left is taken away, and never cut off: a living one of another PID
    // namespace may have it mapped. Anything else of this name is somebody's.
    if let Ok(found) = sys::stat_at(directory, name) {
        let page = found.st_mode & libc::S_IFMT == libc::S_IFREG && found.st_size == BYTES as i64;
        if !page || found.st_uid != sys::effective_user() || sys::unlink_at(directory, name).is_err() {
            return None;
        }
    }
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    let fd = sys::openat(directory, name, flags, 0o600).ok()?;
    let mapped = sys::allocate(fd, BYTES as u64).ok().and_then(|_| map(fd));
    sys::close(fd);
    if mapped.is_none() {
        let _ = sys::unlink_at(directory, name);
    }
    mapped
}

/// Maps the file and has the kernel touch all of it.
fn map(fd: i32) -> Option<*mut AtomicU64> {
    /// Linux 5.14.
    const MADV_POPULATE_WRITE: usize = 23;
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: no pointers; the mapping is fresh.
    let address = unsafe {
        sys::call(libc::SYS_mmap, [0, BYTES, protection, libc::MAP_SHARED as usize, fd as usize, 0])
    };
    let address = address.ok()?;
    // SAFETY: the mapping is this one; where its pages cannot be had the answer is an error, not a signal.
    match unsafe { sys::call(libc::SYS_madvise, [address, BYTES, MADV_POPULATE_WRITE, 0, 0, 0]) } {
        Ok(_) | Err(libc::EINVAL) => Some(address as *mut AtomicU64),
        Err(_) => {
            // SAFETY: nothing points into the mapping yet.
            let _ = unsafe { sys::call(libc::SYS_munmap, [address, BYTES, 0, 0, 0, 0]) };
            None
        }
    }
}
