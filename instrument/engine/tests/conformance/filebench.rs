//! What Filebench does with the same files, and what this engine does with them.
//!
//! Filebench is in no distribution that is still cared for. So what 1.5-alpha3 did is kept here (`filebench.tsv`), as strace saw it,
//! for the files in `workloads/`; `FILEBENCH=PROGRAM make conformance` runs it anew and writes the table. With
//! `FILEBENCH_FILES=FOLDER` (its own `workloads/`, which may not be copied here) those files are run by both.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::calls;
use super::{Known, unknown};
use needs::{needs, strace};

/// Calls by which the programs are compared, and those that tell whose child a thread is.
const WATCHED: &str = "openat,open,creat,close,unlink,unlinkat,mkdir,mkdirat,rmdir,stat,lstat,newfstatat,statx,getdents64,\
                       rename,renameat2,ftruncate,truncate,read,pread64,readv,preadv,preadv2,write,pwrite64,writev,pwritev,\
                       pwritev2,fsync,fdatasync,io_submit,io_uring_enter,clone,clone3,fork,vfork,execve";
/// Calls, and sizes by the power of two above them, may differ by this share of all calls: the time ends the loads, and their
/// choices are drawn.
const TOLERATED_SHARE: f64 = 0.02;
/// Besides, by this many standard deviations of a share of so few calls as a slow machine makes until the time ends.
const TOLERATED_DEVIATIONS: f64 = 4.0;
/// What the number of all calls is kept under, beside the shares.
const CALLS: &str = "all calls";
/// How long each load runs, in seconds.
const SECONDS: u32 = 2;
/// How long Filebench may take for a load in all, as timeout(1) reads it.
const PATIENCE: &str = "60s";

/// A file in `workloads/`, the values that its variables get for Filebench, whose expressions have no functions, and whether it is
/// part of the short suite.
const ROWS: &[(&str, &str, bool)] = &[
    ("append", "nthreads=2 filesize=0 maxbytes=64m", false),
    ("copyfiles", "nfiles=1000", false),
    ("createfiles", "nfiles=2000 nthreads=4", false),
    ("deletefiles", "nfiles=2000 nthreads=4", false),
    ("fileserver", "nfiles=1000 nthreads=8", true),
    ("fsmark", "nfiles=100", false),
    ("listdirs", "nfiles=1000 nthreads=4", true),
    ("makedirs", "ndirs=1000 nthreads=4", false),
    ("mongo", "nfiles=1000", false),
    ("networkfs", "nfiles=1000 nthreads=4", false),
    ("oltp", "filesize=10m logfilesize=10m nshadows=2 ndbwriters=1", false),
    ("openfiles", "nfiles=1000 nthreads=4", false),
    ("randomread", "filesize=64m", false),
    ("randomrw", "filesize=64m", false),
    ("randomwrite", "filesize=64m", false),
    ("randwrite4k_fsync", "filesize=64m", false),
    ("removedirs", "ndirs=1000 nthreads=4", false),
    ("seqread", "filesize=64m", false),
    ("seqwrite", "filesize=64m", false),
    ("statfiles", "nfiles=1000 nthreads=4", false),
    ("varmail", "nfiles=1000 nthreads=8", true),
    ("videoserver", "filesize=16m nthreads=8", false),
    ("webproxy", "nfiles=2000 nthreads=8", true),
    ("webserver", "nfiles=1000 nthreads=8", true),
];

/// Variables of Filebench's own files that say how much there is, and what they get.
const SIZES: &[(&str, &str)] = &[
    ("nfiles", "1000"),
    ("ndirs", "1000"),
    ("nthreads", "4"),
    ("filesize", "16m"),
    ("logfilesize", "10m"),
    ("nshadows", "2"),
    ("ndbwriters", "1"),
    ("eventrate", "1000"),
];

/// Files that differ from Filebench.
pub const KNOWN: &[Known] = &[
    ("wml-randomrw", &["read", "write"]),
    ("filebench-randomrw", &["read", "write"]),
    ("wml-oltp", &["open or create", "read", "write"]),
    ("filebench-oltp", &["open or create", "read", "write"]),
    ("filebench-netsfs", &["read", "write"]),
];

/// Shares of a program's calls, in the order of their names.
type Shares = BTreeMap<String, f64>;

/// A script with its directory and variables replaced, and a run of `SECONDS` at its end.
fn fitted(text: &str, directory: &Path, set: &[(&str, &str)]) -> String {
    let mut fitted = String::new();
    for line in text.lines() {
        let name = line.strip_prefix("set $").and_then(|rest| rest.split('=').next());
        let value = name.and_then(|name| set.iter().find(|(known, _)| *known == name.trim()));
        match (name.map(str::trim), value) {
            (Some("dir"), _) => writeln!(fitted, "set $dir={}", directory.display()),
            (Some(_), Some((name, value))) if !line.contains("var(") => {
                writeln!(fitted, "set ${name}={value}")
            }
            _ if ["run ", "psrun "].iter().any(|word| line.starts_with(word)) || line == "run" => Ok(()),
            _ => writeln!(fitted, "{line}"),
        }
        .expect("a text takes all");
    }
    writeln!(fitted, "run {SECONDS}").expect("a text takes all");
    fitted
}

/// A place for one run: it, its empty directory, and the script.
fn laid_out(text: &str, set: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a place");
    let directory = place.path().join("files");
    std::fs::create_dir(&directory).expect("the place is new");
    let script = place.path().join("script.f");
    std::fs::write(&script, fitted(text, &directory, set)).expect("the place is ours");
    (place, directory, script)
}

/// What Filebench does; `Err` says how it ended when it ran nothing.
fn by_filebench(program: &Path, text: &str, set: &[(&str, &str)]) -> Result<Shares, String> {
    // Words of its own language cannot be names there.
    let text = ["create", "list", "rate", "client"].iter().fold(text.to_string(), |text, word| {
        text.replace(&format!("name={word},"), &format!("name={word}1,"))
            .replace(&format!("name={word}\n"), &format!("name={word}1\n"))
    });
    let (place, directory, script) = laid_out(&text, set);
    // Its processes share memory at one address, which they find only where addresses are not random. Some scripts it never ends.
    let mut command = Command::new("timeout");
    command.arg(PATIENCE).args(["setarch", "-R"]).arg(program).arg("-f").arg(&script);
    let logs = strace(&command, WATCHED, place.path())
        .map_err(|said| format!("failed: {}", said.lines().last().unwrap_or("it said nothing")))?;
    let shares = shares(&logs, &directory, &descendants(&logs));
    if shares.is_empty() { Err("ran nothing".to_string()) } else { Ok(shares) }
}

fn by_us(text: &str, set: &[(&str, &str)]) -> Shares {
    let (place, directory, script) = laid_out(text, set);
    let run = |stage: &str| {
        let mut run = Command::new(super::ours());
        run.arg(&script).arg(&directory).arg(stage);
        run
    };
    let made = run("prepare").output().expect("the example is built");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let logs = strace(&run("measure"), WATCHED, place.path()).unwrap_or_else(|said| panic!("{said}"));
    shares(&logs, &directory, &logs.keys().copied().collect())
}

/// The threads of the processes that Filebench starts for the load: it starts itself with `-a` for each. What the first process
/// does is preparing.
fn descendants(logs: &BTreeMap<u64, String>) -> BTreeSet<u64> {
    let mut members: BTreeSet<u64> = logs
        .iter()
        .filter(|(_, log)| log.lines().any(|line| line.starts_with("execve(") && line.contains("\"-a\"")))
        .map(|(thread, _)| *thread)
        .collect();
    let mut todo: Vec<u64> = members.iter().copied().collect();
    while let Some(thread) = todo.pop() {
        for line in logs.get(&thread).map_or("", String::as_str).lines() {
            let started = ["clone", "fork", "vfork"].iter().any(|word| line.starts_with(word));
            let child = line.rsplit_once(" = ").and_then(|(_, child)| child.trim().parse().ok());
            if let (true, Some(child)) = (started, child)
                && members.insert(child)
            {
                todo.push(child);
            }
        }
    }
    members
}

fn shares(logs: &BTreeMap<u64, String>, directory: &Path, members: &BTreeSet<u64>) -> Shares {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut all: u32 = 0;
    let transfer = |counts: &mut BTreeMap<String, u64>, kind: &str, bytes: u64| {
        let above = if bytes == 0 { 0 } else { bytes.next_power_of_two() };
        *counts.entry(format!("{kind} of at most {above}")).or_insert(0) += 1;
    };
    let below = directory.to_str().expect("a path of ours");
    for line in members.iter().filter_map(|thread| logs.get(thread)).flat_map(|log| within_the_load(log)) {
        let Some((name, rest)) = line.split_once('(') else { continue };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else { continue };
        let result: i64 = result.split(['<', ' ']).next().and_then(|word| word.parse().ok()).unwrap_or(-1);
        // The engine's `aiowrite`, which Filebench makes of threads that write.
        if name == "io_uring_enter" {
            all += u32::try_from(result).unwrap_or(0);
            *counts.entry("write".to_string()).or_insert(0) += result.unsigned_abs();
            continue;
        }
        if name == "io_submit" {
            for call in calls::submitted(arguments, result, directory) {
                all += 1;
                *counts.entry(call.kind.to_string()).or_insert(0) += 1;
                transfer(&mut counts, call.kind, call.bytes);
            }
            continue;
        }
        if !arguments.contains(below) || result < 0 {
            continue;
        }
        let kind = match name {
            "openat" | "open" if arguments.contains("O_DIRECTORY") => "open of a directory",
            // Whether a program lets open make what it knows to be there is its own affair.
            "openat" | "open" | "creat" => "open or create",
            "close" => "close",
            "unlink" => "unlink",
            "unlinkat" if arguments.contains("AT_REMOVEDIR") => "rmdir",
            "unlinkat" => "unlink",
            "rmdir" => "rmdir",
            "mkdir" | "mkdirat" => "mkdir",
            // The C library asks so for the size of a file that is open.
            "newfstatat" | "statx" if arguments.contains("AT_EMPTY_PATH") => continue,
            // Filebench asks before it makes a file whether the directory is there.
            "stat" | "lstat" | "newfstatat" | "statx" if arguments.contains("S_IFDIR") => continue,
            "stat" | "lstat" | "newfstatat" | "statx" => "stat",
            "fsync" | "fdatasync" => name,
            "ftruncate" | "truncate" => "truncate",
            "read" | "pread64" | "readv" | "preadv" | "preadv2" => "read",
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => "write",
            _ => continue,
        };
        all += 1;
        *counts.entry(kind.to_string()).or_insert(0) += 1;
        if matches!(kind, "read" | "write") {
            transfer(&mut counts, kind, result.unsigned_abs());
        }
    }
    let share = |count: u64| count as f64 / f64::from(all.max(1));
    let mut shares: Shares = counts.into_iter().map(|(key, count)| (key, share(count))).collect();
    shares.insert(CALLS.to_string(), all.into());
    shares
}

/// The calls of a thread without those by which it closes, in the end, what is open: Filebench's threads end with their process.
fn within_the_load(log: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.iter().rposition(|line| !line.starts_with("close(") && !line.starts_with("+++"));
    lines.into_iter().take(last.map_or(0, |last| last + 1))
}

fn differences(there: &Shares, here: &Shares) -> Vec<String> {
    let names: BTreeSet<&String> = there.keys().chain(here.keys()).collect();
    let share = |shares: &Shares, name: &String| shares.get(name).copied().unwrap_or(0.0);
    let calls = share(here, &CALLS.to_string()).max(1.0);
    let tolerated =
        |share: f64| TOLERATED_SHARE + TOLERATED_DEVIATIONS * (share * (1.0 - share) / calls).sqrt();
    names
        .into_iter()
        .filter(|name| *name != CALLS)
        .map(|name| (name, share(there, name), share(here, name)))
        .filter(|(_, there, here)| (there - here).abs() > tolerated(*there))
        .map(|(name, there, here)| {
            format!("{name}: Filebench {:.1} %, here {:.1} %", there * 100.0, here * 100.0)
        })
        .collect()
}

/// The kept shares, by row.
fn kept() -> BTreeMap<String, Shares> {
    let mut rows: BTreeMap<String, Shares> = BTreeMap::new();
    for line in include_str!("filebench.tsv").lines() {
        let mut fields = line.split('\t');
        let (Some(row), Some(name), Some(Ok(share))) =
            (fields.next(), fields.next(), fields.next().map(str::parse::<f64>))
        else {
            panic!("filebench.tsv: {line}");
        };
        rows.entry(row.to_string()).or_default().insert(name.to_string(), share / 100.0);
    }
    rows
}

fn table() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/filebench.tsv")
}

fn own(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../workloads/{name}.f"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn pairs(set: &'static str) -> Vec<(&'static str, &'static str)> {
    set.split_whitespace().filter_map(|word| word.split_once('=')).collect()
}

/// Prints a row's outcome; true if it may stand so.
fn judge(name: &str, there: &Shares, here: &Shares, wrong: &mut Vec<String>) {
    let found = differences(there, here);
    println!("{name:<34} {}", if found.is_empty() { "equal".to_string() } else { found.join("; ") });
    let unknown = unknown(KNOWN, name, &found);
    if !unknown.is_empty() {
        wrong.push(format!("{name}: {}", unknown.join("; ")));
    }
}

fn compare(rows: impl Iterator<Item = &'static (&'static str, &'static str, bool)>) {
    let kept = kept();
    let mut wrong = Vec::new();
    for (name, set, _) in rows {
        let Some(there) = kept.get(*name) else { continue };
        judge(&format!("wml-{name}"), there, &by_us(&own(name), &pairs(set)), &mut wrong);
    }
    assert!(wrong.is_empty(), "{} files differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn scripts_do_what_filebench_did() {
    needs!(Tool { program: "strace", package: "strace" });
    compare(ROWS.iter().filter(|(_, _, short)| *short));
}

/// All of it: `make conformance`. `CONFORMANCE=name` runs rows whose names contain it.
#[test]
#[ignore = "no test: it takes minutes, and make conformance runs it"]
fn all_scripts_do_what_filebench_did() {
    needs!(Tool { program: "strace", package: "strace" });
    let wanted = std::env::var("CONFORMANCE").unwrap_or_default();
    let Some(filebench) = std::env::var_os("FILEBENCH").map(PathBuf::from) else {
        return compare(ROWS.iter().filter(|(name, _, _)| name.contains(&wanted)));
    };
    let mut wrong = Vec::new();
    let mut kept = kept();
    for (name, set, _) in ROWS.iter().filter(|(name, _, _)| name.contains(&wanted)) {
        let (text, set) = (own(name), pairs(set));
        let there = match by_filebench(&filebench, &text, &set) {
            Ok(there) => there,
            Err(how) => {
                println!("wml-{name:<30} Filebench {how}");
                kept.remove(*name);
                continue;
            }
        };
        judge(&format!("wml-{name}"), &there, &by_us(&text, &set), &mut wrong);
        kept.insert((*name).to_string(), there);
    }
    let mut written = String::new();
    for (row, shares) in &kept {
        // What is under a tenth of a percent says nothing.
        for (name, share) in shares.iter().filter(|(name, share)| *name != CALLS && **share >= 0.001) {
            writeln!(written, "{row}\t{name}\t{:.2}", share * 100.0).expect("a text takes all");
        }
    }
    std::fs::write(table(), written).expect("the table is written");
    if let Some(folder) = std::env::var_os("FILEBENCH_FILES") {
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
            .expect("its files")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "f")) {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            if !name.contains(&wanted) {
                continue;
            }
            let text = String::from_utf8_lossy(&std::fs::read(file).expect("a file")).into_owned();
            let there = match by_filebench(&filebench, &text, SIZES) {
                Ok(there) => there,
                Err(how) => {
                    println!("filebench-{name:<24} Filebench {how}");
                    continue;
                }
            };
            judge(&format!("filebench-{name}"), &there, &by_us(&text, SIZES), &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{} files differ:\n{}", wrong.len(), wrong.join("\n"));
}
