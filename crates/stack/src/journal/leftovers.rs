//! Journals of runs that died.

use std::fmt;

use camino::{Utf8Path, Utf8PathBuf};

use super::file::{Contents, EXTENSION, Header, JournalFile};
use super::{JournalError, Outcome, Resource, UndoReport, undo};
use crate::Host;

/// Why a journal's owner counts as dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyDead {
    /// No process has its number, or a younger one has it.
    ProcessGone,
    /// The machine was started again since.
    Rebooted,
}

/// The journal of a run that died before taking down what it had made.
#[derive(Debug, Clone)]
pub struct Leftover {
    /// The journal's file.
    pub path: Utf8PathBuf,
    /// The run's name; empty when the file cannot be read.
    pub run_id: String,
    /// The owner's process number; 0 when the file cannot be read.
    pub pid: u32,
    /// Why the owner counts as dead.
    pub why: WhyDead,
    /// What it had made, in the order of making. Each is verified before it is undone.
    pub resources: Vec<Resource>,
    /// What is wrong with the file, if anything.
    pub damage: Option<String>,
    host: Host,
}

pub(super) fn find(host: &Host, dir: &Utf8Path) -> Result<Vec<Leftover>, JournalError> {
    let entries = match dir.read_dir_utf8() {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(JournalError::Io { path: dir.to_owned(), source }),
    };
    let mut paths: Vec<Utf8PathBuf> = entries
        .flatten()
        .map(|entry| entry.into_path())
        .filter(|path| path.extension() == Some(EXTENSION))
        .collect();
    paths.sort();
    Ok(paths.into_iter().filter_map(|path| examine(host, path)).collect())
}

/// `None` when the owner lives, or has just taken its file away.
fn examine(host: &Host, path: Utf8PathBuf) -> Option<Leftover> {
    match Contents::read(&path) {
        Ok(contents) => Some(Leftover {
            why: why_dead(host, &contents.header)?,
            run_id: contents.header.run_id.clone(),
            pid: contents.header.owner.pid,
            damage: damage(&contents),
            resources: contents.open.into_values().collect(),
            path,
            host: host.clone(),
        }),
        Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => Some(Leftover {
            path,
            run_id: String::new(),
            pid: 0,
            why: WhyDead::ProcessGone,
            resources: Vec::new(),
            damage: Some(error.to_string()),
            host: host.clone(),
        }),
    }
}

fn why_dead(host: &Host, header: &Header) -> Option<WhyDead> {
    if header.boot_id != host.boot_id() {
        Some(WhyDead::Rebooted)
    } else if !header.owner.is_alive(host) {
        Some(WhyDead::ProcessGone)
    } else {
        None
    }
}

fn damage(contents: &Contents) -> Option<String> {
    let lines: Vec<String> = contents.unreadable_lines.iter().map(usize::to_string).collect();
    (!lines.is_empty()).then(|| format!("line {} cannot be read", lines.join(", ")))
}

impl Leftover {
    /// Undoes what the dead run had made, newest first, and removes its journal if nothing failed. Safe to
    /// call from two processes at once: the second one does nothing.
    pub fn clean(&self) -> Result<UndoReport, JournalError> {
        let mut report = UndoReport::default();
        let Some((mut file, contents)) = JournalFile::take_over(&self.path)? else { return Ok(report) };
        // asked again under the lock, about the file as it is now
        let Some(why) = why_dead(&self.host, &contents.header) else { return Ok(report) };
        for (id, resource) in contents.open.iter().rev() {
            let gone = why == WhyDead::Rebooted && resource.dies_with_the_boot();
            let outcome = if gone { Outcome::AlreadyGone } else { undo::undo(&self.host, resource) };
            if outcome.is_final() {
                file.done(*id)?;
            }
            report.push(resource.clone(), outcome);
        }
        if !report.has_failures() && contents.unreadable_lines.is_empty() {
            file.remove()?;
        }
        Ok(report)
    }
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            WhyDead::Rebooted => write!(f, "run `{}` was cut off by a reboot", self.run_id)?,
            WhyDead::ProcessGone => write!(f, "run `{}` (process {}) died", self.run_id, self.pid)?,
        }
        match self.resources.len() {
            0 => write!(f, " and left nothing but {}", self.path)?,
            _ => write!(f, " and left ({}):", self.path)?,
        }
        self.resources.iter().try_for_each(|resource| write!(f, "\n  {resource}"))?;
        match &self.damage {
            Some(damage) => write!(f, "\n  damaged: {damage}; look at the file and remove it by hand"),
            None => Ok(()),
        }
    }
}
