//! The rows of the page's tables.

use stats::compleat::{Compleat, Grade};
use stats::{Histogram, Sample, Thresholds, Verdict};
use study::results::{Answer, Judgement, Run};

use super::charts::{self, Curve};
use super::text::{pretty, prose};
use crate::format;
use crate::ink::Ink;
use crate::terminal::comparison::{metric, show};
use crate::view::facts::{Facts, UNKNOWN};
use crate::view::flowop::{Flowop, flowops};
use crate::view::verdict::{BaselineComparison, against_first, doubt, told, word};
use crate::view::{GridPoint, Measure, View, headline};

/// The compleat table.
#[derive(Debug, Default)]
pub struct CompleatGrid {
    pub heads: Vec<ColumnHead>,
    pub rows: Vec<Row>,
    /// Whether stacks are judged compleat: several loads, several stacks.
    pub judged: bool,
}

/// Head of a column.
#[derive(Debug)]
pub struct ColumnHead {
    pub workload: String,
    pub parameters: String,
    pub unit: &'static str,
    pub anchor: String,
}

/// A row of the compleat table.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub competes: bool,
    pub places: Vec<GridCell>,
    pub compleat: &'static str,
}

/// A cell of the compleat table.
#[derive(Debug)]
pub struct GridCell {
    pub class: &'static str,
    pub value: String,
    pub interval: String,
    pub share: String,
    /// Length of the bar in percent.
    pub bar: Option<String>,
    pub mark: &'static str,
    /// What stands there instead of a result.
    pub word: &'static str,
}

pub fn grid(view: &View<'_>) -> CompleatGrid {
    let heads = view.loads.iter().enumerate().map(|(column, load)| ColumnHead {
        workload: load.workload.clone(),
        parameters: load.label[load.workload.len()..].trim().to_string(),
        unit: load.measure.heading(),
        anchor: anchor(column),
    });
    let rows = view.stacks.iter().enumerate().map(|(row, stack)| Row {
        name: stack.name.clone(),
        competes: stack.competes,
        places: view
            .row(row)
            .iter()
            .zip(&view.loads)
            .map(|(p, l)| place(p, l.measure, stack.competes))
            .collect(),
        compleat: match stack.compleat {
            Some(Compleat::Yes) => "yes",
            Some(Compleat::No) => "no",
            Some(Compleat::Unknown) => "unknown",
            None => "",
        },
    });
    CompleatGrid {
        heads: heads.collect(),
        rows: rows.collect(),
        judged: view.compares() && view.loads.len() > 1,
    }
}

fn anchor(column: usize) -> String {
    format!("load-{}", column + 1)
}

fn place(point: &GridPoint<'_>, measure: Measure, competes: bool) -> GridCell {
    let grade = point.grade().filter(|_| competes);
    let (class, mark) = match grade {
        Some(Grade::Good) => ("good", "\u{25b2}"),
        Some(Grade::Bad) => ("bad", "\u{25bc}"),
        Some(Grade::Middle) => ("middle", ""),
        None if point.estimate.is_some() => ("plain", ""),
        None => ("none", ""),
    };
    let estimate = point.estimate.filter(|_| point.values.len() > 1);
    GridCell {
        class,
        mark,
        value: point.median().map_or_else(String::new, |value| pretty(&measure.show(value))),
        interval: estimate.map_or_else(String::new, |e| {
            pretty(&format!("{} .. {}", measure.show(e.interval.low), measure.show(e.interval.high)))
        }),
        share: point.share.map_or_else(String::new, |share| pretty(&format::share(share))),
        bar: point
            .share
            .filter(|_| competes)
            .map(|share| format!("{:.1}", (share * 100.0).clamp(0.0, 100.0))),
        word: if point.estimate.is_some() { "" } else { point.standing.word() },
    }
}

/// One load: its figures and tables.
#[derive(Debug)]
pub struct LoadPart {
    pub anchor: String,
    pub label: String,
    pub answer: String,
    pub paced: bool,
    pub results: String,
    pub percentiles: String,
    pub latencies: Vec<LatencyRow>,
    pub over_time: Vec<Panel>,
    /// Latency over time; empty where it was not stored.
    pub heat: Vec<Panel>,
    pub flowops: Vec<FlowopPart>,
    pub tables: Vec<StackTable>,
}

/// Percentiles of a stack.
#[derive(Debug)]
pub struct LatencyRow {
    pub class: String,
    pub name: String,
    pub what: &'static str,
    pub cells: Vec<String>,
}

/// A small figure with its caption.
#[derive(Debug)]
pub struct Panel {
    pub class: String,
    pub name: String,
    pub svg: String,
}

/// The distribution of one flowop.
#[derive(Debug)]
pub struct FlowopPart {
    pub name: String,
    pub kind: String,
    pub svg: String,
    /// The tail of the same distribution.
    pub tail: String,
}

/// The flowops of one stack.
#[derive(Debug)]
pub struct StackTable {
    pub class: String,
    pub name: String,
    pub rows: Vec<FlowopRow>,
    pub starved: bool,
    pub errors: bool,
}

/// A flowop's figures.
#[derive(Debug)]
pub struct FlowopRow {
    pub name: String,
    pub kind: String,
    pub counts: bool,
    pub cells: Vec<String>,
    pub starved: String,
    pub errors: String,
}

/// The parts of these loads; none for one of which no stack has a result.
pub fn loads(view: &View<'_>, columns: &[usize], inks: &[Ink]) -> Vec<LoadPart> {
    let verdicts = told(view);
    columns.iter().filter_map(|column| load(view, &verdicts, *column, inks)).collect()
}

fn load(view: &View<'_>, verdicts: &[BaselineComparison], column: usize, inks: &[Ink]) -> Option<LoadPart> {
    view.measured(column).next()?;
    let load = &view.loads[column];
    let paced = load.measure == Measure::PacedLatency;
    let services: Vec<(usize, Histogram, Option<Histogram>)> =
        view.measured(column).map(|(row, _, point)| (row, point.service(), point.intended())).collect();
    let by_stack: Vec<Vec<Flowop>> = view.measured(column).map(|(_, _, point)| flowops(point)).collect();
    let rows: Vec<usize> = services.iter().map(|(row, ..)| *row).collect();
    type Chart = fn(&View<'_>, usize, usize, Ink) -> Option<String>;
    let panel = |row: usize, svg: String| Panel {
        class: inks[row].class(),
        name: view.stacks[row].name.clone(),
        svg,
    };
    let panels = |chart: Chart| {
        let drawn = |row: &usize| Some(panel(*row, chart(view, column, *row, inks[*row])?));
        rows.iter().filter_map(drawn).collect()
    };
    let maps = super::heat::heat_maps(view, column, inks);
    Some(LoadPart {
        anchor: anchor(column),
        label: load.label.clone(),
        answer: prose(&headline::of_load(view, verdicts, column)),
        paced,
        results: charts::results(view, column, inks),
        percentiles: charts::percentiles(
            &curves(view, &services, inks),
            &format!("Latency by percentile of {}", load.label),
        ),
        latencies: latencies(view, &services, inks),
        over_time: panels(charts::over_time),
        heat: maps.into_iter().map(|(row, svg)| panel(row, svg)).collect(),
        flowops: distributions(view, &rows, &by_stack, inks),
        tables: rows.iter().zip(&by_stack).map(|(row, ops)| table(view, *row, ops, inks[*row])).collect(),
    })
}

/// From the intended start when a rate was set, the service time then dashed beside it.
fn curves<'a>(
    view: &'a View<'_>,
    services: &'a [(usize, Histogram, Option<Histogram>)],
    inks: &[Ink],
) -> Vec<Curve<'a>> {
    let mut curves = Vec::new();
    for (row, service, intended) in services {
        let (name, class) = (view.stacks[*row].name.as_str(), inks[*row].class());
        if let Some(histogram) = intended {
            curves.push(Curve { name, class: format!("{class} due"), histogram });
        }
        let class = if intended.is_some() { format!("{class} service") } else { class };
        curves.push(Curve { name, class, histogram: service });
    }
    curves
}

fn latencies(
    view: &View<'_>,
    services: &[(usize, Histogram, Option<Histogram>)],
    inks: &[Ink],
) -> Vec<LatencyRow> {
    let mut rows = Vec::new();
    for (row, service, intended) in services {
        let kinds = [("from the intended start", intended.as_ref()), ("service time", Some(service))];
        for (what, histogram) in kinds {
            let Some(histogram) = histogram else { continue };
            rows.push(LatencyRow {
                class: inks[*row].class(),
                name: view.stacks[*row].name.clone(),
                what,
                cells: percentiles(histogram),
            });
        }
    }
    rows
}

/// Mean, p50, p90, p99, p99.9, maximum.
fn percentiles(histogram: &Histogram) -> Vec<String> {
    let mut cells = vec![histogram.mean().map_or_else(|| "-".into(), format::duration_ns)];
    cells.extend([0.5, 0.9, 0.99, 0.999].map(|q| format::latency(histogram.quantile(q))));
    cells.push(format::latency(histogram.max()));
    cells.iter().map(|cell| pretty(cell)).collect()
}

fn distributions(view: &View<'_>, rows: &[usize], by_stack: &[Vec<Flowop>], inks: &[Ink]) -> Vec<FlowopPart> {
    let part = |name: &str| {
        let found: Vec<(usize, &Flowop)> = rows
            .iter()
            .zip(by_stack)
            .filter_map(|(row, ops)| Some((*row, ops.iter().find(|op| op.name == name)?)))
            .collect();
        let kind = found.first()?.1.kind.clone();
        let curves: Vec<Curve<'_>> = found
            .iter()
            .map(|(row, op)| Curve {
                name: &view.stacks[*row].name,
                class: inks[*row].class(),
                histogram: &op.service,
            })
            .collect();
        let svg = charts::cdf(&curves, &format!("Distribution of the service time of {name}"));
        let tail = charts::tail(&curves, &format!("Tail of the service time of {name}"));
        Some(FlowopPart { name: name.to_string(), kind, svg, tail })
    };
    charts::flowop_names(by_stack).into_iter().filter_map(part).collect()
}

fn table(view: &View<'_>, row: usize, ops: &[Flowop], ink: Ink) -> StackTable {
    let count = |number: u64| if number == 0 { "0".into() } else { format::count(number) };
    let rows = ops.iter().map(|op| {
        let mut cells = vec![
            format::count(op.ops),
            pretty(&format::scaled(op.ops_per_second)),
            format::mebibytes(op.bytes_per_second),
        ];
        cells.extend(percentiles(&op.service));
        FlowopRow {
            name: op.name.clone(),
            kind: op.kind.clone(),
            counts: op.is_io(),
            cells,
            starved: count(op.starved),
            errors: count(op.errors),
        }
    });
    StackTable {
        class: ink.class(),
        name: view.stacks[row].name.clone(),
        rows: rows.collect(),
        starved: ops.iter().any(|op| op.starved > 0),
        errors: ops.iter().any(|op| op.errors > 0),
    }
}

/// A verdict against the first stack.
#[derive(Debug)]
pub struct VerdictRow {
    pub load: String,
    pub candidate: String,
    pub baseline: String,
    pub class: &'static str,
    pub mark: &'static str,
    pub word: &'static str,
    pub doubt: String,
    pub ratio: String,
    pub interval: String,
    pub forest: String,
    pub p: String,
    pub blocks: String,
}

pub fn verdicts(view: &View<'_>, thresholds: &Thresholds) -> Vec<VerdictRow> {
    let all = against_first(view);
    let span = charts::forest_span(all.iter().map(|one| &one.finding));
    let row = |one: &BaselineComparison| {
        let finding = &one.finding;
        let (class, mark) = match finding.verdict {
            Verdict::Better => ("good", "\u{25b2}"),
            Verdict::Worse => ("bad", "\u{25bc}"),
            Verdict::Same => ("same", "="),
            Verdict::CannotTell { .. } => ("open", "?"),
        };
        let interval = finding.interval;
        VerdictRow {
            load: view.loads[one.column].label.clone(),
            candidate: view.stacks[one.candidate].name.clone(),
            baseline: view.stacks[one.baseline].name.clone(),
            class,
            mark,
            word: word(&finding.verdict),
            doubt: doubt(&finding.verdict),
            ratio: format::ratio(finding.ratio),
            interval: pretty(&format!("{} .. {}", format::ratio(interval.low), format::ratio(interval.high))),
            forest: charts::forest(finding, thresholds.margin, span),
            p: crate::format::p_value(one.p),
            blocks: finding.n.to_string(),
        }
    };
    all.iter().map(row).collect()
}

/// A published value beside the measured one.
#[derive(Debug)]
pub struct PublishedRow {
    pub cell: String,
    pub metric: &'static str,
    pub published: String,
    pub measured: String,
    pub source: String,
}

pub fn published(run: &Run) -> Vec<PublishedRow> {
    let row = |published: &study::results::Published| {
        let outcomes = run.outcomes_of(published.cell);
        let values: Vec<f64> = outcomes.into_iter().filter_map(|o| published.metric.of(o)).collect();
        let measured = Sample::new(&values).ok().map(|sample| show(published.metric, sample.median()));
        PublishedRow {
            cell: run.cell(published.cell).map_or_else(String::new, |cell| cell.label()),
            metric: metric(published.metric),
            published: pretty(&format!("{} {}", format::scaled(published.value), published.unit)),
            measured: measured.map_or_else(|| "no result".into(), |text| pretty(&text)),
            source: published.source.clone(),
        }
    };
    run.published.iter().map(row).collect()
}

/// A claim with its answer.
#[derive(Debug)]
pub struct ClaimRow {
    pub class: &'static str,
    pub mark: &'static str,
    pub word: &'static str,
    pub claim: String,
    pub source: String,
    pub reason: String,
}

pub fn claims(judgements: &[Judgement]) -> Vec<ClaimRow> {
    let row = |one: &Judgement| {
        let (class, mark, word) = match one.answer {
            Answer::Reproduced => ("good", "\u{25b2}", "reproduced"),
            Answer::NotReproduced => ("bad", "\u{25bc}", "not reproduced"),
            Answer::CannotTell => ("open", "?", "cannot tell"),
        };
        ClaimRow {
            class,
            mark,
            word,
            claim: one.claim.clone(),
            source: one.source.clone().unwrap_or_default(),
            reason: one.reason.clone(),
        }
    };
    judgements.iter().map(row).collect()
}

/// The environment, grouped by the first part of the settings' paths.
#[derive(Debug)]
pub struct EnvironmentPart {
    pub groups: Vec<(String, Vec<(String, String)>)>,
    pub varying: Vec<VaryingRow>,
}

/// A setting that is not the same in all trials.
#[derive(Debug)]
pub struct VaryingRow {
    pub name: String,
    pub values: Vec<(String, String)>,
    pub note: &'static str,
    pub alarming: bool,
}

/// More distinct values than this are cut.
const VALUES_SHOWN: usize = 8;

pub fn environment(view: &View<'_>, facts: Facts) -> EnvironmentPart {
    let name_of = |label: &String| {
        let stack = view.stacks.iter().find(|stack| stack.label == *label);
        stack.map_or_else(|| label.clone(), |stack| stack.name.clone())
    };
    let mut groups: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for (path, value) in facts.common {
        let (group, name) = path.split_once('.').unwrap_or(("loadline", path.as_str()));
        let name = if path == "loadline" { "version" } else { name };
        let entry = (human(name), human_value(name, &value));
        match groups.iter_mut().find(|(known, _)| known == group) {
            Some((_, entries)) => entries.push(entry),
            None => groups.push((group.to_string(), vec![entry])),
        }
    }
    let varying = facts.varying.into_iter().map(|one| {
        // Which stacks lack a setting goes without saying when the others are named.
        let said = one.values.into_iter().filter(|(value, _)| !one.by_stack || value != UNKNOWN);
        let names = |stacks: &[String]| stacks.iter().map(name_of).collect::<Vec<_>>().join(", ");
        let shown = said.take(VALUES_SHOWN);
        VaryingRow {
            values: shown.map(|(value, stacks)| (human_value(&one.name, &value), names(&stacks))).collect(),
            name: one.name.replace('_', " "),
            note: if one.by_stack { "differs by stack" } else { "changed during the run" },
            alarming: !one.by_stack,
        }
    });
    EnvironmentPart { groups, varying: varying.collect() }
}

fn human(name: &str) -> String {
    let name = name.strip_suffix("_bytes").or(name.strip_suffix("_percent")).unwrap_or(name);
    name.replace('_', " ")
}

/// Sizes and percents with their unit; all else as it was read.
fn human_value(name: &str, value: &str) -> String {
    match value.parse::<u64>() {
        Ok(bytes) if name.ends_with("_bytes") && bytes >= 1 << 20 => {
            let (size, unit) = if bytes >= 1 << 30 {
                (bytes as f64 / f64::from(1 << 30), "GiB")
            } else {
                (bytes as f64 / f64::from(1 << 20), "MiB")
            };
            format!("{}\u{a0}{unit}", format::digits(size))
        }
        Ok(percent) if name.ends_with("_percent") => format!("{percent}\u{a0}%"),
        _ => value.to_string(),
    }
}

/// How a stack was built.
#[derive(Debug)]
pub struct Build {
    pub name: String,
    pub commands: Vec<(String, String)>,
}

/// The commands of each stack's first trial that has some.
pub fn builds(view: &View<'_>) -> Vec<Build> {
    let build = |(row, stack): (usize, &crate::view::Stack)| {
        let trials = view.row(row).iter().flat_map(|point| &point.trials);
        let commands = trials.map(|trial| &trial.commands).find(|commands| !commands.is_empty())?;
        let commands = commands.iter().map(|c| (c.purpose.clone(), c.line.clone())).collect();
        Some(Build { name: stack.label.clone(), commands })
    };
    view.stacks.iter().enumerate().filter_map(build).collect()
}

/// The fsyncs of one load.
#[derive(Debug)]
pub struct FsyncPart {
    pub load: String,
    pub heads: Vec<&'static str>,
    pub rows: Vec<FsyncLine>,
}

/// The fsyncs of one stack.
#[derive(Debug)]
pub struct FsyncLine {
    pub name: String,
    pub class: String,
    pub fsyncs: String,
    pub trials: usize,
    pub mean: String,
    pub p99: String,
    /// Time and share of each part.
    pub cells: Vec<(String, String)>,
    pub remarks: Vec<String>,
    /// Where the time of all of them went, as SVG.
    pub flame: Option<String>,
    /// The fsync of median length, as SVG.
    pub waterfall: Option<String>,
}

/// Where the fsyncs spent their time, for each load that has some.
pub fn fsyncs(view: &View<'_>, inks: &[Ink]) -> Vec<FsyncPart> {
    use crate::view::fsync::{fsyncs, parts};
    let all = fsyncs(view);
    let of_load = |column: usize| {
        let rows: Vec<_> = all.iter().filter(|row| row.column == column).cloned().collect();
        let parts = parts(&rows);
        let line = |row: &crate::view::fsync::FsyncRow<'_>| FsyncLine {
            name: view.stacks[row.row].name.clone(),
            class: inks[row.row].class(),
            fsyncs: format::count(row.split.summary.fsyncs),
            trials: row.trials,
            mean: pretty(&format::duration_ns(row.top.whole.mean_ns)),
            p99: pretty(&format::latency(Some(row.top.whole.p99_ns))),
            cells: parts
                .iter()
                .map(|part| {
                    (pretty(&format::duration_ns(row.mean_ns(*part))), format::share(row.share(*part)))
                })
                .collect(),
            remarks: row.remarks(),
            flame: {
                let label =
                    format!("Fsyncs of {} on {}", view.loads[column].label, view.stacks[row.row].name);
                crate::fsync::flame::flame(&row.split.summary, &label).map(|drawing| drawing.finish(&label))
            },
            waterfall: row.split.typical.as_ref().map(crate::fsync::svg::waterfall),
        };
        let heads = parts.iter().map(|part| part.name()).collect();
        FsyncPart { load: view.loads[column].label.clone(), heads, rows: rows.iter().map(line).collect() }
    };
    (0..view.loads.len()).map(of_load).filter(|part| !part.rows.is_empty()).collect()
}
