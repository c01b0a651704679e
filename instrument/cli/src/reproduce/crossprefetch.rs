//! `reproduce crossprefetch`: from options to a study, from a run to what is told.

use record::results::Run;
use record::study::Study;
use reproduce::Scale;
use reproduce::crossprefetch::{
    self, Grid, Group, Request, Sizes, claims, columns, csv, html, plan, rows, svg, terminal,
};
use stats::Rules;

use super::{Reproduce, Told, facts};
use crate::screen::bad_input;

/// The study of a request.
pub(super) fn study(arguments: &Reproduce, scale: Scale) -> anyhow::Result<Study> {
    if arguments.published.is_some() {
        return Err(bad_input("--published: what CrossPrefetch's artifact publishes is known already"));
    }
    let device = arguments.device.clone().unwrap_or_else(|| plan::DEVICE.to_string());
    let emulated = !device.contains('/') || device.contains("slow(");
    let sizes = Sizes::new(scale, lab::load::machine(None, 0).ram_bytes, emulated);
    let request = Request {
        rows: rows::choose(arguments.rows.as_deref().unwrap_or("all")).map_err(bad_input)?,
        columns: columns::choose(arguments.columns.as_deref().unwrap_or("all")).map_err(bad_input)?,
        sizes,
        device,
        trials: arguments.trials,
        seed: arguments.seed,
    };
    crossprefetch::study(&request).map_err(bad_input)
}

/// What there is to tell of a run.
pub(super) fn tell(run: &Run, study: &Study, color: bool) -> Told {
    let grid = Grid::new(run);
    let judged = claims::judge(&grid, &Rules::default());
    let lines = Sizes::of_study(study).map(|sizes| sizes.lines()).unwrap_or_default();
    let drawn = Group::ALL.into_iter().filter(|group| !grid.of_group(*group).is_empty());
    let drawings = drawn.map(|group| (format!("{}.svg", group.word()), svg::figure(&grid, group)));
    Told {
        text: terminal::report(&grid, &judged, &lines, color),
        page: html::page(&grid, &judged, &lines, &facts(run, study)),
        files: csv::files(&grid).into_iter().chain(drawings).collect(),
        answers: judged.into_iter().map(|one| one.answer).collect(),
    }
}
