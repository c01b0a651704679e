//! The report on a device or file that the user sees before anything is erased.

use std::fmt;
use std::fs::File;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use super::blank;
use super::decision::{Consent, may_overwrite};
use super::hold::hold;
use super::refusal::{Blocker, EraseRefused};
use super::signatures::{self, Signature};
use super::subject::Subject;
use super::usage::{partition_names, usage};
use crate::bytes::human;
use crate::runner::Runner;
use crate::{Host, block};

/// What loadline found on a block device, or in a file that is to become one, and around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceReport {
    /// The device node or file, symbolic links resolved.
    pub path: Utf8PathBuf,
    /// Whether it is a file.
    pub is_file: bool,
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
    /// Whether it is all zeros: a file in full, a device at its ends and at places in between; absent when it cannot
    /// be read.
    pub blank: Option<bool>,
    /// Its partitions.
    pub partitions: Vec<Partition>,
    /// Where it or a part of it is mounted.
    pub mounts: Vec<MountedPart>,
    /// Those of its parts (or itself) that are swap space in use.
    pub swaps: Vec<Utf8PathBuf>,
    /// Devices built on top of it or its parts (device mapper, md, bcache, loop), by name.
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
    /// Looks at the device or file; changes nothing. Needs the right to read it.
    ///
    /// # Errors
    /// [`EraseRefused::NotADevice`].
    pub fn inspect(host: &Host, runner: &dyn Runner, path: &Utf8Path) -> Result<Self, EraseRefused> {
        let subject = Subject::of(host, path)?;
        let held = hold(subject.path.as_std_path());
        Ok(Self::look(host, runner, &subject, &held))
    }

    /// Looks at `subject`, which is held if it can be.
    pub(super) fn look(
        host: &Host,
        runner: &dyn Runner,
        subject: &Subject,
        held: &io::Result<Option<File>>,
    ) -> Self {
        let path = subject.path.clone();
        let mut unreadable = None;
        let mut signatures_of = |path: &Utf8Path| {
            signatures::probe(runner, path).unwrap_or_else(|why| {
                unreadable.get_or_insert(why);
                Vec::new()
            })
        };
        let part = |part: String| {
            let path = Utf8PathBuf::from(format!("/dev/{part}"));
            let signatures = signatures_of(&path);
            Partition { size_bytes: block::size_bytes(host, &part).unwrap_or(0), path, signatures }
        };
        let disk = subject.name.as_deref();
        let partitions: Vec<Partition> =
            disk.map(|name| partition_names(host, name)).unwrap_or_default().into_iter().map(part).collect();
        let signatures = signatures_of(&path);
        let size_bytes = match disk {
            Some(name) => block::size_bytes(host, name).unwrap_or(0),
            None => path.metadata().map_or(0, |meta| meta.len()),
        };
        let blank = match disk {
            Some(_) => blank::device_is_blank(&path, size_bytes),
            None => blank::file_is_blank(&path),
        };
        let usage = usage(host, subject);
        Self {
            is_file: disk.is_none(),
            size_bytes,
            model: disk.and_then(|name| block::model(host, &block::disk_name(host, name))),
            read_only: disk.is_some_and(|name| {
                host.read(format!("/sys/class/block/{name}/ro")).is_ok_and(|ro| ro == "1")
            }),
            signatures,
            unreadable: usage.error.or(unreadable),
            blank: blank.ok(),
            partitions,
            mounts: usage.mounts,
            swaps: usage.swaps,
            holders: usage.holders,
            arrays: usage.arrays,
            exclusive_open_error: exclusive_open_error(held),
            path,
        }
    }

    /// What forbids overwriting it, whatever the user says.
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
        !self.signatures.is_empty() || !self.partitions.is_empty() || self.blank != Some(true)
    }

    /// Decides whether it may be formatted by something that `--erase` must name: see [`may_overwrite`].
    ///
    /// # Errors
    /// As [`may_overwrite`].
    pub fn check_erase(&self, erase: Option<&Utf8Path>) -> Result<(), EraseRefused> {
        may_overwrite(self, Consent::Named(erase))
    }
}

impl fmt::Display for DeviceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = self.model.as_deref().unwrap_or(if self.is_file { "a file" } else { "no model name" });
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
        match self.blank {
            _ if !self.signatures.is_empty() || !self.partitions.is_empty() => {}
            Some(true) => write!(f, "\n  holds        no known signature; it is blank")?,
            Some(false) => write!(f, "\n  holds        no known signature, but it is not blank")?,
            None => write!(f, "\n  holds        no known signature; it cannot be read")?,
        }
        self.blockers().iter().try_for_each(|blocker| write!(f, "\n  in the way   {blocker}"))
    }
}

/// Why it cannot be claimed, if so (open(2), O_EXCL; flock(2)).
fn exclusive_open_error(held: &io::Result<Option<File>>) -> Option<String> {
    match held {
        Ok(Some(_)) => None,
        Ok(None) => Some("another program has claimed it".into()),
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
