//! Columns that fit the width, or are split into blocks that do.

use super::{Paint, Style};

/// Blanks between columns; 1 when that saves splitting the table.
const GAP: usize = 2;

/// A cell: lines with their paint.
#[derive(Debug, Clone, Default)]
pub struct Cell(Vec<(String, Paint)>);

impl Cell {
    /// One line.
    pub fn new(text: impl Into<String>, paint: Paint) -> Cell {
        Cell(vec![(text.into(), paint)])
    }

    /// A further line.
    pub fn line(mut self, text: impl Into<String>, paint: Paint) -> Cell {
        self.0.push((text.into(), paint));
        self
    }

    /// Further lines.
    pub fn lines(mut self, lines: Vec<(String, Paint)>) -> Cell {
        self.0.extend(lines);
        self
    }

    /// A label broken after commas, blanks, `@` and `/` so that no line is longer than `width`.
    pub fn label(text: &str, width: usize, paint: Paint) -> Cell {
        Cell(wrap(text, width).into_iter().map(|line| (line, paint)).collect())
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.chars().count()).max().unwrap_or(0)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::new(text, Paint::Plain)
    }
}

/// Where a column's text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table whose first column is repeated when it is split.
#[derive(Debug)]
pub struct Table {
    head: Vec<Cell>,
    align: Vec<Align>,
    rows: Vec<Vec<Cell>>,
    airy: bool,
}

impl Table {
    /// Heads with the alignment of their columns.
    pub fn new(head: Vec<(Cell, Align)>) -> Table {
        let (head, align) = head.into_iter().unzip();
        Table { head, align, rows: Vec::new(), airy: false }
    }

    /// Put an empty line between rows.
    pub fn airy(mut self) -> Table {
        self.airy = true;
        self
    }

    /// Adds a row; it must have as many cells as there are heads.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.head.len());
        self.rows.push(cells);
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text; every line ends with a newline and is at most as wide as the style allows, unless a single
    /// column is wider.
    pub fn render(&self, style: Style) -> String {
        let widths: Vec<usize> =
            (0..self.head.len()).map(|at| self.column(at).map(Cell::width).max().unwrap_or(0)).collect();
        let total = |gap: usize| widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1);
        let gap = if total(GAP) > style.width() && total(1) <= style.width() { 1 } else { GAP };
        let mut text = String::new();
        for block in blocks(&widths, style.width(), gap) {
            if !text.is_empty() {
                text.push('\n');
            }
            self.render_row(style, &self.head, &block, (&widths, gap), &mut text);
            let rule: usize = block.iter().map(|at| widths[*at] + gap).sum::<usize>().saturating_sub(gap);
            text.push_str(&style.paint(Paint::Faint, &"-".repeat(rule)));
            text.push('\n');
            for (number, row) in self.rows.iter().enumerate() {
                if self.airy && number > 0 {
                    text.push('\n');
                }
                self.render_row(style, row, &block, (&widths, gap), &mut text);
            }
        }
        text
    }

    fn column(&self, at: usize) -> impl Iterator<Item = &Cell> {
        std::iter::once(&self.head[at]).chain(self.rows.iter().map(move |row| &row[at]))
    }

    fn render_row(
        &self,
        style: Style,
        row: &[Cell],
        block: &[usize],
        (widths, gap): (&[usize], usize),
        text: &mut String,
    ) {
        let height = block.iter().map(|at| row[*at].0.len()).max().unwrap_or(0);
        for number in 0..height {
            let mut line = String::new();
            let mut pending = 0;
            for at in block {
                let (content, paint) = row[*at].0.get(number).map_or(("", Paint::Plain), |(t, p)| (t, *p));
                let free = widths[*at].saturating_sub(content.chars().count());
                let (before, after) = match self.align[*at] {
                    Align::Left => (0, free),
                    Align::Right => (free, 0),
                };
                // Blanks are written only when something follows: no line ends in blanks.
                let shown = content.trim_end();
                let trailing = content.chars().count() - shown.chars().count();
                if shown.is_empty() {
                    pending += trailing + free + gap;
                    continue;
                }
                line.push_str(&" ".repeat(pending + before));
                line.push_str(&style.paint(paint, shown));
                pending = trailing + after + gap;
            }
            text.push_str(&line);
            text.push('\n');
        }
    }
}

/// Groups of columns that fit, each with the first column in front.
fn blocks(widths: &[usize], width: usize, gap: usize) -> Vec<Vec<usize>> {
    let mut blocks: Vec<Vec<usize>> = vec![vec![0]];
    let first = widths.first().copied().unwrap_or(0);
    let mut used = first;
    for (at, own) in widths.iter().enumerate().skip(1) {
        let block = blocks.len() - 1;
        if used + gap + own > width && blocks[block].len() > 1 {
            blocks.push(vec![0]);
            used = first;
        }
        used += gap + own;
        let block = blocks.len() - 1;
        blocks[block].push(at);
    }
    blocks
}

/// Breaks after commas, blanks, `@`, `/` and `=`; a piece that is too long by itself is cut.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for piece in text.split_inclusive([',', ' ', '@', '/', '=']) {
        let mut piece: Vec<char> = piece.chars().collect();
        let long = line.chars().count() + piece.iter().collect::<String>().trim_end().chars().count();
        if long > width && !line.is_empty() {
            lines.push(std::mem::take(&mut line).trim_end().to_string());
        }
        while piece.len() > width + 1 {
            lines.push(piece.drain(..width).collect());
        }
        line.extend(piece);
    }
    if !line.trim_end().is_empty() || lines.is_empty() {
        lines.push(line.trim_end().to_string());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_break_at_their_joints() {
        assert_eq!(wrap("ext4,data=journal@image:2G", 14), ["ext4,data=", "journal@", "image:2G"]);
        assert_eq!(wrap("varmail nthreads=16", 12), ["varmail", "nthreads=16"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efghij"[..4].to_string().as_str(), "ij"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn columns_that_do_not_fit_start_a_new_block_with_the_first_column() {
        assert_eq!(blocks(&[10, 20, 20, 20], 60, 2), [vec![0, 1, 2], vec![0, 3]]);
        assert_eq!(blocks(&[10, 90], 60, 2), [vec![0, 1]], "a column wider than the terminal still appears");
    }

    #[test]
    fn no_line_ends_in_blanks() {
        let mut table = Table::new(vec![
            (Cell::new("a", Paint::Strong), Align::Left),
            (Cell::new("b", Paint::Plain), Align::Right),
        ]);
        table.row(vec![
            Cell::new("long label", Paint::Plain).line("x", Paint::Faint),
            "12".to_string().into(),
        ]);
        let text = table.render(Style::default());
        assert_eq!(text, "a            b\n--------------\nlong label  12\nx\n");
        let coloured = table.render(Style { color: true, width: 80 });
        assert!(coloured.contains("\x1b[1ma\x1b[0m"), "{coloured:?}");
    }
}
