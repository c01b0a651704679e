//! What is asked and what came of it, as plain data: the waist between the laboratory that measures and the report that
//! draws. No I/O, no clock, no threads.
//!
//! | module | holds |
//! |---|---|
//! | [`study`] | the question: one TOML file, or what a command line means |
//! | [`plan`] | its cells, and the shuffled order of their trials |
//! | [`shard`], [`deal`] | parts of a plan for many machines, and which trials are theirs |
//! | [`results`] | the answer: runs, cells, trials as they are stored |
//! | `period` | of these, what a script asked for beside the result: `psrun`, `enable lathist` |
//! | [`environment`], [`mod@diff`] | the machine as a trial found it; what differs between two |
//! | [`fsync`], [`cache`], [`fuse`] | where fsyncs spent their time; what the page cache did; what FUSE requests cost |
//! | [`blocks`] | the trials of a cell as statistics take them |
//! | [`compare`](mod@compare) | verdicts between runs and between stacks |
//! | [`corrections`] | figures of stored runs that were wrong |
//! | [`grid`] | rows x columns of a published evaluation |
//! | [`regime`] | what of the original's regime the loads of an evaluation reached |
//! | [`sweep`] | offered rates step by step: the rate of a step, when it ends, load curves |
//! | [`paired`] | a baseline and a candidate in turns: runs, cells, whether they print the same |
//! | [`judge`] | claims of a study against what was measured |
//! | [`embedded`] | the published evaluations that every `loadline` has with it |
//! | [`files`] | its workloads, and other studies |
//! | [`exact`] | cells of deterministic guests compared: two trials decide |
//! | `earlier` | runs of evaluations that were stored before studies had rows and columns |
//! | [`trend`] | a cell over many runs, with changes of level |
//! | [`turns`] | two systems in turns until it is decided |
//! | [`estimate`] | how long the rest of a run will take |

pub mod blocks;
pub mod cache;
pub mod compare;
pub mod corrections;
pub mod deal;
pub mod diff;
mod earlier;
pub mod embedded;
pub mod environment;
pub mod estimate;
pub mod exact;
pub mod files;
pub mod fsync;
pub mod fuse;
pub mod grid;
pub mod judge;
pub mod machine;
pub mod paired;
mod period;
pub mod plan;
pub mod regime;
pub mod results;
pub mod shard;
pub mod study;
pub mod sweep;
pub mod trend;
pub mod turns;

pub use diff::{Difference, Importance, Setting, diff};
pub use environment::Environment;
pub use results::{Cell, Command, Parameter, Run, Status, Trial};
pub use study::Study;
