//! The thirteen rows of Table 3.

use spec::StackSpec;

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
    /// loadline's own betrfs with the steps of BetrFS up to this one (`steps=` of its mount options).
    Betrfs(&'static str),
}

/// The final version: all steps, the default of loadline's betrfs.
const FINAL: &str = "v0.6";

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
    row("betrfs-v0.4", "BetrFS v0.4", "betrfs-v4-linux4.19.99", StandIn::Betrfs("v0.4")),
    row("sfl", "+SFL", "betrfs-v0.6-sfl-kernel-4.19.99", StandIn::Betrfs("sfl")),
    row("range", "+range", "betrfs-v0.6-range-kernel-4.19.99", StandIn::Betrfs("range")),
    row("malloc", "+malloc", "betrfs-v0.6-malloc-opts-kernel-4.19.99", StandIn::Betrfs("malloc")),
    row("page-sharing", "+page sharing", "betrfs-v0.6-page-sharing", StandIn::Betrfs("page-sharing")),
    row("dc", "+DC", "betrfs-v0.6-dc-kernel-4.19.99", StandIn::Betrfs("dc")),
    row("cond-log", "+cond. log", "betrfs-v0.6-cond-log-opt", StandIn::Betrfs("cond-log")),
    row("betrfs", "+query path = v0.6", "betrfs-v0.6-query-path-opt", StandIn::Betrfs(FINAL)),
];

/// How the BetrFS rows are to be read.
pub const BETRFS_NOTE: &str = "The BetrFS rows are loadline's own betrfs, a file system of the same kind in user space \
     (FUSE), with the nearest relative of each step switched; not the kernel modules of the paper.";

impl Row {
    /// The row's stack on a device. `cache_bytes` is the memory of loadline's betrfs, whose process is outside of the
    /// memory limit.
    ///
    /// # Errors
    /// The device cannot be read as one.
    pub fn stack(&self, device: &str, cache_bytes: u64) -> Result<StackSpec, ReproduceError> {
        let cache = (cache_bytes >> 20).max(16);
        let text = match self.stand_in {
            StandIn::FileSystem(name) => format!("{name}@{device}"),
            StandIn::Betrfs(FINAL) => format!("betrfs,cache={cache}M@{device}"),
            StandIn::Betrfs(steps) => format!("betrfs,cache={cache}M,steps={steps}@{device}"),
        };
        Ok(text.parse()?)
    }

    /// Whether a stack of a stored run is this row's.
    pub fn is(&self, stack: &str) -> bool {
        let mut words = stack.split('@').next().unwrap_or_default().split(',');
        let fs = words.next().unwrap_or_default();
        match self.stand_in {
            StandIn::FileSystem(name) => fs == name,
            StandIn::Betrfs(wanted) => {
                let steps = words.find_map(|word| word.strip_prefix("steps=")).unwrap_or(FINAL);
                fs == "betrfs" && steps == wanted
            }
        }
    }

    /// Whether it is one of the file systems that BetrFS is compared with.
    pub fn is_rival(&self) -> bool {
        matches!(self.stand_in, StandIn::FileSystem(_))
    }
}

/// The rows of a list such as `ext4,xfs,betrfs`; `all` stands for all thirteen.
///
/// # Errors
/// A word that is no row.
pub fn choose(list: &str) -> Result<Vec<Row>, ReproduceError> {
    let find = |word: &str| {
        ROWS.into_iter().find(|row| row.id == word).ok_or_else(|| {
            let known: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
            ReproduceError::Unknown(format!("`{word}` is no row; rows are all, {}", known.join(", ")))
        })
    };
    if list.trim() == "all" {
        return Ok(ROWS.to_vec());
    }
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_stacks_and_are_found_again() {
        for row in ROWS {
            let label = row.stack("860evo:4G", 128 << 20).unwrap().label();
            let found: Vec<&str> = ROWS.iter().filter(|row| row.is(&label)).map(|row| row.id).collect();
            assert_eq!(found, [row.id], "{label}");
        }
        assert_eq!(choose("xfs, betrfs").unwrap().len(), 2);
        assert!(choose("ntfs").unwrap_err().to_string().contains("cond-log"));
    }
}
