//! Private servers with real loads on them. Everything is in a temporary directory.

use std::cell::Cell;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use journal::Journal;
use needs::needs;
use sql::db::Connection;
use sql::drive::Pace;
use sql::job::{LoadSite, Moment, Seeds};
use sql::random::Distribution;
use sql::sysbench::{Mix, Oltp};
use sql::tpcc::{Ledger, Size, conditions};
use sql::{Engine, Flush, Job, Server, SqlError, What};
use stats::{Ended, Outcome};

struct Bench {
    _folder: tempfile::TempDir,
    path: Utf8PathBuf,
    journal: Arc<Journal>,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        // PostgreSQL runs as another user, who must reach its data
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        let journal = Journal::open(&path.join("journal"), "test").unwrap();
        Bench { _folder: folder, path, journal }
    }

    fn place(&self) -> LoadSite<'_> {
        LoadSite {
            root: &self.path,
            temporary: &self.path,
            journal: &self.journal,
            seed: 7,
            stopped: &|| false,
            tell: &|_| {},
            moment: &|_| {},
        }
    }

    /// Nothing is left that a killed run would leave to `doctor`.
    fn is_clean(&self) {
        assert!(self.journal.is_empty(), "{:?}", self.journal.entries());
    }
}

fn job(what: What, engine: Engine) -> Job {
    Job {
        what,
        engine,
        terminals: 4,
        cache_bytes: 32 << 20,
        log_bytes: 32 << 20,
        flush: Flush::EachCommit,
        address: None,
    }
}

fn tpcc(engine: Engine) -> Job {
    job(What::Tpcc { size: Size::small(2), waits: false }, engine)
}

fn pace(seconds: f64) -> Pace {
    Pace { warmup_seconds: 0.0, seconds, rate: None }
}

/// Measures until each kind of transaction has been done: at first for `seconds`, then for twice as long. How many are
/// done in a given time is the disk's affair and no test's.
fn measured(job: &Job, mut seconds: f64, bench: &Bench) -> Outcome {
    loop {
        let outcome = job.measure(&pace(seconds), &bench.place()).unwrap();
        if outcome.ops.iter().all(|op| op.ops > 0) {
            return outcome;
        }
        assert!(seconds < 200.0, "in {seconds} s: {:?}", outcome.ops);
        seconds *= 2.0;
    }
}

fn runs_every_mix(engine: Engine) {
    for mix in [Mix::Insert, Mix::ReadOnly, Mix::WriteOnly, Mix::ReadWrite] {
        let bench = Bench::new();
        let oltp = Oltp { mix, tables: 2, rows: 1000, distribution: Distribution::Special };
        let job = job(What::Oltp(oltp), engine);
        job.fill(&bench.place()).unwrap();
        let outcome = measured(&job, 0.5, &bench);
        assert!(outcome.ops.iter().all(|op| op.errors == 0), "{mix:?}: {:?}", outcome.ops);
        bench.is_clean();
    }
}

fn runs_tpcc(engine: Engine) {
    let bench = Bench::new();
    let job = tpcc(engine);
    job.fill(&bench.place()).unwrap();
    let outcome = measured(&job, 2.0, &bench);
    for op in &outcome.ops {
        assert!(op.errors == 0, "{}: {} and {} errors", op.name, op.ops, op.errors);
    }
    let notes = outcome.notes.join("\n");
    assert!(notes.contains("consistency conditions 1, 2, 3, 4, 8, 9 of TPC-C hold"), "{notes}");
    assert!(notes.contains(&format!("{engine}: version=")), "{notes}");
    bench.is_clean();
    keeps_what_was_measured_until_an_interruption(&job);
}

fn keeps_what_was_measured_until_an_interruption(job: &Job) {
    let bench = Bench::new();
    job.fill(&bench.place()).unwrap();
    let (begun, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let place = LoadSite {
        stopped: &|| begun.load(Ordering::Relaxed) && asked.fetch_add(1, Ordering::Relaxed) > 200,
        moment: &|_| begun.store(true, Ordering::Relaxed),
        ..bench.place()
    };
    let outcome = job.measure(&pace(600.0), &place).unwrap();
    assert_eq!(outcome.ended, Ended::Interrupted);
    assert!(outcome.io_ops() > 0 && outcome.measured_seconds < 600.0, "{outcome:?}");
    assert!(!outcome.notes.iter().any(|note| note.contains("consistency")), "{:?}", outcome.notes);
    bench.is_clean();
}

/// Kills the server in the middle of a run: after recovery the conditions hold and nothing acknowledged is gone.
fn survives_kill(engine: Engine) {
    let bench = Bench::new();
    let job = tpcc(engine);
    job.fill(&bench.place()).unwrap();
    let ledger = Arc::new(Ledger::new());
    let What::Tpcc { size, .. } = job.what else { unreachable!() };
    for run in 1..=2 {
        let server = start(&job, &bench);
        let seeds = Seeds { of_run: 7, run };
        let pid = server.pid();
        let (ran, error) = std::thread::scope(|scope| {
            scope.spawn(|| {
                // killed when there is something to lose, not after a time
                while ledger.acknowledged() < 50 {
                    std::thread::sleep(Duration::from_millis(2));
                }
                let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            });
            let terminals = job.seat(&server, seeds, Some(&ledger)).unwrap();
            let driven = sql::drive::drive(&job.what.kinds(), terminals, &pace(60.0), &|| false);
            (driven.outcome.io_ops(), driven.failed)
        });
        assert!(ran >= 50, "{ran} and {error:?}");
        assert!(error.is_some(), "a server that dies breaks its connections");
        server.kill().unwrap();
        let server = start(&job, &bench);
        let mut connection = server.connect().unwrap();
        for condition in conditions(&mut connection).unwrap() {
            assert_eq!(condition.violations, 0, "{condition:?}");
        }
        let loss = ledger.settle(&size, &mut connection).unwrap();
        assert!(loss.is_clean() && loss.acknowledged >= 50, "{loss:?}");
        drop(connection);
        server.stop().unwrap();
    }
    bench.is_clean();
}

fn start(job: &Job, bench: &Bench) -> Server {
    Server::start(&job.settings(job.flush), &Job::data(&bench.path), &bench.path, &bench.journal).unwrap()
}

#[test]
fn innodb_runs_every_mix() {
    needs!(MariaDb);
    runs_every_mix(Engine::InnoDb);
}

#[test]
fn myrocks_runs_every_mix() {
    needs!(MyRocks);
    runs_every_mix(Engine::MyRocks);
}

#[test]
fn postgres_runs_every_mix() {
    needs!(Postgres);
    runs_every_mix(Engine::Postgres);
}

#[test]
fn counters_are_those_of_the_measured_interval() {
    needs!(Postgres);
    let bench = Bench::new();
    let oltp = Oltp { mix: Mix::PointSelect, tables: 1, rows: 1000, distribution: Distribution::Uniform };
    let job = job(What::Oltp(oltp), Engine::Postgres);
    job.fill(&bench.place()).unwrap();
    let (start, begun) = (Cell::new(None), Cell::new(None));
    let place = LoadSite {
        tell: &|line| start.set((line == "running transactions").then(Instant::now).or(start.get())),
        moment: &|moment| {
            if moment == Moment::Begin {
                begun.set(start.get().map(|start| start.elapsed()));
            }
        },
        ..bench.place()
    };
    let outcome = job.measure(&Pace { warmup_seconds: 1.0, ..pace(0.5) }, &place).unwrap();
    assert!(begun.get().unwrap() >= Duration::from_secs(1), "begun after {:?}", begun.get());
    assert!(outcome.metrics.iter().any(|metric| metric.name == "server_cpu_seconds"), "{outcome:?}");
}

#[test]
fn innodb_runs_tpcc() {
    needs!(MariaDb);
    runs_tpcc(Engine::InnoDb);
}

#[test]
fn myrocks_runs_tpcc() {
    needs!(MyRocks);
    runs_tpcc(Engine::MyRocks);
}

#[test]
fn postgres_runs_tpcc() {
    needs!(Postgres);
    runs_tpcc(Engine::Postgres);
}

#[test]
fn innodb_survives_kill() {
    needs!(MariaDb);
    survives_kill(Engine::InnoDb);
}

#[test]
fn myrocks_survives_kill() {
    needs!(MyRocks);
    survives_kill(Engine::MyRocks);
}

#[test]
fn postgres_survives_kill() {
    needs!(Postgres);
    survives_kill(Engine::Postgres);
}

/// The conditions find what they are for: one fault is planted for each.
#[test]
fn planted_faults_are_found() {
    needs!(Postgres);
    let bench = Bench::new();
    let job = tpcc(Engine::Postgres);
    job.fill(&bench.place()).unwrap();
    let server = start(&job, &bench);
    let mut connection = server.connect().unwrap();
    let faults: [(u32, &str); 6] = [
        (1, "UPDATE warehouse SET w_ytd=w_ytd+1 WHERE w_id=1"),
        (2, "UPDATE district SET d_next_o_id=d_next_o_id+1 WHERE d_w_id=2 AND d_id=3"),
        (3, "DELETE FROM new_order WHERE no_w_id=1 AND no_d_id=1 AND no_o_id=80"),
        (4, "DELETE FROM order_line WHERE ol_w_id=2 AND ol_d_id=10"),
        (8, "DELETE FROM history WHERE h_w_id=1"),
        (9, "UPDATE history SET h_amount=h_amount+1 WHERE h_w_id=1 AND h_d_id=1 AND h_c_id=1"),
    ];
    for (number, fault) in faults {
        connection.begin().unwrap();
        connection.plain(fault).unwrap();
        let found = conditions(&mut connection).unwrap();
        let violations = found.iter().find(|condition| condition.number == number).unwrap().violations;
        assert!(violations > 0, "{fault} is not found by condition {number}: {found:?}");
        connection.roll_back().unwrap();
    }
    drop(connection);
    server.stop().unwrap();
}

/// A server that ends during a run is named, with the end of its log.
#[test]
fn a_server_that_dies_ends_the_run_with_its_log() {
    needs!(Postgres);
    let bench = Bench::new();
    let oltp = Oltp { mix: Mix::ReadOnly, tables: 1, rows: 500, distribution: Distribution::Uniform };
    let job = job(What::Oltp(oltp), Engine::Postgres);
    job.fill(&bench.place()).unwrap();
    let kill = |line: &str| {
        if line == "running transactions" {
            for (_, resource) in bench.journal.entries() {
                if let journal::Resource::Process { process, .. } = resource {
                    let pid = rustix::process::Pid::from_raw(process.pid as i32).unwrap();
                    // an immediate shutdown
                    rustix::process::kill_process(pid, rustix::process::Signal::QUIT).unwrap();
                }
            }
        }
    };
    let place = LoadSite { tell: &kill, ..bench.place() };
    let error = job.measure(&pace(30.0), &place).unwrap_err().to_string();
    assert!(error.contains("PostgreSQL died") && error.contains("the end of its log"), "{error}");
    assert!(error.contains("immediate shutdown"), "{error}");
    bench.is_clean();
}

#[test]
fn an_address_without_a_server_is_told_with_a_remedy() {
    for (engine, url) in
        [(Engine::InnoDb, "mysql://root@127.0.0.1:9/x"), (Engine::Postgres, "postgres://x@127.0.0.1:9/x")]
    {
        let bench = Bench::new();
        let oltp = Oltp { mix: Mix::Insert, tables: 1, rows: 10, distribution: Distribution::Uniform };
        let job = Job { address: Some(url.into()), ..job(What::Oltp(oltp), engine) };
        let error = job.fill(&bench.place()).unwrap_err().to_string();
        assert!(error.contains("is a server running there"), "{engine}: {error}");
    }
}

/// A wrong password is told as such: a server that asks for one is started and given by its address.
#[test]
fn a_wrong_password_is_told_with_a_remedy() {
    needs!(MariaDb);
    let bench = Bench::new();
    let oltp = Oltp { mix: Mix::Insert, tables: 1, rows: 10, distribution: Distribution::Uniform };
    let private = job(What::Oltp(oltp), Engine::InnoDb);
    sql::server::create(&private.settings(Flush::EachCommit), &Job::data(&bench.path)).unwrap();
    let server = start(&private, &bench);
    let mut connection = server.connect().unwrap();
    connection.plain("CREATE USER 'ann'@'localhost' IDENTIFIED BY 'right'").unwrap();
    connection.plain("GRANT ALL ON loadline.* TO 'ann'@'localhost'").unwrap();
    let sql::db::Address::Socket(socket) = server.address() else { unreachable!() };
    let address = |password: &str| format!("mysql://ann:{password}@localhost/loadline?socket={socket}");
    let with = |password: &str| Job { address: Some(address(password).as_str().into()), ..private.clone() };
    let error = with("wrong").fill(&bench.place()).unwrap_err().to_string();
    assert!(error.contains("Access denied") && error.contains("give user and password"), "{error}");
    // the right one works, leaves no tables behind, and does not overwrite tables that are there
    with("right").fill(&bench.place()).unwrap();
    let again = with("right").fill(&bench.place()).unwrap_err().to_string();
    assert!(again.contains("does not overwrite"), "{again}");
    with("right").measure(&pace(0.2), &bench.place()).unwrap();
    assert!(connection.ask("SHOW TABLES").unwrap().is_empty());
    whatever_ends_it_its_tables_go(&with("right"), &mut connection, &bench);
    let blind = format!("mysql://bob:blind@localhost/loadline?socket={socket}");
    what_is_there_stays(&private, &blind, &mut connection, &bench);
    drop(connection);
    server.stop().unwrap();
    bench.is_clean();
}

/// A table that cannot be looked at is somebody's, and stays.
fn what_is_there_stays(job: &Job, address: &str, connection: &mut Connection, bench: &Bench) {
    connection.plain("CREATE TABLE sbtest1 (id INT)").unwrap();
    connection.plain("CREATE USER 'bob'@'localhost' IDENTIFIED BY 'blind'").unwrap();
    connection.plain("GRANT CREATE, DROP, INSERT ON loadline.* TO 'bob'@'localhost'").unwrap();
    let blind = Job { address: Some(address.into()), ..job.clone() };
    let error = blind.fill(&bench.place()).unwrap_err().to_string();
    assert!(error.contains("looking whether there is a table sbtest1"), "{error}");
    assert_eq!(connection.ask("SHOW TABLES").unwrap().len(), 1);
    connection.plain("DROP TABLE sbtest1").unwrap();
}

fn whatever_ends_it_its_tables_go(job: &Job, connection: &mut Connection, bench: &Bench) {
    let interrupted = LoadSite { stopped: &|| true, ..bench.place() };
    let nothing_is_left = |connection: &mut Connection| {
        assert!(connection.ask("SHOW TABLES").unwrap().is_empty());
    };
    let What::Oltp(oltp) = job.what else { unreachable!() };
    let two = Job { what: What::Oltp(Oltp { tables: 2, ..oltp }), ..job.clone() };
    // interrupted while it fills
    assert!(matches!(two.fill(&interrupted).unwrap_err(), SqlError::Interrupted));
    nothing_is_left(connection);
    // while it runs
    two.fill(&bench.place()).unwrap();
    assert_eq!(two.measure(&pace(600.0), &interrupted).unwrap().ended, Ended::Interrupted);
    nothing_is_left(connection);
    // by an error
    two.fill(&bench.place()).unwrap();
    connection.plain("ALTER TABLE sbtest2 DROP COLUMN pad").unwrap();
    assert!(two.measure(&pace(600.0), &bench.place()).is_err());
    nothing_is_left(connection);
}

/// A full disk is said to be one.
#[test]
fn a_full_disk_is_told_with_a_remedy() {
    needs!(Root, Mounts, Postgres);
    let bench = Bench::new();
    let small = bench.path.join("small");
    std::fs::create_dir(&small).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=90m,mode=755", "loadline-sql-test", small.as_str()])
        .status()
        .unwrap();
    assert!(mounted.success());
    let oltp = Oltp { mix: Mix::Insert, tables: 1, rows: 400_000, distribution: Distribution::Uniform };
    let job = job(What::Oltp(oltp), Engine::Postgres);
    let place = LoadSite { root: Utf8Path::new(small.as_str()), ..bench.place() };
    let error = job.fill(&place).unwrap_err().to_string();
    // Lazily: what another test starts at this moment has its descriptors until it runs its program.
    assert!(
        std::process::Command::new("umount").arg("--lazy").arg(small.as_str()).status().unwrap().success()
    );
    assert!(error.contains("No space left") || error.contains("could not extend"), "{error}");
    assert!(error.contains("give the stack more room"), "{error}");
    bench.is_clean();
}
