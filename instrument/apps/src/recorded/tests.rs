use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use probe::Counters;
use recording::format::FileKind;
use recording::{Call, Header, Item, Operation, Summary, Writer};
use stats::{Ended, Outcome};

use super::*;
use crate::{App, Hooks, LoadPacing};

/// Writes recordings: operations are given in the order of their ends, each with thread, begin and end in microseconds.
struct Script {
    writer: Writer<Vec<u8>>,
    paths: HashMap<String, u32>,
    handles: u32,
    end_ns: u64,
}

/// Who, and from when to when, in microseconds.
type When = (u32, u64, u64);

impl Script {
    fn of_threads(count: u32) -> Script {
        let header = Header { command: vec!["test".into()], ..Header::default() };
        let mut writer = Writer::new(Vec::new(), &header).unwrap();
        for thread in 0..count {
            let (tid, pid) = (100 + thread, 100 + thread / 2);
            writer.push(&Item::Thread { tid, pid, name: "test".into() }).unwrap();
        }
        Script { writer, paths: HashMap::new(), handles: 0, end_ns: 0 }
    }

    fn push(&mut self, item: &Item) {
        self.writer.push(item).unwrap();
    }

    fn path(&mut self, path: &str) -> u32 {
        if let Some(number) = self.paths.get(path) {
            return *number;
        }
        self.push(&Item::Path(path.as_bytes().to_vec()));
        let number = self.paths.len() as u32;
        self.paths.insert(path.to_string(), number);
        number
    }

    fn found(&mut self, path: &str, kind: FileKind) {
        let path = self.path(path);
        self.push(&Item::Found { path, kind });
    }

    fn absent(&mut self, paths: &[&str]) {
        paths.iter().for_each(|path| self.found(path, FileKind::Absent));
    }

    fn operation(&mut self, (thread, from, to): When, call: Call, result: i64) -> Operation {
        self.end_ns = self.end_ns.max(to * 1000);
        let blank = Operation::blank(call, result);
        Operation { thread, begin_ns: from * 1000, took_ns: (to - from) * 1000, ..blank }
    }

    fn by_name(&mut self, when: When, call: Call, path: &str, result: i64) {
        let path = Some(self.path(path));
        let operation = Operation { path, ..self.operation(when, call, result) };
        self.push(&Item::Operation(operation));
    }

    fn by_names(&mut self, when: When, call: Call, path: &str, to: &str) {
        let (path, to) = (Some(self.path(path)), Some(self.path(to)));
        let operation = Operation { path, to, ..self.operation(when, call, 0) };
        self.push(&Item::Operation(operation));
    }

    fn open(&mut self, when: When, path: &str, flags: i32) -> u32 {
        let path = Some(self.path(path));
        let handle = self.handles;
        self.handles += 1;
        let operation = self.operation(when, Call::Open, 3);
        self.push(&Item::Operation(Operation {
            path,
            handle: Some(handle),
            flags: flags as u32,
            ..operation
        }));
        handle
    }

    fn by_handle(&mut self, when: When, call: Call, handle: u32, offset: u64, bytes: u64) {
        let moves = matches!(call, Call::Read | Call::Write | Call::Fault);
        let operation = self.operation(when, call, if moves { bytes as i64 } else { 0 });
        self.push(&Item::Operation(Operation { handle: Some(handle), offset, bytes, ..operation }));
    }

    fn bytes(self) -> Vec<u8> {
        let summary = Summary { length_ns: self.end_ns, ..Summary::default() };
        self.writer.finish(summary).unwrap()
    }
}

/// Replays a recording on a fresh directory, which `look` sees afterwards.
fn replayed_while(
    bytes: &[u8],
    set: &[(&str, &str)],
    stopped: &(dyn Fn() -> bool + Sync),
    look: &dyn Fn(&Path),
) -> Result<Outcome, AppError> {
    let place = tempfile::tempdir().unwrap();
    let (trace, root) = (place.path().join("app.trace"), place.path().join("target"));
    std::fs::write(&trace, bytes).unwrap();
    std::fs::create_dir(&root).unwrap();
    let own = [("trace", trace.to_str().unwrap()), ("cold", "0")];
    let variables: Vec<(String, String)> =
        own.iter().chain(set).map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let app = App::new(NAME, &variables)?;
    let site = LoadSite { root: &root, home: place.path(), seed: 1, pace: LoadPacing::default() };
    let hooks = Hooks { sample: &Counters::default, stopped, tell: &|_| {}, ready: &|| Ok(()), ranks: None };
    let outcome = app.run(0, site, hooks)?;
    look(&root);
    Ok(outcome)
}

fn replayed(bytes: &[u8], speed: &str, look: &dyn Fn(&Path)) -> Outcome {
    replayed_while(bytes, &[("speed", speed)], &|| false, look).unwrap()
}

/// Nothing ended otherwise.
fn is_exact(outcome: &Outcome) {
    assert_eq!(value(outcome, "diverged"), 0.0, "{:?}", outcome.notes);
    assert_eq!(outcome.ended, Ended::Done);
}

fn value(outcome: &Outcome, name: &str) -> f64 {
    outcome.metrics.iter().find(|metric| metric.name == name).map_or(f64::NAN, |metric| metric.value)
}

fn ops(outcome: &Outcome, name: &str) -> u64 {
    outcome.ops.iter().find(|op| op.name == name).map_or(0, |op| op.ops)
}

/// Files and directories below a directory, with the sizes of files.
fn tree(root: &Path) -> Vec<(String, u64)> {
    let (mut all, mut left) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            let name = entry.path().strip_prefix(root).unwrap().display().to_string();
            let size = if kind.is_file() { entry.metadata().unwrap().len() } else { 0 };
            all.push((if kind.is_dir() { name + "/" } else { name }, size));
            if kind.is_dir() {
                left.push(entry.path());
            }
        }
    }
    all.sort();
    all
}

const NEW: i32 = libc::O_CREAT | libc::O_RDWR;

#[test]
fn one_reads_what_another_has_written() {
    let mut script = Script::of_threads(2);
    script.absent(&["/data/a", "/data/b"]);
    let mut at = 0;
    for round in 0..6 {
        let (name, other) = (format!("/data/{round}"), format!("/data/done{round}"));
        let file = script.open((0, at, at + 5), &name, NEW | libc::O_EXCL);
        script.by_handle((0, at + 5, at + 10), Call::Write, file, 0, 3000);
        // begins while the file is written: may come before or after
        script.by_name((1, at + 6, at + 11), Call::Stat, &name, 0);
        let reader = script.open((1, at + 11, at + 12), &name, libc::O_RDONLY);
        script.by_handle((1, at + 12, at + 20), Call::Read, reader, 0, 3000);
        script.by_handle((0, at + 21, at + 22), Call::Write, file, 3000, 10);
        script.by_handle((1, at + 23, at + 24), Call::Read, reader, 2000, 1010);
        script.by_names((0, at + 25, at + 26), Call::Rename, &name, &other);
        script.by_name((1, at + 27, at + 28), Call::Stat, &name, -i64::from(libc::ENOENT));
        script.by_name((1, at + 28, at + 30), Call::Stat, &other, 0);
        script.by_handle((1, at + 30, at + 31), Call::Close, reader, 0, 0);
        script.by_handle((0, at + 30, at + 32), Call::Close, file, 0, 0);
        at += 40;
    }
    let bytes = script.bytes();
    for _ in 0..200 {
        let outcome = replayed(&bytes, "max", &|_| {});
        is_exact(&outcome);
        assert_eq!((ops(&outcome, "read"), ops(&outcome, "stat")), (12, 18));
    }
}

#[test]
fn the_tree_is_what_the_recording_says() {
    let mut script = Script::of_threads(3);
    script.found("/home", FileKind::Directory);
    script.found("/home/old", FileKind::File(10_000));
    script.found("/home/log", FileKind::File(500));
    script.found("/home/link", FileKind::Link);
    script.push(&Item::Path(b"/home/old".to_vec()));
    script.paths.insert("what /home/link leads to".into(), 0);
    script.absent(&["/home/new", "/home/new/deep", "/home/new/deep/file", "/home/tmp", "/home/second"]);
    let old = script.open((0, 0, 1), "/home/link", libc::O_RDWR);
    script.by_handle((0, 1, 2), Call::Read, old, 0, 10_000);
    script.by_handle((0, 2, 3), Call::Truncate, old, 0, 7_000);
    script.by_name((1, 0, 4), Call::MakeDirectory, "/home/new", 0);
    script.by_name((1, 4, 5), Call::MakeDirectory, "/home/new", -i64::from(libc::EEXIST));
    script.by_name((2, 6, 7), Call::MakeDirectory, "/home/new/deep", 0);
    let temporary = script.open((2, 8, 9), "/home/tmp", NEW | libc::O_TRUNC);
    script.by_handle((2, 9, 10), Call::Write, temporary, 0, 12_345);
    script.by_handle((2, 10, 11), Call::Fsync, temporary, 0, 0);
    script.by_names((0, 12, 13), Call::Rename, "/home/tmp", "/home/new/deep/file");
    script.by_names((1, 14, 15), Call::Link, "/home/new/deep/file", "/home/second");
    script.by_name((2, 16, 17), Call::Unlink, "/home/tmp", -i64::from(libc::ENOENT));
    let log = script.open((0, 18, 19), "/home/log", libc::O_WRONLY | libc::O_APPEND);
    script.by_handle((0, 19, 20), Call::Write, log, 500, 25);
    script.by_name((1, 21, 22), Call::Unlink, "/home/link", 0);
    script.by_handle((2, 30, 31), Call::Close, temporary, 0, 0);
    let bytes = script.bytes();
    for speed in ["max", "1x", "100x"] {
        let outcome = replayed(&bytes, speed, &|root| {
            let expected = [
                ("home/", 0),
                ("home/log", 525),
                ("home/new/", 0),
                ("home/new/deep/", 0),
                ("home/new/deep/file", 12_345),
                ("home/old", 7_000),
                ("home/second", 12_345),
            ];
            assert_eq!(tree(root), expected.map(|(name, size)| (name.to_string(), size)));
            let data = std::fs::read(root.join("home/second")).unwrap();
            assert!(data.iter().filter(|byte| **byte == 0).count() < 200, "written data is not zeros");
        });
        is_exact(&outcome);
        assert_eq!(ops(&outcome, "mkdir"), 3, "a call that is to fail counts as well");
    }
}

/// What other threads do with a handle comes after its open and before its close; a handle that many use is one descriptor.
#[test]
fn handles_are_shared() {
    let mut script = Script::of_threads(9);
    let mut at = 0;
    for round in 0..30 {
        let name = format!("/f{round}");
        script.absent(&[&name]);
        let file = script.open((0, at, at + 1), &name, NEW);
        for thread in 1..9 {
            script.by_handle((thread, at + 1, at + 10), Call::Write, file, u64::from(thread) * 100, 100);
        }
        for thread in 1..9 {
            script.by_handle(
                (thread, at + 10, at + 20),
                Call::Read,
                file,
                900 - u64::from(thread) * 100,
                100,
            );
        }
        script.by_handle((0, at + 20, at + 30), Call::Close, file, 0, 0);
        script.by_name((8, at + 31, at + 32), Call::Unlink, &name, 0);
        at += 40;
    }
    let bytes = script.bytes();
    for _ in 0..20 {
        let outcome = replayed(&bytes, "max", &|root| assert_eq!(tree(root), []));
        is_exact(&outcome);
    }
}

#[test]
fn files_that_were_open_are_opened() {
    let mut script = Script::of_threads(1);
    script.found("/lib/code", FileKind::File(8192));
    let (lost, code) = (script.path("/var/lost"), script.path("/lib/code"));
    script.push(&Item::Inherited { path: lost, flags: (NEW | libc::O_EXCL) as u32 });
    script.push(&Item::Inherited { path: code, flags: libc::O_RDONLY as u32 });
    script.by_handle((0, 0, 1), Call::Write, 0, 0, 100);
    script.by_handle((0, 1, 2), Call::Fault, 1, 4096, 4096);
    script.by_handle((0, 2, 3), Call::Close, 1, 0, 0);
    // what is mapped stays when its descriptor is closed
    script.by_handle((0, 3, 4), Call::Fault, 1, 0, 4096);
    let outcome = replayed(&script.bytes(), "max", &|root| {
        assert_eq!(tree(root)[1], ("lib/code".into(), 8192));
        assert!(std::fs::read(root.join("lib/code")).unwrap().iter().any(|byte| *byte != 0));
    });
    is_exact(&outcome);
    assert_eq!((ops(&outcome, "fault"), outcome.io_bytes()), (2, 8292));
}

/// What is behind a link lies where that leads to, also where nobody speaks of the place.
#[test]
fn files_behind_links_are_made() {
    let mut script = Script::of_threads(1);
    for (link, target) in [("/lib", "/usr/lib"), ("/usr", "/system/usr"), ("/lib/x", "/lib/y")] {
        script.found(link, FileKind::Link);
        script.push(&Item::Path(target.into()));
        script.paths.insert(format!("what {link} leads to"), 0);
    }
    script.found("/lib/x/code", FileKind::File(100));
    let file = script.open((0, 0, 1), "/lib/x/code", libc::O_RDONLY);
    script.by_handle((0, 1, 2), Call::Read, file, 0, 100);
    script.by_name((0, 2, 3), Call::Stat, "/usr/lib/y/code", 0);
    script.by_name((0, 3, 4), Call::Stat, "/system/usr/lib/y/code", 0);
    is_exact(&replayed(&script.bytes(), "max", &|root| {
        assert_eq!(std::fs::metadata(root.join("system/usr/lib/y/code")).unwrap().len(), 100);
    }));
}

#[test]
fn links_that_the_program_makes_lead_below_the_target() {
    let mut script = Script::of_threads(1);
    script.found("/a/file", FileKind::File(5));
    script.absent(&["/a/new", "/a/far"]);
    for (link, text) in [("/a/new", "../a/./file"), ("/a/far", "../../../../etc/passwd")] {
        script.by_names((0, 0, 1), Call::Symlink, link, text);
    }
    let file = script.open((0, 2, 3), "/a/new", libc::O_RDONLY);
    script.by_handle((0, 3, 4), Call::Read, file, 0, 5);
    script.by_name((0, 4, 5), Call::Stat, "/a/far", -i64::from(libc::ENOENT));
    is_exact(&replayed(&script.bytes(), "max", &|root| {
        let target = std::fs::read_link(root.join("a/far")).unwrap();
        assert_eq!(target, root.canonicalize().unwrap().join("etc/passwd"));
    }));
}

#[test]
fn what_ends_otherwise_is_told() {
    let mut script = Script::of_threads(1);
    script.found("/a", FileKind::File(100));
    let file = script.open((0, 0, 1), "/a", libc::O_RDWR);
    script.by_handle((0, 1, 2), Call::Read, file, 0, 200);
    script.by_name((0, 2, 3), Call::Unlink, "/b", 0);
    script.by_name((0, 3, 4), Call::Stat, "/a", -i64::from(libc::ENOENT));
    script.by_handle((0, 4, 5), Call::Close, file, 0, 0);
    let outcome = replayed(&script.bytes(), "max", &|_| {});
    assert_eq!(
        outcome.notes,
        [
            "3 of 5 operations ended otherwise than recorded: 1 read (fewer bytes), 1 unlink (ENOENT instead of success), 1 stat \
          (success instead of ENOENT)"
        ]
    );
    assert_eq!((value(&outcome, "diverged"), value(&outcome, "diverged/read")), (3.0, 1.0));
}

#[test]
fn thousands_of_short_threads() {
    let threads = 3_000;
    let mut script = Script::of_threads(threads);
    script.found("/usr/include/x.h", FileKind::File(5_000));
    for thread in 0..threads {
        let at = u64::from(thread) * 20;
        let (name, done) = (format!("/tmp/{thread}"), format!("/out/{thread}"));
        script.absent(&[&name, &done]);
        let header = script.open((thread, at, at + 1), "/usr/include/x.h", libc::O_RDONLY);
        script.by_handle((thread, at + 1, at + 2), Call::Read, header, 0, 5_000);
        script.by_handle((thread, at + 2, at + 3), Call::Close, header, 0, 0);
        // each has to wait for the one before
        if thread > 0 {
            let before = format!("/out/{}", thread - 1);
            script.by_name((thread, at + 4, at + 5), Call::Stat, &before, 0);
        }
        let file = script.open((thread, at + 6, at + 7), &name, NEW);
        script.by_handle((thread, at + 7, at + 8), Call::Write, file, 0, 100);
        script.by_handle((thread, at + 8, at + 9), Call::Close, file, 0, 0);
        script.by_names((thread, at + 10, at + 11), Call::Rename, &name, &done);
    }
    let last = u64::from(threads) * 20;
    script.by_name((0, last, last + 1), Call::Unlink, "/usr/include/x.h", 0);
    let bytes = script.bytes();
    for speed in ["max", "1x"] {
        let outcome = replayed(&bytes, speed, &|root| {
            assert_eq!(std::fs::read_dir(root.join("out")).unwrap().count(), threads as usize);
        });
        is_exact(&outcome);
        assert_eq!(ops(&outcome, "rename"), u64::from(threads));
    }
}

/// The first of many threads waits for the last, and all of them run or have room before it does.
#[test]
fn whoever_is_waited_for_begins() {
    let threads = 1_000;
    let mut script = Script::of_threads(threads);
    script.absent(&["/go"]);
    for thread in 0..threads - 1 {
        script.by_name((thread, 0, 1), Call::Stat, "/", 0);
    }
    let file = script.open((threads - 1, 2, 3), "/go", NEW);
    script.by_handle((threads - 1, 3, 4), Call::Write, file, 0, 10);
    for thread in 0..threads - 1 {
        script.by_name((thread, 5, 6), Call::Stat, "/go", 0);
    }
    is_exact(&replayed(&script.bytes(), "max", &|_| {}));
}

#[test]
fn operations_are_done_when_they_are_due() {
    let mut script = Script::of_threads(2);
    script.by_name((0, 1_000_000, 1_000_001), Call::Stat, "/", 0);
    script.by_name((1, 1_200_000, 1_200_001), Call::Stat, "/", 0);
    script.by_name((0, 1_400_000, 1_400_001), Call::Stat, "/", 0);
    let bytes = script.bytes();
    for (speed, least) in [("1x", 0.4), ("2x", 0.2), ("max", 0.0)] {
        let outcome = replayed(&bytes, speed, &|_| {});
        assert!(outcome.measured_seconds >= least, "{speed}: {}", outcome.measured_seconds);
        let is_paced = speed != "max";
        assert_eq!(ops(&outcome, "lateness"), if is_paced { 3 } else { 0 });
        assert_eq!(outcome.ops[0].intended.is_some(), is_paced);
        assert_eq!(outcome.io_ops(), 3, "without reads and writes all calls are the I/O");
    }
}

#[test]
fn it_ends_when_it_is_told_to() {
    let mut script = Script::of_threads(3);
    script.absent(&["/never"]);
    script.by_name((0, 0, 1), Call::Stat, "/", 0);
    script.open((1, 600_000_000, 600_000_001), "/never", NEW);
    script.by_name((2, 700_000_000, 700_000_001), Call::Stat, "/never", 0);
    let bytes = script.bytes();
    let asked = AtomicU32::new(0);
    let start = Instant::now();
    let stopped = || asked.fetch_add(1, Ordering::Relaxed) > 20;
    let outcome = replayed_while(&bytes, &[("speed", "1x")], &stopped, &|_| {}).unwrap();
    assert_eq!((outcome.ended.clone(), ops(&outcome, "stat")), (Ended::Interrupted, 1));
    assert!(start.elapsed() < Duration::from_secs(60));
    let before = replayed_while(&bytes, &[], &|| true, &|_| {});
    assert!(matches!(before, Err(AppError::Interrupted) | Ok(Outcome { ended: Ended::Interrupted, .. })));
}

#[test]
fn a_recording_that_is_cut_or_damaged_tells_its_byte() {
    let mut script = Script::of_threads(1);
    script.by_name((0, 0, 1), Call::Stat, "/a", -i64::from(libc::ENOENT));
    let bytes = script.bytes();
    for cut in [bytes.len() - 1, bytes.len() - 8] {
        let error = replayed_while(&bytes[..cut], &[], &|| false, &|_| {}).unwrap_err().to_string();
        assert!(error.contains(&format!("app.trace: the recording was cut at byte {cut}")), "{error}");
    }
    let mut wrong = Script::of_threads(1);
    wrong.by_name((0, 0, 1), Call::Stat, "/a/../../b", 0);
    let error = replayed_while(&wrong.bytes(), &[], &|| false, &|_| {}).unwrap_err().to_string();
    assert!(error.contains("damaged at byte ") && error.contains("`..`"), "{error}");
    let mut late = Script::of_threads(1);
    late.by_name((0, u64::MAX / 2000, u64::MAX / 2000), Call::Stat, "/a", 0);
    let error = replayed_while(&late.bytes(), &[], &|| false, &|_| {}).unwrap_err().to_string();
    assert!(error.contains("damaged at byte "), "{error}");
    for (set, part) in [
        (("speed", "0x"), "no speed"),
        (("speed", "fast"), "no speed"),
        (("cold", "2"), "0 to 1"),
        (("trace", "/dev/null"), "does not begin with"),
        (("trace", ""), "needs a recording"),
    ] {
        let error = replayed_while(&bytes, &[set], &|| false, &|_| {}).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// Whatever bytes are wrong: an error or an end, nothing outside of the target.
#[test]
fn any_damage_ends() {
    let mut script = Script::of_threads(2);
    script.found("/a", FileKind::File(3000));
    script.absent(&["/d", "/d/b"]);
    script.by_name((1, 0, 1), Call::MakeDirectory, "/d", 0);
    let file = script.open((0, 0, 2), "/a", libc::O_RDWR);
    script.by_handle((1, 3, 4), Call::Read, file, 0, 1000);
    script.by_names((1, 5, 6), Call::Rename, "/a", "/d/b");
    script.by_handle((0, 7, 8), Call::Close, file, 0, 0);
    let bytes = script.bytes();
    let body = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0 + 1;
    for at in body..bytes.len() {
        for change in [0x01, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] ^= change;
            // a size that does not fit the target is refused as well
            let _ = replayed_while(&bytes, &[("speed", "max")], &|| false, &|_| {});
        }
    }
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let mut script = Script::of_threads(1);
    script.found("/huge", FileKind::File(1 << 60));
    let file = script.open((0, 0, 1), "/huge", libc::O_RDONLY);
    script.by_handle((0, 1, 2), Call::Read, file, 0, 100);
    let error = replayed_while(&script.bytes(), &[], &|| false, &|_| {}).unwrap_err().to_string();
    assert!(error.contains("files of the recording need 1") && error.contains("free"), "{error}");
}

#[test]
fn a_survey_tells_what_is_in_it() {
    let mut script = Script::of_threads(2);
    script.found("/a", FileKind::File(4 << 20));
    let file = script.open((0, 0, 1), "/a", libc::O_RDWR);
    script.by_handle((1, 1, 2_000_000), Call::Read, file, 0, 4096);
    script.push(&Item::Lost(2));
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("x");
    let mut bytes = script.bytes();
    std::fs::write(&path, &bytes).unwrap();
    assert!(is_recording(&path) && !is_recording(place.path()));
    refuse_cut(&path).unwrap();
    let shown = Survey::of(&path).unwrap().to_string();
    for part in [
        "a recording of test\n",
        "2.000 s, 2 threads of 1 processes, 2 operations, 0 of which failed\n",
        "  1 read of 4KiB\n",
        "1 files of 4MiB together",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    bytes.truncate(bytes.len() - 1);
    std::fs::write(&path, &bytes).unwrap();
    assert!(refuse_cut(&path).unwrap_err().to_string().contains("cut at byte"));
}
