//! What all runs yielded. Throughputs are read without opening a trial's record: from an index that
//! holds them ([`super::schema`]); a store without it gives the same, slower.

use std::collections::HashMap;
use std::sync::Arc;

use analysis::compare::{Machines, PastResult};
use analysis::trend::{CellDefinitions, DefinedCell};
use jiff::Timestamp;
use rusqlite::{Row, Rows};
use study::results::MetricName;

use super::asks;
use super::error::StoreError;
use super::{RunSummary, Store, time};

/// Of each cell and trial the latest row: SQLite takes the other columns from the row that has the maximum.
const LATEST: &str =
    "SELECT run, cell, status, ops_per_second, max(row) FROM trials GROUP BY run, cell, trial";
/// The same of one run.
const LATEST_OF_RUN: &str =
    "SELECT run, cell, status, ops_per_second, max(row) FROM trials WHERE run = ?1 GROUP BY run, cell, trial";

impl Store {
    /// What the cells of every stored study ask.
    ///
    /// # Errors
    /// The store cannot be read, or a record is damaged.
    pub fn cell_definitions(&self) -> Result<CellDefinitions, StoreError> {
        asks::all(&self.connection)
    }

    /// The same of those studies alone that are known without reading a record.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn kept_asks(&self) -> Result<CellDefinitions, StoreError> {
        asks::load_definitions(&self.connection)
    }

    /// What the cells of one study ask, when it is known without reading a record.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn kept_asks_of(&self, study_hash: &str) -> Result<Option<Vec<Arc<DefinedCell>>>, StoreError> {
        asks::kept_of(&self.connection, study_hash)
    }

    /// Throughputs of every cell of every run, the oldest run first: what tells how much runs of this machine differ.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn past(&self) -> Result<Vec<PastResult>, StoreError> {
        let mut statement =
            self.connection.prepare_cached("SELECT id, study_hash, started FROM runs ORDER BY rowid")?;
        let runs = begun(statement.query([])?)?;
        let mut statement = self.connection.prepare_cached(LATEST)?;
        yielded(statement.query([])?, &runs)
    }

    /// The same of one run, by its id; empty when there is none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn past_of(&self, run: &str) -> Result<Vec<PastResult>, StoreError> {
        let mut statement =
            self.connection.prepare_cached("SELECT id, study_hash, started FROM runs WHERE id = ?1")?;
        let runs = begun(statement.query([run])?)?;
        let mut statement = self.connection.prepare_cached(LATEST_OF_RUN)?;
        yielded(statement.query([run])?, &runs)
    }

    /// What runs say of their machine. One that cannot be read is left out.
    pub fn machines(&self, ids: &[String]) -> Machines {
        let of = |id: &String| Some((id.clone(), analysis::machine::conditions(&self.load_run(id).ok()?)));
        ids.iter().filter_map(of).collect()
    }

    /// What every cell yielded by another metric than throughput, of which every trial has to be read: of the runs that `wanted` says.
    ///
    /// # Errors
    /// The store cannot be read, or a record is damaged.
    pub fn past_by(
        &self,
        metric: MetricName,
        wanted: impl Fn(&RunSummary) -> bool,
    ) -> Result<Vec<PastResult>, StoreError> {
        let mut past = Vec::new();
        for summary in self.runs()?.iter().filter(|summary| wanted(summary)) {
            let run = self.load_run(&summary.id)?;
            for cell in &run.cells {
                let done = run.trials_of(cell.id).filter(|trial| trial.status.is_done());
                let values: Vec<f64> = done.filter_map(|trial| metric.of(trial.outcome.as_ref()?)).collect();
                if !values.is_empty() {
                    past.push(PastResult {
                        run: run.id.clone(),
                        study_hash: run.study_hash.clone(),
                        cell: cell.id,
                        started: run.started,
                        values,
                    });
                }
            }
        }
        Ok(past)
    }
}

/// Of each run by its id: its place among these rows, the hash of its study, and when it began.
type Begun = HashMap<String, (usize, String, Timestamp)>;

/// From rows of id, study hash and start.
fn begun(mut rows: Rows<'_>) -> Result<Begun, StoreError> {
    let mut runs = Begun::new();
    while let Some(row) = rows.next()? {
        let place = runs.len();
        runs.insert(row.get(0)?, (place, row.get(1)?, time(row.get(2)?)));
    }
    Ok(runs)
}

/// What rows of [`LATEST`] say of these runs, in the order of their places.
fn yielded(mut rows: Rows<'_>, runs: &Begun) -> Result<Vec<PastResult>, StoreError> {
    let mut past: Vec<(usize, PastResult)> = Vec::new();
    while let Some(row) = rows.next()? {
        let Some((cell, throughput)) = result(row)? else { continue };
        let run = row.get_ref(0)?.as_str().unwrap_or_default();
        match past.last_mut() {
            Some((_, last)) if last.cell == cell && last.run == run => last.values.push(throughput),
            _ => {
                // one that has begun since
                let Some((place, study_hash, started)) = runs.get(run) else { continue };
                let (run, study_hash, started) = (run.to_string(), study_hash.clone(), *started);
                past.push((*place, PastResult { run, study_hash, started, cell, values: vec![throughput] }));
            }
        }
    }
    past.sort_by_key(|(place, _)| *place);
    Ok(past.into_iter().map(|(_, one)| one).collect())
}

/// Cell and throughput of a trial's latest row, if it has a result.
fn result(row: &Row<'_>) -> Result<Option<(u32, f64)>, StoreError> {
    let is_done = row.get_ref(2)?.as_str() == Ok("done");
    let throughput = row.get::<_, Option<f64>>(3)?.filter(|value| is_done && *value > 0.0);
    throughput.map(|value| Ok((row.get(1)?, value))).transpose()
}
