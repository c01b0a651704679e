//! Every key of a file system, read once and sorted by what it is for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use betree::{Db, KeyRange};

use crate::error::{Error, Result};
use crate::fs::decode_reserved;
use crate::key::{self, HomeKeyKind};
use crate::record::{self, Entry, Inode, Record, Superblock, WITH_PLACES};

/// An inode and where its things lie.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub ino: u64,
    pub inode: Inode,
    pub home: Vec<u8>,
    pub target: Box<[u8]>,
}

impl Object {
    fn value(&self) -> Vec<u8> {
        record::encode(self.ino, &self.inode, Some(&self.home), &self.target)
    }
}

/// A directory entry.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub name: Vec<u8>,
    pub ino: u64,
    pub kind: u32,
    /// None for one of several names.
    pub object: Option<Object>,
}

/// What lies in one home.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HomeUsage {
    pub blocks: u64,
    pub last_block: u64,
    pub xattrs: u64,
}

#[derive(Clone, Debug)]
enum EntryLocation {
    Root,
    Entry(Vec<u8>, usize),
    Linked,
}

/// All there is.
pub(super) struct Survey {
    pub root: Object,
    /// By the home of the directory.
    pub entries: BTreeMap<Vec<u8>, Vec<Named>>,
    pub linked: BTreeMap<u64, Object>,
    pub orphans: BTreeMap<u64, Vec<u8>>,
    /// Files for which something is reserved.
    pub reserved: BTreeSet<u64>,
    pub used: BTreeMap<Vec<u8>, HomeUsage>,
    /// Where inodes are said to be; None in a file system that says nothing of that.
    pub noted: Option<BTreeMap<u64, Vec<u8>>>,
    /// Keys without a meaning.
    pub strange: Vec<Vec<u8>>,
    /// Keys whose value has none, and why.
    pub broken: Vec<(Vec<u8>, String)>,
    pub superblock: Superblock,
    pub most_ino: u64,
    places: HashMap<u64, EntryLocation>,
    /// Inodes in a second place: its key and number.
    pub twice: Vec<(Vec<u8>, u64)>,
}

impl Survey {
    pub fn take(db: &Db) -> Result<Survey> {
        let missing = |what: &str| Error::Corrupt(format!("no {what}"));
        let superblock = Superblock::decode(&db.get(key::SUPERBLOCK)?.ok_or_else(|| missing("superblock"))?)?;
        let root =
            record::decode_record(&db.get(key::ROOT_RECORD)?.ok_or_else(|| missing("root directory"))?)?;
        let root = Object {
            ino: key::ROOT,
            inode: root.inode,
            home: key::ROOT_HOME.to_vec(),
            target: Box::default(),
        };
        let mut survey = Survey {
            root,
            entries: BTreeMap::new(),
            linked: BTreeMap::new(),
            orphans: BTreeMap::new(),
            reserved: BTreeSet::new(),
            used: BTreeMap::new(),
            noted: (superblock.version >= WITH_PLACES).then(BTreeMap::new),
            strange: Vec::new(),
            broken: Vec::new(),
            superblock,
            most_ino: key::ROOT,
            places: HashMap::from([(key::ROOT, EntryLocation::Root)]),
            twice: Vec::new(),
        };
        for item in db.scan(&KeyRange::all()) {
            let (key, value) = item?;
            survey.sort(key, &value);
        }
        Ok(survey)
    }

    fn sort(&mut self, key: Vec<u8>, value: &[u8]) {
        if key == key::SUPERBLOCK || key == key::ROOT_RECORD {
            return;
        }
        if let Some((&key::RESERVED, rest)) = key.split_first() {
            match (key::take_ino(rest), decode_reserved(value)) {
                (Some((ino, [])), Ok(_)) => _ = self.reserved.insert(ino),
                (Some((_, [])), Err(e)) => self.broken.push((key, e.to_string())),
                _ => self.strange.push(key),
            }
            return;
        }
        if let Some((&key::PLACE, rest)) = key.split_first() {
            match (key::take_ino(rest), &mut self.noted) {
                (Some((ino, [])), Some(noted)) => _ = noted.insert(ino, value.to_vec()),
                // It goes when they are all noted.
                (Some((_, [])), None) => {}
                _ => self.strange.push(key),
            }
            return;
        }
        if let Some((zone @ (key::LINKED | key::ORPHAN), rest)) = key.split_first().map(|(z, r)| (*z, r)) {
            match key::take_ino(rest) {
                Some((ino, [])) if zone == key::ORPHAN => _ = self.orphans.insert(ino, value.to_vec()),
                Some((_, [])) => self.sort_linked(key, value),
                _ => self.strange.push(key),
            }
            return;
        }
        let Some((home, part)) = key::parse(&key) else { return self.strange.push(key) };
        let home = home.to_vec();
        match part {
            HomeKeyKind::Entry(name) => {
                let name = name.to_vec();
                match record::decode(value) {
                    Ok(entry) => self.name(&home, name, entry),
                    Err(e) => self.broken.push((key, e.to_string())),
                }
            }
            HomeKeyKind::Xattr(_) => self.used.entry(home).or_default().xattrs += 1,
            HomeKeyKind::Block(number) => {
                let usage = self.used.entry(home).or_default();
                usage.blocks += 1;
                usage.last_block = usage.last_block.max(number);
            }
            HomeKeyKind::Home => self.strange.push(key),
        }
    }

    fn sort_linked(&mut self, key: Vec<u8>, value: &[u8]) {
        match record::decode_record(value) {
            Ok(Record { ino, inode, home: Some(home), target }) => {
                self.most_ino = self.most_ino.max(ino);
                self.places.insert(ino, EntryLocation::Linked);
                self.linked.insert(ino, Object { ino, inode, home: home.into(), target });
            }
            Ok(_) => self.broken.push((key, "names no home".into())),
            Err(e) => self.broken.push((key, e.to_string())),
        }
    }

    fn name(&mut self, dir: &[u8], name: Vec<u8>, entry: Entry) {
        let (ino, kind) = (entry.ino(), entry.kind());
        self.most_ino = self.most_ino.max(ino);
        let object = match entry {
            Entry::Pointer { .. } => None,
            Entry::Inode(Record { inode, home, target, .. }) => {
                let home = home.map_or_else(|| key::home(dir, inode.is_dir(), &name, ino), Into::into);
                Some(Object { ino, inode, home, target })
            }
        };
        let list = self.entries.entry(dir.to_vec()).or_default();
        if object.is_some() {
            if self.places.contains_key(&ino) {
                self.twice.push((key::entry(dir, &name), ino));
                return;
            }
            self.places.insert(ino, EntryLocation::Entry(dir.to_vec(), list.len()));
        }
        list.push(Named { name, ino, kind, object });
    }

    /// Adds an entry that was not there; returns its key and value.
    pub fn add(&mut self, dir: &[u8], name: Vec<u8>, object: Object) -> (Vec<u8>, Vec<u8>) {
        let made = (key::entry(dir, &name), object.value());
        let list = self.entries.entry(dir.to_vec()).or_default();
        self.places.insert(object.ino, EntryLocation::Entry(dir.to_vec(), list.len()));
        list.push(Named { name, ino: object.ino, kind: object.inode.kind(), object: Some(object) });
        made
    }

    /// A number that nothing has.
    pub fn fresh_ino(&mut self) -> u64 {
        self.most_ino = self.most_ino.max(self.superblock.next_ino - 1) + 1;
        self.most_ino
    }

    /// Every entry with the home of its directory.
    pub fn all_entries(&self) -> impl Iterator<Item = (&[u8], &Named)> {
        self.entries.iter().flat_map(|(home, list)| list.iter().map(|n| (&home[..], n)))
    }

    /// Every inode.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        let named = self.all_entries().filter_map(|(_, n)| n.object.as_ref());
        [&self.root].into_iter().chain(named).chain(self.linked.values())
    }

    /// Every directory.
    pub fn directories(&self) -> impl Iterator<Item = &Object> {
        self.objects().filter(|o| o.inode.is_dir())
    }

    /// The inode `ino` and the key of its record.
    pub fn find(&self, ino: u64) -> Option<(Vec<u8>, &Object)> {
        match self.places.get(&ino)? {
            EntryLocation::Root => Some((key::ROOT_RECORD.to_vec(), &self.root)),
            EntryLocation::Linked => Some((key::linked(ino), self.linked.get(&ino)?)),
            EntryLocation::Entry(home, at) => {
                let named = self.entries.get(home)?.get(*at)?;
                Some((key::entry(home, &named.name), named.object.as_ref()?))
            }
        }
    }

    /// Changes the inode `ino`; returns the key and value of its record.
    pub fn change(&mut self, ino: u64, change: impl FnOnce(&mut Inode)) -> Option<(Vec<u8>, Vec<u8>)> {
        let key = self.find(ino)?.0;
        let object = match self.places.get(&ino)? {
            EntryLocation::Root => &mut self.root,
            EntryLocation::Linked => self.linked.get_mut(&ino)?,
            EntryLocation::Entry(home, at) => self.entries.get_mut(home)?.get_mut(*at)?.object.as_mut()?,
        };
        change(&mut object.inode);
        Some((key, object.value()))
    }
}

/// A key and its value as a line for people.
pub(super) fn describe(key: &[u8], value: &[u8]) -> String {
    let shown = key.escape_ascii();
    let what = match key::parse(key) {
        _ if key == key::SUPERBLOCK => format!("{:?}", Superblock::decode(value)),
        Some((_, HomeKeyKind::Block(n))) => return format!("\"{shown}\" block {n}: {} bytes", value.len()),
        Some((_, HomeKeyKind::Xattr(_))) => format!("attribute of {} bytes", value.len()),
        _ if key.first() == Some(&key::RESERVED) => match decode_reserved(value) {
            Ok((blocks, areas)) => format!("{blocks} blocks reserved, allocated are {areas:?}"),
            Err(e) => e.to_string(),
        },
        _ if key.first() == Some(&key::PLACE) => match key::take_ino(value) {
            Some((dir, name)) => format!("in directory {dir} as \"{}\"", name.escape_ascii()),
            None => "no place".into(),
        },
        _ if key.first() == Some(&key::ORPHAN) => format!("orphan with home \"{}\"", value.escape_ascii()),
        _ => match record::decode(value) {
            Ok(entry) => format!("{entry:?}"),
            Err(e) => e.to_string(),
        },
    };
    format!("\"{shown}\" {what}")
}
