//! A study, outcomes and a runner that needs no disk and no time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::runner::{Job, Progress, Report, Runner};
use spec::StackSpec;
use stats::{Direction, Ended, Histogram, Metric, OpClass, OpOutcome, Outcome};
use study::Study;
use study::results::{Command, Status};

/// A study with inline workloads.
pub fn study(toml: &str) -> Study {
    Study::parse(toml, "test.toml", &|file| panic!("no file {file} here"))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Arguments that have this test program run a part of a test. Where libtest runs one test at a time, as it does by itself on one
/// processor, it begins a line with the test's name before that runs: what the part says first would stand behind it.
#[allow(dead_code, reason = "not every test file uses it")]
pub fn one_test(name: &str) -> [&str; 5] {
    ["--exact", name, "--ignored", "--nocapture", "--test-threads=2"]
}

/// Two workloads on two stacks with one parameter of two values: eight cells.
#[allow(dead_code, reason = "not every test file uses it")]
pub fn eight_cells(trials: u32, settings: &str) -> Study {
    study(&format!(
        "stacks = ['ext4', 'xfs']\n[study]\ntrials = {trials}\nseconds = 10\n{settings}\n[parameters]\nn = [1, 16]\n\
         [[workload]]\nname = 'a'\ntext = '{HOG}'\n[[workload]]\nname = 'b'\ntext = '{HOG}'\n"
    ))
}

/// The least script with a variable `n`.
const HOG: &str = "define process name=p,instances=$n { thread name=t { flowop hog name=h } } run 10";

/// The loads of a study, for a small machine.
#[allow(dead_code, reason = "not every test file uses it")]
pub fn loads(study: &Study) -> lab::check::Loads {
    let machine = wml::Machine { ram_bytes: 1 << 30, cores: 2, free_bytes: 1 << 30 };
    lab::check::workloads(study, machine).unwrap_or_else(|error| panic!("{error}"))
}

/// An outcome of one second with so many operations, of one microsecond each.
pub fn outcome(ops: u64) -> Outcome {
    let mut service = Histogram::new();
    service.record_n(1_000, ops);
    Outcome {
        measured_seconds: 1.0,
        warmup_seconds: 0.5,
        ended: Ended::TimeUp,
        ops: vec![OpOutcome {
            name: "write1".into(),
            kind: "write".into(),
            class: OpClass::Io,
            direction: Direction::Write,
            ops,
            bytes: ops * 4096,
            errors: 1,
            starved: 2,
            intended: Some(service.clone()),
            service,
            ops_per_second: vec![ops],
            bytes_per_second: vec![ops * 4096],
            over_time: None,
        }],
        metrics: vec![Metric::process("cpu", "s", 0.1 + 0.2)],
        notes: vec!["a note".into()],
    }
}

/// What the fake runner does with a trial.
#[derive(Clone)]
#[allow(dead_code, reason = "not every test file uses every variant")]
pub enum Fate {
    /// Done, with so many operations.
    Ops(u64),
    /// Done, with so many operations in each of five seconds.
    Seconds(u64),
    /// This status.
    Status(Status),
    /// The user interrupts during the trial.
    Interrupt,
}

type Script = Box<dyn FnMut(&Job<'_>) -> Fate>;

/// Runs nothing; asks a script what becomes of each trial.
pub struct Fake {
    script: Script,
    pub unavailable: HashMap<String, (String, String)>,
    /// (cell, index) in the order of execution.
    pub ran: Vec<(u32, u32)>,
}

#[allow(dead_code, reason = "not every test file uses it")]
impl Fake {
    pub fn new(script: impl FnMut(&Job<'_>) -> Fate + 'static) -> Self {
        Fake { script: Box::new(script), unavailable: HashMap::new(), ran: Vec::new() }
    }

    pub fn steady() -> Self {
        Fake::new(|job| Fate::Ops(1000 + u64::from(job.slot.cell)))
    }
}

impl Runner for Fake {
    fn unavailable(&mut self, stack: &StackSpec) -> Option<(String, String)> {
        self.unavailable.get(&stack.label()).cloned()
    }

    fn run(&mut self, job: &Job<'_>, stop: &AtomicBool, progress: &mut dyn FnMut(Progress)) -> Report {
        self.ran.push((job.slot.cell, job.slot.index));
        progress(Progress::Building);
        let (status, outcome) = match (self.script)(job) {
            Fate::Ops(ops) => (Status::Done, Some(outcome(ops))),
            Fate::Seconds(ops) => {
                let mut outcome = outcome(5 * ops);
                outcome.measured_seconds = 5.0;
                outcome.ops[0].ops_per_second = vec![ops; 5];
                (Status::Done, Some(outcome))
            }
            Fate::Status(status) => (status, None),
            Fate::Interrupt => {
                stop.store(true, Ordering::Release);
                (Status::Interrupted, Some(outcome(1)))
            }
        };
        Report {
            outcome,
            commands: vec![Command { purpose: "mkfs".into(), line: "mkfs.ext4 /dev/loop0".into() }],
            log: vec!["a line".into()],
            raw_output: "raw \u{fc}\n".into(),
            seconds: 15.0,
            environment: Some(study::environment::Environment::default()),
            ..Report::empty(status)
        }
    }
}
