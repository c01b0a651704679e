//! Executes trials on this machine: a fresh stack for each, the load in a process of its own.
//!
//! | module | holds |
//! |---|---|
//! | `trial` | one trial on the way: stack, workers, what came of them |
//! | `observer` | what is seen of its workers, and the watch of the machine around them |
//! | `alternate` | the trials of a block in turns |
//! | `kept_stacks` | stacks that are kept between trials, whose loads go in slices |
//! | `ranked` | a trial whose load many ranks run: what each does, and what does not go with them |
//! | `ending` | what it came to, as a status |
//! | `evidence` | what is kept beside the measurement: commands, environment, counters |

mod alternate;
mod ending;
mod evidence;
mod kept_stacks;
mod observer;
mod ranked;
mod trial;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use journal::Journal;
use spec::StackSpec;
use stack::Availability;
use study::results::Status;

pub use evidence::fua_note;
pub(crate) use trial::timeout_seconds;

use crate::guests::Guests;
use crate::guests::context::GuestContext;
use crate::protocol::ARGUMENT;
use crate::ranks::RankGroup;
use crate::runner::{Job, Progress, Report, Runner};
use crate::stack_factory::StackFactory;
use crate::trial::machine::SampleHook;
use crate::trial::process::Program;
use kept_stacks::KeptStacks;
use trial::{Trial, TrialTarget};

/// Executes trials on this machine.
pub struct RealRunner {
    /// The program that becomes a worker.
    pub program: Program,
    site: StackFactory,
    journal: Arc<Journal>,
    /// Trials so far: each memory group has a name of its own.
    trials: u32,
    kept: KeptStacks,
    crew: Option<Mutex<RankGroup>>,
    guests: Guests,
    /// Hears of each sample that bounds a measurement of the machine, before and after it is taken: for tests.
    pub sampled: Option<SampleHook>,
}

impl std::fmt::Debug for RealRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RealRunner").field("program", &self.program).finish_non_exhaustive()
    }
}

impl RealRunner {
    /// A runner that builds its stacks at `site` and keeps its journal in the home there, under the run's id; trials run in
    /// processes of this executable.
    ///
    /// # Errors
    /// The journal cannot be written, or the executable is not known.
    pub fn new(site: StackFactory, run: &str) -> Result<Self, RunnerError> {
        let journal = Journal::open(&journal_folder(site.home()), &format!("{run}.{}", std::process::id()))?;
        let program = std::env::current_exe().map_err(|source| RunnerError::Executable { source })?;
        Ok(RealRunner {
            program: Program::new(program, &[ARGUMENT]),
            site,
            journal,
            trials: 0,
            kept: KeptStacks::default(),
            crew: None,
            guests: Guests::default(),
            sampled: None,
        })
    }

    /// Lets loads be run by the ranks of a launcher from now on.
    pub fn use_ranks(&mut self, crew: RankGroup) {
        self.crew = Some(Mutex::new(crew));
    }

    fn in_guest(&mut self, job: &Job<'_>, stop: &AtomicBool, progress: &mut dyn FnMut(Progress)) -> Report {
        let in_slices = job.study.study.turns.as_ref().is_some_and(|turns| turns.slices.is_some());
        let (reason, remedy) = match (self.crew.is_some(), in_slices) {
            (true, _) => ("ranks of a launcher run no guests", "run it without the launcher"),
            (_, true) => ("a guest runs whole trials, no slices", "leave --slices out"),
            _ => {
                let means = GuestContext { site: &self.site, journal: &self.journal, stop, progress };
                return self.guests.run(job, means);
            }
        };
        Report::empty(Status::Unavailable { reason: reason.into(), remedy: remedy.into() })
    }

    /// The journal of what this runner makes.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }
}

impl Runner for RealRunner {
    fn unavailable(&mut self, stack: &StackSpec) -> Option<(String, String)> {
        match self.site.availability(stack) {
            Availability::Available => None,
            Availability::Unavailable(why) => Some((why.reason, why.remedy)),
        }
    }

    fn run(&mut self, job: &Job<'_>, stop: &AtomicBool, progress: &mut dyn FnMut(Progress)) -> Report {
        self.trials += 1;
        if job.stack.guest().is_some() {
            return self.in_guest(job, stop, progress);
        }
        let place = TrialTarget {
            site: &self.site,
            program: &self.program,
            journal: &self.journal,
            crew: self.crew.as_ref(),
            number: self.trials,
            sampled: self.sampled.as_ref(),
        };
        let trial = Trial::new(place, job, stop, progress);
        match job.study.study.turns.as_ref().and_then(|turns| turns.slices) {
            Some(length) => self.kept.slice(trial, length.0),
            None => trial.run(),
        }
    }

    fn run_in_turns(
        &mut self,
        jobs: &[Job<'_>],
        turn: Duration,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Vec<Report> {
        let mut hearers = alternate::shared(progress, jobs.len());
        let mut trials = Vec::new();
        for (job, progress) in jobs.iter().zip(&mut hearers) {
            self.trials += 1;
            let place = TrialTarget {
                site: &self.site,
                program: &self.program,
                journal: &self.journal,
                crew: None,
                number: self.trials,
                sampled: self.sampled.as_ref(),
            };
            trials.push(Trial::new(place, job, stop, progress));
        }
        let seed = jobs.first().map_or(0, |job| job.study.study.seed ^ u64::from(job.slot.order) << 32);
        alternate::block(trials, turn, seed)
    }

    fn end(&mut self) -> Vec<String> {
        self.guests.end();
        self.kept.end()
    }
}

/// Where journals are kept below the home of results; what `loadline doctor` looks through.
pub fn journal_folder(home: &Utf8Path) -> Utf8PathBuf {
    Journal::folder(home)
}

/// Why no runner can be had.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] journal::JournalError),
    /// The executable is not known.
    #[error("the path of this executable cannot be told: {source}")]
    Executable {
        /// The system's error.
        source: std::io::Error,
    },
}
