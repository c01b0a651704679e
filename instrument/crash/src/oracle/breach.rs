//! What can be wrong, and which operations it is judged by.

use std::fmt;

/// Kinds of breaches, worst first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The file system does not mount.
    #[default]
    Unmountable,
    /// The checker finds damage that the journal's replay has not repaired.
    Damaged,
    /// A file or directory cannot be read.
    Unreadable,
    /// Bytes that were never written to this place of this file.
    Stale,
    /// A rename or replacement is half done.
    NotAtomic,
    /// A later operation is there and an earlier one is not.
    NoPrefix,
    /// Something synced is missing or old.
    Lost,
    /// A name that was never made.
    Strange,
    /// The checker of a user's program rejects it.
    Rejected,
    /// That checker does not end in time.
    Hung,
}

impl Kind {
    /// In a few words.
    pub fn what(self) -> &'static str {
        match self {
            Kind::Unmountable => "does not mount",
            Kind::Damaged => "is damaged (the checker finds errors after the journal's replay)",
            Kind::Unreadable => "has unreadable files",
            Kind::Stale => "exposes bytes that were never written there",
            Kind::NotAtomic => "shows a rename half done",
            Kind::NoPrefix => "shows a later operation without an earlier one",
            Kind::Lost => "has lost synced data",
            Kind::Strange => "has names that were never made",
            Kind::Rejected => "is rejected by the program's checker",
            Kind::Hung => "makes the program's checker hang",
        }
    }
}

/// Patterns of breaches that some file systems are known to show. What counts as known of which is decided by
/// [`Weakness::of`]; docs/crash.md has a shell recipe for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weakness {
    /// A file renamed into another directory is at both names after an fsync of the new directory.
    BothNames,
    /// A name that was synced and then removed, without a sync, shows the older file that was there before.
    OlderFile,
    /// Where nothing was synced, a block that was written since the last sync which returned holds what lay in free space.
    StaleUnsynced,
}

impl Weakness {
    /// The known weaknesses of a file system. btrfs logs an fsync apart from its transaction (the log tree),
    /// so that a crash between two transactions brings back a mixture of both; ext4 and xfs replay one
    /// sequence of changes. f2fs sends an fsync's data and the node that points to them without a flush between.
    pub fn of(fs: spec::FsKind) -> &'static [Weakness] {
        match fs {
            spec::FsKind::Btrfs => &[Weakness::BothNames, Weakness::OlderFile],
            spec::FsKind::F2fs => &[Weakness::StaleUnsynced],
            _ => &[],
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// What kind of thing.
    pub kind: Kind,
    /// Where and how.
    pub detail: String,
    /// The pattern that it follows, if it is one of those.
    pub weakness: Option<Weakness>,
}

impl Breach {
    /// A breach.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Breach {
        Breach { kind, detail: detail.into(), weakness: None }
    }

    pub(super) fn known(self, weakness: Weakness) -> Breach {
        Breach { weakness: Some(weakness), ..self }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.detail)
    }
}

/// Which operations count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Syncs before this one count: what they cover must be there.
    pub must: usize,
    /// Operations before this one may have left something.
    pub may: usize,
}
