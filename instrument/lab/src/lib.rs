//! Executes studies: trials and the store, from a question to evidence. Question and answer as plain data: crate `record`.
//!
//! | module | holds |
//! |---|---|
//! | [`read`] | studies and workload files from disk |
//! | [`check`] | reads the workloads of a study as a trial would |
//! | [`session`] | executes the plan, trial by trial, each stored the moment it ends. Start here |
//! | [`runner`] | the seam: executes one trial. [`real`] does it on this machine |
//! | [`site`] | builds stacks, emulated SSDs included |
//! | [`overwrite`] | what a study would overwrite, shown and decided before the first trial and again in each |
//! | [`inprocess`] | betrfs without the kernel in between |
//! | [`protocol`], [`supervise`], [`child`] | the trial's process: what is said, the parent's side, the child's |
//! | [`paired`] | two variants of a program in turns, judged: with the prefetching library and without |
//! | [`store`] | the SQLite database of runs |

pub mod check;
pub mod child;
pub mod inprocess;
pub mod overwrite;
pub mod paired;
pub mod protocol;
pub mod read;
pub mod real;
pub mod runner;
pub mod session;
pub mod site;
pub mod store;
pub mod supervise;

pub use real::RealRunner;
pub use runner::Runner;
pub use session::{Ending, Notice};
pub use site::Site;
pub use store::Store;
