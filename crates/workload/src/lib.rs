//! What is issued: filesets, flowops, processes, threads, distributions. No I/O, no clock, no threads.
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | the workload itself: what `wml` produces and `engine` runs |

pub mod model;

pub use model::*;
