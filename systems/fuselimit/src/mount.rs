//! Mounting, in this process or in a daemon, which ends when the file system is unmounted.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use fusewire::local::{self, MountPoint, Probe, StartError};
use fusewire::wire::init_flag;
use fusewire::{Session, Transport};
use host::Host;
use host::daemon;
use rustix::mount::MountFlags;
use signal_hook::iterator::Signals;

use crate::server::Server;

/// Its name for people, in the logs, and of its threads.
const NAME: &str = "fuse-limit";
/// The type that the table of mounts shows.
pub const TYPE: &str = "fuse.fuse-limit";
/// Bytes of files where the system does not say how much memory it has.
const BYTES_UNKNOWN: u64 = 1 << 30;
/// Bytes of its heap that the allocator keeps when they are free: all, since pages given back are to be faulted in again.
const KEEP_BYTES: i32 = i32::MAX;
/// What mount(8) passes on and what is so anyway.
const IGNORED: [&str; 4] = ["rw", "noatime", "relatime", "defaults"];

/// How to mount.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Bytes that all files, names and inodes may hold.
    pub bytes: u64,
    /// How requests get here.
    pub transport: Transport,
    /// Threads that take requests; through io_uring so many for each CPU.
    pub threads: usize,
    /// Lock the daemon's memory.
    pub lock_memory: bool,
}

impl Default for Options {
    /// Half of the free memory.
    fn default() -> Options {
        let free = Host::system().available_memory();
        Options {
            bytes: free.map_or(BYTES_UNKNOWN, |free| free / 2),
            transport: Transport::Auto,
            threads: local::THREADS,
            lock_memory: true,
        }
    }
}

impl Options {
    /// Reads options as `mount -o` takes them, separated by commas: `size=2G`, `transport=fastest`, `threads=8`, `nolock`.
    ///
    /// # Errors
    /// The option, and what would be right.
    pub fn parse(text: &str) -> Result<Options, String> {
        let mut options = Options::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let wrong = |why: &str| format!("mount option `{option}`: {why}");
            match name {
                "size" => {
                    options.bytes = units::parse_bytes(value).map_err(|e| wrong(&e.to_string()))?;
                }
                "transport" => {
                    let named = Transport::parse(value);
                    options.transport =
                        named.ok_or_else(|| wrong("needs auto, classic, uring or fastest"))?;
                }
                "threads" => {
                    let number = value.parse::<usize>().map_err(|_| wrong("needs a number"))?;
                    options.threads = number.clamp(1, 256);
                }
                "nolock" => options.lock_memory = false,
                _ if IGNORED.contains(&option) => {}
                _ => return Err(wrong("is not known: size=, transport=, threads=, nolock")),
            }
        }
        Ok(options)
    }
}

/// A file system that is being served.
#[derive(Debug)]
pub struct Mounted {
    session: Session,
    dir: PathBuf,
    /// What ends it, in a process that does nothing else.
    signals: Option<Signals>,
}

/// Mounts an empty file system at `dir`, served by threads of this process; `source` is what the table of mounts shows.
///
/// # Errors
/// What was tried, and what the system says.
pub fn mount(source: &Path, dir: &Path, options: &Options) -> Result<Mounted, String> {
    keep_heap();
    let dir = dir.canonicalize().map_err(|error| format!("{}: {error}", dir.display()))?;
    let probe = Arc::new(Probe::new(NAME));
    let place = MountPoint {
        name: NAME,
        source,
        dir: &dir,
        fs_type: TYPE,
        flags: MountFlags::NOATIME,
        transport: options.transport,
        threads: options.threads,
        stand_back: true,
    };
    let server = || Arc::new(Server::new(options.bytes, probe.clone()));
    let session = place.serve(&local::wish(init_flag::DO_READDIRPLUS), server);
    let session = session.map_err(|StartError { what, cause }| format!("{what}: {cause}"))?;
    probe.open_in(&dir, &session.notifier());
    Ok(Mounted { session, dir, signals: None })
}

/// Has the allocator keep what is freed: a file system that makes and removes files needs it again.
fn keep_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: this request takes numbers and touches no memory of ours.
    let _ = unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, KEEP_BYTES) };
}

impl Mounted {
    /// Serves until somebody unmounts; of a mount made by [`mount_apart`] SIGTERM, SIGINT and SIGHUP do.
    ///
    /// # Errors
    /// What broke the connection.
    pub fn serve(self) -> std::io::Result<()> {
        let Mounted { session, dir, signals } = self;
        if let Some(mut signals) = signals {
            std::thread::spawn(move || {
                for _ in signals.forever() {
                    if let Err(error) = fusewire::unmount(&dir) {
                        daemon::log::error(format_args!("unmount {}: {error}", dir.display()));
                    }
                }
            });
        }
        session.join()
    }

    /// Unmounts, and waits for the last user.
    ///
    /// # Errors
    /// What the system says.
    pub fn unmount(self) -> std::io::Result<()> {
        fusewire::unmount(&self.dir)?;
        self.session.join()
    }
}

/// Mounts in a new process: `program`, whose `main` calls [`daemon_main`] with the arguments behind `word`. Returns its
/// number when the mount is there.
///
/// # Errors
/// In the daemon's words.
pub fn mount_daemon(
    (program, word): (&Path, &str),
    source: &OsStr,
    dir: &Path,
    options: &str,
) -> Result<u32, String> {
    let dir = dir.canonicalize().map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut command = Command::new(program);
    command.arg(word).arg(source).arg(dir).arg(options);
    daemon::launch(&mut command)
}

/// The daemon's `main`.
pub fn daemon_main(arguments: &[OsString]) -> ExitCode {
    let [source, dir, options] = arguments else {
        eprintln!("fuse-limit: the daemon is started by `loadline mount fuse-limit`");
        return ExitCode::FAILURE;
    };
    let start = || {
        let options = Options::parse(&options.to_string_lossy())?;
        mount_apart(Path::new(source), Path::new(dir), &options)
    };
    let Some(mounted) = daemon::come_up(NAME, None, start) else { return ExitCode::FAILURE };
    match mounted.serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            daemon::log::error(error);
            ExitCode::FAILURE
        }
    }
}

/// As [`mount`], in a process that does nothing else, which a panic ends: outside of its starter's memory cgroup, with its
/// memory locked.
///
/// # Errors
/// As of [`mount`].
pub fn mount_apart(source: &Path, dir: &Path, options: &Options) -> Result<Mounted, String> {
    daemon::log::begin(NAME, None).map_err(|error| error.to_string())?;
    let mut notes: Vec<String> = daemon::leave_cgroup(&Host::system()).err().into_iter().collect();
    if options.lock_memory {
        notes.extend(daemon::lock_memory().err());
    }
    let signals =
        daemon::take_signals().map_err(|error| notes.push(format!("no signal ends it: {error}"))).ok();
    notes.iter().for_each(|note| eprintln!("fuse-limit: {note}"));
    Ok(Mounted { signals, ..mount(source, dir, options)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_named() {
        let options = Options::parse("rw,size=64M,threads=3,transport=classic,nolock").expect("parse");
        assert_eq!((options.bytes, options.threads, options.lock_memory), (64 << 20, 3, false));
        assert_eq!(options.transport, Transport::Classic);
        for bad in ["size=x", "size", "threads=-1", "transport=pigeon", "cache=64M"] {
            let refused = Options::parse(bad).expect_err("parsed");
            assert!(refused.contains(&format!("`{bad}`")), "{refused}");
        }
    }
}
