//! Facts about a block device that decide what its figures mean.

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use crate::{Host, loopdev};

/// A block device as /sys shows it. Without a write cache no flush reaches the device, and without FUA each
/// journal commit costs one more flush, so both belong beside every fsync figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlockInfo {
    /// Such as `/dev/loop3`.
    pub path: Utf8PathBuf,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Logical sector size in bytes.
    pub logical_sector_bytes: Option<u32>,
    /// Physical sector size in bytes.
    pub physical_sector_bytes: Option<u32>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Whether a write can be made durable by itself.
    pub fua: Option<bool>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// Whether it is said to rotate.
    pub rotational: Option<bool>,
    /// Number of hardware queues.
    pub hardware_queues: Option<usize>,
    /// Largest request in KiB.
    pub max_sectors_kib: Option<u32>,
    /// The disk's model.
    pub model: Option<String>,
    /// The file behind a loop device.
    pub backing_file: Option<Utf8PathBuf>,
    /// Whether a loop device bypasses the page cache of the file system below it.
    pub direct_io: Option<bool>,
}

impl BlockInfo {
    /// Reads what /sys says about the device node `path` (not a symbolic link to it).
    pub fn read(host: &Host, path: &Utf8Path) -> Self {
        let name = path.file_name().unwrap_or_default();
        let disk = disk_name(host, name);
        let queue = |file: &str| host.read(format!("/sys/class/block/{disk}/queue/{file}")).ok();
        let number = |file: &str| queue(file).and_then(|text| text.parse().ok());
        let flag = |file: &str| queue(file).map(|text| text == "1");
        let backing_file = loopdev::backing_file(host, path);
        Self {
            path: path.to_owned(),
            size_bytes: size_bytes(host, name).unwrap_or(0),
            logical_sector_bytes: number("logical_block_size"),
            physical_sector_bytes: number("physical_block_size"),
            write_cache: queue("write_cache"),
            fua: flag("fua"),
            scheduler: queue("scheduler").map(|text| selected(&text)),
            rotational: flag("rotational"),
            hardware_queues: Some(host.names(format!("/sys/class/block/{disk}/mq")).len()).filter(|n| *n > 0),
            max_sectors_kib: number("max_sectors_kb"),
            model: model(host, &disk),
            direct_io: backing_file.as_ref().map(|_| loopdev::direct_io(host, path)),
            backing_file,
        }
    }
}

/// Size of the block device `name` in bytes.
pub(crate) fn size_bytes(host: &Host, name: &str) -> Option<u64> {
    sectors(host, name, "size")
}

/// A place or length of which the file `file` of the block device `name` tells, in bytes; /sys counts in 512-byte units
/// whatever the sector size.
pub(crate) fn sectors(host: &Host, name: &str, file: &str) -> Option<u64> {
    let sectors: u64 = host.read(format!("/sys/class/block/{name}/{file}")).ok()?.parse().ok()?;
    sectors.checked_mul(512)
}

/// The disk's vendor and model, as far as it tells them.
pub(crate) fn model(host: &Host, disk: &str) -> Option<String> {
    let read = |file: &str| host.read(format!("/sys/class/block/{disk}/device/{file}")).ok();
    let words: Vec<String> = ["vendor", "model"].into_iter().filter_map(read).collect();
    let text = words.join(" ").trim().to_string();
    (!text.is_empty()).then_some(text)
}

/// The whole disk that a partition belongs to; a disk's own name otherwise. In /sys a partition's directory
/// lies within its disk's.
pub(crate) fn disk_name(host: &Host, name: &str) -> String {
    if !host.exists(format!("/sys/class/block/{name}/partition")) {
        return name.to_string();
    }
    let link = host.path(format!("/sys/class/block/{name}")).canonicalize_utf8();
    let parent = link.ok().and_then(|dir| dir.parent().and_then(|p| p.file_name().map(str::to_string)));
    parent.unwrap_or_else(|| name.to_string())
}

/// Partitions of a disk are directories within its own that hold a file `partition`.
pub(crate) fn partition_names(host: &Host, disk: &str) -> Vec<String> {
    let dir = Utf8PathBuf::from(format!("/sys/class/block/{disk}"));
    host.names(&dir).into_iter().filter(|name| host.exists(dir.join(name).join("partition"))).collect()
}

/// `none [mq-deadline] kyber` -> `mq-deadline`.
fn selected(text: &str) -> String {
    let within = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    within.map_or(text, |(word, _)| word).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_described_by_its_disks_queue() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let disk = root.join("sys/devices/x/block/sdx");
        std::fs::create_dir_all(disk.join("sdx1")).unwrap();
        std::fs::create_dir_all(disk.join("queue")).unwrap();
        std::fs::create_dir_all(disk.join("device")).unwrap();
        let class = root.join("sys/class/block");
        std::fs::create_dir_all(&class).unwrap();
        std::os::unix::fs::symlink(&disk, class.join("sdx")).unwrap();
        std::os::unix::fs::symlink(disk.join("sdx1"), class.join("sdx1")).unwrap();
        for (file, text) in [
            ("sdx1/partition", "1\n"),
            ("sdx1/size", "2048\n"),
            ("queue/scheduler", "none [mq-deadline] kyber\n"),
            ("queue/write_cache", "write back\n"),
            ("queue/fua", "0\n"),
            ("device/vendor", "ACME    \n"),
            ("device/model", "Disk 9\n"),
        ] {
            std::fs::write(disk.join(file), text).unwrap();
        }
        let info = BlockInfo::read(&Host::rooted(root), "/dev/sdx1".into());
        assert_eq!(info.size_bytes, 1 << 20);
        assert_eq!(info.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!(info.write_cache.as_deref(), Some("write back"));
        assert_eq!(info.fua, Some(false));
        assert_eq!(info.model.as_deref(), Some("ACME Disk 9"));
        assert_eq!((info.rotational, info.backing_file, info.direct_io), (None, None, None));
    }
}
