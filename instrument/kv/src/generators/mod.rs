//! Which record comes next: YCSB's request distributions, and an exact Zipf.
//!
//! YCSB's forms yield, for the same uniform numbers, the same records as YCSB's own classes. Its `zipfian` is not a Zipf
//! distribution over the records (see docs/kv.md); `zipf` is one.
//!
//! | module | holds |
//! |---|---|
//! | [`draw`] | sources of uniform numbers |
//! | [`zipf`] | Gray's approximation as YCSB has it, the exact distribution |
//! | [`counter`] | the numbers of inserted records, and up to where all are there |
//! | [`request`] | the request distributions |

pub mod counter;
pub mod draw;
pub mod request;
pub mod zipf;

pub use counter::Counter;
pub use draw::Draw;
pub use request::{Distribution, Request};
