//! What is done to the file system while it is recorded: operations on files, and the ones built in.

mod builtin;
pub(crate) mod data;
mod drive;

use std::collections::BTreeMap;
use std::fmt;

pub use builtin::{NAMES, builtin};
pub use drive::{DriveError, drive};

/// One operation. Paths are relative to the file system's root; places and lengths are sectors of 512 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes an empty file.
    Create {
        /// Path.
        path: String,
        /// Number of the file, unique in the workload.
        file: u32,
    },
    /// Writes into a file.
    Write {
        /// Path.
        path: String,
        /// Number of the file.
        file: u32,
        /// Number of the write, unique in the workload.
        version: u32,
        /// First sector.
        place: u32,
        /// Sectors.
        sectors: u32,
    },
    /// Cuts or extends a file.
    Truncate {
        /// Path.
        path: String,
        /// Sectors left.
        sectors: u32,
    },
    /// fsync of a file.
    Fsync(String),
    /// fdatasync of a file.
    Fdatasync(String),
    /// fsync of a directory; "" is the root.
    FsyncDir(String),
    /// syncfs.
    Sync,
    /// Renames a file, over another one if it exists.
    Rename(String, String),
    /// Makes another name of a file.
    Link(String, String),
    /// Removes a name of a file.
    Unlink(String),
    /// Makes a directory.
    Mkdir(String),
    /// Removes an empty directory.
    Rmdir(String),
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = |sectors: &u32| f64::from(*sectors) / 2.0;
        match self {
            Op::Create { path, .. } => write!(f, "create {path}"),
            Op::Write { path, version, place, sectors, .. } => {
                write!(f, "write {path} at {} KiB, {} KiB (version {version})", kib(place), kib(sectors))
            }
            Op::Truncate { path, sectors } => write!(f, "truncate {path} to {} KiB", kib(sectors)),
            Op::Fsync(path) => write!(f, "fsync {path}"),
            Op::Fdatasync(path) => write!(f, "fdatasync {path}"),
            Op::FsyncDir(path) => write!(f, "fsync directory /{path}"),
            Op::Sync => write!(f, "syncfs"),
            Op::Rename(from, to) => write!(f, "rename {from} to {to}"),
            Op::Link(from, to) => write!(f, "link {from} to {to}"),
            Op::Unlink(path) => write!(f, "unlink {path}"),
            Op::Mkdir(path) => write!(f, "mkdir {path}"),
            Op::Rmdir(path) => write!(f, "rmdir {path}"),
        }
    }
}

/// Operations in order; one after the other returns before the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// What it is called.
    pub name: String,
    /// The operations.
    pub ops: Vec<Op>,
    /// So many of them, ended by a `Sync`, come before the recording.
    pub setup: usize,
}

/// The directory of a path; "" is the root.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Builds scripts: knows which file a path names and how long it is.
#[derive(Clone, Debug, Default)]
pub struct ScriptBuilder {
    ops: Vec<Op>,
    setup: usize,
    /// Path -> number of the file.
    files: BTreeMap<String, u32>,
    /// Number of the file -> sectors.
    lengths: Vec<u32>,
    versions: u32,
}

impl ScriptBuilder {
    /// An empty script.
    pub fn new() -> ScriptBuilder {
        ScriptBuilder::default()
    }

    /// What comes after this is recorded; what came before is durable.
    pub fn begin(&mut self) {
        self.ops.push(Op::Sync);
        self.setup = self.ops.len();
    }

    /// Makes a file.
    pub fn create(&mut self, path: &str) {
        let file = self.lengths.len() as u32;
        self.lengths.push(0);
        self.files.insert(path.to_owned(), file);
        self.ops.push(Op::Create { path: path.to_owned(), file });
    }

    /// Writes into a file; nothing if there is none.
    pub fn write(&mut self, path: &str, place: u32, sectors: u32) {
        let Some(file) = self.files.get(path).copied() else { return };
        self.versions += 1;
        let length = &mut self.lengths[file as usize];
        *length = (*length).max(place + sectors);
        let path = path.to_owned();
        self.ops.push(Op::Write { path, file, version: self.versions, place, sectors });
    }

    /// Writes behind the end of a file.
    pub fn append(&mut self, path: &str, sectors: u32) {
        self.write(path, self.length(path), sectors);
    }

    /// Sectors of a file, 0 if there is none.
    pub fn length(&self, path: &str) -> u32 {
        self.files.get(path).map_or(0, |file| self.lengths[*file as usize])
    }

    /// Whether a file is there.
    pub fn exists(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Paths of all files.
    pub fn paths(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    /// Appends any other operation.
    pub fn then(&mut self, op: Op) {
        match &op {
            Op::Rename(from, to) => {
                let Some(file) = self.files.get(from).copied() else { return };
                if self.files.get(to) == Some(&file) {
                    // two names of one file: POSIX makes this do nothing
                    return;
                }
                self.files.remove(from);
                self.files.insert(to.clone(), file);
            }
            Op::Link(from, to) => {
                let Some(file) = self.files.get(from).copied() else { return };
                self.files.insert(to.clone(), file);
            }
            Op::Unlink(path) => {
                self.files.remove(path);
            }
            Op::Truncate { path, sectors } => {
                let Some(file) = self.files.get(path) else { return };
                self.lengths[*file as usize] = *sectors;
            }
            _ => {}
        }
        self.ops.push(op);
    }

    /// The script.
    pub fn finish(self, name: &str) -> Script {
        Script { name: name.to_owned(), ops: self.ops, setup: self.setup }
    }
}
