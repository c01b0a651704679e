//! A mount in a process of its own, which ends when the file system is unmounted.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use host::Host;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::memory;
use crate::mount::{MountError, MountOptions, Mounted, Result, mount};

/// What the daemon says when it serves.
const READY: &str = "ready";

/// How the daemon is started: a program whose `main` calls [`main`] with the arguments behind `args`.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// What comes before the source.
    pub args: Vec<OsString>,
}

/// Mounts `source` at `dir` in a new process and returns its number when the mount is there. `options` is the text
/// that [`MountOptions::parse`] reads.
///
/// # Errors
/// [`MountError::BadOption`]; [`MountError::Daemon`] with the new process's words.
pub fn mount_daemon(launcher: &Launcher, source: &Path, dir: &Path, options: &str) -> Result<u32> {
    MountOptions::parse(options)?;
    let shown = source;
    let absolute = |path: &Path| path.canonicalize().map_err(MountError::io(path.display().to_string()));
    let (source, dir) = (absolute(source)?, absolute(dir)?);
    let mut child = Command::new(&launcher.program)
        .args(&launcher.args)
        .args([source.as_os_str(), dir.as_os_str(), shown.as_os_str()])
        .arg(options)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(MountError::io(format!("start {}", launcher.program.display())))?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        // An error is an early end: the same as no answer.
        let _ = BufReader::new(stdout).read_line(&mut line);
    }
    match line.trim_end() {
        READY => Ok(child.id()),
        "" => {
            let status = child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
            Err(MountError::Daemon(format!("the daemon ended early: {status}")))
        }
        words => {
            let _ = child.wait();
            Err(MountError::Daemon(words.to_owned()))
        }
    }
}

/// The daemon's `main`, with the arguments behind those of the [`Launcher`]: mounts, says so on its standard output, serves, and closes the file system when it is
/// unmounted. SIGTERM and SIGINT unmount.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    let [source, dir, shown, options] = &arguments[..] else {
        eprintln!("betrfs: the daemon is started by `loadline mount betrfs`");
        return ExitCode::FAILURE;
    };
    let options = MountOptions::parse(&options.to_string_lossy())
        .map(|o| MountOptions { shown_source: Some(shown.into()), ..o });
    // A session of its own: a closed terminal must not take the file system away.
    let _ = rustix::process::setsid();
    // until it serves: a starter that was killed has nobody who would take a late mount away
    let starter = Some(rustix::process::Signal::KILL);
    let _ = rustix::process::set_parent_process_death_signal(starter);
    if nobody_hears() {
        return ExitCode::FAILURE;
    }
    let mounted = match options.and_then(|o| start(Path::new(source), Path::new(dir), &o)) {
        Ok(mounted) => mounted,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let _ = rustix::process::set_parent_process_death_signal(None);
    println!("{READY}");
    let _ = io::stdout().flush();
    leave_terminal();
    serve(mounted)
}

fn start(source: &Path, dir: &Path, options: &MountOptions) -> Result<Mounted> {
    memory::flush_io();
    let mut notes: Vec<String> = memory::leave_cgroup(&Host::system()).err().into_iter().collect();
    if options.lock_memory {
        notes.extend(memory::lock().err());
    }
    notes.iter().for_each(|note| eprintln!("betrfs: {note}"));
    mount(source, dir, options)
}

/// Serves in the foreground of this process until unmounted; SIGTERM and SIGINT unmount.
pub fn serve(mounted: Mounted) -> ExitCode {
    let dir = mounted.dir().to_owned();
    if let Ok(mut signals) = Signals::new([SIGTERM, SIGINT, SIGHUP]) {
        let fs = mounted.fs().clone();
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let _ = fs.sync();
                if signal != SIGHUP
                    && let Err(error) = Mounted::request_unmount(&dir)
                {
                    eprintln!("betrfs: {error}");
                }
            }
        });
    }
    match mounted.wait() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("betrfs: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the one who waits for this daemon's first line has gone.
fn nobody_hears() -> bool {
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
