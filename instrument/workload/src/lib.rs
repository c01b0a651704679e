//! What is issued: filesets, flowops, processes, threads, distributions. No I/O, no clock, no threads.
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | the workload itself: what `wml` produces and `engine` runs |
//! | [`stream`] | streams of transfers with a budget, a queue and a rate each: jobs of fio |
//! | [`trace`] | recorded operations of one thread, packed |
//! | [`rng`] | the one generator, and how streams are named |
//! | [`draw`] | random variables: checked, compiled, evaluated |
//! | [`io`] | how reads and writes are issued |
//! | [`layout`] | the tree of files of a fileset: paths, sizes, what exists at the start |
//! | [`shuffle`] | seeded permutations that need no memory |
//! | [`data`] | what written bytes look like |
//! | [`address`] | addresses of servers, shown without their passwords |

pub mod address;
pub mod data;
pub mod draw;
pub mod io;
pub mod layout;
pub mod model;
pub mod rng;
pub mod shuffle;
pub mod stream;
pub mod trace;

pub use address::Address;
pub use data::{DataError, DataPool, DataSpec};
pub use draw::{DrawError, Draws, Sampler};
pub use io::IoMode;
pub use layout::{Layout, LayoutError};
pub use model::*;
pub use rng::{Purpose, Rng, StreamId};
pub use stream::Stream;
pub use trace::Trace;
