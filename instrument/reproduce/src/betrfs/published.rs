//! The paper's cell values. The abstract gives ratios only (see [`super::claims`]); whoever has the paper can put its
//! tables into a file, `row,column,value` in each line, to see them beside what was measured.

use super::rows::ROWS;
use super::{COLUMNS, Column, Grid};
use crate::ReproduceError;

/// A published value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// Position in [`ROWS`].
    pub row: usize,
    /// The column's word.
    pub column: &'static str,
    /// The value in the column's unit.
    pub value: f64,
}

/// What the artifact's README prints as examples of BetrFS v0.4, in our units. One run of each; illustrative.
pub fn examples() -> Vec<Value> {
    let row = ROWS.iter().position(|row| row.id == "betrfs-v0.4").unwrap_or(0);
    vec![Value { row, column: "mailserver", value: imap_ops_per_second(328.869_062) }]
}

/// The IMAP result in op/s from its seconds, as the artifact's README converts it: 8 clients of 10,000 operations.
pub fn imap_ops_per_second(seconds: f64) -> f64 {
    8.0 * 10_000.0 / seconds
}

/// Reads published values; `#` begins a comment.
///
/// # Errors
/// A line that is not `row,column,value` with a known row and column.
pub fn parse(text: &str) -> Result<Vec<Value>, ReproduceError> {
    let mut values = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |why: String| ReproduceError::Published { line: at + 1, why };
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        let [row, column, value] = words[..] else {
            return Err(wrong(format!("`{line}` is not `row,column,value`")));
        };
        let row =
            ROWS.iter().position(|one| one.id == row).ok_or_else(|| wrong(format!("`{row}` is no row")))?;
        let found: Option<&Column> = COLUMNS.iter().find(|one| one.id == column || one.csv == column);
        let column = found.ok_or_else(|| wrong(format!("`{column}` is no column")))?.id;
        let value: Option<f64> = value.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
        values.push(Value {
            row,
            column,
            value: value.ok_or_else(|| wrong("the value is not a number above 0".into()))?,
        });
    }
    Ok(values)
}

/// The published value of a cell.
pub fn of(values: &[Value], grid: &Grid, row: usize, column: usize) -> Option<f64> {
    let (id, column) = (grid.rows.get(row)?.id, grid.columns.get(column)?.id);
    values.iter().find(|one| ROWS[one.row].id == id && one.column == column).map(|one| one.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_mistakes_named() {
        let values = parse("# Table 3\next4, seq-write80g, 500\nbetrfs,rm,3.5 # s\n");
        assert!(values.unwrap_err().to_string().contains("line 3"), "the artifact calls it del");
        let values = parse("ext4, seq-write80g, 500\nbetrfs,del,3.5 # s\n").unwrap();
        assert_eq!((values.len(), values[0].column, values[1].value), (2, "seq-write", 3.5));
        assert!(parse("ext4,grep,-1").is_err());
        assert!((imap_ops_per_second(328.869_062) - 243.26).abs() < 0.01);
    }
}
