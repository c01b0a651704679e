//! Real programs on the file system under test.
//!
//! | module | columns |
//! |---|---|
//! | `run` | finding and running a program; git without configuration |
//! | `git` | `git-clone`, `git-diff` |
//! | `tar` | `untar`, `tar` |
//! | `compile` | `unpack`, `compile` |
//! | `dbench` | none: its operations, in containers too |
//! | `sysbench`, `mariadb` | none: transactions on a private server, in containers too |
//! | `fio` | none: its jobs, as its JSON tells them |
//! | `rsync` | `rsync`, `rsync-inplace` |

mod compile;
mod dbench;
mod fio;
mod git;
mod mariadb;
mod rsync;
mod run;
mod sysbench;
mod tar;

pub use compile::Compile;
pub use dbench::Dbench;
pub use fio::Fio;
pub use git::Git;
pub use rsync::Rsync;
pub use sysbench::Sysbench;
pub use tar::Tar;

pub(crate) use run::{Program, copy_tree, git_program, program, time};
