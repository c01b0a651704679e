//! Attach, detach, list, stats, power cut: what the command line and the laboratory call.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use host::{Host, ProcessId};
use journal::{Journal, Resource};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use ssd::Fault;

use crate::control::{self, Reply, Request, SsdState, Started};
use crate::error::SsdError;
use crate::fusectl;
use crate::options::{
    AttachOptions, BackingUse, CONFIG, DaemonConfig, DevicePaths, LOG, STATE, check_name, is_path,
};
use crate::record::RecordStatus;
use crate::status::SsdStatus;
use crate::versions::CutReport;

/// How long a daemon may take to bring a device up (a prefault of tens of GiB included).
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take to answer, or to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Saving an image takes as long as its file system.
const SAVE_PATIENCE: Duration = Duration::from_secs(600);
/// Reads that measure the transport: so many batches of so many.
const PROBE_BATCHES: usize = 25;
const PROBE_BATCH: usize = 31;
/// More than this is not made up for: the machine is busy, not the way long.
const LEAD_NS_MAX: u64 = 20_000;
/// How often a busy machine is given a moment before it is measured again.
const PROBE_TRIES: u32 = 4;
const PROBE_PAUSE: Duration = Duration::from_millis(100);
/// No batch is begun later than this: on a machine so busy, or emulated, each read is longer than what is made up for.
const PROBE_SPAN: Duration = Duration::from_secs(2);

/// The program that becomes the daemon: it must call [`crate::daemon::main`] with its last argument.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// Absolute path.
    pub program: Utf8PathBuf,
    /// Arguments before the path of the configuration.
    pub args: Vec<String>,
}

impl Launcher {
    /// This program, called with the hidden argument `ssd-daemon`.
    ///
    /// # Errors
    /// [`SsdError::Io`] if the path of this program cannot be told.
    pub fn this_program() -> Result<Launcher, SsdError> {
        let what = "find this program's path";
        let program = std::env::current_exe().map_err(SsdError::io(what))?;
        let program = Utf8PathBuf::from_path_buf(program)
            .map_err(|path| SsdError::BadOption { what: format!("{} is not UTF-8", path.display()) })?;
        Ok(Launcher { program, args: vec!["ssd-daemon".to_owned()] })
    }
}

/// An attached device. Dropped, it is detached, by force if it must be.
#[derive(Debug)]
pub struct Attached {
    home: Utf8PathBuf,
    state: SsdState,
    child: Option<Child>,
    kept: bool,
}

impl Attached {
    /// The block device, such as `/dev/loop3`.
    pub fn device(&self) -> &Utf8Path {
        &self.state.device
    }

    /// All about it.
    pub fn state(&self) -> &SsdState {
        &self.state
    }

    /// Leaves the device attached when this value and the process are gone.
    ///
    /// # Errors
    /// [`SsdError::Silent`] when the daemon is dead or hangs; then the device is detached.
    pub fn keep(mut self) -> Result<SsdState, SsdError> {
        match question(&self.home, &self.state.name, &Request::Keep, PATIENCE)? {
            Reply::Done => {}
            reply => return Err(unexpected(&reply)),
        }
        self.kept = true;
        Ok(self.state.clone())
    }

    /// Counters.
    ///
    /// # Errors
    /// [`SsdError::Silent`] when the daemon is dead or hangs.
    pub fn stats(&self) -> Result<SsdStatus, SsdError> {
        stats(&self.home, &self.state.name)
    }

    /// Cuts the power; see [`power_cut`].
    ///
    /// # Errors
    /// As [`power_cut`].
    pub fn power_cut(&self, image: &Utf8Path) -> Result<CutReport, SsdError> {
        power_cut(&self.home, &self.state.name, image)
    }

    /// Marks a place in the recording; see [`mark`].
    ///
    /// # Errors
    /// As [`mark`].
    pub fn mark(&self, text: &str) -> Result<RecordStatus, SsdError> {
        mark(&self.home, &self.state.name, text)
    }

    /// Has requests fail; see [`fail`].
    ///
    /// # Errors
    /// As [`fail`].
    pub fn fail(&self, faults: &[Fault]) -> Result<(), SsdError> {
        fail(&self.home, &self.state.name, faults)
    }

    /// Makes what was recorded readable; see [`sync_record`].
    ///
    /// # Errors
    /// As [`sync_record`].
    pub fn sync_record(&self) -> Result<RecordStatus, SsdError> {
        sync_record(&self.home, &self.state.name)
    }

    /// Detaches. After an error (such as [`SsdError::Busy`]) the device is as it was.
    ///
    /// Its owner has unmounted it, but whoever entered a mount namespace of his own meanwhile (a container, a service) has a
    /// copy of the mount until he ends or unmounts it: that is waited for.
    ///
    /// # Errors
    /// As [`detach`].
    pub fn detach(&mut self) -> Result<(), SsdError> {
        let mut result = Ok(());
        host::wait::wait_until(PATIENCE, || {
            result = detach(&self.home, &self.state.name, false);
            !matches!(result, Err(SsdError::Busy { .. }))
        });
        result?;
        self.kept = true;
        self.reap();
        Ok(())
    }

    fn reap(&mut self) {
        self.child.as_mut().map(reap);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let (home, name) = (&self.home, &self.state.name);
        if let Err(error) = detach(home, name, false).or_else(|_| detach(home, name, true)) {
            tracing::warn!(%error, name, "the emulated SSD could not be detached");
            return;
        }
        self.reap();
    }
}

/// Attaches a device; `home` is loadline's home directory. What a killed daemon leaves behind is in
/// `home/journal`, where `loadline doctor` looks.
///
/// # Errors
/// [`SsdError::NotRoot`], [`SsdError::Exists`], bad options, or what the daemon could not do.
pub fn attach(home: &Utf8Path, options: &AttachOptions, launcher: &Launcher) -> Result<Attached, SsdError> {
    options.validate()?;
    let host = Host::system();
    if !host.has_sys_admin() {
        return Err(SsdError::NotRoot);
    }
    // whatever the umask is: the journal is not relied on below what others may write to
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(home);
    made.map_err(SsdError::io(format!("make {home}")))?;
    let home = home.canonicalize_utf8().map_err(SsdError::io(format!("resolve {home}")))?;
    // looked at first, so that nobody has directories made where he likes
    host::place::check_for_new(&home).map_err(|error| SsdError::io(format!("use {home}"))(error.into()))?;
    let places = DevicePaths::new(&home, &options.name);
    if let Some(state) = read_state(&places)? {
        if Daemon::find(&host, &places, &state).is_some() {
            return Err(SsdError::Exists { name: options.name.clone(), device: state.device });
        }
        clean_dead(&home, &options.name)?;
    }
    prepare(&home, &places, options)?;
    let _attaching = places.hold().map_err(SsdError::io(format!("lock {}", places.dir)))?;
    let (child, started) = launch(&places, launcher)?;
    let state = match started {
        Some(Started::Ready(state)) => state,
        other => {
            give_up(&host, &home, &places, child, &options.name);
            let message = match other {
                Some(Started::Failed(message)) => message,
                _ => format!("was not ready within {} s", START_PATIENCE.as_secs()),
            };
            return Err(SsdError::Daemon { message });
        }
    };
    let attached = Attached { home, state, child: Some(child), kept: false };
    if options.compensate {
        calibrate(&places, &attached.state)?;
    }
    Ok(attached)
}

fn prepare(home: &Utf8Path, places: &DevicePaths, options: &AttachOptions) -> Result<(), SsdError> {
    places.remove();
    for dir in [home.join("ssd"), places.dir.clone(), places.mount()] {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        made.map_err(SsdError::io(format!("make {dir}")))?;
    }
    let mut options = options.clone();
    // the daemon's working directory is another
    for path in [&mut options.profile] {
        if is_path(path) {
            *path = absolute(Utf8Path::new(path))?.into_string();
        }
    }
    if let crate::options::Backing::File(path) = &mut options.backing {
        *path = absolute(path)?;
    }
    if let BackingUse::Overwrite { erase: Some(path) } = &mut options.backing_use {
        *path = absolute(path)?;
    }
    if let Some(path) = &mut options.record {
        *path = absolute(path)?;
    }
    let config = DaemonConfig { home: home.to_owned(), options };
    let text = serde_json::to_vec_pretty(&config)
        .map_err(|e| SsdError::BadOption { what: format!("options: {e}") })?;
    let written = places.folder().and_then(|folder| folder.write(CONFIG, &text));
    written.map_err(SsdError::io(format!("write {}", places.config())))
}

fn absolute(path: &Utf8Path) -> Result<Utf8PathBuf, SsdError> {
    camino::absolute_utf8(path).map_err(SsdError::io(format!("resolve {path}")))
}

/// Starts the daemon and waits for its first line.
fn launch(places: &DevicePaths, launcher: &Launcher) -> Result<(Child, Option<Started>), SsdError> {
    let log = places.folder().and_then(|folder| folder.create(LOG));
    let log = log.map_err(SsdError::io(format!("write {}", places.log())))?;
    let mut command = Command::new(&launcher.program);
    command.args(&launcher.args).arg(places.config()).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    host::process::pass_only_stdio(&mut command);
    let mut child = command.spawn().map_err(SsdError::io(format!("start {}", launcher.program)))?;
    let Some(stdout) = child.stdout.take() else { return Ok((child, None)) };
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = tell.send(control::receive::<Started>(stdout).ok());
    });
    let started = told.recv_timeout(START_PATIENCE).ok().flatten();
    Ok((child, started))
}

/// Waits for the end of a daemon, but not for ever: one that waits for its device does not end, not even when killed.
fn reap(child: &mut Child) {
    host::wait::wait_until(PATIENCE, || !matches!(child.try_wait(), Ok(None)));
}

/// Takes away a daemon that did not come up, and what it had made.
fn give_up(host: &Host, home: &Utf8Path, places: &DevicePaths, mut child: Child, name: &str) {
    if let Some(connection) = fusectl::connection(host, &places.mount()) {
        let _ = fusectl::abort(connection, &places.dir);
    }
    let _ = child.kill();
    reap(&mut child);
    if let Err(error) = clean_dead(home, name) {
        tracing::warn!(%error, name, "a daemon that did not come up left something behind");
    }
}

/// Measures the way through loop and FUSE, or ublk, with reads that the model does not see.
fn calibrate(places: &DevicePaths, state: &SsdState) -> Result<(), SsdError> {
    let socket = places.socket();
    let tell = |question| control::ask(&socket, &question, PATIENCE).map(|_| ());
    let silent = |source: io::Error| SsdError::Silent { name: state.name.clone(), what: source.to_string() };
    tell(Request::Bypass(true)).map_err(silent)?;
    let (done, measured) = mpsc::channel();
    let device = state.device.clone();
    std::thread::spawn(move || {
        let begin = Instant::now();
        // A slow read is no hang: of each batch is told that it came back.
        let goes_on = || done.send(None).is_ok() && begin.elapsed() < PROBE_SPAN;
        let mut lead = transport_ns(&device, &goes_on);
        for _ in 1..PROBE_TRIES {
            if lead.as_ref().is_ok_and(|ns| *ns <= LEAD_NS_MAX) || !goes_on() {
                break;
            }
            std::thread::sleep(PROBE_PAUSE);
            lead = transport_ns(&device, &goes_on);
        }
        let _ = done.send(Some(lead));
    });
    let lead = loop {
        match measured.recv_timeout(PATIENCE) {
            Ok(None) => {}
            Ok(Some(lead)) => break Some(lead),
            Err(_) => break None,
        }
    };
    tell(Request::Bypass(false)).map_err(silent)?;
    match lead {
        Some(Ok(lead)) => tell(Request::Lead(lead.min(LEAD_NS_MAX))).map_err(silent),
        Some(Err(error)) => Err(SsdError::io(format!("read {}", state.device))(error)),
        None => Err(SsdError::Silent { name: state.name.clone(), what: "reads hang".into() }),
    }
}

/// The usual time of a 4 KiB direct read, in the quietest of several batches, but at most one and a half times that of
/// the fastest of all: what the way takes on a machine that is not busy, so that a busy one does not make a device
/// faster than its model. Between batches `goes_on` may end it.
fn transport_ns(device: &Utf8Path, goes_on: &dyn Fn() -> bool) -> io::Result<u64> {
    let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(device)?;
    let mut memory = vec![0u8; 3 * 4096];
    let start = memory.as_ptr().align_offset(4096);
    let buffer = &mut memory[start..start + 4096];
    let (mut quietest, mut fastest) = (u64::MAX, u64::MAX);
    for _ in 0..PROBE_BATCHES {
        let mut times = [0; PROBE_BATCH];
        for time in &mut times {
            let before = Instant::now();
            file.read_exact_at(buffer, 0)?;
            *time = before.elapsed().as_nanos() as u64;
        }
        times.sort_unstable();
        quietest = quietest.min(times[PROBE_BATCH / 2]);
        fastest = fastest.min(times[0]);
        if !goes_on() {
            break;
        }
    }
    Ok(quietest.min(fastest + fastest / 2))
}

/// What a daemon has written of itself, where nobody else can have written it. `None` if there is nothing, or a part of it:
/// the daemon ended while it wrote.
///
/// # Errors
/// [`SsdError::Io`] with what speaks against a directory or file that somebody else can have written.
fn read_state(places: &DevicePaths) -> Result<Option<SsdState>, SsdError> {
    match places.folder().and_then(|folder| folder.read(STATE)) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SsdError::io(format!("read {}", places.state()))(error)),
    }
}

/// As [`read_state`], of a device that there must be.
fn known_state(places: &DevicePaths, name: &str) -> Result<SsdState, SsdError> {
    read_state(places)?.ok_or_else(|| SsdError::NotFound { name: name.to_owned() })
}

/// The places of the device `name`, with all links on the way to `home` followed once.
fn places(home: &Utf8Path, name: &str) -> DevicePaths {
    DevicePaths::new(&home.canonicalize_utf8().unwrap_or_else(|_| home.to_owned()), name)
}

/// The living daemon of a device, pinned: a number that is used again can never be signalled.
struct Daemon {
    process: ProcessId,
    pidfd: OwnedFd,
}

impl Daemon {
    /// The process that `state` names, if it can be proved to be the daemon: of this boot, of that start time, and started with
    /// the configuration in the device's own directory. Whatever else has its number is let alone.
    fn find(host: &Host, places: &DevicePaths, state: &SsdState) -> Option<Daemon> {
        let process = state.daemon;
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // older daemons did not write it
        let is_of_this_boot = state.boot_id.is_empty() || state.boot_id == host.boot_id();
        let command = host.read(format!("/proc/{}/cmdline", process.pid)).ok()?;
        let is_ours = command.split('\0').rfind(|word| !word.is_empty()) == Some(places.config().as_str());
        (is_of_this_boot && is_ours && process.is_alive(host)).then_some(Daemon { process, pidfd })
    }

    /// Aborts its connection, wherever that is mounted. The number may be another file system's by now: so the connection is
    /// pinned before it is asked whose it is, and the process asked once more whether it is still the daemon.
    fn abort(&self, host: &Host, places: &DevicePaths, connection: u32) -> io::Result<()> {
        let Some(pinned) = fusectl::Pinned::open(connection, &places.dir)? else { return Ok(()) };
        let serves = fusectl::serves(host, self.process.pid, &places.mount(), connection);
        if serves && self.process.is_alive(host) { pinned.abort() } else { Ok(()) }
    }

    fn kill(&self, host: &Host) -> Result<(), SsdError> {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        if self.wait_for_end(host) {
            return Ok(());
        }
        let message = format!("process {} does not end, not even when killed", self.process.pid);
        Err(SsdError::Daemon { message })
    }

    fn wait_for_end(&self, host: &Host) -> bool {
        host::wait::wait_until(PATIENCE, || !self.process.is_alive(host))
    }
}

/// A device in the list.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Listed {
    /// What it is.
    pub state: SsdState,
    /// Whether its daemon lives; a dead one's remains go with `detach`.
    pub alive: bool,
}

/// The devices attached from `home`, by name.
///
/// # Errors
/// [`SsdError::Io`] if the directory cannot be read, or what is in it is not to be trusted.
pub fn list(home: &Utf8Path) -> Result<Vec<Listed>, SsdError> {
    let host = Host::system();
    let dir = home.join("ssd");
    let entries = match dir.read_dir_utf8() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(SsdError::io(format!("read {dir}"))(error)),
    };
    let mut found = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let places = places(home, entry.file_name());
        if let Some(state) = read_state(&places)? {
            found.push(Listed { alive: Daemon::find(&host, &places, &state).is_some(), state });
        }
    }
    found.sort_by(|a, b| a.state.name.cmp(&b.state.name));
    Ok(found)
}

fn question(home: &Utf8Path, name: &str, question: &Request, patience: Duration) -> Result<Reply, SsdError> {
    check_name(name)?;
    let places = places(home, name);
    let state = known_state(&places, name)?;
    let reply = control::ask(&places.socket(), question, patience)
        .map_err(|error| SsdError::Silent { name: name.to_owned(), what: error.to_string() })?;
    match reply {
        Reply::Error(message) => Err(SsdError::Daemon { message }),
        Reply::Busy => Err(SsdError::Busy { device: state.device }),
        reply => Ok(reply),
    }
}

fn unexpected(reply: &Reply) -> SsdError {
    SsdError::Daemon { message: format!("unexpected answer {reply:?}") }
}

/// Counters of the device `name`.
///
/// # Errors
/// [`SsdError::NotFound`]; [`SsdError::Silent`] when the daemon is dead or hangs.
pub fn stats(home: &Utf8Path, name: &str) -> Result<SsdStatus, SsdError> {
    match question(home, name, &Request::Status, PATIENCE)? {
        Reply::Status(status) => Ok(*status),
        reply => Err(unexpected(&reply)),
    }
}

/// Cuts the power of the device `name`: from now on every request fails, and what survived is saved in the
/// new sparse file `image`. The block device stays until it is detached.
///
/// # Errors
/// As [`stats`]; [`SsdError::Daemon`] if the power is off already or the image cannot be written.
pub fn power_cut(home: &Utf8Path, name: &str, image: &Utf8Path) -> Result<CutReport, SsdError> {
    match question(home, name, &Request::PowerCut(absolute(image)?), SAVE_PATIENCE)? {
        Reply::PowerCut(report) => Ok(report),
        reply => Err(unexpected(&reply)),
    }
}

/// Marks a place in the recording of the device `name`, such as "the fsync of f7 has returned": everything that
/// was answered before the call stands before the mark. Text beyond 64 KiB is cut off.
///
/// # Errors
/// As [`sync_record`].
pub fn mark(home: &Utf8Path, name: &str, text: &str) -> Result<RecordStatus, SsdError> {
    record(home, name, Some(text.to_owned()))
}

/// Writes what was recorded so far to the file of [`AttachOptions::record`], so that it can be read while the
/// device is attached.
///
/// # Errors
/// As [`stats`]; [`SsdError::NotRecorded`]; [`SsdError::Daemon`] if the file cannot be written or, for a mark,
/// the power is off.
pub fn sync_record(home: &Utf8Path, name: &str) -> Result<RecordStatus, SsdError> {
    record(home, name, None)
}

fn record(home: &Utf8Path, name: &str, mark: Option<String>) -> Result<RecordStatus, SsdError> {
    match question(home, name, &Request::Record { mark }, SAVE_PATIENCE)? {
        Reply::Record(Some(status)) => Ok(status),
        Reply::Record(None) => Err(SsdError::NotRecorded { name: name.to_owned() }),
        reply => Err(unexpected(&reply)),
    }
}

/// Has these requests of the device `name` fail with EIO, counted from now on, and no others; none if it is empty.
///
/// # Errors
/// As [`stats`].
pub fn fail(home: &Utf8Path, name: &str, faults: &[Fault]) -> Result<(), SsdError> {
    match question(home, name, &Request::Fail(faults.to_vec()), PATIENCE)? {
        Reply::Done => Ok(()),
        reply => Err(unexpected(&reply)),
    }
}

/// Detaches the device `name`. With `force` also one that is in use or whose daemon hangs: its connection is
/// aborted, so that every request on it fails instead of waiting.
///
/// # Errors
/// [`SsdError::Busy`] without `force`; [`SsdError::Daemon`] with what could not be taken away.
pub fn detach(home: &Utf8Path, name: &str, force: bool) -> Result<(), SsdError> {
    check_name(name)?;
    let host = Host::system();
    let home = home.canonicalize_utf8().unwrap_or_else(|_| home.to_owned());
    let places = DevicePaths::new(&home, name);
    let state = known_state(&places, name)?;
    let Some(daemon) = Daemon::find(&host, &places, &state) else {
        return clean_dead(&home, name);
    };
    if force {
        if let Some(connection) = state.connection {
            daemon
                .abort(&host, &places, connection)
                .map_err(SsdError::io(format!("abort FUSE connection {connection}")))?;
        }
        // the kernel fails the requests of a ublk device whose server has ended
        daemon.kill(&host)?;
        return clean_dead(&home, name);
    }
    match question(&home, name, &Request::Detach, PATIENCE)? {
        Reply::Detached(left) if left.is_empty() => {
            if !daemon.wait_for_end(&host) {
                let message =
                    format!("the device is detached, but process {} does not end", daemon.process.pid);
                return Err(SsdError::Daemon { message });
            }
            places.remove();
            Ok(())
        }
        Reply::Detached(left) => Err(SsdError::Daemon { message: left.join("; ") }),
        reply => Err(unexpected(&reply)),
    }
}

/// Takes away the directories of devices that were being attached when their command was killed, and of dead daemons of
/// which nothing else is left; their names.
///
/// # Errors
/// [`SsdError::Io`] if `home` cannot be read.
pub fn sweep(home: &Utf8Path) -> Result<Vec<String>, SsdError> {
    let host = Host::system();
    let dir = home.join("ssd");
    let entries = match dir.read_dir_utf8() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(SsdError::io(format!("read {dir}"))(error)),
    };
    let mut swept = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let places = places(home, entry.file_name());
        let alive = match read_state(&places) {
            Ok(state) => state.is_some_and(|state| Daemon::find(&host, &places, &state).is_some()),
            // Whose it is does not stand there.
            Err(_) => true,
        };
        if alive || places.is_held() || fusectl::connection(&host, &places.mount()).is_some() {
            continue;
        }
        places.remove();
        if !places.dir.exists() {
            swept.push(entry.file_name().to_owned());
        }
    }
    swept.sort();
    Ok(swept)
}

/// Takes away what the dead daemon of `name` left: loop device, mount, files.
///
/// # Errors
/// [`SsdError::Journal`]; [`SsdError::Daemon`] with what could not be taken away.
pub fn clean_dead(home: &Utf8Path, name: &str) -> Result<(), SsdError> {
    check_name(name)?;
    let places = places(home, name);
    let ours = |resource: &Resource| match resource {
        Resource::Mount { target, .. } => *target == places.mount(),
        Resource::UblkDevice { owner, .. } => *owner == places.dir,
        _ => false,
    };
    for leftover in Journal::leftovers(&places.journal)? {
        if leftover.resources.iter().any(ours) {
            let report = leftover.clean()?;
            if report.has_failures() {
                return Err(SsdError::Daemon { message: report.to_string() });
            }
        }
    }
    if fusectl::connection(&Host::system(), &places.mount()).is_some() {
        return Err(SsdError::Daemon { message: format!("{} is still mounted", places.mount()) });
    }
    places.remove();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::transport::Transport;

    fn state(name: &str, daemon: ProcessId) -> SsdState {
        SsdState {
            name: name.into(),
            daemon,
            boot_id: Host::system().boot_id(),
            device: "/dev/loop-none".into(),
            mount: "/nowhere".into(),
            connection: None,
            transport: Transport::default(),
            what: String::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_forced_detach_ends_no_process_that_it_cannot_prove_to_be_its_daemon() {
        let (dir, host) = (tempfile::tempdir().unwrap(), Host::system());
        let home = Utf8Path::from_path(dir.path()).unwrap().canonicalize_utf8().unwrap();
        let places = DevicePaths::new(&home, "a");
        std::fs::create_dir_all(&places.dir).unwrap();
        let mut bystander = Command::new("sleep").arg("600").spawn().unwrap();
        let process = ProcessId::read(&host, bystander.id()).unwrap();
        let text = serde_json::to_vec(&state("a", process)).unwrap();
        places.folder().unwrap().write(STATE, &text).unwrap();
        let detached = detach(&home, "a", true);
        let lives = process.is_alive(&host);
        bystander.kill().unwrap();
        bystander.wait().unwrap();
        assert!(lives, "a bystander was killed");
        detached.unwrap();
        assert!(!places.dir.exists(), "the dead daemon's files stay");
    }

    #[test]
    fn a_daemon_of_another_boot_or_another_directory_is_none() {
        let (dir, host) = (tempfile::tempdir().unwrap(), Host::system());
        let places = DevicePaths::new(Utf8Path::from_path(dir.path()).unwrap(), "a");
        // its last argument is the path of the configuration, as a daemon's is
        let script = ["-c", "while :; do sleep 1; done", "daemon"];
        let mut child = Command::new("sh").args(script).arg(places.config()).spawn().unwrap();
        let begun = host::wait::wait_until(PATIENCE, || {
            ProcessId::read(&host, child.id())
                .is_some_and(|process| Daemon::find(&host, &places, &state("a", process)).is_some())
        });
        let process = ProcessId::read(&host, child.id()).unwrap();
        let other_boot = SsdState { boot_id: "another".into(), ..state("a", process) };
        let other_start = ProcessId { start_ticks: process.start_ticks + 1, ..process };
        let elsewhere = DevicePaths::new(Utf8Path::from_path(dir.path()).unwrap(), "b");
        let found = [
            Daemon::find(&host, &places, &other_boot).is_some(),
            Daemon::find(&host, &places, &state("a", other_start)).is_some(),
            Daemon::find(&host, &elsewhere, &state("a", process)).is_some(),
        ];
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(begun, "the daemon is not known again");
        assert_eq!(found, [false; 3]);
    }

    #[test]
    fn a_state_that_is_not_trusted_is_named_and_its_device_let_alone() {
        let dir = tempfile::tempdir().unwrap();
        let places = DevicePaths::new(Utf8Path::from_path(dir.path()).unwrap(), "a");
        std::fs::create_dir_all(&places.dir).unwrap();
        let process = ProcessId::current(&Host::system()).unwrap();
        let elsewhere = dir.path().join("planted");
        std::fs::write(&elsewhere, serde_json::to_vec(&state("a", process)).unwrap()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, places.state()).unwrap();
        let home = Utf8Path::from_path(dir.path()).unwrap();
        let assert_refused = |why: &str| {
            let errors = [
                read_state(&places).map(drop).unwrap_err(),
                detach(home, "a", true).unwrap_err(),
                stats(home, "a").map(drop).unwrap_err(),
                list(home).map(drop).unwrap_err(),
            ];
            for error in errors {
                let text = format!("{error}");
                assert!(text.contains(places.state().as_str()) && text.contains(why), "{text}");
            }
            assert!(sweep(home).unwrap().is_empty() && places.dir.exists(), "it was taken away");
        };
        assert_refused("");
        std::fs::remove_file(places.state()).unwrap();
        std::fs::copy(&elsewhere, places.state()).unwrap();
        assert!(read_state(&places).unwrap().is_some());
        std::fs::set_permissions(places.state(), std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_refused("writable by others");
        std::fs::remove_file(places.state()).unwrap();
        assert!(matches!(detach(home, "a", true), Err(SsdError::NotFound { .. })));
    }
}
