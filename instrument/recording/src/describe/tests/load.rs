//! Synthetic recordings: threads with a clock each, files with their sizes.

use std::collections::HashMap;

use crate::call::{Call, Operation};
use crate::format::{FileKind, Header, Item, Reader, Summary, Writer};

/// A file as a synthetic thread holds it open.
#[derive(Debug, Clone, Copy)]
pub struct Opened {
    key: usize,
    path: u32,
}

/// Makes a recording.
#[derive(Default)]
pub struct Load {
    threads: Vec<Item>,
    clocks: Vec<u64>,
    paths: HashMap<String, u32>,
    names: Vec<(String, FileKind)>,
    operations: Vec<Operation>,
    opened: usize,
    random: u64,
    /// Nanoseconds of each call.
    pub took_ns: u64,
}

impl Load {
    pub fn new() -> Load {
        Load { took_ns: 5_000, random: 1, ..Load::default() }
    }

    pub fn thread(&mut self, pid: u32, name: &str) -> u32 {
        let tid = self.threads.len() as u32 + 100;
        self.threads.push(Item::Thread { tid, pid, name: name.into() });
        self.clocks.push(0);
        tid - 100
    }

    /// The thread does nothing until then.
    pub fn wait_until(&mut self, thread: u32, ns: u64) {
        self.clocks[thread as usize] = self.clocks[thread as usize].max(ns);
    }

    pub fn think(&mut self, thread: u32, ns: u64) {
        self.clocks[thread as usize] += ns;
    }

    pub fn file(&mut self, path: &str, kind: FileKind) -> u32 {
        if let Some(known) = self.paths.get(path) {
            return *known;
        }
        self.paths.insert(path.into(), self.names.len() as u32);
        self.names.push((path.into(), kind));
        self.names.len() as u32 - 1
    }

    /// A number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    fn call(&mut self, thread: u32, call: Call) -> &mut Operation {
        let clock = &mut self.clocks[thread as usize];
        let (begin_ns, took_ns) = (*clock, self.took_ns);
        *clock += took_ns;
        let (path, to, handle) = (None, None, None);
        let (result, offset, bytes, flags) = (0, 0, 0, 0);
        let one =
            Operation { thread, call, begin_ns, took_ns, result, path, to, handle, offset, bytes, flags };
        self.operations.push(one);
        self.operations.last_mut().unwrap()
    }

    pub fn open(&mut self, thread: u32, path: u32, flags: i32) -> Opened {
        let key = self.opened;
        self.opened += 1;
        let one = self.call(thread, Call::Open);
        (one.path, one.handle, one.flags, one.result) = (Some(path), Some(key as u32), flags as u32, 3);
        Opened { key, path }
    }

    fn at(&mut self, thread: u32, call: Call, file: Opened) -> &mut Operation {
        let one = self.call(thread, call);
        (one.path, one.handle) = (Some(file.path), Some(file.key as u32));
        one
    }

    pub fn close(&mut self, thread: u32, file: Opened) {
        self.at(thread, Call::Close, file);
    }

    pub fn transfer(&mut self, thread: u32, call: Call, file: Opened, offset: u64, bytes: u64, moved: u64) {
        let one = self.at(thread, call, file);
        (one.offset, one.bytes, one.result) = (offset, bytes, moved as i64);
    }

    /// Reads to the end, as programs do: until there is nothing.
    pub fn read_whole(&mut self, thread: u32, file: Opened, size: u64, piece: u64) {
        let mut at = 0;
        while at < size {
            let moved = piece.min(size - at);
            self.transfer(thread, Call::Read, file, at, piece, moved);
            at += moved;
        }
        self.transfer(thread, Call::Read, file, at, piece, 0);
    }

    pub fn write_whole(&mut self, thread: u32, file: Opened, size: u64, piece: u64) {
        let mut at = 0;
        while at < size {
            let moved = piece.min(size - at);
            self.transfer(thread, Call::Write, file, at, moved, moved);
            at += moved;
        }
    }

    pub fn sync(&mut self, thread: u32, call: Call, file: Opened) {
        self.at(thread, call, file);
    }

    pub fn named(&mut self, thread: u32, call: Call, path: u32) {
        self.call(thread, call).path = Some(path);
    }

    /// The recording, through its format.
    pub fn items(mut self) -> Vec<Item> {
        self.operations.sort_by_key(|one| (one.end_ns(), one.thread));
        let mut handles: HashMap<u32, u32> = HashMap::new();
        for one in &mut self.operations {
            if one.call == Call::Open {
                let number = handles.len() as u32;
                handles.insert(one.handle.unwrap(), number);
            }
            one.handle = one.handle.map(|key| handles[&key]);
        }
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        let mut push = |item: Item| writer.push(&item).unwrap();
        self.threads.into_iter().for_each(&mut push);
        self.names.iter().for_each(|(path, _)| push(Item::Path(path.clone().into_bytes())));
        let found = self.names.iter().zip(0..);
        found.for_each(|((_, kind), path)| push(Item::Found { path, kind: *kind }));
        let length_ns = self.operations.iter().map(Operation::end_ns).max().unwrap_or(0);
        self.operations.into_iter().map(Item::Operation).for_each(push);
        let bytes = writer.finish(Summary { length_ns, ..Summary::default() }).unwrap();
        Reader::new(&bytes[..]).unwrap().map(Result::unwrap).collect()
    }
}
