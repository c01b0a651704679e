//! The thirteen rows of Table 3.

use stack::StackSpec;

use crate::ReproduceError;

/// A row of Table 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The word for `--rows`.
    pub id: &'static str,
    /// As the paper calls it.
    pub title: &'static str,
    /// The beginning of the artifact's CSV file name.
    pub file: &'static str,
    /// What stands for it here.
    pub stand_in: StandIn,
}

/// What stands for a row here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandIn {
    /// That file system, as mkfs makes it and mount takes it.
    FileSystem(&'static str),
    /// loadline's own betrfs, in place of the final version of BetrFS.
    Betrfs,
    /// Nothing: the switches of the intermediate versions of BetrFS do not exist in loadline's.
    Nothing,
}

const fn row(id: &'static str, title: &'static str, file: &'static str, stand_in: StandIn) -> Row {
    Row { id, title, file, stand_in }
}

/// Every row, in the order of Table 3.
pub const ROWS: [Row; 13] = [
    row("ext4", "ext4", "ext4", StandIn::FileSystem("ext4")),
    row("btrfs", "Btrfs", "btrfs", StandIn::FileSystem("btrfs")),
    row("xfs", "XFS", "xfs", StandIn::FileSystem("xfs")),
    row("f2fs", "F2FS", "f2fs", StandIn::FileSystem("f2fs")),
    row("zfs", "ZFS", "zfs", StandIn::FileSystem("zfs")),
    row("betrfs-v0.4", "BetrFS v0.4", "betrfs-v4-linux4.19.99", StandIn::Nothing),
    row("sfl", "+SFL", "betrfs-v0.6-sfl-kernel-4.19.99", StandIn::Nothing),
    row("range", "+range", "betrfs-v0.6-range-kernel-4.19.99", StandIn::Nothing),
    row("malloc", "+malloc", "betrfs-v0.6-malloc-opts-kernel-4.19.99", StandIn::Nothing),
    row("page-sharing", "+page sharing", "betrfs-v0.6-page-sharing", StandIn::Nothing),
    row("dc", "+DC", "betrfs-v0.6-dc-kernel-4.19.99", StandIn::Nothing),
    row("cond-log", "+cond. log", "betrfs-v0.6-cond-log-opt", StandIn::Nothing),
    row("betrfs", "v0.6: loadline's betrfs", "betrfs-v0.6-query-path-opt", StandIn::Betrfs),
];

/// Why an intermediate version cannot be had, and what would help.
pub const NO_STEP: (&str, &str) = (
    "this version of BetrFS is a kernel module for Linux 4.19 that no current kernel loads, and loadline's betrfs has \
     no switch for it",
    "compare with the rows above and the last row; the artifact itself runs this step on Linux 4.19.99",
);

/// How the last row is to be read.
pub const BETRFS_NOTE: &str = "The last row is loadline's own betrfs, a file system of the same kind in user space \
     (FUSE), not the kernel's BetrFS v0.6.";

impl Row {
    /// The row's stack on a device; `None` when nothing stands for it. `cache_bytes` is the memory of loadline's betrfs,
    /// whose process is outside of the memory limit.
    ///
    /// # Errors
    /// The device cannot be read as one.
    pub fn stack(&self, device: &str, cache_bytes: u64) -> Result<Option<StackSpec>, ReproduceError> {
        let text = match self.stand_in {
            StandIn::FileSystem(name) => format!("{name}@{device}"),
            StandIn::Betrfs => format!("betrfs,cache={}M@{device}", (cache_bytes >> 20).max(16)),
            StandIn::Nothing => return Ok(None),
        };
        Ok(Some(text.parse()?))
    }

    /// Whether a stack of a stored run is this row's.
    pub fn is(&self, stack: &str) -> bool {
        let fs = stack.split([',', '@']).next().unwrap_or_default();
        match self.stand_in {
            StandIn::FileSystem(name) => fs == name,
            StandIn::Betrfs => fs == "betrfs",
            StandIn::Nothing => false,
        }
    }

    /// Whether it is one of the file systems that BetrFS is compared with.
    pub fn is_rival(&self) -> bool {
        matches!(self.stand_in, StandIn::FileSystem(_))
    }
}

/// The rows of a list such as `ext4,xfs,betrfs`.
///
/// # Errors
/// A word that is no row.
pub fn choose(list: &str) -> Result<Vec<Row>, ReproduceError> {
    let find = |word: &str| {
        ROWS.into_iter().find(|row| row.id == word).ok_or_else(|| {
            let known: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
            ReproduceError::Unknown(format!("`{word}` is no row; rows are {}", known.join(", ")))
        })
    };
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_stacks_and_are_found_again() {
        for row in ROWS {
            let Some(stack) = row.stack("860evo:4G", 128 << 20).unwrap() else { continue };
            let label = stack.label();
            let found: Vec<&str> = ROWS.iter().filter(|row| row.is(&label)).map(|row| row.id).collect();
            assert_eq!(found, [row.id], "{label}");
        }
        assert_eq!(choose("xfs, betrfs").unwrap().len(), 2);
        assert!(choose("ntfs").unwrap_err().to_string().contains("cond-log"));
    }
}
