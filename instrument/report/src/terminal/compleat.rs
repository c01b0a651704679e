//! The compleat table: stacks as rows, loads as columns, shares of the best.

use stats::compleat::{Compleat, Grade};
use study::results::Run;

use super::table::{Align, Cell, Table};
use super::{Paint, Style};
use crate::format;
use crate::view::{CellState, GridPoint, View};

const STACK_WIDTH: usize = 24;
const LOAD_WIDTH: usize = 16;

/// The compleat table of a run with its legend. With a single stack: its results without shares.
pub fn compleat(run: &Run, style: Style) -> String {
    of_view(&View::new(run), style)
}

pub(super) fn of_view(view: &View<'_>, style: Style) -> String {
    let judged = view.compares() && view.loads.len() > 1;
    let mut head = vec![(Cell::new("stack", Paint::Strong), Align::Left)];
    head.extend(view.loads.iter().map(|load| {
        let cell = Cell::label(&load.label, LOAD_WIDTH, Paint::Strong);
        (cell.line(load.measure.heading(), Paint::Faint), Align::Right)
    }));
    if judged {
        head.push((Cell::new("compleat", Paint::Strong), Align::Left));
    }
    let mut table = Table::new(head).airy();
    for (row, stack) in view.stacks.iter().enumerate() {
        let paint = if stack.competes { Paint::Plain } else { Paint::Faint };
        let mut label = Cell::label(&stack.name, STACK_WIDTH, paint);
        if !stack.competes {
            label = label.line("(ceiling)", Paint::Faint);
        }
        let mut cells = vec![label];
        cells.extend(
            (0..view.loads.len()).map(|column| place(view, view.point(row, column), column, stack.competes)),
        );
        if judged {
            cells.push(verdict(stack.compleat));
        }
        table.row(cells);
    }
    format!("{}{}", table.render(style), legend(view, style))
}

fn place(view: &View<'_>, point: &GridPoint<'_>, column: usize, competes: bool) -> Cell {
    let measure = view.loads[column].measure;
    let Some(estimate) = point.estimate else {
        let paint = match point.standing {
            CellState::Failed(_) | CellState::TimedOut(_) => Paint::Bad,
            _ => Paint::Faint,
        };
        return Cell::new(point.standing.word(), paint);
    };
    let value = measure.show(estimate.value);
    let first = match point.share {
        Some(share) => {
            format!("{value:>7} {:>6} {}", format::share(share), if competes { mark(share) } else { ' ' })
        }
        None => value,
    };
    let cell = Cell::new(first, if competes { paint(point.grade()) } else { Paint::Faint });
    if point.values.len() < 2 {
        return cell;
    }
    let (low, high) = (measure.show(estimate.interval.low), measure.show(estimate.interval.high));
    cell.line(format!("{low} .. {high}"), Paint::Faint)
}

fn mark(share: f64) -> char {
    match stats::compleat::grade(share) {
        Grade::Good => '+',
        Grade::Middle => ' ',
        Grade::Bad => '!',
    }
}

fn paint(grade: Option<Grade>) -> Paint {
    match grade {
        Some(Grade::Good) => Paint::Good,
        Some(Grade::Bad) => Paint::Bad,
        _ => Paint::Plain,
    }
}

fn verdict(compleat: Option<Compleat>) -> Cell {
    match compleat {
        Some(Compleat::Yes) => Cell::new("yes", Paint::Good),
        Some(Compleat::No) => Cell::new("no", Paint::Plain),
        Some(Compleat::Unknown) => Cell::new("unknown", Paint::Faint),
        None => Cell::default(),
    }
}

/// How many trials the places have: `5 trials`, `2 to 5 trials`.
fn trials(view: &View<'_>) -> String {
    let places = (0..view.loads.len()).flat_map(|column| view.measured(column));
    let mut numbers: Vec<usize> = places.map(|(_, _, point)| point.values.len()).collect();
    numbers.sort_unstable();
    let (fewest, most) = (numbers.first().copied().unwrap_or(0), numbers.last().copied().unwrap_or(0));
    let most_of_them = format::plural(most, "trial");
    if fewest == most { most_of_them } else { format!("{fewest} to {most_of_them}") }
}

fn legend(view: &View<'_>, style: Style) -> String {
    let mut lines =
        vec![format!("Median of {}, its 95 % interval below (few trials: their range).", trials(view))];
    if view.compares() {
        lines.push("Percent: share of the best stack.  + 85 % or more   ! below 30 %".into());
    }
    if view.compares() && view.loads.len() > 1 {
        lines.push("Compleat: nothing below 30 %, more than half at 85 % or more.".into());
    }
    if view.stacks.iter().any(|stack| !stack.competes) {
        lines.push("Ceiling: memory instead of a device; not a competitor.".into());
    }
    if let Some(device) = &view.device {
        lines.push(format!("Device of every stack that has one: {device}."));
    }
    let lines: Vec<String> =
        lines.iter().map(|line| style.paint(Paint::Faint, &style.paragraph(line, 0))).collect();
    format!("\n{}\n", lines.join("\n"))
}
