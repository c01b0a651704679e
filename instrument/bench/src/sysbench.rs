//! sysbench's OLTP mixes beside ours: one server, the same tables, statements, distribution and number of threads, in
//! turns.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use sql::db::{Address, Value};
use sql::drive::{self, Pace};
use sql::job::{LoadSite, Seeds};
use sql::random::Distribution;
use sql::sysbench::{Mix, Oltp};
use sql::{Engine, Flush, Job, Server, What};

use crate::pairs::Pairs;

/// Rows of the table: sysbench's own default.
const ROWS: i64 = 10_000;
/// Threads of each side.
const THREADS: [u32; 2] = [2, 16];
/// Cache and log of the server: all fits.
const BYTES: u64 = 256 << 20;
/// Seed of tables and transactions.
const SEED: u64 = 1;

/// Pages and versions that a server at rest may still have: what it writes for itself.
const REST: i64 = 20;
/// Longest wait until it is.
const REST_PATIENCE: Duration = Duration::from_secs(60);
/// How often it is asked.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// sysbench's name of each mix.
const MIXES: [(Mix, &str); 4] = [
    (Mix::ReadOnly, "oltp_read_only"),
    (Mix::ReadWrite, "oltp_read_write"),
    (Mix::WriteOnly, "oltp_write_only"),
    (Mix::Insert, "oltp_insert"),
];

/// A mix, its name, and how many threads run it.
type Case = (Mix, &'static str, u32);

fn case_name(engine: Engine, (_, name, threads): Case) -> String {
    format!("{name} {engine}, {threads} thr")
}

/// Runs every mix on every engine that is here.
pub fn measure(pairs: &Pairs, tmpfs: &Path, only: &str) -> anyhow::Result<()> {
    if Command::new("sysbench").arg("--version").output().is_err() {
        println!("sysbench is not installed (apt install sysbench): its cases are left out");
        return Ok(());
    }
    for engine in sql::engine::ENGINES {
        let every = MIXES.iter().flat_map(|(mix, name)| THREADS.map(|threads| (*mix, *name, threads)));
        let wanted = |case: &Case| "sysbench".contains(only) || case_name(engine, *case).contains(only);
        let cases: Vec<Case> = every.filter(wanted).collect();
        if cases.is_empty() {
            continue;
        }
        let folder = tempfile::Builder::new().prefix("loadline-bench-").tempdir_in(tmpfs)?;
        // PostgreSQL runs as another user
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let path =
            Utf8PathBuf::from_path_buf(folder.path().to_path_buf()).ok().context("the path is not UTF-8")?;
        match on_engine(engine, &cases, pairs, &path) {
            Err(Failed::Unavailable(why)) => {
                println!("{engine} is not available, its cases are left out: {why}")
            }
            Err(Failed::Error(error)) => return Err(error),
            Ok(()) => {}
        }
    }
    Ok(())
}

enum Failed {
    Unavailable(String),
    Error(anyhow::Error),
}

impl From<sql::SqlError> for Failed {
    fn from(error: sql::SqlError) -> Failed {
        match error {
            sql::SqlError::Unavailable { .. } => Failed::Unavailable(error.to_string()),
            other => Failed::Error(other.into()),
        }
    }
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Failed {
        Failed::Error(error)
    }
}

fn on_engine(engine: Engine, cases: &[Case], pairs: &Pairs, path: &Utf8Path) -> Result<(), Failed> {
    let journal = journal::Journal::open(&path.join("journal"), "bench").map_err(anyhow::Error::from)?;
    let job = |mix: Mix, threads: u32| Job {
        what: What::Oltp(Oltp { mix, tables: 1, rows: ROWS, distribution: Distribution::Special }),
        engine,
        terminals: threads,
        cache_bytes: BYTES,
        log_bytes: BYTES,
        flush: Flush::EachCommit,
        address: None,
    };
    let widest = job(Mix::Insert, THREADS[1]);
    widest.fill(&LoadSite {
        root: path,
        temporary: path,
        journal: &journal,
        seed: SEED,
        stopped: &|| false,
        tell: &|_| {},
        moment: &|_| {},
    })?;
    let server = Server::start(&widest.settings(Flush::EachCommit), &Job::data(path), path, &journal)?;
    for case in cases {
        let (mix, name, threads) = *case;
        let ours = |seconds: f64| {
            rest(&server)?;
            ours(&job(mix, threads), &server, seconds)
        };
        let theirs = |seconds: f64| {
            rest(&server)?;
            theirs(name, engine, server.address(), threads, seconds)
        };
        pairs.run(&case_name(engine, *case), 1.0, ours, theirs)?;
    }
    Ok(server.stop()?)
}

/// Waits until the server has done what the turn before has put off: neither side pays for the other's writes.
fn rest(server: &Server) -> anyhow::Result<()> {
    let engine = server.settings().engine;
    let mut connection = server.connect()?;
    let (before, pending, after) = match engine {
        // pages are written, and old versions of rows purged
        Engine::InnoDb => (
            "SET GLOBAL innodb_max_dirty_pages_pct=0",
            "SELECT CAST(SUM(VARIABLE_VALUE) AS SIGNED) FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN \
             ('INNODB_HISTORY_LIST_LENGTH', 'INNODB_BUFFER_POOL_PAGES_DIRTY')",
            // its default
            "SET GLOBAL innodb_max_dirty_pages_pct=90",
        ),
        Engine::MyRocks => (
            "SET GLOBAL rocksdb_force_flush_memtable_now=1",
            "SELECT CAST(COALESCE(SUM(VALUE),0) AS SIGNED) FROM information_schema.ROCKSDB_CFSTATS WHERE STAT_TYPE IN \
             ('COMPACTION_PENDING','NUM_IMMUTABLE_MEM_TABLE','MEM_TABLE_FLUSH_PENDING')",
            "SELECT 1",
        ),
        Engine::Postgres => ("CHECKPOINT", "SELECT 0", "VACUUM sbtest1"),
    };
    connection.ask(before)?;
    let start = Instant::now();
    loop {
        let rows = connection.ask(pending)?;
        let left = rows.first().and_then(|row| row.first());
        if left.and_then(Value::int).is_some_and(|left| left <= REST) {
            break;
        }
        if start.elapsed() > REST_PATIENCE {
            let waited = REST_PATIENCE.as_secs();
            anyhow::bail!("{engine} does not come to rest within {waited} s: {left:?} things are put off");
        }
        std::thread::sleep(ASK_EVERY);
    }
    connection.ask(after)?;
    Ok(())
}

fn ours(job: &Job, server: &Server, seconds: f64) -> anyhow::Result<f64> {
    let terminals = job.seat(server, Seeds { of_run: SEED, run: 0 }, None)?;
    let pace = Pace { warmup_seconds: 0.0, seconds, rate: None };
    let driven = drive::drive(&job.what.kinds(), terminals, &pace, &|| false);
    if let Some(error) = driven.failed {
        return Err(error.into());
    }
    Ok(driven.outcome.io_ops_per_second())
}

/// sysbench on the very table that loadline made.
fn theirs(name: &str, engine: Engine, address: &Address, threads: u32, seconds: f64) -> anyhow::Result<f64> {
    let Address::Socket(socket) = address else { anyhow::bail!("a private server has a socket") };
    let mut command = Command::new("sysbench");
    command
        .arg(name)
        .arg("--tables=1")
        .arg(format!("--table-size={ROWS}"))
        .arg(format!("--threads={threads}"));
    command.arg(format!("--time={}", seconds.ceil() as u64)).arg("--rand-type=special");
    if engine.is_mysql() {
        command.arg("--db-driver=mysql").arg(format!("--mysql-socket={socket}"));
        command.args(["--mysql-user=root", "--mysql-db=loadline"]);
    } else {
        command.arg("--db-driver=pgsql").arg(format!("--pgsql-host={socket}"));
        command.args(["--pgsql-user=loadline", "--pgsql-db=loadline"]);
    }
    let output = command.arg("run").output().context("cannot run sysbench")?;
    let text = String::from_utf8_lossy(&output.stdout);
    anyhow::ensure!(output.status.success(), "sysbench: {text}{}", String::from_utf8_lossy(&output.stderr));
    // transactions:                        12345  (1234.50 per sec.)
    let line = text.lines().find(|line| line.trim_start().starts_with("transactions:"));
    let rate = line.and_then(|line| line.split('(').nth(1)).and_then(|rest| rest.split_whitespace().next());
    rate.and_then(|rate| rate.parse().ok()).with_context(|| format!("sysbench printed no rate: {text}"))
}
