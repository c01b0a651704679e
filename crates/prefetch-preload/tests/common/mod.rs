//! Where the library is, and files to read. Each test program uses a part of it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The library that cargo built for these tests.
pub fn library() -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    let places = [own.parent(), own.parent().and_then(Path::parent)];
    let found = places.into_iter().flatten().map(|place| place.join("libloadline_prefetch.so"));
    found.into_iter().find(|path| path.exists()).expect("libloadline_prefetch.so is built")
}

/// A directory on a real file system: /tmp may be memory.
pub fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// A file whose every 8 bytes are their own offset, out of the page cache.
pub fn cold_file(path: &Path, mib: u64) {
    let bytes: Vec<u8> = (0..mib << 17).flat_map(|word| (word * 8).to_le_bytes()).collect();
    std::fs::write(path, bytes).expect("a file");
    drop_cache(path);
}

/// Writes a file back and drops it from the page cache.
pub fn drop_cache(path: &Path) {
    let file = std::fs::File::open(path).expect("the file");
    file.sync_all().expect("fsync");
    // SAFETY: no pointers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}
