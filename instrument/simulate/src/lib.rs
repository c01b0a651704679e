//! Workloads in virtual time: any WML script, dbench load files and a few built-in programs on a simulated stack.
//!
//! The stack is crate `order`: cores, queues, a journaling file system and an emulated SSD. A script runs there by the
//! engine's own interpreter, so that it issues the operations that it would issue on a real stack. Nothing here reads a
//! clock; the same [`Job`] gives the same [`stats::Outcome`], byte for byte.
//!
//! | module | holds |
//! |---|---|
//! | [`job`] | what is simulated, read from variables; what is wrong with it |
//! | [`mod@run`] | the story of a simulation: files, tasks, warm-up, measured time, result |
//! | [`scripts`] | WML scripts: a container's files, its lanes as programs of the simulation |
//! | [`target`] | the engine's target whose operations take virtual time |
//! | [`loadfile`] | dbench's load files: reading them, and a client that replays one |
//! | [`single`] | one write and fsync, taken apart |
//! | [`disk`], [`error`] | sizes of the simulated disk; why a simulation could not be made |

pub mod disk;
pub mod error;
pub mod job;
pub mod loadfile;
pub mod run;
pub mod scripts;
pub mod single;
pub mod target;

pub use error::SimulateError;
pub use job::{Job, JobError, Load, Stack};
pub use run::{Progress, run, trace};
