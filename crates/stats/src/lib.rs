//! Histograms, intervals, verdicts: the arithmetic of measurement. No I/O, no clock.
//!
//! | module | holds |
//! |---|---|
//! | `outcome` | what one trial measured: operations, series, metrics. Produced by every load engine |

pub mod outcome;
