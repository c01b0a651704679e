//! Tables for people.

use stats::compleat::{Compleat, Grade};

use super::columns::{Column, Group};
use super::grid::{Cell, Grid};
use super::published::{self, Value};
use super::{explain, rows};
use crate::judged::Judged;
use crate::text::{claims, number, paint, section};

/// Everything about a run: tables, what is missing, explanations, claims.
pub fn report(grid: &Grid, judged: &[Judged], published: &[Value], sizes: &[String], color: bool) -> String {
    let mut text = String::new();
    for (group, title) in [
        (Group::Micro, "Table 3: micro-benchmarks"),
        (Group::Application, "Figure 2: applications"),
        (Group::Corrected, "Corrected variants: aligned offsets, the closing sync inside the timer"),
    ] {
        if !grid.of_group(group).is_empty() {
            text.push_str(&format!("{title}\n{}\n", table(grid, group, published, color)));
        }
    }
    text.push_str(
        "Median, and its share of the best row of this run: + 85 % or more, ! below 30 %. Compleat: no !, most +.\n",
    );
    if published.is_empty() {
        text.push_str("The paper's cell values are not public: --published FILE shows them beside these.\n");
    } else {
        text.push_str("[..]: published, on the authors' machine; compare shares, not values.\n");
    }
    text.push_str(&format!("{}\n", rows::BETRFS_NOTE));
    section(&mut text, "Sizes", sizes.to_vec());
    let absent =
        grid.absent_rows().into_iter().map(|(rows, reason, remedy)| format!("{rows}: {reason}; {remedy}"));
    section(&mut text, "Rows without results", absent.collect());
    let cells = grid.absent_cells().into_iter();
    section(
        &mut text,
        "Cells without results",
        cells.map(|(row, column, why)| format!("{}, {}: {why}", row.title, column.title)).collect(),
    );
    let explained = explain::bad_cells(grid).into_iter();
    section(
        &mut text,
        "Below 30 % of the best, and what the counters say",
        explained.map(|one| format!("{}, {}: {}", one.row, one.column, one.text)).collect(),
    );
    section(&mut text, "Claims", claims(judged, color));
    text
}

fn shown(cell: &Cell, published: Option<f64>) -> String {
    let mut text = match (cell.median, cell.share) {
        (Some(median), Some(share)) => {
            let mark = match cell.grade() {
                Some(Grade::Good) => '+',
                Some(Grade::Bad) => '!',
                _ => ' ',
            };
            format!("{} {:>4.2}{mark}", number(median), share)
        }
        _ => cell.word().to_string(),
    };
    if let Some(value) = published {
        text.push_str(&format!(" [{}]", number(value)));
    }
    text
}

fn code(cell: &Cell) -> &'static str {
    match cell.grade() {
        Some(Grade::Good) => "32",
        Some(Grade::Bad) => "31",
        Some(Grade::Middle) => "0",
        None => "2",
    }
}

fn table(grid: &Grid, group: Group, published: &[Value], color: bool) -> String {
    let columns = grid.of_group(group);
    let width = |at: usize| {
        let cells =
            grid.cells.iter().enumerate().map(|(row, cells)| {
                shown(&cells[at], published::of(published, grid, row, at)).chars().count()
            });
        cells.chain([grid.columns[at].title.len(), grid.columns[at].unit.len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = columns.iter().map(|at| width(*at)).collect();
    let first = grid.rows.iter().map(|row| row.title.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for head in [|column: &Column| column.title, |column: &Column| column.unit] {
        let mut line = format!("{:first$}", "");
        for (at, width) in columns.iter().zip(&widths) {
            line.push_str(&format!("  {:>width$}", head(&grid.columns[*at])));
        }
        lines.push(line);
    }
    for (row, cells) in grid.rows.iter().enumerate() {
        let mut line = format!("{:first$}", cells.title);
        for (at, width) in columns.iter().zip(&widths) {
            let cell = &grid.cells[row][*at];
            let text = format!("{:>width$}", shown(cell, published::of(published, grid, row, *at)));
            line.push_str(&format!("  {}", paint(&text, code(cell), color)));
        }
        if group != Group::Corrected {
            line.push_str(&format!("  {}", compleat_word(grid.compleat(row))));
        }
        lines.push(line.trim_end().to_string());
    }
    format!("{}\n", lines.join("\n"))
}

/// A word for the last column.
pub fn compleat_word(compleat: Compleat) -> &'static str {
    match compleat {
        Compleat::Yes => "compleat",
        Compleat::No => "not compleat",
        Compleat::Unknown => "",
    }
}
