//! Loop devices, and what shows the same bytes by way of them.

use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use camino::{Utf8Path, Utf8PathBuf};

use super::subject::{Subject, name_of_number, same};
use crate::mountinfo::MountEntry;
use crate::{Host, block};

/// The loop devices and what each shows.
pub(super) struct Loops {
    shown: Vec<(String, Utf8PathBuf)>,
    mounts: Vec<MountEntry>,
}

impl Loops {
    pub(super) fn read(host: &Host, mounts: Vec<MountEntry>) -> Loops {
        let shown = |name: String| {
            let file = host.read(format!("/sys/class/block/{name}/loop/backing_file")).ok()?;
            Some((name, Utf8PathBuf::from(file)))
        };
        Loops { shown: host.names("/sys/class/block").into_iter().filter_map(shown).collect(), mounts }
    }

    /// What the loop device `name` shows.
    pub(super) fn below(&self, host: &Host, name: &str) -> Option<Subject> {
        let (_, path) = self.shown.iter().find(|(known, _)| known == name)?;
        Some(Subject { path: path.clone(), name: self.device_name(host, path) })
    }

    /// The loop devices that show one of these devices and files.
    pub(super) fn showing(&self, host: &Host, names: &[String], files: &[Utf8PathBuf]) -> Vec<String> {
        let shows = |path: &Utf8PathBuf| match self.device_name(host, path) {
            Some(name) => names.contains(&name),
            None => files.iter().any(|file| self.is_same_file(file, path)),
        };
        self.shown.iter().filter(|(_, path)| shows(path)).map(|(name, _)| name.clone()).collect()
    }

    /// What holds bytes of `subject` too: what lies below it, and loop devices that show some of the same bytes. Its own
    /// disk and the disk's other partitions are none of these.
    pub(super) fn sharing(&self, host: &Host, subject: &Subject) -> Vec<Subject> {
        let own = self.origin(host, subject.clone());
        let disks: Vec<String> =
            own.way.iter().filter_map(|s| Some(block::disk_name(host, s.name.as_ref()?))).collect();
        let device = |name: String| Subject { path: format!("/dev/{name}").into(), name: Some(name) };
        let shares = |other: &Subject| {
            let other = self.origin(host, other.clone());
            let is_same = match (&own.lowest, &other.lowest) {
                (Subject { name: None, path: one }, Subject { name: None, path: other }) => {
                    self.is_same_file(one, other)
                }
                (one, other) => one.name == other.name,
            };
            is_same && own.bytes.start < other.bytes.end && other.bytes.start < own.bytes.end
        };
        let mut sharing: Vec<Subject> = own.way.iter().skip(1).cloned().collect();
        for (disk, _) in self.shown.iter().filter(|(name, _)| !disks.contains(name)) {
            // whoever has the disk has its partitions; another partition that is in use makes the disk look so
            let parts = block::partition_names(host, disk).into_iter().map(device);
            let parts: Vec<Subject> = parts.filter(shares).collect();
            let whole = Some(device(disk.clone())).filter(|disk| parts.is_empty() && shares(disk));
            sharing.extend(parts.into_iter().chain(whole));
        }
        sharing
    }

    fn origin(&self, host: &Host, subject: Subject) -> Origin {
        let offset =
            |disk: &str| host.read(format!("/sys/class/block/{disk}/loop/offset")).ok()?.parse().ok();
        let (mut way, mut lowest, mut bytes) = (vec![subject.clone()], subject, 0..u64::MAX);
        // a table that was read while it changed may go round in a circle
        while let Some(name) = lowest.name.clone()
            && way.len() <= self.shown.len() + 1
        {
            bytes.end = bytes.end.min(block::size_bytes(host, &name).unwrap_or(u64::MAX));
            let disk = block::disk_name(host, &name);
            // only a partition begins anywhere
            let begin = block::sectors(host, &name, "start").unwrap_or(0);
            let shift = begin.saturating_add(offset(&disk).unwrap_or(0));
            bytes = bytes.start.saturating_add(shift)..bytes.end.saturating_add(shift);
            let below = self.below(host, &disk);
            let Some(below) = below else {
                lowest.name = Some(disk);
                break;
            };
            way.push(below.clone());
            lowest = below;
        }
        Origin { way, lowest, bytes }
    }

    fn is_same_file(&self, one: &Utf8Path, shown: &Utf8Path) -> bool {
        one == shown || (self.may_ask(shown) && same(one, shown))
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

/// Where the bytes of a device or file are in the end.
struct Origin {
    /// The thing itself, and what lies below it, as far as loop devices lead.
    way: Vec<Subject>,
    /// A file or a whole disk.
    lowest: Subject,
    /// Which bytes of that.
    bytes: Range<u64>,
}

#[cfg(test)]
mod tests;
