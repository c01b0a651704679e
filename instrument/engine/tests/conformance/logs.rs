//! Logs that fio records (`write_iolog`), replayed by fio and by this engine: the calls of both, and what the log says.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use needs::needs;

use super::calls::{self, Call};
use super::rows::{Compare, Row};
use super::{Did, differences, ours, sizes, succeeded};

/// Jobs that fio records, with the options of their replays; a row's name begins with `log-`.
const ROWS: &[(Row, &str)] = &[
    (row("log-read", Compare::Order, "rw=read\nbs=4k\nsize=1m\n"), ""),
    (row("log-randrw-fsync", Compare::Order, "rw=randrw\nbs=4k\nsize=1m\nfsync=4\n"), ""),
    (row("log-fdatasync", Compare::Order, "rw=randwrite\nbs=4k\nsize=1m\nfdatasync=1\n"), ""),
    (
        row("log-bssplit", Compare::Order, "rw=randrw\nbssplit=4k/50:16k/30:64k/20\nsize=4m\nnorandommap\n"),
        "",
    ),
    (row("log-files", Compare::Order, "rw=randrw\nbs=4k\nsize=2m\nnrfiles=4\n"), ""),
    (row("log-loops", Compare::Order, "rw=write\nbs=16k\nsize=1m\nloops=3\n"), ""),
    (row("log-paced", Compare::Order, "rw=randread\nbs=4k\nsize=1m\nrate_iops=500\n"), ""),
    (
        row("log-twice-as-fast", Compare::Order, "rw=randread\nbs=4k\nsize=1m\nrate_iops=500\n"),
        "replay_time_scale=200\n",
    ),
    (
        row("log-no-stall", Compare::Order, "rw=randread\nbs=4k\nsize=1m\nrate_iops=500\n"),
        "replay_no_stall=1\n",
    ),
    (row("log-align", Compare::Order, "rw=randrw\nbs=512\nsize=256k\n"), "replay_align=4096\n"),
    (row("log-scale", Compare::Order, "rw=randrw\nbs=4k\nsize=1m\n"), "replay_scale=2\nreplay_align=4096\n"),
    (row("log-libaio", Compare::Counts, "rw=randrw\nbs=4k\nsize=1m\n"), "ioengine=libaio\niodepth=8\n"),
];

const fn row(name: &'static str, compare: Compare, job: &'static str) -> Row {
    Row { name, job, compare, short: true }
}

/// Records a job in a directory.
fn record(row: &Row, place: &Path, directory: &Path) -> String {
    let (job, log) = (place.join("record.fio"), place.join("recorded.iolog"));
    let text = format!("[a]\nioengine=psync\nwrite_iolog={}\n{}", log.display(), row.job);
    std::fs::write(&job, text).expect("the place is ours");
    let mut fio = Command::new("fio");
    fio.current_dir(place).arg(format!("--directory={}", directory.display())).arg("--eta=never").arg(&job);
    succeeded(&mut fio).unwrap_or_else(|said| panic!("{}: {said}", row.name));
    std::fs::read_to_string(&log).expect("fio has written it")
}

/// What a log says, as calls.
fn said(log: &str) -> Vec<Call> {
    let call = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, file, action, offset, bytes] = words[..] else { return None };
        let (offset, bytes) = (offset.parse().expect("an offset"), bytes.parse().expect("bytes"));
        let file = file.to_string();
        Some(match action {
            "read" => Call { kind: "read", file, offset, bytes },
            "write" => Call { kind: "write", file, offset, bytes },
            "sync" => Call { kind: "fsync", file, offset: 0, bytes: 0 },
            "datasync" => Call { kind: "fdatasync", file, offset: 0, bytes: 0 },
            other => panic!("an action {other}"),
        })
    };
    log.lines().filter_map(call).collect()
}

/// Replays a log by fio, whose names are where its files are.
fn by_fio(row: &Row, options: &str, log: &str, recorded: &Path, place: &Path) -> Did {
    let directory = place.join("files");
    std::fs::create_dir(&directory).expect("the place is new");
    for entry in std::fs::read_dir(recorded).expect("it is there") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), directory.join(entry.file_name())).expect("a copy");
    }
    let directory = directory.canonicalize().expect("it is there");
    let log = log.replace(&recorded.display().to_string(), &directory.display().to_string());
    let (job, path) = (place.join("replay.fio"), place.join("app.iolog"));
    std::fs::write(&path, log).expect("the place is ours");
    std::fs::write(&job, format!("[a]\nioengine=psync\nread_iolog={}\n{options}", path.display()))
        .expect("ours");
    let mut fio = Command::new("timeout");
    fio.args([super::PATIENCE, "fio"]).current_dir(place).arg("--eta=never").arg(&job);
    let threads = calls::of(&fio, &directory, place).unwrap_or_else(|said| panic!("{}: {said}", row.name));
    Did { threads, files: sizes(&directory) }
}

/// The same by this engine, for which the names are below its directory.
fn by_us(row: &Row, options: &str, log: &str, place: &Path) -> Did {
    let directory = place.join("files");
    std::fs::create_dir(&directory).expect("the place is new");
    let directory = directory.canonicalize().expect("it is there");
    let job = place.join("replay.fio");
    std::fs::write(place.join("app.iolog"), log).expect("the place is ours");
    std::fs::write(&job, format!("[a]\nread_iolog=app.iolog\n{options}")).expect("the place is ours");
    let run = |stage: &str| {
        let mut run = Command::new(ours());
        run.arg(&job).arg(&directory).arg(stage);
        run
    };
    succeeded(&mut run("prepare")).unwrap_or_else(|said| panic!("{}: {said}", row.name));
    let threads =
        calls::of(&run("measure"), &directory, place).unwrap_or_else(|said| panic!("{}: {said}", row.name));
    Did { threads, files: sizes(&directory) }
}

/// A row takes a second: `make conformance` and `cargo test` run the same.
#[test]
fn all_logs_are_replayed_as_fio_does() {
    needs!(Tool { program: "fio", package: "fio" }, Tool { program: "strace", package: "strace" });
    let mut wrong = Vec::new();
    println!(
        "{:<20} {:>6} {:>6} {:>6} {:>10} {:>10} {:>10}",
        "log", "says", "fio", "here", "bytes", "fio", "here"
    );
    for (row, options) in ROWS {
        let places =
            [(); 3].map(|()| tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap());
        let recorded = places[0].path().join("files");
        std::fs::create_dir(&recorded).expect("the place is new");
        let recorded = recorded.canonicalize().expect("it is there");
        let log = record(row, places[0].path(), &recorded);
        let here = log.replace(&format!("{}/", recorded.display()), "");
        let fio = by_fio(row, options, &log, &recorded, places[1].path());
        let ours = by_us(row, options, &here, places[2].path());
        let logged = Did { threads: vec![said(&here)], files: BTreeMap::new() };
        let sums = |did: &Did| {
            let calls = did.threads.iter().flatten();
            (calls.clone().count(), calls.map(|call| call.bytes).sum::<u64>())
        };
        let all = [&logged, &fio, &ours].map(sums);
        println!(
            "{:<20} {:>6} {:>6} {:>6} {:>10} {:>10} {:>10}",
            row.name, all[0].0, all[1].0, all[2].0, all[0].1, all[1].1, all[2].1
        );
        // fio finds the files that were recorded on, which are as large as their job made them
        let found: Vec<String> =
            differences(row, &fio, &ours).into_iter().filter(|one| !one.starts_with("files: ")).collect();
        let changed = options.contains("align");
        // libaio's order is that of its submissions
        if !changed && row.compare == Compare::Order && logged.threads != ours.threads {
            wrong.push(format!("{}: not what the log says", row.name));
        }
        if !found.is_empty() {
            wrong.push(format!("{}: {}", row.name, found.join("; ")));
        }
    }
    println!("{} logs, {} differ", ROWS.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
