//! The worker's side of a trial: a process that reads a request, gets ready, waits at the gate, runs the load or its part, and
//! tells what happens.
//!
//! It is a process of its own so that a memory limit binds the load alone, a time-out can kill it, and a
//! crash loses nothing but the trial. It counts what it uses itself; the machine is sampled by its supervisor.

mod slices;

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use apps::ranks::{RankInfo, Ranks};
use apps::span::Span;
use engine::Control;
use engine::options::Event;
use probe::Counters;
use probe::root::Root;
use signal_hook::consts::{SIGINT, SIGTERM};
use stats::Outcome;
use workload::Workload;

use crate::heartbeat::Heartbeat;
use crate::inprocess::InProcess;
use crate::load::LoadSpec;
use crate::protocol::{Instruction, Message, Release, Request, SliceUnit, send_message};

/// Longest request that is read.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
/// Exit code within a container whose supervisor has died.
const ORPHANED: i32 = 4;

/// A worker that has its request.
struct Worker {
    request: Request,
    control: Arc<Control>,
    /// What the supervisor says next; closed with its end.
    told: Receiver<Instruction>,
    /// It has passed the gate that it waits at before it measures.
    has_passed: Cell<bool>,
}

/// Runs the trial that standard input asks for; the result is the process's exit code.
///
/// SIGINT, SIGTERM and the end of standard input end the load early; what was measured until then is told. When the supervisor
/// dies, the kernel kills this process.
pub fn main() -> u8 {
    let ended = Worker::new().and_then(|worker| worker.run());
    let code = u8::from(ended.is_err());
    send_message(&match ended {
        Ok(outcome) => Message::Outcome { outcome: Box::new(outcome) },
        Err(message) => Message::Error { message },
    });
    code
}

/// Standard input, which programs that the load starts find empty: what the supervisor says is not for them.
fn input() -> std::io::Result<BufReader<File>> {
    let input = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), libc::STDERR_FILENO + 1)?;
    let empty = File::open("/dev/null")?;
    // SAFETY: both descriptors are open, and nobody in this process reads standard input but by `input`.
    if unsafe { libc::dup2(empty.as_raw_fd(), libc::STDIN_FILENO) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(BufReader::new(input.into()))
}

fn request(input: &mut impl BufRead) -> Result<Request, String> {
    let mut line = String::new();
    input
        .take(REQUEST_BYTES_MAX)
        .read_line(&mut line)
        .map_err(|error| format!("the request cannot be read: {error}"))?;
    let request: Request = serde_json::from_str(&line)
        .map_err(|error| format!("this is for loadline's own use: no request on standard input ({error})"))?;
    if let Some(expected) = request.parent {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
            .map_err(|error| format!("prctl(PR_SET_PDEATHSIG): {error}"))?;
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        if parent.and_then(|pid| u32::try_from(pid).ok()) != Some(expected) {
            return Err("the parent has died".into());
        }
    }
    if let Some(speed) = request.counter_speed {
        engine::clock::Clock::adopt(speed);
    }
    Ok(request)
}

/// Lets SIGINT and SIGTERM end the load early.
fn end_by_signals(control: &Arc<Control>) -> Result<(), String> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
        .map_err(|error| format!("signals: {error}"))?;
    let control = control.clone();
    thread("signals", move || signals.forever().for_each(|_| control.interrupt()))
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let started = std::thread::Builder::new().name(name.into()).spawn(body);
    started.map(drop).map_err(|error| format!("thread {name}: {error}"))
}

/// Hears the supervisor until standard input ends.
fn listen(
    input: BufReader<File>,
    control: &Arc<Control>,
    dies_with_input: bool,
) -> Result<Receiver<Instruction>, String> {
    let (sender, told) = channel();
    let control = control.clone();
    thread("instructions", move || {
        for line in input.lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(instruction) => drop(sender.send(instruction)),
                Err(error) => host::note!("loadline: an instruction cannot be read: {error}"),
            }
        }
        if dies_with_input {
            std::process::exit(ORPHANED);
        }
        control.interrupt();
    })?;
    Ok(told)
}

impl Worker {
    fn new() -> Result<Worker, String> {
        let mut input = input().map_err(|error| format!("standard input: {error}"))?;
        let request = request(&mut input)?;
        let control = Arc::new(match request.slices {
            None => Control::new(),
            Some(SliceUnit::Operations) => Control::in_slices(),
            Some(SliceUnit::Time) => Control::in_turns(),
        });
        end_by_signals(&control)?;
        let told = listen(input, &control, request.parent.is_none())?;
        Ok(Worker { request, control, told, has_passed: Cell::new(false) })
    }

    fn run(mut self) -> Result<Outcome, String> {
        if let Some(unit) = self.request.slices {
            // they are granted by a thread of their own, which takes the supervisor's words
            let told = std::mem::replace(&mut self.told, channel().1);
            let (owed, control) = (slices::sync_directory(&self.request, unit)?, self.control.clone());
            thread("slices", move || slices::run_slices(&control, unit, &told, owed.as_ref()))?;
            self.has_passed.set(true);
        }
        match &self.request.load {
            // what is simulated has a time of its own
            LoadSpec::Simulated { job } => {
                let mut tell = |progress: simulate::Progress| {
                    let simulate::Progress { elapsed_seconds, total_seconds, ops } = progress;
                    let total_seconds = Some(total_seconds);
                    self.send_event(Event::Running { elapsed_seconds, total_seconds, io_ops: ops });
                };
                simulate::run(job, &self.request.options, &self.control, &mut tell)
                    .map_err(|error| error.to_string())
            }
            LoadSpec::App { name, variables } => {
                let app = apps::App::new(name, variables).map_err(|error| error.to_string())?;
                self.watched(|| self.app(&app))
            }
            LoadSpec::Wml { model } => self.watched(|| self.wml(model)),
        }
    }

    /// Runs a load whose time is that of the machine.
    fn watched(&self, load: impl FnOnce() -> Result<Outcome, String>) -> Result<Outcome, String> {
        let heartbeat = Heartbeat::start();
        let outcome = load();
        let stopped = heartbeat.and_then(Heartbeat::end);
        outcome.map(|mut outcome| {
            outcome.metrics.extend(stopped);
            outcome
        })
    }

    /// Tells what happens. One of many is silent: telling would disturb what the others measure.
    fn send_event(&self, event: Event) {
        if !self.request.one_of_many {
            send_message(&Message::Event { event });
        }
    }

    /// Waits at the gate.
    fn wait(&self, value: u64, aligned: bool) -> Result<Release, String> {
        send_message(&Message::AtGate { value, aligned });
        match self.told.recv() {
            Ok(Instruction::Proceed(release)) => Ok(release),
            _ => Err("the load did not go on: its supervisor let it go".into()),
        }
    }

    /// Says that all is ready, and returns at the moment at which the load begins; the first time only.
    fn ready(&self) -> Result<(), String> {
        if self.has_passed.replace(true) {
            return Ok(());
        }
        let Release { at_ns, .. } = self.wait(0, true)?;
        let at_ns = if at_ns > 0 { at_ns } else { cluster::Clock::system().now_ns() };
        let late_ns = cluster::clock::sleep_until_ns(at_ns);
        send_message(&Message::Passed { at_ns: at_ns + late_ns, late_ns });
        Ok(())
    }

    /// What this process has used, and its memory group has done.
    fn used(&self) -> Counters {
        Counters::sample_process().with(probe::fs_counters::memory_group(&Root::default()))
    }

    /// The same with what the machine has done, for a section of a load that is alone.
    fn counters(&self) -> Counters {
        if self.request.one_of_many {
            return self.used();
        }
        send_message(&Message::Sample);
        let mut counters = match self.told.recv() {
            Ok(Instruction::Counters { counters }) => *counters,
            _ => Counters::default(),
        };
        let used = self.used();
        (counters.at_seconds, counters.process) = (used.at_seconds, used.process);
        counters.with(used.beside)
    }

    fn app(&self, app: &apps::App) -> Result<Outcome, String> {
        let request = &self.request;
        let options = &request.options;
        let (seconds, warmup_seconds, rate) = (options.seconds, options.warmup_seconds, options.rate);
        let pace = apps::LoadPacing { seconds, warmup_seconds, rate };
        let place = apps::LoadSite { root: &request.root, home: &request.home, seed: options.seed, pace };
        let others = request.roll.as_ref().map(|roll| RankPeers { roll, worker: self });
        if !app.waits_at_gate() && others.is_none() {
            self.ready()?;
        }
        let control = &self.control;
        let hooks = apps::Hooks {
            sample: &|| self.counters(),
            stopped: &|| control.interrupted(),
            tell: &|line| self.send_event(Event::Line { text: line.to_string() }),
            ready: &|| self.ready(),
            ranks: others.as_ref().map(|others| others as &dyn Ranks),
        };
        app.run(request.phase, place, hooks).map_err(|error| error.to_string())
    }

    fn wml(&self, model: &Workload) -> Result<Outcome, String> {
        let before = Mutex::new(None);
        let mut barred = None;
        let mut heard = |event: Event| {
            if let Event::Ready = event {
                if let Err(message) = self.ready() {
                    barred = Some(message);
                    self.control.interrupt();
                }
                return;
            }
            if let (Event::Running { elapsed_seconds: 0.0.., .. }, Ok(mut before)) = (&event, before.lock()) {
                before.get_or_insert_with(|| self.used());
            }
            self.send_event(event);
        };
        let Request { root, options, erase, in_process, .. } = &self.request;
        let mut outcome = match in_process {
            None => {
                // held until the load has ended
                let (approved, _permits) = crate::overwrite::approve(model, erase.as_deref())?;
                engine::run_with_devices(model, root, options, &self.control, &mut heard, &approved)
                    .map_err(|error| error.to_string())?
            }
            Some(mount) => {
                let mount =
                    betrfs::MountOptions::parse_in_process(mount).map_err(|error| error.to_string())?;
                let fs = betrfs::mount::open(root, &mount).map_err(|error| error.to_string())?;
                let volume = InProcess::new(fs);
                let outcome = engine::run_on(model, &volume, options, &self.control, &mut heard);
                let closed = volume.finish();
                let outcome = outcome.map_err(|error| error.to_string())?;
                closed.map_err(|error| format!("closing the file system: {error}"))?;
                outcome
            }
        };
        if let Some(message) = barred {
            return Err(message);
        }
        let before: Option<Counters> = before.into_inner().unwrap_or_default();
        for delta in before.map(|before| before.growth_until(&self.used())).unwrap_or_default() {
            // The engine's own figures cover its interval exactly.
            if outcome.metrics.iter().all(|metric| metric.name != delta.name) {
                outcome.metrics.push(delta);
            }
        }
        Ok(outcome)
    }
}

/// The other tasks, behind the supervisor.
struct RankPeers<'a> {
    roll: &'a RankInfo,
    worker: &'a Worker,
}

impl Ranks for RankPeers<'_> {
    fn rank_info(&self) -> &RankInfo {
        self.roll
    }

    fn all_gather(&self, value: u64, aligned: bool) -> Result<Vec<u64>, String> {
        let Release { at_ns, values, .. } = self.worker.wait(value, aligned)?;
        cluster::clock::sleep_on_core_until_ns(at_ns, self.roll.among_neighbours());
        Ok(values)
    }

    fn report_span(&self, span: &Span) {
        send_message(&Message::Span { span: span.clone() });
    }
}
