//! Processes that a server has forked. When the server is killed, some of them may wait for ever for a lock of one that was
//! killed too (PostgreSQL's backends in COMMIT do), and keep its mount busy.

use std::path::PathBuf;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use host::wait::wait_until;
use host::{Host, ProcessId};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// How long a killed process may take to go.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// How a server's processes are known when the server itself is gone: they run its program, and work in its folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphans {
    /// The server's program.
    pub program: Utf8PathBuf,
    /// A private folder of the run, in or below which they work.
    pub folder: Utf8PathBuf,
}

impl Orphans {
    /// Of the living server `pid` whose processes work in `folder`; `None` when that cannot be read.
    pub(crate) fn of(pid: u32, folder: &Utf8Path) -> Option<Orphans> {
        let program = Utf8PathBuf::from_path_buf(link(pid, "exe")?).ok()?;
        Some(Orphans { program, folder: folder.to_owned() })
    }

    /// Kills all of them; how many there were.
    pub(crate) fn kill(&self, host: &Host) -> usize {
        let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let mut killed = Vec::new();
        for pid in numbers.filter(|pid| *pid != std::process::id()) {
            let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
            // the descriptor pins what is looked at
            let Some(Ok(pidfd)) = number.map(|number| pidfd_open(number, PidfdFlags::empty())) else {
                continue;
            };
            if self.is_one(pid)
                && let Some(process) = ProcessId::read(host, pid)
                && pidfd_send_signal(&pidfd, Signal::KILL).is_ok()
            {
                killed.push(process);
            }
        }
        wait_until(END_PATIENCE, || killed.iter().all(|process| !process.is_alive(host)));
        killed.len()
    }

    fn is_one(&self, pid: u32) -> bool {
        link(pid, "exe").is_some_and(|program| program == self.program.as_std_path())
            && link(pid, "cwd").is_some_and(|folder| folder.starts_with(&self.folder))
    }
}

fn link(pid: u32, name: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/{name}")).ok()
}
