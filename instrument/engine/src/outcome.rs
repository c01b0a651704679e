//! What a run has come to: the sums of its lanes, why it ended, and how long it was measured.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::*;

use stats::Histogram;
use stats::metric::names;
use stats::outcome::{Ended, Metric, OpOutcome, Outcome};
use workload::stream::OPERATIONS;
use workload::{EndMode, Workload};

use crate::control::Control;
use crate::lane::LaneEnd;
use crate::program::{Line, Op, Programs};
use crate::record::{OpRecord, Timing};
use crate::shared::Shared;
use crate::system;
use crate::threads::LaneResult;

/// What the watching thread brings back.
pub(crate) struct WatchResult {
    pub(crate) timing: Timing,
    pub(crate) usage: Vec<(&'static str, &'static str, f64)>,
    pub(crate) notes: Vec<String>,
}

/// The result of a run from those of its lanes.
pub(crate) fn sum_up(
    workload: &Workload,
    programs: &Programs,
    shared: &Shared<'_>,
    results: Vec<LaneResult>,
    watched: WatchResult,
) -> Outcome {
    let WatchResult { timing, usage, mut notes } = watched;
    let mut sums = vec![OpRecord::default(); programs.lines.len()];
    for result in &results {
        let program = &programs.programs[result.program.0][result.program.1];
        for (op, record) in program.ops.iter().zip(&result.ops) {
            sums[op.line].merge(record);
        }
    }
    notes.extend(system::notes(workload));
    let mut late = Histogram::new();
    results.iter().filter_map(|result| result.late.as_deref()).for_each(|one| late.merge(one));
    let cut_back = shared.cut_back.load(Relaxed);
    let mut metrics: Vec<Metric> =
        usage.iter().map(|(name, unit, value)| Metric::process(*name, unit, *value)).collect();
    for (name, quantile) in names::DUE_TIME_LATENESS {
        if let Some(value) = late.quantile(quantile) {
            metrics.push(Metric::rate(name, "ns", value as f64));
        }
    }
    metrics.extend(own_seconds(workload, programs, &results));
    if cut_back > 0 {
        metrics.push(Metric::process(names::APPEND_ONLY_FILES_CUT_BACK, "1", cut_back as f64));
        notes.push(
            "append-only files were cut back to their nominal size when they had filled 40 % of the free space"
                .into(),
        );
    }
    for result in results.iter().filter(|result| result.drawn.0 > 0) {
        let (count, mean, squares) = result.drawn;
        let deviation = (squares / count as f64).sqrt() / mean.abs().max(f64::MIN_POSITIVE);
        notes.push(format!("testrandvar: {count} values, mean {mean:.3}, relative deviation {deviation:.3}"));
    }
    let (ended, measured_ns) = ended(workload, shared.control, &results, &timing);
    Outcome {
        measured_seconds: measured_ns as f64 / 1e9,
        warmup_seconds: (timing.measure_ns - timing.begin_ns) as f64 / 1e9,
        ended,
        ops: programs.lines.iter().zip(sums).map(|(line, sum)| op_outcome(line, sum)).collect(),
        metrics,
        notes,
    }
}

/// The seconds of each operation's own interval, as metrics `NAME/seconds`, where these are not all the whole one: a job that
/// begins later or ends earlier than others has a rate of its own, as in fio, and what reads back does not write meanwhile. Jobs of
/// one name share an interval, from the begin of the first to the end of the last.
fn own_seconds(workload: &Workload, programs: &Programs, results: &[LaneResult]) -> Vec<Metric> {
    let mut jobs = workload.threads().filter_map(|thread| {
        let stream = thread.stream.as_ref()?;
        let reads_back = stream.verify.as_ref().is_some_and(|verify| verify.read_back);
        let budget = &stream.budget;
        Some((thread.name.as_str(), budget.delay_seconds, budget.seconds, reads_back))
    });
    let Some(first) = jobs.next() else { return Vec::new() };
    // by what is to be done, so that all parts of one run tell them, whether or not they came to read back
    if !first.3 && jobs.all(|job| job == first) {
        return Vec::new();
    }
    let mut intervals: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for result in results {
        let Some(begin_ns) = result.own_begin_ns else { continue };
        let whole_ns = result.end_ns.saturating_sub(begin_ns);
        let (process, thread) = result.program;
        let stream = workload.processes[process].threads[thread].stream.as_ref();
        let reads = stream.is_some_and(|stream| stream.way.reads());
        for op in &programs.programs[process][thread].ops {
            let own_ns = match (is_read(op), reads) {
                (true, true) => whole_ns,
                (true, false) => result.read_back_ns.min(whole_ns),
                (false, _) => whole_ns.saturating_sub(result.read_back_ns),
            };
            if own_ns > 0 {
                let (begin, end) = intervals.entry(op.line).or_insert((begin_ns, begin_ns));
                (*begin, *end) = ((*begin).min(begin_ns), (*end).max(begin_ns + own_ns));
            }
        }
    }
    let metric = |(line, (begin, end)): (usize, (u64, u64))| {
        Metric::duration(format!("{}/seconds", programs.lines[line].name), (end - begin) as f64 / 1e9)
    };
    intervals.into_iter().map(metric).collect()
}

/// Whether an operation of a stream reads.
fn is_read(op: &Op) -> bool {
    let number = op.flow.value.fixed().and_then(|number| usize::try_from(number).ok());
    number.and_then(|number| OPERATIONS.get(number)) == Some(&"read")
}

/// Why the run ended, and the length of the measured interval: of each thread that was at work to the end, until its
/// last operation ended, on average; until the last thread ended when the run was to do a set amount of work.
/// Threads that had nothing more to do before would make the interval shorter than it was.
fn ended(workload: &Workload, control: &Control, results: &[LaneResult], timing: &Timing) -> (Ended, u64) {
    let measured = |result: &LaneResult| result.end_ns.saturating_sub(timing.measure_ns);
    let longest = results.iter().map(measured).max().unwrap_or(0);
    let lasting = || results.iter().filter(|result| result.end != LaneEnd::Done);
    let mean = match lasting().count() as u64 {
        0 => longest,
        count => lasting().map(measured).sum::<u64>() / count,
    };
    let first = |wanted: fn(&LaneEnd) -> bool| results.iter().find(|result| wanted(&result.end));
    if let Some(LaneResult { end: LaneEnd::Failed(fault), .. }) =
        first(|end| matches!(end, LaneEnd::Failed(_)))
    {
        return (Ended::Failed { message: fault.what.clone() }, mean);
    }
    if control.interrupted() {
        return (Ended::Interrupted, mean);
    }
    if first(|end| *end == LaneEnd::OpsReached).is_some() {
        return (Ended::OpsReached, longest);
    }
    let done = match workload.end {
        EndMode::Timeout | EndMode::FirstDone => first(|end| *end == LaneEnd::Done).is_some(),
        EndMode::AllDone => lasting().next().is_none(),
    };
    if done { (Ended::Done, longest) } else { (Ended::TimeUp, mean) }
}

pub(crate) fn op_outcome(line: &Line, sum: OpRecord) -> OpOutcome {
    OpOutcome {
        name: line.name.clone(),
        kind: line.kind.to_owned(),
        class: line.class,
        direction: line.direction,
        ops: sum.ops,
        bytes: sum.bytes,
        errors: sum.errors,
        starved: sum.starved,
        service: sum.service,
        intended: sum.intended.map(|histogram| *histogram),
        ops_per_second: sum.seconds.iter().map(|second| second.0).collect(),
        bytes_per_second: sum.seconds.iter().map(|second| second.1).collect(),
        over_time: sum.over_time.finish(),
    }
}

pub(crate) fn empty_outcome() -> Outcome {
    Outcome {
        measured_seconds: 0.0,
        warmup_seconds: 0.0,
        ended: Ended::Done,
        ops: Vec::new(),
        metrics: Vec::new(),
        notes: Vec::new(),
    }
}
