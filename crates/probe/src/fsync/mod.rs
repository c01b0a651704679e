//! Where the time of an fsync goes, from stock tracepoints. The rules are told in docs/explain.md.
//!
//! | module | holds |
//! |---|---|
//! | [`moment`] | what happened when: the events the breakdown needs, as plain data |
//! | [`ftrace`] | moments from the text of a trace |
//! | [`rwbs`] | the block layer's letters for an operation and its flags |
//! | [`chain`] | the file system, its devices, and the file system below a loop device |
//! | [`bio`] | requests of the block layer and what was queued into them |
//! | [`call`] | the fsyncs: who, when, on which file |
//! | [`stage`] | what of all this one fsync waited for |
//! | [`interval`] | unions and precedence of time intervals |
//! | [`breakdown`] | the parts of one fsync, level by level |
//! | [`summary`] | many fsyncs: quantiles and means of the parts |
//! | [`record`](mod@record) | traces a workload and explains its fsyncs |
//! | [`terminal`], [`svg`], [`artifact`] | the pictures and tables |

pub mod artifact;
pub mod bio;
pub mod breakdown;
pub mod call;
pub mod chain;
pub mod ftrace;
pub mod interval;
pub mod moment;
pub mod record;
pub mod rwbs;
pub mod stage;
pub mod summary;
pub mod svg;
pub mod terminal;

pub use breakdown::{Analysis, Breakdown, LevelBreakdown, analyse};
pub use chain::{Chain, FsKind, Level};
pub use interval::{Part, Parts};
pub use record::{RecordError, Recording, record, record_within};
pub use summary::Summary;
