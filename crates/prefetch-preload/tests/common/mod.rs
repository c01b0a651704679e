//! Where the library is, and files to read. Each test program uses a part of it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The library, built as this program was: cargo builds a library that nothing can link only when it is asked to.
pub fn library() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let own = std::env::current_exe().expect("this program");
            let profile = own.parent().and_then(Path::parent).expect("the directory of a profile");
            let release = profile.file_name().is_some_and(|name| name == "release");
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--offline", "-p", "loadline-prefetch-preload"]);
            build.args(release.then_some("--release"));
            build.arg("--target-dir").arg(profile.parent().expect("the target directory"));
            build.current_dir(env!("CARGO_MANIFEST_DIR"));
            assert!(build.status().expect("cargo").success(), "the library cannot be built");
            profile.join("libloadline_prefetch.so")
        })
        .clone()
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
