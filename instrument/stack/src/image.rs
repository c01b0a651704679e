//! Sparse image files: how large, whether they fit, and making one.

use std::fs::OpenOptions;
use std::io;

use camino::Utf8Path;

use crate::error::StackError;
use host::bytes::human;
use spec::{FsKind, Size};

/// Size of an image when none is written and there is room.
pub(crate) const DEFAULT_SIZE: Size = Size::from_mib(8 * 1024);
/// Sizes chosen here are multiples of this.
const STEP_BYTES: u64 = 64 << 20;

/// Bytes of free space that an unprivileged writer may use on the file system of `dir`.
pub(crate) fn free_bytes(dir: &Utf8Path) -> io::Result<u64> {
    room(dir).map(|room| room.bytes)
}

/// What an unprivileged writer may still use of a file system.
pub(crate) struct FreeSpace {
    pub bytes: u64,
    /// Files that may be made; `None` where their number has no limit.
    pub files: Option<u64>,
}

pub(crate) fn room(dir: &Utf8Path) -> io::Result<FreeSpace> {
    let stat = rustix::fs::statvfs(dir.as_str())?;
    Ok(FreeSpace {
        bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        files: (stat.f_files > 0).then_some(stat.f_favail),
    })
}

/// The default size for a work directory with `free` bytes: 8 GiB, or as much as leaves a sixth of the space
/// free.
pub(crate) fn default_size(free: u64) -> Size {
    let most = (u128::from(free) * 10 / 12) as u64;
    Size::from_bytes(DEFAULT_SIZE.bytes().min(most / STEP_BYTES * STEP_BYTES))
}

/// Decides the size of an image for `fs` in `work_dir`, or refuses one that is too small or cannot fit.
pub(crate) fn decide_size(
    fs: FsKind,
    wanted: Option<Size>,
    work_dir: &Utf8Path,
    free: u64,
    overcommit: bool,
) -> Result<Size, StackError> {
    let size = wanted.unwrap_or_else(|| default_size(free));
    if wanted.is_none() && size < fs.min_size() {
        return Err(StackError::NoSpace {
            work_dir: work_dir.to_owned(),
            wanted: human(fs.min_size().bytes()),
            free: human(free),
        });
    }
    check_min(fs, size)?;
    if size.bytes() > free && !overcommit {
        return Err(StackError::NoSpace {
            work_dir: work_dir.to_owned(),
            wanted: human(size.bytes()),
            free: human(free),
        });
    }
    Ok(size)
}

/// Refuses a device smaller than the file system needs.
pub(crate) fn check_min(fs: FsKind, size: Size) -> Result<(), StackError> {
    if size < fs.min_size() {
        return Err(StackError::TooSmall { fs: fs.name(), size, min: fs.min_size() });
    }
    Ok(())
}

/// Makes the file, which must not exist, as one large hole.
pub(crate) fn create(path: &Utf8Path, size: Size) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    file.set_len(size.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_default_leaves_a_sixth_free() {
        assert_eq!(default_size(100 * GIB), DEFAULT_SIZE);
        assert_eq!(default_size(8 * GIB * 12 / 10 + 1), DEFAULT_SIZE);
        assert_eq!(default_size(6 * GIB), Size::from_mib(5 * 1024));
        assert_eq!(default_size(1 << 20), Size::from_bytes(0));
        assert_eq!(default_size(u64::MAX), DEFAULT_SIZE);
    }

    #[test]
    fn what_cannot_fit_is_refused_with_the_figures() {
        let decide = |fs, wanted, free, over| decide_size(fs, wanted, "/w".into(), free, over);
        let text = |result: Result<Size, StackError>| result.unwrap_err().to_string();
        let message = text(decide(FsKind::Ext4, Some(Size::from_mib(2048)), GIB, false));
        assert!(
            message.contains("2.0 GiB") && message.contains("1.0 GiB") && message.contains("/w"),
            "{message}"
        );
        assert_eq!(decide(FsKind::Ext4, Some(Size::from_mib(2048)), GIB, true).unwrap().bytes(), 2 * GIB);
        let message = text(decide(FsKind::Xfs, Some(Size::from_mib(299)), GIB, false));
        assert!(message.contains("300M") && message.contains("xfs"), "{message}");
        let message = text(decide(FsKind::Btrfs, None, 100 << 20, false));
        assert!(message.contains("114.0 MiB") && message.contains("100.0 MiB free"), "{message}");
        assert_eq!(
            decide(FsKind::Btrfs, Some(Size::from_mib(114)), GIB, false).unwrap(),
            Size::from_mib(114)
        );
    }
}
