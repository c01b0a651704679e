//! What the requests of a FUSE file system cost, from stock tracepoints: any daemon, no change of it. The rules are told
//! in docs/explain.md.
//!
//! | module | holds |
//! |---|---|
//! | [`event`] | the events as plain data, and which tracepoints they come from |
//! | [`pair`](mod@pair) | moments in, requests out; pure |
//! | [`record`](mod@record) | traces a load |

pub mod event;
pub mod pair;
pub mod record;

pub use record::{FuseError, record};
