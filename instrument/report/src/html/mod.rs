//! One self-contained page: no scripts needed, nothing fetched, readable on paper.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | the page and its parts; the text is in `templates/` |
//! | `parts` | the rows of its tables |
//! | `charts` | its figures |
//! | `plot` | scales, ticks, SVG |
//! | `ink` | the colour and dash of a stack |
//! | `text` | typographic signs |
//!
//! Styles are in `templates/style.css`, the little script (highlighting, opening what is folded before printing)
//! in `templates/page.js`. Every colour is a CSS variable, with a light and a dark value.

mod charts;
mod ink;
mod parts;
mod plot;
mod text;

use askama::Template;
use record::results::{Judgement, Run};
use stats::Rules;

use ink::Ink;
use text::prose;

use crate::format;
use crate::view::facts::facts;
use crate::view::headline::{Headline, headline};
use crate::view::notice::{Notice, notices};
use crate::view::{Stack, View};

/// The report of a run as a page. `claims` are the judged claims of its study, if it makes any.
///
/// # Errors
/// When the template cannot be written, which nothing in a run is known to provoke.
pub fn page(run: &Run, claims: &[Judgement]) -> Result<String, askama::Error> {
    let view = View::new(run);
    let inks = inks(&view);
    let page = Page {
        run,
        title: if run.title.is_empty() { "Report".into() } else { run.title.clone() },
        headline: tidy_headline(headline(&view)),
        started: run.started.strftime("%-d %B %Y, %H:%M UTC").to_string(),
        took: run.finished.map(|end| format::span_seconds(end.duration_since(run.started).as_secs_f64())),
        done: view.trials_done(),
        planned: view.trials_planned(),
        legend: legend(&view, &inks),
        grid: parts::grid(&view),
        loads: (0..view.loads.len()).filter_map(|column| parts::load(&view, column, &inks)).collect(),
        fsyncs: parts::fsyncs(&view, &inks),
        verdicts: parts::verdicts(&view, &Rules::default()),
        published: parts::published(run),
        claims: parts::claims(claims),
        notices: notices(&view).iter().map(tidy).collect(),
        environment: parts::environment(&view, facts(run)),
        builds: parts::builds(&view),
        command: format::shell_line(&run.command_line),
        compares: view.compares(),
        ceilings: view.stacks.iter().any(|stack| !stack.competes),
        device: view.device.clone(),
        style: include_str!("../../templates/style.css"),
        script: include_str!("../../templates/page.js"),
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
    grid: parts::Grid,
    loads: Vec<parts::LoadPart>,
    fsyncs: Vec<parts::FsyncPart>,
    verdicts: Vec<parts::VerdictRow>,
    published: Vec<parts::PublishedRow>,
    claims: Vec<parts::ClaimRow>,
    notices: Vec<Notice>,
    environment: parts::EnvironmentPart,
    builds: Vec<parts::Build>,
    command: String,
    compares: bool,
    ceilings: bool,
    device: Option<String>,
    style: &'static str,
    script: &'static str,
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
