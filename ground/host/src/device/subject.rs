//! Which device or file a path means.

use std::os::unix::fs::{FileTypeExt, MetadataExt};

use camino::{Utf8Path, Utf8PathBuf};

use super::refusal::EraseRefused;
use crate::Host;

/// A block device, by whatever path it was named, or a regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    /// Symbolic links resolved. A node elsewhere than in /dev keeps its path.
    pub(super) path: Utf8PathBuf,
    /// The kernel's name, such as `sdx1`; `None` for a file.
    pub(super) name: Option<String>,
}

impl Subject {
    pub(super) fn of(host: &Host, path: &Utf8Path) -> Result<Subject, EraseRefused> {
        let refused = |why: String| EraseRefused::NotADevice { device: path.to_owned(), why };
        let resolved = path.canonicalize_utf8().map_err(|error| refused(error.to_string()))?;
        let meta = resolved.metadata().map_err(|error| refused(error.to_string()))?;
        if meta.is_file() {
            return Ok(Subject { path: resolved, name: None });
        }
        if !meta.file_type().is_block_device() {
            return Err(refused("it is neither a block device nor a file".into()));
        }
        match name_of_number(host, meta.rdev()) {
            Some(name) => Ok(Subject { path: resolved, name: Some(name) }),
            None => Err(refused("it is not a block device that /sys knows".into())),
        }
    }
}

/// The kernel's name of the device of that number.
pub(super) fn name_of_number(host: &Host, number: u64) -> Option<String> {
    let text = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let has = |name: &String| host.read(format!("/sys/class/block/{name}/dev")).is_ok_and(|dev| dev == text);
    host.names("/sys/class/block").into_iter().find(has)
}

/// Whether both paths mean the same device or file, also through links and other nodes.
pub(super) fn same(a: &Utf8Path, b: &Utf8Path) -> bool {
    let (Ok(x), Ok(y)) = (a.metadata(), b.metadata()) else { return a == b };
    match (x.file_type().is_block_device(), y.file_type().is_block_device()) {
        (true, true) => x.rdev() == y.rdev(),
        (false, false) => (x.dev(), x.ino()) == (y.dev(), y.ino()),
        _ => false,
    }
}
