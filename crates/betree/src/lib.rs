//! A write-optimised key-value store: a Bε-tree with log, checkpoints and cache.

pub mod alloc;
pub mod block;
pub mod buffer;
pub mod codec;
pub mod edits;
pub mod error;
pub mod key;
pub mod message;
pub mod ranges;
pub mod storage;
pub mod table;
pub mod wire;
