//! The file system, its devices, and the file system below a loop device: what the levels of a breakdown are.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::event::{Dev, FsKey};
use super::ftrace::uuid;
use crate::device;
use crate::root::Root;
use host::mountinfo::{self, MountEntry};

/// A chain longer than this is cut (loop on loop on ...).
const LEVELS_MAX: usize = 8;

/// The file systems whose stages are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FsKind {
    /// ext4 (and ext2, ext3 through its driver): jbd2 journal.
    Ext4,
    /// XFS: log buffers.
    Xfs,
    /// Btrfs: tree log and super block.
    Btrfs,
    /// Any other: only what the calling thread itself submits can be told.
    Other,
}

/// One whole disk of a level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Kernel name, e.g. `loop3`.
    pub name: String,
    /// Its number as tracepoints write it.
    pub dev: u32,
    /// Numbers of its partitions: bios may carry them, requests carry the disk's.
    pub partitions: Vec<u32>,
    /// It has a volatile cache, so that flushes reach it.
    pub write_back: Option<bool>,
    /// It takes FUA writes; if not, the kernel writes and flushes instead.
    pub fua: Option<bool>,
    /// For each CPU the hardware queue that serves it, counted from 1.
    pub queue_of_cpu: Vec<u16>,
}

/// A file system and the disks it is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Its type as the kernel names it, e.g. `ext4`.
    pub fs_type: String,
    /// The type as far as the breakdown is concerned.
    pub kind: FsKind,
    /// The device number by which its tracepoints name it; anonymous for btrfs.
    pub fs_dev: u32,
    /// Its UUID: btrfs names itself by it.
    pub fs_uuid: Option<[u8; 16]>,
    /// The disks, without the layers of device mapper and RAID between.
    pub disks: Vec<Disk>,
    /// The file of this file system that holds the level above: inode and path.
    pub holds: Option<(u64, PathBuf)>,
}

impl Level {
    /// Whether a tracepoint's file system is this one.
    pub fn is(&self, key: FsKey) -> bool {
        match key {
            FsKey::Dev(dev) => dev.0 == self.fs_dev,
            FsKey::Uuid(uuid) => self.fs_uuid == Some(uuid),
        }
    }

    /// The disk that a device number belongs to, itself or its partition.
    pub fn disk_of(&self, dev: Dev) -> Option<&Disk> {
        self.disks.iter().find(|disk| disk.dev == dev.0 || disk.partitions.contains(&dev.0))
    }

    /// `ext4 on loop3`.
    pub fn name(&self) -> String {
        let disks: Vec<&str> = self.disks.iter().map(|disk| disk.name.as_str()).collect();
        if disks.is_empty() {
            self.fs_type.clone()
        } else {
            format!("{} on {}", self.fs_type, disks.join(", "))
        }
    }
}

/// The levels from the one a program sees down to the last device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// The first is that of the path asked for. Never empty.
    pub levels: Vec<Level>,
}

/// Why no chain can be told.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The path cannot be looked at.
    #[error("{path}: {source}")]
    Path {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The path is in no mount known to this process.
    #[error("{0} is in no mounted file system that /proc/self/mountinfo tells of")]
    NoMount(PathBuf),
}

impl Chain {
    /// The chain below a directory or file; overlays are followed to their upper directory.
    ///
    /// # Errors
    /// When the path cannot be looked at or is in no known mount.
    pub fn of(path: &Path) -> Result<Self, ChainError> {
        let root = Root::default();
        let mounts = mountinfo::parse(&root.text("/proc/self/mountinfo").unwrap_or_default());
        let mut levels = vec![level(&root, &mounts, path, false)?];
        while levels.len() < LEVELS_MAX {
            let Some(file) = levels.last().and_then(|level| backing_file(&root, level)) else { break };
            match level(&root, &mounts, &file, true) {
                Ok(level) => levels.push(level),
                // A backing file that was unlinked or lies in another mount namespace ends the chain.
                Err(_) => break,
            }
        }
        Ok(Chain { levels })
    }

    /// The device numbers that tracepoints of the file systems carry.
    pub fn fs_devs(&self) -> Vec<Dev> {
        let with_dev = |level: &&Level| level.kind != FsKind::Btrfs && !level.disks.is_empty();
        self.levels.iter().filter(with_dev).map(|level| Dev(level.fs_dev)).collect()
    }

    /// The numbers of all disks and their partitions.
    pub fn disk_devs(&self) -> Vec<Dev> {
        let disks = self.levels.iter().flat_map(|level| &level.disks);
        disks.flat_map(|disk| [disk.dev].into_iter().chain(disk.partitions.clone())).map(Dev).collect()
    }
}

fn level(root: &Root, mounts: &[MountEntry], path: &Path, holds: bool) -> Result<Level, ChainError> {
    let error = |source| ChainError::Path { path: path.to_path_buf(), source };
    let real = path.canonicalize().map_err(error)?;
    let meta = fs::metadata(&real).map_err(error)?;
    let mount = mountinfo::containing_path(mounts, &real).ok_or_else(|| ChainError::NoMount(real.clone()))?;
    if let Some(upper) = upper_directory(mount) {
        // The file itself lies at the same place below the upper directory, once it was written.
        let inside = real.strip_prefix(&mount.target).unwrap_or(Path::new(""));
        let file = upper.join(inside);
        return level(root, mounts, if file.exists() { &file } else { &upper }, holds);
    }
    let top = device::name_of_mount(root, &mount.source, &mount.device_number);
    let mut names = top.map(|name| leaves(root, &name, 0)).unwrap_or_default();
    let kind = match mount.fs_type.as_str() {
        "ext2" | "ext3" | "ext4" => FsKind::Ext4,
        "xfs" => FsKind::Xfs,
        "btrfs" => FsKind::Btrfs,
        _ => FsKind::Other,
    };
    let fs_uuid = (kind == FsKind::Btrfs).then(|| btrfs_devices(root, &names)).flatten().map(|(id, more)| {
        names = more;
        id
    });
    let dev = meta.dev();
    Ok(Level {
        fs_type: mount.fs_type.clone(),
        kind,
        fs_dev: Dev::new(rustix::fs::major(dev), rustix::fs::minor(dev)).0,
        fs_uuid,
        disks: names.iter().filter_map(|name| disk(root, name)).collect(),
        holds: holds.then(|| (meta.ino(), real)),
    })
}

fn upper_directory(mount: &MountEntry) -> Option<PathBuf> {
    let upper = || mount.options.split(',').find_map(|option| option.strip_prefix("upperdir="));
    (mount.fs_type == "overlay").then(upper).flatten().map(PathBuf::from)
}

/// The disks below device-mapper and RAID devices.
fn leaves(root: &Root, name: &str, depth: usize) -> Vec<String> {
    let slaves = root.names(format!("/sys/class/block/{name}/slaves"));
    if slaves.is_empty() || depth >= LEVELS_MAX {
        return vec![name.to_string()];
    }
    let mut found = Vec::new();
    for slave in slaves {
        // A slave may be a partition.
        let whole = device::name_of_node(root, &Path::new("/dev").join(&slave)).unwrap_or(slave);
        for leaf in leaves(root, &whole, depth + 1) {
            if !found.contains(&leaf) {
                found.push(leaf);
            }
        }
    }
    found
}

/// UUID and disks of the btrfs that has one of `names` among its devices.
fn btrfs_devices(root: &Root, names: &[String]) -> Option<([u8; 16], Vec<String>)> {
    let directory = Path::new("/sys/fs/btrfs");
    root.names(directory).iter().find_map(|name| {
        let id = uuid(name)?;
        let mut disks: Vec<String> = Vec::new();
        for device in root.names(directory.join(name).join("devices")) {
            let whole = device::name_of_node(root, &Path::new("/dev").join(&device)).unwrap_or(device);
            disks.extend(leaves(root, &whole, 0));
        }
        disks.iter().any(|disk| names.contains(disk)).then_some((id, disks))
    })
}

fn disk(root: &Root, name: &str) -> Option<Disk> {
    let directory = root.resolve(format!("/sys/class/block/{name}"))?;
    let number = |directory: &Path| {
        let text = root.text(directory.join("dev"))?;
        let (major, minor) = text.split_once(':')?;
        Some(Dev::new(major.parse().ok()?, minor.parse().ok()?).0)
    };
    let partition = |child: &String| {
        let child = directory.join(child);
        root.text(child.join("partition")).and_then(|_| number(&child))
    };
    Some(Disk {
        name: name.to_string(),
        dev: number(&directory)?,
        partitions: root.names(&directory).iter().filter_map(partition).collect(),
        write_back: root.text(directory.join("queue/write_cache")).map(|text| text == "write back"),
        fua: root.switch(directory.join("queue/fua")),
        queue_of_cpu: queues(root, &directory),
    })
}

/// `mq/N/cpu_list` of a disk: `0, 1`.
fn queues(root: &Root, directory: &Path) -> Vec<u16> {
    let mut of_cpu = Vec::new();
    for name in root.names(directory.join("mq")) {
        let Ok(queue) = name.parse::<u16>() else { continue };
        let list = root.text(directory.join("mq").join(&name).join("cpu_list")).unwrap_or_default();
        for cpu in list.split(',').filter_map(|cpu| cpu.trim().parse::<u16>().ok()) {
            let cpu = usize::from(cpu);
            if of_cpu.len() <= cpu {
                of_cpu.resize(cpu + 1, 0);
            }
            of_cpu[cpu] = queue.saturating_add(1);
        }
    }
    of_cpu
}

/// The file a level's loop device lies on; with several disks, the first that has one.
fn backing_file(root: &Root, level: &Level) -> Option<PathBuf> {
    let file = |disk: &Disk| root.text(format!("/sys/class/block/{}/loop/backing_file", disk.name));
    level.disks.iter().find_map(file).map(PathBuf::from)
}
