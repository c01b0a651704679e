//! Does the prefetching library harm, on this machine? The same program without and with it in turns, judged.
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | what is measured: devices, patterns, sizes of memory, limits of time |
//! | [`pattern`], [`order`] | the patterns' names; the reads they consist of |
//! | [`reader`] | the program that is measured: reads a file in a pattern |
//! | [`matrix`] | measures cell after cell |
//! | `run` | one round: the reader without and with the library, each in a process of its own |
//! | `timed` | one program: wall and CPU time, what it printed, how it ended |
//! | `device` | files on this machine's own file system, and on emulated SSDs |
//! | `group` | a memory cgroup for each run |
//! | [`turns`] | the user's own program without and with the library |
//! | [`judge`] | how a cell is judged |
//! | [`table`] | cells as lines of CSV and as tables of markdown |

pub mod judge;
pub mod matrix;
pub mod order;
pub mod pattern;
pub mod plan;
pub mod reader;
pub mod table;
pub mod turns;

mod device;
mod group;
mod run;
mod timed;

use std::path::Path;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use journal::{Journal, PrivateTree};

pub use judge::Verdict;
pub use matrix::{Ended, Notice};
pub use pattern::Pattern;
pub use plan::Plan;
pub use table::{Cell, Key};

/// Why nothing can be measured any more.
#[derive(Debug, thiserror::Error)]
pub enum HarmError {
    /// What was asked for is wrong.
    #[error("{0}")]
    Input(String),
    /// This machine, or this user, cannot do it.
    #[error("{0}")]
    CannotHere(String),
    /// A signal asked for the end.
    #[error("interrupted")]
    Interrupted,
    /// A file or directory.
    #[error("{what}: {why}")]
    File {
        /// What was done to which file.
        what: String,
        /// Why it failed.
        why: std::io::Error,
    },
    /// A program.
    #[error("{0}")]
    Program(String),
    /// A run did not end in the time that it had.
    #[error("a run did not end in {} s", .0.as_secs())]
    TooLong(std::time::Duration),
    /// The library cannot be loaded into a program.
    #[error(transparent)]
    Launch(#[from] prefetch_os::launch::LaunchError),
    /// Rounds from which no figure can be made.
    #[error("a cell cannot be judged: {0}")]
    Figures(#[from] stats::SampleError),
}

/// What could not be built, or taken down.
fn built(error: impl std::fmt::Display) -> HarmError {
    HarmError::Program(error.to_string())
}

/// A private directory in `parent`, which goes when it is dropped.
fn private_tree(journal: &Arc<Journal>, parent: &Path) -> Result<PrivateTree, HarmError> {
    let parent = utf8(&parent.canonicalize().map_err(at("find", parent))?)?;
    PrivateTree::new(journal, &parent).map_err(built)
}

fn utf8(path: &Path) -> Result<Utf8PathBuf, HarmError> {
    let path = Utf8Path::from_path(path).map(Utf8Path::to_owned);
    path.ok_or_else(|| HarmError::Input("a path is not UTF-8; choose another".into()))
}

/// Says which file an I/O error is about.
fn at<'a>(verb: &'a str, path: &'a Path) -> impl FnOnce(std::io::Error) -> HarmError + 'a {
    move |why| HarmError::File { what: format!("cannot {verb} {}", path.display()), why }
}

/// Whether this process may mount, attach devices and make cgroups.
pub fn is_root() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::geteuid() == 0 }
}
