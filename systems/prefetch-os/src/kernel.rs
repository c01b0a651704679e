//! [`Os`] on the real kernel: cachestat, readahead, preadv2.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::ask::{Os, Refused, Residency};
use prefetch::PAGE;
use prefetch::budget::Memory;

use crate::{memory, sys};

/// The running kernel.
#[derive(Debug, Default)]
pub struct Kernel {
    /// cachestat does not exist here: not asked again.
    without_cachestat: AtomicBool,
}

impl Kernel {
    /// Nothing known yet.
    pub const fn new() -> Kernel {
        Kernel { without_cachestat: AtomicBool::new(false) }
    }
}

impl Os for Kernel {
    fn prefetch(&self, fd: i32, offset: u64, len: u64) -> Result<(), Refused> {
        sys::readahead(fd, offset, len).map(|_| ()).map_err(Refused)
    }

    fn residency(&self, fd: i32, offset: u64, len: u64) -> Result<Residency, Refused> {
        if self.without_cachestat.load(Relaxed) {
            return Err(Refused(libc::ENOSYS));
        }
        match sys::cachestat(fd, offset, len) {
            Ok(stat) => Ok(Residency {
                cached: stat.cached * PAGE,
                evicted: stat.recently_evicted * PAGE,
                written: (stat.dirty + stat.writeback) * PAGE,
            }),
            Err(errno) => {
                // EPERM is about this file (neither owned nor writable), ENOSYS about the kernel.
                if errno == libc::ENOSYS {
                    self.without_cachestat.store(true, Relaxed);
                }
                Err(Refused(errno))
            }
        }
    }

    fn wait_for(&self, fd: i32, offset: u64) -> Result<(), Refused> {
        sys::pread_byte(fd, offset, 0).map(|_| ()).map_err(Refused)
    }

    fn is_ready(&self, fd: i32, offset: u64) -> Result<bool, Refused> {
        match sys::pread_byte(fd, offset, libc::RWF_NOWAIT) {
            Ok(_) => Ok(true),
            Err(libc::EAGAIN) => Ok(false),
            Err(errno) => Err(Refused(errno)),
        }
    }

    fn memory(&self) -> Memory {
        memory::look()
    }

    fn now_ns(&self) -> u64 {
        sys::now_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prefetch::Request;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_dropped_file_is_brought_back() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut file = std::fs::File::create_new(directory.path().join("data")).unwrap();
        file.write_all(&vec![1; 4 << 20]).unwrap();
        file.sync_all().unwrap();
        let fd = std::fs::File::open(directory.path().join("data")).unwrap();
        let fd = fd.as_raw_fd();
        let kernel = Kernel::new();
        sys::fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED).unwrap();
        let Ok(before) = kernel.residency(fd, 0, 4 << 20) else {
            eprintln!("skipped: no cachestat on this kernel");
            return;
        };
        let (done, _) =
            crate::ask::fetch(&kernel, fd, Request { offset: 0, len: 4 << 20 }, 128 << 10, 4 << 20);
        assert!(!done.refused && done.cached <= before.cached);
        assert_eq!(kernel.residency(fd, 0, 4 << 20).unwrap().cached, 4 << 20);
        assert_eq!(kernel.is_ready(fd, 0), Ok(true));
    }

    /// A file that its reader neither owns nor may write: the C library is such a one for everybody but root, who
    /// becomes nobody for the time of a thread.
    #[test]
    fn a_file_of_which_cachestat_is_refused_is_told_by_its_pages_and_others_go_on() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut own = std::fs::File::create_new(directory.path().join("own")).unwrap();
        own.write_all(&vec![1; 1 << 20]).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path =
            maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|p| p.contains("/libc"));
        let others = std::fs::File::open(path.expect("this program is linked with the C library")).unwrap();
        let kernel = Kernel::new();
        let known = kernel.residency(own.as_raw_fd(), 0, 1 << 20).map(|residency| residency.cached);
        let request = Request { offset: 0, len: 64 << 10 };
        (0..16).for_each(|page| kernel.wait_for(others.as_raw_fd(), page * PAGE).unwrap());
        let (refused, done) = std::thread::scope(|scope| {
            let nobody = scope.spawn(|| {
                // SAFETY: no pointers; the bare call changes this thread only, which ends soon.
                let _ = unsafe { sys::call(libc::SYS_setresuid, [65_534, 65_534, 65_534, 0, 0, 0]) };
                let refused = kernel.residency(others.as_raw_fd(), 0, 64 << 10).err();
                (refused, crate::ask::issue(&kernel, others.as_raw_fd(), request, 64 << 10, true))
            });
            nobody.join().unwrap()
        });
        // Kernels of 2025 and later refuse, older ones tell everybody, those before 6.5 nobody.
        assert!(matches!(refused, None | Some(Refused(libc::EPERM | libc::ENOSYS))), "{refused:?}");
        assert_eq!((done.cached, done.refused), (64 << 10, false));
        let again = kernel.residency(own.as_raw_fd(), 0, 1 << 20).map(|residency| residency.cached);
        assert_eq!(again, known, "one refusal is not for all files");
    }

    #[test]
    fn bad_descriptors_are_refused() {
        let kernel = Kernel::new();
        assert_eq!(kernel.prefetch(-1, 0, 4096), Err(Refused(libc::EBADF)));
        assert!(kernel.residency(-1, 0, 4096).is_err());
        assert!(kernel.memory().available > 0);
    }
}
