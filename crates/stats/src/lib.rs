//! Histograms, intervals, verdicts: the arithmetic of measurement. No I/O, no clock.
//!
//! | module | holds |
//! |---|---|
//! | `histogram` | log-linear latency histogram: the hot path of every load engine, and its encodings |
//! | `outcome` | what one trial measured: operations, series, metrics. Produced by every load engine |

pub mod histogram;
pub mod outcome;

pub use histogram::{Bucket, Histogram};
pub use outcome::{Direction, Ended, Metric, OpClass, OpOutcome, Outcome};
