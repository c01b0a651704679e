//! The file systems loadline knows by name.

use super::Size;

/// A file system (or a directory that stands for one).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FsKind {
    /// ext2, through the ext4 driver where the kernel does so.
    Ext2,
    /// ext3, through the ext4 driver where the kernel does so.
    Ext3,
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// F2FS.
    F2fs,
    /// NILFS2.
    Nilfs2,
    /// bcachefs.
    Bcachefs,
    /// OpenZFS; recognised only.
    Zfs,
    /// loadline's own betrfs: a process behind FUSE.
    Betrfs,
    /// Memory only, no device.
    Tmpfs,
    /// loadline's own file system in memory, behind FUSE: what FUSE allows.
    FuseLimit,
    /// An existing directory, used as it is.
    Dir,
    /// No place at all: the load is simulated, its stack is among its parameters.
    Virtual,
}

impl FsKind {
    /// Every kind, in the order in which messages list them.
    pub const ALL: [FsKind; 14] = [
        FsKind::Ext4,
        FsKind::Ext3,
        FsKind::Ext2,
        FsKind::Xfs,
        FsKind::Btrfs,
        FsKind::Tmpfs,
        FsKind::F2fs,
        FsKind::Nilfs2,
        FsKind::Bcachefs,
        FsKind::Zfs,
        FsKind::Betrfs,
        FsKind::FuseLimit,
        FsKind::Dir,
        FsKind::Virtual,
    ];

    /// The name in the stack syntax, which is also the kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            FsKind::Ext2 => "ext2",
            FsKind::Ext3 => "ext3",
            FsKind::Ext4 => "ext4",
            FsKind::Xfs => "xfs",
            FsKind::Btrfs => "btrfs",
            FsKind::F2fs => "f2fs",
            FsKind::Nilfs2 => "nilfs2",
            FsKind::Bcachefs => "bcachefs",
            FsKind::Zfs => "zfs",
            FsKind::Betrfs => "betrfs",
            FsKind::Tmpfs => "tmpfs",
            FsKind::FuseLimit => "fuse-limit",
            FsKind::Dir => "dir",
            FsKind::Virtual => "virtual",
        }
    }

    /// The kind of that name; `dir` counts only as `dir:PATH`, so it is not found here.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind != FsKind::Dir && kind.name() == name)
    }

    /// Whether the file system lies on a block device that mkfs formats.
    pub fn needs_device(self) -> bool {
        !matches!(self, FsKind::Tmpfs | FsKind::FuseLimit | FsKind::Dir | FsKind::Virtual)
    }

    /// The program that formats a device, for those that have one.
    pub fn mkfs_program(self) -> Option<&'static str> {
        Some(match self {
            FsKind::Ext2 => "mkfs.ext2",
            FsKind::Ext3 => "mkfs.ext3",
            FsKind::Ext4 => "mkfs.ext4",
            FsKind::Xfs => "mkfs.xfs",
            FsKind::Btrfs => "mkfs.btrfs",
            FsKind::F2fs => "mkfs.f2fs",
            FsKind::Nilfs2 => "mkfs.nilfs2",
            FsKind::Bcachefs => "mkfs.bcachefs",
            FsKind::Zfs | FsKind::Betrfs | FsKind::Tmpfs | FsKind::FuseLimit => return None,
            FsKind::Dir | FsKind::Virtual => return None,
        })
    }

    /// The Debian package that holds the tools.
    pub fn apt_package(self) -> Option<&'static str> {
        Some(match self {
            FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => "e2fsprogs",
            FsKind::Xfs => "xfsprogs",
            FsKind::Btrfs => "btrfs-progs",
            FsKind::F2fs => "f2fs-tools",
            FsKind::Nilfs2 => "nilfs-tools",
            FsKind::Bcachefs => "bcachefs-tools",
            FsKind::Zfs => "zfsutils-linux",
            FsKind::Betrfs | FsKind::Tmpfs | FsKind::FuseLimit => return None,
            FsKind::Dir | FsKind::Virtual => return None,
        })
    }

    /// The smallest device on which mkfs makes a usable file system. XFS and Btrfs refuse less (xfsprogs 5.19
    /// and later: 300 MiB; btrfs-progs: about 109 MiB with the default profiles); ext needs room for a
    /// journal.
    pub fn min_size(self) -> Size {
        match self {
            FsKind::Xfs => Size::from_mib(300),
            FsKind::Btrfs => Size::from_mib(114),
            FsKind::F2fs | FsKind::Nilfs2 | FsKind::Bcachefs => Size::from_mib(128),
            FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => Size::from_mib(8),
            FsKind::Zfs | FsKind::Betrfs => Size::from_mib(64),
            FsKind::Tmpfs | FsKind::FuseLimit | FsKind::Dir | FsKind::Virtual => Size::from_bytes(0),
        }
    }
}

/// The file system whose name is one slip (a letter more, less, other, or two swapped) away.
pub(super) fn near_fs(word: &str) -> Option<&'static str> {
    let lower = word.to_ascii_lowercase();
    FsKind::ALL
        .into_iter()
        .filter(|fs| !matches!(fs, FsKind::Dir | FsKind::Virtual))
        .map(FsKind::name)
        .find(|name| lower == *name || one_slip(lower.as_bytes(), name.as_bytes()))
}

fn one_slip(a: &[u8], b: &[u8]) -> bool {
    let prefix = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[prefix..], &b[prefix..]);
    match (a, b) {
        ([], [_]) | ([_], []) => true,
        ([_, rest @ ..], [_, other @ ..]) if rest == other => true,
        ([_, rest @ ..], other) if rest == other => true,
        (other, [_, rest @ ..]) if rest == other => true,
        ([x1, x2, rest @ ..], [y1, y2, other @ ..]) => x1 == y2 && x2 == y1 && rest == other,
        _ => false,
    }
}
