//! Which file a path meant when it was made: a path alone may name another one by now.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, StatxFlags};
use serde::{Deserialize, Serialize};

/// A file, told from another one that took its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileId {
    /// Number of its file system, major and minor; another one may get it after a reboot.
    device: (u32, u32),
    /// Its number there, which is used again when it is gone.
    inode: u64,
    /// When it was made, seconds and nanoseconds; absent where the file system does not keep it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    born: Option<(i64, u32)>,
}

impl FileId {
    /// Of an open file (O_PATH will do).
    pub(crate) fn of(file: impl AsFd) -> io::Result<FileId> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted)?;
        let has_born = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        Ok(FileId {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            born: has_born.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)),
        })
    }

    /// Whether `found` is this file; `same_boot`: since the last start of the machine, else devices may have other
    /// numbers.
    pub(crate) fn is(&self, found: &FileId, same_boot: bool) -> bool {
        self.inode == found.inode && self.born == found.born && (!same_boot || self.device == found.device)
    }
}

/// What a journal tells of the file that an entry names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreatedFile {
    /// It is this one.
    File(FileId),
    /// Nothing yet: the run died before it was made, or right after.
    NotYet,
    /// Nothing: the journal was written by a version that did not tell.
    Untold,
}
