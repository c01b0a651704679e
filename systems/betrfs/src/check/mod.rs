//! Checking and repairing a file system that is not mounted: first the store, then what this layer put into it.
//!
//! `survey` reads every key once; `rules` finds what is wrong and says how to repair it. What no name leads to goes
//! to `lost+found`; data that belongs to nobody is removed.

mod rules;
mod survey;

use betree::{Db, Finding, FsckOptions, FsckReport, KeyRange, Severity, Storage};

use crate::error::Result;
use crate::overlay::Overlay;
use rules::Rules;
use survey::Survey;

/// What a check found and did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// The store's own report.
    pub store: FsckReport,
    /// What is wrong with files and directories.
    pub findings: Vec<Finding>,
    /// The findings were repaired.
    pub repaired: bool,
    /// Directories that were found.
    pub directories: u64,
    /// Files that were found, each once.
    pub files: u64,
    /// Blocks of data.
    pub blocks: u64,
}

impl CheckReport {
    /// True if there is no damage, or all was repaired. Warnings, such as space of nobody or a count that is too high
    /// after a power cut on a full device, are none.
    pub fn is_clean(&self) -> bool {
        let sound = |f: &Finding| f.severity < Severity::Error;
        self.store_is_sound() && (self.repaired || self.findings.iter().all(sound))
    }

    /// Warnings of the store are what cannot be told from a power cut.
    fn store_is_sound(&self) -> bool {
        self.store.is_clean() || self.store.worst() < Some(Severity::Error)
    }
}

impl std::fmt::Display for CheckReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.store)?;
        for finding in &self.findings {
            let mark = match finding.severity {
                Severity::Note => "note",
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            writeln!(f, "{mark}: {}", finding.what)?;
        }
        let verdict = match (self.repaired, self.is_clean()) {
            (true, true) => "repaired",
            (_, true) => "clean",
            _ => "not clean",
        };
        let CheckReport { directories, files, blocks, .. } = self;
        writeln!(f, "{directories} directories, {files} files, {blocks} blocks of data: {verdict}")
    }
}

/// Checks the file system on `storage`; nothing else may have it open. With `repair` what can be repaired is;
/// without, nothing is written.
///
/// # Errors
/// Those of the store when it cannot be read at all; [`crate::Error::Corrupt`] if it holds no file system.
pub fn check(storage: impl Storage + Clone + 'static, repair: bool) -> Result<CheckReport> {
    let store = betree::fsck(storage.clone(), FsckOptions { repair })?;
    let mut report = CheckReport { store, ..CheckReport::default() };
    if !report.store_is_sound() {
        return Ok(report);
    }
    let options = betree::Options::default();
    let db = if repair { Db::open(storage, options)? } else { Db::open(Overlay::new(storage), options)? };
    let mut rules = Rules::new(Survey::take(&db)?);
    rules.apply();
    (report.directories, report.files, report.blocks) = rules.counts();
    (report.findings, report.repaired) = (rules.findings, false);
    if repair && !rules.fixes.is_empty() {
        db.write(rules.fixes)?;
        report.repaired = true;
    }
    db.close()?;
    Ok(report)
}

/// Writes a line for each key, in the store's order: the file system's own view of it. Nothing is changed.
///
/// # Errors
/// The store's. A failure of `out` ends the dump.
pub fn dump(storage: impl Storage + 'static, out: &mut dyn std::io::Write) -> Result<()> {
    let options = betree::Options { recover: true, ..betree::Options::default() };
    let db = Db::open(Overlay::new(storage), options)?;
    for item in db.scan(&KeyRange::all()) {
        let (key, value) = item?;
        if writeln!(out, "{}", survey::describe(&key, &value)).is_err() {
            break;
        }
    }
    Ok(())
}
