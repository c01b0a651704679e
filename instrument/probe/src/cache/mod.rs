//! What the page cache did for the files of a file system: hits, misses, read-ahead and its waste, from stock
//! tracepoints. The rules are told in docs/explain.md.
//!
//! | module | holds |
//! |---|---|
//! | [`event`] | the events as plain data, and which tracepoints they come from |
//! | [`account`](mod@account) | what they say of each file; pure |
//! | [`mod@cachestat`] | the system call |
//! | [`record`](mod@record) | traces a workload and accounts for it |

pub mod account;
pub mod cachestat;
pub mod event;
pub mod record;

pub use self::record::record;
pub use account::account;
pub use event::{CacheEvent, CacheEventKind};
