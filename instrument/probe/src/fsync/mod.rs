//! Where the time of an fsync goes, from stock tracepoints. The rules are told in docs/explain.md.
//!
//! | module | holds |
//! |---|---|
//! | [`event`] | what happened when: the events the breakdown needs, as plain data |
//! | [`ftrace`] | moments from the text of a trace |
//! | [`rwbs`] | the block layer's letters for an operation and its flags |
//! | [`chain`] | the file system, its devices, and the file system below a loop device |
//! | [`bio`] | requests of the block layer and what was queued into them |
//! | [`call`] | the fsyncs: who, when, on which file |
//! | [`stage`] | what of all this one fsync waited for |
//! | [`breakdown`] | the parts of one fsync, level by level |
//! | [`record`](mod@record) | traces a workload and explains its fsyncs |

pub mod bio;
pub mod breakdown;
pub mod call;
pub mod chain;
pub mod event;
pub mod ftrace;
pub mod record;
pub mod rwbs;
pub mod stage;

pub use self::record::{RecordError, Recording, commands, record, record_within};
pub use breakdown::{Analysis, analyse};
pub use chain::{Chain, FsKind, Level};
