//! The rows and columns of an evaluation that are to run.

use super::nearest::did_you_mean;
use super::{Column, Study, StudyError};

impl Study {
    /// Keeps the rows and columns of two lists, such as `ext4,betrfs` and `micro,grep`; without a list those that the
    /// evaluation names, else all. A table's word stands for its columns. Rows that are left out are marked, loads that
    /// no column needs are gone. A study without columns keeps its loads.
    ///
    /// # Errors
    /// A word that is no row or column; nothing left to run.
    pub fn choose(&mut self, rows: Option<&str>, columns: Option<&str>) -> Result<(), StudyError> {
        let named = self.evaluation.clone().unwrap_or_default();
        let refuse = |option: &str, what: &str| {
            StudyError::Argument(format!("{option}: this study has no {what}s; see docs/studies.md"))
        };
        if rows.is_some() && self.rows.is_empty() {
            return Err(refuse("--rows", "row"));
        }
        if columns.is_some() && self.columns.is_empty() {
            return Err(refuse("--columns", "column"));
        }
        if !self.rows.is_empty() {
            self.choose_rows(rows.or(named.rows.as_deref()).unwrap_or(ALL))?;
        }
        if !self.columns.is_empty() {
            self.choose_columns(columns.or(named.columns.as_deref()).unwrap_or(ALL))?;
        }
        Ok(())
    }

    /// Gives every cell the same number of trials.
    pub fn all_trials(&mut self, trials: u32) {
        self.study.trials = trials;
        self.workloads.iter_mut().for_each(|workload| workload.trials = None);
        self.rows.iter_mut().for_each(|row| row.trials = None);
    }

    fn choose_rows(&mut self, list: &str) -> Result<(), StudyError> {
        let sets = self.evaluation.as_ref().map(|evaluation| evaluation.row_sets.clone()).unwrap_or_default();
        let mut wanted: Vec<String> = Vec::new();
        for word in words(list) {
            let found: Vec<String> = match sets.get(word) {
                Some(set) => set.clone(),
                None => {
                    let rows = self.rows.iter().map(|row| &row.id);
                    rows.filter(|id| word == ALL || *id == word).cloned().collect()
                }
            };
            if found.is_empty() {
                let known = sets.keys().chain(self.rows.iter().map(|row| &row.id)).map(String::as_str);
                return Err(unknown("row", word, known.collect()));
            }
            wanted.extend(found);
        }
        for row in &mut self.rows {
            row.skip = !wanted.contains(&row.id);
        }
        if wanted.is_empty() { Err(nothing_chosen("row")) } else { Ok(()) }
    }

    fn choose_columns(&mut self, list: &str) -> Result<(), StudyError> {
        let aside =
            |column: &&Column| !self.tables.iter().any(|table| table.id == column.table && table.aside);
        let open: Vec<&Column> = self.columns.iter().filter(aside).collect();
        let mut chosen: Vec<&Column> = Vec::new();
        for word in words(list) {
            let is = |column: &&&Column| word == ALL || column.id == word || column.table == word;
            let found: Vec<&Column> = open.iter().filter(is).copied().collect();
            if found.is_empty() {
                let tables = self.tables.iter().filter(|table| !table.aside).map(|table| table.id.as_str());
                let known = tables.chain(open.iter().map(|column| column.id.as_str()));
                return Err(unknown("column", word, known.collect()));
            }
            chosen.extend(found);
        }
        let needed = |load: &str| chosen.iter().any(|column| column.load == load);
        let mut workloads = self.workloads.clone();
        workloads.retain(|workload| needed(workload.label()));
        for workload in &mut workloads {
            let Some(variable) = workload.sections.clone() else { continue };
            // in the study's order, each once
            let label = workload.label().to_string();
            let mine = open.iter().filter(|column| column.load == label && chosen.contains(column));
            let mut sections: Vec<&str> = Vec::new();
            for section in mine.map(|column| column.section()) {
                if !sections.contains(&section) {
                    sections.push(section);
                }
            }
            workload.set.put(&variable, vec![sections.join(" ")]).map_err(StudyError::Argument)?;
        }
        self.workloads = workloads;
        if self.workloads.is_empty() { Err(nothing_chosen("column")) } else { Ok(()) }
    }
}

/// The word for every row or column.
const ALL: &str = "all";

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn unknown(what: &str, word: &str, known: Vec<&str>) -> StudyError {
    let near = did_you_mean(word, known.iter().copied());
    let near = near.unwrap_or_default();
    StudyError::Argument(format!("`{word}` is no {what}; {near}{what}s are {ALL}, {}", known.join(", ")))
}

fn nothing_chosen(what: &str) -> StudyError {
    StudyError::Argument(format!("name a {what} at least (--{what}s {ALL})"))
}
