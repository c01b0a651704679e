//! sysbench's `fileio`, which is no load here, and the job files of fio that say the same: what reached the kernel.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use needs::needs;

use super::calls::{self, Call, Sums};
use super::rows::{Compare, Row};
use super::{Did, PATIENCE, by_us, sizes, succeeded};

/// Files, and bytes of all of them.
const LAYOUT: [&str; 4] =
    ["--file-num=4", "--file-total-size=4M", "--file-block-size=16k", "--rand-type=uniform"];
/// The same as a job.
const JOB: &str = "[a]\nnrfiles=4\nfilesize=1m\nsize=4m\nbs=16k\n";
/// Transfers of rows that draw their places.
const DRAWN: u64 = 4000;
/// Of a count that is drawn: deviations. sysbench's share of writes is no chance.
const DEVIATIONS: f64 = 5.0;

/// A row: its name, sysbench's mode and options, the job's, and whether places are drawn.
type Fileio = (&'static str, &'static str, &'static [&'static str], &'static str, bool);

const ROWS: [Fileio; 9] = [
    ("fileio-seqrd", "seqrd", &[], "rw=read\nfile_service_type=sequential\n", false),
    ("fileio-seqwr", "seqwr", &[], "rw=write\nfile_service_type=sequential\nend_fsync=1\n", false),
    (
        "fileio-seqrewr",
        "seqrewr",
        &[],
        "rw=write\noverwrite=1\nfile_service_type=sequential\nend_fsync=1\n",
        false,
    ),
    (
        "fileio-seqrewr-fsync-all",
        "seqrewr",
        &["--file-fsync-all=on"],
        "rw=write\noverwrite=1\nfile_service_type=sequential\nfsync=1\n",
        false,
    ),
    (
        "fileio-seqwr-fdatasync-all",
        "seqwr",
        &["--file-fsync-all=on", "--file-fsync-mode=fdatasync"],
        "rw=write\nfile_service_type=sequential\nfdatasync=1\n",
        false,
    ),
    ("fileio-rndrd", "rndrd", &[], "rw=randread\n", true),
    ("fileio-rndwr", "rndwr", &[], "rw=randwrite\noverwrite=1\nend_fsync=1\n", true),
    (
        "fileio-rndwr-fsync-all",
        "rndwr",
        &["--file-fsync-all=on"],
        "rw=randwrite\noverwrite=1\nfsync=1\n",
        true,
    ),
    ("fileio-rndrw", "rndrw", &[], "rw=randrw\nrwmixread=60\noverwrite=1\nend_fsync=1\n", true),
];
/// The rows of `cargo test`.
const SHORT: [usize; 4] = [2, 3, 5, 8];

fn by_sysbench(row: &Fileio, place: &Path) -> Result<Did, String> {
    let (_, mode, options, _, drawn) = row;
    let directory = place.join("files");
    std::fs::create_dir(&directory).expect("the place is new");
    let directory = directory.canonicalize().expect("it is there");
    let events = if *drawn { DRAWN } else { 256 };
    let sysbench = |stage: &str| {
        let mut sysbench = Command::new("timeout");
        sysbench.args([PATIENCE, "sysbench", "fileio"]).current_dir(&directory).args(LAYOUT).args(*options);
        sysbench.args(["--file-fsync-freq=0", "--threads=1", "--time=0", &format!("--events={events}")]);
        sysbench.arg(format!("--file-test-mode={mode}")).arg(stage);
        sysbench
    };
    succeeded(&mut sysbench("prepare"))?;
    let threads = calls::of(&sysbench("run"), &directory, place)?;
    Ok(Did { threads, files: sizes(&directory) })
}

/// The calls of all threads that made transfers, with files by their number.
fn numbered(did: &Did) -> Vec<Call> {
    let numbers: BTreeMap<&String, usize> =
        did.files.keys().enumerate().map(|(number, name)| (name, number)).collect();
    let calls = did.threads.iter().flatten().filter(|call| numbers.contains_key(&call.file));
    calls.map(|call| Call { file: numbers[&call.file].to_string(), ..call.clone() }).collect()
}

fn differences(row: &Fileio, theirs: &Did, ours: &Did) -> Vec<String> {
    let mut found = Vec::new();
    let lengths = |did: &Did| did.files.values().copied().collect::<Vec<_>>();
    if lengths(theirs) != lengths(ours) {
        found.push(format!("files: sysbench {:?}, here {:?}", theirs.files, ours.files));
    }
    let (mut theirs, own) = (vec![numbered(theirs)], vec![numbered(ours)]);
    // fsync=1 of a job leaves out the sync after the last write, as in fio
    if row.3.contains("sync=1\n") && !row.3.contains("end_fsync") && theirs[0].len() > own[0].len() {
        theirs[0].pop();
    }
    if !row.4 {
        found.extend(super::out_of_order(&theirs[0], &own[0]).map(|order| order.replace("fio", "sysbench")));
        return found;
    }
    let ends = calls::ends([&theirs, &own]);
    let (there, here) = (Sums::of(&theirs, &ends), Sums::of(&own, &ends));
    let maps = [(&there.calls, &here.calls), (&there.sizes, &here.sizes), (&there.places, &here.places)];
    for (there, here) in maps {
        for key in there.keys().chain(here.keys().filter(|key| !there.contains_key(*key))) {
            let (there, here) = (there.get(key).copied().unwrap_or(0), here.get(key).copied().unwrap_or(0));
            let share = there.max(here) as f64 / DRAWN as f64;
            // what all operations are is not drawn
            let deviation = (2.0 * DRAWN as f64 * share * (1.0 - share).max(0.0)).sqrt();
            if there.abs_diff(here) as f64 > DEVIATIONS * deviation {
                found.push(format!("{key}: sysbench {there}, here {here}"));
            }
        }
    }
    found
}

fn conform(rows: impl IntoIterator<Item = usize>) {
    let mut wrong = Vec::new();
    for row in rows.into_iter().map(|number| &ROWS[number]) {
        let drawn = if row.4 {
            format!("norandommap\nfile_service_type=random\nnumber_ios={DRAWN}\nio_size=1g\n")
        } else {
            String::new()
        };
        let job: &'static str = Box::leak(format!("{JOB}{}{drawn}", row.3).into_boxed_str());
        let as_job = Row { name: row.0, job, compare: Compare::Totals, short: false };
        let places =
            [(); 2].map(|()| tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap());
        let (theirs, ours) = (by_sysbench(row, places[0].path()), by_us(&as_job, &[], places[1].path()));
        let (theirs, ours) = match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => (theirs, ours),
            (theirs, ours) => panic!("{}: sysbench: {:?}, here: {:?}", row.0, theirs.err(), ours.err()),
        };
        let found = differences(row, &theirs, &ours);
        let counts = |did: &Did| {
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            numbered(did).iter().for_each(|call| *counts.entry(call.kind).or_default() += 1);
            format!("{counts:?}")
        };
        println!("{:<28} {:<44} {:<44} {}", row.0, counts(&theirs), counts(&ours), found.join("; "));
        if !found.is_empty() {
            wrong.push(format!("{}: {}", row.0, found.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn job_files_say_what_sysbench_fileio_does() {
    needs!(Tool { program: "sysbench", package: "sysbench" }, Tool { program: "strace", package: "strace" });
    conform(SHORT);
}

/// All of it: `make conformance`.
#[test]
#[ignore = "no test: make conformance runs it"]
fn all_job_files_say_what_sysbench_fileio_does() {
    needs!(Tool { program: "sysbench", package: "sysbench" }, Tool { program: "strace", package: "strace" });
    conform(0..ROWS.len());
}
