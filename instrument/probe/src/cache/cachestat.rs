//! What the page cache holds of a whole file, by cachestat(2).

use std::fs::File;
use std::os::fd::AsRawFd;

pub use prefetch_os::sys::CacheStat;

/// Asks about the whole of `file`; the answer is in pages of 4 KiB.
///
/// # Errors
/// `ENOSYS` before Linux 6.5; `EPERM` for files that the caller neither owns nor may write.
pub fn cachestat(file: &File) -> std::io::Result<CacheStat> {
    // length 0 means to the end of the file
    prefetch_os::sys::cachestat(file.as_raw_fd(), 0, 0).map_err(std::io::Error::from_raw_os_error)
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
