//! The process behind a device: serves the FUSE file, attaches it, answers questions, takes it all down.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use camino::Utf8Path;
use host::daemon::log;
use host::place::PrivateDir;
use host::{Host, ProcessId};
use journal::Journal;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use ssd::Faults;

use crate::assemble::{DeviceParts, KernelObjects};
use crate::control::{self, Reply, Request, SsdState, Started};
use crate::driver::Driver;
use crate::error::SsdError;
use crate::options::{AttachOptions, CONFIG, DaemonConfig, DevicePaths, FuaMode, STATE};
use crate::record::Recorder;
use crate::status::SsdStatus;
use crate::transport::Transport;
use crate::wake_lock::WakeLock;
use crate::{assemble, loopdev, memory, reply};

/// How long a client may take to send its question or take its answer.
const CLIENT_PATIENCE: Duration = Duration::from_secs(5);

/// The daemon's `main`: `config` is the file that `client::attach` wrote. Returns when the device is detached.
pub fn main(config: &Utf8Path) -> ExitCode {
    let begun = log::begin("ssd", None).map_err(SsdError::io("begin the log"));
    let (daemon, started) = match begun.and_then(|()| Daemon::start(config)) {
        Ok(daemon) => {
            let ready = Started::Ready(daemon.state.clone());
            (Some(daemon), ready)
        }
        Err(error) => (None, Started::Failed(error.to_string())),
    };
    // the one who waits for this line may have given up: then it takes the device down itself
    let _ = control::send(&mut io::stdout().lock(), &started);
    match daemon {
        Some(daemon) => daemon.serve(),
        None => ExitCode::FAILURE,
    }
}

/// How often a device whose owner is gone looks whether something still uses it.
const ORPHAN_TICK: Duration = Duration::from_millis(250);

struct Daemon {
    driver: Arc<Driver<reply::Reply>>,
    journal: Arc<Journal>,
    recorder: Option<Arc<Recorder>>,
    listener: UnixListener,
    options: AttachOptions,
    state: SsdState,
    places: DevicePaths,
    /// The owner has left the device to whoever detaches it.
    kept: AtomicBool,
    /// What detaches it, until it serves.
    signals: Option<Signals>,
    _held: File,
}

impl Daemon {
    fn start(config: &Utf8Path) -> Result<Daemon, SsdError> {
        let host = Host::system();
        let folder = config.parent().ok_or(io::ErrorKind::InvalidFilename.into());
        let text = folder.and_then(|folder| PrivateDir::open(folder)?.read(CONFIG));
        let text = text.map_err(SsdError::io(format!("read {config}")))?;
        let DaemonConfig { home, options } = serde_json::from_slice(&text)
            .map_err(|e| SsdError::BadOption { what: format!("{config}: {e}") })?;
        options.validate()?;
        // a session of its own: a closed terminal must not take the device away
        let _ = rustix::process::setsid();
        memory::precise_sleep();
        let notes: Vec<String> = memory::leave_cgroup(&host).err().into_iter().collect();
        let places = DevicePaths::new(&home, &options.name);
        let daemon = ProcessId::current(&host).ok_or(SsdError::NotRoot)?;
        let run_id = format!("ssd-{}-{}", options.name, daemon.pid);
        let journal = Journal::open(&places.journal, &run_id)?;
        let held = places.hold().map_err(SsdError::io(format!("lock {}", places.dir)))?;
        let started = Daemon::assemble(&host, &journal, (daemon, held), options, places, notes);
        if started.is_err() {
            journal.undo();
        }
        started
    }

    /// Puts the device together; all that it makes is in `journal`.
    fn assemble(
        host: &Host,
        journal: &Arc<Journal>,
        (daemon, held): (ProcessId, File),
        mut options: AttachOptions,
        places: DevicePaths,
        mut notes: Vec<String>,
    ) -> Result<Daemon, SsdError> {
        let mut engine = assemble::engine(host, journal, &options)?;
        // a ublk device has FUA or has none: nothing is guessed
        if options.fua == FuaMode::Modelled && options.transport != Transport::Ublk {
            engine.model_fua();
        }
        if options.regime.is_ordered() {
            engine.order_commits();
        }
        let recorder = match &options.record {
            Some(path) => Some(Arc::new(Recorder::create(path, options.bytes)?)),
            None => None,
        };
        if let Some(recorder) = &recorder {
            engine.record(recorder.clone());
        }
        let wakeful = if options.keep_awake { Some(WakeLock::open()) } else { None };
        let wakeful = wakeful.and_then(|opened| opened.map_err(|note| notes.push(note)).ok());
        let driver = Arc::new(Driver::new(engine, options.time_scale, wakeful));
        notes.extend(memory::lock().err());
        notes.extend(memory::urgent(true).err());
        let assembly = DeviceParts { host, journal, driver: &driver, options: &options, places: &places };
        let made = assembly.bring_up();
        // questions are answered like anything else
        notes.extend(memory::urgent(false).err());
        let KernelObjects { device, connection, listener, queues, transport, note } = made?;
        options.queues = queues;
        notes.extend(note);
        notes.extend(loopdev::tune(&device, options.load_profile()?.media.rotation.is_some()));
        let what = format!("{} {} {} bytes", options.profile, options.regime.name(), options.bytes);
        let name = options.name.clone();
        let state = SsdState {
            name,
            daemon,
            boot_id: host.boot_id(),
            device,
            mount: places.mount(),
            connection,
            transport,
            what,
            notes,
        };
        let (journal, kept) = (journal.clone(), AtomicBool::new(false));
        let signals = host::daemon::take_signals().ok();
        let daemon = Daemon {
            driver,
            journal,
            recorder,
            listener,
            options,
            state,
            places,
            kept,
            signals,
            _held: held,
        };
        daemon.write_state()?;
        Ok(daemon)
    }

    fn write_state(&self) -> Result<(), SsdError> {
        let path = self.places.state();
        let text = serde_json::to_vec_pretty(&self.state)
            .map_err(|e| SsdError::BadOption { what: format!("{path}: {e}") })?;
        let written = self.places.folder().and_then(|folder| folder.write(STATE, &text));
        written.map_err(SsdError::io(format!("write {path}")))
    }

    /// Answers one question after another until the device is detached.
    fn serve(mut self) -> ExitCode {
        let signals = self.signals.take();
        let this = Arc::new(self);
        let signalled = this.clone();
        if let Some(mut signals) = signals {
            std::thread::spawn(move || {
                for signal in signals.forever() {
                    // a device in use stays: its users would lose their data
                    if signal != SIGHUP && matches!(signalled.detach(), Reply::Detached(_)) {
                        std::process::exit(0);
                    }
                }
            });
        }
        if let Some(owner) = this.options.owner {
            let orphan = this.clone();
            std::thread::spawn(move || orphan.outlive(owner));
        }
        for stream in this.listener.incoming() {
            let Ok(stream) = stream else { continue };
            match this.converse(stream) {
                Ok(true) => return ExitCode::SUCCESS,
                Ok(false) => {}
                Err(error) => log::error(format_args!("control connection: {error}")),
            }
        }
        ExitCode::FAILURE
    }

    /// True when the device is gone.
    fn converse(&self, mut stream: UnixStream) -> io::Result<bool> {
        stream.set_read_timeout(Some(CLIENT_PATIENCE))?;
        stream.set_write_timeout(Some(CLIENT_PATIENCE))?;
        let reply = match control::receive(&stream)? {
            Request::Status => Reply::Status(Box::new(self.status())),
            Request::PowerCut(path) => self.power_cut(&path),
            Request::Bypass(on) => {
                self.driver.set_bypass(on);
                Reply::Done
            }
            Request::Lead(ns) => {
                self.driver.set_lead(ns);
                Reply::Done
            }
            Request::Fail(faults) => {
                self.driver.set_faults(Faults::new(faults));
                Reply::Done
            }
            Request::Record { mark } => self.record(mark.as_deref()),
            Request::Keep => {
                self.kept.store(true, Ordering::Relaxed);
                Reply::Done
            }
            Request::Detach => self.detach(),
        };
        let gone = matches!(reply, Reply::Detached(_));
        let sent = control::send(&mut stream, &reply);
        if gone { Ok(true) } else { sent.map(|()| false) }
    }

    /// Waits for the owner's end, then for the end of all use, and takes the device down: a killed run leaves a
    /// mount, which `loadline doctor` takes off.
    fn outlive(&self, owner: ProcessId) {
        let host = Host::system();
        let pid = i32::try_from(owner.pid).ok().and_then(rustix::process::Pid::from_raw);
        let flags = rustix::process::PidfdFlags::empty();
        if let Some(Ok(pidfd)) = pid.map(|pid| rustix::process::pidfd_open(pid, flags))
            && owner.is_alive(&host)
        {
            let mut wait = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
            while rustix::event::poll(&mut wait, None) == Err(rustix::io::Errno::INTR) {}
        }
        if self.kept.load(Ordering::Relaxed) {
            return;
        }
        while !matches!(self.detach(), Reply::Detached(_)) {
            std::thread::sleep(ORPHAN_TICK);
        }
        self.places.remove();
        std::process::exit(0);
    }

    fn detach(&self) -> Reply {
        if loopdev::is_busy(&self.state.device) {
            return Reply::Busy;
        }
        let report = self.journal.undo();
        self.driver.stop();
        if let Some(recorder) = &self.recorder
            && let Err(error) = recorder.sync()
        {
            log::error(error);
        }
        let bad = report.steps.iter().filter(|s| !s.outcome.is_final());
        let lines: Vec<String> = bad.map(|s| format!("{}: {:?}", s.resource, s.outcome)).collect();
        Reply::Detached(lines)
    }

    fn power_cut(&self, path: &Utf8Path) -> Reply {
        if path.exists() {
            return Reply::Error(format!("{path} exists; name a new file for the image"));
        }
        let Some((cut, versions)) = self.driver.power_cut() else {
            return Reply::Error("the power is off already".into());
        };
        if let Some(Err(error)) = self.recorder.as_ref().map(|r| r.sync()) {
            log::error(error);
        }
        match versions.save(&cut, path) {
            Ok(report) => Reply::PowerCut(report),
            Err(error) => Reply::Error(format!("save the image in {path}: {error}")),
        }
    }

    fn record(&self, mark: Option<&str>) -> Reply {
        let Some(recorder) = &self.recorder else { return Reply::Record(None) };
        if let Some(mark) = mark
            && !self.driver.with(|engine, _| engine.mark(mark))
        {
            return Reply::Error("the power is off: the recording has ended".into());
        }
        match recorder.sync() {
            Ok(status) => Reply::Record(Some(status)),
            Err(error) => Reply::Error(format!("the recording is incomplete: {error}")),
        }
    }

    fn status(&self) -> SsdStatus {
        let ((stats, wear, depth, superseded_bytes, power_cut), failed, facts) =
            self.driver.with(|engine, facts| {
                let ssd = engine.ssd();
                let of_device =
                    (ssd.stats(), ssd.wear(), engine.depth(), engine.superseded_bytes(), engine.is_cut());
                (of_device, engine.failed(), facts)
            });
        let mut counters: BTreeMap<String, u64> = match serde_json::to_value(stats) {
            Ok(serde_json::Value::Object(map)) => {
                map.into_iter().filter_map(|(name, value)| Some((name, value.as_u64()?))).collect()
            }
            _ => Default::default(),
        };
        counters.insert("failed_requests".into(), failed.requests);
        counters.insert("lost_blocks".into(), failed.lost_blocks);
        let reads = stats.host_read_blocks;
        SsdStatus {
            name: self.options.name.clone(),
            profile: self.options.profile.clone(),
            regime: self.options.regime.name().to_owned(),
            fua: self.options.fua,
            transport: self.state.transport,
            queues: self.options.queues,
            device: self.state.device.clone(),
            bytes: self.options.bytes,
            power_cut,
            write_amplification: stats.write_amplification(),
            cache_hit_ratio: (reads > 0).then(|| stats.cache_hit_blocks as f64 / reads as f64),
            queue_depth: depth.0,
            queue_depth_max: depth.1,
            wear,
            superseded_bytes,
            answers: facts.answers,
            late_ns_mean: facts.late_ns_mean,
            late_ns_max: facts.late_ns_max,
            lead_ns: facts.lead_ns,
            record: self.recorder.as_ref().map(|r| r.status()),
            counters,
        }
    }
}
