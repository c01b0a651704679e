//! The same load file by Debian's dbench and by this crate's client: what each asks of the file system, in order.
//!
//! The client's file system is simulated, so it makes no system calls: its operations are compared with dbench's calls, as strace
//! saw them. Files are told apart by the order in which a client makes them, not by their names, so that a write to the wrong file
//! after a rename differs. dbench ends by time; whole passes of its load file are compared, and it gets more time until it has made
//! them.
//!
//! `cargo test -p loadline-simulate --test conformance` runs short pieces; `make conformance` longer ones.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use needs::{needs, strace};
use order::{Op, Setup, Simulation, View};
use simulate::disk::PAGE_BYTES;
use simulate::loadfile::{self, Line, LoadFile};

/// The load file of Debian's package.
const CLIENT: &str = "/usr/share/dbench/client.txt";
/// Passes that are compared: the second one finds the files of the first.
const PASSES: usize = 2;
/// How long dbench runs at first and at most, in seconds; four times as long each time.
const SECONDS: [u32; 5] = [1, 4, 16, 64, 256];
/// How long it may take in all beyond that, in seconds: it cleans up, and the machine may be busy.
const PATIENCE: u32 = 120;
/// Calls by which dbench changes files, and `lseek`, by which it begins its load file again.
const WATCHED: &str = "openat,close,pwrite64,fsync,fdatasync,rename,unlink,rmdir,mkdir,utimensat,lseek";

/// Every operation that changes something, in a load file of its own: files that are there and not, names that a rename joins,
/// handles that stay open meanwhile.
const ALL: &str = r#"Deltree "\clients\client1" NT_STATUS_OK
Mkdir "\clients" NT_STATUS_OK
NTCreateX "\clients\client1" 0x1 0x2 9 NT_STATUS_OK
Close 9 NT_STATUS_OK
NTCreateX "\clients\client1\sub" 0x1 0x2 9 NT_STATUS_OK
Close 9 NT_STATUS_OK
NTCreateX "\clients\client1\sub\deep" 0x40 0x2 9 NT_STATUS_OK
WriteX 9 100 50 50 NT_STATUS_OK
Close 9 NT_STATUS_OK
NTCreateX "\clients\client1\a" 0x40 0x2 10 NT_STATUS_OK
WriteX 10 65534 1 1 NT_STATUS_OK
WriteX 10 0 65536 65536 NT_STATUS_OK
WriteX 10 4095 2 2 NT_STATUS_OK
Flush 10 NT_STATUS_OK
ReadX 10 0 100 100 NT_STATUS_OK
Close 10 NT_STATUS_OK
NTCreateX "\clients\client1\none" 0x40 0x1 11 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX "\clients\client1\b" 0x40 0x2 12 NT_STATUS_OK
WriteX 12 8192 4096 4096 NT_STATUS_OK
Flush 12 0x00000000
Close 12 NT_STATUS_OK
NTCreateX "\clients\client1\a" 0x40 0x1 13 NT_STATUS_OK
Rename "\clients\client1\a" "\clients\client1\b" NT_STATUS_OK
NTCreateX "\clients\client1\a" 0x40 0x2 14 NT_STATUS_OK
WriteX 14 0 10 10 NT_STATUS_OK
WriteX 13 4096 10 10 NT_STATUS_OK
Flush 13 NT_STATUS_OK
Close 13 NT_STATUS_OK
Unlink "\clients\client1\a" 0x6 NT_STATUS_OK
Close 14 NT_STATUS_OK
Unlink "\clients\client1\a" 0x6 0xc0000034
Rename "\clients\client1\a" "\clients\client1\c" NT_STATUS_OBJECT_NAME_NOT_FOUND
Rmdir "\clients\client1\a" NT_STATUS_OBJECT_NAME_NOT_FOUND
Mkdir "\clients\client1\sub" NT_STATUS_OBJECT_NAME_COLLISION
Mkdir "\clients\client1\dir" NT_STATUS_OK
Rmdir "\clients\client1\dir" NT_STATUS_OK
NTCreateX "\clients\client1\b" 0x40 0x5 15 NT_STATUS_OK
WriteX 15 0 4096 4096 NT_STATUS_OK
Flush 15 NT_STATUS_OK
Close 15 NT_STATUS_OK
FIND_FIRST "\clients\client1\*" 260 1366 0 NT_STATUS_OK
"#;

/// A change of a file system, or a sync. Files are numbered in the order in which they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Create(u32),
    Delete(u32),
    Rename(u32),
    /// The file, its first page, pages.
    Write(u32, u32, u32),
    Sync(u32),
    SyncDirectory,
}

impl Change {
    fn kind(self) -> &'static str {
        match self {
            Change::Create(_) => "create",
            Change::Delete(_) => "delete",
            Change::Rename(_) => "rename",
            Change::Write(..) => "write",
            Change::Sync(_) => "sync of a file",
            Change::SyncDirectory => "sync of a directory",
        }
    }
}

/// What one client did, a list for each pass.
type Passes = Vec<Vec<Change>>;

/// Files removed one after the other by a Deltree come in the order of their directory: here in that of their numbers.
fn in_order(mut pass: Vec<Change>) -> Vec<Change> {
    for run in pass.chunk_by_mut(|a, b| matches!((a, b), (Change::Delete(_), Change::Delete(_)))) {
        run.sort_unstable();
    }
    pass
}

/// Reads a client's calls.
#[derive(Default)]
struct Reader {
    made: u32,
    /// Files and directories that are there, by name.
    there: BTreeMap<String, u32>,
    /// What open descriptors stand for.
    open: BTreeMap<u32, u32>,
    /// Descriptors of directories.
    directories: Vec<u32>,
    passes: Passes,
    /// Calls that set times; the simulation has no such operation.
    times: u64,
}

impl Reader {
    fn make(&mut self, name: &str) -> u32 {
        self.made += 1;
        self.there.insert(name.to_string(), self.made);
        self.did(Change::Create(self.made));
        self.made
    }

    fn remove(&mut self, name: &str) {
        if let Some(file) = self.there.remove(name) {
            self.did(Change::Delete(file));
        }
    }

    fn did(&mut self, change: Change) {
        self.passes.last_mut().expect("the first pass has begun").push(change);
    }

    fn call(&mut self, line: &str) {
        let Some((name, rest)) = line.split_once('(') else { return };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else { return };
        let done = !result.starts_with('-');
        let names: Vec<&str> = arguments.split('"').skip(1).step_by(2).collect();
        let descriptor = |text: &str| text.split('<').next().and_then(|number| number.trim().parse().ok());
        let words: Vec<&str> = arguments.trim_end_matches([')', ' ']).rsplit(", ").collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        match (name, &names[..]) {
            ("lseek", _) if arguments.contains(", 0, SEEK_SET") => self.passes.push(Vec::new()),
            // each client makes the directory above its own, or finds it
            ("mkdir", [name]) if !self.there.contains_key(*name) => _ = self.make(name),
            ("openat", [name]) if done => {
                let Some(at) = descriptor(result) else { return };
                if arguments.contains("O_CREAT") {
                    // emptying a file is removing it and making another one, in the simulation
                    if arguments.contains("O_TRUNC") {
                        self.remove(name);
                    }
                    if !self.there.contains_key(*name) {
                        self.make(name);
                    }
                }
                match self.there.get(*name) {
                    Some(file) => _ = self.open.insert(at, *file),
                    None => self.directories.push(at),
                }
            }
            ("close", _) => {
                if let Some(at) = descriptor(arguments) {
                    self.open.remove(&at);
                    self.directories.retain(|one| *one != at);
                }
            }
            ("rename", [from, to]) if done => {
                self.remove(to);
                if let Some(file) = self.there.remove(*from) {
                    self.there.insert(to.to_string(), file);
                    self.did(Change::Rename(file));
                }
            }
            ("unlink" | "rmdir", [name]) if done => self.remove(name),
            ("utimensat", _) => self.times += 1,
            ("pwrite64" | "fsync" | "fdatasync", _) => {
                let Some(at) = descriptor(arguments) else { return };
                match (name, self.open.get(&at).copied()) {
                    ("pwrite64", Some(file)) => {
                        let (offset, bytes) = (number(0), number(1));
                        let page = offset / PAGE_BYTES;
                        let pages = (offset + bytes).div_ceil(PAGE_BYTES) - page;
                        self.did(Change::Write(file, page as u32, pages as u32));
                    }
                    // with --sync-dir directories are synced by fdatasync, and nothing else is
                    ("fdatasync", _) => self.did(Change::SyncDirectory),
                    ("fsync", Some(file)) => self.did(Change::Sync(file)),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// What each client of dbench did in the first passes, and how many times it set times in them.
fn by_dbench(load: &Path, clients: usize, passes: usize) -> (Vec<Passes>, u64) {
    for seconds in SECONDS {
        let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a place");
        let logs = tempfile::tempdir().expect("a place");
        let mut dbench = Command::new("timeout");
        dbench.arg(format!("{}s", seconds + PATIENCE)).args(["dbench", "--sync-dir", "-t"]);
        dbench.arg(seconds.to_string()).arg("-D").arg(place.path()).arg("-c").arg(load);
        dbench.arg(clients.to_string());
        let calls = strace(&dbench, WATCHED, logs.path()).unwrap_or_else(|said| panic!("{said}"));
        let own = place.path().to_str().expect("a path of ours");
        let (mut all, mut times) = (Vec::new(), 0);
        for log in calls.values().filter(|log| log.contains("pwrite64(") && log.contains(own)) {
            let mut reader = Reader { passes: vec![Vec::new()], ..Reader::default() };
            for line in log.lines() {
                reader.call(line);
                if reader.passes.len() > passes {
                    break;
                }
            }
            times += reader.times;
            // the last one is not whole
            reader.passes.pop();
            all.push(reader.passes.into_iter().map(in_order).collect::<Passes>());
        }
        if all.len() == clients && all.iter().all(|client| client.len() == passes) {
            return (all, times);
        }
    }
    panic!("dbench has not gone through {} {passes} times in {SECONDS:?} seconds", load.display());
}

/// What the client of this crate does in the first passes.
fn by_us(file: &Rc<LoadFile>, group: u32, sim: &mut Simulation<'_>, passes: usize) -> Passes {
    let mut next = loadfile::replay(sim, file, group, 0, 1).expect("its files fit");
    let (mut made, mut files) = (0, BTreeMap::new());
    let mut all = Passes::new();
    for _ in 0..passes {
        let (mut pass, mut left) = (Vec::new(), file.lines.len());
        while left > 0 {
            let known = |file| files.get(&file).copied().unwrap_or(0);
            pass.push(match next(View { now: 0, took: 0 }) {
                Op::Create(file) => {
                    made += 1;
                    files.insert(file, made);
                    Change::Create(made)
                }
                Op::Delete(file) => Change::Delete(known(file)),
                Op::Rename(file) => Change::Rename(known(file)),
                Op::Write { file, page, pages } => Change::Write(known(file), page, pages),
                Op::Sync(file, _) if files.contains_key(&file) => Change::Sync(known(file)),
                Op::Sync(..) => Change::SyncDirectory,
                Op::Count(one) => {
                    left -= one as usize;
                    continue;
                }
                Op::Compute(_) => continue,
                other => panic!("{other:?}"),
            });
        }
        all.push(in_order(pass));
    }
    all
}

/// The first lines of Debian's load file: at least so many, and as many more until no file is open, since dbench has room for
/// few.
fn piece(lines: usize) -> String {
    let text = std::fs::read_to_string(CLIENT).expect("the package dbench has it");
    let (mut taken, mut open) = (String::new(), 0);
    for (at, line) in text.lines().enumerate() {
        if line.ends_with("NT_STATUS_OK") {
            open += i32::from(line.starts_with("NTCreateX ")) - i32::from(line.starts_with("Close "));
        }
        taken.push_str(line);
        taken.push('\n');
        if at >= lines && open == 0 {
            break;
        }
    }
    taken
}

/// Compares and prints; what differs.
fn compare(name: &str, text: &str, clients: usize, passes: usize) -> Option<String> {
    let place = tempfile::tempdir().expect("a place");
    let load = place.path().join("load.txt");
    std::fs::write(&load, text).expect("the place is ours");
    let (theirs, times) = by_dbench(&load, clients, passes);
    let file = Rc::new(LoadFile::open(load.to_str().expect("a path of ours")).expect("dbench takes it"));
    let layout = loadfile::layout(&file, clients as u32).expect("it fits");
    let device = ssd::Profile::named("980pro").expect("a built-in one");
    let mut setup = Setup::testbed(order::Protocol::Ext4, device, clients as u32);
    setup.layout = layout;
    let mut sim = Simulation::new(setup).expect("a stack");
    let ours: Vec<Passes> = (0..clients as u32).map(|group| by_us(&file, group, &mut sim, passes)).collect();
    let mut counts: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for (side, all) in [&theirs, &ours].into_iter().enumerate() {
        let changes = all.iter().flatten().flatten();
        changes.for_each(|change| counts.entry(change.kind()).or_default()[side] += 1);
    }
    let writes = file.lines.iter().filter(|line| matches!(line, Line::Write { .. })).count();
    println!("{name}: {clients} clients, {passes} passes of {} lines, {writes} writes", file.lines.len());
    for (kind, [there, here]) in &counts {
        println!("  {kind:<22} {there:>8} {here:>8}");
    }
    println!("  {:<22} {times:>8} {:>8}", "times are set", 0);
    let differs = theirs.iter().zip(&ours).flat_map(|(theirs, ours)| theirs.iter().zip(ours)).enumerate();
    for (number, (theirs, ours)) in differs {
        let at = (0..theirs.len().max(ours.len())).find(|at| theirs.get(*at) != ours.get(*at));
        if let Some(at) = at {
            let (client, pass) = (number / passes, number % passes);
            return Some(format!(
                "{name}: client {client}, pass {pass}, change {at}: dbench {:?}, here {:?}",
                theirs.get(at),
                ours.get(at)
            ));
        }
    }
    None
}

fn none_differs(rows: &[(&str, &str, usize, usize)]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(name, text, clients, passes)| compare(name, text, *clients, *passes))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn load_files_do_what_they_do_with_dbench() {
    needs!(Tool { program: "dbench", package: "dbench" }, Tool { program: "strace", package: "strace" });
    let small = piece(3_000);
    none_differs(&[
        ("dbench-all", ALL, 1, PASSES),
        ("dbench-client-1", &small, 1, PASSES),
        ("dbench-client-4", &small, 4, PASSES),
    ]);
}

#[test]
#[ignore = "no test: it takes minutes, and make conformance runs it"]
fn all_load_files_do_what_they_do_with_dbench() {
    needs!(Tool { program: "dbench", package: "dbench" }, Tool { program: "strace", package: "strace" });
    let (large, whole) = (piece(60_000), piece(usize::MAX));
    none_differs(&[
        ("dbench-large-1", &large, 1, PASSES),
        ("dbench-large-4", &large, 4, PASSES),
        ("dbench-whole-1", &whole, 1, 1),
    ]);
}
