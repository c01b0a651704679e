//! A memory limit for a workload's processes, by control group v1 or v2.
//!
//! The daemon of an emulated device must stay outside the workload's group: within one limit the two deadlock
//! (the daemon waits for memory whose writeback waits for the daemon).

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use host::cgroup::{Hierarchy, PREFIX, enable_memory, pids};
use host::{Host, Unavailable};
use thiserror::Error;

use crate::{EntryId, Journal, JournalError, Resource, UndoReport};

/// How much memory a group may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Memory in bytes, page cache included.
    pub bytes: u64,
    /// Swap in bytes on top of it, where the kernel accounts swap.
    pub swap_bytes: u64,
}

impl MemoryLimit {
    /// So much memory and no swap.
    pub fn bytes(bytes: u64) -> Self {
        Self { bytes, swap_bytes: 0 }
    }
}

/// What a group has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupStats {
    /// Bytes in use now, page cache included.
    pub current_bytes: u64,
    /// The most that was in use; absent on v2 before Linux 5.19.
    pub peak_bytes: Option<u64>,
    /// How often the limit was met and reclaim had to run (v1: the `failcnt` files; v2: `max` of
    /// memory.events). Absent on v1 when the files say 0: Linux 6.18 leaves them at 0 whatever happens, even
    /// while it kills processes for want of memory, so that figure says nothing.
    pub limit_hits: Option<u64>,
    /// Processes killed for want of memory.
    pub oom_kills: u64,
}

/// What went wrong with a group.
#[derive(Debug, Error)]
pub enum CgroupError {
    /// No memory groups on this machine for this user.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file of the group could not be read or written.
    #[error("control group file {path}: {source}")]
    Io {
        /// The file.
        path: Utf8PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of the group holds something unexpected.
    #[error("control group file {path} holds `{text}`, which is not a number")]
    Unreadable {
        /// The file.
        path: Utf8PathBuf,
        /// Its text.
        text: String,
    },
    /// The name cannot be part of a directory's name.
    #[error("control group name `{0}` is not made of letters, digits, `.`, `_` and `-` (at most 100)")]
    BadName(String),
    /// The group still has processes.
    #[error("control group {path} still has processes {pids:?}; end them, then destroy it")]
    Busy {
        /// The group.
        path: Utf8PathBuf,
        /// Their numbers.
        pids: Vec<u32>,
    },
    /// The group could not be removed.
    #[error("control group not removed: {0}")]
    NotRemoved(UndoReport),
}

/// A memory group, recorded in the journal. When it is dropped without [`Cgroup::destroy`], its processes are
/// killed and it is removed.
#[derive(Debug)]
pub struct Cgroup {
    host: Host,
    hierarchy: Hierarchy,
    path: Utf8PathBuf,
    journal: Arc<Journal>,
    entry: EntryId,
}

impl Cgroup {
    /// Makes the group `loadline-NAME` with that limit, or with none, at the top of the hierarchy (beside the group of this
    /// process, whose own limit therefore does not bind it).
    pub fn create(
        name: &str,
        limit: impl Into<Option<MemoryLimit>>,
        journal: &Arc<Journal>,
    ) -> Result<Self, CgroupError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() > 100 || !name.chars().all(plain) {
            return Err(CgroupError::BadName(name.to_string()));
        }
        let host = journal.host().clone();
        let hierarchy = Hierarchy::detect(&host)?;
        enable_memory(&host, &hierarchy)?;
        let path = hierarchy.root().join(format!("{PREFIX}{name}"));
        let resource = Resource::Cgroup { path: path.clone() };
        let made = journal.create(resource, || {
            std::fs::create_dir(host.path(&path))
                .map_err(|source| CgroupError::Io { path: path.clone(), source })
        });
        let entry = match made {
            Ok((entry, ())) => entry,
            Err((entry, error)) => {
                // mkdir failed, so a group of that name is not ours
                entry.map_or(Ok(()), |entry| journal.forget(entry))?;
                return Err(error);
            }
        };
        let group = Self { host, hierarchy, path, journal: journal.clone(), entry };
        if let Some(limit) = limit.into()
            && let Err(error) = group.set_limit(limit)
        {
            journal.undo_entries(&[entry]);
            return Err(error);
        }
        Ok(group)
    }

    /// The group's directory.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Changes the limit.
    pub fn set_limit(&self, limit: MemoryLimit) -> Result<(), CgroupError> {
        match self.hierarchy {
            Hierarchy::V1(_) => {
                let with_swap = limit.bytes.saturating_add(limit.swap_bytes);
                // memory and swap together must never be less than memory: lift that limit out of the way
                // first
                self.write_if_there("memory.memsw.limit_in_bytes", "-1")?;
                self.write("memory.limit_in_bytes", &limit.bytes.to_string())?;
                self.write_if_there("memory.memsw.limit_in_bytes", &with_swap.to_string())
            }
            Hierarchy::V2(_) => {
                self.write("memory.max", &limit.bytes.to_string())?;
                self.write_if_there("memory.swap.max", &limit.swap_bytes.to_string())
            }
        }
    }

    /// Moves a process into the group. What it has in memory already stays charged to its former group.
    pub fn add_pid(&self, pid: u32) -> Result<(), CgroupError> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Has a command start in the group: all that it ever has in memory is charged to it.
    pub fn start_in(&self, command: &mut Command) -> Result<(), CgroupError> {
        let path = self.path.join("cgroup.procs");
        let procs = File::options().write(true).open(self.host.path(&path));
        let procs = procs.map_err(|source| CgroupError::Io { path, source })?;
        let enter = move || rustix::io::write(&procs, b"0").map(drop).map_err(io::Error::from);
        // SAFETY: between fork and exec only write(2) is called, and nothing is allocated.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }

    /// What the group uses and has used.
    pub fn stats(&self) -> Result<CgroupStats, CgroupError> {
        Ok(match self.hierarchy {
            Hierarchy::V1(_) => CgroupStats {
                current_bytes: self.number("memory.usage_in_bytes")?,
                peak_bytes: Some(self.number("memory.max_usage_in_bytes")?),
                limit_hits: Some(self.number("memory.failcnt")? + self.swap_limit_hits()?).filter(|n| *n > 0),
                oom_kills: keyed(&self.read("memory.oom_control")?, "oom_kill"),
            },
            Hierarchy::V2(_) => {
                let events = self.read("memory.events")?;
                let has_peak = self.host.exists(self.path.join("memory.peak"));
                CgroupStats {
                    current_bytes: self.number("memory.current")?,
                    peak_bytes: if has_peak { Some(self.number("memory.peak")?) } else { None },
                    limit_hits: Some(keyed(&events, "max")),
                    oom_kills: keyed(&events, "oom_kill"),
                }
            }
        })
    }

    /// Removes the group. Its processes must have ended, except this one, which moves out.
    /// Refused while others run in it, and then they are left running.
    pub fn destroy(&self) -> Result<(), CgroupError> {
        let own = std::process::id();
        let pids: Vec<u32> = pids(&self.host, &self.path).into_iter().filter(|pid| *pid != own).collect();
        if !pids.is_empty() {
            return Err(CgroupError::Busy { path: self.path.clone(), pids });
        }
        let report = self.journal.undo_entries(&[self.entry]);
        if report.has_failures() { Err(CgroupError::NotRemoved(report)) } else { Ok(()) }
    }

    /// On v1, memory and swap together are charged first: with no swap allowed, that limit is the one met.
    fn swap_limit_hits(&self) -> Result<u64, CgroupError> {
        let file = "memory.memsw.failcnt";
        if self.host.exists(self.path.join(file)) { self.number(file) } else { Ok(0) }
    }

    fn read(&self, file: &str) -> Result<String, CgroupError> {
        let path = self.path.join(file);
        self.host.read(&path).map_err(|source| CgroupError::Io { path, source })
    }

    fn number(&self, file: &str) -> Result<u64, CgroupError> {
        let text = self.read(file)?;
        text.parse().map_err(|_| CgroupError::Unreadable { path: self.path.join(file), text })
    }

    fn write(&self, file: &str, text: &str) -> Result<(), CgroupError> {
        let path = self.path.join(file);
        self.host.write(&path, text).map_err(|source| CgroupError::Io { path, source })
    }

    /// Swap files are absent when the kernel does not account swap.
    fn write_if_there(&self, file: &str, text: &str) -> Result<(), CgroupError> {
        if self.host.exists(self.path.join(file)) { self.write(file, text) } else { Ok(()) }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let report = self.journal.undo_entries(&[self.entry]);
        if report.has_failures() {
            tracing::warn!("{report}");
        }
    }
}

fn keyed(text: &str, key: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
