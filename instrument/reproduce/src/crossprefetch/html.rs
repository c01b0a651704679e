//! One self-contained page.

use super::claims::remarks;
use super::columns::Group;
use super::grid::{Cell, Grid};
use super::terminal::{GREEN, RED, costs, published_gain, unavailable};
use super::{plan, svg};
use crate::judged::Judged;
use crate::markup::{claims, escape, list, page as frame};
use crate::text::number;

/// The page of a run. `facts` are lines about the run: when, where, what.
pub fn page(grid: &Grid, judged: &[Judged], sizes: &[String], facts: &[String]) -> String {
    let mut body = format!("<h1>{}</h1>\n", escape(plan::TITLE));
    body.push_str(&list(facts));
    body.push_str(&claims(judged));
    body.push_str(&list(&remarks(grid)));
    for group in Group::ALL {
        if grid.of_group(group).is_empty() {
            continue;
        }
        body.push_str(&format!(
            "<h2>{}</h2>\n<div class=\"wide\">{}</div>\n<div class=\"wide\">{}</div>\n",
            escape(group.title()),
            svg::figure(grid, group),
            table(grid, group)
        ));
    }
    body.push_str(
        "<p>Large: work by the wall time of the whole program, and times that of APPonly (green from 1.10, red below 0.97). \
         Dashed in the drawings, and after T: by the artifact's own timer, which begins after the opening of files. \
         Circles and brackets: published gains.</p>\n",
    );
    body.push_str(&format!("<h2>What it cost, all columns together</h2>\n{}", list(&costs(grid))));
    let rows: Vec<String> = grid
        .run_rows()
        .into_iter()
        .map(|row| format!("{}: {}", grid.rows[row].title, grid.rows[row].mapping))
        .collect();
    body.push_str(&format!("<h2>Rows</h2>\n{}", list(&rows)));
    let absent: Vec<String> = grid.absent().into_iter().chain(unavailable()).collect();
    body.push_str(&format!("<h2>Without results</h2>\n{}", list(&absent)));
    body.push_str(&format!("<h2>Sizes</h2>\n{}", list(sizes)));
    frame(plan::TITLE, &body)
}

fn table(grid: &Grid, group: Group) -> String {
    let rows = grid.run_rows();
    let mut text = format!("<table><tr><th>{}</th>", group.unit());
    for row in &rows {
        text.push_str(&format!("<th>{}</th>", escape(grid.rows[*row].title)));
    }
    text.push_str("</tr>\n");
    for at in grid.of_group(group) {
        text.push_str(&format!("<tr><td>{}</td>", escape(grid.columns[at].id)));
        for row in &rows {
            let class = match grid.gain(*row, at, false) {
                Some(value) if *row > 0 && value >= GREEN => "good",
                Some(value) if *row > 0 && value < RED => "bad",
                Some(_) => "",
                None => "none",
            };
            text.push_str(&format!("<td class=\"{class}\">{}</td>", shown(grid, *row, at)));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>");
    text
}

fn shown(grid: &Grid, row: usize, at: usize) -> String {
    let cell = &grid.cells[row][at];
    let Some(wall) = cell.wall() else { return cell.word().to_string() };
    let mut text = number(wall);
    if row > 0
        && let Some(value) = grid.gain(row, at, false)
    {
        text.push_str(&format!(" &middot; {value:.2}x"));
    }
    let timed = cell.timed().map_or(String::new(), |timed| {
        let gain = grid.gain(row, at, true).filter(|_| row > 0);
        format!("T {}{}", number(timed), gain.map_or(String::new(), |gain| format!(" &middot; {gain:.2}x")))
    });
    let published = published_gain(grid, row, at).filter(|_| row > 0);
    let published = published.map_or(String::new(), |gain| format!(" [{gain:.2}x]"));
    text.push_str(&format!("<small>{timed}{published}</small><small>{}</small>", facts(cell)));
    text
}

/// Costs in a few words.
fn facts(cell: &Cell) -> String {
    let costs = &cell.costs;
    let mut words = Vec::new();
    let mut word = |value: f64, text: String| {
        if value.is_finite() {
            words.push(text);
        }
    };
    word(costs.p99_us, format!("p50 {} p99 {} us", number(costs.p50_us), number(costs.p99_us)));
    word(costs.device_mb, format!("{} MB read", number(costs.device_mb)));
    word(costs.cpu_seconds, format!("{:.2} s CPU", costs.cpu_seconds));
    if costs.prefetched_mb > 0.0 {
        word(
            costs.prefetched_mb,
            format!(
                "prefetched {} MB: {} useful, {} wasted",
                number(costs.prefetched_mb),
                number(costs.useful_mb),
                number(costs.wasted_mb)
            ),
        );
    }
    words.join("<br>")
}
