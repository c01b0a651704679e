//! Finding an inode by its number alone, which is all that a file handle has (open_by_handle_at, NFS).
//!
//! Records lie where names are, so the store has no way from a number to its record, but for files with several names. Of
//! what is in no memory, as after a new mount, all names are read, once. What is learned from that is kept as hints, so
//! that the next handle costs the reading of one directory. A number is never given out again: what has no name in one
//! state of the store has none in any later one.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use betree::KeyRange;

use super::names::new_node;
use super::places::{HOMES_MAX, Places};
use super::{Attr, Fs};
use crate::error::{Error, Result};
use crate::key::{self, Part};
use crate::node::{Names, Node};
use crate::record::{self, Entry};

/// Numbers kept of which is known that nothing has them.
const GONE_MAX: usize = 1 << 16;

impl Fs {
    /// Holds the file with this number, if it has a name.
    ///
    /// # Errors
    /// [`Error::NotFound`], the store's.
    pub(super) fn hold_by_number(&self, ino: u64) -> Result<Attr> {
        {
            let _tree = self.shared();
            if let Some(node) = self.nodes.get(ino) {
                return self.hold_living(&node);
            }
        }
        let next = self.numbers.lock().unwrap_or_else(|e| e.into_inner()).0;
        if ino >= next {
            return Err(Error::NotFound);
        }
        self.waits();
        // One after the other: what the first has read serves the others.
        let mut places = self.places.lock().unwrap_or_else(|e| e.into_inner());
        let named_late = self.named_late.load(Ordering::Acquire);
        if places.named_late != named_late {
            *places = Places::default();
        }
        if places.is_gone(ino) {
            return Err(Error::NotFound);
        }
        {
            let _tree = self.shared();
            let node = match self.with_own_record(ino)? {
                None => self.at_hint(&places, ino)?,
                node => node,
            };
            if let Some(node) = node {
                return self.hold_living(&node);
            }
        }
        for again in [false, true] {
            // Nothing is moved while names are read for the second time.
            let tree = again.then(|| self.shared());
            *places = Places { named_late, next_ino: next, ..self.read_places(ino)? };
            let _tree = tree.unwrap_or_else(|| self.shared());
            if let Some(node) = self.at_hint(&places, ino)? {
                return self.hold_living(&node);
            }
            if places.home(ino).is_none() {
                break;
            }
        }
        if places.gone.len() >= GONE_MAX {
            places.gone.clear();
        }
        places.gone.insert(ino);
        Err(Error::NotFound)
    }

    /// The node of a file whose record lies by itself.
    fn with_own_record(&self, ino: u64) -> Result<Option<Arc<Node>>> {
        // Read while no other can make the node, which could then unlink the file.
        let node = self.nodes.get_or(ino, || {
            let value = self.db.get(&key::linked(ino))?.ok_or(Error::NotFound)?;
            new_node(record::decode_record(&value)?, Names::default(), true)
        });
        match node {
            Err(Error::NotFound) => Ok(None),
            node => node.map(Some),
        }
    }

    /// Reads all names; `wanted` is among the hints, if it is anywhere.
    fn read_places(&self, wanted: u64) -> Result<Places> {
        let mut places = Places::default();
        let mut last = None;
        let has_room = |places: &Places| places.dirs.len() < self.hints_max && places.home_bytes < HOMES_MAX;
        for item in self.db.scan(&KeyRange::new(key::ROOT_HOME, &[key::LINKED])) {
            let (key, value) = item?;
            let Some((home, Part::Entry(name))) = key::parse(&key) else { continue };
            // What is damaged is for fsck.
            let Ok(entry) = record::decode(&value) else { continue };
            if entry.ino() == wanted || has_room(&places) || is_moved_dir(home, name, &entry) {
                places.note(entry.ino(), home, &mut last);
            } else {
                places.partial = true;
            }
        }
        Ok(places)
    }

    /// The node of `ino`, if it is still where its hint says. The tree is locked.
    fn at_hint(&self, places: &Places, ino: u64) -> Result<Option<Arc<Node>>> {
        let Some(home) = places.home(ino) else { return Ok(None) };
        let Some(dir) = self.dir_at(places, home)? else { return Ok(None) };
        let state = dir.read();
        let Some(name) = self.name_in(home, ino)? else { return Ok(None) };
        Ok(self.child(&dir, &state, &name)?.filter(|node| node.ino == ino))
    }

    /// The name of `ino` in the directory at `home`.
    fn name_in(&self, home: &[u8], ino: u64) -> Result<Option<Box<[u8]>>> {
        for item in self.db.scan(&key::entries(home)) {
            let (key, value) = item?;
            if record::decode(&value)?.ino() == ino {
                return Ok(Some(key[home.len() + 1..].into()));
            }
        }
        Ok(None)
    }

    /// The node of the directory at `home`. The tree is locked.
    fn dir_at(&self, places: &Places, home: &[u8]) -> Result<Option<Arc<Node>>> {
        let mut at = home.to_vec();
        // What leads from one that is in memory down to `home`: numbers and names.
        let mut down = Vec::new();
        let mut seen = HashSet::new();
        let mut node = loop {
            let Some((ino, made)) = key::made(&at) else { return Ok(None) };
            if let Some(node) = self.nodes.get(ino) {
                break node;
            }
            if !seen.insert(ino) {
                return Err(Error::Corrupt(format!("directory {ino} lies in itself")));
            }
            let there = match made {
                Some((up, name)) if self.is_there(up, name, ino)? => Some((up.to_vec(), name.into())),
                _ => match places.home(ino) {
                    Some(up) => self.name_in(up, ino)?.map(|name| (up.to_vec(), name)),
                    None => None,
                },
            };
            let Some((up, name)) = there else { return Ok(None) };
            down.push((ino, name));
            at = up;
        };
        while let Some((ino, name)) = down.pop() {
            let child = self.child(&node, &node.read(), &name)?;
            match child.filter(|child| child.ino == ino) {
                Some(child) => node = child,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    /// Whether the directory at `home` has the entry `name` of `ino`.
    fn is_there(&self, home: &[u8], name: &[u8], ino: u64) -> Result<bool> {
        let value = self.db.get(&key::entry(home, name))?;
        value.map_or(Ok(false), |value| Ok(record::decode(&value)?.ino() == ino))
    }
}

/// Whether this is a directory whose home does not say where it is.
fn is_moved_dir(home: &[u8], name: &[u8], entry: &Entry) -> bool {
    let Entry::Inode(record) = entry else { return false };
    let own = || key::home(home, true, name, record.ino);
    record.inode.is_dir()
        && key::made(&record.home.clone().map_or_else(own, Vec::from)).and_then(|(_, made)| made)
            != Some((home, name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use betree::SimStorage;

    use super::*;
    use crate::fs::places::HINTS_MAX;
    use crate::fs::{NewFile, Options, RenameMode};

    const DIR: u32 = libc::S_IFDIR | 0o755;
    const FILE: u32 = libc::S_IFREG | 0o644;
    const ROUNDS: usize = 300;

    fn open(storage: &SimStorage, hints_max: usize) -> Fs {
        let mut options = Options::with_store(betree::Options::tiny());
        // What nobody holds leaves the memory at once.
        options.idle_nodes_max = 0;
        Fs { hints_max, ..Fs::open(storage.clone(), &options).expect("open") }
    }

    /// Makes a file that holds its own number; nobody holds it afterwards.
    fn make(fs: &Fs, parent: u64, name: &[u8], mode: u32) -> u64 {
        fs.hold_by_number(parent).expect("the directory");
        let ino = fs.make(parent, name, NewFile { mode, ..NewFile::default() }).expect("make").ino;
        if mode == FILE {
            fs.write(ino, 0, &ino.to_le_bytes(), false).expect("write");
        }
        fs.forget(ino, 1);
        fs.forget(parent, 1);
        ino
    }

    fn rename(fs: &Fs, from: (u64, &[u8]), to: (u64, &[u8]), mode: RenameMode) {
        fs.hold_by_number(from.0).expect("from");
        fs.hold_by_number(to.0).expect("to");
        fs.rename(from.0, from.1, to.0, to.1, mode).expect("rename");
        fs.forget(from.0, 1);
        fs.forget(to.0, 1);
    }

    /// Every number leads to what it did before, up to the root; none of `gone` leads anywhere.
    fn look(fs: &Fs, parents: &BTreeMap<u64, Option<u64>>, gone: &[u64]) {
        for (&ino, &parent) in parents.iter().rev() {
            let attr = fs.lookup(ino, b".").unwrap_or_else(|error| panic!("inode {ino}: {error}"));
            assert_eq!(attr.ino, ino);
            match parent {
                Some(parent) => {
                    assert_eq!(fs.lookup(ino, b"..").expect("up").ino, parent, "above {ino}");
                    fs.forget(parent, 1);
                }
                None => assert_eq!(fs.read(ino, 0, 100).expect("read"), ino.to_le_bytes()),
            }
            fs.forget(ino, 1);
        }
        for &ino in gone {
            assert!(matches!(fs.lookup(ino, b"."), Err(Error::NotFound)), "inode {ino} is gone");
        }
    }

    #[test]
    fn a_number_leads_to_its_file_in_any_mount() {
        for hints_max in [HINTS_MAX, 3, 0] {
            let storage = SimStorage::new(64 << 20);
            Fs::format(storage.clone(), &Options::with_store(betree::Options::tiny())).expect("format");
            let fs = open(&storage, hints_max);
            // Directories with the one above them; files with None.
            let mut parents = BTreeMap::new();
            let mut at = key::ROOT;
            // Deep enough that homes need zones of their own.
            for depth in 0..20u64 {
                let dir = make(&fs, at, &[b'a' + depth as u8; 200], DIR);
                parents.insert(dir, Some(at));
                parents.insert(make(&fs, dir, b"file", FILE), None);
                at = dir;
            }
            let (one, two) = (make(&fs, key::ROOT, b"one", DIR), make(&fs, key::ROOT, b"two", DIR));
            let inner = make(&fs, one, b"inner", DIR);
            let below = make(&fs, inner, b"below", DIR);
            let (file, linked) = (make(&fs, below, b"file", FILE), make(&fs, one, b"linked", FILE));
            let (left, right) = (make(&fs, one, b"left", FILE), make(&fs, two, b"right", FILE));
            let doomed = [make(&fs, below, b"doomed", FILE), make(&fs, two, b"doomed", DIR)];
            for dir in [one, two] {
                parents.insert(dir, Some(key::ROOT));
            }
            parents.extend([(inner, Some(one)), (below, Some(inner))]);
            parents.extend([file, linked, left, right].map(|ino| (ino, None)));
            fs.hold_by_number(two).expect("dir");
            fs.hold_by_number(linked).expect("file");
            fs.link(linked, two, b"second").expect("link");
            fs.forget(linked, 2);
            fs.forget(two, 1);
            look(&fs, &parents, &[1 << 40, u64::MAX]);

            // Moved, with hints from before it; and again after a new mount.
            rename(&fs, (one, b"inner"), (two, b"elsewhere"), RenameMode::Replace);
            rename(&fs, (below, b"file"), (key::ROOT, b"file"), RenameMode::Replace);
            rename(&fs, (one, b"left"), (two, b"right"), RenameMode::Exchange);
            parents.insert(inner, Some(two));
            fs.hold_by_number(below).expect("below");
            fs.unlink(below, b"doomed").expect("unlink");
            fs.forget(below, 1);
            fs.hold_by_number(two).expect("two");
            fs.rmdir(two, b"doomed").expect("rmdir");
            look(&fs, &parents, &doomed);
            // One that had no name while all were read.
            let nameless =
                fs.make_nameless(two, NewFile { mode: FILE, ..NewFile::default() }).expect("make").ino;
            fs.write(nameless, 0, &nameless.to_le_bytes(), false).expect("write");
            look(&fs, &parents, &doomed);
            fs.link(nameless, two, b"late").expect("link");
            fs.forget(nameless, 2);
            fs.forget(two, 1);
            parents.insert(nameless, None);
            look(&fs, &parents, &doomed);
            assert_eq!(fs.inodes_in_memory(), 1, "the root");
            fs.close().expect("close");

            let fs = open(&storage, hints_max);
            look(&fs, &parents, &doomed);
            let late = make(&fs, below, b"late", FILE);
            parents.insert(late, None);
            look(&fs, &parents, &doomed);
            fs.close().expect("close");
            let report = crate::check(storage, false).expect("check");
            assert!(report.is_clean() && report.findings.is_empty(), "{report}");
        }
    }

    /// Names are moved to and fro while others look for what they name.
    #[test]
    fn a_number_is_found_while_its_name_moves() {
        let storage = SimStorage::new(64 << 20);
        Fs::format(storage.clone(), &Options::with_store(betree::Options::tiny())).expect("format");
        let fs = open(&storage, 4);
        let dirs = [make(&fs, key::ROOT, b"one", DIR), make(&fs, key::ROOT, b"two", DIR)];
        let inner = make(&fs, dirs[0], b"inner", DIR);
        let file = make(&fs, inner, b"file", FILE);
        (0..50).for_each(|n| _ = make(&fs, dirs[0], format!("file{n}").as_bytes(), FILE));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        fs.lookup(file, b".").expect("it has a name all the time");
                        assert_eq!(fs.read(file, 0, 100).expect("read"), file.to_le_bytes());
                        fs.forget(file, 1);
                    }
                });
            }
            for round in 0..ROUNDS {
                let (from, to) = (dirs[round % 2], dirs[1 - round % 2]);
                rename(&fs, (from, b"inner"), (to, b"inner"), RenameMode::Replace);
            }
        });
        fs.close().expect("close");
        let report = crate::check(storage, false).expect("check");
        assert!(report.is_clean() && report.findings.is_empty(), "{report}");
    }
}
