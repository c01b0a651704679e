//! Key-value loads beside the engines' own programs: db_bench on the same database and library, redis-benchmark on the same
//! server with equal connections and pipeline.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use kv::client::{self, Shared};
use kv::patterns::{Bench, Pattern};
use kv::redis::mux::{self, Layout};
use kv::redis::resp::{Address, Login, Wire};
use kv::redis::ring::Ring;
use kv::redis::{AppendPolicy, Servers, fill};
use kv::{Job, KvError, PatternJob, Workload};
use serve::drive::{self, Clock, Pace};

use crate::pairs::Pairs;

/// Keys of the database: it fits into memory, not into the cache.
const KEYS: u64 = 500_000;
/// Bytes of a value: db_bench's default, and what redis-benchmark is told.
const VALUE_BYTES: usize = 100;
/// Threads on RocksDB.
const THREADS: [u32; 2] = [1, 2];
/// Connections and pipeline on Redis.
const LAYOUTS: [(u32, u32); 3] = [(1, 1), (50, 1), (50, 16)];
/// Keys in Redis.
const REDIS_KEYS: u64 = 100_000;
/// Share of the peer's throughput that is to be reached.
const TARGET_ROCKSDB: f64 = 0.95;
const TARGET_REDIS: f64 = 1.0;
/// Seed of keys and values.
const SEED: u64 = 1;

/// Runs what of it this machine can.
pub fn measure(pairs: &Pairs, tmpfs: &std::path::Path, only: &str) -> anyhow::Result<()> {
    let wanted = |name: &str| "kv".contains(only) || name.contains(only);
    // the whole name of a case says more than the part that all cases of an engine have
    let any_of = |part: &str| wanted(part) || only.contains(part);
    if any_of("readrandom rocksdb") || any_of("fillrandom rocksdb") {
        crate::pairs::print_header("db_bench");
        if Command::new("db_bench").arg("--version").output().is_err() {
            println!("db_bench is not installed (apt install rocksdb-tools): its cases are left out");
        } else {
            rocksdb(pairs, tmpfs, &wanted)?;
        }
    }
    if any_of("get redis") || any_of("set redis") {
        crate::pairs::print_header("redis-bench");
        if Command::new("redis-benchmark").arg("--version").output().is_err() {
            println!("redis-benchmark is not installed (apt install redis-tools): its cases are left out");
        } else {
            redis(pairs, tmpfs, &wanted)?;
        }
    }
    Ok(())
}

fn folder(tmpfs: &std::path::Path) -> anyhow::Result<(tempfile::TempDir, Utf8PathBuf)> {
    let folder = tempfile::Builder::new().prefix("loadline-bench-").tempdir_in(tmpfs)?;
    let path =
        Utf8PathBuf::from_path_buf(folder.path().to_path_buf()).ok().context("the path is not UTF-8")?;
    Ok((folder, path))
}

fn pattern(pattern: Pattern, threads: u32) -> PatternJob {
    let bench = Bench { pattern, keys: KEYS, value_bytes: VALUE_BYTES, batch: 1, ops: 0 };
    PatternJob { bench, threads, cache_bytes: None, sync: false }
}

fn rocksdb(pairs: &Pairs, tmpfs: &std::path::Path, wanted: &dyn Fn(&str) -> bool) -> anyhow::Result<()> {
    for (name, kind) in [("readrandom", Pattern::ReadRandom), ("fillrandom", Pattern::FillRandom)] {
        for threads in THREADS {
            let name_of_case = format!("{name} rocksdb, {threads} thr");
            if !wanted(&name_of_case) {
                continue;
            }
            let (_kept, path) = folder(tmpfs)?;
            let job = pattern(kind, threads);
            if !kind.is_fresh() {
                let shared = job.open(&path, SEED)?;
                shared.fill(&|| false, &|_| {})?;
                shared.db().flush()?;
                shared.db().compact();
                shared.db().wait_for_compactions(&|| false)?;
            }
            let fresh = || -> anyhow::Result<()> {
                let data = Job::data(&path);
                if kind.is_fresh() && data.exists() {
                    std::fs::remove_dir_all(&data)?;
                }
                Ok(())
            };
            let mut seed = SEED;
            let ours = |seconds: f64| {
                fresh()?;
                seed += 1;
                let shared = job.open(&path, seed)?;
                let pace = Pace { warmup_seconds: 0.0, seconds, rate: None };
                let driven =
                    drive::drive(&job.bench.pattern.kinds(), shared.threads(threads), &pace, &|| false);
                rate(driven)
            };
            let mut their_seed = 1000;
            let theirs = |seconds: f64| {
                fresh()?;
                their_seed += 1;
                db_bench(name, &Job::data(&path), threads, seconds, their_seed, !kind.is_fresh())
            };
            pairs.run(&name_of_case, TARGET_ROCKSDB, ours, theirs)?;
        }
    }
    Ok(())
}

fn rate(driven: drive::DriveOutcome<KvError>) -> anyhow::Result<f64> {
    match driven.failed {
        Some(error) => Err(error.into()),
        None => Ok(driven.outcome.io_ops_per_second()),
    }
}

/// db_bench with the options that ours has: no compression, no filter, a cache of 8 MiB.
fn db_bench(
    name: &str,
    data: &Utf8Path,
    threads: u32,
    seconds: f64,
    seed: u64,
    existing: bool,
) -> anyhow::Result<f64> {
    let mut command = Command::new("db_bench");
    command.arg(format!("--db={data}")).arg(format!("--benchmarks={name}")).arg(format!("--num={KEYS}"));
    command.args(["--compression_type=none", "--cache_size=8388608", "--key_size=16"]);
    command.arg(format!("--value_size={VALUE_BYTES}")).arg(format!("--threads={threads}"));
    command.arg(format!("--duration={}", seconds.ceil() as u64)).arg(format!("--seed={seed}"));
    if existing {
        command.arg("--use_existing_db=1");
    }
    let output = command.output().context("cannot run db_bench")?;
    let text = String::from_utf8_lossy(&output.stdout);
    anyhow::ensure!(output.status.success(), "db_bench: {text}{}", String::from_utf8_lossy(&output.stderr));
    // readrandom   :       2.250 micros/op 444000 ops/sec 2.000 seconds 888000 operations; ...
    let line = text.lines().find(|line| line.starts_with(name) && line.contains("ops/sec"));
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    let at = words.iter().position(|word| *word == "ops/sec");
    let rate = at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok());
    rate.with_context(|| format!("db_bench printed no rate: {text}"))
}

fn workload(letter: char, update: bool) -> anyhow::Result<Workload> {
    let mut properties = kv::workload::builtin(letter).unwrap_or_default();
    for (name, value) in [
        ("recordcount", REDIS_KEYS.to_string()),
        // SET and GET, as redis-benchmark sends them
        ("record", "value".into()),
        ("fieldcount", "1".into()),
        ("fieldlength", VALUE_BYTES.to_string()),
        ("requestdistribution", "uniform".into()),
        // keys of 16 bytes, as redis-benchmark's are
        ("insertorder", "ordered".into()),
        ("zeropadding", "12".into()),
    ] {
        properties.set(name, &value);
    }
    if update {
        properties.set("readproportion", "0");
        properties.set("updateproportion", "1");
    }
    Ok(Workload::of(&properties, false)?)
}

fn redis(pairs: &Pairs, tmpfs: &std::path::Path, wanted: &dyn Fn(&str) -> bool) -> anyhow::Result<()> {
    let (_kept, path) = folder(tmpfs)?;
    let journal = journal::Journal::open(&path.join("journal"), "bench")?;
    let servers =
        match Servers::start(false, AppendPolicy::None, LAYOUTS[2].0, &path.join("data"), &path, &journal) {
            Err(error @ KvError::Unavailable { .. }) => {
                println!("Redis is not available, its cases are left out: {error}");
                return Ok(());
            }
            other => other?,
        };
    let login = servers.first();
    let Address::Socket(socket) = &login.address else { anyhow::bail!("a private server has a socket") };
    for (name, update) in [("get", false), ("set", true)] {
        let workload = workload('c', update)?;
        let shared = Shared::new(&workload, SEED)?;
        Wire::connect(&login)?.must(&["FLUSHALL"])?;
        fill::load(&mut Ring::connect(&login, false)?, &shared, &|| false, &|_| {})?;
        // its keys are others: so many draws that hardly one is missing
        redis_benchmark("set", socket, 50, 16, 6 * REDIS_KEYS)?;
        // ours are as old: what was loaded in order lies otherwise in the server's memory than what was overwritten at random
        overwrite(&login, 6 * REDIS_KEYS)?;
        for (connections, pipeline) in LAYOUTS {
            let name_of_case = format!("{name} redis, {connections} conn, pipe {pipeline}");
            if !wanted(&name_of_case) {
                continue;
            }
            let layout = Layout { terminals: connections, pipeline, threads: 1, cluster: false };
            let ours = |seconds: f64| {
                let parts = mux::parts(&login, &layout, &shared, &Arc::new(AtomicU64::new(0)))?;
                let kinds = client::kinds(&workload);
                let pace = Pace { warmup_seconds: 0.0, seconds, rate: None };
                let run = |part: mux::ThreadTerminals, clock: &Clock<'_>| part.run(clock, kinds.len());
                rate(drive::drive_with(&kinds, parts, &pace, &|| false, run))
            };
            let mut guess = 20_000.0;
            let theirs = |seconds: f64| {
                // it takes a number of operations: what it did in a second last time
                let found = redis_benchmark(name, socket, connections, pipeline, (guess * seconds) as u64)?;
                guess = found;
                Ok(found)
            };
            pairs.run(&name_of_case, TARGET_REDIS, ours, theirs)?;
        }
    }
    Ok(servers.stop()?)
}

/// So many updates of our keys, drawn at random.
fn overwrite(login: &Login, updates: u64) -> anyhow::Result<()> {
    let mut workload = workload('c', true)?;
    workload.operations = updates;
    let shared = Shared::new(&workload, SEED)?;
    let layout = Layout { terminals: 50, pipeline: 16, threads: 1, cluster: false };
    let parts = mux::parts(login, &layout, &shared, &Arc::new(AtomicU64::new(0)))?;
    let kinds = client::kinds(&workload);
    // it ends with its operations, long before
    let pace = Pace { warmup_seconds: 0.0, seconds: 60.0, rate: None };
    let run = |part: mux::ThreadTerminals, clock: &Clock<'_>| part.run(clock, kinds.len());
    rate(drive::drive_with(&kinds, parts, &pace, &|| false, run)).map(drop)
}

fn redis_benchmark(
    name: &str,
    socket: &Utf8Path,
    connections: u32,
    pipeline: u32,
    number: u64,
) -> anyhow::Result<f64> {
    let mut command = Command::new("redis-benchmark");
    command.args(["-s", socket.as_str(), "-t", name, "--csv"]);
    for (option, value) in [
        ("-c", u64::from(connections)),
        ("-P", u64::from(pipeline)),
        ("-n", number.max(1000)),
        ("-d", VALUE_BYTES as u64),
        ("-r", REDIS_KEYS),
    ] {
        command.arg(option).arg(value.to_string());
    }
    let output = command.output().context("cannot run redis-benchmark")?;
    let text = String::from_utf8_lossy(&output.stdout);
    anyhow::ensure!(
        output.status.success(),
        "redis-benchmark: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // "GET","53333.33","0.123",...
    let line = text.lines().find(|line| line.to_lowercase().starts_with(&format!("\"{name}\"")));
    let rate = line.and_then(|line| line.split(',').nth(1)).map(|word| word.trim_matches('"'));
    rate.and_then(|rate| rate.parse().ok())
        .with_context(|| format!("redis-benchmark printed no rate: {text}"))
}
