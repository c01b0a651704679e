//! A memory cgroup of its own for each run, of either version.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use journal::{Cgroup, Journal, MemoryLimit};

use crate::{HarmError, at};

/// A cgroup, removed when dropped.
pub struct Group(Cgroup);

impl Group {
    /// With a limit in bytes; none: without a limit. Where cgroups cannot be made, a run without a limit goes without.
    pub fn new(limit: Option<u64>, journal: &Arc<Journal>) -> Result<Option<Group>, HarmError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("harm-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        match Cgroup::create(&name, limit.map(MemoryLimit::bytes), journal) {
            Ok(group) => Ok(Some(Group(group))),
            Err(_) if limit.is_none() => Ok(None),
            Err(error) => Err(HarmError::CannotHere(format!(
                "memory cannot be limited ({error}): it takes root and a writable memory cgroup; --memory none does \
                 without"
            ))),
        }
    }

    /// Has a command start inside.
    pub fn enter_with(&self, command: &mut Command) -> Result<(), HarmError> {
        let procs = self.0.path().join("cgroup.procs");
        let procs = Path::new(procs.as_str());
        let procs = File::options().write(true).open(procs).map_err(at("open", procs))?;
        let enter = move || {
            // SAFETY: an open file and a buffer of one byte; write(2) may be called between fork and exec.
            let wrote = unsafe { libc::write(procs.as_raw_fd(), c"0".as_ptr().cast(), 1) };
            if wrote == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        // SAFETY: the closure makes one system call and allocates nothing.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }

    /// The most memory it has used, page cache included; 0: not known.
    pub fn peak_bytes(&self) -> u64 {
        self.0.stats().ok().and_then(|used| used.peak_bytes).unwrap_or(0)
    }
}
