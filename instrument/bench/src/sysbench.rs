//! sysbench's OLTP mixes beside ours: one server, the same tables, statements, distribution and number of threads, in
//! turns.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use camino::{Utf8Path, Utf8PathBuf};
use sql::db::Address;
use sql::drive::{self, Pace};
use sql::job::{Place, Seeds};
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

/// sysbench's name of each mix.
const MIXES: [(Mix, &str); 4] = [
    (Mix::ReadOnly, "oltp_read_only"),
    (Mix::ReadWrite, "oltp_read_write"),
    (Mix::WriteOnly, "oltp_write_only"),
    (Mix::Insert, "oltp_insert"),
];

/// Runs every mix on every engine that is here.
pub fn measure(pairs: &Pairs, tmpfs: &Path, only: &str) -> anyhow::Result<()> {
    if Command::new("sysbench").arg("--version").output().is_err() {
        println!("sysbench is not installed (apt install sysbench): its cases are left out");
        return Ok(());
    }
    for engine in sql::engine::ENGINES {
        let wanted =
            |(_, name): &&(Mix, &str)| "sysbench".contains(only) || format!("{name} {engine}").contains(only);
        let mixes: Vec<_> = MIXES.iter().filter(wanted).collect();
        if mixes.is_empty() {
            continue;
        }
        let folder = tempfile::Builder::new().prefix("loadline-bench-").tempdir_in(tmpfs)?;
        // PostgreSQL runs as another user
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let path =
            Utf8PathBuf::from_path_buf(folder.path().to_path_buf()).ok().context("the path is not UTF-8")?;
        match on_engine(engine, &mixes, pairs, &path) {
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

fn on_engine(engine: Engine, mixes: &[&(Mix, &str)], pairs: &Pairs, path: &Utf8Path) -> Result<(), Failed> {
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
    widest.fill(&Place {
        root: path,
        temporary: path,
        journal: &journal,
        seed: SEED,
        stopped: &|| false,
        tell: &|_| {},
        moment: &|_| {},
    })?;
    let server = Server::start(&widest.settings(Flush::EachCommit), &Job::data(path), path, &journal)?;
    for (mix, name) in mixes {
        for threads in THREADS {
            let ours = |seconds: f64| ours(&job(*mix, threads), &server, seconds);
            let theirs = |seconds: f64| theirs(name, engine, server.address(), threads, seconds);
            pairs.run(&format!("{name} {engine}, {threads} thr"), 1.0, ours, theirs)?;
        }
    }
    Ok(server.stop()?)
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
