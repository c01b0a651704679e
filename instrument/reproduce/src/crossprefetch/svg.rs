//! Each group as a drawing of bars: times APPonly by wall time, the artifact's timer as an outline.

use super::columns::Group;
use super::grid::Grid;
use super::terminal::published_gain;
use crate::markup::{drawing, escape};

/// One colour a row: dark enough on white.
const COLORS: [&str; 7] = ["#4e79a7", "#9c755f", "#f28e2b", "#e15759", "#b07aa1", "#59a14f", "#bab0ac"];
const BAR: f64 = 13.0;
const GAP: f64 = 16.0;
const LEFT: f64 = 56.0;
const ROOM: f64 = 170.0;
const TOP: f64 = 34.0;
const BASE: f64 = TOP + ROOM;
/// Width that the legend takes.
const LEGEND: f64 = 660.0;
const LEGEND_ACROSS: usize = 4;

/// The drawing of a group: a cluster of bars for each column, heights by the logarithm of 1 + gain.
pub fn figure(grid: &Grid, group: Group) -> String {
    let (columns, rows) = (grid.of_group(group), grid.run_rows());
    let gains = columns
        .iter()
        .flat_map(|at| rows.iter().flat_map(|row| [grid.gain(*row, *at, false), grid.gain(*row, *at, true)]));
    let scale = Scale { most: gains.flatten().fold(2.0f64, f64::max) };
    let cluster = BAR * rows.len() as f64 + GAP;
    let width = LEFT + cluster * columns.len() as f64 + 10.0;
    let title = escape(group.title());
    let mut body = format!("<text x=\"8\" y=\"18\" font-weight=\"bold\" fill=\"#222\">{title}</text>\n");
    body.push_str(&scale.lines(width));
    for (place, at) in columns.iter().enumerate() {
        let left = LEFT + GAP / 2.0 + cluster * place as f64;
        for (bar, row) in rows.iter().enumerate() {
            body.push_str(&bars(grid, (*row, *at), left + BAR * bar as f64, &scale));
        }
        body.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#222\">{}</text>\n",
            left + (cluster - GAP) / 2.0,
            BASE + 16.0,
            escape(grid.columns[*at].id)
        ));
    }
    body.push_str(&legend(grid, &rows));
    let height = BASE + 36.0 + 18.0 * rows.len().div_ceil(LEGEND_ACROSS) as f64;
    drawing(width.max(LEFT + LEGEND) as usize, height as usize, group.title(), &body)
}

/// Heights of gains.
struct Scale {
    most: f64,
}

impl Scale {
    fn y(&self, gain: f64) -> f64 {
        BASE - ROOM * (1.0 + gain.clamp(0.0, self.most)).ln() / (1.0 + self.most).ln()
    }

    fn lines(&self, width: f64) -> String {
        let marks =
            [0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0, 100.0].into_iter().filter(|mark| *mark <= self.most);
        let line = |mark: f64| {
            let (y, color) = (self.y(mark), if mark == 1.0 { "#222" } else { "#ddd" });
            format!(
                "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{color}\"/>\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{mark} x</text>\n",
                width - 10.0,
                LEFT - 4.0,
                y + 4.0
            )
        };
        marks.map(line).collect()
    }
}

/// A cell: its bar, the outline of the artifact's timer, a circle for what is published.
fn bars(grid: &Grid, (row, at): (usize, usize), x: f64, scale: &Scale) -> String {
    let mut text = String::new();
    let mut bar = |gain: Option<f64>, style: &str, what: &str| {
        let Some(gain) = gain else { return };
        let y = scale.y(gain);
        text.push_str(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" {style}><title>{}{what}: {gain:.2} \
             x</title></rect>\n",
            BAR - 2.0,
            BASE - y,
            escape(grid.rows[row].title)
        ));
    };
    bar(grid.gain(row, at, false), &format!("fill=\"{}\"", COLORS[row % COLORS.len()]), "");
    let outline = "fill=\"none\" stroke=\"#222\" stroke-dasharray=\"2,2\"";
    bar(grid.gain(row, at, true), outline, ", the artifact's timer");
    if let Some(gain) = published_gain(grid, row, at).filter(|_| row > 0) {
        text.push_str(&format!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"#fff\" stroke=\"#222\"><title>published: {gain:.2} \
             x</title></circle>\n",
            x + BAR / 2.0 - 1.0,
            scale.y(gain)
        ));
    }
    text
}

fn legend(grid: &Grid, rows: &[usize]) -> String {
    let entry = |(place, row): (usize, &usize)| {
        let x = LEFT + LEGEND / LEGEND_ACROSS as f64 * (place % LEGEND_ACROSS) as f64;
        let y = BASE + 30.0 + 18.0 * (place / LEGEND_ACROSS) as f64;
        format!(
            "<rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"11\" height=\"11\" fill=\"{}\"/><text x=\"{:.0}\" y=\"{:.0}\" \
             fill=\"#222\">{}</text>\n",
            COLORS[row % COLORS.len()],
            x + 16.0,
            y + 10.0,
            escape(grid.rows[*row].title)
        )
    };
    rows.iter().enumerate().map(entry).collect()
}
