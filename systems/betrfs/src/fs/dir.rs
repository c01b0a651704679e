//! Reading directories.
//!
//! A place in a directory is the hash of the name before it, and means "behind that name": names are read in their order, so
//! that whatever comes, goes or moves meanwhile, and whoever else reads, none is left out or seen twice. To go on the name is
//! needed. A stream knows the last one that it showed; where others ended, and names that were removed, are
//! [`super::positions::DirectoryPositions`], as is near which name any other place lies that was given lately. The rest is found by
//! reading the directory's names, but not all of a large one: anybody can ask for places that nobody gave.

use std::sync::{Arc, RwLockReadGuard};

use super::listings::{FIRST, ListedName, place_behind};
use super::{Attr, Fs};
use crate::error::{Error, Result};
use crate::key;
use crate::node::{Node, State};
use crate::record::{self, Entry};

/// Names that are read to find the place that somebody asks for: some 20 ms.
const SOUGHT_MAX: usize = 1 << 16;

/// An entry as a reader of a directory sees it.
#[derive(Clone, Debug)]
pub struct DirItem<'a> {
    /// Name; `.` and `..` are among them.
    pub name: &'a [u8],
    /// Inode number.
    pub ino: u64,
    /// Type, as in `st_mode`.
    pub kind: u32,
    /// Where to go on behind it: a place that stays this name's, in any stream, whatever else comes and goes.
    pub next: u64,
    /// Attributes, if asked for; the caller then holds the inode, unless it is `.` or `..`.
    pub attr: Option<Attr>,
}

/// An open directory: where its reader is, so that it can go on there whatever happens to the name.
#[derive(Debug, Default)]
pub struct DirStream {
    place: u64,
    name: Box<[u8]>,
}

/// What comes with the entries of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttrMode {
    Nothing,
    /// The attributes of each, which the caller then holds.
    Attributes,
    /// The same of those only that nobody holds, or whose attributes have changed since they were told last.
    News,
}

impl Fs {
    /// Reads the directory `ino` from offset `off` (0 is the beginning) until `add` returns false; the entry that it refused
    /// will be the first of the next call. With `attrs` every entry comes with its attributes.
    ///
    /// # Errors
    /// [`Error::NotDirectory`]; [`Error::Invalid`] for an offset that was never given, whose name was removed long ago, many
    /// others after it, or that was given long ago or in another mount and lies behind 65,536 names; the store's.
    pub fn read_dir(
        &self,
        ino: u64,
        stream: &mut DirStream,
        off: u64,
        attrs: bool,
        add: &mut dyn FnMut(DirItem<'_>) -> bool,
    ) -> Result<()> {
        let with = if attrs { AttrMode::Attributes } else { AttrMode::Nothing };
        self.read_on(ino, stream, off, with, add)
    }

    /// As [`Fs::read_dir`], with more to choose from.
    pub(crate) fn read_on(
        &self,
        ino: u64,
        stream: &mut DirStream,
        off: u64,
        with: AttrMode,
        add: &mut dyn FnMut(DirItem<'_>) -> bool,
    ) -> Result<()> {
        let _tree = self.shared();
        let dir = self.node(ino)?;
        let home = dir.dir()?;
        let state = dir.read();
        for at in off..FIRST {
            if !add(self.dots(&dir, &state, at, with)) {
                return Ok(());
            }
        }
        if state.known.is_some() && state.inode.size == 0 {
            return Ok(());
        }
        let again = dir.note_listed();
        let behind = self.behind(&dir, home, stream, off)?;
        if let Some(listing) = self.listing(&dir, &state, off, again)? {
            let names = listing.behind(behind.as_deref());
            // A listing does not have attributes, which a scan of the store finds beside the names.
            let is_known = |listed: &ListedName| self.nodes.get(listed.ino).is_some();
            if with == AttrMode::Nothing || names.first().is_none_or(is_known) {
                return self.read_listing(&dir, names, stream, with, add);
            }
        }
        let rest = match &behind {
            Some(name) => key::entries_after(home, name),
            None => key::entries(home),
        };
        let mut last = None;
        let mut places = Vec::new();
        for item in self.db.scan(&rest) {
            let show = || {
                let (key, value) = item?;
                let name = &key[home.len() + 1..];
                let place = place_behind(name);
                let is_shown = self.show(&dir, name, record::decode(&value)?, place, with, add)?;
                Ok(is_shown.then_some((place, key)))
            };
            match show() {
                Ok(None) => break,
                Ok(shown) => {
                    places.extend(shown.as_ref().map(|(place, _)| *place));
                    last = shown;
                }
                // Those that were shown are held by whoever asked, who must hear of them: the next read begins with the error.
                Err(_) if last.is_some() => break,
                Err(error) => return Err(error),
            }
        }
        if let Some((place, key)) = last {
            let name = &key[home.len() + 1..];
            self.marks.note(ino, place, name);
            self.marks.note_read(ino, behind, places);
            *stream = DirStream { place, name: name.into() };
        }
        Ok(())
    }

    /// The name before offset `off`; none at the beginning.
    fn behind(&self, dir: &Node, home: &[u8], stream: &DirStream, off: u64) -> Result<Option<Box<[u8]>>> {
        if off <= FIRST {
            return Ok(None);
        }
        if stream.place == off {
            return Ok(Some(stream.name.clone()));
        }
        if let Some(name) = self.marks.name(dir.ino, off) {
            return Ok(Some(name));
        }
        // Where it was given first: it is still so near, unless very many names came.
        let near = self.marks.read_with(dir.ino, off).map(|behind| match behind {
            Some(name) => key::entries_after(home, &name),
            None => key::entries(home),
        });
        let mut entries = self.db.scan(&near.unwrap_or_else(|| key::entries(home)));
        for _ in 0..SOUGHT_MAX {
            let Some(key) = entries.next_key() else { break };
            let key = key?;
            let name = &key[home.len() + 1..];
            if place_behind(name) == off {
                return Ok(Some(name.into()));
            }
        }
        Err(Error::Invalid("no such place in the directory"))
    }

    /// Reads these names of a listing, which is as the directory is.
    fn read_listing(
        &self,
        dir: &Arc<Node>,
        names: &[ListedName],
        stream: &mut DirStream,
        with: AttrMode,
        add: &mut dyn FnMut(DirItem<'_>) -> bool,
    ) -> Result<()> {
        let mut last = None;
        for listed in names {
            match self.show_listed(dir, listed, with, add) {
                Ok(true) => last = Some(listed),
                Ok(false) => break,
                Err(_) if last.is_some() => break,
                Err(error) => return Err(error),
            }
        }
        if let Some(ListedName { name, place, .. }) = last {
            self.marks.note(dir.ino, *place, name);
            *stream = DirStream { place: *place, name: (**name).into() };
        }
        Ok(())
    }

    /// Notes that a name of `dir` goes: who has read it may go on behind it.
    pub(super) fn mark_gone(&self, dir: &Node, name: &[u8]) {
        if dir.is_listed() {
            self.marks.note(dir.ino, place_behind(name), name);
        }
    }

    fn dots(&self, dir: &Arc<Node>, state: &State, at: u64, with: AttrMode) -> DirItem<'static> {
        let (name, node): (&[u8], _) = match (at, state.names.first()) {
            (1, Some(up)) => (b"..", up.parent.clone()),
            (1, None) => (b"..", dir.clone()),
            _ => (b".", dir.clone()),
        };
        // The attributes of `..` would need a lock against the order; nobody looks at them.
        let attr = (with != AttrMode::Nothing).then(|| Attr::of(node.ino, &state.inode));
        DirItem { name, ino: node.ino, kind: libc::S_IFDIR, next: at + 1, attr }
    }

    /// Shows a name that is as it was when it was read.
    fn show_listed(
        &self,
        dir: &Arc<Node>,
        listed: &ListedName,
        with: AttrMode,
        add: &mut dyn FnMut(DirItem<'_>) -> bool,
    ) -> Result<bool> {
        let ListedName { name, place, ino, kind } = listed;
        let next = *place;
        let item = |attr| DirItem { name, ino: *ino, kind: *kind, next, attr };
        if with == AttrMode::Nothing {
            return Ok(add(item(None)));
        }
        if let Some(node) = self.nodes.get(*ino) {
            let state = node.read();
            if state.names.iter().any(|known| known.parent.ino == dir.ino && *known.name == **name) {
                return Ok(self.show_node(&node, state, item(None), with, add));
            }
        }
        match self.db.get(&key::entry(dir.dir()?, name))? {
            Some(value) => self.show(dir, name, record::decode(&value)?, next, with, add),
            None => Ok(true),
        }
    }

    fn show(
        &self,
        dir: &Arc<Node>,
        name: &[u8],
        entry: Entry,
        next: u64,
        with: AttrMode,
        add: &mut dyn FnMut(DirItem<'_>) -> bool,
    ) -> Result<bool> {
        let (ino, kind) = (entry.ino(), entry.kind());
        if with == AttrMode::Nothing {
            return Ok(add(DirItem { name, ino, kind, next, attr: None }));
        }
        let node = self.instantiate(dir, name, entry)?;
        Ok(self.show_node(&node, node.read(), DirItem { name, ino, kind, next, attr: None }, with, add))
    }

    /// Shows a node's name, with its attributes, which are in its `state`, if they are asked for.
    fn show_node(
        &self,
        node: &Arc<Node>,
        state: RwLockReadGuard<'_, State>,
        item: DirItem<'_>,
        with: AttrMode,
        add: &mut dyn FnMut(DirItem<'_>) -> bool,
    ) -> bool {
        if with == AttrMode::News && node.is_told(&state.inode) {
            return add(item);
        }
        self.nodes.hold(node);
        let taken = add(DirItem { attr: Some(Attr::of(node.ino, &state.inode)), ..item });
        if taken {
            node.tell(&state.inode);
        } else {
            drop(state);
            self.nodes.release(node, 1);
        }
        taken
    }
}

#[cfg(test)]
pub(super) mod tests {
    use betree::SimStorage;

    use super::*;
    use crate::fs::{NewFile, Options, SetAttr};

    /// A file system with the files `a` to `e` in its root, which are held.
    pub fn five_files() -> (Fs, Vec<u64>) {
        let options = Options::with_store(betree::Options::tiny());
        let storage = SimStorage::new(64 << 20);
        Fs::format(storage.clone(), &options).expect("format");
        let fs = Fs::open(storage, &options).expect("open");
        let new = NewFile { mode: libc::S_IFREG | 0o644, ..NewFile::default() };
        let inos: Vec<u64> = (0..5).map(|n| fs.make(1, &[b'a' + n], new).expect("make").ino).collect();
        (fs, inos)
    }

    #[test]
    fn a_holder_hears_of_attributes_when_they_are_news() {
        let (fs, inos) = five_files();
        let news = |room: usize| {
            let (mut stream, mut told, mut room) = (DirStream::default(), Vec::new(), room);
            fs.read_on(1, &mut stream, 0, AttrMode::News, &mut |item| {
                let taken = room > 0 || item.name.starts_with(b".");
                room = room.saturating_sub(usize::from(!item.name.starts_with(b".")));
                if taken && !item.name.starts_with(b".") {
                    told.extend(item.attr.map(|attr| (attr.ino, attr.size)));
                }
                taken
            })
            .expect("read_dir");
            told
        };
        assert_eq!(news(9), [], "who made them knows them");
        fs.write(inos[1], 0, b"longer", false).expect("write");
        fs.set_attr(inos[2], &SetAttr { size: Some(9), ..SetAttr::default() }).expect("its answer tells");
        fs.forget(inos[3], 1);
        assert_eq!(news(1), [], "no room for any but the first");
        assert_eq!(news(9), [(inos[1], 6), (inos[3], 0)]);
        assert_eq!(news(9), []);
    }

    /// Places of a directory that is larger than what is searched: those that were given are found, one that nobody gave costs no
    /// search of all of it.
    #[test]
    fn a_place_that_nobody_gave_is_not_sought_in_all_of_a_large_directory() {
        const NAMES: usize = SOUGHT_MAX + 3000;
        let storage = SimStorage::new(256 << 20);
        let options = Options::default();
        Fs::format(storage.clone(), &options).expect("format");
        let fs = Fs::open(storage.clone(), &options).expect("open");
        let name = |n: usize| format!("{n:06}");
        let new = NewFile { mode: libc::S_IFREG | 0o644, ..NewFile::default() };
        for n in 0..NAMES {
            let ino = fs.make(1, name(n).as_bytes(), new).expect("make").ino;
            fs.forget(ino, 1);
        }
        let read = |stream: &mut DirStream, off: u64, room: usize| {
            let mut found = Vec::new();
            let add = &mut |item: DirItem<'_>| {
                found.push((String::from_utf8_lossy(item.name).into_owned(), item.next));
                found.len() < room
            };
            fs.read_dir(1, stream, off, false, add).map(|()| found)
        };
        let behind = |n: usize| place_behind(name(n).as_bytes());
        // Some were given in the middle of a read, here and there.
        let (mut stream, mut given) = (DirStream::default(), Vec::new());
        let mut off = 0;
        loop {
            let mut found = read(&mut stream, off, 500).expect("read");
            // The last one was refused.
            if found.len() == 500 {
                found.pop();
            }
            let Some((_, next)) = found.last() else { break };
            off = *next;
            given.push(found[found.len() / 2].clone());
        }
        assert!(given.len() > NAMES / 500);
        for (name, next) in &given {
            let found = read(&mut DirStream::default(), *next, 1).expect("a place that was given");
            assert!(found.first().is_none_or(|(next, _)| next > name), "{found:?} behind {name}");
        }
        fs.close().expect("close");

        let fs = Fs::open(storage, &options).expect("open");
        let sought = |n: usize| fs.read_dir(1, &mut DirStream::default(), behind(n), false, &mut |_| false);
        sought(SOUGHT_MAX - 1).expect("it is found in any mount");
        let far = sought(NAMES - 1);
        assert!(matches!(far, Err(Error::Invalid(_))), "{far:?}");
    }
}
