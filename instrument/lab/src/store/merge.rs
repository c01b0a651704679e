//! Joining the runs of shards, from many stores into one run of this store, without loss.
//!
//! Rows are copied as they are. Attempts without a result come first, then the results: of one trial the newest row counts. The
//! same result twice is taken once; two different results of one trial are refused, as is what does not fit. All of it is one
//! transaction: a merge that is refused or killed leaves nothing.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, params};

use study::Study;
use study::deal;
use study::results::Run;
use study::shard::ShardOrigin;

use super::{BUSY_PATIENCE, Store, StoreError, free_id, head, insert_run, owner, schema};

/// What a merge came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// Id of the new run.
    pub run: String,
    /// Runs that it was made of.
    pub parts: usize,
    /// Trials of the plan.
    pub planned: u64,
    /// Trials of the plan with a result.
    pub done: u64,
    /// Results that were met more than once, and are the same.
    pub repeated: u64,
    /// Shards of the study.
    pub shards: u32,
    /// Trials without a result, by the number of their shard.
    pub holes: BTreeMap<u32, u64>,
}

/// Why runs are not merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The same, of one of the sources.
    #[error("{}: {source}", .path.display())]
    Source {
        /// The source.
        path: PathBuf,
        /// What is wrong.
        source: StoreError,
    },
    /// No store there.
    #[error("{}: no store is there; give the folder that --home or LOADLINE_HOME named, or its loadline.db", .0.display())]
    NoStore(PathBuf),
    /// A store of another version.
    #[error(
        "{}: the store has version {found}, this loadline writes {known}; merge with the loadline that ran the shards",
        .path.display()
    )]
    Version {
        /// The source.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version here.
        known: u32,
    },
    /// No run of a shard.
    #[error("{}: no run of a shard is stored there{}", .0.display(), if *.1 { " of this study" } else { "" })]
    NoShards(PathBuf, bool),
    /// Two runs that do not fit.
    #[error(transparent)]
    Differs(Box<Difference>),
    /// Two results of one trial.
    #[error(
        "{label}, trial {trial}: {run} has another result than a run before it; delete one of the runs (`loadline runs --delete`)"
    )]
    TwoResults {
        /// The cell.
        label: String,
        /// From 1.
        trial: u32,
        /// The later run.
        run: String,
    },
}

/// Why two runs do not fit.
#[derive(Debug, thiserror::Error)]
#[error("{b} does not fit {a}: {what} is {of_b} instead of {of_a}; {remedy}")]
pub struct Difference {
    /// The first run.
    pub a: String,
    /// The one that does not fit.
    pub b: String,
    /// What differs.
    pub what: &'static str,
    /// In the first.
    pub of_a: String,
    /// In the other.
    pub of_b: String,
    /// What to do.
    pub remedy: &'static str,
}

/// A run that takes part.
struct Source {
    file: PathBuf,
    run: Run,
}

impl Source {
    /// How messages call it.
    fn label(&self) -> String {
        let shard = self.run.shard.map_or("merged".to_string(), |shard| format!("shard {shard}"));
        format!("run {} ({shard}) of {}", self.run.id, self.file.display())
    }

    fn of(&self) -> Option<u32> {
        let own = self.run.shard.or_else(|| self.run.parts.first().map(|part| part.shard));
        own.map(|shard| shard.of())
    }
}

impl Store {
    /// Joins all runs of shards in `sources` (folders of stores, or their files) to one run of this store. `study` chooses by
    /// the beginning of a study's hash. A run whose trials are not all there is unfinished: resumed, it fills the holes.
    ///
    /// # Errors
    /// See [`MergeError`]; nothing is stored then.
    pub fn merge(
        &mut self,
        sources: &[PathBuf],
        study: Option<&str>,
        command_line: &[String],
    ) -> Result<Merged, MergeError> {
        let own = self.home().join("loadline.db");
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        for path in sources {
            let file = file_of(path)?;
            if seen.insert(file.clone()) {
                // what was merged here before is made of shards that are met anyway
                let is_own = std::fs::canonicalize(&own).is_ok_and(|own| own == file);
                all.extend(runs_of(path, file, study, is_own)?);
            }
        }
        let Some(first) = all.first() else {
            return Err(MergeError::NoShards(sources.first().cloned().unwrap_or_default(), study.is_some()));
        };
        all.iter().skip(1).try_for_each(|other| fits(first, other))?;
        let shards = first.of().unwrap_or(1);
        let mut run = first.run.clone();
        run.shard = None;
        run.parts = all.iter().flat_map(|source| parts(&source.run)).collect();
        run.parts.sort_by(|a, b| (a.shard, a.started, &a.id).cmp(&(b.shard, b.started, &b.id)));
        run.parts.dedup();
        run.started = all.iter().map(|source| source.run.started).min().unwrap_or(run.started);
        run.version = all.iter().map(|source| source.run.version).min().unwrap_or(run.version);
        run.finished = None;
        run.command_line = command_line.to_vec();
        let text = run.study.clone();
        let study = Study::from_stored(&text)
            .map_err(|error| StoreError::Damaged { run: first.run.id.clone(), why: error.to_string() })?;
        let transaction = self.write()?;
        run.id = free_id(&transaction, Timestamp::now())?;
        insert_run(&transaction, &run, study::plan::order(&study).len(), None)?;
        let mut repeated = 0;
        for is_done in [false, true] {
            for source in &all {
                repeated += copy(&transaction, &run, source, is_done)?;
            }
        }
        let done = done_trials(&transaction, &run.id)?;
        let holes = deal::holes(&study, shards, |slot| done.contains(&(slot.cell, slot.index)));
        let missing: u64 = holes.values().sum();
        let planned = study::plan::order(&study).len() as u64;
        if missing == 0 {
            let finished = all.iter().filter_map(|source| source.run.finished).max();
            let finished = finished.unwrap_or_else(Timestamp::now).to_string();
            transaction
                .execute("UPDATE runs SET finished = ?2 WHERE id = ?1", params![run.id, finished])
                .map_err(StoreError::from)?;
        }
        transaction.commit().map_err(StoreError::from)?;
        Ok(Merged {
            parts: all.len(),
            run: run.id,
            planned,
            done: planned - missing,
            repeated,
            shards,
            holes,
        })
    }
}

fn file_of(path: &Path) -> Result<PathBuf, MergeError> {
    let file = if path.is_dir() { path.join("loadline.db") } else { path.to_path_buf() };
    std::fs::canonicalize(&file).map_err(|_| MergeError::NoStore(path.to_path_buf()))
}

fn open(file: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(BUSY_PATIENCE)?;
    Ok(connection)
}

/// The runs of a store that take part.
fn runs_of(path: &Path, file: PathBuf, study: Option<&str>, is_own: bool) -> Result<Vec<Source>, MergeError> {
    let at = |source| MergeError::Source { path: path.to_path_buf(), source };
    let connection = open(&file).map_err(at)?;
    let found = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|error| at(error.into()))?;
    if found != schema::VERSION {
        return Err(MergeError::Version { path: path.to_path_buf(), found, known: schema::VERSION });
    }
    let mut sources = Vec::new();
    for (id, owner) in ids(&connection, study.unwrap_or_default()).map_err(at)? {
        let run = head(&connection, &id).map_err(at)?;
        if run.shard.is_none() && (run.parts.is_empty() || is_own) {
            continue;
        }
        if let Some(pid) = owner.as_deref().and_then(owner::other_living_process) {
            return Err(at(StoreError::InUse { run: id, pid }));
        }
        sources.push(Source { file: file.clone(), run });
    }
    if sources.is_empty() {
        return Err(MergeError::NoShards(path.to_path_buf(), study.is_some()));
    }
    Ok(sources)
}

/// Ids and owners of the runs of a study, by the beginning of its hash.
fn ids(connection: &Connection, study: &str) -> Result<Vec<(String, Option<String>)>, StoreError> {
    let mut statement = connection
        .prepare("SELECT id, owner FROM runs WHERE substr(study_hash, 1, length(?1)) = ?1 ORDER BY rowid")?;
    let rows = statement.query_map([study], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Whether a run can be joined to the first.
fn fits(first: &Source, other: &Source) -> Result<(), MergeError> {
    let of = |source: &Source| source.of().map_or(String::new(), |of| of.to_string());
    let (a, b) = (&first.run, &other.run);
    let another = "merge one study at a time: --study HASH chooses";
    let version = "run all shards with one version";
    let checks = [
        ("the study", a.study_hash.clone(), b.study_hash.clone(), another),
        ("the version of loadline", a.loadline.clone(), b.loadline.clone(), version),
        ("the version of the records", a.version.to_string(), b.version.to_string(), version),
        ("the number of shards", of(first), of(other), "run all shards with the same N of --shard K/N"),
    ];
    for (what, of_a, of_b, remedy) in checks {
        if of_a != of_b {
            let difference = Difference { a: first.label(), b: other.label(), what, of_a, of_b, remedy };
            return Err(MergeError::Differs(Box::new(difference)));
        }
    }
    Ok(())
}

fn parts(run: &Run) -> Vec<ShardOrigin> {
    let Some(shard) = run.shard else { return run.parts.clone() };
    vec![ShardOrigin {
        id: run.id.clone(),
        shard,
        started: run.started,
        finished: run.finished,
        command_line: run.command_line.clone(),
    }]
}

/// Copies the trials of a run, those with a result or those without; gives how many results were there already.
fn copy(into: &Transaction<'_>, run: &Run, source: &Source, is_done: bool) -> Result<u64, MergeError> {
    let at = |error: rusqlite::Error| MergeError::Source { path: source.file.clone(), source: error.into() };
    let from = open(&source.file)
        .map_err(|source_error| MergeError::Source { path: source.file.clone(), source: source_error })?;
    let mut trials = from
        .prepare(
            "SELECT row, cell, trial, status, started, seconds, ops_per_second, record, raw_output
             FROM trials WHERE run = ?1 AND (status = 'done') = ?2 ORDER BY row",
        )
        .map_err(at)?;
    let mut ops = from
        .prepare(
            "SELECT name, kind, ops, bytes, errors, service_hdr, intended_hdr FROM ops WHERE trial_row = ?1",
        )
        .map_err(at)?;
    let mut known = into
        .prepare_cached(
            "SELECT record = ?4 FROM trials
             WHERE run = ?1 AND cell = ?2 AND trial = ?3 AND (status = 'done') = ?5 ORDER BY record = ?4 DESC",
        )
        .map_err(StoreError::from)?;
    let mut add = into
        .prepare_cached(
            "INSERT INTO trials (run, cell, trial, status, started, seconds, ops_per_second, record, raw_output)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )
        .map_err(StoreError::from)?;
    let mut add_op = into
        .prepare_cached(
            "INSERT INTO ops (trial_row, name, kind, ops, bytes, errors, service_hdr, intended_hdr)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )
        .map_err(StoreError::from)?;
    let mut repeated = 0;
    let mut rows = trials.query(params![source.run.id, is_done]).map_err(at)?;
    while let Some(row) = rows.next().map_err(at)? {
        let value = |column: usize| row.get::<_, rusqlite::types::Value>(column).map_err(at);
        let (cell, trial): (u32, u32) = (row.get(1).map_err(at)?, row.get(2).map_err(at)?);
        let record = value(7)?;
        let same: Option<bool> = known
            .query_row(params![run.id, cell, trial, record, is_done], |row| row.get(0))
            .optional()
            .map_err(StoreError::from)?;
        match same {
            Some(true) => {
                repeated += u64::from(is_done);
                continue;
            }
            Some(false) if is_done => {
                let label =
                    run.cell(cell).map_or_else(|| format!("cell {cell}"), study::results::Cell::label);
                return Err(MergeError::TwoResults { label, trial: trial + 1, run: source.label() });
            }
            _ => {}
        }
        add.execute(params![
            run.id,
            cell,
            trial,
            value(3)?,
            value(4)?,
            value(5)?,
            value(6)?,
            record,
            value(8)?
        ])
        .map_err(StoreError::from)?;
        let new = into.last_insert_rowid();
        let mut of_trial = ops.query([row.get::<_, i64>(0).map_err(at)?]).map_err(at)?;
        while let Some(op) = of_trial.next().map_err(at)? {
            let value = |column: usize| op.get::<_, rusqlite::types::Value>(column).map_err(at);
            add_op
                .execute(params![
                    new,
                    value(0)?,
                    value(1)?,
                    value(2)?,
                    value(3)?,
                    value(4)?,
                    value(5)?,
                    value(6)?
                ])
                .map_err(StoreError::from)?;
        }
    }
    Ok(repeated)
}

/// Cells and indices of the trials with a result.
fn done_trials(transaction: &Transaction<'_>, run: &str) -> Result<HashSet<(u32, u32)>, StoreError> {
    let mut statement =
        transaction.prepare("SELECT DISTINCT cell, trial FROM trials WHERE run = ?1 AND status = 'done'")?;
    let rows = statement.query_map([run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
