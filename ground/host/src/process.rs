//! Knowing a process again: a number alone is reused, number and start time are not.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Host;

/// A process that can be told from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The process number.
    pub pid: u32,
    /// Start time in clock ticks since boot.
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
        let stat = Stat::parse(&stat)?;
        let (state, start_ticks) = (stat.field::<char>(3)?, stat.field(22)?);
        (!matches!(state, 'Z' | 'X')).then_some(Self { pid, start_ticks })
    }

    /// Whether the very same process still lives.
    pub fn is_alive(&self, host: &Host) -> bool {
        Self::read(host, self.pid) == Some(*self)
    }
}

/// Lets this process have so many descriptors, or as many as its hard limit allows: the usual soft limit is 1,024. A refusal
/// shows as EMFILE when the limit is met.
pub fn allow_descriptors(number: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < number) {
        limit.current = Some(limit.maximum.map_or(number, |most| most.min(number)));
        let _ = setrlimit(Resource::Nofile, limit);
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

/// Keeps descriptors other than the three standard ones from the command's process, if this process has inherited some: a
/// daemon would have them open as long as it lives, and whoever waits for the end of a pipe would wait as long.
pub fn pass_only_stdio(command: &mut Command) {
    let close = || {
        // closed by exec, so that the way back by which a failed exec is told stays open until then; a kernel before
        // Linux 5.11, which cannot, passes them on
        // SAFETY: this call takes plain numbers.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                FIRST_OTHER_DESCRIPTOR,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
        Ok(())
    };
    // SAFETY: between fork and exec only one system call is made, and nothing is allocated.
    unsafe { command.pre_exec(close) };
}

/// The first descriptor behind standard input, output and error.
const FIRST_OTHER_DESCRIPTOR: libc::c_uint = 3;

/// A line of /proc/PID/stat.
#[derive(Debug, Clone)]
pub struct Stat<'a>(Vec<&'a str>);

impl<'a> Stat<'a> {
    /// Takes it apart. The command's name may hold blanks and parentheses, so fields count from its end. `None` without one.
    pub fn parse(line: &'a str) -> Option<Stat<'a>> {
        let (_, rest) = line.rsplit_once(')')?;
        Some(Stat(rest.split_whitespace().collect()))
    }

    /// A field by the number that proc_pid_stat(5) gives it, from 3 on. `None` where there is none, or something else.
    pub fn field<T: FromStr>(&self, number: usize) -> Option<T> {
        self.0.get(number.checked_sub(3)?)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let numbers: Vec<String> = (4..=30).map(|n| n.to_string()).collect();
        let stat = format!("77 (a) b) S {}", numbers.join(" "));
        let parsed = Stat::parse(&stat).unwrap();
        assert_eq!((parsed.field(3), parsed.field(22)), (Some('S'), Some(22)));
        let missing: [Option<u64>; 3] = [parsed.field(2), parsed.field(3), parsed.field(31)];
        assert_eq!(missing, [None; 3]);
        assert!(Stat::parse("77 (a").is_none());
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
