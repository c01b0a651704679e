//! What a check of a store found, in types and in words.

use super::Loss;
use crate::key::{End, KeyRange};
use std::fmt;

/// What [`super::fsck`] may do.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsckOptions {
    /// Write to the storage to repair what is found. Without it nothing is written.
    pub repair: bool,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// To be expected after a power cut; opening the store sets it right.
    Note,
    /// No data of the newest durable state is concerned, or it cannot be told from a power cut.
    Warning,
    /// Damage.
    Error,
}

/// One thing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is, and where.
    pub what: String,
}

/// How a key is concerned by damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// The value, if there was one, is gone; after a repair the key does not exist.
    Gone,
    /// Pending changes are gone: after a repair the key may have an older value, or none.
    Doubtful,
}

/// Keys that damage concerns. Not every key in the range need have existed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostKeys {
    /// The keys.
    pub range: KeyRange,
    /// How they are concerned.
    pub kind: LossKind,
}

/// What [`super::fsck`] found and did. `Display` gives it line by line.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FsckReport {
    /// Everything found before a repair.
    pub findings: Vec<Finding>,
    /// Keys that a repair lost, or without `repair` would lose; disjoint for each kind, in key order.
    pub lost: Vec<LostKeys>,
    /// The store was repaired, and a second check found nothing.
    pub repaired: bool,
    /// What a repair left behind; empty unless something cannot be repaired.
    pub remaining: Vec<Finding>,
    /// Checkpoint that counts, after a repair the new one.
    pub generation: u64,
    /// Number of the last batch in the store.
    pub last_msn: u64,
    /// Nodes read.
    pub nodes: usize,
    /// Extents read.
    pub extents: usize,
    /// Bytes of nodes and extents read.
    pub bytes: u64,
    /// Key-value pairs and messages in nodes.
    pub entries: u64,
    /// Frames in the log after the checkpoint.
    pub log_frames: usize,
    /// Batches in the log after the checkpoint.
    pub log_batches: usize,
}

impl FsckReport {
    pub(super) fn add(&mut self, severity: Severity, what: String) {
        self.findings.push(Finding { severity, what });
    }

    pub(super) fn lose(&mut self, loss: &Loss) {
        let lost = |range, kind| LostKeys { range, kind };
        self.lost.extend(loss.gone.iter().map(|r| lost(r, LossKind::Gone)));
        self.lost.extend(loss.doubtful.iter().map(|r| lost(r, LossKind::Doubtful)));
    }

    /// The worst thing found; `None` for a store without any finding.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|f| f.severity).max()
    }

    /// True if there is nothing to repair, or it has been repaired. A torn log tail counts as nothing.
    pub fn is_clean(&self) -> bool {
        self.repaired || self.worst().is_none_or(|s| s == Severity::Note)
    }
}

/// A range as text: printable ASCII as it is, the rest escaped.
pub(crate) fn show_range(range: &KeyRange) -> String {
    let lo = range.lo.escape_ascii();
    match &range.hi {
        End::At(hi) if *hi == KeyRange::one(&range.lo).upper() => format!("\"{lo}\""),
        End::At(hi) => format!("\"{lo}\" up to \"{}\"", hi.escape_ascii()),
        End::Open => format!("\"{lo}\" to the end"),
    }
}

impl fmt::Display for FsckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, finding: &Finding| {
            let mark = match finding.severity {
                Severity::Note => "note",
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            writeln!(f, "{mark}: {}", finding.what)
        };
        self.findings.iter().try_for_each(|x| line(f, x))?;
        for l in &self.lost {
            let what = match l.kind {
                LossKind::Gone => "lost",
                LossKind::Doubtful => "doubtful",
            };
            writeln!(f, "{what}: {}", show_range(&l.range))?;
        }
        if !self.remaining.is_empty() {
            writeln!(f, "after the repair:")?;
            self.remaining.iter().try_for_each(|x| line(f, x))?;
        }
        writeln!(
            f,
            "checkpoint {}, last batch {}: {} nodes, {} extents, {} bytes, {} entries; log: {} frames, {} batches",
            self.generation,
            self.last_msn,
            self.nodes,
            self.extents,
            self.bytes,
            self.entries,
            self.log_frames,
            self.log_batches
        )?;
        let verdict = match (self.repaired, self.worst()) {
            (true, _) => "repaired",
            (false, _) if !self.remaining.is_empty() => "not all could be repaired",
            (false, None) => "clean",
            (false, Some(Severity::Note)) => "clean after a power cut",
            (false, Some(Severity::Warning)) => "repair advised",
            (false, Some(Severity::Error)) => "damaged",
        };
        writeln!(f, "{verdict}")
    }
}
