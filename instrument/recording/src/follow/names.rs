//! What stands under which path, as far as the calls tell, and how large the files are.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::scope;

/// A file, by the follower's own number.
pub(super) type FileNumber = u64;

/// What is known of a path at the place of the events to which the follower has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum State {
    /// Nothing: it was not asked for, or something happened to it that tells nothing.
    #[default]
    Unknown,
    /// There is nothing.
    Absent,
    /// A regular file.
    File(FileNumber),
    /// A directory.
    Directory {
        /// The program made it: what was never seen in it is absent.
        made: bool,
        /// Where it stood before the recording, if it was renamed since: there stood what was never seen in it.
        was: Option<Arc<[u8]>>,
    },
    /// A symbolic link; to an absolute path, where that is known.
    Link(Option<Arc<[u8]>>),
}

/// A path that a call had.
#[derive(Debug, Default)]
pub(super) struct Name {
    /// Its number in the recording, when it has one.
    pub(super) number: Option<u32>,
    /// The recording says what was there first.
    pub(super) found: bool,
    /// What is there now.
    pub(super) state: State,
    /// Since the end of this call.
    since_ns: u64,
}

/// A regular file that has a name or is open.
#[derive(Debug, Default)]
pub(super) struct File {
    /// Its size after the calls so far.
    pub(super) size: u64,
    /// It was gone when it was looked for: its size is what calls tell.
    guessed: bool,
    /// Device and inode number.
    identity: Option<(u64, u64)>,
    names: Vec<Arc<[u8]>>,
    handles: Vec<u32>,
}

/// Paths and files. It grows with the number of paths that are in the recording, and of files.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: BTreeMap<Arc<[u8]>, Name>,
    now_ns: u64,
    paths: u32,
    files: HashMap<FileNumber, File>,
    next_file: FileNumber,
    identities: HashMap<(u64, u64), FileNumber>,
}

impl Names {
    /// What is known of a path.
    pub(super) fn state(&self, path: &[u8]) -> State {
        self.known.get(path).map(|name| name.state.clone()).unwrap_or_default()
    }

    /// What is said from now on is known by a call that ended then.
    pub(super) fn set_now(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// When the call ended by which is known what is at a path.
    pub(super) fn since_ns(&self, path: &[u8]) -> u64 {
        self.known.get(path).map_or(0, |name| name.since_ns)
    }

    /// A path's number, if the recording says what was there first.
    pub(super) fn found(&self, path: &[u8]) -> Option<u32> {
        self.known.get(path).filter(|name| name.found)?.number
    }

    /// A path's number, and whether it is new.
    pub(super) fn number(&mut self, path: &[u8]) -> (u32, bool) {
        let next = self.paths;
        let name = self.name(path);
        if let Some(number) = name.number {
            return (number, false);
        }
        name.number = Some(next);
        self.paths = next.saturating_add(1);
        (next, true)
    }

    /// A number for a path that stands in the recording once more.
    pub(super) fn number_again(&mut self) {
        self.paths = self.paths.saturating_add(1);
    }

    /// Nobody could see a file's size.
    pub(super) fn set_guessed(&mut self, file: FileNumber) {
        if let Some(file) = self.files.get_mut(&file) {
            file.guessed = true;
        }
    }

    /// A read found a file's bytes up to an end; true when that says more of its size than was known.
    pub(super) fn read_to(&mut self, file: Option<FileNumber>, end: u64) -> bool {
        let Some(file) = file.and_then(|file| self.files.get_mut(&file)) else { return false };
        let grows = file.guessed && end > file.size;
        file.size = if grows { end } else { file.size };
        grows
    }

    /// The recording says what was there first.
    pub(super) fn set_found(&mut self, path: &[u8]) {
        self.name(path).found = true;
    }

    fn name(&mut self, path: &[u8]) -> &mut Name {
        if !self.known.contains_key(path) {
            self.known.insert(path.into(), Name::default());
        }
        self.known.entry(path.into()).or_default()
    }

    /// Whether a path must be absent by what is known of it and of the directories above it.
    pub(super) fn surely_absent(&self, path: &[u8]) -> bool {
        let mut at = path;
        loop {
            match self.known.get(at).map(|name| &name.state) {
                None | Some(State::Unknown) => {}
                Some(State::Absent) => return true,
                Some(State::Directory { made, .. }) => return *made && at.len() < path.len(),
                Some(State::File(_)) => return at.len() < path.len(),
                Some(State::Link(_)) => return false,
            }
            let Some(above) = scope::parent(at) else { return false };
            at = above;
        }
    }

    /// Where a path that was never seen stood before the recording, if a directory above it was renamed since.
    pub(super) fn origin(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut at = scope::parent(path)?;
        loop {
            match self.known.get(at).map(|name| &name.state) {
                None | Some(State::Unknown) => at = scope::parent(at)?,
                Some(State::Directory { was: Some(was), .. }) => return moved(at, was, path),
                Some(_) => return None,
            }
        }
    }

    /// Says what is there from now on.
    pub(super) fn set(&mut self, path: &[u8], state: State) {
        let new = if let State::File(file) = &state { Some(*file) } else { None };
        let now_ns = self.now_ns;
        let name = self.name(path);
        name.since_ns = now_ns;
        let old = std::mem::replace(&mut name.state, state);
        let old = if let State::File(file) = old { Some(file) } else { None };
        if new == old {
            return;
        }
        if let Some(file) = new.and_then(|file| self.files.get_mut(&file)) {
            file.names.push(path.into());
        }
        if let Some(number) = old {
            if let Some(file) = self.files.get_mut(&number) {
                file.names.retain(|name| name[..] != *path);
            }
            self.forget(number);
        }
    }

    /// Moves what stands at a path, and everything below it, to another.
    pub(super) fn rename(&mut self, from: &[u8], to: &[u8]) {
        if from == to {
            return;
        }
        let state = self.take(from);
        if matches!(state, State::File(_)) && state == self.state(to) {
            // Two names of one file: rename(2) does nothing.
            return self.set(from, state);
        }
        let below = self.below(from);
        for path in self.below(to) {
            self.set(&path, State::Absent);
        }
        self.set(to, state);
        for path in below {
            let state = self.take_from(&path);
            self.put(moved(from, to, &path), state);
        }
    }

    /// Says what is at a path; what came to stand at none is forgotten.
    fn put(&mut self, path: Option<Vec<u8>>, state: State) {
        match (path, state) {
            (Some(path), state) => self.set(&path, state),
            (None, State::File(file)) => self.forget(file),
            (None, _) => {}
        }
    }

    /// Swaps two paths and everything below them.
    pub(super) fn exchange(&mut self, one: &[u8], other: &[u8]) {
        let taken = |names: &mut Self, from: &[u8], to: &[u8]| {
            let mut all = vec![(Some(to.to_vec()), names.take(from))];
            for path in names.below(from) {
                let state = names.take_from(&path);
                all.push((moved(from, to, &path), state));
            }
            all
        };
        if scope::below(one, other).is_some() || scope::below(other, one).is_some() {
            return;
        }
        let mut all = taken(self, one, other);
        all.extend(taken(self, other, one));
        all.into_iter().for_each(|(path, state)| self.put(path, state));
    }

    /// Says the same of a path and of every known one below it.
    pub(super) fn set_all(&mut self, path: &[u8], state: &State) {
        for below in self.below(path) {
            self.set(&below, state.clone());
        }
        self.set(path, state.clone());
    }

    /// What was at a path, which is absent then. The file stays known without the name until it has its next one.
    fn take(&mut self, path: &[u8]) -> State {
        let now_ns = self.now_ns;
        let name = self.name(path);
        name.since_ns = now_ns;
        let mut state = std::mem::replace(&mut name.state, State::Absent);
        if let State::Directory { made: false, was } = &mut state {
            was.get_or_insert_with(|| path.into());
        }
        if let State::File(file) = &state
            && let Some(file) = self.files.get_mut(file)
        {
            file.names.retain(|name| name[..] != *path);
        }
        state
    }

    /// As [`Names::take`], of a path below one that is absent then: when it is not in the recording, nothing is to be kept.
    fn take_from(&mut self, path: &[u8]) -> State {
        let state = self.take(path);
        if self.known.get(path).is_some_and(|name| name.number.is_none()) {
            self.known.remove(path);
        }
        state
    }

    fn below(&self, path: &[u8]) -> Vec<Arc<[u8]>> {
        let mut first = path.to_vec();
        if first.last() != Some(&b'/') {
            first.push(b'/');
        }
        let after = self.known.range::<[u8], _>((Bound::Excluded(&first[..]), Bound::Unbounded));
        after.take_while(|(key, _)| key.starts_with(&first)).map(|(key, _)| key.clone()).collect()
    }

    /// A new file of that size; the one that is known by its device and inode number, if there is one.
    pub(super) fn file(&mut self, size: u64, identity: Option<(u64, u64)>) -> FileNumber {
        if let Some(known) = identity.and_then(|identity| self.identities.get(&identity)) {
            return *known;
        }
        let number = self.next_file;
        self.next_file = self.next_file.saturating_add(1);
        self.files.insert(number, File { size, identity, ..File::default() });
        if let Some(identity) = identity {
            self.identities.insert(identity, number);
        }
        number
    }

    /// A file's size; 0 of none.
    pub(super) fn size(&self, file: Option<FileNumber>) -> u64 {
        file.and_then(|file| self.files.get(&file)).map_or(0, |file| file.size)
    }

    /// A file has another size now.
    pub(super) fn resize(&mut self, file: Option<FileNumber>, size: impl FnOnce(u64) -> u64) {
        if let Some(file) = file.and_then(|file| self.files.get_mut(&file)) {
            file.size = size(file.size);
        }
    }

    /// Whether device and inode number of a file are still unknown.
    pub(super) fn is_anonymous(&self, file: FileNumber) -> bool {
        self.files.get(&file).is_some_and(|file| file.identity.is_none())
    }

    /// Says which device and inode number a file has, if nobody did.
    pub(super) fn identify_unknown(&mut self, number: FileNumber, identity: (u64, u64)) {
        if self.is_anonymous(number) {
            self.identify(number, identity);
        }
    }

    fn identify(&mut self, number: FileNumber, identity: (u64, u64)) {
        if self.identities.contains_key(&identity) {
            return;
        }
        if let Some(file) = self.files.get_mut(&number) {
            file.identity = Some(identity);
            self.identities.insert(identity, number);
        }
    }

    /// A live handle or else a path of the file with that device and inode number.
    pub(super) fn identified(&self, identity: (u64, u64)) -> Option<Result<u32, Arc<[u8]>>> {
        let file = self.files.get(self.identities.get(&identity)?)?;
        let path = || file.names.last().cloned().map(Err);
        file.handles.last().map(|handle| Ok(*handle)).or_else(path)
    }

    /// A handle was opened on a file.
    pub(super) fn opened(&mut self, file: Option<FileNumber>, handle: u32) {
        if let Some(file) = file.and_then(|file| self.files.get_mut(&file)) {
            file.handles.push(handle);
        }
    }

    /// A handle was closed; the file is forgotten when it has no name either.
    pub(super) fn closed(&mut self, number: Option<FileNumber>, handle: Option<u32>) {
        let Some(number) = number else { return };
        if let Some(file) = self.files.get_mut(&number) {
            file.handles.retain(|one| Some(*one) != handle);
        }
        self.forget(number);
    }

    fn forget(&mut self, number: FileNumber) {
        let unused = |file: &File| file.names.is_empty() && file.handles.is_empty();
        if self.files.get(&number).is_some_and(unused)
            && let Some(identity) = self.files.remove(&number).and_then(|file| file.identity)
        {
            self.identities.remove(&identity);
        }
    }

    /// Files that are known although nothing needs them: for tests of what memory holds.
    #[cfg(test)]
    pub(super) fn unused(&self) -> usize {
        self.files.values().filter(|file| file.names.is_empty() && file.handles.is_empty()).count()
    }

    /// Files that are known.
    #[cfg(test)]
    pub(super) fn files(&self) -> usize {
        self.files.len()
    }
}

/// A path after something above it, or it itself, was renamed; `None` when it stands elsewhere, or becomes too long.
pub(super) fn moved(from: &[u8], to: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    match scope::below(from, path)? {
        b"" => Some(to.to_vec()),
        rest => scope::absolute(to, rest),
    }
}
