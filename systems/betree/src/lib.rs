//! A write-optimised key-value store: a Bε-tree with log, checkpoints and cache.
//!
//! Pure, without I/O: [`key`] (keys, ranges, prefixes), [`edits`] and [`message`] (what happens to a key),
//! [`ranges`], [`buffer`] and `memtable` (many messages), [`bytes`] (their memory), [`codec`], `header` and [`wire`] (their
//! encoding), [`alloc`] (free space).
//!
//! With references to storage: [`block`] (what is where), [`table`] (the translation table), `node` (nodes in
//! memory), `held` (extents in memory), `cache`, `store` (loading and writing nodes), `tree` (applying messages, reading, cloning ranges).
//!
//! The database: [`storage`] (files, io_uring, a simulation with faults), `log`, `superblock`, [`batch`], [`db`];
//! offline, `fsck` (checking, repairing, salvaging) and `dump` (storage as text).
//! Start with [`Db`]; `docs/betree.md` has the guarantees,
//! `docs/betrfs-format.md` the format.

pub mod alloc;
pub mod batch;
pub mod block;
pub mod buffer;
pub mod bytes;
mod cache;
pub mod codec;
pub mod db;
mod dump;
pub mod edits;
pub mod error;
mod extent_cache;
mod extent_queue;
mod fsck;
mod header;
mod heap;
pub mod key;
mod log;
mod mapping;
mod memtable;
pub mod message;
mod meter;
mod node;
mod place;
pub mod ranges;
mod steps;
pub mod storage;
mod store;
mod superblock;
mod sync;
pub mod table;
mod tree;
pub mod wire;

pub use batch::WriteBatch;
pub use codec::Compression;
pub use db::{CachedExtents, Cursor, Db, Options, Stats, VerifyReport};
pub use dump::{Dump, dump};
pub use error::{Error, FailedOperation, LostBatches, Result, StopReason};
pub use fsck::{Finding, FsckOptions, FsckReport, LossKind, LostKeys, Severity, fsck};
pub use key::{End, Key, KeyRange};
pub use steps::Features;
pub use storage::{FileStorage, SimStorage, Storage, UringStorage};
