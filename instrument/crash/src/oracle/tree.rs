//! What is found in a mounted file system.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use camino::Utf8Path;
use rustix::fs::{SeekFrom, seek};

use crate::workload::data::{self, SECTOR, Sector};

/// A file larger than this was never written by a workload: it is not read.
const BYTES_MAX: u64 = 64 << 20;

/// Bytes read at a time.
const PIECE: usize = 256 << 10;

/// Something with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Dir,
    /// A file.
    File {
        /// Its size.
        bytes: u64,
        /// What each whole sector is.
        sectors: Vec<Sector>,
    },
    /// Neither, or what cannot be read, and why.
    Unreadable(String),
}

/// Everything found, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Path from the root -> what is there.
    pub nodes: BTreeMap<String, Node>,
}

/// Reads all files and directories below `root`, but for `lost+found`.
pub fn observe(root: &Utf8Path) -> Tree {
    let mut tree = Tree::default();
    walk(root, "", &mut tree);
    tree
}

/// Reads everything below `root`, whatever it is called: the first thing that cannot be read, and why. Once `stop` is set, what was
/// read until then is all.
pub fn unreadable(root: &Utf8Path, stop: &AtomicBool) -> Option<String> {
    let mut buffer = vec![0; PIECE];
    let mut dirs = vec![root.as_std_path().to_owned()];
    while let Some(dir) = dirs.pop().filter(|_| !stop.load(Ordering::Relaxed)) {
        let told = |path: &Path, error: std::io::Error| {
            let path = path.strip_prefix(root).unwrap_or(path);
            Some(format!(
                "{}: {error}",
                if path.as_os_str().is_empty() { Path::new(".") } else { path }.display()
            ))
        };
        let entries = match dir.read_dir() {
            Ok(entries) => entries,
            Err(error) => return told(&dir, error),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return told(&dir, error),
            };
            let path = entry.path();
            let read = entry.file_type().and_then(|kind| {
                if kind.is_file() {
                    return read_all(&path, &mut buffer, stop);
                }
                if kind.is_dir() {
                    dirs.push(path.clone());
                }
                std::fs::symlink_metadata(&path).map(|_| ())
            });
            if let Err(error) = read {
                return told(&path, error);
            }
        }
    }
    None
}

/// Reads what is not a hole: a file may be larger than any device.
fn read_all(path: &Path, buffer: &mut [u8], stop: &AtomicBool) -> std::io::Result<()> {
    let file = File::open(path)?;
    let mut at = 0;
    loop {
        at = match seek(&file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let hole = seek(&file, SeekFrom::Hole(at))?;
        while at < hole {
            let length = buffer.len().min(usize::try_from(hole - at).unwrap_or(usize::MAX));
            let read = file.read_at(&mut buffer[..length], at)?;
            if read == 0 || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            at += read as u64;
        }
    }
}

fn walk(dir: &Utf8Path, prefix: &str, tree: &mut Tree) {
    let mut told = |name: &str, error: std::io::Error| {
        let path = format!("{prefix}{name}");
        tree.nodes.insert(path, Node::Unreadable(error.to_string()));
    };
    let entries = match dir.read_dir_utf8() {
        Ok(entries) => entries,
        Err(error) => return told(".", error),
    };
    let mut names = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => names.push(entry.file_name().to_owned()),
            Err(error) => return told("?", error),
        }
    }
    for name in names {
        if prefix.is_empty() && name == "lost+found" {
            continue;
        }
        let (place, path) = (dir.join(&name), format!("{prefix}{name}"));
        let node = match std::fs::symlink_metadata(&place) {
            Ok(meta) if meta.is_dir() => Node::Dir,
            Ok(meta) if meta.is_file() => read(&place, meta.len()),
            Ok(_) => Node::Unreadable("neither a file nor a directory".into()),
            Err(error) => Node::Unreadable(error.to_string()),
        };
        if node == Node::Dir {
            walk(&place, &format!("{path}/"), tree);
        }
        tree.nodes.insert(path, node);
    }
}

fn read(place: &Utf8Path, bytes: u64) -> Node {
    if bytes > BYTES_MAX {
        return Node::Unreadable(format!("a file of {bytes} bytes"));
    }
    let mut contents = Vec::with_capacity(bytes as usize);
    match File::open(place).and_then(|mut file| file.read_to_end(&mut contents)) {
        Ok(_) => Node::File { bytes, sectors: contents.chunks(SECTOR).map(data::read).collect() },
        Err(error) => Node::Unreadable(error.to_string()),
    }
}
