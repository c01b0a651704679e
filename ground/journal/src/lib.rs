//! What loadline has made, on disk before it is made, so that a killed run can be undone.
//!
//! One file per run, of JSON lines: a header that names the owner, then an `add` before each resource is made, for an
//! image a `made` that tells which file it became, and a `done` after it is gone, each forced to disk. The owner holds
//! a lock on its file as long as it lives.
//!
//! | module | holds |
//! |---|---|
//! | `book` | [`Journal`]: records, makes, forgets, undoes. Start here |
//! | `resource`, `report`, `error` | what can be made; what an undo did; what can go wrong |
//! | `file` | the format |
//! | `folder` | the seam below it: files and locks, with a fake that fails at any write |
//! | `identity` | knows a file again: device, inode, birth |
//! | `undo` | takes one resource away, after making sure that it is still the one that was recorded |
//! | `leftovers` | the journals of dead runs |
//! | `orphans` | processes that outlive the server that has forked them |
//! | `tree` | private directories |
//! | `fuzzing` | for fuzz targets: a journal read from bytes |
//! | [`loopdev`], [`ublk`], [`cgroup`] | loop devices, served block devices and memory cgroups that are in the journal |
//! | [`dead_mount`] | mounts of betrfs whose daemon was killed, which are in no journal |
//!
//! Who can write to a journal can have root delete what he likes: it is relied on only when it, its directory and all
//! above belong to this process's user or root, and nobody else may write there.

mod book;
pub mod cgroup;
pub mod dead_mount;
mod error;
mod file;
mod folder;
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod leftovers;
pub mod loopdev;
mod orphans;
mod report;
mod resource;
mod tree;
pub mod ublk;
mod undo;

#[cfg(test)]
mod fault_tests;

pub use book::{CreationGuard, EntryId, Journal, Scope};
pub use cgroup::{Cgroup, CgroupError, CgroupStats, MemoryLimit};
pub use dead_mount::{DeadMount, MountState};
pub use error::JournalError;
pub use leftovers::{Leftover, WhyDead};
pub use orphans::Orphans;
pub use report::{Outcome, UndoReport, UndoStep};
pub use resource::Resource;
pub use tree::{PrivateTree, create_tree, random_word};
