//! Table 3 and Figure 2 as drawings.

use stats::compleat::Grade;

use super::columns::Group;
use super::grid::Grid;
use super::terminal::compleat_word;
use crate::markup::{drawing, escape};
use crate::text::number;

const CELL: (usize, usize) = (132, 30);
const FIRST: usize = 170;
const PANEL: (usize, usize) = (250, 190);
const PANELS_ACROSS: usize = 4;
/// One colour for each row of Table 3 that can have bars: dark enough on white, light enough on black.
const COLORS: [&str; 13] = [
    "#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#9c755f", "#bab0ac", "#bab0ac", "#bab0ac", "#bab0ac",
    "#bab0ac", "#bab0ac", "#bab0ac", "#e15759",
];

fn fill(grade: Option<Grade>) -> &'static str {
    match grade {
        Some(Grade::Good) => "#bfe3c0",
        Some(Grade::Middle) => "#f6f1d5",
        Some(Grade::Bad) => "#f3b8b0",
        None => "#eeeeee",
    }
}

/// Table 3: each cell with its value, coloured by its share of the best row.
pub fn table3(grid: &Grid) -> String {
    let columns = grid.of_group(Group::Micro);
    let (width, height) = (FIRST + CELL.0 * (columns.len() + 1), CELL.1 * (grid.rows.len() + 1) + 10);
    let mut body = String::new();
    let text = |x: usize, y: usize, anchor: &str, text: &str| {
        format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"#222\">{}</text>\n", escape(text))
    };
    for (place, at) in columns.iter().enumerate() {
        let head = format!("{} ({})", grid.columns[*at].title, grid.columns[*at].unit);
        body.push_str(&text(FIRST + CELL.0 * place + CELL.0 / 2, 20, "middle", &head));
    }
    for (row, one) in grid.rows.iter().enumerate() {
        let y = CELL.1 * (row + 1);
        body.push_str(&text(6, y + 20, "start", one.title));
        for (place, at) in columns.iter().enumerate() {
            let cell = &grid.cells[row][*at];
            let x = FIRST + CELL.0 * place;
            body.push_str(&format!(
                "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#fff\"/>\n",
                CELL.0,
                CELL.1,
                fill(cell.grade())
            ));
            let shown = match (cell.median, cell.share) {
                (Some(median), Some(share)) => format!("{} ({:.2})", number(median), share),
                _ => cell.word().to_string(),
            };
            body.push_str(&text(x + CELL.0 / 2, y + 20, "middle", &shown));
        }
        body.push_str(&text(
            FIRST + CELL.0 * columns.len() + 8,
            y + 20,
            "start",
            compleat_word(grid.compleat(row)),
        ));
    }
    drawing(width, height, "Table 3: micro-benchmarks, shares of the best row", &body)
}

/// Figure 2: a panel of bars for each application, with the range of the trials.
pub fn figure2(grid: &Grid) -> String {
    let columns = grid.of_group(Group::Application);
    let with_bars: Vec<usize> = (0..grid.rows.len())
        .filter(|row| columns.iter().any(|at| grid.cells[*row][*at].median.is_some()))
        .collect();
    let down = columns.len().div_ceil(PANELS_ACROSS);
    let (width, height) = (PANEL.0 * PANELS_ACROSS, PANEL.1 * down + 30);
    let mut body = String::new();
    for (place, at) in columns.iter().enumerate() {
        let origin = (PANEL.0 * (place % PANELS_ACROSS), PANEL.1 * (place / PANELS_ACROSS));
        body.push_str(&panel(grid, *at, &with_bars, origin));
    }
    for (place, row) in with_bars.iter().enumerate() {
        let (x, y) = (10 + place * 160, PANEL.1 * down + 10);
        body.push_str(&format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"{}\" \
             fill=\"#222\">{}</text>\n",
            COLORS[row % COLORS.len()],
            x + 17,
            y + 11,
            escape(grid.rows[*row].title)
        ));
    }
    drawing(width, height, "Figure 2: applications", &body)
}

fn panel(grid: &Grid, at: usize, rows: &[usize], (left, top): (usize, usize)) -> String {
    let column = &grid.columns[at];
    let better =
        if column.sense == stats::Sense::HigherIsBetter { "more is better" } else { "less is better" };
    let mut text = format!(
        "<text x=\"{}\" y=\"{}\" font-weight=\"bold\" fill=\"#222\">{} ({}, {better})</text>\n",
        left + 10,
        top + 16,
        escape(column.title),
        column.unit
    );
    let values = rows.iter().flat_map(|row| grid.cells[*row][at].values.iter().copied());
    let most = values.fold(0.0, f64::max);
    let (base, room) = ((top + PANEL.1 - 24) as f64, (PANEL.1 - 74) as f64);
    let step = (PANEL.0 - 30) as f64 / rows.len().max(1) as f64;
    for (place, row) in rows.iter().enumerate() {
        let cell = &grid.cells[*row][at];
        let x = left as f64 + 12.0 + step * place as f64;
        let Some(median) = cell.median.filter(|_| most > 0.0) else {
            text.push_str(&format!(
                "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"#888\">{}</text>\n",
                base - 4.0,
                cell.word()
            ));
            continue;
        };
        let y = |value: f64| base - room * value / most;
        let low = cell.values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = cell.values.iter().copied().fold(0.0, f64::max);
        let middle = x + step * 0.4;
        text.push_str(&format!(
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{}: {} {}</title></rect>\n\
             <line x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#222\"/>\n\
             <text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\" fill=\"#222\">{}</text>\n",
            y(median), step * 0.8, base - y(median), COLORS[row % COLORS.len()], escape(grid.rows[*row].title),
            number(median), column.unit, y(low), y(high), y(high) - 4.0, number(median)
        ));
    }
    text
}
