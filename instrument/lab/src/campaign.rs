//! A campaign: the execution of one study, from the opening of its run to the undoing of what is left.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use journal::{Journal, UndoReport};
use stack::Availability;
use study::Study;
use study::plan;
use study::results::Run;
use study::shard::{Shard, ShardError};

use crate::check::Loads;
use crate::overwrite::{self, OverwriteError};
use crate::queue::Queue;
use crate::ranks::RankGroup;
use crate::real::{RealRunner, RunnerError, journal_folder};
use crate::runner::Runner;
use crate::session::{Session, SessionContext, SessionEvent, SessionOutcome};
use crate::stack_factory::StackFactory;
use crate::stop::{self, StopRequest};
use crate::store::{Store, StoreError, check_name};

/// The execution of a study: its run in the store, its journal, the wish to stop.
#[derive(Debug)]
pub struct Campaign {
    study: Study,
    loads: Loads,
    run: Run,
    store: Store,
    runner: RealRunner,
    stop: Arc<AtomicBool>,
}

/// How a campaign is opened.
#[derive(Debug, Clone)]
pub struct Opening {
    /// Take up the latest unfinished run of the study, if there is one.
    pub resume: bool,
    /// Run this part of the plan only.
    pub shard: Option<Shard>,
    /// What the user calls the run.
    pub name: Option<String>,
    /// The command that began it, program name first.
    pub command_line: Vec<String>,
    /// Hears of signals, in a thread of its own.
    pub on_signal: fn(StopRequest),
}

/// What is told while a campaign is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened<'a> {
    /// What is on a device that will be overwritten, or that one is only read.
    Overwrites(&'a str),
    /// An unfinished run is taken up.
    Resumes {
        /// Its id.
        run: &'a str,
        /// Trials with a result.
        done: u64,
        /// Trials of the plan.
        planned: u64,
    },
    /// There is no unfinished run to take up: a new one begins.
    NothingToResume,
    /// An earlier run was killed, and what it has made is still there.
    Leftovers,
}

/// Why a campaign is not opened.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// It would overwrite what it must not.
    #[error(transparent)]
    Overwrite(#[from] OverwriteError),
    /// None of the stacks can be had here: why, and what would help, in a line each.
    #[error("{}", .0.join("\n"))]
    Unavailable(Vec<String>),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No trials can be run.
    #[error(transparent)]
    Runner(#[from] RunnerError),
    /// The study cannot be split.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// Signals cannot be heard.
    #[error("signals: {0}")]
    Signals(std::io::Error),
}

impl Campaign {
    /// Opens the store and begins a run of `study`, or takes one up; `loads` are those of the study. Nothing is stored when
    /// the campaign cannot run.
    ///
    /// # Errors
    /// See [`CampaignError`].
    pub fn open(
        study: Study,
        loads: Loads,
        site: StackFactory,
        opening: &Opening,
        tell: &mut dyn FnMut(Opened<'_>),
    ) -> Result<Campaign, CampaignError> {
        opening.shard.map_or(Ok(()), |_| study::deal::admits(&study))?;
        check_any_stack(&study, &site)?;
        let models = loads.iter().filter_map(|load| Some((load.workload.as_str(), load.model()?)));
        overwrite::check(&site, &study, models, &mut |line| tell(Opened::Overwrites(line)))?;
        let home = site.home().to_owned();
        let mut store = Store::open(home.as_std_path())?;
        let run = begin(&mut store, &study, opening, tell)?;
        let runner = RealRunner::new(site, &run.id)?;
        if Journal::leftovers(&journal_folder(&home)).is_ok_and(|leftovers| !leftovers.is_empty()) {
            tell(Opened::Leftovers);
        }
        let stop =
            stop::on_signals(runner.journal().clone(), opening.on_signal).map_err(CampaignError::Signals)?;
        Ok(Campaign { study, loads, run, store, runner, stop })
    }

    /// Lets loads be run by the ranks of a launcher.
    pub fn use_ranks(&mut self, crew: RankGroup) {
        self.runner.use_ranks(crew);
    }

    /// The run as it is by now.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Makes what applications need beside the file system, once, so that the estimate holds. `tell` hears of it with the
    /// workload's label; what cannot be had is told as well, and shows in its trials.
    pub fn provide(&self, tell: &mut dyn FnMut(&str, &str)) {
        for load in self.loads.iter() {
            let Some(app) = load.app() else { continue };
            let label = load.workload.as_str();
            let home = self.store.home();
            if let Err(error) = app.provide(home, &mut |line| tell(label, line)) {
                tell(label, &format!("unavailable: {error}"));
            }
        }
    }

    /// Seconds that the rest of the run is likely to take; stacks that cannot be had take none.
    pub fn estimate_seconds(&mut self) -> f64 {
        let mut queue = Queue::new(&self.study, &self.run, &self.loads);
        for stack in &plan::stacks(&self.study) {
            if self.runner.unavailable(stack).is_some() {
                queue.cells_on(&self.run, &stack.label()).iter().for_each(|slot| queue.close(slot.cell));
            }
        }
        queue.seconds()
    }

    /// Runs what is missing, each trial stored the moment it ends, until all is done or the user wishes to stop.
    ///
    /// # Errors
    /// The store cannot be written. What goes wrong in a trial is in its status and stops no other trial.
    pub fn execute(
        &mut self,
        notify: &mut dyn FnMut(SessionEvent<'_>),
    ) -> Result<SessionOutcome, StoreError> {
        let Campaign { study, loads, run, store, runner, stop } = self;
        Session::new(study, run, SessionContext { loads, store, runner, stop, notify }).execute()
    }

    /// Undoes what is left, which is nothing unless something went wrong or the study keeps its last stack. Gives the run,
    /// and what could not be undone.
    pub fn close(self) -> (Run, Option<UndoReport>) {
        if self.study.study.keep {
            return (self.run, None);
        }
        // this closes the journal as well
        let undone = self.runner.journal().undo();
        (self.run, Some(undone).filter(UndoReport::has_failures))
    }
}

/// Whether any stack can be had here.
fn check_any_stack(study: &Study, site: &StackFactory) -> Result<(), CampaignError> {
    let mut reasons = Vec::new();
    for stack in &plan::stacks(study) {
        match site.availability(stack) {
            Availability::Available => return Ok(()),
            Availability::Unavailable(why) => {
                reasons.push(format!("{stack}: unavailable: {}; {}", why.reason, why.remedy));
            }
        }
    }
    Err(CampaignError::Unavailable(reasons))
}

/// A new run of a study, or the latest unfinished one.
fn begin(
    store: &mut Store,
    study: &Study,
    opening: &Opening,
    tell: &mut dyn FnMut(Opened<'_>),
) -> Result<Run, StoreError> {
    opening.name.as_deref().map_or(Ok(()), check_name)?;
    if opening.resume {
        if let Some(found) = store.unfinished_shard(&study.hash(), opening.shard)?.last() {
            tell(Opened::Resumes { run: &found.id, done: found.trials_done, planned: found.trials_planned });
            return store.resume(&found.id);
        }
        tell(Opened::NothingToResume);
    }
    let run = store.begin_shard(study, &opening.command_line, opening.shard)?;
    if let Some(name) = &opening.name {
        store.name(&run.id, name)?;
    }
    Ok(run)
}
