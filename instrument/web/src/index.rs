//! What is known of all runs: kept in memory, brought up to date when the store has changed.
//!
//! Whether it has is asked of SQLite ([`Store::data_version`]), which is surer than a file's time of modification: a store in WAL
//! mode changes without its main file. Of runs that are known already nothing is read again but how far they are.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use analysis::compare::PastResult;
use analysis::trend::{self, CellDefinitions, DefinedCell};
use jiff::Timestamp;
use lab::Store;
use lab::store::{RunListing, StoreError};

use crate::text_cache::TextCache;

/// What of a run does not change.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// Its title.
    pub title: String,
    /// When it began.
    pub started: Timestamp,
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
    pub fixed: RunFacts,
}

/// How much was read, since the server began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Databases opened.
    pub opened: u64,
    /// Times that the list of runs was read.
    pub lists: u64,
    /// Records of runs that were unpacked for what their studies ask, which the store did not keep: one for each study.
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
    /// Labels of each study that is known, by its hash; studies recur, runs are many.
    labels: HashMap<String, Labels>,
    /// What the cells of these studies ask.
    asks: CellDefinitions,
    /// What the store keeps of its studies was read, all at once; of those that come later each is asked for.
    is_kept_known: bool,
    /// Entries whose studies were looked at, from the oldest on.
    learned: usize,
    past: Throughputs,
    kept: TextCache,
    counts: Counts,
}

/// What is said of a study in a list.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    /// Labels of its workloads, each once, with commas between.
    pub workloads: String,
    /// Labels of its stacks, each once, with commas between.
    pub stacks: String,
}

impl Labels {
    fn of(cells: &[Arc<DefinedCell>]) -> Labels {
        let each_once = |label: fn(&DefinedCell) -> &str| {
            let mut seen: Vec<&str> = Vec::new();
            for label in cells.iter().map(|asked| label(asked)) {
                if !seen.contains(&label) {
                    seen.push(label);
                }
            }
            seen.join(", ")
        };
        Labels {
            workloads: each_once(|asked| &asked.cell.workload),
            stacks: each_once(|asked| &asked.cell.stack),
        }
    }
}

/// Throughputs of every run, as they were when somebody asked last.
#[derive(Debug, Default)]
struct Throughputs {
    /// They were read.
    are_known: bool,
    /// The oldest run first.
    all: Vec<PastResult>,
    /// Runs with more trials since.
    stale: HashSet<String>,
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
            labels: HashMap::new(),
            asks: CellDefinitions::default(),
            is_kept_known: false,
            learned: 0,
            past: Throughputs::default(),
            kept: TextCache::default(),
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
        self.learned = 0;
        let past = std::mem::take(&mut self.past);
        // first, so that a trial that is stored meanwhile is behind it, and looked at again
        let row = self.store.last_row()?;
        let listed = self.store.listed()?;
        let mut known: HashMap<String, Entry> =
            self.entries.drain(..).map(|entry| (entry.id.clone(), entry)).collect();
        // one question for all is quicker than one for each, as long as most are not known
        let mut all = if known.is_empty() { Some(self.store.all_trials_done()?) } else { None };
        let ids: HashSet<&str> = listed.iter().map(|one| one.id.as_str()).collect();
        // rows of deleted trials are given again: what was counted behind them cannot be told
        let is_deleted = known.keys().any(|id| !ids.contains(id.as_str()));
        let extended: HashSet<String> = match (known.is_empty(), is_deleted) {
            (true, _) => HashSet::new(),
            (false, true) => known.keys().cloned().collect(),
            (false, false) => self.store.extended_since(self.row)?.into_iter().collect(),
        };
        let mut past = if is_deleted { Throughputs::default() } else { past };
        for one in listed {
            let (fixed, done) = match known.remove(&one.id) {
                Some(entry) if extended.contains(&one.id) => (entry.fixed, None),
                Some(entry) => (entry.fixed, Some(entry.done)),
                None => (fixed(&one), all.as_mut().map(|all| all.remove(&one.id).unwrap_or(0))),
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
        past.stale.extend(extended);
        (self.version, self.row, self.past) = (Some(version), row, past);
        Ok(())
    }

    /// All runs, the oldest first, and what the list says of the studies that are known, by their hashes.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn listed(&mut self) -> Result<(&[Entry], &HashMap<String, Labels>), StoreError> {
        self.entries()?;
        Ok((&self.entries, &self.labels))
    }

    /// What the list says of a study; empty when it is not known yet.
    pub fn labels(&self, study_hash: &str) -> Labels {
        self.labels.get(study_hash).cloned().unwrap_or_default()
    }

    /// Reads what the study of a run asks, when it is not known. When the store does not keep it either, a record of the run is
    /// unpacked.
    ///
    /// # Errors
    /// The store cannot be read, or a record is damaged.
    pub fn learn(&mut self, id: &str, study_hash: &str) -> Result<(), StoreError> {
        if self.asks.has_study(study_hash) {
            return Ok(());
        }
        let cells = match self.store.kept_asks_of(study_hash)? {
            Some(cells) => cells,
            None => {
                self.counts.heads += 1;
                trend::defined_cells(&self.store.head(id)?).into_iter().map(Arc::new).collect()
            }
        };
        self.labels.insert(study_hash.to_string(), Labels::of(&cells));
        self.asks.add(study_hash, cells);
        Ok(())
    }

    /// Reads what the store keeps of all studies.
    fn learn_kept(&mut self) -> Result<(), StoreError> {
        if !self.is_kept_known {
            self.asks = self.store.kept_asks()?;
            self.labels =
                self.asks.studies().map(|(hash, cells)| (hash.to_string(), Labels::of(cells))).collect();
            self.is_kept_known = true;
        }
        Ok(())
    }

    /// The same for every run; up to `records` records are unpacked. Whether all studies are known now.
    ///
    /// # Errors
    /// See [`Index::learn`].
    pub fn learn_all(&mut self, records: u64) -> Result<bool, StoreError> {
        self.entries()?;
        self.learn_kept()?;
        let enough = self.counts.heads.saturating_add(records);
        while let Some(entry) = self.entries.get(self.learned) {
            if self.counts.heads == enough {
                return Ok(false);
            }
            let (id, study_hash) = (entry.id.clone(), entry.fixed.study_hash.clone());
            self.learn(&id, &study_hash)?;
            self.learned += 1;
        }
        Ok(true)
    }

    /// Workload with parameters, stack, and number of runs of each series; the most frequent first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn series(&mut self) -> Result<Vec<(String, String, usize)>, StoreError> {
        self.learn_all(u64::MAX)?;
        let mut runs: HashMap<&str, usize> = HashMap::new();
        for entry in self.entries.iter().filter(|entry| entry.done > 0) {
            *runs.entry(&entry.fixed.study_hash).or_default() += 1;
        }
        let mut series: HashMap<(&str, &str), usize> = HashMap::new();
        for (hash, number) in runs {
            for asked in self.asks.cells(hash) {
                *series.entry((&asked.load, &asked.cell.stack)).or_default() += number;
            }
        }
        let mut series: Vec<_> = series
            .into_iter()
            .map(|((load, stack), runs)| (load.to_string(), stack.to_string(), runs))
            .collect();
        series.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| (&a.0, &a.1).cmp(&(&b.0, &b.1))));
        Ok(series)
    }

    /// Throughputs of all runs, the oldest first. When the store has changed, those of runs with new trials are read again.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn past(&mut self) -> Result<&[PastResult], StoreError> {
        self.entries()?;
        // should it fail half way, the next look begins anew
        let Throughputs { are_known, mut all, stale } = std::mem::take(&mut self.past);
        if !are_known {
            all = self.store.past()?;
        } else if !stale.is_empty() {
            all.retain(|one| !stale.contains(&one.run));
            for run in &stale {
                all.extend(self.store.past_of(run)?);
            }
            let places: HashMap<&str, usize> =
                self.entries.iter().enumerate().map(|(place, entry)| (entry.id.as_str(), place)).collect();
            all.sort_by_key(|one| places.get(one.run.as_str()).copied().unwrap_or(usize::MAX));
        }
        self.past = Throughputs { are_known: true, all, stale: HashSet::new() };
        Ok(&self.past.all)
    }

    /// The same, and what every study asks.
    ///
    /// # Errors
    /// The store cannot be read, or a record is damaged.
    pub fn history(&mut self) -> Result<(&[PastResult], &CellDefinitions, &Store), StoreError> {
        self.learn_all(u64::MAX)?;
        self.past()?;
        Ok((&self.past.all, &self.asks, &self.store))
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

/// What of a run does not change.
fn fixed(one: &RunListing) -> RunFacts {
    RunFacts { title: one.title.clone(), started: one.started, study_hash: one.study_hash.clone() }
}
