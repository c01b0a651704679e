//! A memory cgroup of its own for each run, of either version.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Anyhow;

/// A cgroup, removed when dropped.
pub struct Group {
    path: PathBuf,
    version1: bool,
}

impl Group {
    /// With a limit in bytes, or none.
    pub fn new(limit: Option<u64>) -> Anyhow<Group> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let version1 = Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists();
        let root = if version1 { "/sys/fs/cgroup/memory" } else { "/sys/fs/cgroup" };
        let name = format!("loadline-harm-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let group = Group { path: Path::new(root).join(name), version1 };
        std::fs::create_dir(&group.path)?;
        if let Some(limit) = limit {
            let file = if version1 { "memory.limit_in_bytes" } else { "memory.max" };
            std::fs::write(group.path.join(file), limit.to_string())?;
        }
        Ok(group)
    }

    /// Has a command start inside.
    pub fn enter_with(&self, command: &mut Command) -> Anyhow<()> {
        let procs = File::options().write(true).open(self.path.join("cgroup.procs"))?;
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

impl Drop for Group {
    fn drop(&mut self) {
        // The last process may still be on its way out.
        for _ in 0..200 {
            if std::fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        eprintln!("{} is left", self.path.display());
    }
}
