//! Histograms, intervals, verdicts: the arithmetic of measurement. No I/O, no clock.
//!
//! | module | holds |
//! |---|---|
//! | `histogram` | log-linear latency histogram: the hot path of every load engine, and its encodings |
//! | `metric` | scalar results with what they belong to: process, machine, rate; their names |
//! | `outcome` | what one trial measured: operations, series, metrics. Produced by every load engine |
//! | `over_time` | coarse latency histograms of each second of a trial |
//! | `parallel` | what several processes measured at once, as one outcome |
//! | `sample` | results of several trials, checked once: median, quantile, deviation |
//! | `interval` | median and quantiles with order-statistic confidence intervals |
//! | `bootstrap` | BCa intervals for any statistic, seeded |
//! | `verdict` | better, worse, same, cannot tell: the words |
//! | `harmless` | pairs of runs: does the candidate harm, by wall time and by the tail |
//! | `compleat` | shares of the best, grades, the compleat rule |
//! | `signed_rank` | Wilcoxon's signed-rank test, exact; Walsh averages |
//! | `stopping` | when the interval is narrow enough to stop adding trials |
//! | `knee` | load curves: where the achieved rate leaves the offered one; the rate that holds a limit |
//! | `steady` | warm-up and change points of a per-second series |
//! | `outlier` | modified Z-scores: shown, never dropped |
//!
//! Verdicts (docs/statistics.md). An `effect` is `ln(B/A)` with its law; `judge` turns any effect into a `Finding`; the
//! others make effects, or ask whether one may be judged:
//!
//! | module | holds |
//! |---|---|
//! | `effect`, `judge` | an effect with its law; the three-way rule |
//! | `blocked` | two cells of one run, within blocks |
//! | `between`, `history`, `machine`, `covariate` | two runs: anchor or history; was the machine another; CPU left |
//! | `slices` | two kept stacks in turns of milliseconds |
//! | `sequential`, `spending` | `ab` with a budget: looks, boundaries, intervals valid at every look |
//! | `symmetric` | `ab` without a budget: an e-process |
//! | `many`, `family`, `shares` | many cells: false discovery rate; claims about all, any, most; near the best |
//! | `change` | where the level of a history of runs changed |
//!
//! Private: `normal`, `student` (distributions).

pub mod between;
pub mod blocked;
pub mod bootstrap;
pub mod change;
pub mod compleat;
pub mod covariate;
pub mod effect;
pub mod family;
pub mod harmless;
pub mod histogram;
pub mod history;
pub mod interval;
pub mod judge;
pub mod knee;
pub mod machine;
pub mod many;
pub mod metric;
mod normal;
pub mod outcome;
pub mod outlier;
pub mod over_time;
pub mod parallel;
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

pub use effect::{Effect, Method};
pub use histogram::{Bucket, Histogram};
pub use interval::{Estimate, Interval};
pub use judge::{Finding, Thresholds};
pub use metric::{Metric, MetricScope};
pub use outcome::{Direction, Ended, OpClass, OpOutcome, Outcome};
pub use over_time::OverTime;
pub use sample::{Sample, SampleError, Sense};
pub use verdict::{Doubt, Verdict};
