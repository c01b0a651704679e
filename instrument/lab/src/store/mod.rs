//! The store: one SQLite database that holds every run. A trial is on disk the moment it ends.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | opening; beginning, extending, reading and deleting runs |
//! | `schema` | tables and their versions |
//! | `error` | what can go wrong |
//! | `index` | the index of the WAL, allocated before it is mapped |
//! | `merge` | joining the runs of shards |
//! | `pack` | records as they are stored |
//! | `owner` | which process extends a run, so that two never do |
//! | `past` | what all runs yielded, and what they asked |
//! | `asks` | tables of what the cells of each study ask, kept beside the runs |
//! | `watch` | looking on: a store that is only read, and what has changed in it |
//!
//! Several processes may use a store at the same time: it is in WAL mode, every write is one short
//! transaction that takes the write lock at its beginning, and waits for its turn.

mod asks;
mod error;
mod index;
mod merge;
mod owner;
mod pack;
mod past;
mod schema;
mod watch;

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};

use study::Study;
use study::deal;
use study::plan;
use study::results::{Run, Trial, VERSION};
use study::shard::Shard;
use workload::address::{redact, redact_word};

use pack::{compress, decompress, pack, unpack};

pub use error::StoreError;
pub use merge::{MergeError, Merged};
pub use watch::{RunListing, TrialSummary};

/// How long a write waits for another process's write.
const BUSY_PATIENCE: Duration = Duration::from_secs(60);

/// Mode of a home that is made, whatever the umask is: what was measured, on which machine and by which command, is its user's.
const HOME_MODE: u32 = 0o700;
/// The same of root's: servers that refuse root run as another user on what is mounted below it. Nobody else can list it, and the
/// database is root's alone.
const HOME_MODE_OF_ROOT: u32 = 0o711;
/// Rights of others.
const OTHERS: u32 = 0o007;

/// The name of its file.
const DATABASE: &str = "loadline.db";

/// The word for the latest run.
const LAST: &str = "last";
/// Before a number: so many before the latest.
const LAST_BUT: &str = "last~";

/// A run in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// The run's id.
    pub id: String,
    /// What its user calls it.
    pub name: Option<String>,
    /// The study's title.
    pub title: String,
    /// When it began.
    pub started: Timestamp,
    /// When it was completed.
    pub finished: Option<Timestamp>,
    /// Hash of the study.
    pub study_hash: String,
    /// Cells times trials of the plan.
    pub trials_planned: u64,
    /// Trials with a result.
    pub trials_done: u64,
}

/// Whether a run is one of those with these words in its id, name or title: what `runs --filter` means, and `serve`.
pub fn is_meant(words: &str, id: &str, name: Option<&str>, title: &str) -> bool {
    [id, name.unwrap_or_default(), title].iter().any(|one| one.contains(words))
}

/// The store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    home: PathBuf,
}

/// Where results are kept: `$LOADLINE_HOME`, else `$XDG_STATE_HOME/loadline`, else `~/.local/state/loadline`.
///
/// # Errors
/// When the environment names no such place.
pub fn default_home() -> Result<PathBuf, StoreError> {
    home_of(|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
}

fn home_of(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, StoreError> {
    variable("LOADLINE_HOME")
        .or_else(|| {
            variable("XDG_STATE_HOME").filter(|path| path.is_absolute()).map(|path| path.join("loadline"))
        })
        .or_else(|| variable("HOME").map(|home| home.join(".local/state/loadline")))
        .ok_or(StoreError::NoHome)
}

impl Store {
    /// Opens the store in a folder, which is made if it is missing; brings an older store up to date.
    ///
    /// # Errors
    /// The folder or the database cannot be written, or a newer loadline has written it.
    pub fn open(home: &Path) -> Result<Store, StoreError> {
        let folder = |source| StoreError::Folder { path: home.to_path_buf(), source };
        let mode = if rustix::process::geteuid().is_root() { HOME_MODE_OF_ROOT } else { HOME_MODE };
        std::fs::DirBuilder::new().recursive(true).mode(mode).create(home).map_err(folder)?;
        let database = home.canonicalize().map_err(folder)?.join(DATABASE);
        // SQLite says of a folder that takes no file only that the database cannot be opened
        rustix::fs::access(home, rustix::fs::Access::WRITE_OK).map_err(|error| folder(error.into()))?;
        keep_from_others(&database).map_err(folder)?;
        index::allocate_whole_pages();
        // no link: whoever may write to the home would have root write elsewhere
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut connection = Connection::open_with_flags(database, flags)?;
        connection.busy_timeout(BUSY_PATIENCE)?;
        schema::prepare(&mut connection)?;
        asks::prepare(&mut connection)?;
        Ok(Store { connection, home: home.to_path_buf() })
    }

    /// Opens the store to show what is in it: as [`Store::open`], which brings an older one up to date; on a full or read-only
    /// disk as it is.
    ///
    /// # Errors
    /// Those of [`Store::open`], when it cannot even be read.
    pub fn open_to_show(home: &Path) -> Result<Store, StoreError> {
        let error = match Store::open(home) {
            Err(error @ (StoreError::Folder { .. } | StoreError::Sqlite(_)))
                if home.join(DATABASE).is_file() =>
            {
                error
            }
            opened => return opened,
        };
        Store::open_to_read(home).or_else(|_| Store::open_alone(home)).map_err(|_| error)
    }

    /// The folder.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Begins a run of a study; this process owns it until [`Store::release`] or its end.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn begin(&mut self, study: &Study, command_line: &[String]) -> Result<Run, StoreError> {
        self.begin_shard(study, command_line, None)
    }

    /// Begins a run of a part of a study's plan, or of all of it.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn begin_shard(
        &mut self,
        study: &Study,
        command_line: &[String],
        shard: Option<Shard>,
    ) -> Result<Run, StoreError> {
        let started = Timestamp::now();
        let mut run = Run {
            version: VERSION,
            id: String::new(),
            title: study.study.title.clone(),
            started,
            finished: None,
            seed: study.study.seed,
            command_line: command_line.iter().map(|word| redact_word(word).into_owned()).collect(),
            loadline: env!("CARGO_PKG_VERSION").to_string(),
            study: study.to_toml(),
            study_hash: study.hash(),
            planned_trials: study.study.trials,
            shard,
            parts: Vec::new(),
            cells: plan::cells(study),
            published: plan::published(study),
            trials: Vec::new(),
        };
        let transaction = self.write()?;
        run.id = free_id(&transaction, started)?;
        insert_run(&transaction, &run, deal::order(study, shard).len(), Some(owner::this_process()))?;
        transaction.commit()?;
        Ok(run)
    }

    /// Gives a run a name, by which it is found then. Of several runs of one name the latest is meant.
    ///
    /// # Errors
    /// A name that could be taken for an id; the store cannot be written.
    pub fn name(&mut self, id: &str, name: &str) -> Result<(), StoreError> {
        check_name(name)?;
        let transaction = self.write()?;
        transaction.execute("UPDATE runs SET name = ?2 WHERE id = ?1", params![id, name])?;
        transaction.commit()?;
        Ok(())
    }

    /// Takes up a run again: this process owns it from now on.
    ///
    /// # Errors
    /// No such run, or a living process extends it.
    pub fn resume(&mut self, id: &str) -> Result<Run, StoreError> {
        let id = self.own(id)?;
        self.load_run(&id)
    }

    /// Makes this process the owner of a run; gives its id.
    fn own(&mut self, wanted: &str) -> Result<String, StoreError> {
        let id = self.find(wanted)?;
        let transaction = self.write()?;
        let owner: Option<String> =
            transaction.query_row("SELECT owner FROM runs WHERE id = ?1", [&id], |row| row.get(0))?;
        if let Some(pid) = owner.as_deref().and_then(owner::other_living_process) {
            return Err(StoreError::InUse { run: id, pid });
        }
        transaction
            .execute("UPDATE runs SET owner = ?2 WHERE id = ?1", params![id, owner::this_process()])?;
        transaction.commit()?;
        Ok(id)
    }

    /// Adds a trial that has ended; when this returns it is on disk. A trial of the same cell and index that
    /// ended before stays stored, but the newest one counts.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn add_trial(&mut self, run: &str, trial: &Trial) -> Result<(), StoreError> {
        self.add_trials(run, std::slice::from_ref(trial))
    }

    /// Adds several, all or none.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn add_trials(&mut self, run: &str, trials: &[Trial]) -> Result<(), StoreError> {
        if trials.is_empty() {
            return Ok(());
        }
        let transaction = self.write()?;
        for trial in trials {
            add(&transaction, run, trial)?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Marks a run as complete.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn finish(&mut self, run: &str) -> Result<Timestamp, StoreError> {
        let now = Timestamp::now();
        let transaction = self.write()?;
        transaction.execute(
            "UPDATE runs SET finished = ?2, owner = NULL WHERE id = ?1",
            params![run, now.to_string()],
        )?;
        transaction.commit()?;
        Ok(now)
    }

    /// Leaves a run for others to take up.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn release(&mut self, run: &str) -> Result<(), StoreError> {
        let transaction = self.write()?;
        transaction.execute("UPDATE runs SET owner = NULL WHERE id = ?1", [run])?;
        transaction.commit()?;
        Ok(())
    }

    /// All runs, the oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, title, started, finished, study_hash, trials_planned,
                    (SELECT count(DISTINCT cell || '/' || trial) FROM trials
                     WHERE run = runs.id AND status = 'done'), name
             FROM runs ORDER BY rowid",
        )?;
        let rows = statement.query_map([], |row| {
            Ok(RunSummary {
                id: row.get(0)?,
                title: row.get(1)?,
                started: time(row.get(2)?),
                finished: row.get::<_, Option<String>>(3)?.map(time),
                study_hash: row.get(4)?,
                trials_planned: row.get::<_, i64>(5)?.unsigned_abs(),
                trials_done: row.get::<_, i64>(6)?.unsigned_abs(),
                name: row.get(7)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Runs of this study that are not complete, the oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn unfinished(&self, study_hash: &str) -> Result<Vec<RunSummary>, StoreError> {
        let mut runs = self.runs()?;
        runs.retain(|run| run.finished.is_none() && run.study_hash == study_hash);
        Ok(runs)
    }

    /// The same, of one shard; of the whole study, which a merged run is, without one.
    ///
    /// # Errors
    /// The store cannot be read, or a record is damaged.
    pub fn unfinished_shard(
        &self,
        study_hash: &str,
        shard: Option<Shard>,
    ) -> Result<Vec<RunSummary>, StoreError> {
        let mut runs = Vec::new();
        for run in self.unfinished(study_hash)? {
            if head(&self.connection, &run.id)?.shard == shard {
                runs.push(run);
            }
        }
        Ok(runs)
    }

    /// Reads a run: by its id, by a beginning of it that no other run has, or `last`.
    ///
    /// # Errors
    /// No such run, several such runs, or a damaged record.
    pub fn load_run(&self, wanted: &str) -> Result<Run, StoreError> {
        let id = self.find(wanted)?;
        let mut run = head(&self.connection, &id)?;
        let mut statement = self.connection.prepare_cached(
            "SELECT record, raw_output FROM trials
             WHERE row IN (SELECT max(row) FROM trials WHERE run = ?1 GROUP BY cell, trial) ORDER BY row",
        )?;
        let mut rows = statement.query([&id])?;
        while let Some(row) = rows.next()? {
            let mut trial: Trial = unpack(&id, row.get_ref(0)?.as_blob().unwrap_or_default())?;
            let raw_output = decompress(&id, row.get_ref(1)?.as_blob().unwrap_or_default())?;
            trial.raw_output = redact(&String::from_utf8_lossy(&raw_output)).into_owned();
            run.trials.push(trial);
        }
        Ok(run)
    }

    /// The id of a run: by its id, by a beginning of it that no other run has, by its name, or `last`, `last~2` (two
    /// before the last).
    ///
    /// # Errors
    /// No such run, or several.
    pub fn find(&self, wanted: &str) -> Result<String, StoreError> {
        let hint = "; `loadline runs` lists them";
        let back = if wanted == LAST { Some("0") } else { wanted.strip_prefix(LAST_BUT) };
        if let Some(back) = back.and_then(|back| back.parse::<u32>().ok()) {
            // Not by id: two runs that begin in the same second differ by a random part only.
            let last: Option<String> = self
                .connection
                .query_row("SELECT id FROM runs ORDER BY rowid DESC LIMIT 1 OFFSET ?1", [back], |row| {
                    row.get(0)
                })
                .optional()?;
            let hint = if back == 0 { ": none is stored yet" } else { ": so many are not stored" };
            return last.ok_or(StoreError::NoSuchRun { wanted: wanted.into(), hint });
        }
        let named: Option<String> = self
            .connection
            .query_row("SELECT id FROM runs WHERE name = ?1 ORDER BY rowid DESC LIMIT 1", [wanted], |row| {
                row.get(0)
            })
            .optional()?;
        if let Some(id) = named {
            return Ok(id);
        }
        let mut statement = self
            .connection
            .prepare_cached("SELECT id FROM runs WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id")?;
        let mut matches: Vec<String> =
            statement.query_map([wanted], |row| row.get(0))?.collect::<Result<_, _>>()?;
        if let Some(exact) = matches.iter().position(|id| id == wanted) {
            return Ok(matches.swap_remove(exact));
        }
        match matches.len() {
            1 if !wanted.is_empty() => Ok(matches.swap_remove(0)),
            0 => Err(StoreError::NoSuchRun { wanted: wanted.into(), hint }),
            _ => Err(StoreError::Ambiguous { wanted: wanted.into(), matches }),
        }
    }

    /// Deletes a run with all its trials, whether they can be read or not; gives its id.
    ///
    /// # Errors
    /// No such run, or a living process extends it.
    pub fn delete(&mut self, wanted: &str) -> Result<String, StoreError> {
        let id = self.own(wanted)?;
        let transaction = self.write()?;
        let study_hash: String =
            transaction
                .query_row("DELETE FROM runs WHERE id = ?1 RETURNING study_hash", [&id], |row| row.get(0))?;
        asks::forget(&transaction, &study_hash)?;
        transaction.commit()?;
        Ok(id)
    }

    /// A transaction that has the write lock from its beginning: one that reads first and writes later would
    /// fail instead of waiting when another process has written in between.
    fn write(&mut self) -> Result<Transaction<'_>, StoreError> {
        Ok(self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
    }
}

/// Makes the database where it is missing, for its user alone, and takes the rights of others from one that is there. A group
/// keeps its own: it may share a store. SQLite gives what it makes beside the database the same rights.
fn keep_from_others(database: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
    let mut file = std::fs::File::options();
    match file.write(true).create_new(true).mode(0o600).open(database) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        // a disk without room may still hold a store that can be read
        Err(error) => return Err(error),
        Ok(_) => return Ok(()),
    }
    // opened for nothing but this: closing it takes no lock away that SQLite holds in this process (fcntl(2))
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let Ok(file) = std::fs::File::options().read(true).custom_flags(flags).open(database) else {
        return Ok(());
    };
    let meta = file.metadata()?;
    if meta.is_file() && meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & OTHERS != 0 {
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // on a file system without rights it stays as it is
        let _ = std::fs::set_permissions(path, PermissionsExt::from_mode(meta.mode() & 0o7777 & !OTHERS));
    }
    Ok(())
}

/// Whether a run can have this name.
///
/// # Errors
/// [`StoreError::Name`] for a name that could be taken for an id or for `last`.
pub fn check_name(name: &str) -> Result<(), StoreError> {
    let fits = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
    let first = name.chars().next().is_some_and(char::is_alphabetic);
    if !first || !name.chars().all(fits) || name == LAST || name.starts_with(LAST_BUT) {
        return Err(StoreError::Name { name: name.to_string() });
    }
    Ok(())
}

/// A run without its trials.
fn head(connection: &Connection, id: &str) -> Result<Run, StoreError> {
    let (record, finished): (Vec<u8>, Option<String>) =
        connection.query_row("SELECT record, finished FROM runs WHERE id = ?1", [id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let mut run: Run = unpack(id, &record)?;
    run.finished = finished.map(time);
    Ok(run)
}

/// An id that no run of the store has.
fn free_id(transaction: &Transaction<'_>, started: Timestamp) -> Result<String, StoreError> {
    loop {
        let id = new_id(started);
        let taken: Option<i64> =
            transaction.query_row("SELECT 1 FROM runs WHERE id = ?1", [&id], |row| row.get(0)).optional()?;
        if taken.is_none() {
            return Ok(id);
        }
    }
}

/// Stores the head of a run, with the number of trials that it is to have.
fn insert_run(
    transaction: &Transaction<'_>,
    run: &Run,
    planned: usize,
    owner: Option<String>,
) -> Result<(), StoreError> {
    transaction.execute(
        "INSERT INTO runs (id, title, started, finished, study_hash, trials_planned, owner, record)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            run.id,
            run.title,
            run.started.to_string(),
            run.finished.map(|time| time.to_string()),
            run.study_hash,
            planned as i64,
            owner,
            pack(&run.id, run)?,
        ],
    )?;
    asks::save_definitions(transaction, run)
}

/// `20261120-191500-ab12`: UTC to the second, then a random tail.
fn new_id(now: Timestamp) -> String {
    use std::hash::{BuildHasher, Hasher};
    // RandomState is seeded by the system for every process and differs at every call.
    let tail = std::hash::RandomState::new().build_hasher().finish() & 0xffff;
    format!("{}-{tail:04x}", now.strftime("%Y%m%d-%H%M%S"))
}

/// Times are written by `Timestamp::to_string`; a damaged one shows as 1970 rather than hiding the run.
fn time(text: String) -> Timestamp {
    text.parse().unwrap_or(Timestamp::UNIX_EPOCH)
}

fn saturated(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Adds a trial within a transaction.
fn add(transaction: &rusqlite::Transaction<'_>, run: &str, trial: &Trial) -> Result<(), StoreError> {
    let raw_output = compress(run, redact(&trial.raw_output).as_bytes())?;
    let record = pack(run, &Trial { raw_output: String::new(), ..trial.clone() })?;
    let outcome = trial.outcome.as_ref();
    transaction.execute(
        "INSERT INTO trials (run, cell, trial, status, started, seconds, ops_per_second, record, raw_output)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            run,
            trial.cell,
            trial.index,
            trial.status.word(),
            trial.started.to_string(),
            trial.seconds,
            outcome.map(|outcome| outcome.io_ops_per_second()),
            record,
            raw_output,
        ],
    )?;
    let row = transaction.last_insert_rowid();
    for op in outcome.into_iter().flat_map(|outcome| &outcome.ops) {
        let hdr = |histogram: &stats::Histogram| histogram.to_hdr_v2_base64().ok();
        transaction.execute(
            "INSERT INTO ops (trial_row, name, kind, ops, bytes, errors, service_hdr, intended_hdr)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                row,
                op.name,
                op.kind,
                saturated(op.ops),
                saturated(op.bytes),
                saturated(op.errors),
                hdr(&op.service),
                op.intended.as_ref().and_then(hdr),
            ],
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_is_the_first_that_is_set() {
        let with = |set: &'static [(&str, &str)]| {
            home_of(move |name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| PathBuf::from(v))).ok()
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("HOME", "/h")]), Some("/h/.local/state/loadline".into()));
        assert_eq!(
            with(&[("HOME", "/h"), ("XDG_STATE_HOME", "relative")]),
            Some("/h/.local/state/loadline".into())
        );
        assert_eq!(with(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]), Some("/s/loadline".into()));
        assert_eq!(with(&[("LOADLINE_HOME", "x"), ("XDG_STATE_HOME", "/s")]), Some("x".into()));
    }

    #[test]
    fn ids_sort_by_time() {
        let id = new_id("2026-11-20T19:15:00Z".parse().unwrap());
        assert!(id.starts_with("20261120-191500-") && id.len() == 20, "{id}");
        assert!(new_id("2026-11-20T19:14:59Z".parse().unwrap()) < id);
    }
}
