//! Order-preserving multi-queue I/O in virtual time: streams, epochs, barriers, and the journal protocols on them.
//!
//! A [`Simulation`] is a host with cores, plug lists, software and hardware queues, a journaling file system and one
//! emulated SSD (crate `ssd`). [`Program`]s run on it in virtual time. No I/O, no clock, no threads: the same setup and
//! the same seed give the same bytes. Every command is watched by the device's oracle (P1-P10), and every crash image
//! is recovered and compared with what was acknowledged.
//!
//! | module | change here |
//! |---|---|
//! | [`setup`], [`params`] | what is simulated; every constant of the host |
//! | [`program`] | what a thread does: the [`Program`] trait and its operations |
//! | [`programs`] | write and fsync, varmail, dbench and sysbench lookalikes |
//! | `protocol` | EXT4, OPEXT4, BarrierFS, MQFS, HORAE: sync calls and journal threads |
//! | `commit`, `handle`, `journal` | the steps of a commit, handles, the journal's state, checkpoints |
//! | `files` | files, dirty pages, metadata blocks |
//! | `queues`, `request` | plug lists, queues, tags, pinning, requeue; merge and split |
//! | `device` | the SSD and its oracle |
//! | [`ledger`], `lawful` | recovery of crash images; images that a power cut may leave |
//! | `cpu` | cores, their run queue, migration |
//! | `world`, `exec`, `sync` | time and state; tasks as futures; groups of requests |
//! | [`sim`], [`tally`], [`phases`], [`trace`] | the public face; what is measured; the artifact's trace formats |
//! | [`soak`] | random schedules; `mutation` plants bugs that they must find |

mod commit;
mod cpu;
mod device;
mod exec;
mod files;
mod handle;
mod journal;
mod lawful;
pub mod ledger;
#[doc(hidden)]
pub mod mutation;
pub mod params;
pub mod phases;
pub mod program;
pub mod programs;
mod protocol;
mod queues;
mod request;
pub mod setup;
pub mod sim;
pub mod soak;
mod sync;
pub mod tally;
pub mod trace;
mod world;

pub use files::FileId;
pub use params::HostCosts;
pub use program::{Op, Program, View};
pub use protocol::Sync;
pub use queues::BlockStats;
pub use setup::{Layout, Limits, Protocol, Setup};
pub use sim::{FIRST_PID, JOURNAL_STREAM, Report, Simulation, Verdict};
