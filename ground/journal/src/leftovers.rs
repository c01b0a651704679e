//! Journals of runs that died.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::file::{Contents, EXTENSION, Header, JournalFile};
use crate::folder::{Disk, Folder};
use host::wait::wait_until;

use crate::{JournalError, Outcome, Resource, UndoReport, undo};
use host::Host;

/// How long a process that is dead, as far as is seen here, may hold the lock before it counts as alive elsewhere.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

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
    folder: Arc<dyn Folder>,
}

pub(crate) fn find(host: &Host, dir: &Utf8Path) -> Result<Vec<Leftover>, JournalError> {
    let Some(folder) = Disk::open(dir)? else { return Ok(Vec::new()) };
    find_in(host, &(Arc::new(folder) as Arc<dyn Folder>))
}

/// One journal that cannot be read does not hide the others.
pub(crate) fn find_in(host: &Host, folder: &Arc<dyn Folder>) -> Result<Vec<Leftover>, JournalError> {
    let names =
        folder.names().map_err(|source| JournalError::Io { path: folder.path().to_owned(), source })?;
    let is_journal = |name: &String| Utf8Path::new(name).extension() == Some(EXTENSION);
    Ok(names.iter().filter(|name| is_journal(name)).filter_map(|name| examine(host, folder, name)).collect())
}

/// `None` when the owner lives, or has just taken its file away.
fn examine(host: &Host, folder: &Arc<dyn Folder>, name: &str) -> Option<Leftover> {
    let read = || -> io::Result<Option<Contents>> {
        let mut log = folder.open(name)?;
        if Contents::read(&*log).is_ok_and(|contents| why_dead(host, &contents.header).is_none()) {
            return Ok(None);
        }
        // who holds the lock is at work, whatever its process number means here; but a killed process keeps it until
        // the kernel has closed its files, which is after it counts as dead
        let mut locked = Ok(false);
        wait_until(CLOSE_PATIENCE, || {
            locked = log.try_lock(true);
            !matches!(locked, Ok(false))
        });
        if let Ok(false) = locked {
            return Ok(None);
        }
        Contents::read(&*log).map(Some)
    };
    let path = folder.path().join(name);
    let leftover = Leftover {
        path,
        run_id: String::new(),
        pid: 0,
        why: WhyDead::ProcessGone,
        resources: Vec::new(),
        damage: None,
        host: host.clone(),
        folder: folder.clone(),
    };
    match read() {
        Ok(None) => None,
        Ok(Some(contents)) => Some(Leftover {
            why: why_dead(host, &contents.header)?,
            run_id: contents.header.run_id.clone(),
            pid: contents.header.owner.pid,
            damage: damage(&contents),
            resources: contents.open.into_values().map(|entry| entry.resource).collect(),
            ..leftover
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Leftover { damage: Some(error.to_string()), ..leftover }),
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
        let name = self.path.file_name().unwrap_or_default();
        let taken = JournalFile::take_over(&self.folder, name)?;
        let Some((mut file, contents)) = taken else { return Ok(report) };
        // asked again under the lock, about the file as it is now
        let Some(why) = why_dead(&self.host, &contents.header) else { return Ok(report) };
        let same_boot = why != WhyDead::Rebooted;
        for (id, entry) in contents.open.into_iter().rev() {
            let gone = !same_boot && entry.resource.dies_with_the_boot();
            let outcome = if gone { Outcome::AlreadyGone } else { undo::undo(&self.host, &entry, same_boot) };
            // what is not there may still come: a program that was to make it, mount(8) for one, can outlive the run. The next
            // doctor looks again, if there is anything for him to do
            if outcome.is_final()
                && outcome != Outcome::AlreadyGone
                && let Err(error) = file.done(id)
            {
                // a full disk must not keep the rest: the next doctor finds that this is gone
                tracing::warn!(%error, "cannot strike what was undone");
            }
            report.push(entry.resource, outcome);
        }
        if !report.has_failures() && contents.unreadable_lines.is_empty() {
            file.remove()?;
        }
        Ok(report)
    }
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (true, Some(damage)) = (self.run_id.is_empty(), &self.damage) {
            return write!(f, "journal {}: {damage}; look at it, and remove it by hand", self.path);
        }
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
