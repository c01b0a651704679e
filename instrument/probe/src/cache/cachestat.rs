//! The system call cachestat(2), Linux 6.5.

use std::fs::File;
use std::os::fd::AsRawFd;

/// What the page cache holds of a file, in pages of 4 KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CacheStat {
    /// In the cache.
    pub cached: u64,
    /// Of these, to be written back.
    pub dirty: u64,
    /// Of these, being written back.
    pub writeback: u64,
    /// No longer in the cache, as far as the kernel remembers.
    pub evicted: u64,
    /// Of these, so recently that they would have stayed in a slightly larger cache.
    pub recently_evicted: u64,
}

/// Asks about the whole of `file`.
///
/// # Errors
/// `ENOSYS` before Linux 6.5; `EPERM` for files that the caller neither owns nor may write.
pub fn cachestat(file: &File) -> std::io::Result<CacheStat> {
    const NUMBER: libc::c_long = 451;
    // offset and length; 0 means to the end of the file
    let range = [0_u64; 2];
    let mut stat = CacheStat::default();
    // SAFETY: the descriptor is open; the kernel reads `range` (struct cachestat_range) and writes `stat`, which
    // has the layout of struct cachestat.
    let result =
        unsafe { libc::syscall(NUMBER, file.as_raw_fd(), range.as_ptr(), &raw mut stat, 0 as libc::c_uint) };
    if result == 0 { Ok(stat) } else { Err(std::io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_just_written_is_cached() {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 5 * 4096]).unwrap();
        match cachestat(&file) {
            Ok(stat) => assert_eq!(stat.cached, 5),
            Err(error) => {
                assert!(matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)), "{error}")
            }
        }
    }
}
