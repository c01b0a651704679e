//! A published evaluation: its tables, and what a reader must know.

use analysis::grid::Grid;

use super::table::{Align, Cell, Table};
use super::{Paint, Style};
use crate::evaluation::{costs, legend, notes, parts};
use crate::sheet::{CellTone, Head, Sheet, SheetCell};

/// Widest name of a line.
const NAME_WIDTH: usize = 24;
/// Widest head of a column.
const HEAD_WIDTH: usize = 20;

/// Everything but the claims.
pub(super) fn of_grid(grid: &Grid, style: Style) -> String {
    let mut text = String::new();
    for part in parts(grid) {
        text.push_str(&sheet(&part.sheet, style));
    }
    text.push('\n');
    for line in legend(grid) {
        text.push_str(&style.paint(Paint::Faint, &style.paragraph(&line, 0)));
        text.push('\n');
    }
    if let Some(costs) = costs(grid) {
        text.push_str(&sheet(&costs, style));
    }
    for notes in notes(grid) {
        text.push_str(&style.heading(notes.title));
        for line in &notes.lines {
            text.push_str(&format!("  {}\n", style.indented(line, 2)));
        }
    }
    text
}

fn sheet(sheet: &Sheet, style: Style) -> String {
    let mut heads = vec![(Cell::new(&sheet.corner, Paint::Faint), Align::Left)];
    heads.extend(sheet.heads.iter().map(|one| (head(one, HEAD_WIDTH), Align::Right)));
    let mut table = Table::new(heads);
    for line in &sheet.lines {
        let mut cells = vec![head(&line.head, NAME_WIDTH)];
        cells.extend(line.spots.iter().map(table_cell));
        table.row(cells);
    }
    format!("{}{}", style.heading(&sheet.title), table.render(style))
}

fn head(head: &Head, width: usize) -> Cell {
    let cell = Cell::label(&head.name, width, Paint::Strong);
    if head.unit.is_empty() { cell } else { cell.line(&head.unit, Paint::Faint) }
}

fn table_cell(spot: &SheetCell) -> Cell {
    let paint = match spot.tint {
        CellTone::Good => Paint::Good,
        CellTone::Bad => Paint::Bad,
        CellTone::None => Paint::Faint,
        CellTone::Plain | CellTone::Middle => Paint::Plain,
    };
    let mut text = spot.value.clone();
    if !spot.beside.is_empty() {
        text.push_str(&format!(" {:>5}{:1}", spot.beside, spot.tint.sign()));
    }
    let details = spot.details.iter();
    details.fold(Cell::new(text, paint), |cell, detail| cell.line(detail, Paint::Faint))
}
