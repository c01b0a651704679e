//! Random programs on a small model of the kernel: what the follower tells of the calls is what the model did.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const PATHS: [&str; 4] = ["/a", "/b", "/c", "/d"];
const RDWR: u64 = libc::O_RDWR as u64;

#[derive(Debug, Clone)]
enum Step {
    Open {
        who: usize,
        path: usize,
        flags: u64,
    },
    Dup {
        who: usize,
        fd: usize,
        over: Option<i32>,
    },
    Fork {
        who: usize,
    },
    /// It is reported so many steps later, when the number may have its next meaning.
    Close {
        who: usize,
        fd: usize,
        late: usize,
    },
    Transfer {
        who: usize,
        fd: usize,
        write: bool,
        bytes: u64,
        at: Option<u64>,
    },
    Seek {
        who: usize,
        fd: usize,
        to: u64,
    },
    Truncate {
        who: usize,
        fd: usize,
        to: u64,
    },
    Rename {
        who: usize,
        from: usize,
        to: usize,
    },
    Unlink {
        who: usize,
        path: usize,
    },
    Stat {
        who: usize,
        path: usize,
    },
    Exit {
        who: usize,
    },
}

/// An open-file description of the model.
#[derive(Debug)]
struct Description {
    inode: usize,
    position: u64,
    flags: u64,
    references: usize,
    handle: Option<u32>,
    hidden: bool,
}

/// The model: files, names, processes.
struct World {
    sizes: Vec<u64>,
    born: Vec<u64>,
    names: BTreeMap<&'static str, usize>,
    descriptions: Vec<Description>,
    processes: BTreeMap<u32, BTreeMap<i32, usize>>,
    pids: u32,
    now: u64,
    /// The description that was looked up last.
    looked_up: usize,
    closing: Vec<Closing>,
}

/// A close that has happened, but was not reported.
struct Closing {
    pid: u32,
    fd: i32,
    description: usize,
    begin_ns: u64,
    steps: usize,
}

/// What an operation must be; the handle by its description.
#[derive(Debug)]
struct Expected {
    call: Call,
    path: Option<&'static str>,
    to: Option<&'static str>,
    description: Option<usize>,
    offset: u64,
    bytes: u64,
    result: i64,
}

impl World {
    /// Two files, which a process that is seen later has open.
    fn new() -> Self {
        let description = |inode, position, flags| Description {
            inode,
            position,
            flags,
            references: 1,
            handle: None,
            hidden: false,
        };
        let append = RDWR | libc::O_APPEND as u64;
        World {
            sizes: vec![100, 50],
            born: vec![0, 0],
            names: BTreeMap::from([("/a", 0), ("/b", 1)]),
            descriptions: vec![description(0, 10, RDWR), description(1, 50, append)],
            processes: BTreeMap::from([(1, BTreeMap::from([(3, 0), (4, 1)]))]),
            pids: 1,
            now: 1000 * MS,
            looked_up: 0,
            closing: Vec::new(),
        }
    }

    fn pid(&self, who: usize) -> u32 {
        self.processes.keys().nth(who % self.processes.len()).copied().unwrap_or(1)
    }

    fn chosen(&self, pid: u32, which: usize) -> Option<(i32, usize)> {
        let table = self.processes.get(&pid)?;
        table.iter().nth(which % table.len().max(1)).map(|(fd, description)| (*fd, *description))
    }

    fn free(&self, pid: u32) -> i32 {
        (3..).find(|fd| !self.processes[&pid].contains_key(fd)).unwrap()
    }

    fn kind(&self, path: &str) -> FileKind {
        self.names.get(path).map_or(FileKind::Absent, |inode| FileKind::File(self.sizes[*inode]))
    }

    fn raw(&self, pid: u32, number: i64, given: (&[u64], &[&str]), result: i64) -> RawEvent {
        let mut arguments = [0; 6];
        arguments.iter_mut().zip(given.0).for_each(|(to, from)| *to = *from);
        let path = |at: usize| given.1.get(at).map(|path| path.as_bytes().to_vec());
        RawEvent::Call(RawCall {
            pid,
            tid: pid,
            number: number as u32,
            begin_ns: self.now,
            end_ns: self.now + MS,
            arguments,
            result,
            paths: [path(0), path(1)],
        })
    }

    /// Whether the system can no more tell which file it is.
    fn is_hidden(&self, description: usize) -> bool {
        let one = &self.descriptions[description];
        one.hidden || one.handle.is_none() && !self.names.values().any(|inode| *inode == one.inode)
    }

    /// Takes a descriptor away; the close that is told if it was the last and anybody knew of it.
    fn release(&mut self, description: usize) -> Option<Expected> {
        let one = &mut self.descriptions[description];
        one.references -= 1;
        let told = one.references == 0 && one.handle.is_some();
        told.then(|| expected(Call::Close, Some(description), 0, 0, 0))
    }

    /// The next report of a close that is due after so many more steps; at once of all, if need be.
    fn reported(&mut self, all: bool) -> Option<(RawEvent, Vec<Expected>)> {
        let at = self.closing.iter().position(|closing| all || closing.steps == 0)?;
        let Closing { pid, fd, description, begin_ns, .. } = self.closing.remove(at);
        self.now += 2 * MS;
        let RawEvent::Call(raw) = self.raw(pid, libc::SYS_close, (&[fd as u64], &[]), 0) else { return None };
        let told = self.release(description);
        Some((RawEvent::Call(RawCall { begin_ns, ..raw }), told.into_iter().collect()))
    }

    fn run(&mut self, step: &Step) -> Option<(RawEvent, Vec<Expected>)> {
        self.now += 20 * MS;
        match *step {
            Step::Open { who, path, flags } => Some(self.open(self.pid(who), PATHS[path], flags)),
            Step::Dup { who, fd, over } => self.dup(self.pid(who), fd, over),
            Step::Fork { who } => Some((self.fork(self.pid(who)), vec![])),
            Step::Close { who, fd, late } => {
                let pid = self.pid(who);
                let (fd, description) = self.chosen(pid, fd)?;
                self.processes.get_mut(&pid)?.remove(&fd);
                let late = if self.descriptions[description].handle.is_some() { late } else { 0 };
                self.closing.push(Closing { pid, fd, description, begin_ns: self.now, steps: late });
                None
            }
            Step::Transfer { who, fd, write, bytes, at } => {
                self.transfer(self.pid(who), fd, write, bytes, at)
            }
            Step::Seek { who, fd, to } => {
                let pid = self.pid(who);
                let (fd, description) = self.chosen(pid, fd)?;
                self.descriptions[description].position = to;
                Some((self.raw(pid, libc::SYS_lseek, (&[fd as u64, to], &[]), to as i64), vec![]))
            }
            Step::Truncate { who, fd, to } => {
                let pid = self.pid(who);
                let (fd, description) = self.chosen(pid, fd)?;
                if self.is_hidden(description) {
                    return None;
                }
                let one = &self.descriptions[description];
                self.sizes[one.inode] = to;
                let told = expected(Call::Truncate, Some(description), 0, to, 0);
                Some((self.raw(pid, libc::SYS_ftruncate, (&[fd as u64, to], &[]), 0), vec![told]))
            }
            Step::Rename { who, from, to } => Some(self.rename(self.pid(who), PATHS[from], PATHS[to])),
            Step::Unlink { who, path } => {
                let result = if self.names.remove(PATHS[path]).is_some() { 0 } else { -2 };
                Some(self.named(self.pid(who), libc::SYS_unlinkat, Call::Unlink, PATHS[path], result))
            }
            Step::Stat { who, path } => {
                let result = if self.names.contains_key(PATHS[path]) { 0 } else { -2 };
                Some(self.named(self.pid(who), libc::SYS_newfstatat, Call::Stat, PATHS[path], result))
            }
            Step::Exit { who } => self.exit(self.pid(who)),
        }
    }

    fn named(
        &self,
        pid: u32,
        number: i64,
        call: Call,
        path: &'static str,
        result: i64,
    ) -> (RawEvent, Vec<Expected>) {
        let told = Expected { path: Some(path), ..expected(call, None, 0, 0, result) };
        (self.raw(pid, number, (&[CWD], &[path]), result), vec![told])
    }

    fn open(&mut self, pid: u32, path: &'static str, flags: u64) -> (RawEvent, Vec<Expected>) {
        let has = |flag: i32| flags & flag as u64 != 0;
        let raw =
            |world: &World, result| world.raw(pid, libc::SYS_openat, (&[CWD, 0, flags], &[path]), result);
        let failed = |result| Expected { path: Some(path), ..expected(Call::Open, None, 0, 0, result) };
        let inode = match self.names.get(path) {
            Some(_) if has(libc::O_CREAT) && has(libc::O_EXCL) => return (raw(self, -17), vec![failed(-17)]),
            Some(inode) => *inode,
            None if !has(libc::O_CREAT) => return (raw(self, -2), vec![failed(-2)]),
            None => {
                self.sizes.push(0);
                self.born.push(self.now);
                self.names.insert(path, self.sizes.len() - 1);
                self.sizes.len() - 1
            }
        };
        if has(libc::O_TRUNC) {
            self.sizes[inode] = 0;
        }
        let fd = self.free(pid);
        let description = self.descriptions.len();
        let one = Description { inode, position: 0, flags, references: 1, handle: None, hidden: false };
        self.descriptions.push(one);
        self.processes.entry(pid).or_default().insert(fd, description);
        let told = expected(Call::Open, Some(description), 0, 0, i64::from(fd));
        (raw(self, i64::from(fd)), vec![Expected { path: Some(path), ..told }])
    }

    fn dup(&mut self, pid: u32, which: usize, over: Option<i32>) -> Option<(RawEvent, Vec<Expected>)> {
        let (fd, description) = self.chosen(pid, which)?;
        let new = over.unwrap_or_else(|| self.free(pid));
        let (number, second) = if over.is_some() { (libc::SYS_dup2, new as u64) } else { (libc::SYS_dup, 0) };
        let raw = self.raw(pid, number, (&[fd as u64, second], &[]), i64::from(new));
        if new == fd {
            return Some((raw, vec![]));
        }
        self.descriptions[description].references += 1;
        let former = self.processes.get_mut(&pid)?.insert(new, description);
        let told = former.and_then(|former| self.release(former));
        Some((raw, told.into_iter().collect()))
    }

    fn fork(&mut self, parent_pid: u32) -> RawEvent {
        self.pids += 1;
        let table = self.processes[&parent_pid].clone();
        table.values().for_each(|description| self.descriptions[*description].references += 1);
        self.processes.insert(self.pids, table);
        RawEvent::Fork { parent_pid, tid: self.pids, pid: self.pids, at_ns: self.now }
    }

    fn exit(&mut self, pid: u32) -> Option<(RawEvent, Vec<Expected>)> {
        if self.processes.len() == 1 {
            return None;
        }
        let table = self.processes.remove(&pid)?;
        let told = table.values().filter_map(|description| self.release(*description)).collect();
        Some((RawEvent::Exit { pid, tid: pid, at_ns: self.now }, told))
    }

    fn transfer(
        &mut self,
        pid: u32,
        which: usize,
        write: bool,
        bytes: u64,
        at: Option<u64>,
    ) -> Option<(RawEvent, Vec<Expected>)> {
        let (fd, description) = self.chosen(pid, which)?;
        if write && self.is_hidden(description) {
            return None;
        }
        let one = &mut self.descriptions[description];
        let size = &mut self.sizes[one.inode];
        let appends = write && one.flags & libc::O_APPEND as u64 != 0;
        let offset = if appends { *size } else { at.unwrap_or(one.position) };
        let done = if write { bytes } else { bytes.min(size.saturating_sub(offset)) };
        if write && done > 0 {
            *size = (*size).max(offset + done);
        }
        if at.is_none() && done > 0 {
            one.position = offset + done;
        }
        let number = match (write, at.is_some()) {
            (false, false) => libc::SYS_read,
            (false, true) => libc::SYS_pread64,
            (true, false) => libc::SYS_write,
            (true, true) => libc::SYS_pwrite64,
        };
        let call = if write { Call::Write } else { Call::Read };
        let raw = self.raw(pid, number, (&[fd as u64, 0, bytes, at.unwrap_or(0)], &[]), done as i64);
        Some((raw, vec![expected(call, Some(description), offset, bytes, done as i64)]))
    }

    fn rename(&mut self, pid: u32, from: &'static str, to: &'static str) -> (RawEvent, Vec<Expected>) {
        let mut result = -2;
        if let Some(inode) = self.names.remove(from) {
            self.names.insert(to, inode);
            result = 0;
        }
        let told = Expected { path: Some(from), to: Some(to), ..expected(Call::Rename, None, 0, 0, result) };
        (self.raw(pid, libc::SYS_renameat, (&[CWD, 0, CWD], &[from, to]), result), vec![told])
    }
}

fn expected(call: Call, description: Option<usize>, offset: u64, bytes: u64, result: i64) -> Expected {
    Expected { call, path: None, to: None, description, offset, bytes, result }
}

impl Lookup for World {
    fn directory_at_begin(&mut self, _: u32) -> Option<Vec<u8>> {
        None
    }
    fn at_begin(&mut self, _: u32, _: i32) -> Option<Descriptor> {
        None
    }
    fn descriptor(&mut self, pid: u32, fd: i32) -> Descriptor {
        let table = self.processes.get(&pid);
        let Some(description) = table.and_then(|table| table.get(&fd)) else { return Descriptor::Gone };
        self.looked_up = *description;
        let one = &mut self.descriptions[*description];
        let Some((path, _)) = self.names.iter().find(|(_, inode)| **inode == one.inode) else {
            one.hidden = true;
            return Descriptor::Other;
        };
        let (path, flags, position) = (path.as_bytes().to_vec(), one.flags as u32, one.position);
        let seen = Lookup::found(self, &path);
        Descriptor::File(OpenFile { path, flags, position, seen })
    }
    fn directory(&mut self, _: u32) -> Option<Vec<u8>> {
        None
    }
    fn found(&mut self, path: &[u8]) -> Seen {
        let inode = std::str::from_utf8(path).ok().and_then(|path| self.names.get(path));
        inode.map_or(Seen::Absent, |inode| Seen::File {
            size: self.sizes[*inode],
            born_unix_ns: Some(self.born[*inode]),
            device: 1,
            inode: *inode as u64,
        })
    }
    fn name(&mut self, _: u32, _: u32) -> Option<String> {
        None
    }
    fn threads(&mut self, _: u32) -> Vec<u32> {
        vec![]
    }
}

/// What was told so far.
#[derive(Default)]
struct Told {
    paths: Vec<String>,
    handles: u32,
}

impl Told {
    /// Compares what is told of a step with what the model did. `before`: what was at each path.
    fn compare(
        &mut self,
        world: &mut World,
        step: &Step,
        before: &BTreeMap<&str, FileKind>,
        expected: &[Expected],
        items: &[Item],
    ) -> Result<(), TestCaseError> {
        let mut operations = Vec::new();
        let mut inherited = None;
        for item in items {
            match item {
                Item::Path(path) => self.paths.push(String::from_utf8_lossy(path).into_owned()),
                Item::Found { path, kind } => {
                    let path = self.paths[*path as usize].as_str();
                    prop_assert!(is_before(step, path, *kind, before, world), "{path} {kind:?}");
                }
                Item::Inherited { .. } => {
                    inherited = Some(self.handles);
                    self.handles += 1;
                }
                Item::Operation(operation) => operations.push(*operation),
                _ => {}
            }
        }
        if let Some(handle) = inherited {
            let description = &mut world.descriptions[world.looked_up];
            prop_assert_eq!(description.handle, None);
            description.handle = Some(handle);
        }
        let told = |one: &&Expected| one.description.is_none_or(|number| !world.descriptions[number].hidden);
        let expected: Vec<_> = expected.iter().filter(told).collect();
        prop_assert_eq!(operations.len(), expected.len(), "{:?}", operations);
        for (operation, expected) in operations.iter().zip(&expected) {
            self.compare_one(world, operation, expected)?;
        }
        Ok(())
    }

    fn compare_one(
        &mut self,
        world: &mut World,
        operation: &Operation,
        expected: &Expected,
    ) -> Result<(), TestCaseError> {
        let name = |path: Option<u32>| path.map(|path| self.paths[path as usize].as_str());
        prop_assert_eq!(operation.call, expected.call);
        prop_assert_eq!(name(operation.path), expected.path);
        prop_assert_eq!(name(operation.to), expected.to);
        prop_assert_eq!(operation.result, expected.result);
        let where_ = (operation.offset, operation.bytes);
        prop_assert_eq!(where_, (expected.offset, expected.bytes), "{:?}", operation);
        if operation.call == Call::Open && operation.result >= 0 {
            prop_assert_eq!(operation.handle, Some(self.handles));
            self.handles += 1;
            world.descriptions[expected.description.unwrap()].handle = operation.handle;
        }
        let handle = expected.description.and_then(|description| world.descriptions[description].handle);
        prop_assert_eq!(operation.handle, handle);
        Ok(())
    }
}

/// Whether that was at a path before the step, as far as anybody can know afterwards.
fn is_before(
    step: &Step,
    path: &str,
    kind: FileKind,
    before: &BTreeMap<&str, FileKind>,
    world: &World,
) -> bool {
    let truth = before.get(path).copied().unwrap_or(FileKind::Absent);
    let is_file = matches!((truth, kind), (FileKind::File(_), FileKind::File(_)));
    match step {
        Step::Unlink { .. } | Step::Truncate { .. } => kind == truth || is_file,
        Step::Open { flags, .. } if flags & libc::O_TRUNC as u64 != 0 => kind == truth || is_file,
        Step::Transfer { .. } => kind == truth || kind == world.kind(path),
        Step::Rename { to, from, .. } if PATHS[*to] == path && to != from => {
            kind == truth || kind == FileKind::Absent
        }
        _ => kind == truth,
    }
}

fn step() -> impl Strategy<Value = Step> {
    let flag = |flag: i32| prop_oneof![Just(0), Just(flag as u64)];
    let flags = (flag(libc::O_CREAT), flag(libc::O_EXCL), flag(libc::O_TRUNC), flag(libc::O_APPEND));
    let flags = flags.prop_map(|(a, b, c, d)| RDWR | a | b | c | d);
    let (who, fd, path) = (0_usize..8, 0_usize..8, 0..PATHS.len());
    let bytes = prop_oneof![Just(0), 1_u64..200];
    let at = proptest::option::of(0_u64..300);
    let over = proptest::option::of(3_i32..9);
    prop_oneof![
        4 => (who.clone(), path.clone(), flags).prop_map(|(who, path, flags)| Step::Open { who, path, flags }),
        2 => (who.clone(), fd.clone(), over).prop_map(|(who, fd, over)| Step::Dup { who, fd, over }),
        1 => who.clone().prop_map(|who| Step::Fork { who }),
        3 => (who.clone(), fd.clone(), 0_usize..5).prop_map(|(who, fd, late)| Step::Close { who, fd, late }),
        8 => (who.clone(), fd.clone(), any::<bool>(), bytes, at)
            .prop_map(|(who, fd, write, bytes, at)| Step::Transfer { who, fd, write, bytes, at }),
        1 => (who.clone(), fd.clone(), 0_u64..300).prop_map(|(who, fd, to)| Step::Seek { who, fd, to }),
        1 => (who.clone(), fd, 0_u64..300).prop_map(|(who, fd, to)| Step::Truncate { who, fd, to }),
        2 => (who.clone(), path.clone(), path.clone()).prop_map(|(who, from, to)| Step::Rename { who, from, to }),
        1 => (who.clone(), path.clone()).prop_map(|(who, path)| Step::Unlink { who, path }),
        1 => (who.clone(), path).prop_map(|(who, path)| Step::Stat { who, path }),
        1 => who.prop_map(|who| Step::Exit { who }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_is_told_is_what_happened(steps in vec(step(), 0..60)) {
        let (mut world, mut told) = (World::new(), Told::default());
        let mut follower = Follower::new(Options::default());
        for step in steps {
            // What a process has at its begin and end must be clear.
            let all = matches!(step, Step::Fork { .. } | Step::Exit { .. } | Step::Dup { over: Some(_), .. });
            let before = PATHS.iter().map(|path| (*path, world.kind(path))).collect();
            while let Some((event, expected)) = world.reported(all) {
                let mut out = Vec::new();
                follower.event(event, &mut world, &mut out);
                told.compare(&mut world, &step, &before, &expected, &out)?;
            }
            world.closing.iter_mut().for_each(|closing| closing.steps -= 1);
            let Some((event, expected)) = world.run(&step) else { continue };
            let mut out = Vec::new();
            follower.event(event, &mut world, &mut out);
            told.compare(&mut world, &step, &before, &expected, &out)?;
        }
        prop_assert_eq!(follower.counts().unknown, 0);
    }
}
