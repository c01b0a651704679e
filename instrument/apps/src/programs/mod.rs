//! Real programs on the file system under test.
//!
//! | module | columns |
//! |---|---|
//! | `run` | finding and running a program; git without configuration |
//! | `git` | `git-clone`, `git-diff` |
//! | `tar` | `untar`, `tar` |
//! | `dbench` | none: its operations, in containers too |
//! | `rsync` | `rsync`, `rsync-inplace` |

mod dbench;
mod git;
mod rsync;
mod run;
mod tar;

pub use dbench::Dbench;
pub use git::Git;
pub use rsync::Rsync;
pub use tar::Tar;

pub(crate) use run::{Program, copy_tree, git_program, program, time};
