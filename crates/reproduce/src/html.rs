//! One self-contained page.

use lab::record::Answer;
use stats::compleat::Grade;

use crate::claims::Judged;
use crate::columns::Group;
use crate::grid::Grid;
use crate::published::{self, Value};
use crate::svg::{self, escape};
use crate::terminal::{compleat_word, number};
use crate::{explain, plan, rows};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:78rem;margin:2rem auto;padding:0 1rem;color:#222;\
background:#fff}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}.wide{overflow-x:auto}\
table{border-collapse:collapse}th,td{padding:.3rem .6rem;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}\
th:first-child,td:first-child{text-align:left}th small{font-weight:normal}td.long{white-space:normal;text-align:left;max-width:48rem}\
.good{background:#bfe3c0}.middle{background:#f6f1d5}.bad{background:#f3b8b0}.none{color:#777}\
small{color:#555;display:block}svg{max-width:100%;height:auto}";

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
    body.push_str("<h2>Claims</h2>\n<table><tr><th>claim</th><th>answer</th><th>why</th></tr>\n");
    for one in judged {
        let (word, class) = match one.answer {
            Answer::Reproduced => ("reproduced", "good"),
            Answer::NotReproduced => ("not reproduced", "bad"),
            Answer::CannotTell => ("cannot tell", "middle"),
        };
        body.push_str(&format!(
            "<tr><td class=\"long\">{}<small>{}</small></td><td class=\"{class}\">{word}</td><td class=\"long\">{}</td></tr>\n",
            escape(one.claim), escape(one.source), escape(&one.reason)
        ));
    }
    body.push_str("</table>\n");
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
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{}</title><style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n",
        escape(plan::TITLE)
    )
}

fn list(lines: &[String]) -> String {
    let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    format!("<ul>\n{items}</ul>\n")
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
