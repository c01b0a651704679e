//! What the pass over a recording has seen: files, threads, and the numbers of their groups and shapes.

use super::group::{Numbers, Pattern};
use super::step::{Shape, Steps};

/// A file, by its name.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileSeen {
    pub group: u32,
    /// Its group is that of its size when the first step was counted.
    pub placed: bool,
    /// Hash of its directory.
    pub directory: u64,
    pub depth: usize,
    pub is_directory: bool,
    /// Whether it is there; `None`: nobody knows yet.
    pub exists: Option<bool>,
    /// Its size when the recording began; `None`: it was not there, or nobody knows.
    pub initial: Option<u64>,
    /// The recorder said what it was.
    pub found: bool,
    pub size: u64,
    pub largest: u64,
    pub opens: u64,
    pub created: u64,
    pub deleted: u64,
    /// The program did something to it.
    pub touched: bool,
}

/// A thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct ThreadSeen {
    pub name: String,
    pub first_ns: u64,
    pub last_ns: u64,
    pub calls: u64,
    pub took_ns: u64,
    pub think_ns: u64,
    pub steps: Steps,
    /// The file that it made and closed last.
    pub made: Option<u32>,
}

/// What the pass has seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub files: Vec<FileSeen>,
    pub threads: Vec<ThreadSeen>,
    pub groups: Numbers<Pattern>,
    pub shapes: Numbers<Shape>,
}
