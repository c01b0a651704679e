//! The journal of one run: entries, and the gate that nothing slips through while it is being undone.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use host::{Host, ProcessId};

use crate::file::{Entry, JournalFile};
use crate::folder::{Disk, Folder};
use crate::identity::CreatedFile;
use crate::leftovers::{self, Leftover};
use crate::orphans::Orphans;
use crate::undo;
use crate::{JournalError, Resource, UndoReport, file};

/// Number of an entry within one journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub(crate) u64);

/// How long [`Journal::undo`] waits for a mount or an attach that is under way in another thread.
const GATE_LIMIT: Duration = Duration::from_secs(30);

/// The journal of one run. All methods take `&self`: a signal thread may call [`Journal::undo`] at any time.
#[derive(Debug)]
pub struct Journal {
    host: Host,
    path: Utf8PathBuf,
    state: Mutex<State>,
    /// Signalled when nobody is in the middle of making something.
    settled: Condvar,
    /// One undo at a time.
    undoing: Mutex<()>,
}

#[derive(Debug)]
struct State {
    file: JournalFile,
    open: BTreeMap<EntryId, Entry>,
    making: u32,
    closed: bool,
}

/// While it lives, [`Journal::undo`] waits: something is being made.
#[derive(Debug)]
pub struct CreationGuard<'a>(&'a Journal);

impl Drop for CreationGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.making -= 1;
        if state.making == 0 {
            self.0.settled.notify_all();
        }
    }
}

impl Journal {
    /// Where journals are kept below a home of results.
    pub fn folder(home: &Utf8Path) -> Utf8PathBuf {
        home.join("journal")
    }

    /// Starts the journal of the run `run_id` in `dir`, which is made if it is missing.
    pub fn open(dir: &Utf8Path, run_id: &str) -> Result<Arc<Self>, JournalError> {
        Self::open_on(&Host::system(), dir, run_id)
    }

    /// As [`Journal::open`], on a given view of the machine.
    pub fn open_on(host: &Host, dir: &Utf8Path, run_id: &str) -> Result<Arc<Self>, JournalError> {
        Self::check_run_id(run_id)?;
        Self::open_in(host, Arc::new(Disk::make(dir)?), run_id)
    }

    fn check_run_id(run_id: &str) -> Result<(), JournalError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if run_id.is_empty() || run_id.len() > 100 || !run_id.chars().all(plain) {
            return Err(JournalError::BadRunId { run_id: run_id.to_string() });
        }
        Ok(())
    }

    pub(crate) fn open_in(
        host: &Host,
        folder: Arc<dyn Folder>,
        run_id: &str,
    ) -> Result<Arc<Self>, JournalError> {
        let owner = ProcessId::current(host).ok_or(JournalError::NoProc)?;
        let file = JournalFile::create(&folder, run_id, owner, host.boot_id())?;
        Ok(Arc::new(Self {
            host: host.clone(),
            path: file.path(),
            state: Mutex::new(State { file, open: BTreeMap::new(), making: 0, closed: false }),
            settled: Condvar::new(),
            undoing: Mutex::new(()),
        }))
    }

    /// The journal's file.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// The view of the machine on which resources are verified and undone.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// What is recorded and not yet undone, in the order of making.
    pub fn entries(&self) -> Vec<(EntryId, Resource)> {
        self.lock().open.iter().map(|(id, entry)| (*id, entry.resource.clone())).collect()
    }

    /// Whether nothing is left to undo.
    pub fn is_empty(&self) -> bool {
        self.lock().open.is_empty()
    }

    /// Whether [`Journal::undo`] has begun.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Records a resource; it is on disk when this returns. Refused once the run is being taken down.
    pub fn record(&self, resource: Resource) -> Result<EntryId, JournalError> {
        let mut state = self.lock();
        if state.closed {
            return Err(JournalError::Closed);
        }
        let id = EntryId(state.file.add(&resource)?);
        state.open.insert(id, Entry { resource, made: CreatedFile::NotYet });
        Ok(id)
    }

    /// Records the living process `pid`, to be ended on undo.
    pub fn record_process(&self, pid: u32, what: &str) -> Result<EntryId, JournalError> {
        let process = ProcessId::read(&self.host, pid).ok_or(JournalError::NoSuchProcess { pid })?;
        self.record(Resource::Process { process, what: what.to_string(), orphans: None })
    }

    /// Records the living server `pid`, to be ended on undo with all processes that it has forked: these run its program
    /// and work in `folder`, which is private to the run, or below it.
    pub fn record_server(&self, pid: u32, what: &str, folder: &Utf8Path) -> Result<EntryId, JournalError> {
        let process = ProcessId::read(&self.host, pid).ok_or(JournalError::NoSuchProcess { pid })?;
        let orphans = Orphans::of(pid, folder);
        self.record(Resource::Process { process, what: what.to_string(), orphans })
    }

    /// Records a resource and makes it. When `make` fails, the entry stays, since something may have been
    /// made in part: the caller undoes it ([`Journal::undo_entries`]) or forgets it.
    pub fn create<T, E: From<JournalError>>(
        &self,
        resource: Resource,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<(EntryId, T), (Option<EntryId>, E)> {
        let _making = self.begin().map_err(|error| (None, error.into()))?;
        let image = match &resource {
            Resource::ImageFile { path } => Some(path.clone()),
            _ => None,
        };
        let id = self.record(resource).map_err(|error| (None, error.into()))?;
        let made = make().map_err(|error| (Some(id), error))?;
        if let Some(path) = image {
            self.record_file_identity(id, &path).map_err(|error| (Some(id), error.into()))?;
        }
        Ok((id, made))
    }

    /// Writes which file an image became: no other one is removed in its place.
    fn record_file_identity(&self, id: EntryId, path: &Utf8Path) -> Result<(), JournalError> {
        let Some(file) = undo::file_at(path) else { return Ok(()) };
        let mut state = self.lock();
        if let Some(entry) = state.open.get_mut(&id) {
            // before it is written: if that fails, this run still knows
            entry.made = CreatedFile::File(file);
        }
        state.file.made(id.0, file)
    }

    /// As [`Journal::create`], for what `make` either makes wholly or not at all: a failure strikes the entry,
    /// because what is found in its place belongs to somebody else.
    pub fn create_exclusive<T, E: From<JournalError>>(
        &self,
        resource: Resource,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<(EntryId, T), E> {
        self.create(resource, make).or_else(|(id, error)| {
            if let Some(id) = id {
                self.forget(id)?;
            }
            Err(error)
        })
    }

    /// Announces that something recorded earlier is being made again (a second mount); undo waits for it.
    pub fn begin(&self) -> Result<CreationGuard<'_>, JournalError> {
        let mut state = self.lock();
        if state.closed {
            return Err(JournalError::Closed);
        }
        state.making += 1;
        Ok(CreationGuard(self))
    }

    /// Strikes an entry: it is gone, or not ours to undo.
    pub fn forget(&self, id: EntryId) -> Result<(), JournalError> {
        let mut state = self.lock();
        if state.open.contains_key(&id) {
            state.file.done(id.0)?;
            state.open.remove(&id);
        }
        Ok(())
    }

    /// Undoes these entries, newest first. Those that fail stay recorded, so that a later undo tries again.
    pub fn undo_entries(&self, ids: &[EntryId]) -> UndoReport {
        let _one = self.undoing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let mut report = UndoReport::default();
        for id in ids.into_iter().rev() {
            let Some(entry) = self.lock().open.get(&id).cloned() else { continue };
            let outcome = undo::undo(&self.host, &entry, true);
            if outcome.is_final()
                && let Err(error) = self.forget(id)
            {
                // it is gone all the same, which a later undo finds by itself
                tracing::warn!(%error, "cannot strike what was undone");
                self.lock().open.remove(&id);
            }
            report.push(entry.resource, outcome);
        }
        report
    }

    /// Takes everything down, newest first, and refuses anything new from now on. Waits for a mount or an
    /// attach that another thread is in the middle of. May be called again.
    pub fn undo(&self) -> UndoReport {
        let mut state = self.lock();
        state.closed = true;
        let waited = self.settled.wait_timeout_while(state, GATE_LIMIT, |state| state.making > 0);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let ids: Vec<EntryId> = state.open.keys().copied().collect();
        drop(state);
        let report = self.undo_entries(&ids);
        self.remove_if_empty();
        report
    }

    /// Journals in `dir` whose owner is dead. An absent directory has none.
    pub fn leftovers(dir: &Utf8Path) -> Result<Vec<Leftover>, JournalError> {
        leftovers::find(&Host::system(), dir)
    }

    /// As [`Journal::leftovers`], on a given view of the machine.
    pub fn leftovers_on(host: &Host, dir: &Utf8Path) -> Result<Vec<Leftover>, JournalError> {
        leftovers::find(host, dir)
    }

    /// Removes from `dir` the unfinished journals of runs that died before they made anything; how many.
    ///
    /// # Errors
    /// [`JournalError::Unsafe`]; [`JournalError::Io`].
    pub fn sweep(dir: &Utf8Path) -> Result<usize, JournalError> {
        let Some(folder) = Disk::open(dir)? else { return Ok(0) };
        file::sweep(&folder).map_err(|source| JournalError::Io { path: dir.to_owned(), source })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // the state is whole between statements, and undo must work after a panic elsewhere
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove_if_empty(&self) {
        let state = self.lock();
        if state.open.is_empty()
            && let Err(error) = state.file.remove()
        {
            tracing::warn!(%error, "the journal's file could not be removed");
        }
    }
}

impl Drop for Journal {
    /// An empty journal leaves no file. One that is not empty stays for `loadline doctor`.
    fn drop(&mut self) {
        self.remove_if_empty();
    }
}

/// The entries of one stack (or of one other thing that is built and taken down as a whole).
#[derive(Debug)]
pub struct Scope {
    journal: Arc<Journal>,
    ids: Vec<EntryId>,
}

impl Scope {
    /// Nothing yet.
    pub fn new(journal: &Arc<Journal>) -> Self {
        Self { journal: journal.clone(), ids: Vec::new() }
    }

    /// The journal of it all.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// As [`Journal::create`]; the entry belongs to this scope whether or not making it succeeded.
    pub fn create<T, E: From<JournalError>>(
        &mut self,
        resource: Resource,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let (id, result) = match self.journal.create(resource, make) {
            Ok((id, made)) => (Some(id), Ok(made)),
            Err((id, error)) => (id, Err(error)),
        };
        self.ids.extend(id);
        result
    }

    /// Takes over what was made outside of this scope.
    pub fn adopt(&mut self, id: EntryId) {
        self.ids.push(id);
    }

    /// Undoes what belongs to it, newest first.
    pub fn undo(&self) -> UndoReport {
        self.journal.undo_entries(&self.ids)
    }
}
