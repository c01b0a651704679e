//! The report on a device or file that the user sees before anything is erased.

use std::fmt;

use camino::Utf8PathBuf;
use serde::Serialize;

use super::blocker::{Blocker, MountedPart};
use super::signatures::Signature;
use crate::bytes::human;

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

impl DeviceReport {
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

#[cfg(test)]
mod tests;
