//! The child's side of a trial: reads a request, runs the load, tells what happens.
//!
//! It is a process of its own so that a memory limit binds the load alone, a time-out can kill it, and a
//! crash loses nothing but the trial.

mod slices;

use std::io::BufRead;
use std::sync::{Arc, Mutex};

use apps::ranks::{Ranks, Roll};
use apps::span::Span;
use engine::Control;
use engine::options::Event;
use probe::Counters;
use signal_hook::consts::{SIGINT, SIGTERM};
use stats::{Metric, Outcome};
use workload::Workload;

use crate::inprocess::InProcess;
use crate::protocol::{Begin, Issue, Message, Request, say};

/// Longest request that is read.
const REQUEST_BYTES_MAX: u64 = 64 << 20;

/// Runs the trial that standard input asks for; the result is the process's exit code.
///
/// SIGINT and SIGTERM end the load early; what was measured until then is told. When the parent dies, the
/// kernel kills this process.
pub fn main() -> u8 {
    let began = request().and_then(|request| {
        let control = Arc::new(if request.in_slices { Control::in_slices() } else { Control::new() });
        listen(&control)?;
        if request.in_slices {
            slices::listen(&request, &control)?;
        }
        Ok((request, control))
    });
    match began {
        Ok((request, control)) => {
            let ready = || if request.waits { wait_for_begin() } else { Ok(()) };
            end(run(&request, &control, &Talk { say: &say, ready: &ready }))
        }
        Err(message) => end(Err(message)),
    }
}

/// Says that all is ready, and sleeps to the moment that the parent then names.
fn wait_for_begin() -> Result<(), String> {
    say(&Message::Waiting);
    let begin = begin()?;
    let late_ns = cluster::clock::sleep_until_ns(begin.at_ns);
    say(&Message::Began { at_ns: begin.at_ns + late_ns, late_ns });
    Ok(())
}

/// What the parent answers to one that waits.
fn begin() -> Result<Begin, String> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| format!("the begin cannot be read: {error}"))?;
    serde_json::from_str(&line).map_err(|_| "the load did not go on, since another rank failed".to_string())
}

/// The other tasks, behind the parent.
struct Others {
    roll: Roll,
}

impl Ranks for Others {
    fn roll(&self) -> &Roll {
        &self.roll
    }

    fn meet(&self, value: u64, aligned: bool) -> Result<Vec<u64>, String> {
        say(&Message::Meet { value, aligned });
        let Begin { at_ns, values } = begin()?;
        cluster::clock::sleep_on_core_until_ns(at_ns, self.roll.among_neighbours());
        Ok(values)
    }

    fn tell(&self, span: &Span) {
        say(&Message::Span { span: span.clone() });
    }
}

fn end(result: Result<Outcome, String>) -> u8 {
    match result {
        Ok(outcome) => {
            say(&Message::Outcome { outcome: Box::new(outcome) });
            0
        }
        Err(message) => {
            say(&Message::Error { message });
            1
        }
    }
}

/// Lets SIGINT and SIGTERM end the load early.
pub(crate) fn listen(control: &Arc<Control>) -> Result<(), String> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
        .map_err(|error| format!("signals: {error}"))?;
    let control = control.clone();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || signals.forever().for_each(|_| control.interrupt()))
        .map_err(|error| format!("signals: {error}"))?;
    Ok(())
}

fn request() -> Result<Request, String> {
    use std::io::Read;
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .take(REQUEST_BYTES_MAX)
        .read_line(&mut line)
        .map_err(|error| format!("the request cannot be read: {error}"))?;
    let request: Request = serde_json::from_str(&line)
        .map_err(|error| format!("this is for loadline's own use: no request on standard input ({error})"))?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| format!("prctl(PR_SET_PDEATHSIG): {error}"))?;
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    if parent.and_then(|pid| u32::try_from(pid).ok()) != Some(request.parent) {
        return Err("the parent has died".into());
    }
    if let Some(speed) = request.counter_speed {
        engine::clock::Clock::adopt(speed);
    }
    Ok(request)
}

/// Trials of this length or more have a yardstick, which takes 0.1 s: a tenth at most.
const YARDSTICK_FROM_SECONDS: f64 = 1.0;

/// To whom a running load speaks.
pub(crate) struct Talk<'a> {
    /// Hears what happens.
    pub(crate) say: &'a dyn Fn(&Message),
    /// Returns when the load may begin: files and threads are there.
    pub(crate) ready: &'a dyn Fn() -> Result<(), String>,
}

pub(crate) fn run(request: &Request, control: &Control, talk: &Talk<'_>) -> Result<Outcome, String> {
    // what is simulated has a time of its own
    let is_timed = !matches!(request.load, Issue::Simulated { .. });
    // a short trial is not worth a tenth of a second more; of many at once, each would measure the others
    let is_long = request.options.seconds.is_some_and(|seconds| seconds >= YARDSTICK_FROM_SECONDS);
    let has_yardstick = is_timed && is_long && !request.waits && !request.in_slices;
    let rounds_before = has_yardstick.then(probe::yardstick::pieces);
    let before = is_timed.then(probe::speed::additions_per_second);
    let mut outcome = issue(request, control, talk)?;
    if let Some(before) = before {
        let value = before.max(probe::speed::additions_per_second());
        outcome.metrics.push(Metric { name: "additions_per_second".into(), unit: "1/s".into(), value });
    }
    let rounds = rounds_before.map(|before| before.and(probe::yardstick::pieces()));
    if let Some(value) = rounds.and_then(probe::yardstick::Rounds::per_second) {
        outcome.metrics.push(Metric { name: "yardstick_per_second".into(), unit: "1/s".into(), value });
    }
    Ok(outcome)
}

fn issue(request: &Request, control: &Control, talk: &Talk<'_>) -> Result<Outcome, String> {
    match &request.load {
        Issue::Wml { model } => run_wml(model, request, control, talk),
        Issue::App { name, variables } => {
            let app = apps::App::new(name, variables).map_err(|error| error.to_string())?;
            run_app(&app, request, control, talk)
        }
        Issue::Simulated { job } => {
            let mut tell = |progress: simulate::Progress| {
                let simulate::Progress { elapsed_seconds, total_seconds, ops } = progress;
                let total_seconds = Some(total_seconds);
                say(&Message::Event {
                    event: Event::Running { elapsed_seconds, total_seconds, io_ops: ops },
                });
            };
            simulate::run(job, &request.options, control, &mut tell).map_err(|error| error.to_string())
        }
    }
}

fn run_app(
    app: &apps::App,
    request: &Request,
    control: &Control,
    talk: &Talk<'_>,
) -> Result<Outcome, String> {
    let options = &request.options;
    let (seconds, warmup_seconds, rate) = (options.seconds, options.warmup_seconds, options.rate);
    let pace = apps::Pace { seconds, warmup_seconds, rate };
    let place = apps::Place { root: &request.root, home: &request.home, seed: options.seed, pace };
    let others = request.roll.clone().map(|roll| Others { roll });
    let hooks = apps::Hooks {
        sample: &|| counters(request),
        stopped: &|| control.interrupted(),
        tell: &|line| (talk.say)(&Message::Event { event: Event::Line { text: line.to_string() } }),
        ready: talk.ready,
        ranks: others.as_ref().map(|others| others as &dyn Ranks),
    };
    app.run(request.phase, place, hooks).map_err(|error| error.to_string())
}

/// Counters of the emulated flash that tell what a load asked of it.
const FLASH: [&str; 9] = [
    "commands",
    "host_read_blocks",
    "host_write_blocks",
    "stalled_writes",
    "flushes",
    "host_programs",
    "gc_programs",
    "moved_blocks",
    "erases",
];

/// All counters now.
fn counters(request: &Request) -> Counters {
    let root = probe::root::Root::default();
    let flash = || {
        let home = camino::Utf8Path::from_path(&request.home)?;
        let status = blockdev::stats(home, request.ssd.as_deref()?).ok()?;
        let one = |name: &&str| Some((format!("flash_{name}"), *status.counters.get(*name)? as f64));
        Some(FLASH.iter().filter_map(one).collect::<Vec<_>>())
    };
    Counters::sample(request.device.as_deref(), request.disk.as_deref())
        .with(probe::beside::memory_group(&root))
        .with(probe::beside::file_system(&root, request.device.as_deref(), &request.root))
        .with(flash().unwrap_or_default())
}

fn run_wml(
    model: &Workload,
    request: &Request,
    control: &Control,
    talk: &Talk<'_>,
) -> Result<Outcome, String> {
    let sample = || counters(request);
    let before = Mutex::new(None);
    let mut barred = None;
    let mut heard = |event: Event| {
        if let Event::Ready = event {
            if let Err(message) = (talk.ready)() {
                barred = Some(message);
                control.interrupt();
            }
            return;
        }
        if let (Event::Running { elapsed_seconds: 0.0.., .. }, Ok(mut before)) = (&event, before.lock()) {
            before.get_or_insert_with(sample);
        }
        (talk.say)(&Message::Event { event });
    };
    let mut outcome = match &request.in_process {
        None => {
            // held until the load has ended
            let approved = crate::overwrite::approve(model, request.erase.as_deref())?;
            let (root, options) = (&request.root, &request.options);
            engine::run_with_devices(model, root, options, control, &mut heard, &approved)
                .map_err(|error| error.to_string())?
        }
        Some(options) => {
            let options =
                betrfs::MountOptions::parse_in_process(options).map_err(|error| error.to_string())?;
            let fs = betrfs::mount::open(&request.root, &options).map_err(|error| error.to_string())?;
            let volume = InProcess::new(fs);
            let outcome = engine::run_on(model, &volume, &request.options, control, &mut heard);
            let closed = volume.finish();
            let outcome = outcome.map_err(|error| error.to_string())?;
            closed.map_err(|error| format!("closing the file system: {error}"))?;
            outcome
        }
    };
    if let Some(message) = barred {
        return Err(message);
    }
    let after = sample();
    for delta in
        before.into_inner().unwrap_or_default().map(|before| before.until(&after)).unwrap_or_default()
    {
        // The engine's own figures cover its interval exactly.
        if outcome.metrics.iter().all(|metric| metric.name != delta.name) {
            outcome.metrics.push(Metric { name: delta.name, unit: delta.unit.into(), value: delta.value });
        }
    }
    Ok(outcome)
}
