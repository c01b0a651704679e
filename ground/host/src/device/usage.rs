//! Who uses a device or a file.
//!
//! Looked at are the thing itself, its partitions, the disk it is a partition of, and what lies below it when it is a loop
//! device: another device, or a file. Whatever is mounted, swapped to or built upon any of these uses it.

use std::collections::BTreeSet;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};

use super::blocker::{Blocker, MountedPart};
use super::loops::Loops;
use super::subject::{Located, Subject};
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

/// Who uses what is at `path`, as far as mounts, swap space, devices and arrays tell. A loop device that shows it does not do
/// so by itself.
pub fn uses(host: &Host, path: &Path) -> Vec<Blocker> {
    let located = Utf8Path::from_path(path).and_then(|path| Located::of(host, path).ok());
    located.map(|located| uses_of(host, &located.subject)).unwrap_or_default()
}

pub(super) fn uses_of(host: &Host, subject: &Subject) -> Vec<Blocker> {
    let Usage { mounts, swaps, mut holders, arrays, .. } = usage(host, subject);
    holders.retain(|name| !is_loop(host, name));
    let mounts = mounts.into_iter().map(Blocker::Mounted);
    let swaps = swaps.into_iter().map(Blocker::Swap);
    let devices = holders.into_iter().map(Blocker::Held).chain(arrays.into_iter().map(Blocker::Array));
    mounts.chain(swaps).chain(devices).collect()
}

/// Whether the device of that name is a loop device.
pub(super) fn is_loop(host: &Host, name: &str) -> bool {
    host.exists(format!("/sys/class/block/{name}/loop"))
}

/// What counts as the thing that is asked about.
#[derive(Debug, Default)]
struct UsageTarget {
    /// Kernel names.
    names: Vec<String>,
    files: Vec<Subject>,
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
    let ours =
        |m: &MountEntry| numbers.contains(&m.device_number) || things.has(Utf8Path::new(&m.source), &loops);
    let mounts = mounts.into_iter().filter(ours);
    usage.mounts = mounts.map(|m| MountedPart { source: m.source, target: m.target }).collect();
    let swaps = host.read("/proc/swaps").unwrap_or_default();
    let swap_files = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let swap_files = swap_files.map(Utf8PathBuf::from).filter(|file| things.has(file, &loops));
    usage.swaps = swap_files.collect();
    let built_on = |name: &String| host.names(format!("/sys/class/block/{name}/holders"));
    let mut holders: BTreeSet<String> = things.names.iter().flat_map(built_on).collect();
    // the kernel does not list loop devices among the holders of what they show
    holders.extend(loops.showing(&things.names, &things.files));
    usage.holders = holders.into_iter().filter(|name| !things.names.contains(name)).collect();
    usage.arrays = arrays(&host.read("/proc/mdstat").unwrap_or_default(), &things.names);
    usage
}

impl UsageTarget {
    fn of(host: &Host, subject: &Subject, loops: &Loops) -> UsageTarget {
        let Some(name) = &subject.name else {
            return UsageTarget { names: Vec::new(), files: vec![subject.clone()] };
        };
        let mut things = UsageTarget::default();
        let mut next = Some(name.clone());
        while let Some(name) = next.take().filter(|name| !things.names.contains(name)) {
            let disk = block::disk_name(host, &name);
            things.names.extend(block::partition_names(host, &name));
            things.names.extend([name, disk.clone()]);
            match loops.below(&disk) {
                Some(Subject { name: Some(below), .. }) => next = Some(below),
                Some(file) => things.files.push(file),
                None => {}
            }
        }
        things
    }

    /// Whether the path of a mount's source or of a swap space is one of these. Mounts are known by number too; Btrfs
    /// shows another one, and a file has none.
    fn has(&self, path: &Utf8Path, loops: &Loops) -> bool {
        if !path.is_absolute() {
            return false;
        }
        let resolved =
            Some(path).filter(|path| loops.may_ask(path)).and_then(|path| path.canonicalize_utf8().ok());
        let resolved = resolved.unwrap_or_else(|| path.to_owned());
        resolved.strip_prefix("/dev").is_ok_and(|rest| self.names.iter().any(|name| rest == name))
            || self.files.iter().any(|file| file.path == resolved)
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
