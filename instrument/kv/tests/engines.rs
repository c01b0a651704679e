//! The core workloads on every engine, in private directories.

mod common;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Bench, PACE, job, workload};
use kv::patterns::PATTERNS;
use kv::redis::AppendPolicy;
use kv::{Engine, Job, KvError, PatternJob};
use needs::needs;
use serve::drive::Pace;
use serve::{LoadSite, Moment};
use stats::{Ended, Outcome};

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
fn redis_runs_every_workload() {
    needs!(Redis);
    runs_every_workload(Engine::Redis);
}

#[test]
fn a_cluster_of_three_runs_every_workload() {
    needs!(Redis);
    runs_every_workload(Engine::RedisCluster);
}

#[test]
fn pipelines_and_several_threads_lose_nothing() {
    needs!(Redis);
    for engine in [Engine::Redis, Engine::RedisCluster] {
        let workload = workload('a', &[("insertproportion", "0.2")], true);
        let job = Job {
            terminals: 8,
            pipeline: 16,
            threads: 2,
            flush: AppendPolicy::EachSecond,
            ..job(engine, workload)
        };
        let outcome = run(&job).unwrap();
        assert_eq!(outcome.io_ops(), 3000, "{engine}");
        assert!(
            outcome.notes.iter().any(|note| note.contains("appendfsync=everysec")),
            "{:?}",
            outcome.notes
        );
    }
}

#[test]
fn patterns_of_db_bench_count_as_db_bench_does() {
    needs!(RocksDb);
    const KEYS: u64 = 3000;
    for (name, pattern) in PATTERNS {
        let bench = Bench::new();
        let sizes = kv::patterns::Bench { pattern, keys: KEYS, value_bytes: 100, batch: 10, ops: 2000 };
        let job = PatternJob { bench: sizes, threads: 2, cache_bytes: None, sync: false };
        job.fill(&bench.place()).unwrap();
        let outcome = job.measure(&PACE, &bench.place()).unwrap();
        let (ops, bytes) = (outcome.ops[0].ops, outcome.ops[0].bytes);
        assert_eq!((ops, bytes), (4000, 4000 * 116), "{name}");
        assert_eq!(outcome.ops[0].service.count(), ops, "{name}");
        let metric = |name: &str| outcome.metrics.iter().find(|metric| metric.name == name).map(|m| m.value);
        match name {
            "readrandom" | "multireadrandom" | "readwhilewriting" => {
                assert_eq!(
                    (metric("keys_asked"), metric("keys_found")),
                    (Some(4000.0), Some(4000.0)),
                    "{name}"
                );
            }
            "readwhilescanning" => {
                assert_eq!((outcome.ops.len(), outcome.io_ops()), (2, 4000), "the scan is counted apart");
            }
            _ => {}
        }
        // one pass, when nobody says how many
        let whole = PatternJob { bench: kv::patterns::Bench { ops: 0, ..sizes }, threads: 1, ..job };
        if ["readseq", "readreverse"].contains(&name) {
            let outcome = whole.measure(&PACE, &bench.place()).unwrap();
            assert_eq!((outcome.io_ops(), &outcome.ended), (KEYS, &Ended::Done), "{name}");
        }
    }
}

/// A warm-up takes nothing from a number of operations.
const WARM: Pace = Pace { warmup_seconds: 0.2, ..PACE };

#[test]
fn a_number_of_operations_is_that_of_the_measured_interval() {
    let warm = |job: &Job| {
        let bench = Bench::new();
        job.fill(&bench.place()).unwrap();
        let outcome = job.measure(&WARM, &bench.place()).unwrap();
        assert_eq!((outcome.io_ops(), &outcome.ended), (3000, &Ended::Done), "{}", job.engine);
    };
    warm(&job(Engine::Lmdb, workload('c', &[], false)));
    needs!(Redis);
    // more under way than there are at the end
    warm(&Job { pipeline: 700, threads: 2, ..job(Engine::Redis, workload('c', &[], false)) });
}

/// When the interval that counters are taken of begins, after the start of a load with a warm-up of `seconds`.
fn begins(seconds: f64, measure: impl FnOnce(&Pace, &LoadSite<'_>) -> Outcome, bench: &Bench) -> Duration {
    let (start, begun) = (Instant::now(), Cell::new(None));
    let moment = |moment| {
        if moment == Moment::Begin {
            begun.set(Some(start.elapsed()));
        }
    };
    let pace = Pace { warmup_seconds: seconds, seconds: 0.1, rate: None };
    let outcome = measure(&pace, &LoadSite { moment: &moment, ..bench.place() });
    assert!(outcome.io_ops() > 0 && outcome.warmup_seconds == seconds, "{outcome:?}");
    begun.take().unwrap()
}

#[test]
fn counters_are_those_of_the_measured_interval() {
    let bench = Bench::new();
    let job = job(Engine::Sqlite, workload('c', &[("operationcount", "0")], false));
    job.fill(&bench.place()).unwrap();
    let begun = begins(0.5, |pace, place| job.measure(pace, place).unwrap(), &bench);
    assert!(begun >= Duration::from_millis(500), "begun after {begun:?}");
}

#[test]
fn counters_of_a_pattern_are_those_of_the_measured_interval() {
    needs!(RocksDb);
    let bench = Bench::new();
    let (_, pattern) = PATTERNS.into_iter().find(|(name, _)| *name == "readrandom").unwrap();
    let sizes = kv::patterns::Bench { pattern, keys: 1000, value_bytes: 100, batch: 1, ops: 0 };
    let job = PatternJob { bench: sizes, threads: 1, cache_bytes: None, sync: false };
    job.fill(&bench.place()).unwrap();
    let begun = begins(0.5, |pace, place| job.measure(pace, place).unwrap(), &bench);
    assert!(begun >= Duration::from_millis(500), "begun after {begun:?}");
}

#[test]
fn reads_of_a_pattern_are_those_of_the_measured_interval() {
    needs!(RocksDb);
    let bench = Bench::new();
    let pattern = kv::patterns::Pattern::ReadRandom;
    let sizes = kv::patterns::Bench { pattern, keys: 3000, value_bytes: 100, batch: 10, ops: 2000 };
    let job = PatternJob { bench: sizes, threads: 2, cache_bytes: None, sync: false };
    job.fill(&bench.place()).unwrap();
    let outcome = job.measure(&WARM, &bench.place()).unwrap();
    assert_eq!((outcome.io_ops(), &outcome.ended), (4000, &Ended::Done));
    // of which a pass has no more than keys
    for (pattern, ops, measured) in [
        (kv::patterns::Pattern::ReadSeq, 2500, 5000),
        (kv::patterns::Pattern::ReadReverse, 2500, 5000),
        (kv::patterns::Pattern::ReadSeq, 9000, 6000),
    ] {
        let passes = PatternJob { bench: kv::patterns::Bench { pattern, ops, ..sizes }, ..job };
        let outcome = passes.measure(&WARM, &bench.place()).unwrap();
        assert_eq!((outcome.io_ops(), &outcome.ended), (measured, &Ended::Done), "{pattern:?}");
    }
    // passes that end in the warm-up begin anew; what is measured is what is left of the last one
    let pattern = kv::patterns::Pattern::ReadSeq;
    let pass = PatternJob { bench: kv::patterns::Bench { pattern, ops: 0, ..sizes }, threads: 1, ..job };
    let outcome = pass.measure(&WARM, &bench.place()).unwrap();
    assert!((1..=3000).contains(&outcome.io_ops()), "{}", outcome.io_ops());
}

#[test]
fn ycsbs_own_check_of_values_holds_too() {
    let outcome = run(&job(Engine::Lmdb, workload('c', &[("dataintegrity", "true")], false))).unwrap();
    assert_eq!(outcome.io_ops(), 3000);
    assert!(
        outcome.metrics.iter().any(|metric| metric.name == "verified_values" && metric.value == 30_000.0)
    );
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
    let place = LoadSite { stopped: &|| true, ..bench.place() };
    assert_eq!(job.measure(&PACE, &place).unwrap().ended, Ended::Interrupted);
    assert!(matches!(job.fill(&place), Err(KvError::Interrupted)));
}

#[test]
fn what_was_measured_until_the_interruption_is_kept_and_not_checked() {
    let bench = Bench::new();
    let job = job(Engine::Lmdb, workload('a', &[("operationcount", "0")], true));
    job.fill(&bench.place()).unwrap();
    let asked = AtomicU64::new(0);
    let place = LoadSite { stopped: &|| asked.fetch_add(1, Ordering::Relaxed) > 1000, ..bench.place() };
    let outcome = job.measure(&PACE, &place).unwrap();
    assert_eq!(outcome.ended, Ended::Interrupted);
    assert!(outcome.io_ops() > 0 && outcome.measured_seconds > 0.0, "{outcome:?}");
    assert!(!outcome.notes.iter().any(|note| note.contains("records were read")), "{:?}", outcome.notes);
}

/// Mounts 16 MiB of memory, and takes them away.
struct Small(camino::Utf8PathBuf);

impl Small {
    fn new(path: &camino::Utf8Path) -> Small {
        std::fs::create_dir(path).unwrap();
        let done = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16m", "tmpfs", path.as_str()])
            .status();
        assert!(done.unwrap().success());
        Small(path.to_owned())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: what another test starts at this moment has its descriptors until it runs its program.
        let done = std::process::Command::new("umount").arg("--lazy").arg(self.0.as_str()).status();
        assert!(done.unwrap().success());
    }
}

#[test]
fn a_full_disk_is_told_with_what_to_do() {
    needs!(Root, Mounts, RocksDb, Redis);
    const REMEDY: &str = "give the stack more room";
    for engine in kv::engine::ENGINES {
        let bench = Bench::new();
        let small = Small::new(&bench.path.join("small"));
        let place = LoadSite { root: &small.0, ..bench.place() };
        // 50 MB: refused before anything is written
        let large = job(engine, workload('a', &[("recordcount", "50000")], false));
        let error = large.fill(&place).unwrap_err().to_string();
        assert!(error.contains("room for 16 MiB") && error.contains(REMEDY), "{engine}: {error}");
        // 15 MB with the names of fields fit as they are, but neither twice nor in pages that are half full
        if [Engine::Sqlite, Engine::Lmdb].contains(&engine) {
            let large = job(engine, workload('a', &[("recordcount", "13000")], false));
            let error = large.fill(&place).unwrap_err();
            assert!(
                matches!(error, KvError::Full(_)) && error.to_string().contains(REMEDY),
                "{engine}: {error}"
            );
        }
        assert!(bench.journal.is_empty(), "{engine}: {:?}", bench.journal.entries());
    }
}
