//! The processes of a trial in containers: made one after another, released at one instant, what they measured added.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use container::inside::{PROGRAM, SHARED};
use container::{Crowd, Happening, Runtime, Setting, Wanted};
use engine::options::{Event, RunOptions};
use host::Host;
use probe::Counters;
use rustix::process::Signal;
use stats::{Metric, Outcome, parallel};

use super::ending::Failure;
use super::trial::{Processes, Trial};
use crate::contained::{ARGUMENT, Order, REQUEST, RESULT, Told, monotonic_ns};
use crate::load::{self, Prepared};
use crate::protocol::{Issue, Request};
use crate::runner::Progress;
use crate::site::Built;
use crate::supervise::{Departure, Told as Why};

/// How often the clock and the user's wish are looked at.
const TICK: Duration = Duration::from_millis(100);
/// Seeds of a trial's containers are so far apart, so that those of one trial are not those of another.
const SEED_STEP: u64 = 1_000_003;
/// Where a load's server and its clients meet, in the directory that all containers share.
const SOCKET: &str = "db.sock";
/// The directory of containers on the stack.
const FOLDER: &str = "containers";

/// Containers on the way.
struct Way<'t, 'a> {
    trial: &'t mut Trial<'a>,
    crowd: Crowd,
    device: (Option<String>, Option<String>),
    /// The one that serves the others, if one does; it measures nothing.
    server: Option<usize>,
    ready: Vec<bool>,
    told: Vec<Option<Told>>,
    why: Option<(Why, Instant)>,
    grace: Duration,
}

impl<'a> Trial<'a> {
    /// Runs the load in containers.
    pub(super) fn contained(
        &mut self,
        load: &Prepared,
        built: &Built,
        processes: &Processes,
    ) -> Result<Departure, Failure> {
        let number = load.containers.unwrap_or(1);
        let settings = &self.job.study.study;
        if built.in_process().is_some() || settings.cold || settings.explain {
            let why = "containers need a mounted stack that stays so, and processes of their own: leave out \
                       `inprocess`, --cold and --explain";
            return Err(Failure::Message(why.into()));
        }
        let runtime = Runtime::choose(&Host::system())?;
        let memory_bytes = load::container_bytes(number, settings);
        let home = built.path().join(FOLDER);
        let served = load.app().is_some_and(|app| app.server_memory_bytes().is_some());
        let request =
            if served { with_role(&processes.request, "client") } else { processes.request.clone() };
        let wanted = (0..number).map(|at| wanted(at, number, &home, memory_bytes, &request));
        let mut wanted: Vec<Wanted> = wanted.collect::<Result<_, _>>().map_err(Failure::Message)?;
        let server_bytes = load.app().and_then(|app| app.server_memory_bytes());
        if let Some(bytes) = server_bytes {
            let serving = with_role(&processes.request, "server");
            let bytes = memory_bytes.max(bytes);
            wanted.push(self::wanted(number, number, &home, bytes, &serving).map_err(Failure::Message)?);
        }
        let begin = Instant::now();
        let stop = self.stop;
        let name = format!("{}.{}.{}", self.job.run, std::process::id(), self.place.number);
        let program = Utf8Path::from_path(&self.place.program.path)
            .ok_or_else(|| Failure::Message("the path of this program is not UTF-8".into()))?;
        let setting = Setting {
            journal: self.place.journal,
            runtime: &runtime,
            work_dir: &self.place.site.builder.work_dir,
            name: &name,
            program,
        };
        let crowd = match Crowd::make(&setting, &wanted, &|| stop.load(Ordering::Acquire)) {
            Err(container::ContainerError::Interrupted) => return Ok(interrupted()),
            made => made?,
        };
        let way = Way {
            device: (processes.request.device.clone(), processes.request.disk.clone()),
            server: server_bytes.map(|_| number as usize),
            ready: vec![false; wanted.len()],
            told: vec![None; wanted.len()],
            why: None,
            grace: self.place.program.grace,
            trial: self,
            crowd,
        };
        way.run(built, &runtime, load, begin)
    }
}

fn interrupted() -> Departure {
    Departure {
        result: Err("interrupted before the load began".into()),
        told: Some(Why::Interrupted),
        raw_output: String::new(),
    }
}

/// The request of a load that tells server and clients apart.
fn with_role(request: &Request, role: &str) -> Request {
    let mut request = request.clone();
    if let Issue::App { variables, .. } = &mut request.load {
        let socket = format!("{SHARED}/{SOCKET}");
        variables.extend([("role".into(), role.into()), ("socket".into(), socket)]);
    }
    request
}

/// A container that runs its part of what is asked for.
fn wanted(
    at: u32,
    number: u32,
    home: &Utf8Path,
    memory_bytes: u64,
    whole: &Request,
) -> Result<Wanted, String> {
    let share = f64::from(number);
    let options = RunOptions {
        seed: whole.options.seed.wrapping_add(u64::from(at).wrapping_mul(SEED_STEP)),
        rate: whole.options.rate.map(|rate| rate / share),
        ops: whole.options.ops.map(|ops| ops.div_ceil(u64::from(number))),
        // once for all, before the gate opens
        settle: false,
        ..whole.options.clone()
    };
    let request = Request {
        root: container::inside::DATA.into(),
        home: container::inside::OWN.into(),
        options,
        // the counters of the machine and its devices are read once, outside
        device: None,
        disk: None,
        ssd: None,
        ..whole.clone()
    };
    let order = Order { number: at as usize, request };
    let text = serde_json::to_vec(&order).map_err(|error| error.to_string())?;
    Ok(Wanted {
        name: at.to_string(),
        home: home.join(at.to_string()),
        args: vec![PROGRAM.into(), ARGUMENT.into()],
        env: Vec::new(),
        mounts: Vec::new(),
        files: vec![(REQUEST.into(), text)],
        memory_bytes,
    })
}

impl Way<'_, '_> {
    fn run(
        mut self,
        built: &Built,
        runtime: &Runtime,
        load: &Prepared,
        begin: Instant,
    ) -> Result<Departure, Failure> {
        for number in 0..self.ready.len() {
            if self.pressed() {
                break;
            }
            self.crowd.start(number)?;
            self.hear(Duration::ZERO)?;
        }
        while self.why.is_none() && !self.ready.iter().all(|ready| *ready) {
            self.hear(TICK)?;
            self.pressed();
        }
        if self.why.is_some() && !self.ready.iter().all(|ready| *ready) {
            let (told, _) = self.why.unwrap_or((Why::Interrupted, begin));
            self.end()?;
            return Ok(Departure { told: Some(told), ..interrupted() });
        }
        settle(built.path())?;
        let ready_seconds = begin.elapsed().as_secs_f64();
        let before = self.sample();
        let opened_ns = monotonic_ns();
        self.crowd.release()?;
        let start = Instant::now();
        let mut dismissed = false;
        while self.crowd.living() > 0 {
            self.hear(TICK)?;
            self.pressed();
            if self.crowd.living() == 1 && self.server.is_some_and(|server| self.crowd.lives(server)) {
                if !dismissed {
                    self.crowd.signal(Signal::INT);
                }
                dismissed = true;
            }
            if self.why.is_some_and(|(_, since)| since.elapsed() > self.grace) {
                break;
            }
            (self.trial.progress)(Progress::Engine(Event::Running {
                elapsed_seconds: start.elapsed().as_secs_f64() - load.warmup_seconds,
                total_seconds: Some(load.seconds),
                io_ops: 0,
            }));
        }
        let counters = before.until(&self.sample());
        // a server's result says only that it has ended well
        let clients = self.told.iter().enumerate().filter(|(number, _)| Some(*number) != self.server);
        let told: Vec<Told> = clients.filter_map(|(_, told)| told.clone()).collect();
        let figures = Figures { told: &told, ready_seconds, opened_ns };
        let mut result =
            figures.outcome(&self.crowd).ok_or_else(|| "no container came to a result".to_string());
        if let Ok(outcome) = &mut result {
            outcome.notes.extend(runtime.remark());
            for delta in counters {
                if outcome.metrics.iter().all(|metric| metric.name != delta.name) {
                    outcome.metrics.push(metric(&delta.name, delta.unit, delta.value));
                }
            }
        }
        self.trial.report.log.push(format!("containers made by {runtime}"));
        let told = self.why.map(|(why, _)| why);
        self.end()?;
        Ok(Departure { result, told, raw_output: String::new() })
    }

    /// Takes all away.
    fn end(self) -> Result<(), Failure> {
        (self.trial.progress)(Progress::TakingDown);
        self.crowd.take_down().map_err(|report| Failure::Message(format!("containers stay: {report}")))
    }

    fn sample(&self) -> Counters {
        Counters::sample(self.device.0.as_deref(), self.device.1.as_deref())
    }

    /// Hears what happened; one container that fails ends the trial.
    fn hear(&mut self, limit: Duration) -> Result<(), Failure> {
        for happening in self.crowd.hear(limit)? {
            match happening {
                Happening::Ready(number) => {
                    if let Some(ready) = self.ready.get_mut(number) {
                        *ready = true;
                    }
                }
                Happening::Ended(number) => self.ended(number)?,
            }
        }
        let done = self.ready.iter().filter(|ready| **ready).count() as u64;
        let total = self.ready.len() as u64;
        if done < total {
            (self.trial.progress)(Progress::Engine(Event::Line {
                text: format!("{done} of {total} containers are ready"),
            }));
        }
        Ok(())
    }

    fn ended(&mut self, number: usize) -> Result<(), Failure> {
        let told = self.crowd.read(number, RESULT).map_err(|error| error.to_string());
        let told =
            told.and_then(|text| serde_json::from_slice::<Told>(&text).map_err(|error| error.to_string()));
        let why = match &told {
            Ok(Told { result: Err(message), .. }) => format!(": {message}"),
            Ok(_) => {
                self.told[number] = told.ok();
                return Ok(());
            }
            Err(_) => format!(" ended without a result{}", self.crowd.end_of(number)),
        };
        if self.why.is_some() {
            return Ok(());
        }
        Err(Failure::Message(format!(
            "container {} of {}{why}; the others were taken down",
            self.crowd.name(number),
            self.ready.len()
        )))
    }

    /// Tells all to end when the user wishes so or the time is up. The gate opens for those that wait at it.
    fn pressed(&mut self) -> bool {
        let stop = self.trial.stop.load(Ordering::Acquire);
        if self.why.is_none() && (stop || Instant::now() >= self.trial.deadline) {
            let (why, signal) =
                if stop { (Why::Interrupted, Signal::INT) } else { (Why::TimedOut, Signal::TERM) };
            self.crowd.signal(signal);
            // what cannot be opened any more is not there to wait at
            let _ = self.crowd.release();
            self.why = Some((why, Instant::now()));
        }
        self.why.is_some()
    }
}

/// Writes out what the containers have made, once for all.
fn settle(root: &Utf8Path) -> Result<(), Failure> {
    let path: Utf8PathBuf = root.to_owned();
    let failed = |error: std::io::Error| Failure::Message(format!("{path}: {error}"));
    let dir = std::fs::File::open(root).map_err(failed)?;
    rustix::fs::syncfs(&dir).map_err(|error| failed(error.into()))
}

/// What is known when all have ended.
struct Figures<'a> {
    told: &'a [Told],
    ready_seconds: f64,
    opened_ns: u64,
}

impl Figures<'_> {
    /// All outcomes as one, with what shows how equal they were.
    fn outcome(&self, crowd: &Crowd) -> Option<Outcome> {
        let outcomes = || self.told.iter().filter_map(|told| told.result.as_ref().ok());
        let mut whole = parallel::together(outcomes().cloned())?;
        let passed: Vec<u64> = self.told.iter().filter_map(|told| told.passed_ns).collect();
        let first = passed.iter().copied().min().unwrap_or(self.opened_ns);
        let last = passed.iter().copied().max().unwrap_or(first);
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut rates: Vec<(f64, usize)> =
            outcomes().enumerate().map(|(at, outcome)| (outcome.io_ops_per_second(), at)).collect();
        rates.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (slowest, fastest) = (*rates.first()?, *rates.last()?);
        let median = rates[rates.len() / 2].0;
        let peak = (0..self.told.len()).filter_map(|number| crowd.memory(number).0).max();
        let skew = seconds(last.saturating_sub(first));
        whole.metrics.extend([
            metric("containers", "1", self.told.len() as f64),
            metric("container_ready_seconds", "s", self.ready_seconds),
            metric("container_first_start_seconds", "s", seconds(first.saturating_sub(self.opened_ns))),
            metric("container_start_skew_seconds", "s", skew),
            metric("container_slowest_ops_per_second", "1/s", slowest.0),
            metric("container_median_ops_per_second", "1/s", median),
            metric("container_fastest_ops_per_second", "1/s", fastest.0),
        ]);
        whole.metrics.extend(peak.map(|bytes| metric("container_memory_peak_bytes", "bytes", bytes as f64)));
        let memory =
            peak.map_or(String::new(), |bytes| format!("; at most {} MiB each", bytes.div_ceil(1 << 20)));
        whole.notes.push(format!(
            "{} containers: ready after {:.1} s, begun within {skew:.3} s; slowest {:.1} op/s (number {}), median \
             {median:.1}, fastest {:.1} (number {}){memory}",
            self.told.len(),
            self.ready_seconds,
            slowest.0,
            slowest.1,
            fastest.0,
            fastest.1,
        ));
        Some(whole)
    }
}

fn metric(name: &str, unit: &str, value: f64) -> Metric {
    Metric { name: name.into(), unit: unit.into(), value }
}
