//! Published values as lines of `row,column,value`, for whoever has a publication whose values are not public.

use std::collections::BTreeMap;

use toml::Spanned;

use super::claim::Published;
use super::evaluation::PublishedColumn;
use super::{Study, StudyError};

impl Study {
    /// Adds published values: `row,column,value` in each line, `#` begins a comment. A column is known by its word or its
    /// name in the artifact's files. `source` is what they are known by.
    ///
    /// # Errors
    /// A line that is something else, with its number; no line at all.
    pub fn publish(&mut self, text: &str, source: &str) -> Result<(), StudyError> {
        let mut columns: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (row, column, value) = self.published_line(line).map_err(|why| {
                StudyError::Argument(format!("{source}: published values, line {}: {why}", at + 1))
            })?;
            columns.entry(column).or_default().insert(row, value);
        }
        if columns.is_empty() {
            return Err(StudyError::Argument(format!("{source}: no values; a line is `row,column,value`")));
        }
        for (column, values) in columns {
            let known = self.published.iter_mut().find_map(|published| match published.get_mut() {
                Published::Column(one) if one.column == column => Some(one),
                _ => None,
            });
            match known {
                Some(known) => known.values.extend(values),
                None => {
                    let one = PublishedColumn { column, values, source: source.to_string(), remark: None };
                    self.published.push(Spanned::new(0..0, Published::Column(one)));
                }
            }
        }
        Ok(())
    }

    fn published_line(&self, line: &str) -> Result<(String, String, f64), String> {
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        let [row, column, value] = words[..] else {
            return Err(format!("`{line}` is not `row,column,value`"));
        };
        let found = self.rows.iter().find(|one| one.id == row);
        let row = found.ok_or_else(|| format!("`{row}` is no row"))?.id.clone();
        let found = self.columns.iter().find(|one| one.id == column || one.csv() == column);
        let column = found.ok_or_else(|| format!("`{column}` is no column"))?.id.clone();
        let value: Option<f64> = value.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
        Ok((row, column, value.ok_or("the value is not a number above 0")?))
    }
}
