//! betrfs: a file system on a Bε-tree, in process and through FUSE.
//!
//! | module | change here |
//! |---|---|
//! | [`key`], [`record`] | the layout: where things lie in the store, and the values' bytes |
//! | `node`, `content`, `contents` | inodes in memory; small files kept whole |
//! | [`fs`] | POSIX semantics: [`Fs`], one file for each group of operations |
//! | [`error`] | errors and their numbers |
//! | `fuse`, `syncer`, `coherence` | the kernel's requests; syncs for many at once; what the kernel must forget |
//! | [`mod@mount`], [`daemon`], `memory`, `pruner` | mounting in this process, or in one of its own; its memory |
//! | `watcher`, `mountpoint` | what is said and shown when the store stops taking writes; a mount that is changed |
//! | [`mod@format`] | making file systems, and what may be overwritten |
//! | [`mod@check`], `overlay` | fsck and dump |
//! | `fuzzing` | for fuzz targets: the kernel's requests without a kernel |
//!
//! `docs/betrfs.md` has the guarantees, the layout byte by byte, and the limits.

pub mod check;
mod coherence;
mod content;
mod contents;
pub mod daemon;
pub mod error;
pub mod format;
pub mod fs;
mod fuse;
#[doc(hidden)]
pub mod fuzzing;
pub mod key;
mod memory;
pub mod mount;
mod mountpoint;
mod node;
mod overlay;
mod pruner;
pub mod record;
mod syncer;
mod watcher;

pub use check::{CheckReport, check, dump};
pub use daemon::{Launcher, ServedMount, mount_daemon};
pub use error::{Error, Result};
pub use format::{FormatOptions, format};
pub use fs::{Attr, DirItem, DirStream, Fs, NewFile, Options, RenameMode, SetAttr, SetTime, Space, Whence};
pub use mount::{MountError, MountOptions, Mounted, Unmounter, mount};
