//! Redis where something goes wrong: a server that is stopped, slots that move, servers that refuse or die.

mod common;

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use common::{Bench, PACE, job, workload};
use kv::redis::resp::{Login, Reply, Wire};
use kv::redis::slots::slot;
use kv::redis::{AppendPolicy, Servers};
use kv::{Engine, Job, KvError};
use needs::needs;
use rustix::process::{Pid, Signal, kill_process};
use serve::drive::Pace;
use serve::{LoadSite, Moment};

fn servers(bench: &Bench, cluster: bool) -> Servers {
    let data = bench.path.join("servers");
    std::fs::create_dir_all(&data).unwrap();
    Servers::start(cluster, AppendPolicy::None, 20, &data, &bench.path, &bench.journal).unwrap()
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

#[test]
fn half_a_second_of_silence_shows_from_the_intended_start_and_not_in_service_time() {
    needs!(Redis);
    let bench = Bench::new();
    let servers = servers(&bench, false);
    let job = Job {
        address: Some(servers.first()),
        terminals: 1,
        ..job(Engine::Redis, workload('c', &[("operationcount", "0")], false))
    };
    job.fill(&bench.place()).unwrap();
    let (begin, begun) = channel();
    let server = pid(servers.pids()[0]);
    // 6000 operations are due, 500 of them while the server is stopped: far more than one in a thousand, where one
    // connection has one operation under way
    let pace = Pace { warmup_seconds: 0.0, seconds: 6.0, rate: Some(1000.0) };
    let (outcome, stopped) = std::thread::scope(|scope| {
        let stopper = scope.spawn(move || {
            begun.recv().unwrap();
            std::thread::sleep(Duration::from_secs(2));
            let start = Instant::now();
            kill_process(server, Signal::STOP).unwrap();
            std::thread::sleep(Duration::from_millis(500));
            kill_process(server, Signal::CONT).unwrap();
            start.elapsed()
        });
        let moment = |moment| {
            if moment == Moment::Begin {
                begin.send(()).unwrap();
            }
        };
        let outcome = job.measure(&pace, &LoadSite { moment: &moment, ..bench.place() });
        (outcome.unwrap(), stopper.join().unwrap())
    });
    let read = &outcome.ops[0];
    let (service, intended) = (&read.service, read.intended.as_ref().unwrap());
    let half = stopped.as_nanos() as u64 / 2;
    let (of_service, of_intended) = (service.quantile(0.999).unwrap(), intended.quantile(0.999).unwrap());
    println!(
        "stopped for {stopped:?}; p99.9 from the intended start {of_intended} ns, of service time {of_service} ns"
    );
    assert!(of_intended > half, "p99.9 from the intended start: {of_intended} ns, stopped for {stopped:?}");
    assert!(of_service < half, "p99.9 of service time: {of_service} ns, stopped for {stopped:?}");
    assert!(service.max().unwrap() > half, "the one operation that was under way");
    servers.stop().unwrap();
    assert!(bench.journal.is_empty());
}

/// How long one master knows of a move what the next one does not: a hundred redirections.
const DISAGREEMENT: Duration = Duration::from_millis(4);

/// Moves slots from their master to another one, as `redis-cli --cluster reshard` does: keys first, one by one.
fn move_slots(logins: &[Login], slots: &[u16], to: usize) {
    let mut wires: Vec<Wire> = logins.iter().map(|login| Wire::connect(login).unwrap()).collect();
    let ids: Vec<String> = wires.iter_mut().map(|wire| wire.must(&["CLUSTER", "MYID"]).unwrap()).collect();
    let target = logins[to].address.to_string();
    let (host, port) = target.rsplit_once(':').unwrap();
    for slot in slots {
        let from = (usize::from(*slot) * 3) / 16_384;
        assert_ne!(from, to);
        let slot = slot.to_string();
        wires[to].must(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[from]]).unwrap();
        wires[from].must(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[to]]).unwrap();
        let words: [&[u8]; 4] = [b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), b"1000"];
        let keys = wires[from].ask(&words, |reply| match reply {
            Reply::Array(keys) => Ok(keys.iter().filter_map(|key| key.bytes().map(<[u8]>::to_vec)).collect()),
            other => panic!("{other:?}"),
        });
        let keys: Vec<Vec<u8>> = keys.unwrap();
        for key in &keys {
            let word = logins[to].password.as_deref().unwrap().as_bytes();
            let words: [&[u8]; 8] =
                [b"MIGRATE", host.as_bytes(), port.as_bytes(), key, b"0", b"5000", b"AUTH", word];
            wires[from]
                .ask(&words, |reply| match reply {
                    Reply::Error(text) => panic!("{}", String::from_utf8_lossy(text)),
                    _ => Ok(()),
                })
                .unwrap();
            // while the slot is half moved the load meets ASK
            std::thread::sleep(Duration::from_millis(1));
        }
        // until the new master hears it too, each of the two sends commands to the other
        for wire in &mut wires {
            wire.must(&["CLUSTER", "SETSLOT", &slot, "NODE", &ids[to]]).unwrap();
            std::thread::sleep(DISAGREEMENT);
        }
    }
}

#[test]
fn moved_and_ask_are_followed_and_no_value_is_lost() {
    needs!(Redis);
    let bench = Bench::new();
    let servers = servers(&bench, true);
    let workload = workload('a', &[("operationcount", "0"), ("recordcount", "300")], true);
    let keys: Vec<Vec<u8>> = (0..300).map(|record| workload.keys.key(record)).collect();
    // the slots of the first master that hold a record
    let mut slots: Vec<u16> = keys.iter().map(|key| slot(key)).filter(|slot| *slot < 5461).collect();
    slots.sort_unstable();
    slots.dedup();
    let job = Job {
        address: Some(servers.first()),
        terminals: 4,
        pipeline: 2,
        ..job(Engine::RedisCluster, workload)
    };
    job.fill(&bench.place()).unwrap();
    let (begin, begun) = channel();
    let logins = servers.logins();
    let pace = Pace { warmup_seconds: 0.0, seconds: 3.0, rate: None };
    let outcome = std::thread::scope(|scope| {
        scope.spawn(move || {
            begun.recv().unwrap();
            move_slots(&logins, &slots, 1);
        });
        let moment = |moment| {
            if moment == Moment::Begin {
                begin.send(()).unwrap();
            }
        };
        job.measure(&pace, &LoadSite { moment: &moment, ..bench.place() }).unwrap()
    });
    let metric = |name: &str| outcome.metrics.iter().find(|metric| metric.name == name).unwrap().value;
    assert!(metric("redirections") > 0.0, "{:?}", outcome.metrics);
    assert!(metric("verified_values") > 0.0 && outcome.io_ops() > 0);
    assert!(outcome.ops.iter().all(|op| op.errors == 0));
    servers.stop().unwrap();
}

#[test]
fn refused_connections_and_wrong_passwords_are_told_with_a_remedy() {
    needs!(Redis);
    let bench = Bench::new();
    let servers = servers(&bench, false);
    let mut wire = Wire::connect(&servers.first()).unwrap();
    wire.must(&["CONFIG", "SET", "requirepass", "secret"]).unwrap();
    let with = |password: Option<&str>| Login { password: password.map(String::from), ..servers.first() };
    let fill = |login: Login| {
        let job = Job { address: Some(login), ..job(Engine::Redis, workload('a', &[], false)) };
        job.fill(&bench.place()).map_err(|error| error.to_string())
    };
    let none = fill(with(None)).unwrap_err();
    assert!(none.contains("give user and password in the address"), "{none}");
    let wrong = fill(with(Some("wrong"))).unwrap_err();
    assert!(wrong.contains("does not let us in") && wrong.contains("check user and password"), "{wrong}");
    assert_eq!(fill(with(Some("secret"))), Ok(()));
    let full = fill(with(Some("secret"))).unwrap_err();
    assert!(full.contains("holds 2001 keys already, which loadline does not overwrite"), "{full}");
    let nobody = fill(Login::parse("redis://127.0.0.1:1").unwrap()).unwrap_err();
    assert!(nobody.contains("127.0.0.1:1") && nobody.contains("is a server running there"), "{nobody}");
    let no_cluster =
        Job { address: Some(with(Some("secret"))), ..job(Engine::RedisCluster, workload('a', &[], false)) };
    let error = no_cluster.fill(&bench.place()).unwrap_err().to_string();
    assert!(error.contains("cluster support disabled"), "{error}");
}

/// Whatever ends a load at an address, its keys go.
#[test]
fn a_load_that_fails_leaves_no_keys_at_an_address() {
    needs!(Redis);
    let bench = Bench::new();
    let servers = servers(&bench, false);
    let mut wire = Wire::connect(&servers.first()).unwrap();
    let job = Job {
        address: Some(servers.first()),
        terminals: 10,
        ..job(Engine::Redis, workload('a', &[], false))
    };
    // interrupted while it loads
    let keys = |wire: &mut Wire| {
        wire.ask(&[b"DBSIZE"], |reply| match reply {
            Reply::Number(keys) => Ok(keys),
            other => panic!("{other:?}"),
        })
    };
    let asked = AtomicU32::new(0);
    let stopped = || asked.fetch_add(1, Ordering::Relaxed) > 3;
    let error = job.fill(&LoadSite { stopped: &stopped, ..bench.place() }).unwrap_err();
    assert!(matches!(error, KvError::Interrupted), "{error}");
    assert_eq!(keys(&mut wire).unwrap(), 0);
    // fewer connections are allowed than there are terminals
    job.fill(&bench.place()).unwrap();
    wire.must(&["CONFIG", "SET", "maxclients", "5"]).unwrap();
    assert!(job.measure(&PACE, &bench.place()).is_err());
    assert_eq!(keys(&mut wire).unwrap(), 0);
    // its settings may not be read
    wire.must(&["CONFIG", "SET", "maxclients", "100"]).unwrap();
    job.fill(&bench.place()).unwrap();
    wire.must(&["ACL", "SETUSER", "default", "-info"]).unwrap();
    let error = job.measure(&PACE, &bench.place()).unwrap_err().to_string();
    assert!(error.contains("INFO") || error.contains("info"), "{error}");
    assert_eq!(keys(&mut wire).unwrap(), 0);
    // what cannot be deleted is told
    wire.must(&["ACL", "SETUSER", "default", "+info", "-del"]).unwrap();
    job.fill(&bench.place()).unwrap();
    let error = job.measure(&PACE, &bench.place()).unwrap_err().to_string();
    assert!(error.contains("del"), "{error}");
    servers.stop().unwrap();
}

/// Processor seconds of a process so far.
fn cpu_seconds(pid: u32) -> f64 {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // utime and stime, the 14th and 15th field (proc_pid_stat(5)); the second one ends at the last parenthesis
    let ticks = line.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>()
        / rustix::param::clock_ticks_per_second() as f64
}

#[test]
fn processor_seconds_of_the_server_are_those_of_the_measured_interval() {
    needs!(Redis);
    let bench = Bench::new();
    let job = job(Engine::Redis, workload('c', &[("operationcount", "0")], false));
    job.fill(&bench.place()).unwrap();
    let server = || cpu_seconds(common::processes(&bench.journal)[0]);
    let (start, at, begun, ended) = (Cell::new(0.0), Cell::new(None), Cell::new(0.0), Cell::new(0.0));
    let place = LoadSite {
        tell: &|line| {
            if line == "running operations" {
                start.set(server());
                at.set(Some(Instant::now()));
            }
        },
        moment: &|moment| match moment {
            Moment::Begin => {
                assert!(
                    at.get().unwrap().elapsed() >= Duration::from_secs(2),
                    "the warm-up is no part of it"
                );
                begun.set(server());
            }
            Moment::End => ended.set(server()),
        },
        ..bench.place()
    };
    let outcome = job.measure(&Pace { warmup_seconds: 2.0, seconds: 0.5, rate: None }, &place).unwrap();
    let told = outcome.metrics.iter().find(|metric| metric.name == "server_cpu_seconds").unwrap().value;
    let [warmup, all] = [&begun, &ended].map(|cell| cell.get() - start.get());
    assert!(warmup > 0.0 && told <= all - warmup / 2.0, "{told} s of {all} s, {warmup} s in the warm-up");
}

#[test]
fn a_server_that_dies_ends_the_run_with_its_log() {
    needs!(Redis);
    for engine in [Engine::Redis, Engine::RedisCluster] {
        let bench = Bench::new();
        let job = job(engine, workload('a', &[("operationcount", "0")], false));
        job.fill(&bench.place()).unwrap();
        let moment = |moment| {
            if moment == Moment::Begin {
                let servers = common::processes(&bench.journal);
                kill_process(pid(servers[0]), Signal::KILL).unwrap();
            }
        };
        let error = job.measure(&PACE, &LoadSite { moment: &moment, ..bench.place() }).unwrap_err();
        assert!(matches!(&error, KvError::Server(text) if text.contains("Redis died (signal 9)")), "{error}");
        assert!(error.to_string().contains("the end of its log"), "{error}");
        assert!(bench.journal.is_empty(), "{:?}", bench.journal.entries());
    }
}

/// Every user of the machine can connect to loopback; nobody reads the password there.
#[test]
fn a_private_cluster_lets_in_who_knows_its_password() {
    needs!(Redis);
    let bench = Bench::new();
    let servers = servers(&bench, true);
    for (login, pid) in servers.logins().into_iter().zip(servers.pids()) {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(!words.contains(login.password.as_deref().unwrap()), "{words}");
        for password in [None, Some("wrong".to_string())] {
            let stranger = Login { password, ..login.clone() };
            let answer = Wire::connect(&stranger).and_then(|mut wire| wire.must(&["CONFIG", "GET", "dir"]));
            let error = answer.unwrap_err().to_string();
            assert!(error.contains("user and password"), "{error}");
        }
    }
    servers.stop().unwrap();
}
