//! A mount in a process of its own, which ends when the file system is unmounted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use host::Host;
use host::daemon::log;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use crate::memory;
use crate::mount::{MountError, MountOptions, Mounted, Result, mount_fs, open_to_serve};

/// Its name in the logs.
const NAME: &str = "betrfs";

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
    let mut command = Command::new(&launcher.program);
    command.args(&launcher.args);
    command.args([source.as_os_str(), dir.as_os_str(), shown.as_os_str()]).arg(options);
    host::daemon::launch(&mut command).map_err(MountError::Daemon)
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
    let log = options.as_ref().ok().and_then(|options| options.log.clone());
    let begin = || options.and_then(|o| start(Path::new(source), Path::new(dir), &o));
    host::daemon::come_up(NAME, log.as_deref(), begin).map_or(ExitCode::FAILURE, ServedMount::serve)
}

fn start(source: &Path, dir: &Path, options: &MountOptions) -> Result<ServedMount> {
    memory::flush_io();
    let mut notes: Vec<String> = memory::leave_cgroup(&Host::system()).err().into_iter().collect();
    if options.lock_memory {
        notes.extend(memory::lock().err());
    }
    notes.iter().for_each(|note| eprintln!("betrfs: {note}"));
    ServedMount::mount(source, dir, options)
}

/// A mount that this process is there for.
pub struct ServedMount {
    mounted: Mounted,
    signals: Option<Signals>,
}

impl ServedMount {
    /// As [`mount`](crate::mount()), in a process that does nothing else: a panic ends it. Before it can be seen signals end this
    /// process, a recovery as well; from then on they wait for [`ServedMount::serve`].
    ///
    /// # Errors
    /// As of [`mount`](crate::mount()).
    pub fn mount(source: &Path, dir: &Path, options: &MountOptions) -> Result<ServedMount> {
        let at = || options.log.as_ref().map_or_else(String::new, |path| path.display().to_string());
        log::begin(NAME, options.log.as_deref())
            .map_err(|error| MountError::io(format!("open the log {}", at()))(error))?;
        let fs = open_to_serve(source, options)?;
        if let Some(lost) = fs.store().lost() {
            eprintln!("betrfs: {}: {lost}", source.display());
        }
        let signals = host::daemon::take_signals();
        let signals = signals.map_err(|error| eprintln!("betrfs: no signal ends it: {error}")).ok();
        let mounted = mount_fs(fs, source, dir, options)?;
        Ok(ServedMount { mounted, signals })
    }

    /// Serves until unmounted; SIGTERM and SIGINT unmount, SIGHUP makes what was written safe.
    pub fn serve(self) -> ExitCode {
        let ServedMount { mounted, signals } = self;
        if let Some(mut signals) = signals {
            // not the file system itself, which would keep the device
            let (fs, unmounter) = (Arc::downgrade(mounted.fs()), mounted.unmounter());
            std::thread::spawn(move || {
                for signal in signals.forever() {
                    match fs.upgrade().map(|fs| fs.sync_without_report()) {
                        Some(Ok(true)) => {
                            log::error("a signal's sync: there is no space for what is known of some inodes")
                        }
                        Some(Err(error)) => log::error(format_args!("a signal's sync: {error}")),
                        Some(Ok(false)) | None => {}
                    }
                    if signal != SIGHUP
                        && let Err(error) = unmounter.request()
                    {
                        log::error(error);
                    }
                }
            });
        }
        match mounted.wait() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                log::error(error);
                ExitCode::FAILURE
            }
        }
    }
}
