//! Loop devices, and what shows the same bytes by way of them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};

use super::subject::{Subject, is_same_file, name_of_number};
use crate::mountinfo::MountEntry;
use crate::{Host, block, loopdev};

/// The loop devices and what each shows.
pub(super) struct Loops {
    shown: Vec<(String, Subject)>,
    mounts: Vec<MountEntry>,
}

impl Loops {
    pub(super) fn read(host: &Host, mounts: Vec<MountEntry>) -> Loops {
        let mut loops = Loops { shown: Vec::new(), mounts };
        for name in host.names("/sys/class/block") {
            let file = std::fs::read(host.path(format!("/sys/class/block/{name}/loop/backing_file")));
            let Ok(mut file) = file else { continue };
            file.pop_if(|last| *last == b'\n');
            let below = loops.named(host, &name, file);
            loops.shown.push((name, below));
        }
        loops
    }

    /// What the loop device `name` shows, which calls it `file`. Its numbers decide, which it tells itself; where it cannot
    /// be asked the name does.
    fn named(&self, host: &Host, name: &str, file: Vec<u8>) -> Subject {
        // a name that is not UTF-8 is only shown, and leads nowhere
        let path = Utf8PathBuf::from_path_buf(PathBuf::from(std::ffi::OsString::from_vec(file)))
            .unwrap_or_else(|path| path.to_string_lossy().into_owned().into());
        let mut below = Subject { path, name: None, id: None };
        if self.may_ask(&below.path)
            && let Ok(shown) = loopdev::shown(host, Utf8Path::new(&format!("/dev/{name}")))
        {
            below.name = shown.rdevice.and_then(|number| name_of_number(host, number));
            below.id = below.name.is_none().then_some((shown.device, shown.inode));
            return below;
        }
        let device = below.path.strip_prefix("/dev").ok().map(|rest| rest.to_string());
        below.name = device.filter(|name| host.exists(format!("/sys/class/block/{name}")));
        if below.name.is_none()
            && self.may_ask(&below.path)
            && let Ok(meta) = below.path.metadata()
        {
            let is_block = meta.file_type().is_block_device();
            below.name = is_block.then(|| name_of_number(host, meta.rdev())).flatten();
            below.id = (!is_block).then_some((meta.dev(), meta.ino()));
        }
        below
    }

    /// What the loop device `name` shows.
    pub(super) fn below(&self, name: &str) -> Option<Subject> {
        self.shown.iter().find(|(known, _)| known == name).map(|(_, below)| below.clone())
    }

    /// The loop devices that show one of these devices and files.
    pub(super) fn showing(&self, names: &[String], files: &[Subject]) -> Vec<String> {
        let shows = |below: &Subject| match &below.name {
            Some(name) => names.contains(name),
            None => files.iter().any(|file| is_same_file(file, below)),
        };
        self.shown.iter().filter(|(_, below)| shows(below)).map(|(name, _)| name.clone()).collect()
    }

    /// What holds bytes of `subject` too: what lies below it, and loop devices that show some of the same bytes. Its own
    /// disk and the disk's other partitions are none of these.
    pub(super) fn sharing(&self, host: &Host, subject: &Subject) -> Vec<Subject> {
        let own = self.origin(host, subject.clone());
        let disks: Vec<String> =
            own.way.iter().filter_map(|s| Some(block::disk_name(host, s.name.as_ref()?))).collect();
        let shares = |other: &Subject| own.shares(&self.origin(host, other.clone()));
        let mut sharing: Vec<Subject> = own.way.iter().skip(1).cloned().collect();
        for (disk, _) in self.shown.iter().filter(|(name, _)| !disks.contains(name)) {
            // whoever has the disk has its partitions; another partition that is in use makes the disk look so
            let parts = block::partition_names(host, disk).into_iter().map(Subject::device);
            let parts: Vec<Subject> = parts.filter(shares).collect();
            let whole = Some(Subject::device(disk.clone())).filter(|disk| parts.is_empty() && shares(disk));
            sharing.extend(parts.into_iter().chain(whole));
        }
        sharing
    }

    /// Which devices can be claimed together with `subject`, of those that [`Loops::sharing`] finds: the disk of each, if that
    /// shows no other bytes; else the device itself, unless it would be in the way of somebody who claims a device with none
    /// of the subject's bytes.
    pub(super) fn to_hold(&self, host: &Host, subject: &Subject, sharing: &[Subject]) -> BTreeSet<String> {
        let own = self.origin(host, subject.clone());
        let disk = |name: &str| block::disk_name(host, name);
        let origin = |name: &str| self.origin(host, Subject::device(name.to_owned()));
        let shows_no_more = |name: &str| own.contains(&origin(name));
        let names = sharing.iter().filter_map(|other| other.name.as_deref());
        let (whole, parts): (Vec<&str>, Vec<&str>) = names.partition(|name| shows_no_more(&disk(name)));
        let mut held: BTreeSet<String> = whole.into_iter().map(disk).collect();
        if parts.is_empty() {
            return held;
        }
        let disks = own.way.iter().filter_map(|s| s.name.as_deref()).map(disk);
        let disks: BTreeSet<String> = disks.chain(self.shown.iter().map(|(name, _)| name.clone())).collect();
        let devices = disks.iter().flat_map(|disk| {
            let parts = block::partition_names(host, disk).into_iter();
            parts.chain([disk.clone()])
        });
        let beside = devices.filter(|name| own.is_beside(&origin(name))).map(Subject::device);
        // what is asked by whoever claims one of these
        let asked: BTreeSet<String> = beside
            .flat_map(|beside| self.sharing(host, &beside).into_iter().chain([beside]))
            .filter_map(|asked| asked.name)
            .collect();
        // a partition that is claimed is in the way of its disk, and the other way round
        let is_free = |name: &&str| {
            !asked.iter().any(|asked| asked == name || disk(asked) == *name || *asked == disk(name))
        };
        held.extend(parts.into_iter().filter(is_free).map(str::to_owned));
        held
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
            let below = self.below(&disk);
            let Some(below) = below else {
                lowest.name = Some(disk);
                break;
            };
            way.push(below.clone());
            lowest = below;
        }
        Origin { way, lowest, bytes }
    }

    /// Whether asking the file system of `path` cannot hang: a daemon behind FUSE or another machine may not answer.
    pub(super) fn may_ask(&self, path: &Utf8Path) -> bool {
        let holding = self.mounts.iter().filter(|m| path.starts_with(&m.target));
        let nearest = holding.max_by_key(|m| m.target.as_str().len());
        let far = ["fuse", "nfs", "cifs", "smb", "9p", "ceph", "afs"];
        !nearest.is_some_and(|m| far.iter().any(|kind| m.fs_type.starts_with(kind)))
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

impl Origin {
    fn has_same_lowest(&self, other: &Origin) -> bool {
        match (&self.lowest, &other.lowest) {
            (one @ Subject { name: None, .. }, other @ Subject { name: None, .. }) => {
                is_same_file(one, other)
            }
            (one, other) => one.name == other.name,
        }
    }

    fn overlaps(&self, other: &Origin) -> bool {
        self.bytes.start < other.bytes.end && other.bytes.start < self.bytes.end
    }

    /// Whether both show some of the same bytes.
    fn shares(&self, other: &Origin) -> bool {
        self.has_same_lowest(other) && self.overlaps(other)
    }

    /// Whether both show the same thing, and no byte of it both.
    fn is_beside(&self, other: &Origin) -> bool {
        self.has_same_lowest(other) && !self.overlaps(other)
    }

    /// Whether the other one shows nothing but what this one does.
    fn contains(&self, other: &Origin) -> bool {
        let (own, other_bytes) = (&self.bytes, &other.bytes);
        self.has_same_lowest(other) && own.start <= other_bytes.start && other_bytes.end <= own.end
    }
}

#[cfg(test)]
mod tests;
