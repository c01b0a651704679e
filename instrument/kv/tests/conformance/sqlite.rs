//! The core workloads beside YCSB's JDBC binding on SQLite, and what reached the kernel, as strace saw it: pages that were written
//! to the log and to the database, pages that were read of both, syncs of both.
//!
//! What YCSB did is in `sqlite.txt`, recorded by `record_what_ycsb_does_on_sqlite` with the client that its head names. Both have a
//! write-ahead log and a page cache of 64 KiB, so that reads reach the kernel.

use std::collections::BTreeMap;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use kv::properties::Properties;
use kv::redis::AppendPolicy;
use kv::workload::builtin;
use kv::{Engine, Job, Workload};
use needs::{needs, strace};

use super::common::{self, Bench, PACE};
use super::{DEVIATIONS, Row, pairs, title};

/// What YCSB did, by rows: a line with the letter of a workload, properties and SQLite's `synchronous`, then the counts of its run.
const GOLDEN: &str = include_str!("sqlite.txt");
/// The page cache, in bytes: the least that SQLite gets from this crate.
const CACHE_BYTES: u64 = 64 << 10;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Of pages that are written for a commit and read for an operation, relative to YCSB's: three runs of YCSB are within 3 %.
const RELATIVE: f64 = 0.04;
/// The same where most are scans: their lengths are drawn, and of a hundred inserts a few more or fewer split a page.
const RELATIVE_SCANS: f64 = 0.08;
/// Of the share of reads that find their page in the log, in points: in three runs of YCSB it is within 4.
const SHARE: f64 = 0.06;
/// Of pages that checkpoints copy, relative to YCSB's: as many as were changed since the one before, each once.
const RELATIVE_COPIED: f64 = 0.25;
/// Of syncs at checkpoints: the last ones depend on the last pages.
const SYNCS: f64 = 4.0;
/// How long a program may take, as timeout(1) reads it.
const PATIENCE: &str = "300s";
/// Says to the test below what it is to run: the number of a row, and a folder.
const TASK: &str = "LOADLINE_TEST_SQLITE";

/// A row, and whether each commit is synced.
const ROWS: [(Row, bool); 9] = [
    (('a', &[]), false),
    (('b', &[]), false),
    (('c', &[]), false),
    (('d', &[]), false),
    (('e', &["operationcount=2000", "readallfields=false"]), false),
    (('f', &[]), false),
    (('a', &["writeallfields=true", "readallfields=false"]), false),
    (('a', &["fieldcount=3", "fieldlength=40", "requestdistribution=uniform"]), false),
    (('a', &["operationcount=2000"]), true),
];
/// The rows of `cargo test`.
const SHORT: [usize; 3] = [0, 3, 8];

/// Calls and pages by name.
type Seen = BTreeMap<String, u64>;

fn synchronous(sync: bool) -> &'static str {
    if sync { "FULL" } else { "NORMAL" }
}

fn name((row, sync): &(Row, bool)) -> String {
    format!("{} synchronous={}", title(row), synchronous(*sync))
}

fn job((row, sync): &(Row, bool)) -> Job {
    let mut properties: Properties = builtin(row.0).unwrap();
    pairs(row).for_each(|(name, value)| properties.set(&name, &value));
    let workload = Workload::of(&properties, false).unwrap();
    let flush = if *sync { AppendPolicy::Always } else { AppendPolicy::Written };
    Job { terminals: 1, cache_bytes: CACHE_BYTES, flush, ..common::job(Engine::Sqlite, workload) }
}

#[test]
#[ignore = "no test: the program that the others watch"]
fn one_workload() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (row, folder) = task.split_once(' ').unwrap();
    let bench = Bench::new();
    let root = Utf8PathBuf::from(folder);
    let place = serve::LoadSite { root: &root, ..bench.place() };
    job(&ROWS[row.parse::<usize>().unwrap()]).measure(&PACE, &place).unwrap();
}

/// What a program did to the files of the database.
fn watched(command: &Command, database: &Utf8Path, logs: &Utf8Path) -> Seen {
    let calls = "write,pwrite64,read,pread64,fsync,fdatasync";
    let threads = strace(command, calls, logs.as_std_path()).unwrap_or_else(|said| panic!("{said}"));
    let mut seen = Seen::new();
    for call in threads.values().flat_map(|log| log.lines()) {
        let (Some((name, rest)), Some((_, result))) = (call.split_once('('), call.rsplit_once(" = ")) else {
            continue;
        };
        let of_path = rest.split_once(database.as_str()).and_then(|(_, rest)| rest.split_once('>'));
        let file = match of_path.map(|(end, _)| end) {
            Some("") => "database",
            Some("-wal") => "log",
            _ => continue,
        };
        let kind = match name {
            "write" | "pwrite64" if file == "log" && is_commit(rest) => "commits",
            "write" | "pwrite64" if result == PAGE.to_string() => "written",
            "read" | "pread64" if result == PAGE.to_string() => "read",
            "fsync" | "fdatasync" => "syncs",
            // heads of pages in the log, and of files
            _ => continue,
        };
        *seen.entry(format!("{file}.{kind}")).or_default() += 1;
    }
    seen
}

/// Whether a write is the head of a page in the log, the last one of a transaction: it has the size of the database in its bytes
/// 4 to 8, others have zero there (sqlite.org/fileformat2.html).
fn is_commit(arguments: &str) -> bool {
    let Some((_, text)) = arguments.split_once('"') else { return false };
    let Some((text, rest)) = text.rsplit_once('"') else { return false };
    rest.trim_start_matches([',', ' ']).starts_with("24")
        && bytes(text).iter().skip(4).take(4).any(|byte| *byte != 0)
}

/// The bytes of a text as strace writes it.
fn bytes(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes().peekable());
    while let Some(byte) = rest.next() {
        let escaped = if byte == b'\\' { rest.next() } else { None };
        bytes.push(match escaped {
            None => byte,
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    match rest.next_if(|next| (b'0'..=b'7').contains(next)) {
                        Some(digit) => value = value * 8 + u32::from(digit - b'0'),
                        None => break,
                    }
                }
                value as u8
            }
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'v') => 11,
            Some(b'f') => 12,
            Some(other) => other,
        });
    }
    bytes
}

#[test]
fn bytes_are_those_that_strace_saw() {
    assert_eq!(bytes(r#"\0\0\1I\n\"\\\377\0177"#), b"\0\0\x01I\n\"\\\xff\x0f7");
    assert!(is_commit(r#"5</kv.sqlite-wal>, "\0\0\0\3\0\0\1b\0\0", 24, 32"#));
    assert!(!is_commit(r#"5</kv.sqlite-wal>, "\0\0\0\3\0\0\0\0\1b", 24, 32"#));
    assert!(!is_commit(r#"5</kv.sqlite-wal>, "\0\0\0\3\0\0\1b\0\0"..., 4096, 56"#));
}

fn ours(number: usize) -> Seen {
    let bench = Bench::new();
    job(&ROWS[number]).fill(&bench.place()).unwrap();
    let mut command = Command::new("timeout");
    command.arg(PATIENCE).arg(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "sqlite::one_workload"]);
    command.env(TASK, format!("{number} {}", bench.path));
    let logs = Bench::new();
    watched(&command, &Job::data(&bench.path).join("kv.sqlite"), &logs.path)
}

/// What YCSB did, by the names of rows.
fn golden() -> BTreeMap<String, Seen> {
    let lines: Vec<&str> = GOLDEN.lines().filter(|line| !line.starts_with('#')).collect();
    let row = |row: &[&str]| {
        let counts = row[1].split_whitespace().filter_map(|word| word.split_once('='));
        (row[0].to_string(), counts.map(|(name, count)| (name.to_string(), count.parse().unwrap())).collect())
    };
    lines.chunks(2).map(row).collect()
}

/// What is compared: a name, of how much, and how far that may be from YCSB's.
fn figures(seen: &Seen, operations: f64, scans: bool, sync: bool) -> Vec<(&'static str, f64, f64)> {
    let count = |name: &str| seen.get(name).copied().unwrap_or(0) as f64;
    let (commits, reads) = (count("log.commits"), count("database.read") + count("log.read"));
    let relative = if scans { RELATIVE_SCANS } else { RELATIVE };
    let share = (commits / operations).min(1.0);
    let written = count("log.written") / commits.max(1.0);
    let syncs = if sync { 0.02 * commits } else { 0.0 };
    vec![
        ("commits", commits, DEVIATIONS * (2.0 * operations * share * (1.0 - share)).sqrt()),
        ("pages written to the log for a commit", written, relative * written),
        ("pages read for an operation", reads / operations, relative * reads / operations),
        ("share of reads in the log", count("log.read") / reads.max(1.0), SHARE),
        (
            "pages copied to the database",
            count("database.written"),
            RELATIVE_COPIED * count("database.written"),
        ),
        // of synced commits there are as many as there are commits, which are compared above
        (
            "syncs of the log beside commits",
            count("log.syncs") - if sync { commits } else { 0.0 },
            SYNCS + syncs,
        ),
        ("syncs of the database", count("database.syncs"), SYNCS),
    ]
}

fn none_differs(rows: impl IntoIterator<Item = usize>) {
    let golden = golden();
    let mut wrong = Vec::new();
    for number in rows {
        let (row, sync) = &ROWS[number];
        let name = name(&ROWS[number]);
        let theirs = golden.get(&name).unwrap_or_else(|| panic!("{name} was never recorded"));
        let ours = ours(number);
        println!("sqlite {name}\n  YCSB {theirs:?}\n  here {ours:?}");
        let operations = pairs(row).filter(|(name, _)| name == "operationcount").last().unwrap();
        let figures = |seen| figures(seen, operations.1.parse().unwrap(), row.0 == 'e', *sync);
        for ((what, there, most), (_, here, _)) in figures(theirs).into_iter().zip(figures(&ours)) {
            if (there - here).abs() > most {
                wrong.push(format!(
                    "{name}: {what}: YCSB {there:.3}, here {here:.3}; {most:.3} are tolerated"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn workloads_do_what_they_do_with_ycsbs_jdbc_binding() {
    needs!(Tool { program: "strace", package: "strace" });
    none_differs(SHORT);
}

#[test]
#[ignore = "no test: it takes minutes, and make conformance runs it"]
fn all_rows_do_what_they_do_with_ycsbs_jdbc_binding() {
    needs!(Tool { program: "strace", package: "strace" });
    none_differs(0..ROWS.len());
}

/// Records the rows anew: `LOADLINE_YCSB` is a directory of YCSB's workloads, `LOADLINE_YCSB_CLASSES` a class path with its client,
/// its JDBC binding and SQLite's driver.
#[test]
#[ignore = "no test: it records what the others compare with, by a built YCSB"]
fn record_what_ycsb_does_on_sqlite() {
    let Some((workloads, classes)) =
        std::env::var("LOADLINE_YCSB").ok().zip(std::env::var("LOADLINE_YCSB_CLASSES").ok())
    else {
        return println!("LOADLINE_YCSB and LOADLINE_YCSB_CLASSES are not set: nothing is recorded");
    };
    for (number, (row, sync)) in ROWS.iter().enumerate() {
        let (bench, logs) = (Bench::new(), Bench::new());
        let database = bench.path.join("kv.sqlite");
        let fields =
            pairs(row).find(|(name, _)| name == "fieldcount").map_or(10, |(_, count)| count.parse().unwrap());
        let columns: String = (0..fields).map(|field| format!(", FIELD{field} TEXT")).collect();
        let table = format!("CREATE TABLE usertable (YCSB_KEY VARCHAR PRIMARY KEY{columns})");
        rusqlite::Connection::open(&database).unwrap().execute_batch(&table).unwrap();
        let options = format!("journal_mode=WAL&synchronous={}&cache_size=-64", synchronous(*sync));
        let client = |phase: &str| {
            let mut java = Command::new("java");
            java.args(["-cp", &classes, "site.ycsb.Client", phase, "-db", "site.ycsb.db.JdbcDBClient", "-P"]);
            java.arg(format!("{workloads}/workload{}", row.0)).args(["-threads", "1"]);
            java.args(["-p", "db.driver=org.sqlite.JDBC", "-p", "db.user=", "-p", "db.passwd="]);
            java.args(["-p", &format!("db.url=jdbc:sqlite:{database}?{options}")]);
            pairs(row).for_each(|(name, value)| _ = java.args(["-p", &format!("{name}={value}")]));
            java
        };
        let loaded = client("-load").output().unwrap();
        assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
        let seen = watched(&client("-t"), &database, &logs.path);
        let counts: Vec<String> = seen.iter().map(|(name, count)| format!("{name}={count}")).collect();
        println!("{}\n  {}", name(&ROWS[number]), counts.join(" "));
    }
}
