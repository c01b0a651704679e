//! The drawings of an evaluation: bars in the inks of the page.

use analysis::grid::Grid;
use study::Table;
use study::evaluation::{Better, Figure};

use crate::format;
use crate::ink::Ink;
use crate::plot::{Anchor, Drawing, Scale};

/// Bars of a cluster.
const BAR: f64 = 13.0;
/// Between clusters.
const GAP: f64 = 18.0;
/// Left of the first cluster.
const LEFT: f64 = 52.0;
/// Height of the bars' room.
const ROOM: f64 = 170.0;
/// Above it.
const TOP: f64 = 12.0;
/// A panel: width and height.
const PANEL: (f64, f64) = (250.0, 190.0);
/// Panels side by side.
const PANELS_ACROSS: usize = 4;

/// The drawing of a table for the page; `None` when the study asks for none, or for cells, which the page has as a table.
pub fn of(grid: &Grid, table: &Table) -> Option<String> {
    let shown = table.figure.is_some_and(|figure| figure != Figure::Grid);
    Some(drawing(grid, table).filter(|_| shown)?.finish_at_size(&table.title))
}

/// The same as a file of its own.
pub fn file(grid: &Grid, table: &Table) -> Option<String> {
    Some(drawing(grid, table)?.file(&table.title))
}

fn drawing(grid: &Grid, table: &Table) -> Option<Drawing> {
    match table.figure? {
        Figure::Bars => Some(bars(grid, table)),
        Figure::Gains => Some(gains(grid, table)),
        Figure::Lines => Some(lines(grid, table)),
        Figure::Grid => Some(coloured(grid, table)),
    }
}

/// The ink of a row: the same in all figures of a run.
pub(crate) fn ink(grid: &Grid, row: usize) -> Ink {
    Ink::Stack(super::rows_with_results(grid).iter().position(|one| *one == row).unwrap_or(0))
}

/// Cells with their values, coloured as in the table.
fn coloured(grid: &Grid, table: &Table) -> Drawing {
    const FIRST: f64 = 170.0;
    const CELL: (f64, f64) = (132.0, 30.0);
    let sheet = super::sheet(grid, table);
    let (across, down) = (sheet.heads.len() as f64, sheet.lines.len() as f64);
    let mut drawing = Drawing::new(FIRST + CELL.0 * across, CELL.1 * (down + 1.0) + 8.0);
    for (at, head) in sheet.heads.iter().enumerate() {
        let x = FIRST + CELL.0 * (at as f64 + 0.5);
        drawing.text("name", (x, 19.0), Anchor::Middle, &head.name);
    }
    for (number, line) in sheet.lines.iter().enumerate() {
        let y = CELL.1 * (number as f64 + 1.0);
        let unit = if line.head.unit.is_empty() { &sheet.corner } else { &line.head.unit };
        drawing.text("name", (6.0, y + 19.0), Anchor::Start, &format!("{} ({unit})", line.head.name));
        for (at, spot) in line.spots.iter().enumerate() {
            let x = FIRST + CELL.0 * at as f64;
            drawing.rect(&format!("tint {}", spot.tint.class()), (x, y), (CELL.0 - 2.0, CELL.1 - 2.0));
            let text = format!("{} {}", spot.value, spot.beside);
            drawing.text("tick", (x + CELL.0 / 2.0, y + 18.0), Anchor::Middle, text.trim_end());
        }
    }
    drawing
}

/// A panel of bars for each column, with the range of the trials.
fn bars(grid: &Grid, table: &Table) -> Drawing {
    let columns = grid.columns_of(&table.id);
    let across = columns.len().clamp(1, PANELS_ACROSS);
    let down = columns.len().div_ceil(across);
    let mut drawing = Drawing::new(PANEL.0 * across as f64, PANEL.1 * down as f64);
    for (place, at) in columns.iter().enumerate() {
        let origin = (PANEL.0 * (place % across) as f64, PANEL.1 * (place / across) as f64);
        panel(grid, table, *at, origin, &mut drawing);
    }
    drawing
}

fn panel(grid: &Grid, table: &Table, at: usize, (left, top): (f64, f64), drawing: &mut Drawing) {
    let column = &grid.study.columns[at];
    let better = if column.better == Better::More { "more is better" } else { "less is better" };
    drawing.text("name", (left + 10.0, top + 16.0), Anchor::Start, column.title());
    drawing.text("tick", (left + 10.0, top + 31.0), Anchor::Start, &format!("{}, {better}", grid.unit(at)));
    let rows = super::rows_of(grid, table);
    let most = rows.iter().flat_map(|row| grid.cell(*row, at).values.iter().copied()).fold(0.0, f64::max);
    let (base, ceiling) = (top + PANEL.1 - 12.0, top + 58.0);
    let y = Scale::linear(0.0, most, base, ceiling);
    let step = (PANEL.0 - 30.0) / rows.len().max(1) as f64;
    for (place, row) in rows.iter().enumerate() {
        let (one, x) = (grid.cell(*row, at), left + 12.0 + step * place as f64);
        let (ink, middle) = (ink(grid, *row).class(), x + step * 0.4);
        let Some(median) = one.median().filter(|_| most > 0.0) else {
            let word = one.absent.as_ref().map_or("", analysis::grid::AbsentReason::word);
            drawing.text("tick", (middle, base - 4.0), Anchor::Middle, word);
            continue;
        };
        let title =
            format!("{}: {} {}", grid.study.rows[*row].title(), format::digits(median), grid.unit(at));
        drawing.bar(
            &format!("bars {ink}"),
            (x, y.position(median)),
            (step * 0.8, base - y.position(median)),
            &title,
        );
        let low = one.values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = one.values.iter().copied().fold(0.0, f64::max);
        drawing.line("whisker", (middle, y.position(low)), (middle, y.position(high)));
        drawing.text("tick", (middle, y.position(high) - 4.0), Anchor::Middle, &format::digits(median));
    }
    drawing.line("grid", (left + 10.0, base), (left + PANEL.0 - 14.0, base));
}

/// A line for each row over the columns, which are evenly spaced, with the range of the trials. The scale is logarithmic when
/// values are far apart.
fn lines(grid: &Grid, table: &Table) -> Drawing {
    const AREA: (f64, f64, f64, f64) = (64.0, 24.0, 560.0, 260.0);
    const NAMES: f64 = 170.0;
    const FAR_APART: f64 = 50.0;
    /// Ranges of rows at one place stand beside each other.
    const ASIDE: f64 = 7.0;
    let (left, top, right, bottom) = AREA;
    let (columns, rows) = (grid.columns_of(&table.id), super::rows_of(grid, table));
    let values = || {
        let places = columns.iter().flat_map(|at| rows.iter().map(move |row| grid.cell(*row, *at)));
        places.flat_map(|place| place.values.iter().copied()).filter(|value| *value > 0.0)
    };
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let y = match high / low > FAR_APART {
        true => Scale::log(low * 0.8, high * 1.2, bottom, top),
        false => Scale::linear(0.0, high * 1.05, bottom, top),
    };
    let mut drawing = Drawing::new(right + NAMES, bottom + 30.0);
    for tick in y.ticks(6) {
        drawing.line("grid", (left, y.position(tick)), (right, y.position(tick)));
        drawing.text("tick", (left - 6.0, y.position(tick) + 4.0), Anchor::End, &format::digits(tick));
    }
    drawing.text("axis", (left, 14.0), Anchor::Start, &table.unit);
    let step = (right - left) / columns.len().max(1) as f64;
    let x = |place: usize| left + step * (place as f64 + 0.5);
    for (place, at) in columns.iter().enumerate() {
        drawing.text("tick", (x(place), bottom + 18.0), Anchor::Middle, grid.study.columns[*at].title());
    }
    for (number, row) in rows.iter().enumerate() {
        let (class, name) = (ink(grid, *row).class(), grid.study.rows[*row].title());
        let aside = ASIDE * (number as f64 - (rows.len() as f64 - 1.0) / 2.0);
        let spot =
            |(place, at): (usize, &usize)| Some((x(place) + aside, grid.cell(*row, *at).median()?, *at));
        let spots: Vec<(f64, f64, usize)> = columns.iter().enumerate().filter_map(spot).collect();
        let path: Vec<(f64, f64)> = spots.iter().map(|(x, value, _)| (*x, y.position(*value))).collect();
        drawing.path(&format!("curve {class}"), &path, name);
        for (x, value, at) in spots {
            let trials = &grid.cell(*row, at).values;
            let ends = [f64::min, f64::max].map(|end| trials.iter().copied().fold(value, end));
            drawing.line(&format!("reach {class}"), (x, y.position(ends[0])), (x, y.position(ends[1])));
            let told = format!("{name}: {} {}", format::digits(value), grid.unit(at));
            drawing.dot(&format!("trial {class}"), (x, y.position(value)), 3.0, &told);
        }
        let beside = top + 8.0 + 18.0 * number as f64;
        drawing.path(&format!("curve {class}"), &[(right + 12.0, beside), (right + 36.0, beside)], name);
        drawing.text("name", (right + 42.0, beside + 4.0), Anchor::Start, name);
    }
    drawing.line("grid", (left, bottom), (right, bottom));
    drawing
}

/// A cluster of bars for each column, heights by the logarithm of the gain; the second figure is an outline, what was
/// published a circle.
fn gains(grid: &Grid, table: &Table) -> Drawing {
    let (columns, rows) = (grid.columns_of(&table.id), super::rows_of(grid, table));
    let all = columns.iter().flat_map(|at| {
        rows.iter().flat_map(|row| {
            [grid.gain(*row, *at, false), grid.gain(*row, *at, true), grid.published_gain(*row, *at)]
        })
    });
    let all: Vec<f64> = all.flatten().filter(|gain| *gain > 0.0).collect();
    let low = all.iter().copied().fold(0.5, f64::min);
    let high = all.iter().copied().fold(2.0, f64::max);
    let base = TOP + ROOM;
    let y = Scale::log(low * 0.9, high * 1.1, base, TOP);
    let cluster = BAR * rows.len() as f64 + GAP;
    let width = (LEFT + cluster * columns.len() as f64 + 10.0).max(420.0);
    let mut drawing = Drawing::new(width, base + 24.0);
    for tick in y.ticks(6) {
        drawing.line("grid", (LEFT, y.position(tick)), (width - 8.0, y.position(tick)));
        let text = format!("{} x", format::digits(tick));
        drawing.text("tick", (LEFT - 6.0, y.position(tick) + 4.0), Anchor::End, &text);
    }
    for (place, at) in columns.iter().enumerate() {
        let left = LEFT + GAP / 2.0 + cluster * place as f64;
        for (bar, row) in rows.iter().enumerate() {
            gain_bar(grid, table, (*row, *at), left + BAR * bar as f64, &y, &mut drawing);
        }
        let middle = left + (cluster - GAP) / 2.0;
        drawing.text("tick", (middle, base + 16.0), Anchor::Middle, grid.study.columns[*at].title());
    }
    drawing.line("one", (LEFT, y.position(1.0)), (width - 8.0, y.position(1.0)));
    drawing
}

fn gain_bar(grid: &Grid, table: &Table, (row, at): (usize, usize), x: f64, y: &Scale, drawing: &mut Drawing) {
    let (ink, title) = (ink(grid, row).class(), grid.study.rows[row].title());
    let mut bar = |gain: Option<f64>, class: String, what: &str| {
        let Some(gain) = gain else { return };
        let (top, bottom) = (y.position(gain).min(y.position(1.0)), y.position(gain).max(y.position(1.0)));
        let title = format!("{title}{what}: {} x", format::ratio(gain));
        drawing.bar(&class, (x, top), (BAR - 2.0, (bottom - top).max(1.0)), &title);
    };
    bar(grid.gain(row, at, false), format!("bars {ink}"), "");
    let second = table.second.as_ref().map_or(String::new(), |second| format!(", {}", second.title));
    bar(grid.gain(row, at, true), "outline".into(), &second);
    let is_base = grid.gain(row, at, false) == Some(1.0);
    if let Some(gain) = grid.published_gain(row, at).filter(|_| !is_base) {
        let title = format!("{title}, published: {} x", format::ratio(gain));
        drawing.dot("published", (x + BAR / 2.0 - 1.0, y.position(gain)), 3.0, &title);
    }
}
