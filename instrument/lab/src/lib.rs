//! Executes studies: trials and the store, from a question to evidence. Question and answer as plain data: crate `record`.
//!
//! | module | holds |
//! |---|---|
//! | [`read`] | studies and workload files from disk |
//! | [`load`] | a workload's load resolved for a cell: typed, sized, ready to run |
//! | [`check`] | resolves all loads of a study before its first trial |
//! | [`campaign`] | the execution of a study, from its opening to the undoing of what is left. Start here |
//! | [`session`] | executes the plan, trial by trial, each stored the moment it ends |
//! | [`queue`] | what is still to run, and how long that will take |
//! | [`runner`] | the seam: executes one trial. [`real`] does it on this machine |
//! | [`stop`] | Ctrl-C: the first ends in good order, the second at once |
//! | [`site`] | builds stacks, emulated SSDs included |
//! | [`overwrite`] | what a study would overwrite, shown and decided before the first trial and again in each |
//! | [`guests`] | trials in guests: the session's side, and the guest's |
//! | [`inprocess`] | betrfs without the kernel in between |
//! | [`protocol`], [`supervise`], [`child`] | the trial's process: what is said, the parent's side, the child's |
//! | [`ranks`] | the same under a launcher: what rank 0 and the others say to each other, and the others' side |
//! | [`contained`] | the same within a container: what it is told by files, and the gate |
//! | [`paired`] | two variants of a program in turns, judged: with the prefetching library and without |
//! | [`store`] | the SQLite database of runs |

pub mod campaign;
pub mod check;
pub mod child;
pub mod contained;
pub mod guests;
pub mod inprocess;
mod limit;
pub mod load;
pub mod overwrite;
pub mod paired;
pub mod protocol;
pub mod queue;
pub mod ranks;
pub mod read;
pub mod real;
pub mod runner;
pub mod session;
pub mod site;
pub mod stop;
pub mod store;
pub mod supervise;

pub use campaign::Campaign;
pub use load::Prepared;
pub use real::RealRunner;
pub use runner::Runner;
pub use session::{Ending, Notice};
pub use site::Site;
pub use store::Store;
