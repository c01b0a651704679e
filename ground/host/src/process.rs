//! Knowing a process again: a number alone is reused, number and start time are not.

use std::os::unix::process::CommandExt;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::Host;

/// A process that can be told from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The process number.
    pub pid: u32,
    /// Start time in clock ticks since boot: field 22 of /proc/PID/stat (proc(5)).
    pub start_ticks: u64,
}

impl ProcessId {
    /// This process.
    pub fn current(host: &Host) -> Option<Self> {
        Self::read(host, std::process::id())
    }

    /// The living process of that number; a zombie counts as dead.
    pub fn read(host: &Host, pid: u32) -> Option<Self> {
        let stat = host.read(format!("/proc/{pid}/stat")).ok()?;
        let (state, start_ticks) = parse_stat(&stat)?;
        (!matches!(state, 'Z' | 'X')).then_some(Self { pid, start_ticks })
    }

    /// Whether the very same process still lives.
    pub fn is_alive(&self, host: &Host) -> bool {
        Self::read(host, self.pid) == Some(*self)
    }
}

/// Has the kernel kill the command's process when the thread that starts it ends, and so when this process is killed:
/// a mkfs or mount that outlives a killed run would make something after everything was taken down.
pub fn end_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let arm = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // it may have died before
        match rustix::process::getppid() {
            Some(now) if now != parent => Err(std::io::ErrorKind::Interrupted.into()),
            _ => Ok(()),
        }
    };
    // SAFETY: between fork and exec only two system calls are made, and nothing is allocated.
    unsafe { command.pre_exec(arm) };
}

/// State and start time; the command's name may hold blanks and parentheses, so fields count from its end.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let start_ticks = fields.nth(18)?.parse().ok()?;
    Some((state, start_ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let numbers: Vec<String> = (4..=30).map(|n| n.to_string()).collect();
        let stat = format!("77 (a) b) S {}", numbers.join(" "));
        assert_eq!(parse_stat(&stat), Some(('S', 22)));
        assert_eq!(parse_stat("77 (a"), None);
    }

    #[test]
    fn this_process_is_alive_and_its_past_namesake_is_not() {
        let host = Host::system();
        let me = ProcessId::current(&host).unwrap();
        assert!(me.is_alive(&host));
        assert!(!ProcessId { start_ticks: me.start_ticks + 1, ..me }.is_alive(&host));
    }

    #[test]
    fn a_zombie_is_dead() {
        let host = Host::system();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = child.id();
        // waitid with WNOWAIT returns once the child has ended and leaves it unreaped
        let pid = rustix::process::Pid::from_child(&child);
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).unwrap();
        assert_eq!(ProcessId::read(&host, id), None);
        child.wait().unwrap();
    }
}
