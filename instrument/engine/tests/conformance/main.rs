//! The same job file by fio and by this engine, each on a directory of its own, and what reached the kernel: calls of each kind,
//! bytes, sizes, places, syncs, order, files and their sizes. Neither program is asked what it has done.
//!
//! `cargo test -p loadline-engine --test conformance` runs a short suite; `make conformance` all of it. A difference of more than
//! 1 % fails, unless it is one of [`KNOWN`], which docs/compatibility.md explains.

mod calls;
mod devices;
mod filebench;
mod fileio;
mod logs;
mod published;
mod rows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use calls::{Call, Sums};
use needs::needs;
use rows::{Compare, ROWS, Row};

/// A difference that is not told, as a share.
const TOLERATED: f64 = 0.01;
/// Of loads that the time ends, a share of calls that may differ: they stop somewhere within a pass.
const TOLERATED_SHARE: f64 = 0.02;

/// How long fio may take for a row, as timeout(1) reads it.
const PATIENCE: &str = "120s";

/// A row, and what differs there: the beginnings of differences. Whatever else differs there, fails.
type Known = (&'static str, &'static [&'static str]);
/// Job files that differ from fio.
const KNOWN: &[Known] = &[("mixed-fsync", &["fsync", "order"])];

/// The differences of a row that are not known.
fn unknown(known: &[Known], row: &str, found: &[String]) -> Vec<String> {
    let known = known.iter().find(|(name, _)| *name == row).map_or(&[][..], |(_, begins)| begins);
    found.iter().filter(|one| !known.iter().any(|begin| one.starts_with(begin))).cloned().collect()
}

/// What a program did.
struct Did {
    threads: Vec<Vec<Call>>,
    /// Sizes of the files that are there afterwards.
    files: BTreeMap<String, u64>,
}

/// The program that runs a job file on this engine: an example beside this test.
fn ours() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its path");
    let folder = test.parent().and_then(Path::parent).expect("target/PROFILE/deps");
    folder.join("examples/job")
}

/// What fio does with the sections of a row that are named, or with all; why it fails.
fn by_fio(row: &Row, sections: &[&str], place: &Path) -> Result<Did, String> {
    let (directory, job) = laid_out(row, place);
    let fio = || {
        // some jobs it never ends
        let mut fio = Command::new("timeout");
        fio.args([PATIENCE, "fio"])
            .current_dir(place)
            .arg(format!("--directory={}", directory.display()))
            .arg("--eta=never");
        fio.args(sections.iter().map(|name| format!("--section={name}")));
        fio
    };
    succeeded(fio().arg("--create_only=1").arg(&job))?;
    let threads = calls::of(fio().arg(&job), &directory, place)?;
    Ok(Did { threads, files: sizes(&directory) })
}

fn by_us(row: &Row, sections: &[&str], place: &Path) -> Result<Did, String> {
    let (directory, job) = laid_out(row, place);
    let run = |stage: &str| {
        let mut run = Command::new(ours());
        run.arg(&job).arg(&directory).arg(stage);
        if !sections.is_empty() {
            run.arg(format!("job={}", sections.join("+")));
        }
        run
    };
    succeeded(&mut run("prepare"))?;
    let threads = calls::of(&run("measure"), &directory, place)?;
    Ok(Did { threads, files: sizes(&directory) })
}

/// Runs a program; what it said when it failed.
fn succeeded(command: &mut Command) -> Result<(), String> {
    let hint =
        "it runs (`cargo build -p loadline-engine --example job` comes first when this test is run alone)";
    let output = command.output().expect(hint);
    match output.status.success() {
        true => Ok(()),
        false => Err([output.stdout, output.stderr]
            .map(|said| String::from_utf8_lossy(&said).into_owned())
            .concat()),
    }
}

fn laid_out(row: &Row, place: &Path) -> (PathBuf, PathBuf) {
    let (directory, job) = (place.join("files"), place.join("job.fio"));
    std::fs::create_dir(&directory).expect("the place is new");
    std::fs::write(&job, row.job).expect("the place is ours");
    std::fs::write(place.join(rows::INCLUDED.0), rows::INCLUDED.1).expect("the place is ours");
    (directory.canonicalize().expect("it is there"), job)
}

/// Sizes by the name below the directory, whatever lies between it and the file.
fn sizes(directory: &Path) -> BTreeMap<String, u64> {
    let mut sizes = BTreeMap::new();
    for entry in std::fs::read_dir(directory).expect("the directory is there") {
        let entry = entry.expect("an entry");
        if let Some(size) = size_of(&entry.path()) {
            sizes.insert(entry.file_name().to_string_lossy().into_owned(), size);
        }
    }
    sizes
}

fn size_of(path: &Path) -> Option<u64> {
    let metadata = std::fs::metadata(path).ok()?;
    if metadata.is_file() {
        return Some(metadata.len());
    }
    std::fs::read_dir(path).ok()?.find_map(|entry| size_of(&entry.ok()?.path()))
}

/// What differs, a sentence each.
fn differences(row: &Row, fio: &Did, ours: &Did) -> Vec<String> {
    let ends = calls::ends([&fio.threads, &ours.threads]);
    let (theirs, own) = (Sums::of(&fio.threads, &ends), Sums::of(&ours.threads, &ends));
    let mut found = Vec::new();
    if fio.files != ours.files {
        found.push(format!("files: fio {:?}, here {:?}", fio.files, ours.files));
    }
    if row.compare == Compare::Shares {
        let share = |map: &BTreeMap<String, u64>, key: &String| {
            map.get(key).copied().unwrap_or(0) as f64 / map.values().sum::<u64>().max(1) as f64
        };
        let maps = [(&theirs.calls, &own.calls), (&theirs.sizes, &own.sizes), (&theirs.places, &own.places)];
        for (there, here) in maps {
            for key in there.keys().chain(here.keys().filter(|key| !there.contains_key(*key))) {
                let (there, here) = (share(there, key), share(here, key));
                if (there - here).abs() > TOLERATED_SHARE {
                    found.push(format!("{key}: fio {:.1} %, here {:.1} %", there * 100.0, here * 100.0));
                }
            }
        }
        return found;
    }
    let mut maps =
        vec![(&theirs.calls, &own.calls), (&theirs.bytes, &own.bytes), (&theirs.sizes, &own.sizes)];
    if row.compare != Compare::Totals {
        maps.push((&theirs.places, &own.places));
    }
    for (there, here) in maps {
        for key in there.keys().chain(here.keys().filter(|key| !there.contains_key(*key))) {
            let (there, here) = (there.get(key).copied().unwrap_or(0), here.get(key).copied().unwrap_or(0));
            if there.abs_diff(here) as f64 > TOLERATED * there.max(here) as f64 {
                found.push(format!("{key}: fio {there}, here {here}"));
            }
        }
    }
    if row.compare == Compare::Order {
        let sorted = |threads: &[Vec<Call>]| {
            let mut threads: Vec<_> = threads.to_vec();
            threads.sort_by_key(|calls| format!("{:?}", calls.first()));
            threads
        };
        let (theirs, own) = (sorted(&fio.threads), sorted(&ours.threads));
        if theirs.len() != own.len() {
            found.push(format!("order: threads: fio {}, here {}", theirs.len(), own.len()));
        }
        found.extend(theirs.iter().zip(&own).find_map(|(theirs, own)| out_of_order(theirs, own)));
    }
    found
}

/// The first call of a thread that differs, also where one of the two has no more.
fn out_of_order(theirs: &[Call], own: &[Call]) -> Option<String> {
    let at = (0..theirs.len().max(own.len())).find(|at| theirs.get(*at) != own.get(*at))?;
    Some(format!("order: call {at}: fio {:?}, here {:?}", theirs.get(at), own.get(at)))
}

fn conform(rows: &[&Row]) {
    let (mut equal, mut named, mut wrong) = (0, 0, Vec::new());
    println!("{:<34} {:>8} {:>8} {:>10} {:>10}  differs", "job", "fio", "here", "fio bytes", "bytes");
    for row in rows {
        let places =
            [(); 2].map(|()| tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap());
        let (fio, ours) = (by_fio(row, &[], places[0].path()), by_us(row, &[], places[1].path()));
        let (fio, ours) = match (fio, ours) {
            (Ok(fio), Ok(ours)) => (fio, ours),
            (fio, ours) => panic!("{}: fio: {:?}, here: {:?}", row.name, fio.err(), ours.err()),
        };
        let count = |did: &Did| did.threads.iter().map(Vec::len).sum::<usize>();
        let bytes = |did: &Did| did.threads.iter().flatten().map(|call| call.bytes).sum::<u64>();
        let found = differences(row, &fio, &ours);
        let unknown = unknown(KNOWN, row.name, &found);
        println!(
            "{:<34} {:>8} {:>8} {:>10} {:>10}  {}",
            row.name,
            count(&fio),
            count(&ours),
            bytes(&fio),
            bytes(&ours),
            found.iter().take(4).cloned().collect::<Vec<_>>().join("; ")
        );
        match (found.is_empty(), unknown.is_empty()) {
            (true, _) => equal += 1,
            (false, true) => named += 1,
            (false, false) => wrong.push(format!("{}: {}", row.name, unknown.join("; "))),
        }
    }
    println!(
        "{} jobs: {equal} equal, {named} differ as docs/compatibility.md says, {} differ",
        rows.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{} jobs differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn known_differences_excuse_nothing_else_and_are_told() {
    let found = ["fsync: fio 1021, here 528", "write: fio 9, here 8"].map(String::from);
    assert_eq!(unknown(KNOWN, "zoned", &found), found);
    assert_eq!(unknown(KNOWN, "mixed-fsync", &found), found[1..]);
    let told = include_str!("../../../../docs/compatibility.md");
    let rows: Vec<&str> =
        told.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next()).collect();
    for (name, _) in KNOWN.iter().chain(filebench::KNOWN) {
        assert!(
            rows.iter().any(|row| row.split('`').any(|word| word == *name)),
            "{name} has no row in the tables"
        );
    }
}

#[test]
fn the_last_calls_of_a_thread_are_part_of_its_order() {
    let call = |offset| Call { kind: "write", file: "a".into(), offset, bytes: 4096 };
    let (all, fewer) = ([call(0), call(4096)], [call(0)]);
    assert_eq!(out_of_order(&all, &all), None);
    assert!(out_of_order(&all, &fewer).is_some() && out_of_order(&fewer, &all).is_some());
}

#[test]
fn job_files_do_what_fio_does() {
    needs!(Tool { program: "fio", package: "fio" }, Tool { program: "strace", package: "strace" });
    conform(&ROWS.iter().filter(|row| row.short).collect::<Vec<_>>());
}

/// All of it: `make conformance`. `CONFORMANCE=name` runs rows whose names contain it.
#[test]
#[ignore = "no test: it takes minutes, and make conformance runs it"]
fn all_job_files_do_what_fio_does() {
    needs!(Tool { program: "fio", package: "fio" }, Tool { program: "strace", package: "strace" });
    let wanted = std::env::var("CONFORMANCE").unwrap_or_default();
    conform(&ROWS.iter().filter(|row| row.name.contains(&wanted)).collect::<Vec<_>>());
}
