//! redis-benchmark's GET and SET beside the same load of this crate: commands and bytes by the server's own counters, keys and
//! values by its MONITOR, and how many commands it found in each read from a socket.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use kv::client::{self, Shared};
use kv::redis::mux::{self, Layout};
use kv::redis::resp::{Login, Wire};
use kv::{KvError, Workload};
use needs::needs;
use serve::drive::{self, Clock, Pace};

use crate::common::Bench;
use crate::monitor::{Monitor, Server};

/// Commands of each side.
const COMMANDS: u64 = 20_000;
/// Keys that they are for.
const KEYS: u64 = 1000;
/// A difference that is not told, as a share.
const TOLERATED: f64 = 0.01;
/// Keys by tenths are drawn: deviations by which they may differ.
const DEVIATIONS: f64 = 5.0;

/// A command, connections, pipeline, bytes of a value.
type Row = (&'static str, u32, u32, usize);

const ROWS: [Row; 8] = [
    ("get", 1, 1, 3),
    ("set", 1, 1, 3),
    ("get", 50, 1, 100),
    ("set", 50, 1, 100),
    ("get", 4, 16, 100),
    ("set", 4, 16, 100),
    ("get", 50, 16, 1000),
    ("set", 50, 16, 1000),
];
const SHORT: [usize; 3] = [1, 2, 5];

/// What the server counted while a program ran: totals.
type Seen = BTreeMap<String, f64>;

fn info(login: &Login) -> Seen {
    let mut wire = Wire::connect(login).unwrap();
    let mut seen = Seen::new();
    for section in ["stats", "commandstats"] {
        let text = wire.must(&["INFO", section]).unwrap();
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let calls = value.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
            if let Ok(number) = calls.unwrap_or(value).trim().parse() {
                seen.insert(name.to_string(), number);
            }
        }
    }
    seen
}

fn workload(row: &Row) -> Workload {
    let mut properties = kv::workload::builtin('c').unwrap();
    for (name, value) in [
        ("recordcount", KEYS.to_string()),
        ("operationcount", COMMANDS.to_string()),
        ("record", "value".into()),
        ("fieldcount", "1".into()),
        ("fieldlength", row.3.to_string()),
        ("requestdistribution", "uniform".into()),
        // keys of 16 bytes, as redis-benchmark's are
        ("insertorder", "ordered".into()),
        ("zeropadding", "12".into()),
    ] {
        properties.set(name, &value);
    }
    if row.0 == "set" {
        properties.set("readproportion", "0");
        properties.set("updateproportion", "1");
    }
    Workload::of(&properties, false).unwrap()
}

fn by_redis_benchmark(row: &Row, server: &Server) {
    let mut command = Command::new("redis-benchmark");
    command.args(["-h", "127.0.0.1", "-t", row.0, "--csv"]);
    for (option, value) in [
        ("-p", u64::from(server.port)),
        ("-c", row.1.into()),
        ("-P", row.2.into()),
        ("-n", COMMANDS),
        ("-d", row.3 as u64),
        ("-r", KEYS),
    ] {
        command.arg(option).arg(value.to_string());
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn by_us(row: &Row, server: &Server) {
    let workload = workload(row);
    let shared = Shared::new(&workload, 7).unwrap();
    let layout = Layout { terminals: row.1, pipeline: row.2, threads: 1, cluster: false };
    let parts = mux::parts(&server.login(), &layout, &shared, &Arc::new(AtomicU64::new(0))).unwrap();
    let kinds = client::kinds(&workload);
    // it ends with its commands, long before
    let pace = Pace { warmup_seconds: 0.0, seconds: 600.0, rate: None };
    let run = |part: mux::ThreadTerminals, clock: &Clock<'_>| part.run(clock, kinds.len());
    let driven: drive::DriveOutcome<KvError> = drive::drive_with(&kinds, parts, &pace, &|| false, run);
    assert!(driven.failed.is_none(), "{:?}", driven.failed.map(|error| error.to_string()));
}

/// What a program does to a server that holds all keys: what its counters say, and then, in a run of its own, its MONITOR.
fn seen(row: &Row, run: &dyn Fn(&Row, &Server), prefix: &str) -> (Seen, Seen) {
    let bench = Bench::new();
    let server = Server::start(&bench.path);
    let login = server.login();
    // both programs' keys are there
    let value = "x".repeat(row.3);
    let mut wire = Wire::connect(&login).unwrap();
    for key in 0..KEYS {
        wire.must(&["SET", &format!("{prefix}{key:012}"), &value]).unwrap();
    }
    drop(wire);
    let before = info(&login);
    run(row, &server);
    let after = info(&login);
    let difference = |name: &str| after.get(name).unwrap_or(&0.0) - before.get(name).unwrap_or(&0.0);
    let command = difference(&format!("cmdstat_{}", row.0));
    let mut counted = Seen::from([(format!("commands {}", row.0), command)]);
    for (of, name) in [
        ("total_net_input_bytes", "bytes in a command"),
        ("total_net_output_bytes", "bytes out a command"),
        ("keyspace_hits", "hits a command"),
        ("keyspace_misses", "misses a command"),
    ] {
        counted.insert(name.into(), difference(of) / command);
    }
    counted.insert("commands in a read".into(), command / difference("total_reads_processed"));
    let monitor = Monitor::begin(&login);
    run(row, &server);
    let mut drawn = Seen::new();
    for words in monitor.end() {
        if !words[0].eq_ignore_ascii_case(row.0.as_bytes()) {
            continue;
        }
        let number: u64 = String::from_utf8_lossy(&words[1][words[1].len() - 12..]).parse().unwrap();
        *drawn.entry(format!("keys in {}/10", number * 10 / KEYS)).or_default() += 1.0;
        *counted.entry(format!("keys of {} bytes", words[1].len())).or_default() += 1.0;
        if let Some(value) = words.get(2) {
            *counted.entry(format!("values of {} bytes", value.len())).or_default() += 1.0;
        }
    }
    (counted, drawn)
}

fn conform(rows: impl Iterator<Item = usize>) {
    let mut wrong = Vec::new();
    for row in rows.map(|number| &ROWS[number]) {
        let (theirs, ours) = (seen(row, &by_redis_benchmark, "key:"), seen(row, &by_us, "user"));
        let mut found = Vec::new();
        let mut differ = |there: &Seen, here: &Seen, most: &dyn Fn(f64) -> f64| {
            for name in there.keys().chain(here.keys().filter(|name| !there.contains_key(*name))) {
                let of = |seen: &Seen| seen.get(name).copied().unwrap_or(0.0);
                if (of(there) - of(here)).abs() > most(of(there).max(of(here))) {
                    found.push(format!("{name}: redis-benchmark {:.2}, here {:.2}", of(there), of(here)));
                }
            }
        };
        differ(&theirs.0, &ours.0, &|most| TOLERATED * most);
        differ(&theirs.1, &ours.1, &|most| DEVIATIONS * (2.0 * most).sqrt());
        let name = format!("redis-benchmark-{}-c{}-p{}-d{}", row.0, row.1, row.2, row.3);
        println!("{name:<34} {}", if found.is_empty() { "equal".to_string() } else { found.join("; ") });
        if !found.is_empty() {
            wrong.push(format!("{name}: {}", found.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn gets_and_sets_are_those_of_redis_benchmark() {
    needs!(Redis, Tool { program: "redis-benchmark", package: "redis-tools" });
    conform(SHORT.into_iter());
}

#[test]
#[ignore = "no test: it takes a minute, and make conformance runs it"]
fn all_rows_of_gets_and_sets_are_those_of_redis_benchmark() {
    needs!(Redis, Tool { program: "redis-benchmark", package: "redis-tools" });
    conform(0..ROWS.len());
}
