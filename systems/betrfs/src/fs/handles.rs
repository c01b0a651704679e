//! Finding an inode by its number alone, which is all that a file handle has (open_by_handle_at, NFS).
//!
//! Records lie where names are. So for each inode whose record is in an entry its place is kept beside it: the directory and the
//! name, in the same batch as whatever changes them. A file of several names has its record by itself. A number is never given out
//! again: what has no name in one state of the store has none in any later one.

use std::sync::Arc;

use betree::{KeyRange, WriteBatch};

use super::names::new_node;
use super::{Attr, Fs};
use crate::error::{Error, Result};
use crate::key::{self, HomeKeyKind};
use crate::node::{Names, Node};
use crate::record::{self, Entry, Superblock, VERSION, WITHOUT_PLACES};

/// Directories above one another, and more than any path names (PATH_MAX), if they do not lie in themselves.
const DEPTH_MAX: usize = 1 << 20;
/// The number of no inode. Instead of its place is kept how many bytes were free when noting all places found no space.
const IN_VAIN: u64 = 0;
/// Places that are noted in one batch: with the longest names 7 KiB, as the smallest log takes no more than 8 KiB.
const PLACES_PER_BATCH: usize = 25;

impl Fs {
    /// Holds the file with this number, if it has a name.
    ///
    /// # Errors
    /// [`Error::NotFound`], the store's.
    pub(super) fn hold_by_number(&self, ino: u64) -> Result<Attr> {
        // Nothing is moved meanwhile.
        let _tree = self.shared();
        if let Some(node) = self.nodes.get(ino) {
            return self.hold_living(&node);
        }
        self.waits();
        let node = match self.with_own_record(ino)? {
            None => self.at_place(ino)?,
            node => node,
        };
        self.hold_living(&node.ok_or(Error::NotFound)?)
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

    /// The node of a file whose record is in an entry. The tree is locked.
    fn at_place(&self, ino: u64) -> Result<Option<Arc<Node>>> {
        // What leads from a directory that is in memory down to the file: numbers and names.
        let mut down = Vec::new();
        let mut at = ino;
        let mut node = loop {
            let Some(place) = self.db.get(&key::place(at))? else { return Ok(None) };
            let bad = || Error::Corrupt(format!("the place of inode {at}"));
            let (dir, name) = key::take_ino(&place).ok_or_else(bad)?;
            down.push((at, name.to_vec()));
            if let Some(node) = self.nodes.get(dir) {
                break node;
            }
            if down.len() > DEPTH_MAX {
                return Err(Error::Corrupt(format!("directory {dir} lies in itself")));
            }
            at = dir;
        };
        while let Some((ino, name)) = down.pop() {
            if node.dir().is_err() {
                return Ok(None);
            }
            // It may have been unlinked since.
            let child = self.child(&node, &node.read(), &name)?;
            match child.filter(|child| child.ino == ino) {
                Some(child) => node = child,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    /// Notes the places of all inodes, in a file system that is older than they are; returns its version from then on. Where there is
    /// no space for them it stays older, and its files are found by name alone until it is opened with twice the space.
    ///
    /// # Errors
    /// The store's, but for [`Error::NoSpace`].
    pub(super) fn note_places(&self, next_ino: u64) -> Result<u32> {
        let mut free = self.space().available;
        let before = self.db.get(&key::place(IN_VAIN))?;
        let before = before.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        // Else each mount would read all names, in vain.
        let noted = match before.filter(|before| free / 2 <= *before) {
            None => self.put_places(next_ino),
            Some(before) => {
                free = before;
                Err(Error::NoSpace)
            }
        };
        match noted {
            Ok(()) => Ok(VERSION),
            Err(Error::NoSpace) => {
                let superblock = Superblock { version: WITHOUT_PLACES, ..Superblock::new(next_ino) };
                let mut batch = WriteBatch::new();
                batch.delete_range(&key::all_places()).put(key::SUPERBLOCK, &superblock.encode());
                batch.put(&key::place(IN_VAIN), &free.to_le_bytes());
                batch.from_reserve();
                self.db.write(batch)?;
                Ok(WITHOUT_PLACES)
            }
            Err(e) => Err(e),
        }
    }

    fn put_places(&self, next_ino: u64) -> Result<()> {
        let mut batch = WriteBatch::new();
        // Of an attempt that did not come to its end.
        batch.delete_range(&key::all_places());
        let mut noted = 0;
        for item in self.db.scan(&KeyRange::new(key::ROOT_HOME, &[key::LINKED])) {
            let (key, value) = item?;
            let Some((home, HomeKeyKind::Entry(name))) = key::parse(&key) else { continue };
            // What is damaged is for fsck.
            let (Some((dir, _)), Ok(Entry::Inode(record))) = (key::made(home), record::decode(&value)) else {
                continue;
            };
            key::put_place(&mut batch, record.ino, dir, name);
            noted += 1;
            if noted % PLACES_PER_BATCH == 0 {
                self.db.write(std::mem::take(&mut batch))?;
            }
        }
        batch.put(key::SUPERBLOCK, &Superblock::new(next_ino).encode());
        self.db.write(batch)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use betree::SimStorage;

    use super::*;
    use crate::fs::{NewFile, Options, RenameMode};

    const DIR: u32 = libc::S_IFDIR | 0o755;
    const FILE: u32 = libc::S_IFREG | 0o644;
    const ROUNDS: usize = 300;

    fn open(storage: &SimStorage) -> Fs {
        let mut options = Options::with_store(betree::Options::tiny());
        // What nobody holds leaves the memory at once.
        options.idle_nodes_max = 0;
        Fs::open(storage.clone(), &options).expect("open")
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
        let storage = SimStorage::new(64 << 20);
        Fs::format(storage.clone(), &Options::with_store(betree::Options::tiny())).expect("format");
        let fs = open(&storage);
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
        let nameless = fs.make_nameless(two, NewFile { mode: FILE, ..NewFile::default() }).expect("make").ino;
        fs.write(nameless, 0, &nameless.to_le_bytes(), false).expect("write");
        look(&fs, &parents, &doomed);
        fs.link(nameless, two, b"late").expect("link");
        fs.forget(nameless, 2);
        fs.forget(two, 1);
        parents.insert(nameless, None);
        look(&fs, &parents, &doomed);
        assert_eq!(fs.inodes_in_memory(), 1, "the root");
        fs.close().expect("close");

        let fs = open(&storage);
        look(&fs, &parents, &doomed);
        let late = make(&fs, below, b"late", FILE);
        parents.insert(late, None);
        look(&fs, &parents, &doomed);
        fs.close().expect("close");
        let report = crate::check(storage, false).expect("check");
        assert!(report.is_clean() && report.findings.is_empty(), "{report}");
    }

    /// As a file system of version 2 or 3 is, after an opening that was cut off in the middle.
    fn made_older(storage: &SimStorage) {
        let db = betree::Db::open(storage.clone(), betree::Options::tiny()).expect("open");
        let mut batch = WriteBatch::new();
        let mut superblock = db.get(key::SUPERBLOCK).expect("get").expect("a superblock");
        superblock[8] = 2;
        batch.put(key::SUPERBLOCK, &superblock).delete_range(&key::all_places());
        key::put_place(&mut batch, 999_999, key::ROOT, b"somewhere");
        // Whether it is full or not.
        batch.from_reserve();
        db.write(batch).expect("write");
        db.close().expect("close");
    }

    /// A file system that was full before places were kept can be opened, emptied, and gets its places then.
    #[test]
    fn a_full_older_file_system_is_opened_and_gets_its_places_when_there_is_space() {
        let storage = SimStorage::new(2 << 20);
        Fs::format(storage.clone(), &Options::with_store(betree::Options::tiny())).expect("format");
        let fs = open(&storage);
        let dir = make(&fs, key::ROOT, b"dir", DIR);
        fs.hold_by_number(dir).expect("the directory");
        let mut files = Vec::new();
        let full = (0..100_000).find_map(|n: usize| {
            let new = NewFile { mode: FILE, ..NewFile::default() };
            match fs.make(dir, n.to_string().as_bytes(), new) {
                Ok(attr) => {
                    files.push(attr.ino);
                    fs.forget(attr.ino, 1);
                    None
                }
                Err(e) => Some(e),
            }
        });
        assert!(matches!(full, Some(Error::NoSpace)), "{full:?}");
        fs.forget(dir, 1);
        fs.close().expect("close");
        // As older versions left it: what the places took is something else's.
        made_older(&storage);
        let db = betree::Db::open(storage.clone(), betree::Options::tiny()).expect("open");
        let more = |n: u64| db.put(&key::reserved(1 << 40 | n), &[0; 300]);
        let full = (0..).find_map(|n| more(n).err());
        assert!(matches!(full, Some(betree::Error::NoSpace)), "{full:?}");
        db.close().expect("close");

        let fs = open(&storage);
        assert!(matches!(fs.hold_by_number(files[0]), Err(Error::NotFound)), "there was space after all");
        assert_eq!(fs.version, WITHOUT_PLACES);
        fs.hold_by_number(key::ROOT).expect("the root");
        let dir = fs.lookup(key::ROOT, b"dir").expect("by name").ino;
        let (gone, left) = files.split_at(files.len() / 10 * 9);
        for n in 0..gone.len() {
            fs.unlink(dir, n.to_string().as_bytes()).unwrap_or_else(|e| panic!("unlink {n}: {e}"));
        }
        fs.store().delete_range(&key::all_reserved()).expect("delete");
        fs.sync().expect("sync");
        fs.forget(dir, 1);
        fs.close().expect("close");

        let fs = open(&storage);
        assert_eq!(fs.version, VERSION);
        let parents: BTreeMap<u64, Option<u64>> = left.iter().map(|&ino| (ino, None)).collect();
        for &ino in parents.keys() {
            fs.hold_by_number(ino).unwrap_or_else(|e| panic!("inode {ino}: {e}"));
            fs.forget(ino, 1);
        }
        fs.close().expect("close");
        let report = crate::check(storage.clone(), true).expect("check");
        assert!(report.is_clean() && report.findings.is_empty(), "{report}");
    }

    /// There is space for some places, which are noted and taken back: once.
    #[test]
    fn a_nearly_full_older_file_system_has_all_its_names_read_in_vain_once() {
        const FILES: usize = 10_000;
        let storage = SimStorage::new(16 << 20);
        Fs::format(storage.clone(), &Options::with_store(betree::Options::tiny())).expect("format");
        let fs = open(&storage);
        let dir = make(&fs, key::ROOT, b"dir", DIR);
        let name = |n: usize| format!("{n:0>100}").into_bytes();
        (0..FILES).for_each(|n| _ = make(&fs, dir, &name(n), DIR));
        fs.close().expect("close");
        made_older(&storage);
        let db = betree::Db::open(storage.clone(), betree::Options::tiny()).expect("open");
        let full = (0..).find_map(|n: u64| db.put(&key::reserved(1 << 40 | n), &[0; 300]).err());
        assert!(matches!(full, Some(betree::Error::NoSpace)), "{full:?}");
        (0..3000).for_each(|n: u64| _ = db.delete(&key::reserved(1 << 40 | n)).expect("delete"));
        db.close().expect("close");
        for mount in 0..3 {
            let fs = open(&storage);
            assert_eq!(fs.version, WITHOUT_PLACES);
            let space = fs.space().available;
            assert!(space > 50 << 10, "{space} bytes are left");
            let logged = fs.store().stats().log_bytes;
            assert!(mount == 0 || logged < 10_000, "mount {mount}: {logged} bytes for nothing");
            fs.close().expect("close");
        }
        let fs = open(&storage);
        fs.store().delete_range(&key::all_reserved()).expect("delete");
        fs.store().settle(&[key::all_reserved()]).expect("space");
        fs.close().expect("close");
        let fs = open(&storage);
        assert_eq!(fs.version, VERSION, "there is twice the space");
        fs.close().expect("close");
        let report = crate::check(storage, false).expect("check");
        assert!(report.is_clean() && report.findings.is_empty(), "{report}");
    }

    #[test]
    fn the_places_of_an_older_file_system_are_noted_when_it_is_opened() {
        let storage = SimStorage::new(64 << 20);
        Fs::format(storage.clone(), &Options::with_store(betree::Options::tiny())).expect("format");
        let fs = open(&storage);
        let dir = make(&fs, key::ROOT, b"dir", DIR);
        let mut parents = BTreeMap::from([(dir, Some(key::ROOT))]);
        for n in 0..80 * PLACES_PER_BATCH {
            parents.insert(make(&fs, dir, n.to_string().as_bytes(), FILE), None);
        }
        fs.close().expect("close");
        made_older(&storage);
        let report = crate::check(storage.clone(), false).expect("check");
        assert!(report.is_clean() && report.findings.is_empty(), "{report}");
        let fs = open(&storage);
        look(&fs, &parents, &[999_999]);
        let late = make(&fs, dir, b"late", FILE);
        assert!(!parents.contains_key(&late), "a number given out again");
        fs.close().expect("close");
        let report = crate::check(storage.clone(), true).expect("check");
        assert!(report.is_clean() && report.findings.is_empty(), "{report}");
    }

    /// Bytes of the log for each file that is made, with names of 12 bytes two directories deep; and those of its place, which are what
    /// this costs.
    #[test]
    fn a_place_takes_less_than_a_tenth_of_what_a_new_file_takes_in_the_log() {
        const FILES: u64 = 1000;
        let storage = SimStorage::new(64 << 20);
        Fs::format(storage.clone(), &Options::with_store(betree::Options::tiny())).expect("format");
        let fs = open(&storage);
        let outer = make(&fs, key::ROOT, b"project", DIR);
        let dir = make(&fs, outer, b"sources", DIR);
        fs.hold_by_number(dir).expect("the directory");
        let logged = || fs.store().stats().log_bytes;
        let before = logged();
        let name = |n: u64| format!("file{n:06}.c");
        for n in 0..FILES {
            fs.make(dir, name(n).as_bytes(), NewFile { mode: FILE, ..NewFile::default() }).expect("make");
        }
        let all = (logged() - before) / FILES;
        // What one more in a batch takes.
        let [one, two] = [1, 2].map(|places| {
            let before = logged();
            for n in 0..FILES {
                let mut batch = WriteBatch::new();
                (0..places).for_each(|_| key::put_place(&mut batch, n + 1000, dir, name(n).as_bytes()));
                fs.store().write(batch).expect("write");
            }
            (logged() - before) / FILES
        });
        let place = two - one;
        println!("{all} bytes for a new file, {place} of them for its place");
        assert!(place * 10 < all - place, "{place} of {all} bytes");
    }

    /// Names are moved to and fro while others look for what they name.
    #[test]
    fn a_number_is_found_while_its_name_moves() {
        let storage = SimStorage::new(64 << 20);
        Fs::format(storage.clone(), &Options::with_store(betree::Options::tiny())).expect("format");
        let fs = open(&storage);
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
