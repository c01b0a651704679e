//! The report on a device that the user sees before anything is erased.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use super::refusal::{Blocker, EraseRefused};
use super::signatures::{self, Signature};
use crate::runner::Runner;
use crate::{Host, block};
use spec::human;

/// What loadline found on a block device and around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceReport {
    /// The device node, symbolic links resolved.
    pub path: Utf8PathBuf,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Vendor and model.
    pub model: Option<String>,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Partition tables and file systems on it.
    pub signatures: Vec<Signature>,
    /// Why signatures could not be looked for, on it or on a partition. Then nothing may be erased.
    pub unreadable: Option<String>,
    /// Whether its first MiB is all zeros; absent when it cannot be read.
    pub starts_blank: Option<bool>,
    /// Its partitions.
    pub partitions: Vec<Partition>,
    /// Where it or a part of it is mounted.
    pub mounts: Vec<MountedPart>,
    /// Those of its parts (or itself) that are swap space in use.
    pub swaps: Vec<Utf8PathBuf>,
    /// Devices built on top of it or its parts (device mapper, md, bcache), by name.
    pub holders: Vec<String>,
    /// Running md arrays that it or a part of it belongs to.
    pub arrays: Vec<String>,
    /// Why an exclusive open failed, if it did.
    pub exclusive_open_error: Option<String>,
}

/// A partition of the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// The device node.
    pub path: Utf8PathBuf,
    /// Size in bytes.
    pub size_bytes: u64,
    /// What lies on it.
    pub signatures: Vec<Signature>,
}

/// A mount of the device or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MountedPart {
    /// The device.
    pub source: String,
    /// Where.
    pub target: Utf8PathBuf,
}

impl DeviceReport {
    /// Looks at the device; changes nothing. Needs the right to read the device.
    pub fn inspect(host: &Host, runner: &dyn Runner, device: &Utf8Path) -> Result<Self, EraseRefused> {
        let not_a_device = |why: String| EraseRefused::NotADevice { device: device.to_owned(), why };
        let path = device.canonicalize_utf8().map_err(|error| not_a_device(error.to_string()))?;
        let meta = path.metadata().map_err(|error| not_a_device(error.to_string()))?;
        let name = path.file_name().unwrap_or_default().to_string();
        let dir = format!("/sys/class/block/{name}");
        if !meta.file_type().is_block_device() || !host.exists(&dir) {
            return Err(not_a_device("it is not a block device that /sys knows".into()));
        }
        let mut unreadable = None;
        let mut signatures_of = |path: &Utf8Path| {
            signatures::probe(runner, path).unwrap_or_else(|why| {
                unreadable.get_or_insert(why);
                Vec::new()
            })
        };
        let partition_names = partition_names(host, &name);
        let partitions: Vec<Partition> = partition_names
            .iter()
            .map(|part| {
                let path = Utf8PathBuf::from(format!("/dev/{part}"));
                let signatures = signatures_of(&path);
                Partition { size_bytes: block::size_bytes(host, part).unwrap_or(0), path, signatures }
            })
            .collect();
        let signatures = signatures_of(&path);
        let names: Vec<String> = std::iter::once(name.clone()).chain(partition_names).collect();
        let usage = usage(host, &names);
        Ok(Self {
            size_bytes: block::size_bytes(host, &name).unwrap_or(0),
            model: block::model(host, &block::disk_name(host, &name)),
            read_only: host.read(format!("{dir}/ro")).is_ok_and(|text| text == "1"),
            signatures,
            unreadable: usage.error.or(unreadable),
            starts_blank: starts_blank(&path),
            partitions,
            mounts: usage.mounts,
            swaps: usage.swaps,
            holders: usage.holders,
            arrays: usage.arrays,
            exclusive_open_error: exclusive_open_error(&path),
            path,
        })
    }

    /// What forbids formatting the device, whatever the user says.
    pub fn blockers(&self) -> Vec<Blocker> {
        let mounts = self.mounts.iter().map(|m| Blocker::Mounted(m.clone()));
        let swaps = self.swaps.iter().cloned().map(Blocker::Swap);
        let holders = self.holders.iter().cloned().map(Blocker::Held);
        let arrays = self.arrays.iter().cloned().map(Blocker::Array);
        let read_only = self.read_only.then_some(Blocker::ReadOnly);
        let unreadable = self.unreadable.clone().map(Blocker::Unreadable);
        let busy = self.exclusive_open_error.clone().map(Blocker::NotExclusive);
        let lists = mounts.chain(swaps).chain(holders).chain(arrays);
        lists.chain(read_only).chain(unreadable).chain(busy).collect()
    }

    /// Whether anything known would be lost: a signature on the device or one of its partitions, or bytes
    /// that no program recognises.
    pub fn holds_data(&self) -> bool {
        !self.signatures.is_empty() || !self.partitions.is_empty() || self.starts_blank != Some(true)
    }

    /// Decides whether the device may be formatted: `erase` must name the same device, and nothing may use
    /// it.
    pub fn check_erase(&self, erase: Option<&Utf8Path>) -> Result<(), EraseRefused> {
        let Some(erase) = erase else {
            return Err(EraseRefused::NotAsked { report: Box::new(self.clone()) });
        };
        let named = erase.canonicalize_utf8().unwrap_or_else(|_| erase.to_owned());
        if named != self.path {
            return Err(EraseRefused::OtherDevice { device: self.path.clone(), erase: erase.to_owned() });
        }
        let blockers = self.blockers();
        if blockers.is_empty() {
            Ok(())
        } else {
            Err(EraseRefused::InUse { blockers, report: Box::new(self.clone()) })
        }
    }
}

impl fmt::Display for DeviceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = self.model.as_deref().unwrap_or("no model name");
        let read_only = if self.read_only { ", read-only" } else { "" };
        write!(f, "{} ({}, {model}{read_only})", self.path, human(self.size_bytes))?;
        for signature in &self.signatures {
            write!(f, "\n  holds        {signature}")?;
        }
        for part in &self.partitions {
            let kinds: Vec<String> = part.signatures.iter().map(Signature::to_string).collect();
            let kinds = if kinds.is_empty() { "nothing known".to_string() } else { kinds.join(", ") };
            write!(f, "\n  partition    {} ({}): {kinds}", part.path, human(part.size_bytes))?;
        }
        match self.starts_blank {
            _ if !self.signatures.is_empty() || !self.partitions.is_empty() => {}
            Some(true) => write!(f, "\n  holds        no known signature; its first MiB is blank")?,
            Some(false) => write!(f, "\n  holds        no known signature, but its first MiB is not blank")?,
            None => write!(f, "\n  holds        no known signature; it cannot be read")?,
        }
        self.blockers().iter().try_for_each(|blocker| write!(f, "\n  in the way   {blocker}"))
    }
}

/// Partitions of a disk are directories within its own that hold a file `partition`.
fn partition_names(host: &Host, disk: &str) -> Vec<String> {
    let dir = Utf8PathBuf::from(format!("/sys/class/block/{disk}"));
    host.names(&dir).into_iter().filter(|name| host.exists(dir.join(name).join("partition"))).collect()
}

#[derive(Debug, Default)]
struct Usage {
    mounts: Vec<MountedPart>,
    swaps: Vec<Utf8PathBuf>,
    holders: Vec<String>,
    arrays: Vec<String>,
    /// Why it is not known who uses the device.
    error: Option<String>,
}

/// Who uses one of these devices. Mounts are known by device number and, since Btrfs shows another number,
/// also by the path of their source.
fn usage(host: &Host, names: &[String]) -> Usage {
    let mut usage = Usage::default();
    let numbers: BTreeSet<String> =
        names.iter().filter_map(|name| host.read(format!("/sys/class/block/{name}/dev")).ok()).collect();
    let is_ours = |path: &str| {
        let path = Utf8PathBuf::from(path);
        let resolved = path.canonicalize_utf8().unwrap_or(path);
        resolved.strip_prefix("/dev").is_ok_and(|rest| names.iter().any(|name| rest == name))
    };
    match host.mounts() {
        Err(error) => usage.error = Some(format!("/proc/self/mountinfo: {error}")),
        Ok(mounts) => {
            let ours =
                mounts.into_iter().filter(|m| numbers.contains(&m.device_number) || is_ours(&m.source));
            usage.mounts = ours.map(|m| MountedPart { source: m.source, target: m.target }).collect();
        }
    }
    let swaps = host.read("/proc/swaps").unwrap_or_default();
    let swap_files = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    usage.swaps = swap_files.filter(|file| is_ours(file)).map(Utf8PathBuf::from).collect();
    let holders: BTreeSet<String> =
        names.iter().flat_map(|name| host.names(format!("/sys/class/block/{name}/holders"))).collect();
    usage.holders = holders.into_iter().collect();
    usage.arrays = arrays(&host.read("/proc/mdstat").unwrap_or_default(), names);
    usage
}

/// Lines such as `md0 : active raid1 sdb1[1] sda1[0]`.
fn arrays(mdstat: &str, names: &[String]) -> Vec<String> {
    let member = |word: &str| word.split_once('[').is_some_and(|(name, _)| names.iter().any(|n| n == name));
    let lines = mdstat.lines().filter_map(|line| line.split_once(" : "));
    lines
        .filter(|(_, members)| members.split_whitespace().any(member))
        .map(|(array, _)| array.trim().to_string())
        .collect()
}

/// Opening a block device with O_EXCL fails while the system uses it (open(2)).
fn exclusive_open_error(path: &Utf8Path) -> Option<String> {
    OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(path).err().map(|error| error.to_string())
}

fn starts_blank(path: &Utf8Path) -> Option<bool> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(1 << 20).read_to_end(&mut bytes).ok()?;
    Some(bytes.iter().all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests;
