//! Executes studies: trials and the store, from a question to evidence. Question and answer as plain data: crate `study`.
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
//! | [`interleave`] | whether the trials of a block can take turns |
//! | [`stack_factory`] | builds stacks, emulated SSDs included |
//! | [`overwrite`] | what a study would overwrite, shown and decided before the first trial and again in each |
//! | [`guests`] | trials in guests: the session's side, and the guest's |
//! | [`inprocess`] | betrfs without the kernel in between |
//! | [`trial`] | one execution: workers at one gate, with one stop, whoever executes them. Start here for how a load runs |
//! | [`worker`] | the process that runs a load, or its part |
//! | [`protocol`] | what supervisor and workers say to each other |
//! | [`ranks`] | the ranks of a launcher: how they meet, and what each does for rank 0 |
//! | `heartbeat` | whether a trial's process was stopped while it ran |
//! | [`paired`] | two variants of a program in turns, judged: with the prefetching library and without |
//! | [`store`] | the SQLite database of runs |

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod campaign;
pub mod check;
pub mod guests;
mod heartbeat;
pub mod inprocess;
pub mod interleave;
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
pub mod stack_factory;
pub mod stop;
pub mod store;
pub mod trial;
pub mod worker;

pub use campaign::Campaign;
pub use load::ResolvedWorkload;
pub use real::RealRunner;
pub use runner::Runner;
pub use session::{SessionEvent, SessionOutcome};
pub use stack_factory::StackFactory;
pub use store::Store;
