//! Studies, plans, trials and the store: from a question to evidence.
//!
//! | module | holds |
//! |---|---|
//! | [`study`] | the study: one TOML file, or what a command line means |
//! | [`plan`] | its cells, and the shuffled order of their trials |
//! | [`session`] | executes the plan, trial by trial, each stored the moment it ends. Start here |
//! | [`estimate`] | how long the rest will take |
//! | [`runner`] | the seam: executes one trial. [`real`] does it on this machine |
//! | [`site`] | builds stacks, emulated SSDs included |
//! | [`overwrite`] | what a study would overwrite, shown and decided before the first trial and again in each |
//! | [`split`] | where the fsyncs of a trial spent their time |
//! | [`inprocess`] | betrfs without the kernel in between |
//! | [`protocol`], [`supervise`], [`child`] | the trial's process: what is said, the parent's side, the child's |
//! | [`store`] | the SQLite database of runs |
//! | [`record`] | stored results as plain data: runs, cells, trials. What `report` draws |
//! | `period` | of these, what a script asked for beside the result: `psrun`, `enable lathist` |
//! | [`compare`] | verdicts between runs and between stacks; differences of environment |
//! | [`judge`] | claims of a study against what was measured |

pub mod child;
pub mod compare;
pub mod estimate;
pub mod inprocess;
pub mod judge;
pub mod overwrite;
mod period;
pub mod plan;
pub mod protocol;
pub mod real;
pub mod record;
pub mod runner;
pub mod session;
pub mod site;
pub mod split;
pub mod store;
pub mod study;
pub mod supervise;

pub use real::RealRunner;
pub use record::Run;
pub use runner::Runner;
pub use session::{Ending, Notice};
pub use site::Site;
pub use store::Store;
pub use study::Study;
