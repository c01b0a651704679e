//! A write-optimised key-value store: a Bε-tree with log, checkpoints and cache.

pub mod alloc;
pub mod block;
pub mod buffer;
mod cache;
pub mod codec;
pub mod edits;
pub mod error;
mod header;
pub mod key;
pub mod message;
mod node;
pub mod ranges;
pub mod storage;
mod store;
pub mod table;
mod tree;
pub mod wire;
