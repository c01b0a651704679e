//! A published evaluation: its tables, figures and what a reader must know, from a [`Grid`].
//!
//! | module | holds |
//! |---|---|
//! | `mod` | tables as [`Sheet`]s, and the paragraphs around them |
//! | `regime` | what of the original's regime the loads do not reach |
//! | [`explain`] | what the counters say about the bad places |
//! | [`figure`] | the drawings |
//! | [`artifact`] | result files in the shape of the publication's artifact |

pub mod artifact;
pub mod explain;
pub mod figure;
mod regime;

use analysis::grid::{Grid, GridCell};
use stats::compleat::Compleat;
use study::Table;
use study::evaluation::{Cost, TableBaseline};
use study::results::{Answer, Judgement};

use crate::format;
use crate::sheet::{CellTone, Head, Line, Sheet, SheetCell};

/// From which gain over the base row a place is good, below which it is bad.
const GAIN_GOOD: f64 = 1.1;
/// See [`GAIN_GOOD`].
const GAIN_BAD: f64 = 0.97;
/// By how much the second figure must tell otherwise to be shown.
const SECOND_TOLD: f64 = 0.1;
/// More systems than this stand below each other, not side by side.
const ACROSS_MAX: usize = 7;

/// A table with what is drawn of it.
#[derive(Debug, Clone)]
pub struct Part<'a> {
    /// The table in the study.
    pub table: &'a Table,
    /// Its figures.
    pub sheet: Sheet,
}

/// The tables of a run, those of its study's order that it measures.
pub fn parts(grid: &Grid) -> Vec<Part<'_>> {
    grid.tables().map(|table| Part { table, sheet: sheet(grid, table) }).collect()
}

/// The rows of a table: those with a result in it. A row without any is told of below the tables.
pub(crate) fn rows_of(grid: &Grid, table: &Table) -> Vec<usize> {
    let columns = grid.columns_of(&table.id);
    let has = |row: &usize| columns.iter().any(|at| grid.cell(*row, *at).median().is_some());
    let (with, without): (Vec<usize>, Vec<usize>) = grid.run_rows().into_iter().partition(has);
    if with.is_empty() { without } else { with }
}

/// Rows that have a result anywhere: those of a legend.
pub fn rows_with_results(grid: &Grid) -> Vec<usize> {
    let has = |row: &usize| (0..grid.study.columns.len()).any(|at| grid.cell(*row, at).median().is_some());
    grid.run_rows().into_iter().filter(has).collect()
}

fn sheet(grid: &Grid, table: &Table) -> Sheet {
    let columns = grid.columns_of(&table.id);
    let rows = rows_of(grid, table);
    let unit =
        |at: usize| if grid.unit(at) == table.unit { String::new() } else { grid.unit(at).to_string() };
    let line = |row: usize| {
        let spots = columns.iter().map(|at| sheet_cell(grid, table, row, *at)).collect();
        Line {
            head: Head { name: grid.study.rows[row].title().into(), unit: compleat(grid, table, row) },
            spots,
        }
    };
    let head = |at: &usize| Head { name: grid.study.columns[*at].title().into(), unit: unit(*at) };
    let sheet = Sheet {
        title: table.title.clone(),
        corner: table.unit.clone(),
        heads: columns.iter().map(head).collect(),
        lines: rows.iter().map(|row| line(*row)).collect(),
    };
    if rows.len() <= ACROSS_MAX { sheet.turned() } else { sheet }
}

/// The word beside a row. It is one of file systems: a row that is an engine or a program has none.
fn compleat(grid: &Grid, table: &Table, row: usize) -> String {
    match grid.compleat(row) {
        _ if table.against != TableBaseline::Best || table.aside || grid.study.rows[row].stack.is_none() => {
            ""
        }
        Compleat::Yes => "compleat",
        Compleat::No => "not compleat",
        Compleat::Unknown => "",
    }
    .into()
}

fn sheet_cell(grid: &Grid, table: &Table, row: usize, at: usize) -> SheetCell {
    let place = grid.cell(row, at);
    let Some(median) = place.median() else {
        let word = place.absent.as_ref().map_or("", analysis::grid::AbsentReason::word);
        return SheetCell { value: word.into(), ..SheetCell::default() };
    };
    let mut spot = SheetCell { value: format::digits(median), tint: CellTone::Plain, ..SheetCell::default() };
    if place.values.len() > 1 {
        spot.details.push(range(place));
    }
    match table.against {
        TableBaseline::Best => {
            spot.beside = place.share.map_or(String::new(), format::share);
            spot.tint = place.grade().map_or(CellTone::Plain, CellTone::of_grade);
            if let Some(value) = grid.published_value(row, at) {
                spot.details.push(format!("published {}", format::digits(value)));
            }
        }
        TableBaseline::Base => against_base(grid, table, row, at, &mut spot),
    }
    spot.details.extend(published_lines(grid, place, at));
    if let (Some(off), Some(value)) = (grid.distance_from_published(row, at), grid.published_value(row, at)) {
        let miss = if is_miss(grid, off) { " MISS" } else { "" };
        spot.details.push(format!("paper {}, {}{miss}", format::digits(value), percent(off)));
    }
    spot
}

/// What stands beside a value: medians of counters within its timer.
fn published_lines(grid: &Grid, place: &GridCell, at: usize) -> Vec<String> {
    let told = |cost: &Cost| {
        let counters = cost.metrics.iter();
        let values = counters.filter_map(|counter| place.metric(&analysis::regime::name(grid, at, counter)));
        let sum = values.fold(None, |sum: Option<f64>, value| Some(sum.unwrap_or(0.0) + value))?;
        Some(
            format!("{} {} {}", cost.title, format::digits(sum / cost.divide), cost.unit)
                .trim_end()
                .to_string(),
        )
    };
    grid.study.columns[at].beside.iter().filter_map(told).collect()
}

/// Whether a figure is farther off what was published than the study allows.
fn is_miss(grid: &Grid, off: f64) -> bool {
    grid.evaluation().within.is_some_and(|within| off.abs() > within)
}

fn percent(off: f64) -> String {
    format!("{:+.1} %", off * 100.0)
}

/// Figures that are farther off what was published than the study allows, after how many there are of all.
fn misses(grid: &Grid) -> Vec<String> {
    let Some(within) = grid.evaluation().within else { return Vec::new() };
    let (mut all, mut lines) = (0, Vec::new());
    for at in (0..grid.study.columns.len()).filter(|at| grid.is_measured(*at)) {
        for row in grid.run_rows() {
            let Some(off) = grid.distance_from_published(row, at) else { continue };
            all += 1;
            if is_miss(grid, off) {
                let (row, column) = (grid.study.rows[row].title(), grid.study.columns[at].title());
                lines.push(format!("{row}, {column}: {}", percent(off)));
            }
        }
    }
    if all > 0 {
        let near = all - lines.len();
        lines.insert(0, format!("{near} of {all} figures are within {:.0} %", within * 100.0));
    }
    lines
}

/// Smallest and largest trial.
fn range(place: &GridCell) -> String {
    let low = place.values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = place.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} .. {}", format::digits(low), format::digits(high))
}

fn against_base(grid: &Grid, table: &Table, row: usize, at: usize, spot: &mut SheetCell) {
    let base = grid.study.evaluation.as_ref().and_then(|evaluation| evaluation.base.clone());
    if base.is_some_and(|base| grid.study.rows[row].id == base) {
        return;
    }
    let Some(gain) = grid.gain(row, at, false) else { return };
    spot.beside = times(gain);
    spot.tint = match gain {
        _ if gain >= GAIN_GOOD => CellTone::Good,
        _ if gain < GAIN_BAD => CellTone::Bad,
        _ => CellTone::Middle,
    };
    let differs = |second: &f64| (second / gain - 1.0).abs() >= SECOND_TOLD;
    if let (Some(second), Some(told)) = (grid.gain(row, at, true).filter(differs), &table.second) {
        spot.details.push(format!("{} {}", told.mark, times(second)));
    }
    if let Some(gain) = grid.published_gain(row, at) {
        spot.details.push(format!("published {}", times(gain)));
    }
}

fn times(gain: f64) -> String {
    format!("{} x", format::ratio(gain))
}

/// What the signs in the tables mean.
pub fn legend(grid: &Grid) -> Vec<String> {
    let mut lines = Vec::new();
    let tables: Vec<&Table> = grid.tables().collect();
    let range = "Median; below it the smallest and the largest trial.";
    if tables.iter().any(|table| table.against == TableBaseline::Best) {
        lines.push(format!(
            "{range} Percent: share of the best row of this run; + 85 % or more, ! below 30 %. Compleat: no !, most +."
        ));
    }
    if let Some(table) = tables.iter().find(|table| table.against == TableBaseline::Base) {
        let base = grid.evaluation().base.unwrap_or_default();
        let base = grid.row(&base).map_or(base.clone(), |row| grid.study.rows[row].title().to_string());
        lines.push(format!("{range} x: times that of {base}; + {GAIN_GOOD} or more, ! below {GAIN_BAD}."));
        if let Some(second) = &table.second {
            lines.push(format!("{}: {}, where that is 10 % or more apart.", second.mark, second.title));
        }
    }
    if (0..grid.study.columns.len()).any(|at| grid.is_measured(at) && grid.published(at).is_some()) {
        lines.push(match grid.evaluation().within {
            None => "Published values come from other machines: compare ratios, not values.".into(),
            Some(within) => format!(
                "paper: the published value of the machine that is simulated, and how far off it is; MISS: by more than \
                 {:.0} %.",
                within * 100.0
            ),
        });
    }
    lines
}

/// A heading with its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notes {
    /// Heading.
    pub title: &'static str,
    /// Lines.
    pub lines: Vec<String>,
}

/// What a reader must know beside the tables; empty ones are left out.
pub fn notes(grid: &Grid) -> Vec<Notes> {
    let evaluation = grid.evaluation();
    let rows: Vec<String> = grid
        .run_rows()
        .into_iter()
        .map(|row| &grid.study.rows[row])
        .filter(|row| !row.note.is_empty())
        .map(|row| format!("{}: {}", row.title(), row.note))
        .collect();
    let missing = grid.absent().into_iter().map(|(names, why)| format!("{names}: {why}"));
    let unavailable =
        evaluation.unavailable.iter().map(|one| format!("{}: {}; {}", one.what, one.why, one.nearest));
    let left_out = grid.left_out();
    let left_out = (!left_out.is_empty()).then(|| format!("{} (name them in --rows)", left_out.join(", ")));
    let remarks = evaluation.remarks.iter().filter(|(letter, _)| {
        let bears = |at: usize| {
            grid.is_measured(at) && grid.published(at).is_some_and(|one| one.remark.as_ref() == Some(letter))
        };
        (0..grid.study.columns.len()).any(bears)
    });
    let of = |title, lines: Vec<String>| Notes { title, lines };
    let explained = if evaluation.explain_bad { explain::bad_places(grid) } else { Vec::new() };
    let all = [
        of("Below 30 % of the best, and what the counters say", explained),
        of(
            "What published gains rest on",
            remarks.map(|(letter, text)| format!("{letter}: {text}")).collect(),
        ),
        of("How near the published values are, and which miss", misses(grid)),
        of("Without results", missing.chain(unavailable).collect()),
        of("Not run", left_out.into_iter().collect()),
        of("Rows", rows),
        of("Sizes", evaluation.sizes.clone()),
        of("The original's regime, by counters within the timers", regime::lines(grid)),
        of("What the loads say", remarks_of_loads(grid)),
        of("Notes", evaluation.notes.clone()),
    ];
    all.into_iter().filter(|notes| !notes.lines.is_empty()).collect()
}

/// What the loads noted, each remark once.
fn remarks_of_loads(grid: &Grid) -> Vec<String> {
    let measured = (0..grid.study.columns.len()).filter(|at| grid.is_measured(*at));
    let places = measured.flat_map(|at| grid.run_rows().into_iter().map(move |row| grid.cell(row, at)));
    let notes: std::collections::BTreeSet<String> =
        places.flat_map(|place| &place.outcomes).flat_map(|outcome| outcome.notes.clone()).collect();
    notes.into_iter().collect()
}

/// Costs of each row, summed over the columns that every row of the run has; `None` when the study names none.
pub fn costs(grid: &Grid) -> Option<Sheet> {
    let (evaluation, rows) = (grid.evaluation(), grid.run_rows());
    let mut columns: Vec<usize> = Vec::new();
    for at in 0..grid.study.columns.len() {
        let (column, full) = (&grid.study.columns[at], |row: &usize| grid.cell(*row, at).median().is_some());
        // what two columns share is counted once
        let seen = |other: &usize| {
            let other = &grid.study.columns[*other];
            other.load == column.load && other.section() == column.section()
        };
        if grid.is_measured(at) && rows.iter().all(full) && !columns.iter().any(seen) {
            columns.push(at);
        }
    }
    if evaluation.costs.is_empty() || columns.is_empty() {
        return None;
    }
    let sum = |row: usize, metrics: &[String]| -> Option<f64> {
        let name = |at: &usize, end: &String| format!("{}{end}", grid.study.columns[*at].section());
        let values = columns.iter().flat_map(|at| {
            metrics.iter().filter_map(move |end| {
                let place = grid.cell(row, *at);
                // a counter of this column's own side, where its section is another's
                place
                    .metric(&name(at, end))
                    .or_else(|| place.metric(&format!("{}{end}", grid.study.columns[*at].id)))
            })
        });
        values.fold(None, |sum: Option<f64>, value| Some(sum.unwrap_or(0.0) + value))
    };
    let spot = |row: usize, cost: &study::evaluation::Cost| match sum(row, &cost.metrics) {
        Some(value) => SheetCell {
            value: format::digits(value / cost.divide),
            tint: CellTone::Plain,
            ..SheetCell::default()
        },
        None => SheetCell { value: "-".into(), ..SheetCell::default() },
    };
    Some(Sheet {
        title: format!("What it cost, {} columns together", columns.len()),
        corner: String::new(),
        heads: evaluation
            .costs
            .iter()
            .map(|cost| Head { name: cost.title.clone(), unit: cost.unit.clone() })
            .collect(),
        lines: rows
            .iter()
            .map(|row| Line {
                head: Head { name: grid.study.rows[*row].title().into(), unit: String::new() },
                spots: evaluation.costs.iter().map(|cost| spot(*row, cost)).collect(),
            })
            .collect(),
    })
}

/// What is asked of an evaluation.
pub const QUESTION: &str = "What of the publication holds here?";

/// The answer in a sentence: how many claims hold.
pub fn answer(judgements: &[Judgement]) -> String {
    let of = |answer| judgements.iter().filter(|one| one.answer == answer).count();
    let parts: Vec<String> = [
        (of(Answer::Reproduced), "reproduced"),
        (of(Answer::NotReproduced), "not reproduced"),
        (of(Answer::CannotTell), "open: it cannot be told"),
    ]
    .into_iter()
    .filter(|(number, _)| *number > 0)
    .map(|(number, word)| format!("{number} {word}"))
    .collect();
    match judgements.len() {
        0 => "It makes no claims.".into(),
        1 => format!("Its claim is {}.", parts.join("").trim_start_matches("1 ")),
        number => format!("Of {number} claims {}.", parts.join(", ")),
    }
}
