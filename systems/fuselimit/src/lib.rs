//! The limit of FUSE: a file system that costs next to nothing, behind the transport and with the agreements of betrfs.
//!
//! Whatever a load makes of it, no file system makes more of it through FUSE on this machine, with the same agreements:
//! nothing is written to a device, nothing is logged, a sync is done at once, and each request costs a look into a table
//! and a copy. `docs/stacks.md` says how to have it beside others.
//!
//! | module | change here |
//! |---|---|
//! | `contents`, `space` | bytes of a file; how many there may be of all, and blocks that are ready |
//! | `names` | a directory |
//! | `tree` | inodes, and what is done to them |
//! | `server` | the kernel's requests |
//! | [`mod@mount`] | options, mounting, the daemon |
//! | `fuzzing` | for fuzz targets: the kernel's requests without a kernel |
//!
//! It keeps no extended attributes (but is asked for them, as others are), punches no holes, does not whiteout, and all of
//! it is gone with its process. One reader of a page that another process is just writing past the page cache, to a file
//! which that one has made, may keep the page of before.

mod contents;
#[doc(hidden)]
pub mod fuzzing;
pub mod mount;
mod names;
mod server;
mod space;
mod tree;

pub use mount::{Mounted, Options, mount};
