//! `reproduce betrfs`: from options to a study, from a run to what is told.

use anyhow::Context;
use record::results::Run;
use record::study::Study;
use reproduce::Scale;
use reproduce::betrfs::scale::Machine;
use reproduce::betrfs::{
    self, Grid, Request, Sizes, claims, columns, csv, html, published, rows, svg, terminal,
};
use stats::Rules;

use super::{Reproduce, Told, facts};
use crate::screen::bad_input;

const ROWS: &str = "ext4,btrfs,xfs,f2fs,zfs,betrfs";
const COLUMNS: &str = "micro,applications";

/// The study of a request.
pub(super) fn study(arguments: &Reproduce, scale: Scale) -> anyhow::Result<Study> {
    let machine = Machine {
        memory_bytes: lab::load::machine(None, 0).ram_bytes,
        device_bytes: arguments.device.as_deref().and_then(device_bytes),
    };
    let sizes = Sizes::new(scale, machine);
    let emulated = format!("860evo:{}M", sizes.device_bytes >> 20);
    let request = Request {
        rows: rows::choose(arguments.rows.as_deref().unwrap_or(ROWS)).map_err(bad_input)?,
        columns: columns::choose(arguments.columns.as_deref().unwrap_or(COLUMNS)).map_err(bad_input)?,
        sizes,
        device: arguments.device.clone().unwrap_or(emulated),
        trials: arguments.trials,
        seed: arguments.seed,
    };
    betrfs::study(&request).map_err(bad_input)
}

/// The size of a real device.
fn device_bytes(device: &str) -> Option<u64> {
    let path = camino::Utf8Path::new(device);
    path.is_absolute()
        .then(|| host::BlockInfo::read(&host::Host::system(), path).size_bytes)
        .filter(|bytes| *bytes > 0)
}

/// What there is to tell of a run.
pub(super) fn tell(arguments: &Reproduce, run: &Run, study: &Study, color: bool) -> anyhow::Result<Told> {
    let grid = Grid::new(run);
    let judged = claims::judge(&grid, &Rules::default());
    let mut values = published::examples();
    if let Some(file) = &arguments.published {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        values =
            published::parse(&text).map_err(|error| bad_input(format!("{}: {error}", file.display())))?;
    }
    let lines = Sizes::of_study(study).map(|sizes| sizes.lines()).unwrap_or_default();
    let date = run.started.strftime("%Y-%m-%d").to_string();
    let drawings = [("table3.svg", svg::table3(&grid)), ("figure2.svg", svg::figure2(&grid))];
    let drawings = drawings.into_iter().map(|(name, text)| (name.to_string(), text));
    Ok(Told {
        text: terminal::report(&grid, &judged, &values, &lines, color),
        page: html::page(&grid, &judged, &values, &lines, &facts(run, study)),
        files: csv::files(&grid, &date).into_iter().chain(drawings).collect(),
        answers: judged.into_iter().map(|one| one.answer).collect(),
    })
}
