//! One self-contained page: no scripts needed, nothing fetched, readable on paper.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | the page and its parts; the text is in `templates/` |
//! | `parts` | the rows of its tables |
//! | `charts` | its figures |
//! | `heat` | latency over time |
//! | `figures` | its figures as files |
//! | `text` | typographic signs |
//!
//! Styles are in `templates/style.css`, the little script (highlighting, opening what is folded before printing)
//! in `templates/page.js`. Every colour is a CSS variable, with a light and a dark value.

pub(crate) mod charts;
mod figures;
mod heat;
mod parts;
mod text;

use analysis::grid::Grid;
use askama::Template;
use stats::Thresholds;
use study::Load;
use study::results::{Judgement, Run};

pub use figures::figures;
use text::prose;

use crate::evaluation::{self, Notes};
use crate::format;
use crate::ink::Ink;
use crate::load_curve::LoadCurves;
use crate::scaling::Scaling;
use crate::sheet::Sheet;
use crate::view::facts::facts;
use crate::view::headline::{Headline, headline};
use crate::view::notice::{Notice, beside_evaluation, notices};
use crate::view::{Stack, View};

/// The style sheet of every page.
pub(crate) const STYLE: &str = include_str!("../../templates/style.css");
/// The script of a run's page.
pub(crate) const SCRIPT: &str = include_str!("../../templates/page.js");

/// The report of a run as a page. `claims` are the judged claims of its study, if it makes any.
///
/// # Errors
/// When the template cannot be written, which nothing in a run is known to provoke.
pub fn page(run: &Run, claims: &[Judgement]) -> Result<String, askama::Error> {
    render(run, claims, false)
}

/// The same page for a server: style and script are files of their own, and a bar leads to the other pages.
///
/// # Errors
/// As [`page`].
pub fn served(run: &Run, claims: &[Judgement]) -> Result<String, askama::Error> {
    render(run, claims, true)
}

fn render(run: &Run, claims: &[Judgement], served: bool) -> Result<String, askama::Error> {
    let view = View::new(run);
    let inks = inks(&view);
    let grid = Grid::of(run);
    let told = grid.as_ref().map(evaluation_part);
    let notices = if grid.is_some() { beside_evaluation(&view) } else { notices(&view) };
    let page = Page {
        run,
        title: if run.title.is_empty() { "Report".into() } else { run.title.clone() },
        headline: tidy_headline(headline_of(&view, told.as_ref(), claims)),
        started: run.started.strftime("%-d %B %Y, %H:%M UTC").to_string(),
        took: run.finished.map(|end| format::span_seconds(end.duration_since(run.started).as_secs_f64())),
        done: view.trials_done(),
        planned: view.trials_planned(),
        legend: legend(&view, &inks),
        grid: if told.is_some() { parts::CompleatGrid::default() } else { parts::grid(&view) },
        loads: parts::loads(&view, &shown_loads(&view, grid.as_ref()), &inks),
        fsyncs: parts::fsyncs(&view, &inks),
        verdicts: if told.is_some() { Vec::new() } else { parts::verdicts(&view, &Thresholds::default()) },
        published: parts::published(run),
        claims: parts::claims(claims),
        notices: notices.iter().map(tidy).collect(),
        evaluation: told,
        load_curves: LoadCurves::of(run, None).map(|curves| curves.figure()),
        // one number of containers makes no curve
        scaling: Scaling::of(run).filter(|scaling| scaling.lines.len() > 1).map(|scaling| scaling.figure()),
        environment: parts::environment(&view, facts(run)),
        builds: parts::builds(&view),
        command: format::shell_line(&run.command_line),
        compares: view.compares(),
        ceilings: view.stacks.iter().any(|stack| !stack.competes),
        device: view.device.clone(),
        style: STYLE,
        script: SCRIPT,
        served,
    };
    page.render()
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    run: &'a Run,
    title: String,
    headline: Headline,
    started: String,
    took: Option<String>,
    done: usize,
    planned: usize,
    legend: Vec<Key>,
    grid: parts::CompleatGrid,
    loads: Vec<parts::LoadPart>,
    fsyncs: Vec<parts::FsyncPart>,
    verdicts: Vec<parts::VerdictRow>,
    published: Vec<parts::PublishedRow>,
    claims: Vec<parts::ClaimRow>,
    notices: Vec<Notice>,
    evaluation: Option<EvaluationPart>,
    load_curves: Option<String>,
    scaling: Option<String>,
    environment: parts::EnvironmentPart,
    builds: Vec<parts::Build>,
    command: String,
    compares: bool,
    ceilings: bool,
    device: Option<String>,
    style: &'static str,
    script: &'static str,
    served: bool,
}

/// A published evaluation: tables, drawings, what a reader must know.
#[derive(Debug)]
struct EvaluationPart {
    tables: Vec<TablePart>,
    costs: Option<Sheet>,
    legend: Vec<String>,
    notes: Vec<Notes>,
}

/// A table with its drawing.
#[derive(Debug)]
struct TablePart {
    anchor: String,
    sheet: Sheet,
    figure: Option<String>,
    keys: Vec<Key>,
}

fn evaluation_part(grid: &Grid) -> EvaluationPart {
    let key = |row: usize| Key {
        class: evaluation::figure::ink(grid, row).class(),
        name: grid.study.rows[row].title().to_string(),
    };
    let part = |part: evaluation::Part<'_>| TablePart {
        keys: evaluation::rows_of(grid, part.table).into_iter().map(key).collect(),
        anchor: format!("table-{}", part.table.id),
        figure: evaluation::figure::of(grid, part.table),
        sheet: part.sheet,
    };
    EvaluationPart {
        tables: evaluation::parts(grid).into_iter().map(part).collect(),
        costs: evaluation::costs(grid),
        legend: evaluation::legend(grid),
        notes: evaluation::notes(grid),
    }
}

fn headline_of(view: &View<'_>, told: Option<&EvaluationPart>, claims: &[Judgement]) -> Headline {
    let head = headline(view);
    match told {
        Some(_) => {
            Headline { question: evaluation::QUESTION.into(), answer: evaluation::answer(claims), ..head }
        }
        None => head,
    }
}

/// The loads that have a section of their own: all, or of an evaluation those in WML, whose operations are known.
fn shown_loads(view: &View<'_>, grid: Option<&Grid>) -> Vec<usize> {
    let is_wml = |load: &str| {
        let of = |grid: &Grid| {
            let workloads = &grid.study.workloads;
            workloads.iter().any(|one| one.label() == load && matches!(one.load, Load::Wml { .. }))
        };
        grid.is_none_or(of)
    };
    (0..view.loads.len()).filter(|column| is_wml(&view.loads[*column].workload)).collect()
}

fn inks(view: &View<'_>) -> Vec<Ink> {
    let mut next = 0;
    let mut ink = |stack: &Stack| {
        if !stack.competes {
            return Ink::Ceiling;
        }
        next += 1;
        Ink::Stack(next - 1)
    };
    view.stacks.iter().map(&mut ink).collect()
}

/// An entry of the legend.
#[derive(Debug)]
struct Key {
    class: String,
    name: String,
}

fn legend(view: &View<'_>, inks: &[Ink]) -> Vec<Key> {
    let measured = |row: usize| view.row(row).iter().any(|point| point.estimate.is_some());
    let rows = view.stacks.iter().zip(inks).enumerate().filter(|(row, _)| measured(*row));
    rows.map(|(_, (stack, ink))| Key { class: ink.class(), name: stack.name.clone() }).collect()
}

fn tidy_headline(head: Headline) -> Headline {
    Headline { answer: prose(&head.answer), ..head }
}

fn tidy(notice: &Notice) -> Notice {
    Notice { text: prose(&notice.text), advice: prose(&notice.advice), ..notice.clone() }
}
