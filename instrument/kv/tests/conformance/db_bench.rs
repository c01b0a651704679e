//! The same patterns by db_bench and by this crate on RocksDB, and what reached the kernel, as strace saw it: writes to the log and
//! their bytes, reads of the tables and theirs, syncs. Both work on the same keys; databases that are read are copies of one.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use kv::patterns::{Bench, Pattern};
use kv::{Job, PatternJob};
use needs::{needs, strace};
use serve::drive::{self, Pace};

/// Keys of the database: three times the cache.
const KEYS: u64 = 200_000;
/// Operations of each side.
const OPS: u64 = 20_000;
/// Keys of a call of multireadrandom.
const BATCH: u64 = 32;
/// What is not drawn may differ by this share.
const TOLERATED: f64 = 0.01;
/// Reads of tables are drawn: whether a block is in the cache. Four deviations of a share of a half of `OPS` draws, twice drawn.
const TOLERATED_DRAWN: f64 = 0.02;
/// Says to the test below what it is to run: pattern, operations, 1 for synchronous writes, folder.
const TASK: &str = "LOADLINE_TEST_PATTERN";

/// A row's name, its pattern, operations, and whether each write is synchronous.
type Row = (&'static str, Pattern, u64, bool);

const ROWS: [Row; 9] = [
    ("db-bench-fillseq", Pattern::FillSeq, OPS, false),
    ("db-bench-fillrandom", Pattern::FillRandom, OPS, false),
    ("db-bench-fillrandom-sync", Pattern::FillRandom, 1000, true),
    ("db-bench-overwrite", Pattern::Overwrite, OPS, false),
    ("db-bench-readrandom", Pattern::ReadRandom, OPS, false),
    ("db-bench-multireadrandom", Pattern::MultiReadRandom, OPS - OPS % BATCH, false),
    ("db-bench-readseq", Pattern::ReadSeq, KEYS, false),
    ("db-bench-readreverse", Pattern::ReadReverse, KEYS, false),
    ("db-bench-readwhilewriting", Pattern::ReadWhileWriting, OPS, false),
];
const SHORT: [usize; 3] = [1, 2, 4];

/// Calls and bytes by kind of file.
type Seen = BTreeMap<&'static str, u64>;

fn job(pattern: Pattern, ops: u64, sync: bool) -> PatternJob {
    let bench = Bench { pattern, keys: keys(pattern, ops), value_bytes: 100, batch: BATCH, ops };
    PatternJob { bench, threads: 1, cache_bytes: None, sync }
}

/// db_bench's `num` is also the number of its writes.
fn keys(pattern: Pattern, ops: u64) -> u64 {
    if pattern.is_fresh() { ops } else { KEYS }
}

#[test]
#[ignore = "no test: the program that the others watch"]
fn one_pattern() {
    let Ok(task) = std::env::var(TASK) else { return };
    let words: Vec<&str> = task.splitn(4, ' ').collect();
    let job = job(words[0].parse().unwrap(), words[1].parse().unwrap(), words[2] == "1");
    let shared = job.open(Utf8Path::new(words[3]), 7).unwrap();
    let pace = Pace { warmup_seconds: 0.0, seconds: 600.0, rate: None };
    let driven = drive::drive(&job.bench.pattern.kinds(), shared.threads(1), &pace, &|| false);
    assert!(driven.failed.is_none());
}

fn by_us(row: &Row, root: &Utf8Path) -> Seen {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "db_bench::one_pattern"]);
    command.env(TASK, format!("{} {} {} {root}", row.1.name(), row.2, u8::from(row.3)));
    watched(command, root)
}

fn by_db_bench(row: &Row, root: &Utf8Path) -> Seen {
    let (name, pattern, ops, sync) = row;
    let mut command = Command::new("db_bench");
    command.arg(format!("--db={}", Job::data(root))).arg(format!("--benchmarks={}", pattern.name()));
    command.args(["--compression_type=none", "--cache_size=8388608", "--key_size=16", "--value_size=100"]);
    command.arg(format!("--num={}", keys(*pattern, *ops))).arg(format!("--sync={}", u8::from(*sync)));
    command.arg(format!("--batch_size={BATCH}"));
    match pattern {
        _ if pattern.is_fresh() => {}
        Pattern::Overwrite => _ = command.arg("--use_existing_db=1").arg(format!("--writes={ops}")),
        _ => _ = command.arg("--use_existing_db=1").arg(format!("--reads={ops}")),
    }
    // a batch of writes is another load
    if !matches!(pattern, Pattern::MultiReadRandom) {
        command.arg("--batch_size=1");
    }
    assert!(!name.is_empty());
    watched(command, root)
}

/// What a program did to the files of the database.
fn watched(command: Command, root: &Utf8Path) -> Seen {
    let threads = strace(&command, "write,pwrite64,pread64,fsync,fdatasync", root.as_std_path())
        .unwrap_or_else(|said| panic!("{command:?}: {said}"));
    let (mut seen, folder) = (Seen::new(), Job::data(root));
    for call in threads.values().flat_map(|log| log.lines()) {
        let (Some((name, _)), Some((_, result))) = (call.split_once('('), call.rsplit_once(" = ")) else {
            continue;
        };
        let Some((_, path)) = call.split_once(folder.as_str()) else { continue };
        let path = path.split('>').next().unwrap();
        let bytes: u64 = result.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let kinds = match (name, path.rsplit_once('.').map(|(_, end)| end)) {
            ("write" | "pwrite64", Some("log")) => ["log writes", "log bytes"],
            ("fsync" | "fdatasync", Some("log")) => ["log syncs", ""],
            ("pread64", Some("sst")) => ["table reads", "table bytes"],
            _ => continue,
        };
        *seen.entry(kinds[0]).or_default() += 1;
        if !kinds[1].is_empty() {
            *seen.entry(kinds[1]).or_default() += bytes;
        }
    }
    seen
}

/// A folder for one side, with a database where the pattern wants one.
fn place(pattern: Pattern, filled: &Path) -> (tempfile::TempDir, Utf8PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
    let data = Job::data(&path);
    std::fs::create_dir_all(&data).unwrap();
    if !pattern.is_fresh() {
        for entry in std::fs::read_dir(filled).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), data.as_std_path().join(entry.file_name())).unwrap();
        }
    }
    (folder, path)
}

fn conform(rows: impl Iterator<Item = usize>) {
    let (_kept, root) = place(Pattern::FillSeq, Path::new(""));
    let filler = job(Pattern::ReadRandom, OPS, false).open(&root, 7).unwrap();
    filler.fill(&|| false, &|_| {}).unwrap();
    filler.db().flush().unwrap();
    filler.db().compact();
    filler.db().wait_for_compactions(&|| false).unwrap();
    drop(filler);
    let mut wrong = Vec::new();
    for row in rows.map(|number| &ROWS[number]) {
        let by = |run: &dyn Fn(&Row, &Utf8Path) -> Seen| {
            let (_kept, path) = place(row.1, Job::data(&root).as_std_path());
            run(row, &path)
        };
        let (theirs, ours) = (by(&by_db_bench), by(&by_us));
        // What was written meanwhile is read from memory, and is as much as there was time for.
        let written = |seen: &Seen| seen.get("log writes").copied().unwrap_or(0);
        let is_beside = row.1 == Pattern::ReadWhileWriting;
        let from_memory = written(&theirs).abs_diff(written(&ours)) as f64 / keys(row.1, row.2) as f64;
        let mut found = Vec::new();
        for name in theirs.keys().chain(ours.keys().filter(|name| !theirs.contains_key(*name))) {
            if is_beside && name.starts_with("log") {
                continue;
            }
            let (there, here) =
                (theirs.get(name).copied().unwrap_or(0), ours.get(name).copied().unwrap_or(0));
            let drawn = TOLERATED_DRAWN + if is_beside { from_memory } else { 0.0 };
            let share = if name.starts_with("table") { drawn } else { TOLERATED };
            if there.abs_diff(here) as f64 > share * there.max(here) as f64 {
                found.push(format!("{name}: db_bench {there}, here {here}"));
            }
        }
        println!(
            "{:<34} {}",
            row.0,
            if found.is_empty() { format!("equal: {theirs:?}") } else { found.join("; ") }
        );
        if !found.is_empty() {
            wrong.push(format!("{}: {}", row.0, found.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn patterns_do_what_db_bench_does() {
    needs!(
        RocksDb,
        Tool { program: "db_bench", package: "rocksdb-tools" },
        Tool { program: "strace", package: "strace" }
    );
    conform(SHORT.into_iter());
}

#[test]
#[ignore = "no test: it takes minutes, and make conformance runs it"]
fn all_rows_of_patterns_do_what_db_bench_does() {
    needs!(
        RocksDb,
        Tool { program: "db_bench", package: "rocksdb-tools" },
        Tool { program: "strace", package: "strace" }
    );
    conform(0..ROWS.len());
}
