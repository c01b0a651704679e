//! Watches a trial: environment, /proc counters, device counters. What cannot be read is left out, never an error.
//!
//! | module | holds |
//! |---|---|
//! | [`environment`] | the machine and the target as plain data |
//! | [`capture`] | fills it in |
//! | [`mod@diff`] | differences of two environments, weighed |
//! | [`counters`] | counters before and after a load |
//! | [`root`] | reads /proc, /sys and /etc below a root that tests can move |
//! | `machine`, `mounts`, `device`, `tools` | the sources, one each |

pub mod capture;
pub mod counters;
mod device;
pub mod diff;
pub mod environment;
mod machine;
mod mounts;
pub mod root;
mod tools;

pub use capture::Subject;
pub use counters::Counters;
pub use diff::{Difference, Fact, Weight, diff};
pub use environment::Environment;
