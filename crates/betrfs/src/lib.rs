//! betrfs: a file system on a Bε-tree, in process and through FUSE.
//!
//! | module | change here |
//! |---|---|
//! | [`key`], [`record`] | the layout: where things lie in the store, and the values' bytes |
//! | `node` | inodes in memory |
//! | [`fs`] | POSIX semantics: [`Fs`], one file for each group of operations |
//! | [`error`] | errors and their numbers |
//!
//! `docs/betrfs.md` has the guarantees, the layout byte by byte, and the limits.

pub mod error;
pub mod fs;
pub mod key;
mod node;
pub mod record;

pub use error::{Error, Result};
pub use fs::{Attr, DirItem, DirStream, Fs, NewFile, Options, RenameMode, SetAttr, SetTime, Space, Whence};
