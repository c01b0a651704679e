//! What the kernel reads of directories, and may keep.
//!
//! The kernel (6.18) keeps the names of a directory with the offsets that came with them, until it changes a name there
//! itself. Another handle reads them from there, and comes here with such an offset when they are gone in the middle. So an
//! offset says of which listing it is, and a listing stays as long as the kernel may have any of it: while a handle of the
//! directory is open, and after that until the kernel is told at an open that it must read anew.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::fs::DirStream;

/// Names, of all directories together, that are kept though no handle is open: some 4 MiB.
const KEPT_MAX: usize = 1 << 16;
/// Of one directory.
const KEPT_OF_ONE_MAX: usize = KEPT_MAX / 4;
/// Listings of a directory that changes while it is open. Who opens it then reads past what the kernel keeps.
const LISTINGS_MAX: usize = 8;

/// How a directory was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// What the kernel has of it is as it is here.
    Kept,
    /// It must read anew, and may keep that.
    Anew,
    /// It may keep nothing.
    Nothing,
}

#[derive(Clone)]
struct Listing {
    /// Of the names, or earlier.
    version: u64,
    number: u64,
    names: Arc<Mutex<DirStream>>,
}

#[derive(Default)]
struct Dir {
    open: usize,
    /// The last one may be of the present version.
    listings: Vec<Listing>,
    /// Names that count as kept.
    kept: usize,
    /// It is in the queue.
    queued: bool,
    /// Listings so far. The offsets of the first are the places of names, so that any up to its end is one that was given.
    numbers: u64,
}

struct Handle {
    ino: u64,
    /// The kernel keeps nothing that is read through it: nobody else can come with its offsets.
    alone: Option<Listing>,
}

#[derive(Default)]
struct Inner {
    dirs: HashMap<u64, Dir>,
    handles: HashMap<u64, Handle>,
    last_handle: u64,
    kept: usize,
    /// Directories that were closed, the first one longest ago.
    queue: VecDeque<u64>,
}

/// The listings of all directories.
#[derive(Default)]
pub(crate) struct Listings(Mutex<Inner>);

impl Listing {
    fn new(number: u64, version: u64, before: Option<Arc<Mutex<DirStream>>>) -> Listing {
        Listing { version, number, names: Arc::new(Mutex::new(DirStream::numbered(number, version, before))) }
    }

    /// So many names; none while somebody reads more.
    fn len(&self) -> usize {
        self.names.try_lock().map_or(0, |names| names.len())
    }
}

impl Dir {
    fn is_known(&self, version: u64) -> bool {
        self.listings.last().is_some_and(|listing| listing.version == version)
    }

    fn is_full(&self) -> bool {
        let names = || self.listings.iter().map(Listing::len).sum::<usize>();
        self.listings.len() >= LISTINGS_MAX || names() > KEPT_OF_ONE_MAX
    }
}

impl Inner {
    /// A listing for names of this version, which may be made of the last one of the directory.
    fn new_listing(&mut self, ino: u64, version: u64) -> Listing {
        let dir = self.dirs.entry(ino).or_default();
        let number = dir.numbers;
        dir.numbers += 1;
        let before = dir.listings.last();
        Listing::new(number, version, before.map(|listing| listing.names.clone()))
    }

    /// Lets go of those that were closed longest ago.
    fn trim(&mut self) {
        while self.kept > KEPT_MAX
            && let Some(ino) = self.queue.pop_front()
        {
            let Some(dir) = self.dirs.get_mut(&ino) else { continue };
            dir.queued = false;
            if dir.open == 0 {
                self.kept -= dir.kept;
                self.dirs.remove(&ino);
            }
        }
    }
}

impl Listings {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A handle of the directory `ino`, whose names have this version, and what the kernel may keep.
    pub fn open(&self, ino: u64, version: u64) -> (u64, Keeping) {
        let mut inner = self.inner();
        let dir = inner.dirs.entry(ino).or_default();
        let kept = std::mem::take(&mut dir.kept);
        let keeping = match (dir.is_known(version), dir.open) {
            (true, _) => Keeping::Kept,
            (false, 0) => {
                // Nobody is in the middle of any, and the kernel begins anew; the last one helps to make the next.
                dir.listings.drain(..dir.listings.len().saturating_sub(1));
                Keeping::Anew
            }
            (false, _) if dir.is_full() => Keeping::Nothing,
            (false, _) => Keeping::Anew,
        };
        dir.open += 1;
        inner.kept -= kept;
        inner.last_handle += 1;
        let handle = inner.last_handle;
        let alone = (keeping == Keeping::Nothing).then(|| inner.new_listing(ino, version));
        inner.handles.insert(handle, Handle { ino, alone });
        (handle, keeping)
    }

    /// The names that a read at `off` through `handle` goes on with, of the directory `ino` with this version.
    pub fn at(&self, handle: u64, ino: u64, version: u64, off: u64) -> Arc<Mutex<DirStream>> {
        let mut inner = self.inner();
        let number = DirStream::number_of(off);
        let fits =
            |listing: &Listing| if off == 0 { listing.version == version } else { listing.number == number };
        let alone = inner.handles.get(&handle).and_then(|handle| handle.alone.as_ref());
        let is_alone = alone.is_some();
        let shared = inner.dirs.get(&ino).map_or(&[][..], |dir| &dir.listings[..]);
        if let Some(listing) = alone.into_iter().chain(shared.iter().rev()).find(|listing| fits(listing)) {
            return listing.names.clone();
        }
        if off != 0 {
            // Of none that is left: it is found by counting.
            return Listing::new(number, version, None).names;
        }
        let listing = inner.new_listing(ino, version);
        let names = listing.names.clone();
        if is_alone {
            inner.handles.insert(handle, Handle { ino, alone: Some(listing) });
            return names;
        }
        let dir = inner.dirs.entry(ino).or_default();
        // One who is alone and begins anew needs none of before; of many the oldest goes.
        if dir.open <= 1 {
            dir.listings.clear();
        } else if dir.listings.len() >= LISTINGS_MAX {
            dir.listings.remove(0);
        }
        dir.listings.push(listing);
        names
    }

    /// A handle is closed.
    pub fn close(&self, handle: u64) {
        let mut inner = self.inner();
        let Some(Handle { ino, .. }) = inner.handles.remove(&handle) else { return };
        let Some(dir) = inner.dirs.get_mut(&ino) else { return };
        dir.open -= 1;
        if dir.open > 0 {
            return;
        }
        let last = dir.listings.pop();
        dir.listings.clear();
        // One more, for what stands around the names.
        let kept = last.as_ref().map_or(0, |listing| listing.len() + 1);
        if kept == 0 || kept > KEPT_OF_ONE_MAX {
            inner.dirs.remove(&ino);
            return;
        }
        dir.listings.extend(last);
        dir.kept = kept;
        let is_new = !std::mem::replace(&mut dir.queued, true);
        inner.kept += kept;
        if is_new {
            inner.queue.push_back(ino);
        }
        inner.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An offset in a listing.
    fn off(names: &Arc<Mutex<DirStream>>) -> u64 {
        names.lock().expect("names").offset_of(3)
    }

    #[test]
    fn what_was_listed_is_kept_until_the_names_change() {
        let all = Listings::default();
        let (one, keeping) = all.open(7, 1);
        assert_eq!(keeping, Keeping::Anew);
        let names = all.at(one, 7, 1, 0);
        assert_eq!(off(&names), 5, "behind two and three, without a number");
        all.close(one);
        let (two, keeping) = all.open(7, 1);
        assert_eq!(keeping, Keeping::Kept);
        assert!(Arc::ptr_eq(&all.at(two, 7, 1, 0), &names), "both have the same offsets");
        let (three, keeping) = all.open(7, 2);
        assert_eq!(keeping, Keeping::Anew, "a name has changed");
        let newer = all.at(three, 7, 2, 0);
        assert_ne!(off(&newer), off(&names));
        // Whoever is in the middle of the older one goes on there, through whichever handle.
        assert!(Arc::ptr_eq(&all.at(three, 7, 2, off(&names)), &names));
        all.close(two);
        all.close(three);
        assert_eq!(all.open(7, 3).1, Keeping::Anew);
        assert_eq!(all.inner().dirs[&7].listings.len(), 1, "nobody can come for any, the last one may help");
    }

    #[test]
    fn who_keeps_a_changing_directory_open_does_not_fill_memory() {
        let all = Listings::default();
        let (first, _) = all.open(7, 0);
        for version in 1..100 {
            let (handle, keeping) = all.open(7, version);
            let names = all.at(handle, 7, version, 0);
            let again = all.at(handle, 7, version, off(&names));
            assert!(Arc::ptr_eq(&names, &again), "version {version}");
            assert_eq!(keeping == Keeping::Nothing, version > LISTINGS_MAX as u64, "version {version}");
            all.close(handle);
        }
        assert_eq!(all.inner().dirs[&7].listings.len(), LISTINGS_MAX);
        all.close(first);
        // Nor does one who begins anew again and again.
        let (first, _) = all.open(8, 0);
        (1..100).for_each(|version| _ = all.at(first, 8, version, 0));
        assert_eq!(all.inner().dirs[&8].listings.len(), 1);
    }

    #[test]
    fn many_closed_directories_are_kept_within_a_bound() {
        let all = Listings::default();
        for ino in 0..KEPT_MAX as u64 + 10 {
            let (handle, _) = all.open(ino, 1);
            all.at(handle, ino, 1, 0);
            all.close(handle);
        }
        let inner = all.inner();
        assert_eq!((inner.kept, inner.dirs.len(), inner.queue.len()), (KEPT_MAX, KEPT_MAX, KEPT_MAX));
        assert!(!inner.dirs.contains_key(&0) && inner.dirs.contains_key(&10));
    }
}
