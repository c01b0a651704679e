//! A mount of ours at a directory: what the table of mounts says of it, and its root, held while it is changed.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use host::Host;
use host::mountinfo::{self, MountEntry};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, makedev, openat2, statx};

/// The type that the table of mounts shows.
pub(crate) const TYPE: &str = "fuse.betrfs";

/// What is mounted at `dir`, as far as can be seen there.
pub(crate) fn mount_at(dir: &Path) -> io::Result<Option<MountEntry>> {
    let mounts = Host::system().mounts()?;
    Ok(dir.to_str().and_then(|dir| mountinfo::topmost_at(&mounts, dir.into())).cloned())
}

/// The root of `here`, a mount of ours at `dir`, opened; `None` if it is none. What was put in its place meanwhile is another
/// device, and links on the way are not followed: whoever changes it by its descriptor changes no other one.
pub(crate) fn pin(dir: &Path, here: &MountEntry) -> io::Result<Option<OwnedFd>> {
    if here.fs_type != TYPE {
        return Ok(None);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let pinned = openat2(CWD, dir, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    // The kernel knows that without asking the file system.
    let known = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = statx(&pinned, c"", known, StatxFlags::empty())?;
    let is_it = here.device() == Some(makedev(stat.stx_dev_major, stat.stx_dev_minor));
    Ok(is_it.then_some(pinned))
}
