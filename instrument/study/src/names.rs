//! Checks that what an evaluation names is there.

use super::claim::{Claim, Published, Rule};
use super::error::TextError;
use super::evaluation::{Evaluation, TableBaseline};
use super::nearest::did_you_mean;
use super::text_position::TextPosition;
use super::{Study, StudyError};

/// Checks that what an evaluation names is there.
pub(super) fn check(study: &Study, place: &TextPosition<'_>) -> Result<(), StudyError> {
    let names = Names::of(study);
    names.each_once(place)?;
    for (at, column) in study.columns.iter().enumerate() {
        let known = [(&column.load, &names.loads, "load"), (&column.table, &names.tables, "table")];
        for (word, known, what) in known {
            is_known(word, known, what).map_err(|why| place.at_table("column", at, why))?;
        }
    }
    for (at, row) in study.rows.iter().enumerate() {
        if let Some((name, _)) = row.parameters.iter().find(|(_, values)| values.len() != 1) {
            return Err(place
                .at_table("row", at, format!("`{name}` has several values; a row has one"))
                .into());
        }
    }
    for (at, row) in study.rows.iter().enumerate() {
        let tables = row.tables.iter().map(|table| is_known(table, &names.tables, "table"));
        tables.collect::<Result<(), String>>().map_err(|why| place.at_table("row", at, why))?;
    }
    let default = Evaluation::default();
    let evaluation = study.evaluation.as_ref().unwrap_or(&default);
    if let Some(at) = study.tables.iter().position(|table| table.against == TableBaseline::Base) {
        let base = evaluation.base.as_deref().ok_or("[evaluation] names no `base`".to_string());
        base.and_then(|base| is_known(base, &names.rows, "row"))
            .map_err(|why| place.at_table("table", at, why))?;
    }
    for published in &study.published {
        let Published::Column(one) = published.as_ref() else { continue };
        let rows = one.values.keys().map(|row| is_known(row, &names.rows, "row"));
        let remark = one.remark.iter().map(|letter| {
            let known: Vec<&str> = evaluation.remarks.keys().map(String::as_str).collect();
            is_known(letter, &known, "remark")
        });
        std::iter::once(is_known(&one.column, &names.columns, "column"))
            .chain(rows)
            .chain(remark)
            .collect::<Result<(), String>>()
            .map_err(|why| place.error(Some(published.span()), why))?;
    }
    for (at, regime) in study.regimes.iter().enumerate() {
        let columns = regime.columns.iter().map(|word| is_known(word, &names.columns, "column"));
        let rows = regime.rows.iter().map(|word| is_known(word, &names.rows, "row"));
        columns
            .chain(rows)
            .collect::<Result<(), String>>()
            .map_err(|why| place.at_table("regime", at, why))?;
    }
    for claim in &study.claims {
        names.of_claim(claim.as_ref()).map_err(|why| place.error(Some(claim.span()), why))?;
    }
    Ok(())
}

/// The words of a study by what they name.
struct Names<'a> {
    loads: Vec<&'a str>,
    rows: Vec<&'a str>,
    columns: Vec<&'a str>,
    tables: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn of(study: &'a Study) -> Names<'a> {
        Names {
            loads: study.workloads.iter().map(super::Workload::label).collect(),
            rows: study.rows.iter().map(|row| row.id.as_str()).collect(),
            columns: study.columns.iter().map(|column| column.id.as_str()).collect(),
            tables: study.tables.iter().map(|table| table.id.as_str()).collect(),
        }
    }

    fn each_once(&self, place: &TextPosition<'_>) -> Result<(), TextError> {
        for (what, words) in [("row", &self.rows), ("column", &self.columns), ("table", &self.tables)] {
            let twice = words.iter().enumerate().find(|(at, word)| words[..*at].contains(word));
            if let Some((at, word)) = twice {
                return Err(place.at_table(what, at, format!("two {what}s are called {word}")));
            }
        }
        Ok(())
    }

    fn of_claim(&self, claim: &Claim) -> Result<(), String> {
        match &claim.rule {
            Rule::Ratio(_) => Ok(()),
            Rule::NoRivalCompleat => Ok(()),
            Rule::NoneBelow { row, .. } | Rule::MostAt { row, .. } => is_known(row, &self.rows, "row"),
            Rule::Columns(rule) => {
                is_known(&rule.row, &self.rows, "row")?;
                [&rule.column, &rule.over]
                    .into_iter()
                    .try_for_each(|word| is_known(word, &self.columns, "column"))
            }
            Rule::Gain(rule) => {
                let rows = std::iter::once(&rule.row).chain(&rule.over);
                rows.into_iter().try_for_each(|row| is_known(row, &self.rows, "row"))?;
                let known: Vec<&str> = self.columns.iter().chain(&self.tables).copied().collect();
                rule.columns.iter().chain(&rule.except).try_for_each(|word| is_known(word, &known, "column"))
            }
        }
    }
}

fn is_known(word: &str, known: &[&str], what: &str) -> Result<(), String> {
    if known.contains(&word) {
        return Ok(());
    }
    let near = did_you_mean(word, known.iter().copied());
    Err(format!("there is no {what} `{word}`; {}there are: {}", near.unwrap_or_default(), known.join(", ")))
}
