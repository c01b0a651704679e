//! A random walk of operations on a directory and on a model of it in memory.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

/// Largest file in bytes.
const SIZE_MAX: u64 = 400_000;

/// xorshift64*.
pub struct Random(u64);

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
        let mut seed = Random::new(self.below(1 << 40));
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend_from_slice(&seed.below(1 << 53).to_le_bytes());
        }
        out.truncate(len);
        out
    }
}

#[derive(Clone)]
enum Thing {
    File(u64),
    Dir,
    Link(String),
}

/// What one operation came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should be.
    Done,
    /// As it should be, and every operation so far is durable.
    Synced,
    /// The daemon has gone.
    Disconnected,
}

/// The walk of one thread.
pub struct Walk {
    random: Random,
    /// Operations completed.
    pub operation: u64,
    names: BTreeMap<String, Thing>,
    files: BTreeMap<u64, Vec<u8>>,
    next_file: u64,
    /// The last operation, if it was a write: file, content before, offset, what was written.
    write: Option<(u64, Vec<u8>, usize, Vec<u8>)>,
}

type Expected = Result<(), i32>;

fn errno(done: io::Result<()>) -> Result<(), i32> {
    done.map_err(|e| e.raw_os_error().unwrap_or(-1))
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01B3))
}

impl Walk {
    pub fn new(seed: u64, thread: u64) -> Walk {
        let random = Random::new(seed.wrapping_mul(1000) + thread);
        let (names, files) = (BTreeMap::new(), BTreeMap::new());
        Walk { random, operation: 0, names, files, next_file: 0, write: None }
    }

    /// If the last operation was a write: the states in the middle of it. The kernel may make several requests of one
    /// write, divided between pages, and only each of these is atomic.
    pub fn dumps_within(&mut self) -> Vec<String> {
        let Some((id, before, off, bytes)) = self.write.take() else { return Vec::new() };
        let Some(whole) = self.files.get(&id).cloned() else { return Vec::new() };
        let mut dumps = Vec::new();
        let end = off + bytes.len();
        for boundary in (off / 4096 + 1..).map(|page| page * 4096).take_while(|b| *b < end) {
            let mut data = before.clone();
            data.resize(data.len().max(boundary), 0);
            data[off..boundary].copy_from_slice(&bytes[..boundary - off]);
            self.files.insert(id, data);
            dumps.push(self.dump());
        }
        self.files.insert(id, whole);
        dumps
    }

    /// Every name with what lies there, one a line.
    pub fn dump(&self) -> String {
        let mut out = String::new();
        for (name, thing) in &self.names {
            let _ = match thing {
                Thing::Dir => writeln!(out, "{name} dir"),
                Thing::Link(target) => writeln!(out, "{name} link {target}"),
                Thing::File(id) => {
                    let nlink =
                        self.names.values().filter(|t| matches!(t, Thing::File(i) if i == id)).count();
                    let data = &self.files[id];
                    writeln!(out, "{name} file {nlink} {} {:016x}", data.len(), sum(data))
                }
            };
        }
        out
    }

    fn name(&mut self) -> String {
        let leaf = self.random.below(24);
        match self.random.below(4) {
            0 => format!("f{leaf}"),
            n => format!("d{n}/f{leaf}"),
        }
    }

    fn old(&mut self) -> Option<String> {
        let count = self.names.len() as u64;
        if count == 0 {
            return None;
        }
        let at = self.random.below(count) as usize;
        self.names.keys().nth(at).cloned()
    }

    /// The error of making something called `name`, apart from that it may be there.
    fn parent(&self, name: &str) -> Expected {
        match name.split_once('/').map(|(dir, _)| self.names.get(dir)) {
            None | Some(Some(Thing::Dir)) => Ok(()),
            Some(Some(_)) => Err(libc::ENOTDIR),
            Some(None) => Err(libc::ENOENT),
        }
    }

    /// Makes all so far durable.
    pub fn sync(&mut self, at: &Path) -> Result<Outcome, String> {
        match errno(File::open(at).and_then(|d| d.sync_all())) {
            Ok(()) => Ok(Outcome::Synced),
            Err(libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED) => Ok(Outcome::Disconnected),
            Err(e) => Err(format!("fsync of the directory: errno {e}")),
        }
    }

    /// One operation: on the model, and under `at` if given. The error says how they differ.
    pub fn step(&mut self, at: Option<&Path>) -> Result<Outcome, String> {
        self.write = None;
        let (what, expected, done) = match self.random.below(100) {
            0..14 => self.create(at),
            14..44 => self.write(at),
            44..50 => self.truncate(at),
            50..58 => self.remove(at),
            58..68 => self.rename(at),
            68..73 => self.link(at),
            73..77 => self.directory(at),
            77..80 => self.symlink(at),
            80..97 => self.read(at),
            _ => self.fsync(at),
        };
        self.operation += 1;
        match (done, expected) {
            (None, _) => Ok(Outcome::Done),
            (Some(Err(libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED)), _) => {
                Ok(Outcome::Disconnected)
            }
            (Some(done), expected) if done != expected => {
                Err(format!("{what}: expected {expected:?}, seen {done:?}"))
            }
            (Some(Ok(())), _) if what.starts_with("fsync") => Ok(Outcome::Synced),
            _ => Ok(Outcome::Done),
        }
    }

    fn create(&mut self, at: Option<&Path>) -> (String, Expected, Option<Expected>) {
        let name = self.name();
        let expected = self.parent(&name).and_then(|()| match self.names.get(&name) {
            Some(_) => Err(libc::EEXIST),
            None => Ok(()),
        });
        if expected.is_ok() {
            self.names.insert(name.clone(), Thing::File(self.next_file));
            self.files.insert(self.next_file, Vec::new());
            self.next_file += 1;
        }
        let done = at.map(|at| errno(File::create_new(at.join(&name)).map(drop)));
        (format!("create {name}"), expected, done)
    }

    /// A file to work on.
    fn file(&mut self) -> Option<(String, u64)> {
        let name = self.old()?;
        match self.names[&name] {
            Thing::File(id) => Some((name, id)),
            _ => None,
        }
    }

    fn write(&mut self, at: Option<&Path>) -> (String, Expected, Option<Expected>) {
        let Some((name, id)) = self.file() else { return nothing() };
        let len = match self.random.below(4) {
            0 => 1 + self.random.below(16),
            1 => 4096,
            2 => 1 + self.random.below(9000),
            _ => 1 + self.random.below(70_000),
        };
        let append = self.random.below(3) == 0;
        let size = self.files[&id].len() as u64;
        let off = if append { size } else { self.random.below(SIZE_MAX) };
        let bytes = self.random.bytes(len as usize);
        if off + len > SIZE_MAX + 70_000 {
            return nothing();
        }
        let data = self.files.entry(id).or_default();
        if at.is_none() {
            self.write = Some((id, data.clone(), off as usize, bytes.clone()));
        }
        data.resize(data.len().max((off + len) as usize), 0);
        data[off as usize..(off + len) as usize].copy_from_slice(&bytes);
        let done = at.map(|at| {
            let file = File::options().append(append).write(true).open(at.join(&name));
            errno(file.and_then(|mut f| match append {
                true => io::Write::write_all(&mut f, &bytes),
                false => f.write_all_at(&bytes, off),
            }))
        });
        (format!("write {name} {off} {len} append {append}"), Ok(()), done)
    }

    fn truncate(&mut self, at: Option<&Path>) -> (String, Expected, Option<Expected>) {
        let Some((name, id)) = self.file() else { return nothing() };
        let size = self.random.below(2) * self.random.below(SIZE_MAX);
        self.files.entry(id).or_default().resize(size as usize, 0);
        let done = at
            .map(|at| errno(File::options().write(true).open(at.join(&name)).and_then(|f| f.set_len(size))));
        (format!("truncate {name} {size}"), Ok(()), done)
    }

    fn forget(&mut self, name: &str) {
        if let Some(Thing::File(id)) = self.names.remove(name)
            && !self.names.values().any(|t| matches!(t, Thing::File(i) if *i == id))
        {
            self.files.remove(&id);
        }
    }

    fn remove(&mut self, at: Option<&Path>) -> (String, Expected, Option<Expected>) {
        let Some(name) = self.old() else { return nothing() };
        let expected = match self.names[&name] {
            Thing::Dir => Err(libc::EISDIR),
            _ => Ok(()),
        };
        if expected.is_ok() {
            self.forget(&name);
        }
        let done = at.map(|at| errno(fs::remove_file(at.join(&name))));
        (format!("remove {name}"), expected, done)
    }

    fn rename(&mut self, at: Option<&Path>) -> (String, Expected, Option<Expected>) {
        let Some(from) = self.old() else { return nothing() };
        let to = self.name();
        if matches!(self.names[&from], Thing::Dir) {
            return nothing();
        }
        let expected = self.parent(&to).and_then(|()| match self.names.get(&to) {
            Some(Thing::Dir) => Err(libc::EISDIR),
            _ => Ok(()),
        });
        if expected.is_ok() {
            let moved = self.names[&from].clone();
            let same = match (&moved, self.names.get(&to)) {
                (Thing::File(a), Some(Thing::File(b))) => a == b,
                _ => from == to,
            };
            if !same {
                self.forget(&to);
                self.names.remove(&from);
                self.names.insert(to.clone(), moved);
            }
        }
        let done = at.map(|at| errno(fs::rename(at.join(&from), at.join(&to))));
        (format!("rename {from} {to}"), expected, done)
    }

    fn link(&mut self, at: Option<&Path>) -> (String, Expected, Option<Expected>) {
        let Some((from, id)) = self.file() else { return nothing() };
        let to = self.name();
        let expected = self.parent(&to).and_then(|()| match self.names.get(&to) {
            Some(_) => Err(libc::EEXIST),
            None => Ok(()),
        });
        if expected.is_ok() {
            self.names.insert(to.clone(), Thing::File(id));
        }
        let done = at.map(|at| errno(fs::hard_link(at.join(&from), at.join(&to))));
        (format!("link {from} {to}"), expected, done)
    }

    fn directory(&mut self, at: Option<&Path>) -> (String, Expected, Option<Expected>) {
        let name = format!("d{}", 1 + self.random.below(3));
        if self.random.below(4) > 0 {
            let expected = if self.names.contains_key(&name) { Err(libc::EEXIST) } else { Ok(()) };
            self.names.entry(name.clone()).or_insert(Thing::Dir);
            let done = at.map(|at| errno(fs::create_dir(at.join(&name))));
            return (format!("mkdir {name}"), expected, done);
        }
        let inside = format!("{name}/");
        let expected = match self.names.get(&name) {
            None => Err(libc::ENOENT),
            Some(_) if self.names.keys().any(|n| n.starts_with(&inside)) => Err(libc::ENOTEMPTY),
            Some(_) => Ok(()),
        };
        if expected.is_ok() {
            self.names.remove(&name);
        }
        let done = at.map(|at| errno(fs::remove_dir(at.join(&name))));
        (format!("rmdir {name}"), expected, done)
    }

    fn symlink(&mut self, at: Option<&Path>) -> (String, Expected, Option<Expected>) {
        let name = self.name();
        let target = format!("nowhere/{}", self.random.below(1000));
        let expected = self.parent(&name).and_then(|()| match self.names.get(&name) {
            Some(_) => Err(libc::EEXIST),
            None => Ok(()),
        });
        if expected.is_ok() {
            self.names.insert(name.clone(), Thing::Link(target.clone()));
        }
        let done = at.map(|at| errno(symlink(&target, at.join(&name))));
        (format!("symlink {name}"), expected, done)
    }

    fn read(&mut self, at: Option<&Path>) -> (String, Expected, Option<Expected>) {
        let Some((name, id)) = self.file() else { return nothing() };
        let off = self.random.below(SIZE_MAX) as usize;
        let len = 1 + self.random.below(100_000) as usize;
        let whole = self.random.below(8) == 0;
        let data = &self.files[&id];
        let done = at.map(|at| {
            let mut seen = vec![0; if whole { data.len() + 10 } else { len }];
            let off = if whole { 0 } else { off };
            let read = File::open(at.join(&name)).and_then(|f| read_full(&f, &mut seen, off as u64));
            let read = read.map_err(|e| e.raw_os_error().unwrap_or(-1))?;
            let end = (off + seen.len()).min(data.len());
            // -2: the bytes differ.
            if seen[..read] == data[off.min(end)..end] { Ok(()) } else { Err(-2) }
        });
        (format!("read {name} {off} {len} whole {whole} of {}", data.len()), Ok(()), done)
    }

    fn fsync(&mut self, at: Option<&Path>) -> (String, Expected, Option<Expected>) {
        let Some((name, _)) = self.file() else { return nothing() };
        let data = self.random.below(2) == 0;
        let done = at.map(|at| {
            let file = File::options().write(true).open(at.join(&name));
            errno(file.and_then(|f| if data { f.sync_data() } else { f.sync_all() }))
        });
        (format!("fsync {name}"), Ok(()), done)
    }
}

fn nothing() -> (String, Expected, Option<Expected>) {
    (String::new(), Ok(()), None)
}

fn read_full(file: &File, buf: &mut [u8], off: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], off + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

/// What lies under `at`, as [`Walk::dump`] shows it.
pub fn dump(at: &Path) -> io::Result<String> {
    let mut lines = BTreeMap::new();
    let mut left = vec![String::new()];
    while let Some(dir) = left.pop() {
        for item in fs::read_dir(at.join(&dir))? {
            let item = item?;
            let name = format!("{dir}{}", item.file_name().to_string_lossy());
            let meta = fs::symlink_metadata(at.join(&name))?;
            let line = if meta.is_dir() {
                left.push(format!("{name}/"));
                format!("{name} dir")
            } else if meta.is_symlink() {
                format!("{name} link {}", fs::read_link(at.join(&name))?.display())
            } else {
                let data = fs::read(at.join(&name))?;
                format!("{name} file {} {} {:016x}", meta.nlink(), data.len(), sum(&data))
            };
            lines.insert(name, line);
        }
    }
    Ok(lines.into_values().map(|line| line + "\n").collect())
}

/// The lines that only one of two dumps has; None if they are equal.
pub fn difference(expected: &str, found: &str) -> Option<String> {
    let mut out = String::new();
    for (sign, these, others) in [("missing", expected, found), ("found", found, expected)] {
        for line in these.lines().filter(|l| !others.lines().any(|o| o == *l)).take(8) {
            let _ = write!(out, "\n  {sign}: {line}");
        }
    }
    (expected != found).then_some(out)
}
