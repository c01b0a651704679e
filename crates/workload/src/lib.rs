//! What is issued: filesets, flowops, processes, threads, distributions. No I/O, no clock, no threads.
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | the workload itself: what `wml` produces and `engine` runs |
//! | [`rng`] | the one generator, and how streams are named |
//! | [`draw`] | random variables: checked, compiled, evaluated |
//! | [`layout`] | the tree of files of a fileset: paths, sizes, what exists at the start |
//! | [`shuffle`] | seeded permutations that need no memory |

pub mod draw;
pub mod layout;
pub mod model;
pub mod rng;
pub mod shuffle;

pub use draw::{DrawError, Draws, Sampler};
pub use layout::{Layout, LayoutError};
pub use model::*;
pub use rng::{Purpose, Rng, StreamId};
