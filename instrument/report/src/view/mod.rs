//! What a run says: everything the reports show, computed once from the stored records.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | the grid: stacks as rows, loads as columns, a [`GridPoint`] in each place |
//! | [`flowop`] | the results of one flowop over all trials of a cell |
//! | [`verdict`] | every stack against the first one, and the two that lead |
//! | [`notice`] | what a reader must know beside the figures: failures, starvation, unsteady load ... |
//! | [`headline`] | the answer in a sentence |
//! | [`mod@fsync`] | where the fsyncs of each cell spent their time |
//! | [`facts`] | the environment: what all trials share, and what differs |

pub mod facts;
pub mod flowop;
pub mod fsync;
pub mod headline;
pub mod notice;
pub mod verdict;

use analysis::blocks;
use analysis::tail::ShortTail;
use stats::compleat::{self, Compleat, Grade};
use stats::shares::{self, StackResult as Rank};
use stats::{Effect, Estimate, Histogram, Outcome, Sample, Sense, Thresholds};
use study::plan;
use study::results::{Cell, Parameter, Run, Status, Trial};

use crate::format;

/// Confidence level of every interval in the reports.
pub const LEVEL: f64 = 0.95;

/// A run as a grid.
#[derive(Debug, Clone)]
pub struct View<'a> {
    /// The records.
    pub run: &'a Run,
    /// Rows, in the study's order.
    pub stacks: Vec<Stack>,
    /// Columns, in the study's order.
    pub loads: Vec<Load>,
    /// The device that all stacks share and that their names leave out, e.g. `image:2G`.
    pub device: Option<String>,
    /// Row by row.
    points: Vec<GridPoint<'a>>,
}

/// A row: a system under test.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// Its label in the records, e.g. `ext4,data=journal@image:2G`.
    pub label: String,
    /// What the reports call it: without the device when all stacks that name one name the same.
    pub name: String,
    /// Whether it keeps data on a device. One that lives in memory alone is a ceiling: its share is shown, but
    /// the best is sought among the others.
    pub competes: bool,
    /// Good at everything, bad at nothing? `None` for a ceiling, or when nothing is compared.
    pub compleat: Option<Compleat>,
}

/// A column: a workload with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The workload's label.
    pub workload: String,
    /// Swept parameters.
    pub parameters: Vec<Parameter>,
    /// Workload and parameters in one line.
    pub label: String,
    /// What the stacks are compared by.
    pub measure: Measure,
}

/// What the stacks are compared by in one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// I/O operations per second: as fast as it goes.
    Throughput,
    /// 99th percentile of the latency from the intended start, in nanoseconds: at a set rate the throughput is
    /// given, and the latency tells how well the stack carries it.
    PacedLatency,
}

/// A place of the grid: one cell of the study with its trials.
#[derive(Debug, Clone)]
pub struct GridPoint<'a> {
    /// The cell; `None` where the study has none.
    pub cell: Option<&'a Cell>,
    /// All its trials, by index.
    pub trials: Vec<&'a Trial>,
    /// The values of the column's measure in the trials that are done, by index.
    pub values: Vec<f64>,
    /// Their median with its order-statistic interval.
    pub estimate: Option<Estimate>,
    /// The values are quantiles beyond which too few operations of a trial lie: they decide nothing.
    pub short_tail: Option<ShortTail>,
    /// Share of the column's best; above 1 only for a ceiling. `None` when there is nothing to compare with.
    pub share: Option<f64>,
    /// What stands in this place.
    pub standing: CellState<'a>,
}

/// What stands in a place of the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CellState<'a> {
    /// At least one result.
    Measured,
    /// This machine cannot run it.
    Unavailable {
        /// Why.
        reason: &'a str,
        /// What would help.
        remedy: &'a str,
    },
    /// Every trial failed; the message of the last one.
    Failed(&'a str),
    /// Every trial was killed after this many seconds.
    TimedOut(f64),
    /// The user interrupted it before there was a result.
    Interrupted,
    /// No trial has run yet.
    NotRun,
    /// The study has no such cell.
    Absent,
}

impl Measure {
    /// Which way it improves.
    pub fn sense(self) -> Sense {
        match self {
            Measure::Throughput => Sense::HigherIsBetter,
            Measure::PacedLatency => Sense::LowerIsBetter,
        }
    }

    /// Its value in one outcome; `None` when nothing was measured.
    pub fn of(self, outcome: &Outcome) -> Option<f64> {
        match self {
            Measure::Throughput => (outcome.measured_seconds > 0.0).then(|| outcome.io_ops_per_second()),
            Measure::PacedLatency => intended_of(outcome)?.quantile(self.quantile()?).map(|ns| ns as f64),
        }
    }

    /// Which quantile it is; `None`: it is none.
    fn quantile(self) -> Option<f64> {
        match self {
            Measure::Throughput => None,
            Measure::PacedLatency => Some(0.99),
        }
    }

    /// A value with its unit where the column's head does not give it.
    pub fn show(self, value: f64) -> String {
        match self {
            Measure::Throughput => format::scaled(value),
            Measure::PacedLatency => format::duration_ns(value),
        }
    }

    /// A value with its unit, for running text.
    pub fn show_full(self, value: f64) -> String {
        match self {
            Measure::Throughput => format!("{} ops/s", format::scaled(value)),
            Measure::PacedLatency => format!("{} p99", format::duration_ns(value)),
        }
    }

    /// What the column's head says.
    pub fn heading(self) -> &'static str {
        match self {
            Measure::Throughput => "ops/s",
            Measure::PacedLatency => "p99 at a set rate",
        }
    }
}

impl<'a> View<'a> {
    /// Computes the grid of a run.
    pub fn new(run: &'a Run) -> View<'a> {
        let loads = loads_of(run);
        let device = shared_device(&run.stacks());
        let mut stacks: Vec<Stack> =
            run.stacks().into_iter().map(|label| Stack::new(run, label, device.as_deref())).collect();
        if stacks.iter().all(|stack| !stack.competes) {
            stacks.iter_mut().for_each(|stack| stack.competes = true);
        }
        let mut points = Vec::with_capacity(stacks.len() * loads.len());
        for stack in &stacks {
            points.extend(loads.iter().map(|load| GridPoint::new(run, &stack.label, load)));
        }
        let mut view = View { run, stacks, loads, device, points };
        view.share_out();
        view
    }

    /// The place of a row and a column.
    ///
    /// # Panics
    /// Outside the grid.
    pub fn point(&self, row: usize, column: usize) -> &GridPoint<'a> {
        assert!(column < self.loads.len(), "column {column} of {}", self.loads.len());
        &self.points[row * self.loads.len() + column]
    }

    /// A row's places, one for each load.
    pub fn row(&self, row: usize) -> &[GridPoint<'a>] {
        let width = self.loads.len();
        &self.points[row * width..(row + 1) * width]
    }

    /// Rows that have a result in this column.
    pub fn measured(&self, column: usize) -> impl Iterator<Item = (usize, &Stack, &GridPoint<'a>)> {
        let rows = self.stacks.iter().enumerate();
        rows.map(move |(row, stack)| (row, stack, self.point(row, column)))
            .filter(|(_, _, point)| point.estimate.is_some())
    }

    /// The rows of competing stacks that have a result in this column, the best first.
    pub fn ranking(&self, column: usize) -> Vec<(usize, &GridPoint<'a>)> {
        let competing = self.measured(column).filter(|(_, stack, _)| stack.competes);
        let mut ranked: Vec<(usize, &GridPoint<'a>)> =
            competing.map(|(row, _, point)| (row, point)).collect();
        let better = |a: f64, b: f64| match self.loads[column].measure.sense() {
            Sense::HigherIsBetter => b.total_cmp(&a),
            Sense::LowerIsBetter => a.total_cmp(&b),
        };
        ranked
            .sort_by(|(_, a), (_, b)| better(a.median().unwrap_or(f64::NAN), b.median().unwrap_or(f64::NAN)));
        ranked
    }

    /// Whether shares of the best mean anything: more than one stack competes.
    pub fn compares(&self) -> bool {
        self.stacks.iter().filter(|stack| stack.competes).count() > 1
    }

    /// Trials that are done.
    pub fn trials_done(&self) -> usize {
        self.run.trials.iter().filter(|trial| trial.status.is_done()).count()
    }

    /// Trials of the whole plan; early stopping may leave some out.
    pub fn trials_planned(&self) -> usize {
        let study = study::Study::from_stored(&self.run.study).ok();
        let planned =
            study.filter(|study| plan::cells(study) == self.run.cells).map(|study| plan::order(&study).len());
        planned.unwrap_or(self.run.cells.len() * self.run.planned_trials as usize)
    }

    /// How a stack stands against every other one that competes, within blocks.
    fn rank(&self, row: usize, column: usize) -> Rank {
        let load = &self.loads[column];
        let trials = |row: usize| {
            let cell = self.point(row, column).cell;
            cell.map_or(Vec::new(), |cell| {
                blocks::of_cell(self.run, cell.id, |outcome| load.measure.of(outcome))
            })
        };
        let own = trials(row);
        let others = (0..self.stacks.len()).filter(|other| *other != row && self.stacks[*other].competes);
        if others.clone().chain([row]).any(|row| self.point(row, column).short_tail.is_some()) {
            return Rank::against(&[]);
        }
        let with = others.map(trials).filter(|trials| !trials.is_empty());
        let effects: Vec<Effect> =
            with.filter_map(|other| blocks::gain(&other, &own, load.measure.sense()).ok()).collect();
        Rank::against(&effects)
    }

    fn share_out(&mut self) {
        if !self.compares() {
            return;
        }
        let width = self.loads.len();
        for column in 0..width {
            let sense = self.loads[column].measure.sense();
            let medians: Vec<Option<f64>> =
                (0..self.stacks.len()).map(|row| self.point(row, column).median()).collect();
            let competing: Vec<Option<f64>> =
                medians.iter().zip(&self.stacks).map(|(m, stack)| m.filter(|_| stack.competes)).collect();
            let shares = compleat::shares_of_best(&competing, sense);
            let best = shares.iter().position(|share| *share == Some(1.0)).and_then(|row| medians[row]);
            for (row, share) in shares.into_iter().enumerate() {
                let of_ceiling = || ceiling_share(medians[row]?, best?, sense);
                let stack = &self.stacks[row];
                self.points[row * width + column].share = if stack.competes { share } else { of_ceiling() };
            }
        }
        for row in 0..self.stacks.len() {
            let standings: Vec<Rank> = (0..width).map(|column| self.rank(row, column)).collect();
            let alpha = Thresholds::default().alpha;
            self.stacks[row].compleat =
                self.stacks[row].competes.then(|| shares::compleat(&standings, alpha));
        }
    }
}

impl Stack {
    fn new(run: &Run, label: &str, device: Option<&str>) -> Stack {
        let name = match parts(label) {
            Some((kind, own)) if Some(own) == device => kind,
            _ => label.into(),
        };
        Stack { label: label.into(), name, competes: !is_memory(run, label), compleat: None }
    }
}

/// What a stack is without its device, and the device, which may lie behind a network: `sshfs(ext4@image)`.
fn parts(label: &str) -> Option<(String, &str)> {
    let (kind, device) = label.split_once('@')?;
    match device.strip_suffix(')') {
        Some(device) if kind.matches('(').count() > kind.matches(')').count() => {
            Some((format!("{kind})"), device))
        }
        _ => Some((kind.into(), device)),
    }
}

/// The device of all stacks that name one. Stacks on different file systems then stay apart without it.
fn shared_device(labels: &[&str]) -> Option<String> {
    let mut devices = labels.iter().filter_map(|label| parts(label)).map(|(_, device)| device);
    let first = devices.next()?;
    let several = labels.iter().filter(|label| label.contains('@')).count() > 1;
    (several && devices.all(|device| device == first)).then(|| first.to_string())
}

/// Share of a stack outside the competition; may exceed 1.
fn ceiling_share(value: f64, best: f64, sense: Sense) -> Option<f64> {
    let share = match sense {
        Sense::HigherIsBetter => value / best,
        Sense::LowerIsBetter => best / value,
    };
    share.is_finite().then_some(share)
}

impl<'a> GridPoint<'a> {
    fn new(run: &'a Run, stack: &str, load: &Load) -> GridPoint<'a> {
        let here = |cell: &&Cell| {
            cell.stack == stack && cell.workload == load.workload && cell.parameters == load.parameters
        };
        let cell = run.cells.iter().find(here);
        let mut trials: Vec<&Trial> = cell.map_or(Vec::new(), |cell| run.trials_of(cell.id).collect());
        trials.sort_by_key(|trial| trial.index);
        let results = trials.iter().filter(|trial| trial.status.is_done());
        let outcomes = results.filter_map(|trial| trial.outcome.as_ref());
        let of = |outcome| load.measure.of(outcome);
        let values: Vec<f64> = outcomes.clone().filter_map(of).filter(|value| value.is_finite()).collect();
        let intended = |outcome: &Outcome| {
            outcome.io().filter_map(|op| op.intended.as_ref()).map(Histogram::count).sum()
        };
        let quantile = load.measure.quantile();
        let short_tail = quantile.and_then(|quantile| ShortTail::of(quantile, outcomes.map(intended)));
        let sample = Sample::new(&values).ok();
        let estimate = sample.map(|sample| stats::interval::median(&sample, LEVEL));
        let standing = cell_state(cell, &trials, estimate.is_some());
        GridPoint { cell, trials, values, estimate, short_tail, share: None, standing }
    }

    /// Median of the column's measure.
    pub fn median(&self) -> Option<f64> {
        self.estimate.map(|estimate| estimate.value)
    }

    /// Grade of the share.
    pub fn grade(&self) -> Option<Grade> {
        self.share.map(compleat::grade)
    }

    /// The results: trial and outcome, by index, of the trials that are done.
    pub fn results(&self) -> impl Iterator<Item = (&'a Trial, &'a Outcome)> {
        let done = self.trials.iter().filter(|trial| trial.status.is_done());
        done.filter_map(|trial| Some((*trial, trial.outcome.as_ref()?)))
    }

    /// Service times of the I/O operations of all results together, in nanoseconds.
    pub fn service(&self) -> Histogram {
        let mut all = Histogram::new();
        for (_, outcome) in self.results() {
            outcome.io().for_each(|op| all.merge(&op.service));
        }
        all
    }

    /// Latencies from the intended start of all results together, in nanoseconds; `None` when no rate was set.
    pub fn intended(&self) -> Option<Histogram> {
        let each = self.results().filter_map(|(_, outcome)| intended_of(outcome));
        each.reduce(|mut all, one| {
            all.merge(&one);
            all
        })
    }
}

impl CellState<'_> {
    /// One or two words for a table.
    pub fn word(&self) -> &'static str {
        match self {
            CellState::Measured => "measured",
            CellState::Unavailable { .. } => "unavailable",
            CellState::Failed(_) => "failed",
            CellState::TimedOut(_) => "timed out",
            CellState::Interrupted => "interrupted",
            CellState::NotRun => "not run",
            CellState::Absent => "",
        }
    }
}

fn cell_state<'a>(cell: Option<&Cell>, trials: &[&'a Trial], measured: bool) -> CellState<'a> {
    let Some(last) = trials.last() else {
        return if cell.is_some() { CellState::NotRun } else { CellState::Absent };
    };
    if measured {
        return CellState::Measured;
    }
    match &last.status {
        Status::Done => CellState::Failed("nothing was measured"),
        Status::Failed { message } => CellState::Failed(message),
        Status::TimedOut { after_seconds } => CellState::TimedOut(*after_seconds),
        Status::Interrupted => CellState::Interrupted,
        Status::Unavailable { reason, remedy } => CellState::Unavailable { reason, remedy },
    }
}

fn loads_of(run: &Run) -> Vec<Load> {
    let mut loads: Vec<Load> = Vec::new();
    for cell in &run.cells {
        let same = |load: &Load| load.workload == cell.workload && load.parameters == cell.parameters;
        if !loads.iter().any(same) {
            loads.push(Load {
                workload: cell.workload.clone(),
                parameters: cell.parameters.clone(),
                label: cell.load_label(),
                measure: Measure::Throughput,
            });
        }
    }
    for load in &mut loads {
        let cells =
            run.cells.iter().filter(|c| c.workload == load.workload && c.parameters == load.parameters);
        let mut outcomes = cells.flat_map(|cell| run.outcomes_of(cell.id)).peekable();
        if outcomes.peek().is_some() && outcomes.all(is_paced) {
            load.measure = Measure::PacedLatency;
        }
    }
    loads
}

/// Every I/O operation that ran had an intended start.
fn is_paced(outcome: &Outcome) -> bool {
    let mut ran = outcome.io().filter(|op| op.ops > 0).peekable();
    ran.peek().is_some() && ran.all(|op| op.intended.is_some())
}

fn intended_of(outcome: &Outcome) -> Option<Histogram> {
    let each = outcome.io().filter_map(|op| op.intended.as_ref());
    each.fold(None, |all: Option<Histogram>, one| {
        let mut all = all.unwrap_or_default();
        all.merge(one);
        Some(all)
    })
}

/// A stack whose data never leaves memory: tmpfs or ramfs by name, or as the kernel named the mounted target.
fn is_memory(run: &Run, stack: &str) -> bool {
    const KINDS: [&str; 3] = ["tmpfs", "ramfs", "fuse-limit"];
    if KINDS.contains(&stack.split([',', '@', ':']).next().unwrap_or(stack)) {
        return true;
    }
    let cells = run.cells.iter().filter(|cell| cell.stack == stack);
    let environments = cells.flat_map(|cell| run.trials_of(cell.id)).filter_map(|t| t.environment.as_ref());
    let mut kinds = environments.filter_map(|e| e.target.as_ref()?.fs_type.as_deref()).peekable();
    kinds.peek().is_some() && kinds.all(|kind| KINDS.contains(&kind))
}
