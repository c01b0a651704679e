//! Directories and machines for tests.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use camino::{Utf8Path, Utf8PathBuf};
use host::Host;

/// A temporary directory with a resolved UTF-8 path.
pub struct TempDir {
    _dir: tempfile::TempDir,
    pub path: Utf8PathBuf,
}

pub fn temp_dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(dir.path().canonicalize().unwrap()).unwrap();
    TempDir { _dir: dir, path }
}

/// Makes `root` look like a machine: a small file for each pair.
pub fn fake_host(root: &Utf8Path, files: &[(&str, &str)]) -> Host {
    for (path, text) in files {
        let path = root.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    Host::rooted(root)
}

/// Entries of a directory.
pub fn names(dir: &Utf8Path) -> Vec<String> {
    Host::system().names(dir)
}
