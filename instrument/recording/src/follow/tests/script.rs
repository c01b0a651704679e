//! A script of events, and what is told of them in a few words.

use std::collections::HashMap;

use super::*;
use crate::format::{Header, Reader, Writer};

/// What the system would say.
#[derive(Default)]
pub(super) struct Table {
    pub(super) found: HashMap<Vec<u8>, Seen>,
    pub(super) descriptors: HashMap<(u32, i32), Descriptor>,
    pub(super) at_begin: HashMap<(u32, i32), Descriptor>,
    pub(super) directories: HashMap<u32, Vec<u8>>,
    pub(super) asked: Vec<String>,
}

impl Lookup for Table {
    fn directory_at_begin(&mut self, pid: u32) -> Option<Vec<u8>> {
        self.directories.get(&pid).cloned()
    }
    fn at_begin(&mut self, pid: u32, fd: i32) -> Option<Descriptor> {
        self.at_begin.get(&(pid, fd)).cloned()
    }
    fn descriptor(&mut self, pid: u32, fd: i32) -> Descriptor {
        self.asked.push(format!("descriptor {pid} {fd}"));
        self.descriptors.get(&(pid, fd)).cloned().unwrap_or(Descriptor::Gone)
    }
    fn directory(&mut self, _: u32) -> Option<Vec<u8>> {
        Some(b"/home".to_vec())
    }
    fn found(&mut self, path: &[u8]) -> Seen {
        self.asked.push(format!("found {}", String::from_utf8_lossy(path)));
        self.found.get(path).cloned().unwrap_or(Seen::Absent)
    }
    fn name(&mut self, _: u32, tid: u32) -> Option<String> {
        Some(format!("t{tid}"))
    }
    fn threads(&mut self, _: u32) -> Vec<u32> {
        Vec::new()
    }
}

/// Events one after another.
pub(super) struct Script {
    pub(super) follower: Follower,
    pub(super) table: Table,
    pub(super) out: Vec<Item>,
    pub(super) now: u64,
    pub(super) told: usize,
}

pub(super) fn file(size: u64, inode: u64) -> Seen {
    Seen::File { size, born_unix_ns: Some(0), device: 1, inode }
}

pub(super) fn open_file(path: &str, flags: u64, position: u64, seen: Seen) -> Descriptor {
    Descriptor::File(OpenFile { path: path.into(), flags: flags as u32, position, seen })
}

impl Script {
    pub(super) fn new() -> Self {
        Script::with(Options::default())
    }

    pub(super) fn with(options: Options) -> Self {
        let now = 1000 * MS;
        Script { follower: Follower::new(options), table: Table::default(), out: Vec::new(), now, told: 0 }
    }

    pub(super) fn has(mut self, path: &str, seen: Seen) -> Self {
        self.table.found.insert(path.into(), seen);
        self
    }

    pub(super) fn event(&mut self, event: RawEvent) {
        self.follower.event(event, &mut self.table, &mut self.out);
    }

    /// A call of thread `tid` in process `pid` between two times.
    pub(super) fn at(
        &mut self,
        times: (u64, u64),
        who: (u32, u32),
        number: i64,
        given: (&[u64], &[&str]),
        result: i64,
    ) {
        let mut arguments = [0; 6];
        arguments.iter_mut().zip(given.0).for_each(|(to, from)| *to = *from);
        let path = |at: usize| given.1.get(at).map(|path| path.as_bytes().to_vec());
        let raw = RawCall {
            pid: who.0,
            tid: who.1,
            number: number as u32,
            begin_ns: times.0,
            end_ns: times.1,
            arguments,
            result,
            paths: [path(0), path(1)],
        };
        self.event(RawEvent::Call(raw));
    }

    pub(super) fn call(&mut self, pid: u32, number: i64, given: (&[u64], &[&str]), result: i64) {
        self.now += 20 * MS;
        self.at((self.now, self.now + MS), (pid, pid), number, given, result);
    }

    pub(super) fn open(&mut self, pid: u32, path: &str, flags: u64, result: i64) {
        self.call(pid, libc::SYS_openat, (&[CWD, 0, flags], &[path]), result);
    }

    pub(super) fn on(&mut self, pid: u32, number: i64, arguments: &[u64], result: i64) {
        self.call(pid, number, (arguments, &[]), result);
    }

    pub(super) fn fork(&mut self, parent_pid: u32, pid: u32) {
        self.now += MS;
        self.event(RawEvent::Fork { parent_pid, tid: pid, pid, at_ns: self.now });
    }

    pub(super) fn exit(&mut self, pid: u32, tid: u32) {
        self.now += MS;
        self.event(RawEvent::Exit { pid, tid, at_ns: self.now });
    }

    pub(super) fn exec(&mut self, pid: u32, name: &str) {
        self.now += MS;
        self.event(RawEvent::Exec { pid, name: name.into(), at_ns: self.now });
    }

    /// Operations and what was found, since the last time, each in a few words.
    pub(super) fn tells(&mut self, expected: &[&str]) {
        assert_eq!(round_trip(&self.out), self.out);
        let words = words(&self.out);
        let kept = |line: &&String| !line.starts_with("thread") && !line.starts_with("path");
        let new: Vec<_> = words[self.told..].iter().filter(kept).collect();
        self.told = words.len();
        assert_eq!(new, expected);
    }
}

/// Items as their reader hands them over.
pub(super) fn round_trip(items: &[Item]) -> Vec<Item> {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    items.iter().for_each(|item| writer.push(item).unwrap());
    let bytes = writer.finish(Summary::default()).unwrap();
    let mut items: Vec<Item> = Reader::new(&bytes[..]).unwrap().collect::<Result<_, _>>().unwrap();
    items.pop();
    items
}

pub(super) fn words(items: &[Item]) -> Vec<String> {
    let mut paths = Vec::new();
    items.iter().map(|item| word(item, &mut paths)).collect()
}

fn word(item: &Item, paths: &mut Vec<String>) -> String {
    match item {
        Item::Thread { tid, pid, name } => format!("thread {pid}/{tid} {name}"),
        Item::Path(path) => {
            paths.push(String::from_utf8_lossy(path).into_owned());
            format!("path {}", String::from_utf8_lossy(path))
        }
        Item::Found { path, kind } => format!("{}: {kind:?}", paths[*path as usize]),
        Item::Inherited { path, .. } => format!("inherited {}", paths[*path as usize]),
        Item::Operation(operation) => word_of_operation(operation, paths),
        other => format!("{other:?}"),
    }
}

fn word_of_operation(operation: &Operation, paths: &[String]) -> String {
    let mut word = operation.call.name().to_string();
    let mut add = |text: String| word.push_str(&text);
    operation.path.into_iter().for_each(|path| add(format!(" {}", paths[path as usize])));
    operation.to.into_iter().for_each(|path| add(format!(" > {}", paths[path as usize])));
    operation.handle.into_iter().for_each(|handle| add(format!(" h{handle}")));
    if operation.bytes > 0 {
        add(format!(" {}+{}", operation.offset, operation.bytes));
    }
    let transfers = matches!(operation.call, Call::Read | Call::Write);
    if operation.result < 0 || transfers && operation.result as u64 != operation.bytes {
        add(format!(" = {}", operation.result));
    }
    word
}
