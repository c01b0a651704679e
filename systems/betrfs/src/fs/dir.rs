//! Reading directories.

use std::sync::{Arc, Mutex};

use super::{Attr, Fs};
use crate::error::Result;
use crate::key;
use crate::node::{Node, State, Touched};
use crate::record::{self, Entry};

/// An entry as a reader of a directory sees it.
#[derive(Clone, Debug)]
pub struct DirItem<'a> {
    /// Name; `.` and `..` are among them.
    pub name: &'a [u8],
    /// Inode number.
    pub ino: u64,
    /// Type, as in `st_mode`.
    pub kind: u32,
    /// Where to go on behind it.
    pub next: u64,
    /// Attributes, if asked for; the caller then holds the inode, unless it is `.` or `..`.
    pub attr: Option<Attr>,
}

/// An open directory: the names that were read, so that an offset means the same name as long as it is open.
#[derive(Debug, Default)]
pub struct DirStream {
    names: Vec<Listed>,
    /// Offsets but 0 begin behind this one.
    base: u64,
    /// The directory's version when its first name was read, or one before.
    version: u64,
    /// The names are all there were with that version.
    complete: bool,
    /// It is one of several, see [`DirStream::numbered`].
    numbered: bool,
    /// A listing of before, from which this one may be made.
    before: Option<Arc<Mutex<DirStream>>>,
}

/// A name that was read, and what it led to.
#[derive(Clone, Debug)]
struct Listed {
    name: Arc<[u8]>,
    ino: u64,
    kind: u32,
}

/// What comes with the entries of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum With {
    Nothing,
    /// The attributes of each, which the caller then holds.
    Attributes,
    /// The same of those only that nobody holds, or whose attributes have changed since they were told last.
    News,
}

/// The first offset behind `.` and `..`.
const FIRST: u64 = 2;
/// Bits for the place of a name in a stream; those above are its number.
const PLACE_BITS: u32 = 32;
/// So many names are read ahead of those that are asked for.
const AHEAD_MAX: usize = 1024;
/// Bits for the number: an offset is a positive 64 bit integer.
const NUMBER_BITS: u32 = 30;

impl DirStream {
    /// One whose offsets are not those of other numbers, for names of this version or a later one. One of `before` may help.
    pub(crate) fn numbered(number: u64, version: u64, before: Option<Arc<Mutex<DirStream>>>) -> DirStream {
        let base = (number % (1 << NUMBER_BITS)) << PLACE_BITS;
        DirStream { base, version, before, numbered: true, ..DirStream::default() }
    }

    /// The number of the stream that an offset, which is not 0, is of.
    pub(crate) fn number_of(off: u64) -> u64 {
        off >> PLACE_BITS
    }

    /// The offset behind `.`, `..` and this many names.
    #[cfg(test)]
    pub(crate) fn offset_of(&self, names: u64) -> u64 {
        self.base + FIRST + names
    }

    /// Names in memory.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

impl Fs {
    /// Reads the directory `ino` from offset `off` (0 begins anew) until `add` returns false; the entry that it
    /// refused will be the first of the next call. With `attrs` every entry comes with its attributes.
    ///
    /// # Errors
    /// [`Error::NotDirectory`](crate::Error::NotDirectory), the store's.
    pub fn read_dir(
        &self,
        ino: u64,
        stream: &mut DirStream,
        off: u64,
        attrs: bool,
        add: &mut dyn FnMut(DirItem<'_>) -> bool,
    ) -> Result<()> {
        if off == 0 {
            *stream = DirStream { version: self.names_version(ino)?, ..DirStream::default() };
        }
        let with = if attrs { With::Attributes } else { With::Nothing };
        self.read_on(ino, stream, off, with, add)
    }

    /// The version of a directory's names: the same as before only if these are.
    pub(crate) fn names_version(&self, ino: u64) -> Result<u64> {
        Ok(self.node(ino)?.read().inode.version)
    }

    /// As [`Fs::read_dir`], but offset 0 is the beginning of what the stream has read, too.
    pub(crate) fn read_on(
        &self,
        ino: u64,
        stream: &mut DirStream,
        off: u64,
        with: With,
        add: &mut dyn FnMut(DirItem<'_>) -> bool,
    ) -> Result<()> {
        let _tree = self.shared();
        let dir = self.node(ino)?;
        let home = dir.dir()?;
        let state = dir.read();
        let base = stream.base;
        let mut at = off.saturating_sub(base);
        while at < FIRST {
            if !add(self.dots(&dir, &state, at, base, with)) {
                return Ok(());
            }
            at += 1;
        }
        if off == 0 && stream.names.is_empty() && stream.numbered {
            self.renew(&dir, &state, stream)?;
        }
        // What was read before. It may have changed since.
        let unchanged = stream.version == state.inode.version;
        while let Some(listed) = stream.names.get((at - FIRST) as usize) {
            let go_on = if unchanged {
                self.show_listed(&dir, listed, base + at + 1, with, add)?
            } else {
                match self.db.get(&key::entry(home, &listed.name))? {
                    Some(value) => {
                        let entry = record::decode(&value)?;
                        self.show(&dir, &listed.name, entry, base + at + 1, with, add)?
                    }
                    None => true,
                }
            };
            if !go_on {
                return Ok(());
            }
            at += 1;
        }
        if unchanged && stream.complete || state.known.is_some() && state.inode.size == 0 {
            return Ok(());
        }
        let rest = match stream.names.last() {
            Some(last) => key::entries_after(home, &last.name),
            None => key::entries(home),
        };
        let mut ahead = None;
        for item in self.db.scan(&rest) {
            let (key, value) = item?;
            let (name, entry) = (&key[home.len() + 1..], record::decode(&value)?);
            let listed = Listed { name: name.into(), ino: entry.ino(), kind: entry.kind() };
            // Behind what this stream has read: the offset is of another one. It is found by counting.
            if ahead.is_none() && stream.names.len() as u64 + FIRST == at {
                if self.show(&dir, name, entry, base + at + 1, with, add)? {
                    at += 1;
                } else {
                    ahead = Some(0);
                }
            }
            // The scan has the next names at hand. Those of which all is in memory need not be read again.
            if let Some(count) = &mut ahead {
                *count += 1;
                if with != With::News || *count > AHEAD_MAX || self.nodes.get(listed.ino).is_none() {
                    return Ok(());
                }
            }
            stream.names.push(listed);
        }
        stream.complete = unchanged;
        Ok(())
    }

    /// Makes a listing of one before, if it is known which names have changed since.
    fn renew(&self, dir: &Arc<Node>, state: &State, stream: &mut DirStream) -> Result<()> {
        let before = stream.before.take();
        let mut touched = state.touched();
        let since = touched.replace(Box::new(Touched::since(state.inode.version)));
        let (Some(before), Some(touched)) = (before, since) else { return Ok(()) };
        // Whoever holds it may wait for the directory.
        let Ok(before) = before.try_lock() else { return Ok(()) };
        if !before.complete || touched.version > before.version {
            return Ok(());
        }
        let mut names = before.names.clone();
        drop(before);
        for name in touched.names {
            let found = names.binary_search_by(|listed| listed.name[..].cmp(&name));
            let there = match self.db.get(&key::entry(dir.dir()?, &name))? {
                Some(value) => {
                    let entry = record::decode(&value)?;
                    Some(Listed { name: (&*name).into(), ino: entry.ino(), kind: entry.kind() })
                }
                None => None,
            };
            match (found, there) {
                (Ok(at), Some(there)) => names[at] = there,
                (Ok(at), None) => _ = names.remove(at),
                (Err(at), Some(there)) => names.insert(at, there),
                (Err(_), None) => {}
            }
        }
        debug_assert!(self.lists_all(dir, &names), "a change of a name in {} was not noted", dir.ino);
        (stream.names, stream.version, stream.complete) = (names, state.inode.version, true);
        Ok(())
    }

    /// Whether these are the names of a directory.
    fn lists_all(&self, dir: &Node, names: &[Listed]) -> bool {
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

    fn dots(&self, dir: &Arc<Node>, state: &State, at: u64, base: u64, with: With) -> DirItem<'static> {
        let (name, node): (&[u8], _) = match (at, state.names.first()) {
            (1, Some(up)) => (b"..", up.parent.clone()),
            (1, None) => (b"..", dir.clone()),
            _ => (b".", dir.clone()),
        };
        // The attributes of `..` would need a lock against the order; nobody looks at them.
        let attr = (with != With::Nothing).then(|| Attr::of(node.ino, &state.inode));
        DirItem { name, ino: node.ino, kind: libc::S_IFDIR, next: base + at + 1, attr }
    }

    /// Shows a name that is as it was when it was read.
    fn show_listed(
        &self,
        dir: &Arc<Node>,
        listed: &Listed,
        next: u64,
        with: With,
        add: &mut dyn FnMut(DirItem<'_>) -> bool,
    ) -> Result<bool> {
        let Listed { name, ino, kind } = listed;
        let item = |attr| DirItem { name, ino: *ino, kind: *kind, next, attr };
        if with == With::Nothing {
            return Ok(add(item(None)));
        }
        if with == With::News
            && let Some(node) = self.nodes.get(*ino)
            && node.is_told(&node.read().inode)
        {
            return Ok(add(item(None)));
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
        with: With,
        add: &mut dyn FnMut(DirItem<'_>) -> bool,
    ) -> Result<bool> {
        let (ino, kind) = (entry.ino(), entry.kind());
        if with == With::Nothing {
            return Ok(add(DirItem { name, ino, kind, next, attr: None }));
        }
        let node = self.instantiate(dir, name, entry)?;
        let state = node.read();
        if with == With::News && node.is_told(&state.inode) {
            return Ok(add(DirItem { name, ino, kind, next, attr: None }));
        }
        self.nodes.hold(&node);
        let attr = Some(Attr::of(ino, &state.inode));
        let taken = add(DirItem { name, ino, kind, next, attr });
        if taken {
            node.tell(&state.inode);
        } else {
            drop(state);
            self.nodes.release(&node, 1);
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use betree::SimStorage;

    use super::*;
    use crate::fs::{NewFile, Options, SetAttr};

    #[test]
    fn a_holder_hears_of_attributes_when_they_are_news() {
        let options = Options::with_store(betree::Options::tiny());
        let storage = SimStorage::new(64 << 20);
        Fs::format(storage.clone(), &options).expect("format");
        let fs = Fs::open(storage, &options).expect("open");
        let new = NewFile { mode: libc::S_IFREG | 0o644, ..NewFile::default() };
        let inos: Vec<u64> = (0..5).map(|n| fs.make(1, &[b'a' + n], new).expect("make").ino).collect();
        let news = |room: usize| {
            let (mut stream, mut told, mut room) = (DirStream::default(), Vec::new(), room);
            fs.read_on(1, &mut stream, 0, With::News, &mut |item| {
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
}
