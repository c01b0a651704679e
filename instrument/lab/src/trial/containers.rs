//! Workers in containers: made together, started one after another, begun at one moment; what they measured is added.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use cluster::{Clock, balance};
use container::inside::{PROGRAM, SHARED};
use container::{ContainerError, ContainerSpec, Crowd, Runtime, SharedSettings};
use engine::options::RunOptions;
use journal::Journal;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use stats::metric::{Metric, names};
use stats::{Outcome, parallel};

use super::executor::{Executor, Failure, StopReason, Worker, WorkerEvent};
use super::peer::{self, ProcessEvent, WorkerProcess};
use super::process::{Program, signal};
use super::share;
use crate::load::LoadSpec;
use crate::protocol::{Instruction, Release, Request};

/// Seeds of a trial's containers are so far apart, so that those of one trial are not those of another.
const SEED_STEP: u64 = 1_000_003;
/// Where a load's server and its clients meet, in the directory that all containers share.
const SOCKET: &str = "db.sock";
/// The directory of containers on the stack.
const FOLDER: &str = "containers";
/// From the opening of the gate to the moment at which all begin: enough to tell the first and for all to fall asleep.
const LEAD: Duration = Duration::from_millis(20);
/// That much more for each container, which has to be told.
const LEAD_OF_ONE: Duration = Duration::from_micros(100);

impl From<ContainerError> for Failure {
    fn from(error: ContainerError) -> Self {
        match error {
            ContainerError::Unavailable(why) => {
                Failure::Unavailable { reason: why.reason, remedy: why.remedy }
            }
            other => Failure::Message(other.to_string()),
        }
    }
}

/// What containers of a trial are made of.
pub(crate) struct Plan<'a> {
    /// How many clients, or loads.
    pub(crate) number: u32,
    /// Memory of each.
    pub(crate) memory_bytes: u64,
    /// Memory of one more, which serves them.
    pub(crate) server_bytes: Option<u64>,
    /// What they do together.
    pub(crate) request: &'a Request,
    /// The stack under test.
    pub(crate) root: &'a Utf8Path,
    /// Where bundles go.
    pub(crate) work_dir: &'a Utf8Path,
    /// Unlike that of any other trial's.
    pub(crate) name: &'a str,
    pub(crate) program: &'a Program,
    pub(crate) journal: &'a std::sync::Arc<Journal>,
    pub(crate) runtime: &'a Runtime,
}

/// The containers of a trial, each with a worker. Dropped, they are taken down.
pub(crate) struct Containers {
    crowd: Crowd,
    requests: Vec<Request>,
    peers: Vec<Option<WorkerProcess>>,
    /// The one that serves the others.
    server: Option<usize>,
    begin: Instant,
    /// When they are to begin, in nanoseconds of the system's monotonic clock.
    opened_ns: i64,
    ready_seconds: f64,
    runtime: Runtime,
}

impl Containers {
    /// Makes them; nothing runs yet.
    ///
    /// # Errors
    /// What could not be made; nothing is left then.
    pub(crate) fn make(plan: &Plan<'_>, stopped: &dyn Fn() -> bool) -> Result<Containers, Failure> {
        let begin = Instant::now();
        let role =
            |role| plan.server_bytes.map_or_else(|| plan.request.clone(), |_| with_role(plan.request, role));
        let client = role("client");
        let mut requests: Vec<Request> = (0..plan.number).map(|at| part(at, plan.number, &client)).collect();
        requests.extend(plan.server_bytes.map(|_| part(plan.number, plan.number, &role("server"))));
        let server = plan.server_bytes.map(|_| plan.number as usize);
        let wanted = |at: usize| ContainerSpec {
            name: at.to_string(),
            home: plan.root.join(FOLDER).join(at.to_string()),
            args: std::iter::once(PROGRAM.to_string()).chain(plan.program.arguments.clone()).collect(),
            env: Vec::new(),
            mounts: Vec::new(),
            memory_bytes: match plan.server_bytes.filter(|_| Some(at) == server) {
                Some(bytes) => plan.memory_bytes.max(bytes),
                None => plan.memory_bytes,
            },
        };
        let wanted: Vec<ContainerSpec> = (0..requests.len()).map(wanted).collect();
        let setting = SharedSettings {
            journal: plan.journal,
            runtime: plan.runtime,
            work_dir: plan.work_dir,
            name: plan.name,
            program: Utf8Path::from_path(&plan.program.path)
                .ok_or_else(|| "the path of this program is not UTF-8".to_string())?,
        };
        let crowd = Crowd::make(&setting, &wanted, stopped)?;
        let peers = requests.iter().map(|_| None).collect();
        let runtime = plan.runtime.clone();
        Ok(Containers { crowd, requests, peers, server, begin, opened_ns: 0, ready_seconds: 0.0, runtime })
    }

    fn signal(&self, signal: Signal) {
        self.peers.iter().flatten().for_each(|peer| peer.signal(signal));
    }
}

/// The request of a load that tells server and clients apart.
fn with_role(request: &Request, role: &str) -> Request {
    let mut request = request.clone();
    if let LoadSpec::App { variables, .. } = &mut request.load {
        let socket = format!("{SHARED}/{SOCKET}");
        variables.extend([("role".into(), role.into()), ("socket".into(), socket)]);
    }
    request
}

/// A container's part of what is asked for.
fn part(at: u32, number: u32, whole: &Request) -> Request {
    let options = RunOptions {
        seed: whole.options.seed.wrapping_add(u64::from(at).wrapping_mul(SEED_STEP)),
        rate: whole.options.rate.map(|rate| rate / f64::from(number)),
        ops: whole.options.ops.map(|ops| share::of(ops, at, number)),
        // once for all, before the gate opens
        settle: false,
        ..whole.options.clone()
    };
    Request {
        // its process has another number there
        parent: None,
        root: container::inside::DATA.into(),
        home: container::inside::OWN.into(),
        options,
        one_of_many: true,
        counter_speed: engine::clock::Clock::speed(),
        ..whole.clone()
    }
}

impl Executor for Containers {
    type Result = Outcome;

    fn size(&self) -> usize {
        self.requests.len()
    }

    fn name(&self, worker: usize) -> String {
        format!("container {} of {}", self.crowd.name(worker), self.size())
    }

    fn serves(&self, worker: usize) -> bool {
        self.server == Some(worker)
    }

    fn spawn(&mut self, at: usize) -> Result<(), Failure> {
        let pipe = || -> Result<(OwnedFd, OwnedFd), Failure> {
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| Failure::Message(format!("a pipe: {error}")))
        };
        let ((stdin, to), (out, stdout)) = (pipe()?, pipe()?);
        let process = self.crowd.start(at, stdin, stdout)?;
        let peer = WorkerProcess::new(process, to, out, None).map_err(|error| error.to_string())?;
        self.peers[at].insert(peer).send(&self.requests[at]);
        Ok(())
    }

    fn poll_events(&mut self, patience: Duration) -> Result<Vec<(usize, WorkerEvent<Outcome>)>, Failure> {
        let signs = peer::poll_processes(&mut self.peers, patience).map_err(|error| error.to_string())?;
        let heard = signs.into_iter().map(|(at, sign)| match sign {
            ProcessEvent::Said(message) => (at, message.into()),
            ProcessEvent::Ended => (at, WorkerEvent::Ended(self.crowd.end_of(at))),
        });
        Ok(heard.collect())
    }

    fn send(&mut self, worker: usize, what: &Instruction) {
        self.peers[worker].iter_mut().for_each(|peer| peer.send(what));
    }

    fn release(&mut self, workers: &[usize], mut release: Release) -> Duration {
        let ahead = if release.aligned { LEAD + LEAD_OF_ONE * workers.len() as u32 } else { Duration::ZERO };
        if release.aligned {
            self.ready_seconds = self.begin.elapsed().as_secs_f64();
            self.opened_ns = Clock::system().now_ns() + ahead.as_nanos() as i64;
            release.at_ns = self.opened_ns;
        }
        let proceed = Instruction::Proceed(release);
        workers.iter().for_each(|worker| self.send(*worker, &proceed));
        ahead
    }

    fn stop(&mut self, reason: StopReason) {
        self.signal(signal(reason));
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    fn collect(&mut self, mut workers: Vec<Worker<Outcome>>) -> Result<Outcome, Failure> {
        // a server's result says only that it has ended well
        workers.truncate(self.server.unwrap_or(workers.len()));
        let whole = self.outcome(workers);
        self.crowd.take_down().map_err(|report| format!("containers stay: {report}"))?;
        Ok(whole.ok_or("no container came to a result".to_string())?)
    }
}

impl Containers {
    /// All outcomes as one, with what shows how equal they were.
    fn outcome(&self, workers: Vec<Worker<Outcome>>) -> Option<Outcome> {
        let passed: Vec<i64> = workers.iter().filter_map(|worker| Some(worker.passed?.0)).collect();
        let outcomes: Vec<Outcome> = workers.into_iter().filter_map(|worker| worker.result?.ok()).collect();
        let number = outcomes.len();
        let first = passed.iter().copied().min().unwrap_or(self.opened_ns);
        let last = passed.iter().copied().max().unwrap_or(first);
        let seconds = |ns: i64| ns as f64 / 1e9;
        let worked = outcomes.iter().enumerate().filter(|(_, outcome)| share::had_work(outcome));
        let rates = worked.map(|(at, outcome)| (outcome.io_ops_per_second(), at)).collect();
        let Rates { slowest, median, fastest } = Rates::of(rates);
        let mut whole = parallel::combine(outcomes)?;
        let peak = (0..number).filter_map(|at| self.crowd.memory(at).0).max();
        let skew = seconds(last - first);
        whole.metrics.extend([
            Metric::machine(names::CONTAINERS, "1", number as f64),
            Metric::duration(names::CONTAINER_READY_SECONDS, self.ready_seconds),
            Metric::duration(names::CONTAINER_FIRST_START_SECONDS, seconds(first - self.opened_ns)),
            Metric::duration(names::CONTAINER_START_SKEW_SECONDS, skew),
            Metric::rate(names::CONTAINER_SLOWEST_OPS_PER_SECOND, "1/s", slowest.0),
            Metric::rate(names::CONTAINER_MEDIAN_OPS_PER_SECOND, "1/s", median),
            Metric::rate(names::CONTAINER_FASTEST_OPS_PER_SECOND, "1/s", fastest.0),
        ]);
        whole.metrics.extend(
            peak.map(|bytes| Metric::machine(names::CONTAINER_MEMORY_PEAK_BYTES, "bytes", bytes as f64)),
        );
        let memory =
            peak.map_or(String::new(), |bytes| format!("; at most {} MiB each", bytes.div_ceil(1 << 20)));
        whole.notes.push(format!(
            "{} containers: ready after {:.1} s, begun within {skew:.3} s; slowest {:.1} op/s (number {}), median \
             {median:.1}, fastest {:.1} (number {}){memory}",
            number,
            self.ready_seconds,
            slowest.0,
            slowest.1,
            fastest.0,
            fastest.1,
        ));
        whole.notes.extend(self.runtime.remark());
        Some(whole)
    }
}

/// How equal containers were, by operations a second; the slowest and the fastest with their numbers.
#[derive(Debug, Default, PartialEq)]
struct Rates {
    slowest: (f64, usize),
    median: f64,
    fastest: (f64, usize),
}

impl Rates {
    /// Of containers that had work: rates and numbers.
    fn of(mut rates: Vec<(f64, usize)>) -> Rates {
        rates.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (Some(&slowest), Some(&fastest)) = (rates.first(), rates.last()) else { return Rates::default() };
        let values: Vec<f64> = rates.iter().map(|(rate, _)| *rate).collect();
        Rates { slowest, median: balance::median(&values), fastest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_containers_lies_between_the_two_in_the_middle() {
        let of = |rates: &[f64]| Rates::of(rates.iter().copied().zip(0..).collect());
        let two = of(&[200.0, 100.0]);
        assert_eq!(two, Rates { slowest: (100.0, 1), median: 150.0, fastest: (200.0, 0) });
        assert_eq!((of(&[3.0, 1.0, 2.0]).median, of(&[4.0, 1.0, 2.0, 8.0]).median), (2.0, 3.0));
        assert_eq!(of(&[]), Rates::default(), "no container had work");
    }

    #[test]
    fn containers_together_do_as_many_operations_as_were_asked_for() {
        let options = RunOptions { ops: Some(10), ..RunOptions::default() };
        let load = LoadSpec::App { name: "x".into(), variables: Vec::new() };
        let folder = std::path::Path::new("/");
        let whole = Request::new(load, folder, folder, options);
        let ops: Vec<Option<u64>> = (0..4).map(|at| part(at, 4, &whole).options.ops).collect();
        assert_eq!(ops, [3, 3, 2, 2].map(Some));
        let ops: Vec<Option<u64>> = (0..12).map(|at| part(at, 12, &whole).options.ops).collect();
        assert_eq!((ops.iter().flatten().sum(), ops[11]), (10_u64, Some(0)), "no share is no bound left out");
    }
}
