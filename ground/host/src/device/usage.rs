//! Who uses a device or a file.
//!
//! Looked at are the thing itself, its partitions, the disk it is a partition of, and what lies below it when it is a loop
//! device: another device, or a file. Whatever is mounted, swapped to or built upon any of these uses it.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use camino::{Utf8Path, Utf8PathBuf};

use super::blocker::MountedPart;
use super::subject::{Subject, name_of_number, same};
use crate::mountinfo::MountEntry;
use crate::{Host, block};

#[derive(Debug, Default)]
pub(super) struct Usage {
    pub(super) mounts: Vec<MountedPart>,
    pub(super) swaps: Vec<Utf8PathBuf>,
    pub(super) holders: Vec<String>,
    pub(super) arrays: Vec<String>,
    /// Why it is not known who uses it.
    pub(super) error: Option<String>,
}

impl Usage {
    pub(super) fn is_empty(&self) -> bool {
        self.mounts.is_empty() && self.swaps.is_empty() && self.holders.is_empty() && self.arrays.is_empty()
    }
}

/// What counts as the thing that is asked about.
#[derive(Debug, Default)]
struct UsageTarget {
    /// Kernel names.
    names: Vec<String>,
    files: Vec<Utf8PathBuf>,
}

/// Partitions of a disk are directories within its own that hold a file `partition`.
pub(super) fn partition_names(host: &Host, disk: &str) -> Vec<String> {
    let dir = Utf8PathBuf::from(format!("/sys/class/block/{disk}"));
    host.names(&dir).into_iter().filter(|name| host.exists(dir.join(name).join("partition"))).collect()
}

pub(super) fn usage(host: &Host, subject: &Subject) -> Usage {
    let mut usage = Usage::default();
    let mounts = host.mounts().unwrap_or_else(|error| {
        usage.error = Some(format!("/proc/self/mountinfo: {error}"));
        Vec::new()
    });
    let loops = Loops::read(host, mounts.clone());
    let things = UsageTarget::of(host, subject, &loops);
    let numbers: BTreeSet<String> = things
        .names
        .iter()
        .filter_map(|name| host.read(format!("/sys/class/block/{name}/dev")).ok())
        .collect();
    let ours = |m: &MountEntry| numbers.contains(&m.device_number) || things.has(Utf8Path::new(&m.source));
    let mounts = mounts.into_iter().filter(ours);
    usage.mounts = mounts.map(|m| MountedPart { source: m.source, target: m.target }).collect();
    let swaps = host.read("/proc/swaps").unwrap_or_default();
    let swap_files = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let swap_files = swap_files.map(Utf8PathBuf::from).filter(|file| things.has(file));
    usage.swaps = swap_files.collect();
    let built_on = |name: &String| host.names(format!("/sys/class/block/{name}/holders"));
    let mut holders: BTreeSet<String> = things.names.iter().flat_map(built_on).collect();
    // the kernel does not list loop devices among the holders of what they show
    holders.extend(loops.showing(host, &things));
    usage.holders = holders.into_iter().filter(|name| !things.names.contains(name)).collect();
    usage.arrays = arrays(&host.read("/proc/mdstat").unwrap_or_default(), &things.names);
    usage
}

impl UsageTarget {
    fn of(host: &Host, subject: &Subject, loops: &Loops) -> UsageTarget {
        let Some(name) = &subject.name else {
            return UsageTarget { names: Vec::new(), files: vec![subject.path.clone()] };
        };
        let mut things = UsageTarget::default();
        let mut next = Some(name.clone());
        while let Some(name) = next.take().filter(|name| !things.names.contains(name)) {
            let disk = block::disk_name(host, &name);
            things.names.extend(partition_names(host, &name));
            things.names.extend([name, disk.clone()]);
            match loops.below(host, &disk) {
                Some(Subject { name: Some(below), .. }) => next = Some(below),
                Some(Subject { path, name: None }) => things.files.push(path),
                None => {}
            }
        }
        things
    }

    /// Whether the path of a mount's source or of a swap space is one of these. Mounts are known by number too; Btrfs
    /// shows another one, and a file has none.
    fn has(&self, path: &Utf8Path) -> bool {
        if !path.is_absolute() {
            return false;
        }
        let resolved = path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
        resolved.strip_prefix("/dev").is_ok_and(|rest| self.names.iter().any(|name| rest == name))
            || self.files.contains(&resolved)
    }
}

/// The loop devices and what each shows.
struct Loops {
    shown: Vec<(String, Utf8PathBuf)>,
    mounts: Vec<MountEntry>,
}

impl Loops {
    fn read(host: &Host, mounts: Vec<MountEntry>) -> Loops {
        let shown = |name: String| {
            let file = host.read(format!("/sys/class/block/{name}/loop/backing_file")).ok()?;
            Some((name, Utf8PathBuf::from(file)))
        };
        Loops { shown: host.names("/sys/class/block").into_iter().filter_map(shown).collect(), mounts }
    }

    /// What the loop device `name` shows.
    fn below(&self, host: &Host, name: &str) -> Option<Subject> {
        let (_, path) = self.shown.iter().find(|(known, _)| known == name)?;
        Some(Subject { path: path.clone(), name: self.device_name(host, path) })
    }

    /// The loop devices that show one of these things.
    fn showing(&self, host: &Host, things: &UsageTarget) -> Vec<String> {
        let shows = |path: &Utf8PathBuf| match self.device_name(host, path) {
            Some(name) => things.names.contains(&name),
            None => things.files.iter().any(|file| file == path || (self.may_ask(path) && same(file, path))),
        };
        self.shown.iter().filter(|(_, path)| shows(path)).map(|(name, _)| name.clone()).collect()
    }

    fn device_name(&self, host: &Host, path: &Utf8Path) -> Option<String> {
        let name = path.strip_prefix("/dev").ok().map(|rest| rest.to_string());
        let known = name.filter(|name| host.exists(format!("/sys/class/block/{name}")));
        known.or_else(|| {
            let meta = if self.may_ask(path) { path.metadata().ok() } else { None };
            meta.filter(|meta| meta.file_type().is_block_device())
                .and_then(|meta| name_of_number(host, meta.rdev()))
        })
    }

    /// Whether asking the file system of `path` cannot hang: a daemon behind FUSE may not answer.
    fn may_ask(&self, path: &Utf8Path) -> bool {
        let holding = self.mounts.iter().filter(|m| path.starts_with(&m.target));
        let nearest = holding.max_by_key(|m| m.target.as_str().len());
        !nearest.is_some_and(|m| m.fs_type.starts_with("fuse"))
    }
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

#[cfg(test)]
mod tests;
