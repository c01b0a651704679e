//! Daemons that serve a file system or device: how they come up ([`launch`], [`come_up`]), and keeping them out of the way
//! of their own work: one that has to wait for memory which only a write to itself can free waits for ever. What goes wrong
//! with them is said in the [`log`], a panic as well, which ends them.

pub mod log;

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Host;
use crate::mountinfo::MountEntry;
use crate::process::pass_only_stdio;

/// Moves this process to the root of the memory cgroups; a workload's limit must not hit it.
///
/// # Errors
/// What could not be done, for the daemon's notes.
pub fn leave_cgroup(host: &Host) -> Result<(), String> {
    let mounts = host.mounts().map_err(|error| error.to_string())?;
    let holds_memory = |m: &&MountEntry| {
        let v1 = m.fs_type == "cgroup" && m.options.split(',').any(|o| o == "memory");
        let controllers = || host.read(m.target.join("cgroup.controllers")).unwrap_or_default();
        v1 || m.fs_type == "cgroup2" && controllers().split(' ').any(|c| c == "memory")
    };
    let Some(root) = mounts.iter().find(holds_memory) else { return Ok(()) };
    let procs = root.target.join("cgroup.procs");
    host.write(&procs, &std::process::id().to_string())
        .map_err(|error| format!("the daemon stays in its memory cgroup: {procs}: {error}"))
}

/// Locks what is and will be touched.
///
/// # Errors
/// What could not be done, for the daemon's notes.
pub fn lock_memory() -> Result<(), String> {
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).map_err(|error| {
        format!("the daemon's memory is not locked ({error}): give it CAP_IPC_LOCK or raise RLIMIT_MEMLOCK")
    })
}

/// What a daemon says when it serves.
const READY: &str = "ready";

/// Starts the daemon `command`, whose program calls [`come_up`], and returns its number when it serves. It gets no descriptors
/// but the standard ones.
///
/// # Errors
/// In the daemon's words why it does not; or those of the system.
pub fn launch(command: &mut Command) -> Result<u32, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    pass_only_stdio(command);
    let spawned = command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("start {program}: {error}"))?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        // An error is an early end: the same as no answer.
        let _ = BufReader::new(stdout).read_line(&mut line);
    }
    match line.trim_end() {
        READY => Ok(child.id()),
        "" => {
            let status = child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
            Err(format!("the daemon ended early: {status}"))
        }
        words => {
            let _ = child.wait();
            Err(words.to_owned())
        }
    }
}

/// What a daemon that [`launch`] started does first: leaves its starter's session, starts what it serves, and says so.
/// None if that failed, or if nobody waits for it any more. `name` and `file` are for the [`log`].
pub fn come_up<T, E: Display>(
    name: &str,
    file: Option<&Path>,
    start: impl FnOnce() -> Result<T, E>,
) -> Option<T> {
    // A session of its own: a closed terminal must not take the file system away.
    let _ = rustix::process::setsid();
    // Until it serves: a starter that was killed has nobody who would take a late mount away. What is mounted already takes this signal
    // as a request to unmount.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    if launcher_is_gone() {
        return None;
    }
    if let Err(error) = log::begin(name, file) {
        println!("open the log {}: {error}", file.unwrap_or(Path::new("")).display());
        return None;
    }
    let started = start().map_err(|error| println!("{error}")).ok()?;
    let _ = rustix::process::set_parent_process_death_signal(None);
    // Without a listener it goes again.
    writeln!(io::stdout(), "{READY}").and_then(|()| io::stdout().flush()).ok()?;
    leave_terminal();
    Some(started)
}

/// From now on SIGTERM, SIGINT and SIGHUP wait here for whoever iterates. A daemon takes them before others can see what
/// it serves: by default they would kill it, and leave a mount or device behind that nobody answers for.
///
/// # Errors
/// What the system says.
pub fn take_signals() -> io::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP])
}

/// Whether the one who waits for this daemon's first line has gone.
fn launcher_is_gone() -> bool {
    let out = io::stdout();
    let mut asked = [PollFd::new(&out, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let told = poll(&mut asked, Some(&at_once));
    told.is_ok() && asked[0].revents().contains(PollFlags::ERR)
}

/// Gives back what was inherited of a terminal or pipe, so that nobody waits for its end.
fn leave_terminal() {
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null.as_fd());
        let _ = rustix::stdio::dup2_stderr(null.as_fd());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use rustix::io::{FdFlags, fcntl_setfd};
    use rustix::pipe::{PipeFlags, pipe_with};
    use rustix::process::{Pid, WaitOptions, kill_process, waitpid};

    use super::*;

    #[test]
    fn a_pipe_that_the_starter_has_inherited_ends_although_the_daemon_lives() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready; exec sleep 600 >&- 2>&-"]);
        let inherited = writer.as_fd().try_clone_to_owned().unwrap();
        // as inherited: no other program that this process starts meanwhile gets it
        // SAFETY: between fork and exec only one system call is made.
        unsafe { command.pre_exec(move || Ok(fcntl_setfd(&inherited, FdFlags::empty())?)) };
        let pid = launch(&mut command).unwrap();
        drop((command, writer));
        let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
        let mut asked = [PollFd::new(&reader, PollFlags::IN)];
        let ended = poll(&mut asked, Some(&patience));
        let daemon = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        kill_process(daemon, Signal::KILL).unwrap();
        waitpid(Some(daemon), WaitOptions::empty()).unwrap();
        assert_eq!(ended, Ok(1), "the daemon keeps the pipe open");
    }
}
