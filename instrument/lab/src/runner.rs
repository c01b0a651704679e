//! Executes trials: the trait that the session drives. Implementations: [`crate::real::RealRunner`], and
//! fakes in tests.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use spec::StackSpec;
use stats::Outcome;

use study::plan::Slot;
use study::results::{Cell, Command, Parameter, Status};
use study::{Study, Workload};

use crate::load::ResolvedWorkload;

/// Everything that one trial needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The run that it belongs to.
    pub run: &'a str,
    /// Its place in the plan.
    pub slot: Slot,
    /// Its cell.
    pub cell: &'a Cell,
    /// The stack to build.
    pub stack: &'a StackSpec,
    /// Its workload, for its settings.
    pub workload: &'a Workload,
    /// What to run, as far as it can be known without the target.
    pub load: &'a ResolvedWorkload,
    /// The whole study, for its settings.
    pub study: &'a Study,
    /// Operations a second to offer; without it as workload and study say.
    pub rate: Option<f64>,
    /// No trial follows, so that its stack may be kept.
    pub last: bool,
}

/// What a trial came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// How it ended.
    pub status: Status,
    /// What was measured, if anything.
    pub outcome: Option<Outcome>,
    /// The machine just before the load.
    pub environment: Option<study::environment::Environment>,
    /// The commands that built the stack.
    pub commands: Vec<Command>,
    /// Lines of the workload.
    pub log: Vec<String>,
    /// Standard error of the trial's process.
    pub raw_output: String,
    /// Wall seconds of the whole trial.
    pub seconds: f64,
    /// Where its fsyncs spent their time.
    pub fsync: Option<study::fsync::FsyncSplit>,
    /// What its script asked to be told beside the result.
    pub extras: study::results::ScriptExtras,
    /// Final values of the variables of what ran.
    pub variables: Vec<Parameter>,
}

impl Report {
    /// A trial that came to nothing.
    pub fn empty(status: Status) -> Self {
        Report {
            status,
            outcome: None,
            environment: None,
            commands: Vec::new(),
            log: Vec::new(),
            raw_output: String::new(),
            seconds: 0.0,
            fsync: None,
            extras: Default::default(),
            variables: Vec::new(),
        }
    }
}

/// What a running trial tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// The stack is being built.
    Building,
    /// The stack is unmounted and mounted again, caches are dropped.
    Cooling,
    /// What the load engine tells.
    Engine(engine::options::Event),
    /// The stack is being taken down.
    TakingDown,
}

/// Executes trials, one at a time.
pub trait Runner {
    /// Why this machine cannot run a stack: reason and remedy. `None` when nothing is known against it.
    fn unavailable(&mut self, stack: &StackSpec) -> Option<(String, String)>;

    /// Runs a trial to its end and takes everything down again. Never fails: what goes wrong is the report's
    /// status. When `stop` becomes true, the trial ends soon, as [`Status::Interrupted`], with what it has
    /// measured.
    fn run(&mut self, job: &Job<'_>, stop: &AtomicBool, progress: &mut dyn FnMut(Progress)) -> Report;

    /// Runs the trials of a block, whose loads take turns of this length. A runner that knows no turns runs them one by one.
    fn run_in_turns(
        &mut self,
        jobs: &[Job<'_>],
        _turn: Duration,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Vec<Report> {
        jobs.iter().map(|job| self.run(job, stop, progress)).collect()
    }

    /// No further trials: takes down what was kept between them (slices). What goes wrong is told, a line each.
    fn end(&mut self) -> Vec<String> {
        Vec::new()
    }
}
