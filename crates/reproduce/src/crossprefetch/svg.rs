//! Each group as a drawing of bars: times APPonly by wall time, the artifact's timer as an outline.

use super::columns::Group;
use super::grid::Grid;
use super::terminal::published_gain;
use crate::markup::{drawing, escape};

/// One colour a row: dark enough on white.
const COLORS: [&str; 7] = ["#4e79a7", "#9c755f", "#f28e2b", "#e15759", "#b07aa1", "#59a14f", "#bab0ac"];
const BAR: f64 = 13.0;
const LEFT: f64 = 56.0;
const ROOM: f64 = 170.0;
const TOP: f64 = 34.0;

/// The drawing of a group: a cluster of bars for each column. Gains above 4 are compressed by logarithm.
pub fn figure(grid: &Grid, group: Group) -> String {
    let (columns, rows) = (grid.of_group(group), grid.run_rows());
    let gain = |row: usize, at: usize, timed: bool| grid.gain(row, at, timed);
    let most = columns
        .iter()
        .flat_map(|at| rows.iter().flat_map(|row| [gain(*row, *at, false), gain(*row, *at, true)]))
        .flatten()
        .fold(2.0f64, f64::max);
    let cluster = BAR * rows.len() as f64 + 16.0;
    let (width, base) = (LEFT + cluster * columns.len() as f64 + 10.0, TOP + ROOM);
    let y = |value: f64| base - ROOM * (1.0 + value.max(0.0)).ln() / (1.0 + most).ln();
    let mut body = format!(
        "<text x=\"8\" y=\"18\" font-weight=\"bold\" fill=\"#222\">{}</text>\n",
        escape(group.title())
    );
    for value in [0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0, 100.0].into_iter().filter(|value| *value <= most) {
        body.push_str(&format!(
            "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{}\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{value} x</text>\n",
            width - 10.0,
            y(value),
            y(value),
            if value == 1.0 { "#222" } else { "#ddd" },
            LEFT - 4.0,
            y(value) + 4.0
        ));
    }
    for (place, at) in columns.iter().enumerate() {
        let left = LEFT + 8.0 + cluster * place as f64;
        for (bar, row) in rows.iter().enumerate() {
            let x = left + BAR * bar as f64;
            if let Some(value) = gain(*row, *at, false) {
                body.push_str(&format!(
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{}: {value:.2} x</title></rect>\n",
                    y(value), BAR - 2.0, base - y(value), COLORS[row % COLORS.len()], escape(grid.rows[*row].title)
                ));
            }
            if let Some(value) = gain(*row, *at, true) {
                body.push_str(&format!(
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"none\" stroke=\"#222\" \
                     stroke-dasharray=\"2,2\"/>\n",
                    y(value), BAR - 2.0, base - y(value)
                ));
            }
            if let Some(value) = published_gain(grid, *row, *at).filter(|_| *row > 0) {
                let (x, y) = (x + BAR / 2.0 - 1.0, y(value.min(most)));
                body.push_str(&format!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"#fff\" stroke=\"#222\"><title>published: {value:.2} x</title></circle>\n"
                ));
            }
        }
        body.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#222\">{}</text>\n",
            left + cluster / 2.0 - 8.0,
            base + 16.0,
            escape(grid.columns[*at].id)
        ));
    }
    for (place, row) in rows.iter().enumerate() {
        let (x, y) = (LEFT + 160.0 * (place % 4) as f64, base + 30.0 + 18.0 * (place / 4) as f64);
        body.push_str(&format!(
            "<rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"11\" height=\"11\" fill=\"{}\"/><text x=\"{:.0}\" y=\"{:.0}\" fill=\"#222\">{}</text>\n",
            COLORS[row % COLORS.len()], x + 16.0, y + 10.0, escape(grid.rows[*row].title)
        ));
    }
    let height = base + 36.0 + 18.0 * rows.len().div_ceil(4) as f64;
    drawing(width.max(LEFT + 660.0) as usize, height as usize, group.title(), &body)
}
