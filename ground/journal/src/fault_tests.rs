//! Every write of the journal fails once in every way, and the power is cut after every byte: whatever then exists is in
//! the journal that is found afterwards, and undoing that leaves nothing, and nothing of others is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use camino::{Utf8Path, Utf8PathBuf};

use crate::folder::{Folder, Log};
use host::Host;

use crate::*;

/// What happens at one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It fails; of what it should write, this much is written.
    Fails { errno: i32, written: usize, and_all_after: bool },
    /// It is done, nobody hears of it, and the power goes.
    Cut,
}

/// What an operation was: what can go wrong with it depends on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Append(usize),
    Other,
}

#[derive(Debug, Default, Clone)]
struct FakeFile {
    bytes: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    files: Vec<FakeFile>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    locked: BTreeSet<usize>,
    log: Vec<Operation>,
    fault: Option<(usize, Fault)>,
    is_cut: bool,
}

/// A directory in memory that knows what is on disk.
#[derive(Debug, Clone, Default)]
struct Fake(Arc<Mutex<State>>);

impl Fake {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Does something that the disk may refuse. `act` gets how many bytes of an append are written.
    fn act(&self, what: Operation, act: impl FnOnce(&mut State, usize)) -> io::Result<usize> {
        let mut state = self.state();
        if state.is_cut {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let now = state.log.len();
        state.log.push(what);
        let all = match what {
            Operation::Append(bytes) => bytes,
            Operation::Other => 0,
        };
        match state.fault {
            Some((at, Fault::Fails { errno, written, and_all_after }))
                if now == at || now > at && and_all_after =>
            {
                if let Operation::Append(_) = what {
                    act(&mut state, written.min(all));
                }
                Err(io::Error::from_raw_os_error(errno))
            }
            Some((at, Fault::Cut)) if now == at => {
                act(&mut state, all);
                state.is_cut = true;
                Err(io::Error::from_raw_os_error(libc::EIO))
            }
            _ => {
                act(&mut state, all);
                Ok(all)
            }
        }
    }

    /// What a disk may hold after a cut: of what was not forced there, nothing, all, or of a file's end any part.
    fn survivors(&self) -> Vec<State> {
        let state = self.state();
        let mut found = Vec::new();
        for names in [&state.durable_names, &state.names] {
            let with = |files: Vec<FakeFile>| State { files, names: names.clone(), ..State::default() };
            let on_disk = |file: &FakeFile| FakeFile { bytes: file.durable.clone(), durable: Vec::new() };
            let durable: Vec<FakeFile> = state.files.iter().map(on_disk).collect();
            found.push(with(durable.clone()));
            found.push(with(state.files.clone()));
            for (at, file) in state.files.iter().enumerate().filter(|(_, f)| f.bytes.starts_with(&f.durable))
            {
                for len in file.durable.len() + 1..=file.bytes.len() {
                    let mut files = durable.clone();
                    files[at].bytes = file.bytes[..len].to_vec();
                    found.push(with(files));
                }
            }
        }
        found
    }
}

#[derive(Debug)]
struct FakeLog {
    folder: Fake,
    file: usize,
    locks: bool,
}

impl Drop for FakeLog {
    fn drop(&mut self) {
        if self.locks {
            self.folder.state().locked.remove(&self.file);
        }
    }
}

impl Folder for Fake {
    fn path(&self) -> &Utf8Path {
        "/in-memory".into()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Log>> {
        if self.state().names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.act(Operation::Other, |state, _| {
            state.files.push(FakeFile::default());
            state.names.insert(name.to_owned(), state.files.len() - 1);
        })?;
        self.open(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Log>> {
        let file = self.state().names.get(name).copied().ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(FakeLog { folder: self.clone(), file, locks: false }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if !self.state().names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let rename = |state: &mut State, _| {
            if let Some(file) = state.names.remove(from) {
                state.names.insert(to.to_owned(), file);
            }
        };
        self.act(Operation::Other, rename).map(drop)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if !self.state().names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let remove = |state: &mut State, _| {
            state.names.remove(name);
        };
        self.act(Operation::Other, remove).map(drop)
    }

    fn sync(&self) -> io::Result<()> {
        self.act(Operation::Other, |state, _| state.durable_names = state.names.clone()).map(drop)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }
}

impl Log for FakeLog {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.folder.act(Operation::Append(bytes.len()), |state, written| {
            state.files[self.file].bytes.extend(&bytes[..written]);
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        let sync = |state: &mut State, _| {
            let file = &mut state.files[self.file];
            file.durable = file.bytes.clone();
        };
        self.folder.act(Operation::Other, sync).map(drop)
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        let cut = |state: &mut State, _| state.files[self.file].bytes.truncate(bytes as usize);
        self.folder.act(Operation::Other, cut).map(drop)
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        Ok(self.folder.state().files[self.file].bytes.clone())
    }

    fn try_lock(&mut self, shared: bool) -> io::Result<bool> {
        let mut state = self.folder.state();
        if state.locked.contains(&self.file) && !self.locks {
            return Ok(false);
        }
        if !shared {
            state.locked.insert(self.file);
            self.locks = true;
        }
        Ok(true)
    }

    fn is_linked(&self) -> bool {
        self.folder.state().names.values().any(|file| *file == self.file)
    }
}

/// A place with two machines: one on which this process lives, and one on which it does not any more.
struct Bench {
    _dir: tempfile::TempDir,
    world: Utf8PathBuf,
    alive: Host,
    dead: Host,
}

impl Bench {
    fn new() -> Bench {
        // in memory where there is such a place: some thousand small files are forced to disk
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let root = Utf8PathBuf::from_path_buf(dir.path().canonicalize().unwrap()).unwrap();
        let host = |name: &str| {
            let root = root.join(name);
            std::fs::create_dir_all(root.join("proc/self")).unwrap();
            std::fs::write(root.join("proc/self/mountinfo"), "").unwrap();
            Host::rooted(root)
        };
        let (alive, dead, world) = (host("alive"), host("dead"), root.join("world"));
        let pid = std::process::id();
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        std::fs::create_dir_all(alive.path(format!("/proc/{pid}"))).unwrap();
        std::fs::write(alive.path(format!("/proc/{pid}/stat")), stat).unwrap();
        std::fs::create_dir(&world).unwrap();
        std::fs::write(world.join("precious"), "somebody else's").unwrap();
        Bench { _dir: dir, world, alive, dead }
    }

    /// A run that makes one of each, takes one away, and dies. Goes on after errors, as far as the power lasts.
    fn run(&self, disk: &Fake) {
        let Ok(journal) = Journal::open_in(&self.alive, Arc::new(disk.clone()), "run") else { return };
        let here = |name: &str| self.world.join(name);
        let hole = |path: &Utf8Path| -> Result<(), JournalError> {
            let made = std::fs::File::options().write(true).create_new(true).open(path);
            let made = made.and_then(|file| file.set_len(1 << 20));
            made.map_err(|source| JournalError::Tree { path: path.to_owned(), source })
        };
        let image = |name: &str| {
            let path = here(name);
            match journal.create(Resource::ImageFile { path: path.clone() }, || hole(&path)) {
                // data comes only when the journal knows the file
                Ok(_) => std::fs::write(&path, "data").unwrap(),
                Err((Some(id), _)) if !disk.state().is_cut => drop(journal.undo_entries(&[id])),
                Err(_) => {}
            }
        };
        let going = || !disk.state().is_cut;
        image("image-1");
        let path = here("directory");
        let resource = Resource::Directory { path: path.clone() };
        let made = journal.create(resource, || {
            std::fs::create_dir(&path).unwrap();
            Ok::<(), JournalError>(())
        });
        if going()
            && let Ok(tree) = PrivateTree::new(&journal, &self.world)
        {
            std::fs::create_dir(tree.path().join("data")).unwrap();
            std::fs::write(tree.path().join("data/file"), "data").unwrap();
            // killed: nobody drops it
            std::mem::forget(tree);
        }
        if going()
            && let Ok((id, ())) = made
        {
            journal.undo_entries(&[id]);
        }
        if going() {
            // what is there already belongs to somebody else, and stays his whether or not that can be written down
            let resource = Resource::ImageFile { path: here("precious") };
            let taken = journal.create_exclusive(resource, || hole(&here("precious")));
            assert!(taken.is_err());
        }
        if going() {
            image("image-2");
        }
        // killed: a dropped journal that is empty would remove its file
        std::mem::forget(journal);
    }

    /// The doctor's work on what is left; everything must be gone then.
    fn recover(&self, disk: &Fake, case: &str) {
        let folder: Arc<dyn Folder> = Arc::new(disk.clone());
        for leftover in leftovers::find_in(&self.dead, &folder).unwrap() {
            let report = leftover.clean().unwrap_or_else(|error| panic!("{case}: {leftover}: {error}"));
            assert!(!report.has_failures(), "{case}: {report}");
        }
        file::sweep(disk).unwrap();
        assert_eq!(disk.names().unwrap(), Vec::<String>::new(), "{case}");
        let left: Vec<_> =
            self.world.read_dir_utf8().unwrap().map(|e| e.unwrap().file_name().to_owned()).collect();
        assert_eq!(left, ["precious"], "{case}");
        assert_eq!(
            std::fs::read_to_string(self.world.join("precious")).unwrap(),
            "somebody else's",
            "{case}"
        );
    }

    /// A run with that fault; the disk as it was left.
    fn broken_run(&self, fault: (usize, Fault)) -> Fake {
        let disk = Fake::default();
        disk.state().fault = Some(fault);
        self.run(&disk);
        disk
    }
}

/// The operations of a run that nothing disturbs.
fn operations(bench: &Bench) -> Vec<Operation> {
    let disk = Fake::default();
    bench.run(&disk);
    let log = std::mem::take(&mut *disk.state()).log;
    let world: Vec<_> = bench.world.read_dir_utf8().unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(world.len(), 4, "two images, a tree, and what is precious");
    for entry in world.iter().filter(|entry| entry.file_name() != "precious") {
        let removed = std::fs::remove_dir_all(entry.path()).or_else(|_| std::fs::remove_file(entry.path()));
        removed.unwrap();
    }
    assert!(log.len() > 20, "{log:?}");
    log
}

#[test]
fn an_error_at_any_write_leaves_nothing_that_is_not_found_again() {
    let bench = Bench::new();
    let mut cases = 0;
    for (at, what) in operations(&bench).into_iter().enumerate() {
        let written = match what {
            Operation::Append(all) => BTreeSet::from([0, 1, all / 2, all - 1, all]),
            Operation::Other => BTreeSet::from([0]),
        };
        for errno in [libc::ENOSPC, libc::EIO] {
            for (written, and_all_after) in written.iter().flat_map(|w| [(*w, false), (*w, true)]) {
                let fault = Fault::Fails { errno, written, and_all_after };
                let disk = bench.broken_run((at, fault));
                let mut state = disk.state();
                // the run was killed, and the disk has room again
                (state.fault, state.locked) = (None, BTreeSet::new());
                drop(state);
                bench.recover(&disk, &format!("operation {at} ({what:?}): {fault:?}"));
                cases += 1;
            }
        }
    }
    assert!(cases > 100, "{cases}");
}

#[test]
fn a_power_cut_after_any_byte_leaves_nothing_that_is_not_found_again() {
    let bench = Bench::new();
    let mut cases = 0;
    for at in 0..operations(&bench).len() {
        let mut number = 0;
        loop {
            let disk = bench.broken_run((at, Fault::Cut));
            let mut survivors = disk.survivors();
            if number >= survivors.len() {
                // the last run only told that there are no more
                *disk.state() = survivors.pop().unwrap();
                bench.recover(&disk, &format!("cut at operation {at}, once more"));
                break;
            }
            *disk.state() = survivors.swap_remove(number);
            bench.recover(&disk, &format!("cut at operation {at}, survivor {number}"));
            (number, cases) = (number + 1, cases + 1);
        }
    }
    assert!(cases > 1000, "{cases}");
}

#[test]
fn half_a_line_is_taken_back_and_the_next_one_is_whole() {
    let bench = Bench::new();
    let disk = Fake::default();
    let journal = Journal::open_in(&bench.alive, Arc::new(disk.clone()), "run").unwrap();
    let directory = |name: &str| Resource::Directory { path: bench.world.join(name) };
    journal.record(directory("a")).unwrap();
    let fault = Fault::Fails { errno: libc::ENOSPC, written: 9, and_all_after: false };
    let now = disk.state().log.len();
    disk.state().fault = Some((now, fault));
    assert!(matches!(journal.record(directory("b")), Err(JournalError::Io { .. })));
    journal.record(directory("c")).unwrap();
    let leftover = read_back(&disk);
    assert_eq!(leftover.open.len(), 2);
    assert_eq!(leftover.unreadable_lines, Vec::<usize>::new());
}

#[test]
fn what_cannot_be_taken_back_ends_the_journal() {
    let bench = Bench::new();
    let disk = Fake::default();
    let journal = Journal::open_in(&bench.alive, Arc::new(disk.clone()), "run").unwrap();
    let directory = |name: &str| Resource::Directory { path: bench.world.join(name) };
    let id = journal.record(directory("a")).unwrap();
    let fault = Fault::Fails { errno: libc::EIO, written: 9, and_all_after: true };
    let now = disk.state().log.len();
    disk.state().fault = Some((now, fault));
    assert!(matches!(journal.record(directory("b")), Err(JournalError::Io { .. })));
    disk.state().fault = None;
    assert!(matches!(journal.record(directory("c")), Err(JournalError::Broken { .. })));
    assert!(matches!(journal.forget(id), Err(JournalError::Broken { .. })));
    let contents = read_back(&disk);
    assert_eq!((contents.open.len(), contents.unreadable_lines.len()), (1, 0));
}

fn read_back(disk: &Fake) -> file::Contents {
    let name = disk.names().unwrap().remove(0);
    file::Contents::read(&*disk.open(&name).unwrap()).unwrap()
}
