//! Where the library is, and files to read. Each test program uses a part of it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The library, built as this program was: cargo builds a library that nothing can link only when it is asked to.
/// `scripts/test.sh` has it built already, and says where it is.
pub fn library() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            if let Some(built) = std::env::var_os("LOADLINE_TEST_LIBRARY") {
                assert!(Path::new(&built).is_file(), "LOADLINE_TEST_LIBRARY is no file: {built:?}");
                return built.into();
            }
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

/// Reads a file through, as cat(1) does: a few reads, which are watched. Its length.
pub fn read_through(path: &Path) -> u64 {
    use std::io::Read;
    let mut file = std::fs::File::open(path).expect("the file");
    let (mut buffer, mut bytes) = (vec![0; 128 << 10], 0);
    loop {
        match file.read(&mut buffer).expect("a read") {
            0 => return bytes,
            read => bytes += read as u64,
        }
    }
}

/// Writes a file back and drops it from the page cache.
pub fn drop_cache(path: &Path) {
    let file = std::fs::File::open(path).expect("the file");
    file.sync_all().expect("fsync");
    // SAFETY: no pointers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// What the statistics say of this process so far; `None` before there are any. Read past the hooks: looking is no
/// reading of the program's.
pub fn own_page() -> Option<prefetch_os::area::Snapshot> {
    use prefetch_os::sys;
    let directory = std::env::var_os("LOADLINE_PREFETCH_DIR")?;
    let path = Path::new(&directory).join(std::process::id().to_string());
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
    let fd = sys::openat(libc::AT_FDCWD, &path, libc::O_RDONLY | libc::O_CLOEXEC, 0).ok()?;
    let mut bytes = vec![0; prefetch_os::area::BYTES];
    let read = sys::read(fd, &mut bytes);
    sys::close(fd);
    prefetch_os::area::Snapshot::parse(bytes.get(..read.ok()?)?).ok()
}

/// Whether anything was prefetched for this process so far.
pub fn prefetches() -> bool {
    own_page().is_some_and(|page| page.total().issued > 0)
}

/// Waits for what must come, however slow the machine is; what never comes is a failure.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed().as_secs() < 120, "never: {what}; {:?}", own_page());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// All statistics in a directory.
pub fn pages(statistics: &Path) -> Vec<prefetch_os::area::Snapshot> {
    prefetch_os::areas::all(&[statistics]).into_iter().map(|found| found.snapshot).collect()
}
