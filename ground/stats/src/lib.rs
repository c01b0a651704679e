//! Histograms, intervals, verdicts: the arithmetic of measurement. No I/O, no clock.
//!
//! | module | holds |
//! |---|---|
//! | `histogram` | log-linear latency histogram: the hot path of every load engine, and its encodings |
//! | `outcome` | what one trial measured: operations, series, metrics. Produced by every load engine |
//! | `sample` | results of several trials, checked once: median, quantile, deviation |
//! | `interval` | median and quantiles with order-statistic confidence intervals |
//! | `bootstrap` | BCa intervals for any statistic of one or two samples, seeded |
//! | `rank` | Mann-Whitney test, Hodges-Lehmann shift |
//! | `verdict` | better, worse, same, cannot tell: the rules and their error rates |
//! | `compleat` | shares of the best, grades, the compleat rule |
//! | `stopping` | when the interval is narrow enough to stop adding trials |
//! | `steady` | warm-up and change points of a per-second series |
//! | `outlier` | modified Z-scores: shown, never dropped |
//!
//! Private: `normal` (the distribution).

pub mod between;
pub mod blocked;
pub mod bootstrap;
pub mod change;
pub mod compleat;
pub mod covariate;
pub mod effect;
pub mod family;
pub mod histogram;
pub mod history;
pub mod interval;
pub mod judge;
pub mod machine;
pub mod many;
mod normal;
pub mod outcome;
pub mod outlier;
pub mod rank;
pub mod rng;
pub mod sample;
pub mod sequential;
pub mod shares;
pub mod signed_rank;
pub mod slices;
pub mod spending;
pub mod steady;
pub mod stopping;
mod student;
pub mod symmetric;
pub mod verdict;

pub use histogram::{Bucket, Histogram};
pub use interval::{Estimate, Interval};
pub use outcome::{Direction, Ended, Metric, OpClass, OpOutcome, Outcome};
pub use sample::{Sample, SampleError, Sense};
pub use verdict::{Basis, Comparison, Doubt, Rules, Verdict, compare};
