//! What the core asks of the kernel, about one open file: readahead, cachestat, preadv2.

use prefetch::{PAGE, Pages};

use crate::sys;

/// Requests after one read at most: the reading thread makes them.
const REQUESTS_MAX: u32 = 16;

/// One open file, after one read. Its descriptor is never opened, duplicated or closed here: closing any descriptor of a
/// file drops the process's POSIX locks on it.
#[derive(Debug)]
pub struct Kernel {
    /// The descriptor.
    pub fd: i32,
    /// The file's size, bytes.
    pub size: u64,
    /// Nothing is asked for, only counted.
    pub observing: bool,
    /// Requests so far.
    pub requests: u32,
}

impl Kernel {
    /// Before the first request.
    pub fn new(fd: i32, size: u64, observing: bool) -> Kernel {
        Kernel { fd, size, observing, requests: 0 }
    }
}

impl Pages for Kernel {
    fn ask(&mut self, offset: u64, len: u64) -> bool {
        let len = len.min(self.size.saturating_sub(offset));
        if len == 0 || self.requests >= REQUESTS_MAX {
            return false;
        }
        self.requests += 1;
        self.observing || sys::readahead(self.fd, offset, len).is_ok()
    }

    fn is_cached(&mut self, offset: u64, len: u64) -> Option<bool> {
        let len = len.min(self.size.saturating_sub(offset));
        // Behind the end there is nothing to ask for, either; of others' files the kernel does not tell.
        sys::cachestat(self.fd, offset, len).ok().map(|stat| stat.cached * PAGE >= len && len > 0)
    }

    fn is_ready(&mut self, offset: u64) -> Option<bool> {
        match sys::pread_byte(self.fd, offset, libc::RWF_NOWAIT) {
            Ok(_) => Some(true),
            Err(libc::EAGAIN) => Some(self.observing),
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn requests_end_with_the_file_and_with_their_number() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 3 * PAGE as usize]).unwrap();
        let mut kernel = Kernel::new(file.as_raw_fd(), 3 * PAGE, false);
        assert!(kernel.ask(0, 1 << 20) && !kernel.ask(3 * PAGE, PAGE));
        assert_ne!(kernel.is_ready(0), Some(false), "it was just written");
        assert_ne!(kernel.is_cached(0, 1 << 20), Some(false));
        let asked = (0..100).filter(|_| kernel.ask(0, PAGE)).count();
        assert_eq!(asked, REQUESTS_MAX as usize - 1);
        assert!(!Kernel::new(-1, PAGE, false).ask(0, PAGE), "no such descriptor");
        assert!(Kernel::new(-1, PAGE, true).ask(0, PAGE), "nothing is asked for");
        assert_eq!(Kernel::new(-1, PAGE, false).is_ready(0), None);
    }
}
