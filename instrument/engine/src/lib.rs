//! Runs a workload on a target: creates its files, issues its operations, records every one.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@run`] | the story of a run: files, threads, watching, result. Start here |
//! | `watch`, `outcome` | the thread that tells the time and ends a run; what the run has come to |
//! | [`raw`] | block devices that a workload names |
//! | [`options`] | what a run may be told, and the events it tells |
//! | [`control`] | stopping a run from outside |
//! | [`target`] | the seam to the world: [`target::Target`], which [`psync`], [`uring`] and [`volume`] implement |
//! | [`lane`] | the interpreter of a thread's program; its flowops are in `files`, `transfers`, `controls` |
//! | `stream` | streams of transfers with a budget and a queue of their own: what jobs of fio do |
//! | [`program`] | a workload's loop bodies, flattened |
//! | [`fileset`] | lock-free picking: which files exist, whose turn it is; on [`bitset`] |
//! | [`create`] | the trees on disk before the run; where they go is in [`place`] |
//! | [`slices`] | a run whose lanes do a granted number of operations at a time |
//! | [`simulated`] | a run whose lanes a simulation polls, in its own time |
//! | [`volume`] | file systems in this process; [`file_space`] is either such a one or a directory |
//! | [`record`] | per-thread histograms and series |
//! | [`diary`] | when each thread did what, for those who ask |
//! | `system`, `listing` | the script's `system` and `list fileset` |
//! | [`limit`], [`sync`] | schedules of due times; semaphores, on [`sync::Event`] in `event` |
//! | [`clock`] | nanoseconds in ten of them |

mod aio;
pub mod aligned;
pub mod bitset;
pub mod clock;
pub mod control;
mod controls;
pub mod create;
pub mod diary;
pub mod error;
mod event;
pub mod exec;
pub mod file_space;
mod files;
pub mod fileset;
pub mod lane;
pub mod limit;
mod listing;
pub mod options;
mod outcome;
pub mod place;
pub mod program;
pub mod psync;
pub mod raw;
pub mod record;
pub mod run;
pub mod shared;
pub mod simulated;
pub mod slices;
mod stream;
pub mod sync;
mod system;
pub mod target;
#[cfg(test)]
mod testing;
mod threads;
mod transfers;
pub mod uring;
mod usage;
pub mod volume;
mod watch;

pub use control::Control;
pub use diary::ThreadDiary;
pub use error::Error;
pub use options::{Event, RunOptions, Stage};
pub use run::{changes_files, run, run_on, run_with_devices};
pub use volume::Volume;
