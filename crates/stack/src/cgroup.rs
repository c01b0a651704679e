//! A memory limit for a workload's processes, by control group v1 or v2.
//!
//! The daemon of an emulated device must stay outside the workload's group: within one limit the two deadlock
//! (the daemon waits for memory whose writeback waits for the daemon).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::Access;
use rustix::process::{Pid, Signal, kill_process};
use thiserror::Error;

use crate::availability::Unavailable;
use crate::journal::{EntryId, Journal, JournalError, Resource, wait_until};
use crate::{Host, UndoReport};

/// The beginning of every group's name; nothing else is ever removed.
const PREFIX: &str = "loadline-";
/// How long the processes of a group may take to die before its removal counts as failed.
const KILL_PATIENCE: Duration = Duration::from_secs(3);
/// `f_type` of v1 and v2 (statfs(2)).
const CGROUP_MAGICS: [u64; 2] = [0x0027_e0eb, 0x6367_7270];
/// Groups within groups deeper than this are not removed.
const MAX_DEPTH: u32 = 8;

/// Where memory groups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    /// The v1 memory controller, mounted here.
    V1(Utf8PathBuf),
    /// The unified hierarchy, mounted here, with the memory controller.
    V2(Utf8PathBuf),
}

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

impl Hierarchy {
    /// Finds the memory controller in /proc/self/mountinfo: v1 if it is mounted there, else v2.
    pub fn detect(host: &Host) -> Result<Self, Unavailable> {
        let mounts = host
            .mounts()
            .map_err(|error| Unavailable::new(format!("/proc/self/mountinfo: {error}"), "mount /proc"))?;
        let has_memory = |options: &str| options.split(',').any(|option| option == "memory");
        let v1 = mounts.iter().find(|m| m.fs_type == "cgroup" && has_memory(&m.options));
        let v2 = mounts.iter().find(|m| {
            let controllers = host.read(m.target.join("cgroup.controllers")).unwrap_or_default();
            m.fs_type == "cgroup2" && controllers.split_whitespace().any(|word| word == "memory")
        });
        let found = match (v1, v2) {
            (Some(mount), _) => Hierarchy::V1(mount.target.clone()),
            (None, Some(mount)) => Hierarchy::V2(mount.target.clone()),
            (None, None) => {
                return Err(Unavailable::new(
                    "no control group hierarchy with the memory controller is mounted",
                    "mount one (mount -t cgroup2 none /sys/fs/cgroup); boot without cgroup_disable=memory",
                ));
            }
        };
        rustix::fs::access(host.path(found.root()).as_str(), Access::WRITE_OK).map_err(|error| {
            let reason = format!("control groups may not be made in {} ({error})", found.root());
            Unavailable::new(reason, "run as root; in a container, mount the control groups writable")
        })?;
        Ok(found)
    }

    /// Where it is mounted.
    pub fn root(&self) -> &Utf8Path {
        match self {
            Hierarchy::V1(root) | Hierarchy::V2(root) => root,
        }
    }
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

/// On v2 a group's children have a controller only if the group passes it on.
fn enable_memory(host: &Host, hierarchy: &Hierarchy) -> Result<(), CgroupError> {
    let Hierarchy::V2(root) = hierarchy else { return Ok(()) };
    let control = root.join("cgroup.subtree_control");
    if host.read(&control).unwrap_or_default().split_whitespace().any(|word| word == "memory") {
        return Ok(());
    }
    host.write(&control, "+memory").map_err(|error| {
        let reason = format!("the memory controller cannot be enabled in {control} ({error})");
        let remedy =
            "run in a delegated group (systemd-run --scope -p Delegate=yes) or outside of the container";
        CgroupError::Unavailable(Unavailable::new(reason, remedy))
    })
}

fn keyed(text: &str, key: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

fn pids(host: &Host, group: &Utf8Path) -> Vec<u32> {
    let text = host.read(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Ends the processes in the group (this one moves to the parent instead) and removes it with the groups
/// within it. False when it does not exist.
pub(crate) fn kill_and_remove(host: &Host, path: &Utf8Path) -> io::Result<bool> {
    if !host.exists(path) {
        return Ok(false);
    }
    let other = |message: String| io::Error::other(message);
    if !path.file_name().is_some_and(|name| name.starts_with(PREFIX)) {
        return Err(other(format!("not removed, since its name does not begin with {PREFIX}")));
    }
    // asked of the file system itself: below a plain directory, numbers in cgroup.procs would be anybody's
    let magic = rustix::fs::statfs(host.path(path).as_str())?.f_type as u64;
    if !CGROUP_MAGICS.contains(&magic) {
        return Err(other("not removed, since it does not lie in a control group file system".into()));
    }
    let parent = path.parent().unwrap_or(path).to_owned();
    remove_tree(host, path, &parent, 0)?;
    Ok(true)
}

fn remove_tree(host: &Host, group: &Utf8Path, parent: &Utf8Path, depth: u32) -> io::Result<()> {
    if depth >= MAX_DEPTH {
        return Err(io::Error::other(format!("groups are nested more than {MAX_DEPTH} deep")));
    }
    for name in host.names(group) {
        let child = group.join(&name);
        if host.path(&child).is_dir() {
            remove_tree(host, &child, parent, depth + 1)?;
        }
    }
    let mut result = Ok(());
    wait_until(KILL_PATIENCE, || {
        for pid in pids(host, group) {
            if pid == std::process::id() {
                // if it cannot move, rmdir says EBUSY
                let _ = host.write(parent.join("cgroup.procs"), &pid.to_string());
            } else if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // one that has ended meanwhile is what we want
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        result = std::fs::remove_dir(host.path(group));
        !matches!(&result, Err(error) if error.raw_os_error() == Some(libc::EBUSY))
    });
    result
}

#[cfg(test)]
mod tests;
