//! The core workloads on every engine, in private directories.

use std::sync::Arc;

use camino::Utf8PathBuf;
use journal::Journal;
use kv::properties::Properties;
use kv::workload::builtin;
use kv::{Engine, Job, KvError, Workload};
use needs::needs;
use serve::Place;
use serve::drive::Pace;
use stats::{Ended, Outcome};

struct Bench {
    _folder: tempfile::TempDir,
    path: Utf8PathBuf,
    journal: Arc<Journal>,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        let journal = Journal::open(&path.join("journal"), "test").unwrap();
        Bench { _folder: folder, path, journal }
    }

    fn place(&self) -> Place<'_> {
        Place {
            root: &self.path,
            temporary: &self.path,
            journal: &self.journal,
            seed: 7,
            stopped: &|| false,
            tell: &|_| {},
            moment: &|_| {},
        }
    }
}

fn workload(letter: char, more: &[(&str, &str)], verify: bool) -> Workload {
    let mut properties: Properties = builtin(letter).unwrap();
    properties.set("recordcount", "2000");
    properties.set("operationcount", "3000");
    more.iter().for_each(|(name, value)| properties.set(name, value));
    Workload::of(&properties, verify).unwrap()
}

fn job(engine: Engine, workload: Workload) -> Job {
    Job { workload, engine, terminals: 3, cache_bytes: 8 << 20, sync: false }
}

const PACE: Pace = Pace { warmup_seconds: 0.0, seconds: 60.0, rate: None };

fn run(job: &Job) -> Result<Outcome, KvError> {
    let bench = Bench::new();
    job.fill(&bench.place())?;
    let outcome = job.measure(&PACE, &bench.place())?;
    assert!(bench.journal.is_empty(), "{:?}", bench.journal.entries());
    Ok(outcome)
}

/// Every operation of every workload, each value verified, and all records at the end.
fn runs_every_workload(engine: Engine) {
    for letter in 'a'..='f' {
        let outcome = run(&job(engine, workload(letter, &[], true))).unwrap();
        assert_eq!((outcome.io_ops(), &outcome.ended), (3000, &Ended::Done), "{engine} {letter}");
        assert_eq!(outcome.io_service().count(), 3000, "{engine} {letter}");
        assert!(outcome.ops.iter().all(|op| op.errors == 0 && op.ops > 0), "{engine} {letter}");
        let metric = |name: &str| outcome.metrics.iter().find(|metric| metric.name == name).map(|m| m.value);
        assert!(metric("verified_values").unwrap() > 0.0, "{engine} {letter}");
        assert!(metric("engine_calls").unwrap() >= 3000.0, "{engine} {letter}");
        let checked = outcome.notes.iter().any(|note| note.contains("were read after the run and are right"));
        assert!(checked, "{:?}", outcome.notes);
        if letter == 'e' {
            // lengths from 1 to 100, each as likely
            let scanned = metric("scanned_records").unwrap();
            assert!((100_000.0..200_000.0).contains(&scanned), "{engine}: {scanned} records in 2850 scans");
        }
    }
}

#[test]
fn sqlite_runs_every_workload() {
    runs_every_workload(Engine::Sqlite);
}

#[test]
fn lmdb_runs_every_workload() {
    runs_every_workload(Engine::Lmdb);
}

#[test]
fn rocksdb_runs_every_workload() {
    needs!(RocksDb);
    runs_every_workload(Engine::RocksDb);
}

#[test]
fn ycsbs_own_check_of_values_holds_too() {
    let outcome = run(&job(Engine::Lmdb, workload('c', &[("dataintegrity", "true")], false))).unwrap();
    assert_eq!(outcome.io_ops(), 3000);
    assert!(outcome.metrics.iter().any(|metric| metric.name == "verified_values" && metric.value == 3000.0));
}

#[test]
fn every_distribution_runs_with_inserts() {
    for name in ["uniform", "zipfian", "zipf", "latest", "hotspot", "sequential", "exponential"] {
        let more = [
            ("requestdistribution", name),
            ("insertproportion", "0.3"),
            ("fieldlengthdistribution", "zipfian"),
        ];
        let outcome = run(&job(Engine::Lmdb, workload('a', &more, false))).unwrap();
        assert_eq!(outcome.io_ops(), 3000, "{name}");
    }
}

#[test]
fn a_wrong_value_fails_the_run_and_is_named() {
    let bench = Bench::new();
    // loaded without what verify writes
    let plain = job(Engine::Lmdb, workload('c', &[], false));
    plain.fill(&bench.place()).unwrap();
    let verifying = job(Engine::Lmdb, workload('c', &[], true));
    let error = verifying.measure(&PACE, &bench.place()).unwrap_err().to_string();
    assert!(error.contains("(user") && error.contains("is wrong"), "{error}");
    // a record that the load did not write
    let more = job(Engine::Lmdb, workload('c', &[("recordcount", "4000")], false));
    let error = more.measure(&PACE, &bench.place()).unwrap_err().to_string();
    assert!(error.contains("is not there"), "{error}");
}

#[test]
fn a_run_that_is_told_to_end_ends() {
    let bench = Bench::new();
    let job = job(Engine::Lmdb, workload('c', &[("operationcount", "0")], false));
    job.fill(&bench.place()).unwrap();
    let place = Place { stopped: &|| true, ..bench.place() };
    assert!(matches!(job.measure(&PACE, &place), Err(KvError::Interrupted)));
    assert!(matches!(job.fill(&place), Err(KvError::Interrupted)));
}
