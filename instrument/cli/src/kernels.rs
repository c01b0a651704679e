//! `ab --kernel A --kernel B`: the same loads on the same stacks in guests with two kernels.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use lab::session::SessionOutcome;
use spec::StackSpec;
use stats::Thresholds;
use study::{CommandLine, Settings, Study};

use crate::console::{self, Exit, bad_input};
use crate::evaluation::{Evaluating, Source};
use crate::options::Options;
use crate::run::{RunSettings, run_study};

/// Trials of a cell in deterministic guests: two decide.
const TRIALS_DETERMINISTIC: u32 = 2;
/// The stack where none is named: what each kernel has, on a device that is the same everywhere.
const STACK: &str = "ext4@null";

/// Options of `ab` that make it a comparison of two kernels.
#[derive(Debug, Args)]
#[command(next_help_heading = "Two kernels, in guests")]
pub struct Kernels {
    /// Given twice: the kernel of A, then that of B; debian-6.12, or the path of one you built, with words for its command line
    /// in brackets
    #[arg(long, value_name = "KERNEL", conflicts_with_all = ["a", "slices", "set_a", "set_b", "drop", "one_look"])]
    kernel: Vec<String>,
    /// With --kernel: the study (*.toml) that is run in both, in place of a workload
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "kernel", conflicts_with = "workload")]
    study: Option<PathBuf>,
    /// With --kernel: the stacks (default: ext4@null, or those of the study)
    #[arg(long, value_name = "STACKS", requires = "kernel")]
    on: Option<String>,
    /// With --kernel: guests of virtual time that repeats to the bit; two trials decide
    #[arg(long, requires = "kernel")]
    deterministic: bool,
    /// With --kernel: trials of each cell [default: 6; 2 in deterministic guests; the study's]
    #[arg(long, short = 'n', value_name = "N", requires = "kernel")]
    trials: Option<u32>,
}

/// What is asked for beside the kernels.
pub struct Load<'a> {
    /// A workload and its variables.
    pub workload: Option<(PathBuf, Settings)>,
    /// Variables of the workload or the study.
    pub set: &'a [String],
    /// Differences within this share are the same, where chance has a part.
    pub margin: f64,
}

impl Kernels {
    /// Whether two kernels are to be compared.
    pub fn are_given(&self) -> bool {
        !self.kernel.is_empty()
    }

    /// Runs and compares.
    pub fn compare(
        &self,
        options: &Options,
        load: Load<'_>,
        launch: &RunSettings<'_>,
    ) -> anyhow::Result<Exit> {
        let [a, b] = self.kernel.as_slice() else {
            return Err(bad_input("--kernel is given twice: --kernel debian-6.1 --kernel debian-6.12"));
        };
        let margin = load.margin;
        let mut study = self.study(load)?;
        if study.rows.iter().any(|row| row.stack.is_some()) {
            return Err(bad_input("--kernel: the rows of this study name their stacks themselves"));
        }
        let mut pairs = Vec::new();
        let mut stacks = Vec::new();
        for stack in &study.stacks {
            let both = [self.in_kernel(stack, a)?, self.in_kernel(stack, b)?];
            if both[0] == both[1] {
                return Err(bad_input(format!("--kernel: A and B are the same, {a}")));
            }
            pairs.push((both[0].label(), both[1].label()));
            stacks.extend(both);
        }
        study.stacks = stacks;
        let (run, ending) = run_study(options, study, launch)?;
        let thresholds = Thresholds { margin, ..Thresholds::default() };
        let compared = analysis::compare::compare_pairs(&run, &pairs, &thresholds);
        console::print(&report::terminal::comparison(&compared, console::style(options)))?;
        console::print(&format!("run {}: `loadline report {0}` shows it in full", run.id))?;
        if ending == SessionOutcome::Interrupted {
            return Ok(Exit::Interrupted);
        }
        if run.trials.iter().all(|trial| !trial.status.is_done()) {
            // the trials have said why
            return Ok(crate::run::exit_of(&run, ending, &[]));
        }
        Ok(Exit::of_code(compared.conclusion.exit_code()))
    }

    fn study(&self, load: Load<'_>) -> anyhow::Result<Study> {
        let mut study = match (&self.study, load.workload) {
            (Some(file), _) => {
                let all = Evaluating {
                    quick: false,
                    scale: None,
                    device: None,
                    rows: None,
                    columns: None,
                    published: None,
                };
                all.study(Source::File(file), load.set, self.on.as_deref())?
            }
            (None, Some((file, settings))) => {
                let (apps, files) = crate::run::loads(&[file]);
                let on = self.on.clone().unwrap_or_else(|| STACK.to_string());
                let set = load.set.to_vec();
                let line = CommandLine { files, apps, on, set, settings, ..CommandLine::default() };
                lab::read::command_line(&line).map_err(bad_input)?
            }
            (None, None) => {
                return Err(bad_input("--kernel: name a load, --workload FILE.f or --study FILE.toml"));
            }
        };
        let told = self.trials.or(self.deterministic.then_some(TRIALS_DETERMINISTIC));
        if let Some(trials) = told {
            study.all_trials(trials);
        }
        Ok(study)
    }

    fn in_kernel(&self, stack: &StackSpec, kernel: &str) -> anyhow::Result<StackSpec> {
        let bad = |why: String| bad_input(format!("--kernel {kernel}: {why}"));
        let seed = stack.guest().and_then(|guest| guest.seed).or(self.deterministic.then_some(1));
        let deterministic = seed.map(|seed| format!("+deterministic(seed={seed})")).unwrap_or_default();
        let text = format!("{}+kernel:{kernel}{deterministic}", stack.within());
        let made: StackSpec = text.parse().map_err(|error| bad(format!("{text}: {error}")))?;
        match made.guest() {
            Some(_) => Ok(made),
            None => Err(bad("it reads as no kernel".into())),
        }
    }
}
