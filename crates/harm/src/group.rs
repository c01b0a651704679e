//! A memory cgroup of its own for each run, of either version.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{HarmError, at};

/// A cgroup, removed when dropped.
pub struct Group {
    path: PathBuf,
    version1: bool,
}

impl Group {
    /// With a limit in bytes; none: without a limit. Where cgroups cannot be made, a run without a limit goes without.
    pub fn new(limit: Option<u64>) -> Result<Option<Group>, HarmError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let version1 = Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists();
        let root = if version1 { "/sys/fs/cgroup/memory" } else { "/sys/fs/cgroup" };
        let name = format!("loadline-harm-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(root).join(name);
        if let Err(error) = std::fs::create_dir(&path) {
            return match limit {
                None => Ok(None),
                Some(_) => Err(unavailable(&path, &error)),
            };
        }
        let group = Group { path, version1 };
        if let Some(limit) = limit {
            let file = group.path.join(if version1 { "memory.limit_in_bytes" } else { "memory.max" });
            std::fs::write(&file, limit.to_string()).map_err(|error| unavailable(&file, &error))?;
        }
        Ok(Some(group))
    }

    /// Has a command start inside.
    pub fn enter_with(&self, command: &mut Command) -> Result<(), HarmError> {
        let procs = self.path.join("cgroup.procs");
        let procs = File::options().write(true).open(&procs).map_err(at("open", &procs))?;
        let enter = move || {
            // SAFETY: an open file and a buffer of one byte; write(2) may be called between fork and exec.
            let wrote = unsafe { libc::write(procs.as_raw_fd(), c"0".as_ptr().cast(), 1) };
            if wrote == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        // SAFETY: the closure makes one system call and allocates nothing.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }

    /// The most memory it has used, page cache included.
    pub fn peak_bytes(&self) -> u64 {
        let file = if self.version1 { "memory.max_usage_in_bytes" } else { "memory.peak" };
        let text = std::fs::read_to_string(self.path.join(file)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }
}

fn unavailable(path: &Path, error: &io::Error) -> HarmError {
    HarmError::CannotHere(format!(
        "memory cannot be limited ({}: {error}): it takes root and a writable memory cgroup; --memory none does without",
        path.display()
    ))
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process may still be on its way out.
        for _ in 0..200 {
            if std::fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        eprintln!("loadline: {} is left", self.path.display());
    }
}
