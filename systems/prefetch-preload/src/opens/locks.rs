//! Whether the process may have POSIX locks. Closing any descriptor of a file drops those on it, so from then on no file is
//! opened here, and one that is open stays open.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, Ordering::SeqCst};

use prefetch_os::memory::{join, slurp};
use prefetch_os::sys;

use crate::{gate, pass};

/// What came through execve(2) was not looked at yet.
const UNKNOWN: u8 = 0;
/// There are none.
const NONE: u8 = 1;
/// The program waits to take the first one, until what is open here is closed.
const EXPECTED: u8 = 2;
/// There may be some.
const TAKEN: u8 = 3;

static LOCKS: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether it is known that there may be some.
pub fn are_known() -> bool {
    LOCKS.load(SeqCst) >= EXPECTED
}

/// The program is about to take one. Waits until nothing is open here: until `is_idle`, or for a second.
pub fn forbid(is_idle: impl Fn() -> bool) {
    if LOCKS.load(SeqCst) == TAKEN {
        return;
    }
    LOCKS.fetch_max(EXPECTED, SeqCst);
    // A signal handler may have met this very thread there.
    if !pass::is_inside() {
        gate::wait_until(is_idle);
    }
    LOCKS.store(TAKEN, SeqCst);
}

/// Whether a file may be opened, which will be closed again.
pub fn may_open() -> bool {
    if LOCKS.load(SeqCst) == UNKNOWN {
        let found = if are_inherited() { TAKEN } else { NONE };
        let _ = LOCKS.compare_exchange(UNKNOWN, found, SeqCst, SeqCst);
    }
    LOCKS.load(SeqCst) == NONE
}

/// Closes a file, unless the program has taken a lock that might go with it: then it stays open until the process ends.
pub fn close(fd: c_int) {
    if LOCKS.load(SeqCst) != TAKEN {
        sys::close(fd);
    }
}

/// Whether a descriptor shows a POSIX lock: the process may have had it before execve(2). Also when that cannot be told.
fn are_inherited() -> bool {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let Ok(directory) = sys::openat(libc::AT_FDCWD, c"/proc/self/fdinfo", flags, 0) else { return true };
    let mut entries = [0; 4096];
    let found = loop {
        let to = entries.as_mut_ptr() as usize;
        // SAFETY: the buffer is valid for its length.
        let read =
            unsafe { sys::call(libc::SYS_getdents64, [directory as usize, to, entries.len(), 0, 0, 0]) };
        match read {
            Ok(0) => break false,
            Ok(len) if !is_one_locked(entries.get(..len).unwrap_or_default()) => {}
            _ => break true,
        }
    };
    sys::close(directory);
    found
}

/// Whether one of the descriptors in these entries of `/proc/self/fdinfo` shows a lock.
fn is_one_locked(mut entries: &[u8]) -> bool {
    // linux_dirent64: inode (8), offset (8), length of the record (2), kind (1), name.
    while let Some((record, rest)) = entries.get(16..18).and_then(|len| {
        let len = u16::from_ne_bytes(len.try_into().ok()?);
        entries.split_at_checked(usize::from(len.max(20)))
    }) {
        let name = record.get(19..).unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let (mut path, mut text) = ([0; 64], [0; 1024]);
        let path = join(&[b"/proc/self/fdinfo/", name], &mut path);
        let text = path.map_or(&[][..], |path| slurp(path, &mut text));
        if text.windows(5).any(|word| word == b"POSIX") {
            return true;
        }
        entries = rest;
    }
    false
}

/// For the tests: with a file open, waits until nobody has the FIFO of this name open any longer. Once.
#[cfg(debug_assertions)]
pub fn hold() {
    use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
    static DONE: AtomicBool = AtomicBool::new(false);
    // SAFETY: the name is a C string, and so is the variable, which lives as long as the environment is not changed.
    let fifo = unsafe {
        let fifo = libc::getenv(c"LOADLINE_PREFETCH_HOLD".as_ptr());
        (!fifo.is_null()).then(|| core::ffi::CStr::from_ptr(fifo))
    };
    if let Some(fifo) = fifo.filter(|_| !DONE.swap(true, Relaxed)) {
        slurp(fifo, &mut [0]);
    }
}
