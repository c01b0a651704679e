//! Compares two runs, or the stacks of one run: verdicts by cell, and what differs in the environment.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use stats::between::{self, Answer, Basis};
use stats::blocked::Trial;
use stats::history::{self, AGE_MAX, Group, OWN_ENOUGH, Prior, RUNS_MAX, Spread, Summary};
use stats::machine::{Conditions, MachineHistory, disturbed, gate, is_other};
use stats::{Doubt, Effect, Finding, SampleError, Sense, Thresholds, Verdict, family};

use crate::machine::{booted, conditions, cpu_taken_out};
use crate::tail::ShortTail;
use crate::{blocks, exact};

use study::results::{Cell, MetricName, Run};

/// The metrics that are compared; by which of them it is decided is the user's choice.
pub const METRICS: [MetricName; 3] =
    [MetricName::Throughput, MetricName::LatencyP99, MetricName::LatencyP999];

/// A comparison of two runs, or of stacks within one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunComparison {
    /// Pairs of cells in the order of the second run.
    pub pairs: Vec<CellPair>,
    /// Cells that have no partner, as labels: of the first run, and of the second one.
    pub unpaired: (Vec<String>, Vec<String>),
    /// What differs between the environments, the weightiest first. Incidental differences are left out.
    pub environment: Vec<crate::diff::Difference>,
    /// What the conclusion is by.
    #[serde(default)]
    pub by: MetricName,
    /// Conclusion over all pairs.
    pub conclusion: Conclusion,
}

/// Two cells side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellPair {
    /// The workload with its parameters.
    pub load: String,
    /// Stack of the baseline.
    pub baseline: String,
    /// Stack of the candidate.
    pub candidate: String,
    /// One line for each metric that both cells have.
    pub lines: Vec<MetricComparison>,
}

/// One metric of two cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricComparison {
    /// The metric.
    pub metric: MetricName,
    /// Median of the baseline.
    pub baseline: f64,
    /// Median of the candidate.
    pub candidate: f64,
    /// The verdict on the candidate with all that it rests on. Ratio: candidate by baseline.
    pub finding: Finding,
    /// Its p-value, adjusted for the number of pairs that are judged by this metric; where it is not judged among others, its own.
    #[serde(default)]
    pub p_adjusted: f64,
    /// What two runs were compared by; `None` within a run: by its blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// The machine's part of the interval between runs, relative: 0.07 reads "of which the machine +-7 %".
    #[serde(default)]
    pub machine_half_width: f64,
    /// The part of the ratio that the CPU left by others explains and that was taken out, relative: -0.02 reads "others took
    /// 2 % from the candidate". 0 where it is not known, or another metric's.
    #[serde(default)]
    pub of_cpu_left: f64,
    /// In what the machine differed between the runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differed: Vec<String>,
}

/// What one cell of a run of the past yielded, by one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct PastResult {
    /// The run.
    pub run: String,
    /// Hash of its study: runs of the same study are alike.
    pub study_hash: String,
    /// [`Cell::id`].
    pub cell: u32,
    /// When the run began.
    pub started: jiff::Timestamp,
    /// The metric's value in each trial, e.g. I/O operations per second.
    pub values: Vec<f64>,
}

/// What runs of the past say of their machine, by their ids.
pub type Machines = HashMap<String, Conditions>;

/// The ids of the runs whose machine [`spread`] and [`machine_history`] ask for, the oldest first: the latest of the two studies, and where
/// those are few the latest of others too.
pub fn consulted(past: &[PastResult], a: &Run, b: &Run) -> Vec<String> {
    let latest = |wanted: bool| {
        let mut ids: Vec<&str> = Vec::new();
        for one in unrelated_runs(past, a, b).rev().filter(|one| age_days(one, a, b) <= AGE_MAX) {
            if is_own(one, a, b) == wanted && !ids.contains(&one.run.as_str()) {
                ids.push(&one.run);
            }
            if ids.len() == RUNS_MAX {
                break;
            }
        }
        ids
    };
    let mut ids = latest(true);
    if ids.len() < OWN_MANY {
        ids.extend(latest(false));
    }
    ids.into_iter().rev().map(str::to_string).collect()
}

/// So many runs of the own studies, and other studies are not looked at: twice those that suffice, since some of them may have been
/// disturbed.
const OWN_MANY: usize = 2 * OWN_ENOUGH;

/// The past without the two runs themselves.
fn unrelated_runs<'p>(
    past: &'p [PastResult],
    a: &Run,
    b: &Run,
) -> impl DoubleEndedIterator<Item = &'p PastResult> {
    past.iter().filter(move |one| one.run != a.id && one.run != b.id)
}

fn is_own(one: &PastResult, a: &Run, b: &Run) -> bool {
    [&a.study_hash, &b.study_hash].contains(&&one.study_hash)
}

fn age_days(one: &PastResult, a: &Run, b: &Run) -> f64 {
    (a.started.max(b.started).duration_since(one.started).as_secs_f64() / 86_400.0).max(0.0)
}

/// How much runs of this machine differ although nothing was changed, from its history without the two runs themselves: from those
/// that `machines` knows, on the hardware and the kernel of the later run, and that nobody disturbed.
/// What is supposed without history depends on whether the machine is a virtual one.
pub fn spread(past: &[PastResult], machines: &Machines, a: &Run, b: &Run) -> Spread {
    let now = conditions(if b.started >= a.started { b } else { a });
    let mut places: HashMap<(&str, u32), usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for one in unrelated_runs(past, a, b) {
        let Some(machine) = machines.get(&one.run).filter(|machine| !is_other(machine, &now)) else {
            continue;
        };
        let Ok(summary) = Summary::of_values(&one.values) else { continue };
        let run = history::PastRun { summary, age_days: age_days(one, a, b), flagged: disturbed(machine) };
        let place = *places.entry((one.study_hash.as_str(), one.cell)).or_insert_with(|| {
            groups.push(Group { own: is_own(one, a, b), runs: Vec::new() });
            groups.len() - 1
        });
        groups[place].runs.push(run);
    }
    let environment = a.trials.iter().find_map(|trial| trial.environment.as_ref());
    let is_virtual = environment.is_none_or(|environment| environment.cpu.virtualisation.is_some());
    let other_boot = conditions(a).boot.zip(conditions(b).boot).is_some_and(|(a, b)| a != b);
    let prior = match (other_boot, is_virtual) {
        (true, _) => Prior::ACROSS_BOOTS,
        (false, true) => Prior::VIRTUAL,
        (false, false) => Prior::BARE_METAL,
    };
    Spread::learn(&groups, prior)
}

/// What the history says of differences that need not matter: it spans boots where runs of one of the two studies, without the
/// two themselves, began before the later of the two boots, and others after it. How much the yardstick varies is learned from
/// the runs that `machines` knows, as in [`spread`].
pub fn machine_history(past: &[PastResult], machines: &Machines, a: &Run, b: &Run) -> MachineHistory {
    let later = booted(a).max(booted(b));
    let began = |before: bool| {
        let is = |one: &PastResult| later.is_some_and(|boot| (one.started.as_second() < boot) == before);
        unrelated_runs(past, a, b).filter(|one| is_own(one, a, b)).any(is)
    };
    let now = conditions(if b.started >= a.started { b } else { a });
    let usable = |id: &&String| **id != a.id && **id != b.id;
    let mut ids: Vec<&String> = machines.keys().filter(usable).collect();
    ids.sort_unstable();
    let like = ids.iter().map(|id| &machines[*id]).filter(|one| !is_other(one, &now) && !disturbed(one));
    let yardsticks: Vec<f64> = like.filter_map(|one| one.yardstick).collect();
    let yardstick_sd =
        stats::Sample::new(&yardsticks).ok().filter(|sample| sample.len() >= FEWEST_YARDSTICKS);
    MachineHistory {
        other_boots: later.is_some() && began(true) && began(false),
        yardstick_sd: yardstick_sd.map(|sample| sample.stddev()),
    }
}

/// From so many runs the scatter of the yardstick is believed: of fewer, a standard deviation is off by a third and more.
const FEWEST_YARDSTICKS: usize = 5;

/// What two runs are compared by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComparisonBasis<'a> {
    /// The machine's variance between runs.
    pub spread: Spread,
    /// Differences of the machine that need not matter.
    pub known: MachineHistory,
    /// The stack that both runs hold and that was not changed: the others are compared by their ratio to it.
    pub anchor: Option<&'a str>,
}

/// Conclusion over all pairs, by [`RunComparison::by`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Every pair is better or the same.
    NoWorse,
    /// Some pair is worse.
    SomeWorse,
    /// No pair is worse, but of some it cannot be told, or there is no pair at all.
    CannotTell,
}

impl Conclusion {
    /// Exit code of `loadline compare`: 0, 1 or 4.
    pub fn exit_code(self) -> u8 {
        match self {
            Conclusion::NoWorse => 0,
            Conclusion::SomeWorse => 1,
            Conclusion::CannotTell => 4,
        }
    }
}

/// Compares a candidate run with a baseline run.
///
/// Cells pair when workload, parameters and stack are equal. When each run has a single stack, workload and
/// parameters suffice, so that `ext4` may be compared with `ext4,data=journal`.
/// Two runs of the same thing differ although nothing was changed: the interval holds the machine's own variance between
/// runs, or is that of the ratio to an anchor.
pub fn compare(
    baseline: &Run,
    candidate: &Run,
    ground: &ComparisonBasis<'_>,
    by: MetricName,
    thresholds: &Thresholds,
) -> RunComparison {
    let any_stack = baseline.stacks().len() == 1 && candidate.stacks().len() == 1;
    let partner = |cell: &Cell, cells: &[Cell]| {
        let same = |other: &&Cell| same_load(other, cell) && (any_stack || other.stack == cell.stack);
        cells.iter().find(same).map(|found| found.id)
    };
    let label = |cell: &Cell| cell.label();
    let mut pairs = Vec::new();
    let mut without: (Vec<String>, Vec<String>) = Default::default();
    for cell in &candidate.cells {
        match partner(cell, &baseline.cells) {
            Some(other) => {
                pairs.extend(between_runs((baseline, other), (candidate, cell.id), ground, thresholds))
            }
            None => without.1.push(label(cell)),
        }
    }
    let lonely = baseline.cells.iter().filter(|cell| partner(cell, &candidate.cells).is_none());
    without.0.extend(lonely.map(label));
    let pairs = judge_together(pairs, thresholds);
    RunComparison {
        conclusion: conclude(&pairs, by),
        by,
        pairs,
        unpaired: without,
        environment: environment_differences(baseline, candidate),
    }
}

/// Compares every other stack of a run with one of its stacks (the first when none is named), load by load.
pub fn compare_stacks(
    run: &Run,
    baseline: Option<&str>,
    by: MetricName,
    thresholds: &Thresholds,
) -> RunComparison {
    let baseline = baseline.or_else(|| run.stacks().first().copied()).unwrap_or_default().to_string();
    let mut pairs = Vec::new();
    let mut alone = Vec::new();
    for cell in run.cells.iter().filter(|cell| cell.stack != baseline) {
        match run.cells.iter().find(|other| other.stack == baseline && same_load(other, cell)) {
            Some(other) => pairs.extend(within_run(run, other.id, cell.id, thresholds)),
            None => alone.push(cell.label()),
        }
    }
    let pairs = judge_together(pairs, thresholds);
    let (conclusion, unpaired) = (conclude(&pairs, by), (Vec::new(), alone));
    RunComparison { conclusion, by, pairs, unpaired, environment: Vec::new() }
}

/// Compares stacks of a run two by two, load by load, by throughput. Each pair is a baseline and a candidate, by their labels.
pub fn compare_pairs(run: &Run, stacks: &[(String, String)], thresholds: &Thresholds) -> RunComparison {
    let mut pairs = Vec::new();
    for (baseline, candidate) in stacks {
        for cell in run.cells.iter().filter(|cell| cell.stack == *candidate) {
            let partner = run.cells.iter().find(|other| other.stack == *baseline && same_load(other, cell));
            pairs.extend(partner.and_then(|other| within_run(run, other.id, cell.id, thresholds)));
        }
    }
    let by = MetricName::Throughput;
    let pairs = judge_together(pairs, thresholds);
    let (conclusion, unpaired) = (conclude(&pairs, by), Default::default());
    RunComparison { conclusion, by, pairs, unpaired, environment: Vec::new() }
}

/// What differs between the environments of two runs: of their first trials that have one. (Later load
/// averages are the run's own doing.) Threads that others had ready to run are the median over all trials,
/// seen before each load.
pub fn environment_differences(a: &Run, b: &Run) -> Vec<crate::diff::Difference> {
    let first = |run: &Run| {
        let mut environment = run.trials.iter().find_map(|trial| trial.environment.clone())?;
        environment.load.runnable = median_runnable(run);
        Some(environment)
    };
    let (Some(left), Some(right)) = (first(a), first(b)) else { return Vec::new() };
    let mut differences = crate::diff::diff(&left, &right);
    differences.retain(|difference| difference.weight > crate::diff::Importance::Incidental);
    differences
}

fn median_runnable(run: &Run) -> Option<u64> {
    let environments = run.trials.iter().filter_map(|trial| trial.environment.as_ref());
    let mut runnable: Vec<u64> = environments.filter_map(|environment| environment.load.runnable).collect();
    runnable.sort_unstable();
    let last = runnable.len().checked_sub(1)?;
    Some(u64::midpoint(runnable[last / 2], runnable[last.div_ceil(2)]))
}

/// Which way a metric improves.
pub fn sense(metric: MetricName) -> Sense {
    if metric.higher_is_better() { Sense::HigherIsBetter } else { Sense::LowerIsBetter }
}

fn same_load(a: &Cell, b: &Cell) -> bool {
    a.workload == b.workload && a.parameters == b.parameters
}

/// A pair before it is judged among the others, with the effect of each of its lines; `None` where the finding stands already.
struct OpenPair {
    pair: CellPair,
    effects: Vec<Option<Effect>>,
}

/// Judges all pairs together, each metric as a family of its own, so that among many verdicts few are false.
fn judge_together(mut open: Vec<OpenPair>, thresholds: &Thresholds) -> Vec<CellPair> {
    for metric in METRICS {
        let lines = open.iter_mut().flat_map(|one| one.pair.lines.iter_mut().zip(&one.effects));
        let family = lines.filter(|(line, _)| line.metric == metric);
        let (lines, effects): (Vec<&mut MetricComparison>, Vec<(Effect, Sense)>) =
            family.filter_map(|(line, effect)| Some((line, (effect.clone()?, sense(metric))))).unzip();
        for (line, judged) in lines.into_iter().zip(family::judge_together(&effects, thresholds)) {
            (line.finding, line.p_adjusted) = (judged.finding, judged.p_adjusted);
        }
    }
    open.into_iter().map(|one| one.pair).collect()
}

/// Two cells of one run, within its blocks.
fn within_run(run: &Run, cell_a: u32, cell_b: u32, thresholds: &Thresholds) -> Option<OpenPair> {
    let line = |metric: MetricName| -> Result<(MetricComparison, Option<Effect>), SampleError> {
        let trials = |cell: u32| blocks::of_cell(run, cell, |outcome| metric.of(outcome));
        let (a, b) = (trials(cell_a), trials(cell_b));
        let medians = medians(&a, &b)?;
        if let Some(finding) = exact::finding((run, cell_a, &a), (run, cell_b, &b), sense(metric)) {
            return Ok((compared(metric, medians, finding), None));
        }
        let effect = stats::blocked::effect(&a, &b)?;
        let finding = stats::judge::judge(&effect, sense(metric), thresholds);
        Ok(match ShortTail::of_cells(metric, [(run, cell_a), (run, cell_b)]) {
            Some(short) => (compared(metric, medians, Finding { verdict: short.verdict(), ..finding }), None),
            None => (compared(metric, medians, finding), Some(effect)),
        })
    };
    pair(run.cell(cell_a)?, run.cell(cell_b)?, line)
}

/// A metric of two cells, by nothing of the machine.
fn compared(metric: MetricName, [baseline, candidate]: [f64; 2], finding: Finding) -> MetricComparison {
    MetricComparison {
        metric,
        baseline,
        candidate,
        finding,
        p_adjusted: finding.p_value,
        basis: None,
        machine_half_width: 0.0,
        of_cpu_left: 0.0,
        differed: Vec::new(),
    }
}

/// The same cell in two runs.
fn between_runs(
    (a, cell_a): (&Run, u32),
    (b, cell_b): (&Run, u32),
    ground: &ComparisonBasis<'_>,
    thresholds: &Thresholds,
) -> Option<OpenPair> {
    let differed = gate(&conditions(a), &conditions(b), &ground.known);
    let line = |metric: MetricName| -> Result<(MetricComparison, Option<Effect>), SampleError> {
        let trials = |run: &Run, cell: u32| blocks::of_cell(run, cell, |outcome| metric.of(outcome));
        let of = |run: &Run, cell: u32, own: &[Trial]| -> Result<between::Run, SampleError> {
            let anchor = anchor(run, cell, ground).map(|id| trials(run, id));
            let anchored = anchor.map(|anchor| between::from_anchors(own, &[&anchor])).transpose()?.flatten();
            Ok(between::Run { plain: Summary::of_values(&blocks::values(own))?, anchored })
        };
        let (of_a, of_b) = (trials(a, cell_a), trials(b, cell_b));
        let medians = medians(&of_a, &of_b)?;
        if let Some(finding) = exact::finding((a, cell_a, &of_a), (b, cell_b, &of_b), sense(metric)) {
            return Ok((compared(metric, medians, finding), None));
        }
        let (mut before, mut after) = (of(a, cell_a, &of_a)?, of(b, cell_b, &of_b)?);
        let taken_out = (metric == MetricName::Throughput)
            .then(|| cpu_taken_out((a, cell_a), (b, cell_b), metric))
            .flatten();
        let plain = (before.plain.mean, after.plain.mean);
        if let Some([a, b]) = taken_out {
            (before.plain, after.plain) = (Summary::of_values(&a)?, Summary::of_values(&b)?);
        }
        let found =
            between::compare(&before, &after, &ground.spread, differed.clone(), sense(metric), thresholds);
        let other_machine = matches!(found.answer(), Answer::MachineDiffered(_))
            .then_some(Verdict::CannotTell { why: Doubt::OtherMachine });
        let short_tail = ShortTail::of_cells(metric, [(a, cell_a), (b, cell_b)]);
        let (finding, effect) = match other_machine.or(short_tail.map(ShortTail::verdict)) {
            Some(verdict) => (Finding { verdict, ..found.finding }, None),
            None => (found.finding, Some(found.effect)),
        };
        // an anchor takes it out by itself
        let of_cpu_left = match found.basis {
            Basis::Anchor => 0.0,
            Basis::History => ((plain.1 - plain.0) - (after.plain.mean - before.plain.mean)).exp_m1(),
        };
        let line = MetricComparison {
            basis: Some(found.basis),
            machine_half_width: found.machine_half_width,
            of_cpu_left,
            differed: found.differed.iter().map(ToString::to_string).collect(),
            ..compared(metric, medians, finding)
        };
        Ok((line, effect))
    };
    pair(a.cell(cell_a)?, b.cell(cell_b)?, line)
}

fn medians(a: &[Trial], b: &[Trial]) -> Result<[f64; 2], SampleError> {
    let median = |trials: &[Trial]| Ok(stats::Sample::new(&blocks::values(trials))?.median());
    Ok([median(a)?, median(b)?])
}

/// The cell on the anchor with the load of another cell; none for the anchor itself.
fn anchor(run: &Run, cell: u32, ground: &ComparisonBasis<'_>) -> Option<u32> {
    let (cell, stack) = (run.cell(cell)?, ground.anchor?);
    let is = |other: &&Cell| other.stack == stack && same_load(other, cell) && other.id != cell.id;
    run.cells.iter().find(is).map(|other| other.id)
}

fn pair(
    left: &Cell,
    right: &Cell,
    line: impl Fn(MetricName) -> Result<(MetricComparison, Option<Effect>), SampleError>,
) -> Option<OpenPair> {
    // A metric without values on one side has no line; a pair without lines counts as "cannot tell".
    let (lines, effects) = METRICS.into_iter().filter_map(|metric| line(metric).ok()).unzip();
    let (load, baseline, candidate) = (right.load_label(), left.stack.clone(), right.stack.clone());
    Some(OpenPair { pair: CellPair { load, baseline, candidate, lines }, effects })
}

fn conclude(pairs: &[CellPair], by: MetricName) -> Conclusion {
    let verdict =
        |pair: &CellPair| pair.lines.iter().find(|line| line.metric == by).map(|line| line.finding.verdict);
    let verdicts: Vec<Option<Verdict>> = pairs.iter().map(verdict).collect();
    if verdicts.contains(&Some(Verdict::Worse)) {
        Conclusion::SomeWorse
    } else if verdicts.is_empty()
        || verdicts.iter().any(|verdict| matches!(verdict, None | Some(Verdict::CannotTell { .. })))
    {
        Conclusion::CannotTell
    } else {
        Conclusion::NoWorse
    }
}
