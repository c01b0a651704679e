//! Watches a trial: environment, /proc counters, device counters.
//!
//! | module | holds |
//! |---|---|
//! | [`environment`] | the machine and the target as plain data |

pub mod environment;

pub use environment::Environment;
