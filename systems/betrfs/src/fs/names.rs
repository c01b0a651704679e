//! Finding and making names.

use std::sync::Arc;

use betree::WriteBatch;

use super::{Attr, Fs, now};
use crate::error::{Error, Result};
use crate::key;
use crate::node::{Name, Names, Node, State};
use crate::record::{self, Entry, Inode, LENT, MOVED, Record};

/// Links of one file at most.
const LINKS_MAX: u32 = 1 << 20;
/// Longest target of a symbolic link in bytes.
const TARGET_MAX: usize = 4095;

/// What is to be made.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewFile<'a> {
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group, unless the directory's set-group-ID bit gives its own.
    pub gid: u32,
    /// Device number of a device node.
    pub rdev: u32,
    /// Target of a symbolic link.
    pub target: &'a [u8],
}

/// Refuses what cannot be a name of something new.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > key::NAME_MAX {
        return Err(Error::NameTooLong);
    }
    if name.is_empty() || name == b"." || name == b".." || name.iter().any(|b| matches!(b, 0 | b'/')) {
        return Err(Error::Invalid("not a name"));
    }
    Ok(())
}

/// Refuses what cannot be made under that name.
fn check_new(name: &[u8], new: &NewFile<'_>) -> Result<()> {
    check_name(name)?;
    if new.target.len() > TARGET_MAX { Err(Error::NameTooLong) } else { Ok(()) }
}

impl Fs {
    /// The file called `name` in the directory `parent`; the caller holds it from now on. For `.` the number may be of any
    /// file that has a name: a file handle has nothing else.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDirectory`], [`Error::NameTooLong`], the store's.
    pub fn lookup(&self, parent: u64, name: &[u8]) -> Result<Attr> {
        if name.len() > key::NAME_MAX {
            return Err(Error::NameTooLong);
        }
        if name == b"." {
            return self.hold_by_number(parent);
        }
        let _tree = self.shared();
        let dir = self.node(parent)?;
        if name == b".." {
            dir.dir()?;
            let up = dir.read().names.first().map(|name| name.parent.clone());
            return self.hold_living(up.as_ref().unwrap_or(&dir));
        }
        let hash = self.nodes.hash(&dir, name);
        // Most names are in memory; those who change others in the directory keep its lock for long.
        let known = self.nodes.hold_named(&dir, hash, name, |node, state| Attr::told(node, &state.inode));
        if let Some(attr) = known {
            return Ok(attr);
        }
        let state = dir.read();
        let node = self.child(&dir, &state, name)?.ok_or(Error::NotFound)?;
        self.nodes.hold(&node);
        let attr = Attr::told(&node, &node.read().inode);
        Ok(attr)
    }

    /// Holds a node that was found by its number, if it has a name. (Without, those who held it may be letting it go.)
    pub(super) fn hold_living(&self, node: &Arc<Node>) -> Result<Attr> {
        let state = node.read();
        if state.dead {
            return Err(Error::NotFound);
        }
        self.nodes.hold(node);
        Ok(Attr::told(node, &state.inode))
    }

    /// The node called `name`. `state` is the directory's, locked.
    pub(super) fn child(&self, dir: &Arc<Node>, state: &State, name: &[u8]) -> Result<Option<Arc<Node>>> {
        self.child_by(dir, state, self.nodes.hash(dir, name), name)
    }

    /// The same, with the name's hash.
    fn child_by(&self, dir: &Arc<Node>, state: &State, hash: u64, name: &[u8]) -> Result<Option<Arc<Node>>> {
        let home = dir.dir()?;
        if state.known.as_ref().is_some_and(|known| !known.may_hold(hash)) {
            return Ok(None);
        }
        if let Some(node) = self.nodes.named(dir, hash, name) {
            return Ok(Some(node));
        }
        self.waits();
        match self.db.get(&key::entry(home, name))? {
            Some(value) => self.instantiate(dir, name, record::decode(&value)?).map(Some),
            None => Ok(None),
        }
    }

    /// The node of an entry of `dir`, whose state the caller has locked.
    pub(super) fn instantiate(&self, dir: &Arc<Node>, name: &[u8], entry: Entry) -> Result<Arc<Node>> {
        let here = || Name { parent: dir.clone(), name: name.into() };
        match entry {
            Entry::Inode(record) => self.nodes.get_or(record.ino, || new_node(record, here().into(), false)),
            Entry::Pointer { ino, .. } => {
                let node = self.nodes.get_or(ino, || {
                    let value = self.db.get(&key::linked(ino))?;
                    let value = value.ok_or_else(|| Error::Corrupt(format!("inode {ino} has no record")))?;
                    new_node(record::decode_record(&value)?, Names::default(), true)
                })?;
                let mut state = node.write();
                if !state.names.iter().any(|n| n.parent.ino == dir.ino && *n.name == *name) {
                    state.names.push(here());
                    self.nodes.hold(dir);
                    self.nodes.remember(dir, name, ino);
                }
                drop(state);
                Ok(node)
            }
        }
    }

    /// True if there is something called `name`; `hash` is of that.
    fn exists(&self, dir: &Arc<Node>, state: &State, hash: u64, name: &[u8]) -> Result<bool> {
        if state.known.as_ref().is_some_and(|known| !known.may_hold(hash)) {
            return Ok(false);
        }
        if self.nodes.named(dir, hash, name).is_some() {
            return Ok(true);
        }
        self.waits();
        Ok(self.db.get(&key::entry(dir.dir()?, name))?.is_some())
    }

    /// Makes a file, directory, symbolic link or node; the caller holds it from now on.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NotFound`] if the directory was removed, [`Error::NotDirectory`],
    /// [`Error::NameTooLong`], [`Error::NoSpace`], the store's.
    pub fn make(&self, parent: u64, name: &[u8], new: NewFile<'_>) -> Result<Attr> {
        self.despite_losses(|| self.make_once(parent, name, new))
    }

    fn make_once(&self, parent: u64, name: &[u8], new: NewFile<'_>) -> Result<Attr> {
        check_new(name, &new)?;
        let _tree = self.shared();
        let dir = self.node(parent)?;
        dir.dir()?;
        let mut state = dir.write();
        if state.dead {
            return Err(Error::NotFound);
        }
        let hash = self.nodes.hash(&dir, name);
        if self.exists(&dir, &state, hash, name)? {
            return Err(Error::Exists);
        }
        self.make_here(&dir, &mut state, hash, name, new)
    }

    /// What is called `name` in the directory `parent`, or if there is nothing a new file: the same as [`Fs::lookup`] and then
    /// [`Fs::make`], in one step. The caller holds it from now on.
    ///
    /// # Errors
    /// As [`Fs::make`], but for [`Error::Exists`].
    pub fn find_or_make(&self, parent: u64, name: &[u8], new: NewFile<'_>) -> Result<Attr> {
        self.despite_losses(|| self.find_or_make_once(parent, name, new))
    }

    fn find_or_make_once(&self, parent: u64, name: &[u8], new: NewFile<'_>) -> Result<Attr> {
        check_new(name, &new)?;
        let _tree = self.shared();
        let dir = self.node(parent)?;
        dir.dir()?;
        let hash = self.nodes.hash(&dir, name);
        let known = self.nodes.hold_named(&dir, hash, name, |node, state| Attr::told(node, &state.inode));
        if let Some(attr) = known {
            return Ok(attr);
        }
        let mut state = dir.write();
        if state.dead {
            return Err(Error::NotFound);
        }
        match self.child_by(&dir, &state, hash, name)? {
            Some(node) => {
                self.nodes.hold(&node);
                let attr = Attr::told(&node, &node.read().inode);
                Ok(attr)
            }
            None => self.make_here(&dir, &mut state, hash, name, new),
        }
    }

    /// Makes what is not there. `state` is the directory's, locked.
    fn make_here(
        &self,
        dir: &Arc<Node>,
        state: &mut State,
        hash: u64,
        name: &[u8],
        new: NewFile<'_>,
    ) -> Result<Attr> {
        let ino = self.new_ino()?;
        let inode = new_inode(&new, &state.inode);
        let is_dir = inode.is_dir();
        let mut parent_inode = state.inode.clone();
        parent_inode.entry_added(is_dir, inode.ctime);
        let mut batch = WriteBatch::new();
        batch.put_parts(&key::entry_parts(dir.dir()?, name), &[&record::head(ino, &inode, 0), new.target]);
        key::put_place(&mut batch, ino, dir.ino, name);
        self.put_record(&mut batch, dir, state, &parent_inode)?;
        self.commit(batch)?;
        state.inode = parent_inode;
        state.unsaved = false;
        state.touch(name);
        self.nodes.learn(&mut state.known, hash);
        let record = Record { ino, inode, home: None, target: new.target.into() };
        let mut node = new_node(record, Name { parent: dir.clone(), name: name.into() }.into(), false)?;
        let attr = Attr::told(&node, &node.read().inode);
        if is_dir && self.steps.cond_log {
            node.get_mut().known = Some(self.nodes.no_names());
        }
        self.nodes.add(node, hash);
        Ok(attr)
    }

    /// Makes a file without a name, with the group that one made in the directory `parent` has; the caller holds it from now
    /// on. It goes when they let go, unless [`Fs::link`] has given it a name.
    ///
    /// # Errors
    /// As [`Fs::make`].
    pub fn make_nameless(&self, parent: u64, new: NewFile<'_>) -> Result<Attr> {
        self.despite_losses(|| self.make_nameless_once(parent, new))
    }

    fn make_nameless_once(&self, parent: u64, new: NewFile<'_>) -> Result<Attr> {
        let _tree = self.shared();
        let dir = self.node(parent)?;
        dir.dir()?;
        let inode = {
            let state = dir.read();
            if state.dead {
                return Err(Error::NotFound);
            }
            // No directory's home has its own in it, so it counts as moved from the beginning.
            Inode { nlink: 0, flags: MOVED, ..new_inode(&new, &state.inode) }
        };
        let ino = self.new_ino()?;
        let home = key::nameless_home(ino);
        let mut batch = WriteBatch::new();
        batch.put(&key::orphan(ino), &home);
        self.commit(batch)?;
        let attr = Attr::of(ino, &inode);
        let state = State { inode, home: Some(home.into()), dead: true, linkable: true, ..State::default() };
        let node = self.nodes.get_or(ino, || Ok(Node::new(ino, None, state)))?;
        self.nodes.hold(&node);
        Ok(attr)
    }

    /// Gives the file `ino` another name, or one made without its first; the caller holds it once more.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] for a directory; [`Error::TooManyLinks`]; as [`Fs::make`].
    pub fn link(&self, ino: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        self.despite_losses(|| self.link_once(ino, parent, name))
    }

    fn link_once(&self, ino: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        check_name(name)?;
        let _tree = self.alone();
        let node = self.node(ino)?;
        let dir = self.node(parent)?;
        dir.dir()?;
        let (exists, dir_dead) = {
            let dir_state = dir.read();
            (self.exists(&dir, &dir_state, self.nodes.hash(&dir, name), name)?, dir_state.dead)
        };
        let mut state = node.write();
        if state.inode.is_dir() {
            return Err(Error::NotPermitted);
        }
        let nameless = state.linkable;
        if dir_dead || state.dead && !nameless {
            return Err(Error::NotFound);
        }
        if exists {
            return Err(Error::Exists);
        }
        if state.inode.nlink >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        let now = now();
        let mut inode = state.inode.clone();
        inode.nlink += 1;
        inode.ctime = now;
        let mut batch = WriteBatch::new();
        let mut dir_inode = dir.read().inode.clone();
        dir_inode.entry_added(false, now);
        let mut changing = [(dir.clone(), dir_inode)];
        let moved = self.move_home(&mut batch, &node, &state, &mut inode, &mut changing)?;
        let [(_, dir_inode)] = changing;
        let home = moved.as_deref().or(state.home.as_deref());
        let record = record::encode(ino, &inode, home, &state.target);
        let entry = key::entry(dir.dir()?, name);
        if nameless {
            batch.delete(&key::orphan(ino));
            batch.put(&entry, &record);
            key::put_place(&mut batch, ino, dir.ino, name);
        } else {
            if !state.linked {
                batch.delete(&key::place(ino));
                batch.put(&node.record_key(&state)?, &record::encode_pointer(ino, inode.kind()));
            }
            batch.put(&key::linked(ino), &record);
            batch.put(&entry, &record::encode_pointer(ino, inode.kind()));
        }
        self.put_record(&mut batch, &dir, &dir.read(), &dir_inode)?;
        self.commit(batch)?;
        {
            let mut dir_state = dir.write();
            dir_state.inode = dir_inode;
            dir_state.unsaved = false;
            dir_state.touch(name);
            self.nodes.learn(&mut dir_state.known, self.nodes.hash(&dir, name));
        }
        state.home = moved.or(state.home.take());
        state.inode = inode;
        state.linked = !nameless;
        (state.dead, state.linkable) = (false, false);
        state.unsaved = false;
        state.names.push(Name { parent: dir.clone(), name: name.into() });
        self.nodes.hold(&dir);
        self.nodes.remember(&dir, name, ino);
        self.nodes.hold(&node);
        Ok(Attr::told(&node, &state.inode))
    }

    /// Prepares for `node` to be elsewhere than its home says: marks it moved, returns a file's home, and marks
    /// the directory in whose home it lies as lent. That one's attributes are among `changing` or put into `batch`.
    pub(super) fn move_home(
        &self,
        batch: &mut WriteBatch,
        node: &Node,
        state: &State,
        inode: &mut Inode,
        changing: &mut [(Arc<Node>, Inode)],
    ) -> Result<Option<Box<[u8]>>> {
        if inode.flags & MOVED != 0 {
            return Ok(None);
        }
        inode.flags |= MOVED;
        let home = node.home(state)?;
        let Some(Name { parent: lender, .. }) = state.names.first() else { return Ok(None) };
        if let Some((_, inode)) = changing.iter_mut().find(|(n, _)| n.ino == lender.ino) {
            inode.flags |= LENT;
        } else {
            // Harmless if the batch then fails: the mark only forbids a short cut.
            let mut lender_state = lender.write();
            lender_state.inode.flags |= LENT;
            self.put_record(batch, lender, &lender_state, &lender_state.inode)?;
        }
        Ok((!inode.is_dir()).then(|| home.into()))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is none.
    pub fn read_link(&self, ino: u64) -> Result<Vec<u8>> {
        let node = self.node(ino)?;
        let state = node.read();
        if state.inode.kind() != libc::S_IFLNK {
            return Err(Error::Invalid("not a symbolic link"));
        }
        Ok(state.target.to_vec())
    }
}

impl Inode {
    /// A directory's attributes after an entry was added.
    pub(super) fn entry_added(&mut self, is_dir: bool, now: record::Time) {
        self.size += 1;
        self.nlink += u32::from(is_dir);
        (self.mtime, self.ctime) = (now, now);
        self.new_version();
    }

    /// A directory's attributes after an entry was removed.
    pub(super) fn entry_removed(&mut self, is_dir: bool, now: record::Time) {
        self.size = self.size.saturating_sub(1);
        self.nlink = self.nlink.saturating_sub(u32::from(is_dir));
        (self.mtime, self.ctime) = (now, now);
        self.new_version();
    }
}

pub(super) fn new_inode(new: &NewFile<'_>, parent: &Inode) -> Inode {
    let now = now();
    let mut mode = new.mode;
    let mut gid = new.gid;
    if parent.mode & libc::S_ISGID != 0 {
        gid = parent.gid;
        if mode & libc::S_IFMT == libc::S_IFDIR {
            mode |= libc::S_ISGID;
        }
    }
    let is_dir = mode & libc::S_IFMT == libc::S_IFDIR;
    Inode {
        mode,
        uid: new.uid,
        gid,
        nlink: if is_dir { 2 } else { 1 },
        rdev: new.rdev,
        size: new.target.len() as u64,
        mtime: now,
        ctime: now,
        atime: now,
        btime: now,
        ..Inode::default()
    }
}

pub(super) fn new_node(record: Record, names: Names, linked: bool) -> Result<Node> {
    let Record { ino, inode, home, target } = record;
    let mut state = State { inode, names, linked, target, ..State::default() };
    if !state.inode.is_dir() {
        state.home = home;
        return Ok(Node::new(ino, None, state));
    }
    let home = match (home, state.names.first()) {
        (Some(home), _) => home,
        (None, Some(name)) => key::home(name.parent.dir()?, true, &name.name, ino).into(),
        (None, None) => return Err(Error::Corrupt(format!("directory {ino} is nowhere"))),
    };
    state.inode.new_version();
    Ok(Node::new(ino, Some(home), state))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::time::{Duration, Instant};

    use betree::SimStorage;

    use super::*;
    use crate::fs::Options;

    const ROUNDS: usize = 2000;
    /// How long others may keep the processors from those who look.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Threads that ask for the same names, each of which all find, whoever made it.
    #[test]
    fn what_is_found_or_made_is_one_file_for_all() {
        const THREADS: u64 = 4;
        const NAMES: u64 = 300;
        let storage = SimStorage::new(64 << 20);
        Fs::format(storage.clone(), &Options::with_store(betree::Options::tiny())).expect("format");
        let options = Options { idle_nodes_max: 10, ..Options::with_store(betree::Options::tiny()) };
        let fs = Fs::open(storage.clone(), &options).expect("open");
        let new = |kind| NewFile { mode: kind | 0o755, ..NewFile::default() };
        let dir = fs.find_or_make(key::ROOT, b"dir", new(libc::S_IFDIR)).expect("make");
        let again = fs.find_or_make(key::ROOT, b"dir", new(libc::S_IFREG)).expect("found");
        assert_eq!((again.ino, again.mode), (dir.ino, dir.mode), "what is there stays what it is");
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for n in 0..NAMES {
                        let name = format!("file {n}").into_bytes();
                        let made =
                            fs.find_or_make(dir.ino, &name, new(libc::S_IFREG)).expect("one of both").ino;
                        fs.append(made, b"+").expect("append");
                        fs.forget(made, 1);
                    }
                });
            }
        });
        for n in 0..NAMES {
            let attr = fs.lookup(dir.ino, format!("file {n}").as_bytes()).expect("there");
            assert_eq!(attr.size, THREADS, "{n}");
            fs.forget(attr.ino, 1);
        }
        assert_eq!(fs.attr(dir.ino).expect("held").size, NAMES * 32);
        let bad = [&b""[..], b".", b"..", b"a/b", &[b'n'; 256]];
        assert!(bad.iter().all(|name| fs.find_or_make(dir.ino, name, new(libc::S_IFREG)).is_err()));
        let file = fs.lookup(dir.ino, b"file 0").expect("there").ino;
        let below = fs.find_or_make(file, b"x", new(libc::S_IFREG));
        assert!(matches!(below, Err(Error::NotDirectory)), "{below:?}");
        [file, dir.ino, dir.ino].iter().for_each(|ino| fs.forget(*ino, 1));
        fs.close().expect("close");
        let report = crate::check(storage, false).expect("check");
        assert!(report.is_clean() && report.findings.is_empty(), "{report}");
    }

    /// Names come and go while others look them up, hold, read and let go what they found.
    #[test]
    fn what_a_lookup_found_stays_until_it_is_forgotten() {
        let storage = SimStorage::new(64 << 20);
        let options = Options::with_store(betree::Options::tiny());
        Fs::format(storage.clone(), &options).expect("format");
        let fs = Fs::open(storage.clone(), &options).expect("open");
        let names = [b"one".as_slice(), b"two"];
        let (done, found) = (AtomicBool::new(false), AtomicUsize::new(0));
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let look = || {
                while !done.load(Relaxed) {
                    for name in names {
                        match fs.lookup(1, name) {
                            Ok(attr) => {
                                found.fetch_add(1, Relaxed);
                                let data = fs.read(attr.ino, 0, 100).expect("what is held can be read");
                                assert!(data.is_empty() || data == name);
                                fs.forget(attr.ino, 1);
                            }
                            Err(error) => assert!(matches!(error, Error::NotFound), "{error}"),
                        }
                    }
                }
            };
            scope.spawn(look);
            scope.spawn(look);
            // on a busy machine they may not have had a turn until then
            let goes_on = |round| round < ROUNDS || found.load(Relaxed) == 0 && begin.elapsed() < PATIENCE;
            for round in (0..).take_while(|round| goes_on(*round)) {
                let name = names[round % 2];
                let new = NewFile { mode: libc::S_IFREG | 0o644, ..NewFile::default() };
                let file = fs.make(1, name, new).expect("make").ino;
                fs.write(file, 0, name, false).expect("write");
                fs.forget(file, 1);
                fs.unlink(1, name).expect("unlink");
            }
            done.store(true, Relaxed);
        });
        assert!(found.load(Relaxed) > 0, "nothing was found in {ROUNDS} rounds and {PATIENCE:?}");
        assert_eq!(fs.inodes_in_memory(), 1, "the root");
        fs.close().expect("close");
        let report = crate::check(storage, false).expect("check");
        assert!(report.is_clean() && report.findings.is_empty(), "{report}");
    }
}
