//! What the records of runs mean: comparison, judgement of claims, sweeps, trends, and splits of time. Pure functions of crate
//! `study`'s types. No I/O, no clock, no threads.
//!
//! | module | holds |
//! |---|---|
//! | [`blocks`] | the trials of a cell as statistics take them |
//! | [`compare`](mod@compare) | verdicts between runs and between stacks |
//! | [`machine`] | what of two machines makes their runs incomparable |
//! | [`mod@diff`] | what differs between two environments |
//! | [`exact`] | cells of deterministic guests compared: two trials decide |
//! | [`corrections`] | figures of stored runs that were wrong |
//! | [`grid`] | rows x columns of a published evaluation |
//! | `earlier` | runs of evaluations that were stored before studies had rows and columns |
//! | [`regime`] | what of the original's regime the loads of an evaluation reached |
//! | [`judge`] | claims of a study against what was measured |
//! | [`tail`] | whether enough operations lie beyond a quantile for it to decide |
//! | [`sweep`] | offered rates step by step: the rate of a step, when it ends, load curves |
//! | [`turns`] | two systems in turns until it is decided |
//! | [`paired`] | a baseline and a candidate in turns: runs, cells, whether they print the same |
//! | [`trend`] | a cell over many runs, with changes of level |
//! | [`cache`], [`fuse`] | what the page cache did; what FUSE requests cost |
//! | [`whatif`] | what recorded fsyncs would take if the device kept order |

pub mod blocks;
pub mod cache;
pub mod compare;
pub mod corrections;
pub mod diff;
mod earlier;
pub mod exact;
pub mod fuse;
pub mod grid;
pub mod judge;
pub mod machine;
pub mod paired;
pub mod regime;
pub mod sweep;
pub mod tail;
pub mod trend;
pub mod turns;
pub mod whatif;
