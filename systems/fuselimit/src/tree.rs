//! Inodes, and what is done to them.
//!
//! The kernel holds the lock of a directory while it changes or looks up a name in it, and those of both in a rename. So no
//! function here holds two inodes' locks for a change: each is changed by itself, and there is no order to keep.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use fusewire::wire::{Attr, ROOT, SetAttr, SetTime};

use crate::contents::Contents;
use crate::names::{Names, Target, name_bytes};
use crate::space::Space;

/// Parts of the table of inodes, each with a lock of its own: threads seldom meet at one.
const PARTS: usize = 256;
/// Bytes of memory that an inode is counted as.
pub(crate) const INODE_BYTES: u64 = 512;
/// Bytes of a good unit of I/O.
pub(crate) const UNIT: u32 = 4096;
/// Bytes of the longest name.
pub(crate) const NAME_MAX: usize = 255;

/// A result, with a number of errno(3).
pub(crate) type Result<T> = std::result::Result<T, i32>;
/// Seconds since 1970, nanoseconds.
pub(crate) type Time = (i64, u32);

/// What an inode is.
#[derive(Debug)]
pub(crate) enum Body {
    File(Contents),
    Directory(Names),
    Link(Box<[u8]>),
    /// Pipes, sockets, devices: the kernel does all.
    Special,
}

/// An inode.
#[derive(Debug)]
pub(crate) struct Inode {
    ino: u64,
    mode: u32,
    nlink: u32,
    uid: u32,
    gid: u32,
    rdev: u32,
    atime: Time,
    mtime: Time,
    ctime: Time,
    btime: Time,
    /// So often the kernel has been told of it. While it knows it, somebody may have it open.
    lookups: u64,
    body: Body,
}

type Shared = Arc<RwLock<Inode>>;

/// Who makes something, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct New<'a> {
    /// Type and permissions.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    /// Of a symbolic link.
    pub target: &'a [u8],
}

/// The file system.
#[derive(Debug)]
pub(crate) struct Tree {
    parts: Vec<RwLock<HashMap<u64, Shared>>>,
    last: AtomicU64,
    space: Space,
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs() as i64, since.subsec_nanos())
}

fn read(inode: &Shared) -> RwLockReadGuard<'_, Inode> {
    inode.read().unwrap_or_else(|e| e.into_inner())
}

fn write(inode: &Shared) -> RwLockWriteGuard<'_, Inode> {
    inode.write().unwrap_or_else(|e| e.into_inner())
}

/// Without the set-user-ID bit, and the set-group-ID bit where it means that.
fn without_privileges(mode: u32) -> u32 {
    let group = if mode & libc::S_IXGRP != 0 { libc::S_ISGID } else { 0 };
    mode & !(libc::S_ISUID | group)
}

impl Inode {
    fn new(ino: u64, new: New<'_>, body: Body) -> Inode {
        let time = now();
        let nlink = if matches!(body, Body::Directory(_)) { 2 } else { 1 };
        let New { mode, uid, gid, rdev, .. } = new;
        let (atime, mtime, ctime, btime) = (time, time, time, time);
        Inode { ino, mode, nlink, uid, gid, rdev, atime, mtime, ctime, btime, lookups: 0, body }
    }

    pub fn attr(&self) -> Attr {
        let (size, held) = match &self.body {
            Body::File(contents) => (contents.size(), contents.held()),
            Body::Link(target) => (target.len() as u64, 0),
            Body::Directory(_) => (u64::from(UNIT), 0),
            Body::Special => (0, 0),
        };
        let is_file = matches!(self.body, Body::File(_));
        Attr {
            ino: self.ino,
            size,
            // A mapping may have filled what is empty here, and `tar -S` takes a file without blocks for one hole.
            blocks: held.div_ceil(512).max(u64::from(is_file && size > 0)),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            block_bytes: UNIT,
        }
    }

    /// When it was made.
    pub fn btime(&self) -> Time {
        self.btime
    }

    fn target(&self) -> Target {
        Target { ino: self.ino, mode: self.mode }
    }

    /// Tells the kernel of it.
    fn told(&mut self) -> Attr {
        self.lookups += 1;
        self.attr()
    }

    fn names(&mut self) -> Result<&mut Names> {
        match &mut self.body {
            Body::Directory(names) => Ok(names),
            _ => Err(libc::ENOTDIR),
        }
    }

    fn file(&mut self) -> Result<&mut Contents> {
        match &mut self.body {
            Body::File(contents) => Ok(contents),
            Body::Directory(_) => Err(libc::EISDIR),
            _ => Err(libc::EINVAL),
        }
    }

    fn changed(&mut self) {
        self.mtime = now();
        self.ctime = self.mtime;
    }
}

impl Tree {
    /// An empty one, which holds `most` bytes.
    pub fn new(most: u64) -> Tree {
        let tree = Tree {
            parts: (0..PARTS).map(|_| RwLock::default()).collect(),
            last: AtomicU64::new(ROOT),
            space: Space::new(most),
        };
        let new = New { mode: libc::S_IFDIR | 0o755, uid: 0, gid: 0, rdev: 0, target: b"" };
        tree.add(Inode::new(ROOT, new, Body::Directory(Names::new(ROOT))));
        tree
    }

    pub fn space(&self) -> &Space {
        &self.space
    }

    fn part(&self, ino: u64) -> &RwLock<HashMap<u64, Shared>> {
        &self.parts[ino as usize % PARTS]
    }

    fn add(&self, inode: Inode) {
        let mut part = self.part(inode.ino).write().unwrap_or_else(|e| e.into_inner());
        part.insert(inode.ino, Arc::new(RwLock::new(inode)));
    }

    fn inode(&self, ino: u64) -> Result<Shared> {
        let part = self.part(ino).read().unwrap_or_else(|e| e.into_inner());
        part.get(&ino).cloned().ok_or(libc::ESTALE)
    }

    /// Looks at an inode.
    pub fn with<T>(&self, ino: u64, look: impl FnOnce(&Inode) -> T) -> Result<T> {
        Ok(look(&read(&self.inode(ino)?)))
    }

    /// Changes an inode.
    fn change<T>(&self, ino: u64, change: impl FnOnce(&mut Inode) -> Result<T>) -> Result<T> {
        change(&mut write(&self.inode(ino)?))
    }

    /// Lets go of an inode that has no name and that the kernel does not know.
    fn drop_if_unknown(&self, ino: u64, gone: bool) {
        if !gone {
            return;
        }
        let inode = self.part(ino).write().unwrap_or_else(|e| e.into_inner()).remove(&ino);
        if let Some(inode) = inode {
            self.space.give(INODE_BYTES);
            if let Body::File(contents) = &mut write(&inode).body {
                contents.resize(0, &self.space);
            }
        }
    }

    fn find(&self, parent: u64, name: &[u8]) -> Result<Option<Target>> {
        self.with(parent, |dir| match &dir.body {
            Body::Directory(names) => match name {
                b"." => Ok(Some(dir.target())),
                b".." => Ok(Some(Target { ino: names.parent, mode: libc::S_IFDIR })),
                _ => Ok(names.get(name)),
            },
            _ => Err(libc::ENOTDIR),
        })?
    }

    /// What a name leads to, if it is there.
    pub fn lookup(&self, parent: u64, name: &[u8]) -> Result<Option<Attr>> {
        let Some(target) = self.find(parent, name)? else { return Ok(None) };
        self.change(target.ino, |inode| Ok(inode.told())).map(Some)
    }

    /// Changes what a name of a directory leads to; a directory that comes or goes counts among its links.
    fn put(&self, parent: u64, name: &[u8], target: Option<Target>) -> Result<()> {
        self.change(parent, |dir| {
            let links = |target: Option<Target>| {
                u32::from(target.is_some_and(|target| target.mode & libc::S_IFMT == libc::S_IFDIR))
            };
            let names = dir.names()?;
            let before = names.get(name);
            match target {
                Some(target) => names.put(name, target),
                None => names.remove(name),
            }
            dir.nlink = dir.nlink + links(target) - links(before);
            dir.changed();
            Ok(())
        })
    }

    /// Makes an inode with the name, or none for one that is opened without a name.
    pub fn make(&self, parent: u64, name: Option<&[u8]>, mut new: New<'_>) -> Result<Attr> {
        if name.is_some_and(|name| name.len() > NAME_MAX) {
            return Err(libc::ENAMETOOLONG);
        }
        let (gone, group) = self.with(parent, |dir| (dir.nlink == 0, (dir.mode, dir.gid)))?;
        if gone {
            return Err(libc::ENOENT);
        }
        let kind = new.mode & libc::S_IFMT;
        if group.0 & libc::S_ISGID != 0 {
            new.gid = group.1;
            new.mode |= if kind == libc::S_IFDIR { libc::S_ISGID } else { 0 };
        }
        let body = match kind {
            libc::S_IFREG => Body::File(Contents::default()),
            libc::S_IFDIR => Body::Directory(Names::new(parent)),
            libc::S_IFLNK => Body::Link(new.target.into()),
            _ => Body::Special,
        };
        if let Some(name) = name
            && self.find(parent, name)?.is_some()
        {
            return Err(libc::EEXIST);
        }
        self.space.take(INODE_BYTES + name.map_or(0, name_bytes))?;
        let ino = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut inode = Inode::new(ino, new, body);
        let (attr, target) = (inode.told(), inode.target());
        if name.is_none() {
            inode.nlink = 0;
        }
        self.add(inode);
        match name {
            Some(name) => self.put(parent, name, Some(target)).map(|()| attr),
            None => Ok(Attr { nlink: 0, ..attr }),
        }
    }

    /// Another name of an inode.
    pub fn link(&self, ino: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        if self.find(parent, name)?.is_some() {
            return Err(libc::EEXIST);
        }
        self.space.take(name_bytes(name))?;
        let (attr, target) = self.change(ino, |inode| {
            inode.nlink += 1;
            inode.ctime = now();
            Ok((inode.told(), inode.target()))
        })?;
        self.put(parent, name, Some(target))?;
        Ok(attr)
    }

    /// Takes a name from what it leads to: after that it has one less, a directory none.
    fn unname(&self, target: Target) -> Result<()> {
        let gone = self.change(target.ino, |inode| {
            match &inode.body {
                Body::Directory(names) if !names.is_empty() => return Err(libc::ENOTEMPTY),
                Body::Directory(_) => inode.nlink = 0,
                _ => inode.nlink = inode.nlink.saturating_sub(1),
            }
            inode.ctime = now();
            Ok(inode.nlink == 0 && inode.lookups == 0)
        })?;
        self.drop_if_unknown(target.ino, gone);
        Ok(())
    }

    /// Removes a name: of an empty directory if `directory`, else of anything else.
    pub fn remove(&self, parent: u64, name: &[u8], directory: bool) -> Result<()> {
        let target = self.find(parent, name)?.ok_or(libc::ENOENT)?;
        match (target.mode & libc::S_IFMT == libc::S_IFDIR, directory) {
            (true, false) => return Err(libc::EISDIR),
            (false, true) => return Err(libc::ENOTDIR),
            _ => {}
        }
        self.unname(target)?;
        self.space.give(name_bytes(name));
        self.put(parent, name, None)
    }

    /// Moves a name; `flags` are those of renameat2(2).
    pub fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), flags: u32) -> Result<()> {
        let (no_replace, exchange) = (flags == libc::RENAME_NOREPLACE, flags == libc::RENAME_EXCHANGE);
        if flags != 0 && !no_replace && !exchange {
            return Err(libc::EINVAL);
        }
        let moved = self.find(from.0, from.1)?.ok_or(libc::ENOENT)?;
        let replaced = self.find(to.0, to.1)?;
        if no_replace && replaced.is_some() {
            return Err(libc::EEXIST);
        }
        if exchange {
            let other = replaced.ok_or(libc::ENOENT)?;
            self.put(from.0, from.1, Some(other))?;
            self.moved(other, from.0)?;
        } else {
            if replaced.is_some_and(|replaced| replaced.ino == moved.ino) {
                return Ok(());
            }
            if replaced.is_none() {
                self.space.take(name_bytes(to.1))?;
            }
            replaced.map_or(Ok(()), |replaced| self.unname(replaced))?;
            self.space.give(name_bytes(from.1));
            self.put(from.0, from.1, None)?;
        }
        self.put(to.0, to.1, Some(moved))?;
        self.moved(moved, to.0)
    }

    /// It lies in `parent` now.
    fn moved(&self, target: Target, parent: u64) -> Result<()> {
        self.change(target.ino, |inode| {
            inode.ctime = now();
            if let Body::Directory(names) = &mut inode.body {
                names.parent = parent;
            }
            Ok(())
        })
    }

    /// The kernel has forgotten `lookups` of what it was told.
    pub fn forget(&self, ino: u64, lookups: u64) {
        let gone = self.change(ino, |inode| {
            inode.lookups = inode.lookups.saturating_sub(lookups);
            Ok(inode.nlink == 0 && inode.lookups == 0)
        });
        self.drop_if_unknown(ino, gone == Ok(true));
    }

    pub fn set_attr(&self, ino: u64, set: &SetAttr) -> Result<Attr> {
        let at = |time| match time {
            SetTime::Now => now(),
            SetTime::At(sec, nsec) => (sec, nsec),
        };
        self.change(ino, |inode| {
            if let Some(size) = set.size {
                inode.file()?.resize(size, &self.space);
                inode.mtime = now();
            }
            if let Some(mode) = set.mode {
                inode.mode = inode.mode & libc::S_IFMT | mode & 0o7777;
            }
            if set.kill_priv {
                inode.mode = without_privileges(inode.mode);
            }
            inode.uid = set.uid.unwrap_or(inode.uid);
            inode.gid = set.gid.unwrap_or(inode.gid);
            inode.atime = set.atime.map_or(inode.atime, at);
            inode.mtime = set.mtime.map_or(inode.mtime, at);
            inode.ctime = now();
            Ok(inode.attr())
        })
    }

    pub fn read(&self, ino: u64, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.with(ino, |inode| match &inode.body {
            Body::File(contents) => Ok(contents.read(offset, out)),
            _ => Err(libc::EINVAL),
        })?
    }

    /// Writes; how many bytes. With `kill_priv` privileges go.
    pub fn write(&self, ino: u64, offset: u64, data: &[u8], kill_priv: bool) -> Result<usize> {
        self.change(ino, |inode| {
            let written = inode.file()?.write(offset, data, &self.space)?;
            if kill_priv {
                inode.mode = without_privileges(inode.mode);
            }
            inode.changed();
            Ok(written)
        })
    }

    /// Makes a file at least so long. Memory for it is taken when it is written.
    pub fn extend(&self, ino: u64, size: u64) -> Result<()> {
        self.change(ino, |inode| {
            let contents = inode.file()?;
            let before = contents.size();
            if size.saturating_sub(before) > self.space.left() {
                return Err(libc::ENOSPC);
            }
            if size > before {
                contents.resize(size, &self.space);
                inode.changed();
            }
            Ok(())
        })
    }

    pub fn read_link(&self, ino: u64) -> Result<Vec<u8>> {
        self.with(ino, |inode| match &inode.body {
            Body::Link(target) => Ok(target.to_vec()),
            _ => Err(libc::EINVAL),
        })?
    }

    /// Gives `see` the names behind `place` (with the directory's own number and its parent's) until it wants no more.
    pub fn list(&self, ino: u64, see: impl FnOnce(&Names)) -> Result<()> {
        self.with(ino, |dir| match &dir.body {
            Body::Directory(names) => {
                see(names);
                Ok(())
            }
            _ => Err(libc::ENOTDIR),
        })?
    }

    /// Attributes of an inode that the kernel does not know yet, if `tell` tells it of them.
    pub fn introduce(&self, ino: u64, tell: impl FnOnce(Option<Attr>) -> bool) -> bool {
        let Ok(inode) = self.inode(ino) else { return tell(None) };
        let mut inode = write(&inode);
        if inode.lookups > 0 {
            return tell(None);
        }
        let told = tell(Some(inode.attr()));
        inode.lookups += u64::from(told);
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(kind: u32) -> New<'static> {
        New { mode: kind | 0o755, uid: 0, gid: 0, rdev: 0, target: b"there" }
    }

    #[test]
    fn all_space_comes_back() {
        let tree = Tree::new(1 << 20);
        let before = tree.space.left();
        let dir = tree.make(ROOT, Some(b"d"), new(libc::S_IFDIR)).expect("mkdir").ino;
        let file = tree.make(dir, Some(b"f"), new(libc::S_IFREG)).expect("create").ino;
        assert_eq!(tree.write(file, 70_000, &[7; 5000], false), Ok(5000));
        tree.link(file, ROOT, b"again").expect("link");
        assert_eq!(tree.make(ROOT, Some(b"again"), new(libc::S_IFLNK)), Err(libc::EEXIST));
        let nameless = tree.make(ROOT, None, new(libc::S_IFREG)).expect("open").ino;
        assert_eq!(tree.remove(ROOT, b"d", true), Err(libc::ENOTEMPTY));
        tree.rename((dir, b"f"), (dir, b"renamed"), 0).expect("rename");
        tree.remove(dir, b"renamed", false).expect("unlink");
        tree.remove(ROOT, b"d", true).expect("rmdir");
        assert_eq!(tree.make(dir, Some(b"late"), new(libc::S_IFREG)), Err(libc::ENOENT));
        tree.remove(ROOT, b"again", false).expect("unlink");
        assert_eq!(tree.with(file, |inode| inode.nlink), Ok(0), "the kernel knows it still");
        for (ino, lookups) in [(dir, 1), (file, 2), (nameless, 1)] {
            tree.forget(ino, lookups);
            assert_eq!(tree.with(ino, |_| ()), Err(libc::ESTALE));
        }
        assert_eq!(tree.space.left(), before);
    }

    #[test]
    fn directories_know_their_links_and_where_they_lie() {
        let tree = Tree::new(1 << 20);
        let make =
            |parent, name: &[u8]| tree.make(parent, Some(name), new(libc::S_IFDIR)).expect("mkdir").ino;
        let (a, b) = (make(ROOT, b"a"), make(ROOT, b"b"));
        let c = make(a, b"c");
        let links = || [ROOT, a, b].map(|ino| tree.with(ino, |inode| inode.nlink).expect("is there"));
        assert_eq!(links(), [4, 3, 2]);
        tree.rename((a, b"c"), (b, b"c"), 0).expect("rename");
        assert_eq!(links(), [4, 2, 3]);
        assert_eq!(tree.lookup(c, b"..").expect("look").map(|attr| attr.ino), Some(b));
        tree.make(a, Some(b"f"), new(libc::S_IFREG)).expect("create");
        tree.rename((a, b"f"), (b, b"c"), libc::RENAME_EXCHANGE).expect("exchange");
        assert_eq!(links(), [4, 3, 2]);
        assert_eq!(tree.rename((a, b"f"), (b, b"c"), libc::RENAME_NOREPLACE), Err(libc::EEXIST));
        assert_eq!(tree.rename((a, b"f"), (b, b"w"), libc::RENAME_WHITEOUT), Err(libc::EINVAL));
    }

    #[test]
    fn a_full_one_takes_no_names() {
        let tree = Tree::new(4 * INODE_BYTES);
        let names: Vec<String> = (0..9).map(|number| number.to_string()).collect();
        let made: Vec<_> = names
            .iter()
            .map(|name| tree.make(ROOT, Some(name.as_bytes()), new(libc::S_IFREG)).is_ok())
            .collect();
        assert_eq!(made, [true, true, true, false, false, false, false, false, false]);
        tree.remove(ROOT, b"1", false).expect("unlink");
        tree.forget(3, 1);
        assert!(tree.make(ROOT, Some(b"5"), new(libc::S_IFREG)).is_ok());
    }
}
