//! Names of directories that were read, so that one that changes a little need not be read from the store again: a mail server
//! reads its directories before every operation. What a reader sees does not depend on them.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use super::Fs;
use crate::error::Result;
use crate::key;
use crate::node::{ChangedNames, Node, State};
use crate::record::{self, Entry};

/// Names, of all directories together, that are kept: some 4 MiB, with the longest names 20 MiB.
const KEPT_MAX: usize = 1 << 16;
/// A larger directory is read from the store each time.
const KEPT_OF_ONE_MAX: usize = KEPT_MAX / 4;

/// The first offset behind `.` and `..`.
pub(super) const FIRST: u64 = 2;

/// The place behind `name`: a positive 64 bit integer, as offsets in directories have to be.
pub(super) fn place_behind(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name);
    (hasher.finish() >> 1).max(FIRST + 1)
}

/// A name, and what it leads to.
#[derive(Clone, Debug)]
pub(super) struct ListedName {
    pub name: Arc<[u8]>,
    /// The place behind it.
    pub place: u64,
    pub ino: u64,
    pub kind: u32,
}

impl ListedName {
    fn new(name: &[u8], entry: &Entry) -> ListedName {
        ListedName { name: name.into(), place: place_behind(name), ino: entry.ino(), kind: entry.kind() }
    }
}

/// All names of a directory, in their order, when it had this version.
#[derive(Debug)]
pub(super) struct Listing {
    version: u64,
    names: Vec<ListedName>,
}

impl Listing {
    /// Those behind a name, or all.
    pub fn behind(&self, name: Option<&[u8]>) -> &[ListedName] {
        let from = name.map_or(0, |name| self.names.partition_point(|listed| *listed.name <= *name));
        &self.names[from..]
    }

    /// Counts for so much: one more, for what stands around the names.
    fn weight(&self) -> usize {
        self.names.len() + 1
    }
}

#[derive(Debug, Default)]
struct Inner {
    dirs: HashMap<u64, Arc<Listing>>,
    kept: usize,
    /// Directories, the first one kept longest ago.
    queue: VecDeque<u64>,
}

/// The listings of all directories.
#[derive(Debug, Default)]
pub(super) struct Listings(Mutex<Inner>);

impl Listings {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn of(&self, dir: u64) -> Option<Arc<Listing>> {
        self.inner().dirs.get(&dir).cloned()
    }

    fn keep(&self, dir: u64, listing: Arc<Listing>) {
        let mut inner = self.inner();
        inner.kept += listing.weight();
        match inner.dirs.insert(dir, listing) {
            Some(before) => inner.kept -= before.weight(),
            None => inner.queue.push_back(dir),
        }
        while inner.kept > KEPT_MAX
            && let Some(oldest) = inner.queue.pop_front()
        {
            inner.kept -= inner.dirs.remove(&oldest).map_or(0, |listing| listing.weight());
        }
    }
}

impl Fs {
    /// The names of a directory as it is: those that are kept, with what has changed since, or for who begins at its beginning
    /// all of them, read now, if it is read `again`: most are read once. None of a large directory, nor where it is no gain.
    /// The state is the directory's, locked.
    pub(super) fn listing(
        &self,
        dir: &Arc<Node>,
        state: &State,
        off: u64,
        again: bool,
    ) -> Result<Option<Arc<Listing>>> {
        let version = state.inode.version;
        let kept = self.listings.of(dir.ino);
        if let Some(listing) = kept.as_ref().filter(|listing| listing.version == version) {
            return Ok(Some(listing.clone()));
        }
        if off != 0 || !again {
            return Ok(None);
        }
        let mut touched = state.touched();
        let since = touched.replace(Box::new(ChangedNames::since(version)));
        drop(touched);
        let changed = match (kept, since) {
            (Some(kept), Some(since)) if since.version <= kept.version => {
                Some(self.changed(dir, &kept, &since)?)
            }
            _ => None,
        };
        let Some(names) = changed.map_or_else(|| self.all_names(dir, state), |names| Ok(Some(names)))? else {
            return Ok(None);
        };
        debug_assert!(self.lists_all(dir, &names), "a change of a name in {} was not noted", dir.ino);
        let listing = Arc::new(Listing { version, names });
        self.listings.keep(dir.ino, listing.clone());
        Ok(Some(listing))
    }

    /// The names of a listing, with what became of those that were touched since.
    fn changed(&self, dir: &Node, before: &Listing, since: &ChangedNames) -> Result<Vec<ListedName>> {
        let mut names = before.names.clone();
        for name in &since.names {
            let found = names.binary_search_by(|listed| listed.name[..].cmp(name));
            let there = match self.db.get(&key::entry(dir.dir()?, name))? {
                Some(value) => Some(ListedName::new(name, &record::decode(&value)?)),
                None => None,
            };
            match (found, there) {
                (Ok(at), Some(there)) => names[at] = there,
                (Ok(at), None) => _ = names.remove(at),
                (Err(at), Some(there)) => names.insert(at, there),
                (Err(_), None) => {}
            }
        }
        Ok(names)
    }

    /// All names of a directory that has not too many.
    fn all_names(&self, dir: &Node, state: &State) -> Result<Option<Vec<ListedName>>> {
        if state.inode.size > KEPT_OF_ONE_MAX as u64 {
            return Ok(None);
        }
        let home = dir.dir()?;
        let mut names = Vec::new();
        for item in self.db.scan(&key::entries(home)) {
            let (key, value) = item?;
            // The count of a directory is not to be relied on after damage.
            if names.len() == KEPT_OF_ONE_MAX {
                return Ok(None);
            }
            names.push(ListedName::new(&key[home.len() + 1..], &record::decode(&value)?));
        }
        Ok(Some(names))
    }

    /// Whether these are the names of a directory.
    fn lists_all(&self, dir: &Node, names: &[ListedName]) -> bool {
        let Ok(home) = dir.dir() else { return false };
        let mut names = names.iter();
        let same = self.db.scan(&key::entries(home)).flatten().all(|(key, value)| {
            let entry = record::decode(&value);
            names.next().is_some_and(|listed| {
                *listed.name == key[home.len() + 1..] && entry.is_ok_and(|entry| entry.ino() == listed.ino)
            })
        });
        same && names.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::DirStream;
    use crate::fs::dir::tests::five_files;

    /// Most directories are read once: `find`, `cp -r`, `rm -r`.
    #[test]
    fn names_are_kept_of_a_directory_that_is_read_again() {
        let (fs, inos) = five_files();
        fs.forget(inos[0], 1);
        let read = || {
            let mut found = Vec::new();
            let add = &mut |item: crate::fs::DirItem<'_>| {
                found.extend(item.attr.filter(|_| !item.name.starts_with(b".")).map(|attr| attr.ino));
                true
            };
            fs.read_dir(1, &mut DirStream::default(), 0, true, add).expect("read_dir");
            found
        };
        assert_eq!((read(), fs.listings.of(1).is_some()), (inos.clone(), false));
        assert_eq!((read(), fs.listings.of(1).is_some()), (inos.clone(), true));
        fs.unlink(1, b"b").expect("unlink");
        assert_eq!(read(), [&inos[..1], &inos[2..]].concat());
    }

    #[test]
    fn many_directories_are_kept_within_a_bound() {
        let all = Listings::default();
        let listing = |count: usize| {
            let listed = ListedName { name: (&b"name"[..]).into(), place: 9, ino: 7, kind: 0 };
            Arc::new(Listing { version: 1, names: vec![listed; count] })
        };
        (0..KEPT_MAX as u64).for_each(|dir| all.keep(dir, listing(3)));
        (0..100).for_each(|_| all.keep(u64::MAX, listing(KEPT_OF_ONE_MAX)));
        let inner = all.inner();
        assert!(inner.kept <= KEPT_MAX && inner.queue.len() == inner.dirs.len());
        assert_eq!(inner.kept, inner.dirs.values().map(|listing| listing.weight()).sum::<usize>());
        assert!(inner.dirs.contains_key(&u64::MAX) && !inner.dirs.contains_key(&0));
    }
}
