//! Crash checking: records a device's writes under a real file system, works out which images a power cut may
//! lawfully leave, brings each one up with that file system, and tests what is found.
//!
//! | module | change here |
//! |---|---|
//! | [`recording`] | the events and bytes of a device, from a known image on |
//! | [`history`] | which versions of each block a power cut may leave, by regime |
//! | [`states`] | which of these states are checked: all, or a sample by seed |
//! | [`workload`] | the operations, and carrying them out with marks |
//! | [`oracle`] | what must be found afterwards |
//! | `options` | what a check is asked: [`CrashOptions`], [`Load`] |
//! | [`program`] | a user's own program as the workload, its marks, its checker |
//! | `record` | running a workload on an emulated SSD that notes every request |
//! | `bring_up` | image, loop device, mount, checker: one state after the other |
//! | `explore` | many states in parallel |
//! | [`shrink`](mod@shrink) | making a failing state smaller |
//! | `kept` | the smallest case in a directory, and how to bring it up again |
//! | `describe` | what the lost blocks are: journal, inodes, data |
//! | [`database`] | power cuts under a database: recovery, consistency, what was acknowledged |
//! | [`run`](mod@run), [`verdict`] | a check from the stack's name to the verdict |

mod bring_up;
pub mod database;
mod describe;
mod error;
mod explore;
#[doc(hidden)]
pub mod fuzzing;
pub mod history;
mod kept;
mod options;
pub mod oracle;
pub mod program;
mod record;
pub mod recording;
pub mod run;
pub mod shrink;
pub mod states;
pub mod verdict;
pub mod workload;

pub use error::CrashError;
pub use options::{CrashOptions, Custom, Load};
pub use program::{Checker, Program};
pub use run::{Progress, run};
pub use verdict::{MinimalCase, Outcome, Verdict};
