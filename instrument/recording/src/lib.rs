//! What a program and its children did to their files, call by call: the format of such recordings, and what follows from one.
//! No files, clock or threads of its own: it reads and writes what the caller hands over.
//!
//! | module | holds |
//! |---|---|
//! | [`call`] | one recorded system call: who, when, what, on which file |
//! | [`follow`] | makes a recording of system calls: follows descriptors, positions, directories and names |
//! | [`format`](mod@format) | the file: a header, then items in the order in which calls ended |
//! | [`describe`] | a recording in figures, and as a personality of WML |
//! | [`raw`] | system calls as a recorder hands them over |

pub mod call;
pub mod describe;
pub mod follow;
pub mod format;
pub mod raw;

pub use call::{Call, Operation};
pub use follow::Follower;
pub use format::{Header, Item, Reader, RecordingError, Summary, Writer};
