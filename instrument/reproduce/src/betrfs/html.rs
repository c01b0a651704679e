//! One self-contained page.

use stats::compleat::Grade;

use super::columns::Group;
use super::grid::Grid;
use super::published::{self, Value};
use super::terminal::compleat_word;
use super::{explain, plan, rows, svg};
use crate::judged::Judged;
use crate::markup::{self, claims, escape, list};
use crate::text::number;

/// The page of a run. `facts` are lines about the run: when, where, what.
pub fn page(
    grid: &Grid,
    judged: &[Judged],
    published: &[Value],
    sizes: &[String],
    facts: &[String],
) -> String {
    let mut body = format!("<h1>{}</h1>\n", escape(plan::TITLE));
    body.push_str(&list(facts));
    body.push_str(&claims(judged));
    for (group, title) in [
        (Group::Micro, "Table 3: micro-benchmarks"),
        (Group::Application, "Figure 2: applications"),
        (Group::Corrected, "Corrected variants: aligned offsets, the closing sync inside the timer"),
    ] {
        if grid.of_group(group).is_empty() {
            continue;
        }
        body.push_str(&format!(
            "<h2>{title}</h2>\n<div class=\"wide\">{}</div>\n",
            table(grid, group, published)
        ));
        if group == Group::Application {
            body.push_str(&format!("<div class=\"wide\">{}</div>\n", svg::figure2(grid)));
        }
    }
    body.push_str(&format!(
        "<p>Median; number of trials and their range; share of the best row of this run: green from 0.85, red below 0.30. \
         Compleat: no red, most green. {}{}</p>\n",
        if published.is_empty() { "" } else { "In brackets: published, on the authors' machine. " },
        escape(rows::BETRFS_NOTE)
    ));
    let explained = explain::bad_cells(grid);
    if !explained.is_empty() {
        body.push_str("<h2>Red cells, and what the counters say</h2>\n");
        let lines = explained.iter().map(|one| format!("{}, {}: {}", one.row, one.column, one.text));
        body.push_str(&list(&lines.collect::<Vec<_>>()));
    }
    let absent =
        grid.absent_rows().into_iter().map(|(rows, reason, remedy)| format!("{rows}: {reason}; {remedy}"));
    let cells = grid.absent_cells().into_iter();
    let cells = cells.map(|(row, column, why)| format!("{}, {}: {why}", row.title, column.title));
    body.push_str(&format!("<h2>Without results</h2>\n{}", list(&absent.chain(cells).collect::<Vec<_>>())));
    body.push_str(&format!("<h2>Sizes</h2>\n{}", list(sizes)));
    markup::page(plan::TITLE, &body)
}

fn table(grid: &Grid, group: Group, published: &[Value]) -> String {
    let columns = grid.of_group(group);
    let mut text = "<table><tr><th></th>".to_string();
    for at in &columns {
        let column = &grid.columns[*at];
        text.push_str(&format!("<th>{}<small>{}</small></th>", escape(column.title), column.unit));
    }
    text.push_str("<th></th></tr>\n");
    for (row, one) in grid.rows.iter().enumerate() {
        text.push_str(&format!("<tr><td>{}</td>", escape(one.title)));
        for at in &columns {
            let cell = &grid.cells[row][*at];
            let class = match cell.grade() {
                Some(Grade::Good) => "good",
                Some(Grade::Middle) => "middle",
                Some(Grade::Bad) => "bad",
                None => "none",
            };
            let mut shown = cell.word().to_string();
            if let (Some(median), Some(share)) = (cell.median, cell.share) {
                let low = cell.values.iter().copied().fold(f64::INFINITY, f64::min);
                let high = cell.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                shown = format!(
                    "{} &middot; {share:.2}<small>{} x {} to {}</small>",
                    number(median),
                    cell.values.len(),
                    number(low),
                    number(high)
                );
            }
            if let Some(value) = published::of(published, grid, row, *at) {
                shown.push_str(&format!("<small>[{}]</small>", number(value)));
            }
            text.push_str(&format!("<td class=\"{class}\">{shown}</td>"));
        }
        let word = if group == Group::Corrected { "" } else { compleat_word(grid.compleat(row)) };
        text.push_str(&format!("<td>{word}</td></tr>\n"));
    }
    text.push_str("</table>");
    text
}
