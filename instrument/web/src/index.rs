//! What is known of all runs: kept in memory, brought up to date when the store has changed.
//!
//! Whether it has is asked of SQLite ([`Store::data_version`]), which is surer than a file's time of modification: a store in WAL
//! mode changes without its main file. Of runs that are known already nothing is read again but how far they are.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use jiff::Timestamp;
use lab::Store;
use lab::store::{Listed, StoreError};
use record::compare::Past;
use record::results::{Cell, Run};

use crate::kept::Kept;

/// What of a run does not change.
#[derive(Debug, Clone)]
pub struct Fixed {
    /// Its title.
    pub title: String,
    /// When it began.
    pub started: Timestamp,
    /// Labels of its workloads, each once, with commas between.
    pub workloads: String,
    /// Labels of its stacks, each once, with commas between.
    pub stacks: String,
    /// Hash of its study.
    pub study_hash: String,
}

/// A run.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// What its user calls it.
    pub name: Option<String>,
    /// It is complete.
    pub is_finished: bool,
    /// A living process extends it.
    pub is_extended: bool,
    /// Trials of the plan.
    pub planned: u64,
    /// Trials with a result.
    pub done: u64,
    /// The rest.
    pub fixed: Fixed,
}

/// How much was read, since the server began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Databases opened.
    pub opened: u64,
    /// Times that the list of runs was read.
    pub lists: u64,
    /// Records of runs that were unpacked for the list: one for each study.
    pub heads: u64,
    /// Runs whose trials were counted one by one.
    pub counted: u64,
}

/// All runs of a store.
#[derive(Debug)]
pub struct Index {
    store: Store,
    version: Option<i64>,
    /// The last row of the table of trials that was seen.
    row: i64,
    entries: Vec<Entry>,
    /// What each study asks, by its hash; studies recur, runs are many.
    studies: HashMap<String, Asked>,
    /// Throughputs of every run, for the version of the store at which they were read.
    past: Option<(i64, Vec<Past>, Vec<Run>)>,
    kept: Kept,
    counts: Counts,
}

/// What the runs of a study have in common.
#[derive(Debug)]
struct Asked {
    workloads: String,
    stacks: String,
    cells: Vec<Cell>,
}

impl Index {
    /// Opens a store; nothing is read yet.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open(home: &Path) -> Result<Index, StoreError> {
        let store = Store::open_to_read(home)?;
        Ok(Index {
            store,
            version: None,
            row: 0,
            entries: Vec::new(),
            studies: HashMap::new(),
            past: None,
            kept: Kept::default(),
            counts: Counts { opened: 1, ..Counts::default() },
        })
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// How much was read.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// All runs, the oldest first, as they are now.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn entries(&mut self) -> Result<&[Entry], StoreError> {
        let version = self.store.data_version()?;
        // a process that was killed changes nothing in the store: runs in progress are looked after each time
        if self.version != Some(version) || self.entries.iter().any(|entry| entry.is_extended) {
            self.refresh(version)?;
        }
        Ok(&self.entries)
    }

    fn refresh(&mut self, version: i64) -> Result<(), StoreError> {
        self.counts.lists += 1;
        // should it fail half way, the next look begins anew
        self.version = None;
        let listed = self.store.listed()?;
        let mut known: HashMap<String, Entry> =
            self.entries.drain(..).map(|entry| (entry.id.clone(), entry)).collect();
        // one question for all is quicker than one for each, as long as most are not known
        let mut all = if known.is_empty() { Some(self.store.all_trials_done()?) } else { None };
        let ids: HashSet<&str> = listed.iter().map(|one| one.id.as_str()).collect();
        // rows of deleted trials are given again: what was counted behind them cannot be told
        let is_deleted = known.keys().any(|id| !ids.contains(id.as_str()));
        let (extended, row) = self.store.extended_since(if is_deleted { 0 } else { self.row })?;
        let extended: HashSet<String> = extended.into_iter().collect();
        for one in listed {
            let (fixed, done) = match known.remove(&one.id) {
                Some(entry) if extended.contains(&one.id) => (entry.fixed, None),
                Some(entry) => (entry.fixed, Some(entry.done)),
                None => (self.fixed(&one)?, all.as_mut().map(|all| all.remove(&one.id).unwrap_or(0))),
            };
            let done = match done {
                Some(done) => done,
                None => {
                    self.counts.counted += 1;
                    self.store.trials_done(&one.id)?
                }
            };
            self.entries.push(Entry {
                id: one.id,
                name: one.name,
                is_finished: one.finished.is_some(),
                is_extended: one.is_extended,
                planned: one.trials_planned,
                done,
                fixed,
            });
        }
        (self.version, self.row) = (Some(version), row);
        Ok(())
    }

    /// What of a run does not change; its record is read only when no run of the same study was.
    fn fixed(&mut self, one: &Listed) -> Result<Fixed, StoreError> {
        if !self.studies.contains_key(&one.study_hash) {
            self.counts.heads += 1;
            let run = self.store.head(&one.id)?;
            let (workloads, stacks) = (run.workloads().join(", "), run.stacks().join(", "));
            self.studies.insert(one.study_hash.clone(), Asked { workloads, stacks, cells: run.cells });
        }
        let asked = &self.studies[&one.study_hash];
        Ok(Fixed {
            workloads: asked.workloads.clone(),
            stacks: asked.stacks.clone(),
            title: one.title.clone(),
            started: one.started,
            study_hash: one.study_hash.clone(),
        })
    }

    /// Workload with parameters, stack, and number of runs of each series; the most frequent first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn series(&mut self) -> Result<Vec<(String, String, usize)>, StoreError> {
        self.entries()?;
        let mut runs: HashMap<&str, usize> = HashMap::new();
        for entry in self.entries.iter().filter(|entry| entry.done > 0) {
            *runs.entry(&entry.fixed.study_hash).or_default() += 1;
        }
        let mut series: HashMap<(String, String), usize> = HashMap::new();
        for (hash, number) in runs {
            for cell in self.studies.get(hash).into_iter().flat_map(|asked| &asked.cells) {
                *series.entry((cell.load_label(), cell.stack.clone())).or_default() += number;
            }
        }
        let mut series: Vec<_> =
            series.into_iter().map(|((load, stack), runs)| (load, stack, runs)).collect();
        series.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| (&a.0, &a.1).cmp(&(&b.0, &b.1))));
        Ok(series)
    }

    /// Throughputs of all runs, and a run of each study without its trials; read again only when the store has changed.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn past(&mut self) -> Result<(&[Past], &[Run], &Store), StoreError> {
        let version = self.store.data_version()?;
        if self.past.as_ref().is_none_or(|(of, ..)| *of != version) {
            self.past = Some((version, self.store.past()?, self.store.heads()?));
        }
        let (past, heads) = self
            .past
            .as_ref()
            .map_or((&[][..], &[][..]), |(_, past, heads)| (past.as_slice(), heads.as_slice()));
        Ok((past, heads, &self.store))
    }

    /// A text that was made of this version of the store, or what `make` makes, which is kept.
    ///
    /// # Errors
    /// The store cannot be read; what `make` says.
    pub fn kept<E: From<StoreError>>(
        &mut self,
        name: &str,
        make: impl FnOnce(&mut Index) -> Result<String, E>,
    ) -> Result<String, E> {
        let version = self.store.data_version()?;
        if let Some(text) = self.kept.get(version, name) {
            return Ok(text.to_string());
        }
        let text = make(self)?;
        self.kept.put(version, name, &text);
        Ok(text)
    }
}
