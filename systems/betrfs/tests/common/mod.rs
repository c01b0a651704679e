//! A model of the file system, random operations on both, and what both look like.
#![allow(dead_code, reason = "each test uses its part")]

pub mod cuts;
mod scatter;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use betree::{Compression, Options as StoreOptions};
use betrfs::{DirStream, Error, Fs, NewFile, Options, RenameMode, SetAttr, Whence};

pub const ROOT: u64 = 1;

/// xorshift64*.
pub struct Random(pub u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) % n
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let first = self.below(250) as u8 + 1;
        (0..len).map(|i| first.wrapping_add((i % 7) as u8).max(1)).collect()
    }
}

pub fn options() -> Options {
    let store = StoreOptions { compression: Compression::None, ..StoreOptions::tiny() };
    let mut options = Options::with_store(store);
    options.idle_nodes_max = 5;
    // For a few of the files.
    options.contents_bytes = 16 << 10;
    options
}

/// As mounts have it: with threads, so that sequential writes are collected.
pub fn threaded() -> Options {
    let mut options = options();
    options.store.background = true;
    options
}

#[derive(Clone, Debug)]
enum What {
    File(Arc<Vec<u8>>),
    Dir(BTreeMap<Vec<u8>, usize>),
    Link(Vec<u8>),
    Fifo,
}

#[derive(Clone, Debug)]
struct Thing {
    what: What,
    mode: u32,
    nlink: u32,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The reference.
#[derive(Clone, Debug)]
pub struct Model {
    things: Vec<Thing>,
}

type Done = Result<(), i32>;
type Path = Vec<Vec<u8>>;

impl Model {
    pub fn new() -> Model {
        let root = Thing { what: What::Dir(BTreeMap::new()), mode: 0o755, nlink: 2, xattrs: BTreeMap::new() };
        Model { things: vec![root] }
    }

    fn dir(&self, at: usize) -> &BTreeMap<Vec<u8>, usize> {
        match &self.things[at].what {
            What::Dir(names) => names,
            _ => panic!("not a directory"),
        }
    }

    fn dir_mut(&mut self, at: usize) -> &mut BTreeMap<Vec<u8>, usize> {
        match &mut self.things[at].what {
            What::Dir(names) => names,
            _ => panic!("not a directory"),
        }
    }

    fn is_dir(&self, at: usize) -> bool {
        matches!(self.things[at].what, What::Dir(_))
    }

    fn resolve(&self, path: &[Vec<u8>]) -> usize {
        path.iter().fold(0, |at, name| self.dir(at)[name])
    }

    /// Paths of all directories, and of all files.
    fn paths(&self) -> (Vec<Path>, Vec<Path>) {
        let (mut dirs, mut files, mut left) = (Vec::new(), Vec::new(), vec![(Vec::new(), 0)]);
        while let Some((path, at)) = left.pop() {
            for (name, child) in self.dir(at) {
                let mut path: Path = path.clone();
                path.push(name.clone());
                if self.is_dir(*child) { left.push((path, *child)) } else { files.push(path) }
            }
            dirs.push(path);
        }
        dirs.sort();
        files.sort();
        (dirs, files)
    }

    fn drop_link(&mut self, at: usize) {
        self.things[at].nlink -= 1;
    }

    fn within(&self, dir: usize, ancestor: usize) -> bool {
        dir == ancestor
            || self.is_dir(ancestor)
                && self.dir(ancestor).values().any(|c| self.is_dir(*c) && self.within(dir, *c))
    }

    fn rename(&mut self, from: usize, name: &[u8], to: usize, new: &[u8], mode: RenameMode) -> Done {
        let node = *self.dir(from).get(name).ok_or(libc::ENOENT)?;
        let target = self.dir(to).get(new).copied();
        if target.is_some() && mode == RenameMode::NoReplace {
            return Err(libc::EEXIST);
        }
        if self.within(to, node) {
            return Err(libc::EINVAL);
        }
        if target == Some(node) {
            return Ok(());
        }
        let subdir = |m: &mut Model, dir: usize, child: usize, by: i32| {
            if m.is_dir(child) {
                m.things[dir].nlink = m.things[dir].nlink.wrapping_add_signed(by);
            }
        };
        if mode == RenameMode::Exchange {
            let other = target.ok_or(libc::ENOENT)?;
            if self.within(from, other) {
                return Err(libc::EINVAL);
            }
            self.dir_mut(from).insert(name.into(), other);
            self.dir_mut(to).insert(new.into(), node);
            for (dir, child, by) in [(from, node, -1), (from, other, 1), (to, other, -1), (to, node, 1)] {
                subdir(self, dir, child, by);
            }
            return Ok(());
        }
        if let Some(target) = target {
            match (self.is_dir(node), self.is_dir(target)) {
                (true, false) => return Err(libc::ENOTDIR),
                (false, true) => return Err(libc::EISDIR),
                (true, true) if !self.dir(target).is_empty() => return Err(libc::ENOTEMPTY),
                _ => {}
            }
            subdir(self, to, target, -1);
            self.drop_link(target);
        }
        subdir(self, from, node, -1);
        subdir(self, to, node, 1);
        self.dir_mut(from).remove(name);
        self.dir_mut(to).insert(new.into(), node);
        Ok(())
    }

    /// All that can be seen.
    pub fn dump(&self) -> String {
        let mut out = Dump::default();
        self.dump_at(&mut out, "", 0);
        out.text
    }

    fn dump_at(&self, out: &mut Dump, path: &str, at: usize) {
        let thing = &self.things[at];
        let (kind, bytes) = match &thing.what {
            What::File(data) => ("file", data.to_vec()),
            What::Dir(_) => ("dir", Vec::new()),
            What::Link(target) => ("link", target.clone()),
            What::Fifo => ("fifo", Vec::new()),
        };
        out.line(path, at as u64, (kind, thing.mode, thing.nlink), &bytes, &thing.xattrs);
        if let What::Dir(names) = &thing.what {
            for (name, child) in names {
                self.dump_at(out, &format!("{path}/{}", String::from_utf8_lossy(name)), *child);
            }
        }
    }
}

/// All that can be seen of a tree. What has several names is told by the first of them: which names are one thing is seen by
/// a change only, and two states that differ in that are two.
#[derive(Default)]
struct Dump {
    text: String,
    /// By number, the first name of what has several.
    first: BTreeMap<u64, String>,
}

impl Dump {
    fn line(
        &mut self,
        path: &str,
        number: u64,
        (kind, mode, nlink): (&str, u32, u32),
        bytes: &[u8],
        xattrs: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) {
        // eight bytes a step: most of a soak's time would be here
        let (words, rest) = bytes.as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        let sum = words
            .chain(rest.iter().map(|b| u64::from(*b)))
            .fold(0u64, |n, word| (n ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
        let xattrs: Vec<_> =
            xattrs.iter().map(|(k, v)| (String::from_utf8_lossy(k), v.len(), v.first())).collect();
        let _ = write!(self.text, "{path} {kind} {mode:o} {nlink} {} {sum:x} {xattrs:?}", bytes.len());
        if nlink > 1 && kind != "dir" {
            let first = self.first.entry(number).or_insert_with(|| path.to_owned());
            let _ = write!(self.text, " is {first}");
        }
        self.text.push('\n');
    }
}

/// What the file system shows; every lookup is given back.
pub fn dump(fs: &Fs) -> String {
    let mut out = Dump::default();
    dump_at(fs, &mut out, "", ROOT);
    out.text
}

fn dump_at(fs: &Fs, out: &mut Dump, path: &str, ino: u64) {
    let attr = fs.attr(ino).expect("attr");
    let (kind, bytes) = match attr.mode & libc::S_IFMT {
        libc::S_IFREG => ("file", fs.read(ino, 0, attr.size as usize + 10).expect("read")),
        libc::S_IFDIR => ("dir", Vec::new()),
        libc::S_IFLNK => ("link", fs.read_link(ino).expect("read_link")),
        _ => ("fifo", Vec::new()),
    };
    let xattrs = fs.xattrs(ino).expect("xattrs").into_iter();
    let xattrs = xattrs.map(|name| (name.clone(), fs.xattr(ino, &name).expect("xattr"))).collect();
    out.line(path, ino, (kind, attr.mode & 0o7777, attr.nlink), &bytes, &xattrs);
    if kind != "dir" {
        return;
    }
    let (mut children, mut stream, mut off) = (Vec::new(), DirStream::default(), 0);
    loop {
        // three at a time, so that going on is tested
        let mut room = 3;
        let before = off;
        fs.read_dir(ino, &mut stream, off, true, &mut |item| {
            if room == 0 {
                return false;
            }
            (room, off) = (room - 1, item.next);
            if item.name != b"." && item.name != b".." {
                let attr = item.attr.expect("attributes");
                assert_eq!(fs.attr(item.ino).expect("held"), attr);
                children.push((item.name.to_vec(), item.ino));
            }
            true
        })
        .expect("read_dir");
        if off == before {
            break;
        }
    }
    assert!(children.is_sorted_by(|a, b| a.0 < b.0), "{children:?}");
    for (name, child) in children {
        dump_at(fs, out, &format!("{path}/{}", String::from_utf8_lossy(&name)), child);
        fs.forget(child, 1);
    }
}

/// A random walk on model and file system.
pub struct World {
    seed: u64,
    pub random: Random,
    pub model: Model,
    /// Files without names that are still held: inode number and content.
    pub held: Vec<(u64, Vec<u8>)>,
    /// A file that is being written from beginning to end, pieces left, and whether these are short.
    burst: Option<(usize, u32, bool)>,
    /// The device may be full: an operation may be refused, and then has no effect.
    pub full: bool,
    /// Operations that were refused for want of space.
    pub refused: u64,
}

fn errno(result: Result<(), Error>) -> Done {
    result.map_err(|e| e.errno())
}

impl World {
    pub fn new(seed: u64) -> World {
        World {
            seed,
            random: Random::new(seed),
            model: Model::new(),
            held: Vec::new(),
            burst: None,
            full: false,
            refused: 0,
        }
    }

    fn pick(&mut self, paths: &[Path]) -> Path {
        paths[self.random.below(paths.len() as u64) as usize].clone()
    }

    fn name(&mut self) -> Vec<u8> {
        match self.random.below(30) {
            0 => vec![b'n'; 200],
            1 => vec![0xFF],
            2 => vec![0x01, 0xFE],
            n => format!("f{}", n / 3).into_bytes(),
        }
    }

    /// Walks to `path`; the caller forgets what is returned.
    pub fn walk(fs: &Fs, path: &[Vec<u8>]) -> Result<Vec<u64>, Error> {
        let mut inos = vec![ROOT];
        for name in path {
            inos.push(fs.lookup(*inos.last().expect("root"), name)?.ino);
        }
        Ok(inos)
    }

    fn leave(fs: &Fs, inos: &[u64]) {
        inos.iter().for_each(|ino| fs.forget(*ino, 1));
    }

    /// One operation on both; panics if they disagree, unless `dying`: then true if the file system has failed.
    pub fn step(&mut self, fs: &Fs, dying: bool) -> bool {
        let (dirs, files) = self.model.paths();
        let before = self.full.then(|| self.model.clone());
        let burst = self.burst.and_then(|(node, left, short)| {
            let path = files.iter().find(|path| self.model.resolve(path) == node)?;
            (left > 0).then(|| (path.clone(), node, left - 1, short))
        });
        let (expected, what, result) = match self.random.below(100) {
            // Short ones are collected only after some in a row.
            n if burst.as_ref().is_some_and(|burst| n < if burst.3 { 95 } else { 75 }) => {
                let (path, node, left, short) = burst.expect("checked");
                self.burst = Some((node, left, short));
                self.append_piece(fs, &path, node, short)
            }
            0..22 => self.make(fs, &dirs),
            22..32 => self.remove(fs, &dirs, &files),
            32..44 => self.rename(fs, &dirs, &files),
            44..50 => self.link(fs, &dirs, &files),
            50..56 => self.held(fs, &files),
            _ if files.is_empty() => return false,
            56..95 => self.change(fs, &files),
            _ => self.attributes(fs, &files),
        };
        self.conclude(fs, before, expected, &what, result, dying)
    }

    /// The end of an operation: as expected, refused for space on a full device (`before` is the model again), or, if
    /// `dying`, true because the file system has failed.
    fn conclude(
        &mut self,
        fs: &Fs,
        before: Option<Model>,
        expected: Done,
        what: &str,
        result: Done,
        dying: bool,
    ) -> bool {
        match result {
            Err(libc::EIO | libc::EROFS) if dying => true,
            Err(libc::ENOSPC) if self.full => {
                let frees = what.contains("rmdir false") || what.contains("held");
                assert!(!frees, "seed {}: {what} on a full device; {:?}", self.seed, fs.store().stats());
                self.model = before.unwrap_or_else(Model::new);
                self.refused += 1;
                false
            }
            _ => {
                let seed = self.seed;
                assert_eq!(result, expected, "seed {seed}: {what}; {:?}", fs.store().stats());
                false
            }
        }
    }

    fn make(&mut self, fs: &Fs, dirs: &[Path]) -> (Done, String, Done) {
        let (path, name, kind) = (self.pick(dirs), self.name(), self.random.below(8));
        let parent = self.model.resolve(&path);
        let target = b"some/where".as_slice();
        let (what, mode, target) = match kind {
            0..4 => (What::File(Arc::default()), libc::S_IFREG | 0o640, &b""[..]),
            4..6 => (What::Dir(BTreeMap::new()), libc::S_IFDIR | 0o750, &b""[..]),
            6 => (What::Link(target.into()), libc::S_IFLNK | 0o777, target),
            _ => (What::Fifo, libc::S_IFIFO | 0o600, &b""[..]),
        };
        let result = Self::walk(fs, &path).and_then(|inos| {
            let made = fs.make(inos[inos.len() - 1], &name, NewFile { mode, target, ..NewFile::default() });
            Self::leave(fs, &inos);
            made.map(|attr| fs.forget(attr.ino, 1))
        });
        let expected = if self.model.dir(parent).contains_key(&name) {
            Err(libc::EEXIST)
        } else {
            let is_dir = matches!(what, What::Dir(_));
            let nlink = if is_dir { 2 } else { 1 };
            self.model.things.push(Thing { what, mode: mode & 0o7777, nlink, xattrs: BTreeMap::new() });
            let new = self.model.things.len() - 1;
            self.model.dir_mut(parent).insert(name.clone(), new);
            self.model.things[parent].nlink += u32::from(is_dir);
            Ok(())
        };
        (expected, format!("make {path:?} {name:?}"), errno(result))
    }

    fn remove(&mut self, fs: &Fs, dirs: &[Path], files: &[Path]) -> (Done, String, Done) {
        let rmdir = self.random.below(2) == 0;
        let mut path =
            if self.random.below(3) == 0 || files.is_empty() { self.pick(dirs) } else { self.pick(files) };
        let name = path.pop().unwrap_or_else(|| b"absent".to_vec());
        let parent = self.model.resolve(&path);
        let result = Self::walk(fs, &path).and_then(|inos| {
            let parent = inos[inos.len() - 1];
            let done = if rmdir { fs.rmdir(parent, &name) } else { fs.unlink(parent, &name) };
            Self::leave(fs, &inos);
            done
        });
        let expected = match self.model.dir(parent).get(&name).copied() {
            None => Err(libc::ENOENT),
            Some(node) => match (rmdir, self.model.is_dir(node)) {
                (true, false) => Err(libc::ENOTDIR),
                (false, true) => Err(libc::EISDIR),
                (true, true) if !self.model.dir(node).is_empty() => Err(libc::ENOTEMPTY),
                (is_dir, _) => {
                    self.model.dir_mut(parent).remove(&name);
                    self.model.things[parent].nlink -= u32::from(is_dir);
                    self.model.drop_link(node);
                    Ok(())
                }
            },
        };
        (expected, format!("remove {path:?} {name:?} rmdir {rmdir}"), errno(result))
    }

    fn rename(&mut self, fs: &Fs, dirs: &[Path], files: &[Path]) -> (Done, String, Done) {
        let mode = match self.random.below(6) {
            0 => RenameMode::NoReplace,
            1 | 2 => RenameMode::Exchange,
            _ => RenameMode::Replace,
        };
        let mut from =
            if self.random.below(2) == 0 || files.is_empty() { self.pick(dirs) } else { self.pick(files) };
        let name = from.pop().unwrap_or_else(|| b"absent".to_vec());
        let (mut to, mut new) = (self.pick(dirs), self.name());
        if self.random.below(3) == 0 && !files.is_empty() {
            to = self.pick(files);
            new = to.pop().expect("a name");
        }
        let result = Self::walk(fs, &from).and_then(|a| {
            let b = Self::walk(fs, &to)?;
            let done = fs.rename(a[a.len() - 1], &name, b[b.len() - 1], &new, mode);
            Self::leave(fs, &a);
            Self::leave(fs, &b);
            done
        });
        let (a, b) = (self.model.resolve(&from), self.model.resolve(&to));
        let expected = self.model.rename(a, &name, b, &new, mode);
        (expected, format!("rename {from:?} {name:?} {to:?} {new:?} {mode:?}"), errno(result))
    }

    fn link(&mut self, fs: &Fs, dirs: &[Path], files: &[Path]) -> (Done, String, Done) {
        if files.is_empty() {
            return (Ok(()), String::new(), Ok(()));
        }
        let (file, to, name) = (self.pick(files), self.pick(dirs), self.name());
        let result = Self::walk(fs, &file).and_then(|a| {
            let b = Self::walk(fs, &to)?;
            let done = fs.link(a[a.len() - 1], b[b.len() - 1], &name);
            Self::leave(fs, &a);
            Self::leave(fs, &b);
            done.map(|attr| fs.forget(attr.ino, 1))
        });
        let (node, dir) = (self.model.resolve(&file), self.model.resolve(&to));
        let expected = if self.model.dir(dir).contains_key(&name) {
            Err(libc::EEXIST)
        } else {
            self.model.dir_mut(dir).insert(name.clone(), node);
            self.model.things[node].nlink += 1;
            Ok(())
        };
        (expected, format!("link {file:?} {to:?} {name:?}"), errno(result))
    }

    /// Unlinks a file that is held, looks at one that was, or lets one go.
    fn held(&mut self, fs: &Fs, files: &[Path]) -> (Done, String, Done) {
        if !self.held.is_empty() && self.random.below(2) == 0 {
            let at = self.random.below(self.held.len() as u64) as usize;
            let (ino, content) = self.held.swap_remove(at);
            let read = fs.read(ino, 0, content.len() + 1);
            let same = read.as_ref().is_ok_and(|read| *read == content);
            fs.forget(ino, 1);
            let result = read.map(|_| assert!(same, "held file {ino} lost its content"));
            return (Ok(()), format!("held {ino}"), errno(result));
        }
        let single = files.iter().find(|f| {
            let thing = &self.model.things[self.model.resolve(f)];
            thing.nlink == 1 && matches!(thing.what, What::File(_))
        });
        let Some(path) = single.cloned() else { return (Ok(()), String::new(), Ok(())) };
        let result = Self::walk(fs, &path).and_then(|inos| {
            fs.unlink(inos[inos.len() - 2], path.last().expect("a name"))?;
            Self::leave(fs, &inos[..inos.len() - 1]);
            let ino = inos[inos.len() - 1];
            let node = self.model.resolve(&path);
            let What::File(data) = &self.model.things[node].what else { unreachable!("a file") };
            let mut data = data.to_vec();
            self.model
                .dir_mut(self.model.resolve(&path[..path.len() - 1]))
                .remove(path.last().expect("a name"));
            // Changes of what has no name any more.
            let len = self.random.below(5000) as usize;
            let more = self.random.bytes(len);
            match fs.append(ino, &more) {
                Ok(count) => data.extend_from_slice(&more[..count]),
                Err(Error::NoSpace) if self.full => {}
                Err(e) => return Err(e),
            }
            self.held.push((ino, data));
            Ok(())
        });
        if result.is_err() {
            // The unlink may have got through.
            let node = self.model.resolve(&path[..path.len() - 1]);
            self.model.dir_mut(node).remove(path.last().expect("a name"));
        }
        (Ok(()), format!("unlink held {path:?}"), errno(result))
    }

    fn change(&mut self, fs: &Fs, files: &[Path]) -> (Done, String, Done) {
        let path = self.pick(files);
        let node = self.model.resolve(&path);
        let What::File(data) = &self.model.things[node].what else {
            return (Ok(()), String::new(), Ok(()));
        };
        let mut data = data.to_vec();
        let far = if self.random.below(10) == 0 { 60_000 } else { 20_000 };
        let off = match self.random.below(4) {
            0 => data.len(),
            _ => self.random.below(far) as usize,
        };
        let off = if self.random.below(3) == 0 { off / 4096 * 4096 } else { off };
        let len = match self.random.below(5) {
            0 => 1 + self.random.below(16),
            1 => 4096,
            2 => 4096 * (1 + self.random.below(12)),
            3 => 1 + self.random.below(6000),
            _ => 1 + self.random.below(20_000),
        } as usize;
        let kind = self.random.below(10);
        if self.random.below(40) == 0 {
            self.burst = Some((node, 20, self.random.below(2) == 0));
        }
        let bytes = self.random.bytes(len);
        let mut expected = Ok(());
        let result = Self::walk(fs, &path).and_then(|inos| {
            let ino = inos[inos.len() - 1];
            let done = match kind {
                0..5 => {
                    let written = fs.write(ino, off as u64, &bytes, false);
                    let bytes = self.taken(&written, &bytes);
                    data.resize(data.len().max(off + bytes.len()), 0);
                    data[off..off + bytes.len()].copy_from_slice(bytes);
                    written.map(drop)
                }
                5 => {
                    let size = if self.random.below(4) == 0 { 0 } else { off };
                    data.resize(size, 0);
                    fs.set_attr(ino, &SetAttr { size: Some(size as u64), ..SetAttr::default() }).map(drop)
                }
                6 | 7 => {
                    let mode = match self.random.below(4) {
                        0 => libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                        1 => libc::FALLOC_FL_ZERO_RANGE,
                        2 => libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
                        _ => 0,
                    };
                    if mode & libc::FALLOC_FL_KEEP_SIZE == 0 {
                        data.resize(data.len().max(off + len), 0);
                    }
                    if mode != 0 {
                        let end = (off + len).min(data.len());
                        data[off.min(end)..end].fill(0);
                    }
                    fs.allocate(ino, mode, off as u64, len as u64)
                }
                8 => fs.read(ino, off as u64, len).map(|read| {
                    let end = (off + len).min(data.len());
                    assert_eq!(read, data[off.min(end)..end], "read {path:?} {off} {len}");
                }),
                _ => {
                    if off >= data.len() {
                        expected = Err(libc::ENXIO);
                    }
                    check_seek(fs, ino, off as u64, &data)
                }
            };
            Self::leave(fs, &inos);
            done
        });
        self.model.things[node].what = What::File(Arc::new(data));
        (expected, format!("change {path:?} {kind} {off} {len}"), errno(result))
    }

    /// Writes a piece at the end, as a program that writes a long file does.
    fn append_piece(&mut self, fs: &Fs, path: &Path, node: usize, short: bool) -> (Done, String, Done) {
        let What::File(data) = &self.model.things[node].what else { unreachable!("a file") };
        let mut data = data.to_vec();
        let len = if short { 1 + self.random.below(6000) as usize } else { 20_480 - data.len() % 4096 };
        let bytes = self.random.bytes(len);
        let off = data.len();
        let written = Self::walk(fs, path).and_then(|inos| {
            let done = fs.write(inos[inos.len() - 1], off as u64, &bytes, false);
            Self::leave(fs, &inos);
            done
        });
        data.extend_from_slice(self.taken(&written, &bytes));
        self.model.things[node].what = What::File(Arc::new(data));
        (Ok(()), format!("piece {path:?} {off}"), errno(written.map(drop)))
    }

    /// Those of `bytes` that are in the file after a write: on a full device what fits, and all if it may have failed halfway.
    fn taken<'b>(&self, written: &Result<usize, Error>, bytes: &'b [u8]) -> &'b [u8] {
        let count = *written.as_ref().unwrap_or(&bytes.len());
        assert!(count == bytes.len() || self.full && count > 0, "{count} of {}", bytes.len());
        &bytes[..count]
    }

    fn attributes(&mut self, fs: &Fs, files: &[Path]) -> (Done, String, Done) {
        let path = self.pick(files);
        let node = self.model.resolve(&path);
        let name = format!("user.{}", self.random.below(3)).into_bytes();
        let kind = self.random.below(4);
        let mode = self.random.below(0o1000) as u32;
        let len = self.random.below(3000) as usize;
        let value = self.random.bytes(len);
        let thing = &mut self.model.things[node];
        let expected = match kind {
            0 => {
                thing.mode = mode;
                Ok(())
            }
            1 | 2 => {
                thing.xattrs.insert(name.clone(), value.clone());
                Ok(())
            }
            _ => thing.xattrs.remove(&name).map(drop).ok_or(libc::ENODATA),
        };
        let result = Self::walk(fs, &path).and_then(|inos| {
            let ino = inos[inos.len() - 1];
            let done = match kind {
                0 => fs.set_attr(ino, &SetAttr { mode: Some(mode), ..SetAttr::default() }).map(drop),
                1 | 2 => fs.set_xattr(ino, &name, &value, false, false),
                _ => fs.remove_xattr(ino, &name),
            };
            Self::leave(fs, &inos);
            done
        });
        (expected, format!("attributes {path:?} {kind}"), errno(result))
    }
}

/// Data that is not zero may not lie in what is said to be a hole.
fn check_seek(fs: &Fs, ino: u64, off: u64, data: &[u8]) -> Result<(), Error> {
    let hole = fs.seek(ino, off, Whence::Hole)?;
    assert!(hole >= off && hole <= data.len() as u64);
    match fs.seek(ino, off, Whence::Data) {
        Ok(at) => {
            assert!(at >= off && data[off as usize..at as usize].iter().all(|b| *b == 0), "data in a hole");
            Ok(())
        }
        Err(Error::BehindEnd) => {
            assert!(data[off as usize..].iter().all(|b| *b == 0), "data in the last hole");
            Ok(())
        }
        Err(e) => Err(e),
    }
}
