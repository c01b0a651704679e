//! The processes of a server: start, end, kill, what is left of them.

use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use host::process::Stat;
use host::{Host, ProcessId};
use journal::{EntryId, Journal};
use rustix::process::{Pid, Signal, kill_process};

use crate::ServeError;

/// User and group number of a server that refuses root: `nobody`, `nogroup`.
const NOBODY: u32 = 65_534;
/// How long killed processes may take to go: they may sleep in the kernel, on a device that is slow.
const DEATH_PATIENCE: Duration = Duration::from_secs(60);
/// How often processes are looked at.
const TICK: Duration = Duration::from_millis(5);
/// Bytes of a program's messages that an error shows.
const MESSAGE_BYTES: usize = 800;

/// What helps a load whose disk is full.
pub const MORE_ROOM: &str = "give the stack more room (image:SIZE, 980pro:SIZE), or load less";
/// What helps a server that was killed: it does not do that itself.
const KILLED: &str = "; it was killed from outside: if memory was short (`dmesg` tells), load less, or give a server of SQL less (--set cache=64M)";

/// What is added to a message about a server, an installation or a load whose disk is full.
pub fn full_disk() -> String {
    format!("; its disk is full: {MORE_ROOM}")
}

/// Whether a server's or program's messages tell of a full disk: in words, or by the number of the error (ENOSPC is 28).
pub fn tells_full_disk(text: &str) -> bool {
    const SIGNS: [&str; 4] = ["No space left on device", "error 28", "errno: 28", "error number 28"];
    SIGNS.iter().any(|sign| text.contains(sign))
}

/// What a server is called, who it runs as, and how it is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Its name in messages and in the journal.
    pub name: &'static str,
    /// It refuses root: when we are root, it runs as `nobody`.
    pub refuses_root: bool,
    /// The signal that ends it cleanly.
    pub stop: Signal,
}

/// The processes of a server: the first one and those that it has made. Dropped, they are killed.
#[derive(Debug)]
pub struct Processes {
    child: Child,
    identity: Identity,
    status: Option<ExitStatus>,
    journal: Arc<Journal>,
    entry: EntryId,
}

impl Identity {
    /// Whether it must run as another user than ours.
    pub fn other_user(&self) -> bool {
        self.refuses_root && rustix::process::geteuid().is_root()
    }
}

/// Makes a directory that only the server's user can enter.
///
/// # Errors
/// It is there already, or cannot be made.
pub fn private_folder(path: &Utf8Path, identity: &Identity) -> Result<(), ServeError> {
    std::fs::DirBuilder::new().mode(0o700).create(path).map_err(ServeError::at(path))?;
    if identity.other_user() {
        chown(path, Some(NOBODY), Some(NOBODY)).map_err(ServeError::at(path))?;
    }
    Ok(())
}

/// A command in the C locale without input, run by the server's user, that ends with the thread that starts it. It is in
/// a process group of its own: Ctrl-C is for loadline, which ends its servers itself (PostgreSQL and Redis would shut down).
pub fn command(program: &Utf8Path, identity: &Identity) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C").stdin(Stdio::null()).current_dir("/").process_group(0);
    if identity.other_user() {
        // the groups of root go as well
        command.uid(NOBODY).gid(NOBODY);
    }
    // after the user is changed, which would undo it
    host::process::end_with_parent(&mut command);
    command
}

/// Runs a program to its end.
///
/// # Errors
/// It fails: with the end of what it printed.
pub fn run(mut command: Command) -> Result<(), ServeError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(ServeError::at(name.clone()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let from = text.char_indices().rev().nth(MESSAGE_BYTES).map_or(0, |(at, _)| at);
    let remedy = if tells_full_disk(&text) { full_disk() } else { String::new() };
    let (how, end) = (describe(output.status), text[from..].trim());
    Err(ServeError::Server(format!("{name} failed ({how}){remedy}; the end of what it says:\n{end}")))
}

/// Finds a program: in these directories, then in PATH and the directories of root.
///
/// # Errors
/// It is not there: with the package to install.
pub fn find(
    name: &str,
    first: &[camino::Utf8PathBuf],
    package: &str,
) -> Result<camino::Utf8PathBuf, ServeError> {
    let path = std::env::var("PATH").unwrap_or_default();
    let others = path.split(':').chain(["/usr/sbin", "/sbin", "/usr/bin"]).map(camino::Utf8PathBuf::from);
    let places = first.iter().cloned().chain(others);
    places.map(|folder| folder.join(name)).find(|file| file.is_file()).ok_or_else(|| {
        ServeError::Unavailable {
            reason: format!("the program `{name}` is not found"),
            remedy: format!("install it (scripts/setup.sh {package}, or apt install {package})"),
        }
    })
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, code) => format!("exit code {}", code.unwrap_or(-1)),
    }
}

impl Processes {
    /// Starts a server that works in `data`, a private folder; it is in the journal before this returns.
    ///
    /// # Errors
    /// It cannot be started, or has ended at once.
    pub fn start(
        mut command: Command,
        identity: &Identity,
        data: &Utf8Path,
        journal: &Arc<Journal>,
    ) -> Result<Processes, ServeError> {
        let _making = journal.begin()?;
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(ServeError::at(name))?;
        match journal.record_server(child.id(), &format!("server for {}", identity.name), data) {
            Ok(entry) => {
                Ok(Processes { child, identity: *identity, status: None, journal: journal.clone(), entry })
            }
            Err(error) => {
                let _ = child.kill();
                let status = child.wait();
                match (error, status) {
                    // a zombie counts as dead
                    (journal::JournalError::NoSuchProcess { .. }, Ok(status)) => Err(ServeError::Server(
                        format!("the server for {} ended at once ({})", identity.name, describe(status)),
                    )),
                    (error, _) => Err(error.into()),
                }
            }
        }
    }

    /// Number of the first process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How the first process ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.map(describe)
    }

    /// What would help after it has ended so.
    pub fn remedy(&self) -> &'static str {
        let killed = self.status.and_then(|status| status.signal()) == Some(Signal::KILL.as_raw());
        if killed { KILLED } else { "" }
    }

    /// The first process and its children.
    fn all(&self) -> Vec<ProcessId> {
        let host = Host::system();
        let pid = self.child.id();
        let children = host.read(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let numbers = children.split_whitespace().filter_map(|word| word.parse().ok());
        std::iter::once(pid).chain(numbers).filter_map(|pid| ProcessId::read(&host, pid)).collect()
    }

    /// Processor seconds of all of them, and of their children that have ended.
    pub fn cpu_seconds(&self) -> Option<f64> {
        let host = Host::system();
        // in user and kernel mode, and both again of the children it has waited for (proc_pid_stat(5))
        let ticks = |process: &ProcessId, fields: std::ops::RangeInclusive<usize>| -> Option<u64> {
            let line = host.read(format!("/proc/{}/stat", process.pid)).ok()?;
            let stat = Stat::parse(&line)?;
            Some(fields.filter_map(|field| stat.field::<u64>(field)).sum())
        };
        let all = self.all();
        // the first one has reaped children of its own
        let first = ticks(all.first()?, 14..=17)?;
        let others: u64 = all.iter().skip(1).filter_map(|process| ticks(process, 14..=15)).sum();
        Some((first + others) as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        // its number is ours until it is waited for
        match Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(0)) {
            Some(pid) if self.status.is_none() => kill_process(pid, signal),
            _ => Ok(()),
        }
    }

    /// Stops the first process, then its children, until no child is new: PostgreSQL's processes are the children of
    /// one.
    ///
    /// # Errors
    /// A signal could not be sent.
    pub fn freeze(&mut self) -> Result<(), ServeError> {
        let failed = |error: rustix::io::Errno| ServeError::Server(format!("SIGSTOP: {error}"));
        self.signal(Signal::STOP).map_err(failed)?;
        for process in self.all().into_iter().skip(1) {
            signal_one(process, Signal::STOP);
        }
        Ok(())
    }

    /// Tells it to end, which it does with exit code 0.
    ///
    /// # Errors
    /// What it did instead.
    pub fn stop(&mut self, patience: Duration) -> Result<(), String> {
        if let Some(how) = self.ended() {
            self.forget();
            return Err(format!("had ended before it was told to ({how})"));
        }
        let _ = self.signal(self.identity.stop);
        let start = Instant::now();
        while self.ended().is_none() {
            if start.elapsed() > patience {
                let _ = self.kill();
                return Err(format!("did not end within {} s and was killed", patience.as_secs()));
            }
            std::thread::sleep(TICK);
        }
        self.forget();
        match self.status {
            Some(status) if !status.success() => Err(format!("did not end cleanly ({})", describe(status))),
            _ => Ok(()),
        }
    }

    /// Kills all of them and waits until they are gone.
    ///
    /// # Errors
    /// One sleeps in the kernel.
    pub fn kill(&mut self) -> Result<(), ServeError> {
        let all = self.all();
        let _ = self.signal(Signal::KILL);
        for process in all.iter().skip(1) {
            signal_one(*process, Signal::KILL);
        }
        let host = Host::system();
        let start = Instant::now();
        while self.ended().is_none() || all.iter().any(|process| process.is_alive(&host)) {
            if start.elapsed() > DEATH_PATIENCE {
                return Err(ServeError::Server(format!(
                    "process {} cannot be killed; it sleeps in the kernel",
                    self.child.id()
                )));
            }
            std::thread::sleep(TICK);
        }
        self.forget();
        Ok(())
    }

    fn forget(&self) {
        // if that fails, a later undo finds it gone
        let _ = self.journal.forget(self.entry);
    }
}

/// Signals a process that is not our child. A server's own processes do not end by themselves while their first one is
/// stopped or lives, so that the number is still theirs.
fn signal_one(process: ProcessId, signal: Signal) {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let Some(Ok(pidfd)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
    // the descriptor pins what is checked
    if process.is_alive(&Host::system()) {
        let _ = pidfd_send_signal(&pidfd, signal);
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        if self.ended().is_none() {
            let _ = self.kill();
        } else {
            self.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a script, stops it when it has said that it is ready, and tells how that went.
    fn stopped(script: &str) -> (Result<(), String>, Arc<Journal>) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap();
        let journal = Journal::open(&path.join("journal"), "test").unwrap();
        let identity = Identity { name: "a script", refuses_root: false, stop: Signal::TERM };
        let ready = path.join("ready");
        let mut command = command(Utf8Path::new("/bin/sh"), &identity);
        command.args(["-c", script]).env("READY", ready.as_str());
        let mut processes = Processes::start(command, &identity, path, &journal).unwrap();
        while !ready.exists() {
            std::thread::sleep(TICK);
        }
        let stopped = processes.stop(Duration::from_secs(60));
        (stopped, journal)
    }

    #[test]
    fn only_a_clean_end_is_one() {
        for (script, told) in [
            ("trap 'exit 0' TERM; touch $READY; while :; do sleep 0.01; done", None),
            ("trap 'exit 3' TERM; touch $READY; while :; do sleep 0.01; done", Some("cleanly (exit code 3)")),
            ("trap 'kill -SEGV $$' TERM; touch $READY; while :; do sleep 0.01; done", Some("(signal 11)")),
        ] {
            let (stopped, journal) = stopped(script);
            assert_eq!(stopped.is_ok(), told.is_none(), "{script}: {stopped:?}");
            assert!(told.is_none_or(|told| stopped.unwrap_err().contains(told)), "{script}");
            assert!(journal.is_empty());
        }
    }

    #[test]
    fn a_server_that_was_dead_before_is_not_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap();
        let journal = Journal::open(&path.join("journal"), "test").unwrap();
        let identity = Identity { name: "a script", refuses_root: false, stop: Signal::TERM };
        let mut sleeping = command(Utf8Path::new("/bin/sleep"), &identity);
        sleeping.arg("600");
        let mut processes = Processes::start(sleeping, &identity, path, &journal).unwrap();
        processes.signal(Signal::SEGV).unwrap();
        while processes.ended().is_none() {
            std::thread::sleep(TICK);
        }
        let error = processes.stop(Duration::from_secs(60)).unwrap_err();
        assert!(error.contains("before it was told to (signal 11)"), "{error}");
        assert!(journal.is_empty());
    }
}
