//! A table as a model: what stands where, and what it means. Terminal and page are drawn from the same one.

use stats::compleat::Grade;

/// A table of figures: a head for each system, a line for each measure, or the other way round.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// Heading.
    pub title: String,
    /// Above the first column.
    pub corner: String,
    /// Heads of the columns.
    pub heads: Vec<Head>,
    /// Lines, each with a spot for each head.
    pub lines: Vec<Line>,
}

/// The head of a column or a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// Name.
    pub name: String,
    /// Unit or remark; may be empty.
    pub unit: String,
}

/// A line of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its head.
    pub head: Head,
    /// Its figures.
    pub spots: Vec<SheetCell>,
}

/// A place of a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SheetCell {
    /// The figure; empty when there is none.
    pub value: String,
    /// Beside it: its share of the best, or how many times the base it is.
    pub beside: String,
    /// Good, bad, or neither.
    pub tint: CellTone,
    /// Below it, in small letters.
    pub details: Vec<String>,
}

/// How a figure is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CellTone {
    /// There is no figure; what stands there is a word.
    #[default]
    None,
    /// Nothing is said.
    Plain,
    /// Good.
    Good,
    /// Neither.
    Middle,
    /// Bad.
    Bad,
}

impl CellTone {
    /// By a share of the best.
    pub fn of_grade(grade: Grade) -> CellTone {
        match grade {
            Grade::Good => CellTone::Good,
            Grade::Middle => CellTone::Middle,
            Grade::Bad => CellTone::Bad,
        }
    }

    /// The class in style sheets.
    pub fn class(self) -> &'static str {
        match self {
            CellTone::None => "none",
            CellTone::Plain => "plain",
            CellTone::Good => "good",
            CellTone::Middle => "middle",
            CellTone::Bad => "bad",
        }
    }

    /// A sign, since colour is never the only one.
    pub fn mark(self) -> &'static str {
        match self {
            CellTone::Good => "\u{25b2}",
            CellTone::Bad => "\u{25bc}",
            _ => "",
        }
    }

    /// The same in ASCII.
    pub fn sign(self) -> &'static str {
        match self {
            CellTone::Good => "+",
            CellTone::Bad => "!",
            _ => "",
        }
    }
}

impl Sheet {
    /// Lines become columns and columns lines.
    pub fn turned(self) -> Sheet {
        let Sheet { title, corner, heads, lines } = self;
        let spot = |line: usize, at: usize| lines[line].spots.get(at).cloned().unwrap_or_default();
        let turned = heads.iter().enumerate().map(|(at, head)| Line {
            head: head.clone(),
            spots: (0..lines.len()).map(|line| spot(line, at)).collect(),
        });
        let turned = turned.collect();
        Sheet { title, corner, heads: lines.into_iter().map(|line| line.head).collect(), lines: turned }
    }
}
