//! Traces taken from real fsyncs, and the chains of devices they were taken on.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::path::{Path, PathBuf};

use probe::fsync::chain::{Chain, Disk, FsKind, Level};
use probe::fsync::event::{Dev, TraceEvent};
use probe::fsync::{Analysis, analyse, ftrace};

pub const VDA: u32 = Dev::new(254, 0).0;
pub const BTRFS_UUID: [u8; 16] =
    [0x49, 0x00, 0x87, 0xd9, 0x0c, 0x97, 0x43, 0x08, 0x99, 0x0f, 0xb0, 0xa6, 0x30, 0x61, 0xf6, 0x04];

pub fn fixture(name: &str) -> PathBuf {
    // also read by the tests of crate `report`, which draws these traces
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../probe/tests/fixtures").join(name)
}

pub fn text(name: &str) -> String {
    std::fs::read_to_string(fixture(name)).expect("a fixture")
}

pub fn disk(name: &str, dev: u32, fua: bool) -> Disk {
    Disk {
        name: name.into(),
        dev,
        partitions: Vec::new(),
        write_back: Some(true),
        fua: Some(fua),
        queue_of_cpu: vec![1, 2],
    }
}

pub fn level(fs_type: &str, disk: Disk) -> Level {
    let kind = match fs_type {
        "ext4" => FsKind::Ext4,
        "xfs" => FsKind::Xfs,
        "btrfs" => FsKind::Btrfs,
        _ => FsKind::Other,
    };
    let fs_uuid = (kind == FsKind::Btrfs).then_some(BTRFS_UUID);
    Level { fs_type: fs_type.into(), kind, fs_dev: disk.dev, fs_uuid, disks: vec![disk], holds: None }
}

/// A file system on a loop device whose file lies on an ext4 on a virtual disk.
pub fn on_loop(fs_type: &str, minor: u32, inode: u64) -> Chain {
    let top = level(fs_type, disk(&format!("loop{minor}"), Dev::new(7, minor).0, false));
    let mut below = level("ext4", disk("vda", VDA, false));
    below.holds = Some((inode, PathBuf::from("/images/a.img")));
    Chain { levels: vec![top, below] }
}

pub fn ext4_on_loop() -> (Vec<TraceEvent>, Chain) {
    (ftrace::parse(&text("fsync-ext4.txt")), on_loop("ext4", 0, 9_978_534))
}

pub fn xfs_on_loop() -> (Vec<TraceEvent>, Chain) {
    (ftrace::parse(&text("fsync-xfs.txt")), on_loop("xfs", 1, 9_978_561))
}

pub fn btrfs_on_loop() -> (Vec<TraceEvent>, Chain) {
    (ftrace::parse(&text("fsync-btrfs.txt")), on_loop("btrfs", 2, 9_978_577))
}

/// One file system on a device that takes FUA writes.
pub fn on_nvme(fs_type: &str) -> Chain {
    Chain { levels: vec![level(fs_type, disk("nvme0n1", Dev::new(259, 0).0, true))] }
}

/// Analyses, and checks what must hold for every trace: parts sum up, and a lower level is what the upper
/// one's device time consists of.
pub fn explained(moments: &[TraceEvent], chain: &Chain) -> Analysis {
    let analysis = analyse(moments, chain);
    for fsync in &analysis.fsyncs {
        let mut whole = fsync.total_ns;
        assert_eq!(fsync.levels.len(), chain.levels.len());
        for level in &fsync.levels {
            assert_eq!(level.windows_ns, whole, "{}", level.name);
            assert_eq!(level.parts.total_ns(), whole, "{}", level.name);
            whole = whole - level.parts.host_ns - level.parts.queue_ns;
            // Device time hidden behind nothing else is what the next level explains; the queue never hides
            // it.
        }
    }
    analysis
}
