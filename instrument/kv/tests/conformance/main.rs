//! The same workloads by YCSB's own client and by this crate, and what reached the engine: commands of each kind, fields and
//! bytes of each write, names of keys, shares of the hottest ones, lengths of scans. Neither program is asked what it has
//! done: a private Redis is, by its MONITOR.
//!
//! What YCSB did is in `redis.txt`, recorded by `record_what_ycsb_does` with the client that its head names; `cargo test` runs
//! some rows, `make conformance` all of them.

#[path = "../common/mod.rs"]
mod common;
mod db_bench;
mod monitor;
mod redis_benchmark;
mod sqlite;

use std::collections::BTreeMap;
use std::process::Command;

use common::{Bench, PACE};
use kv::properties::Properties;
use kv::redis::{AppendPolicy, Servers};
use kv::workload::builtin;
use kv::{Engine, Job, Workload};
use monitor::{Counts, Monitor, Server, count};
use needs::needs;

/// What YCSB did, by rows: a line with the letter of a workload and properties, then the counts of its two phases.
const GOLDEN: &str = include_str!("redis.txt");
/// Records and operations of each row, unless it says otherwise.
const RECORDS: u32 = 1000;
const OPERATIONS: u32 = 10_000;
/// Of numbers of commands, which both programs draw: deviations of their difference.
const DEVIATIONS: f64 = 5.0;
/// Of shares, which both programs draw: their difference in points. Four standard deviations of a share of a half of 10,000
/// draws, twice drawn, are 2.8 points; no row comes near it.
const SHARE: f64 = 0.02;
/// Of the number of keys that were asked for at all: four deviations where most is left to chance, of a thousand draws from the
/// 950 keys beside a hot spot, twice drawn.
const KEYS: f64 = 80.0;
/// Of means, relative to YCSB's: a mean of 9,500 scans of 1 to 100 records has a deviation of 0.6 %.
const RELATIVE: f64 = 0.03;

/// A workload's letter, and properties beside its own.
type Row = (char, &'static [&'static str]);

const ROWS: [Row; 28] = [
    ('a', &[]),
    ('b', &[]),
    ('c', &[]),
    ('d', &[]),
    ('e', &["operationcount=2000"]),
    ('f', &[]),
    ('a', &["writeallfields=true"]),
    ('a', &["readallfields=false"]),
    ('a', &["readallfieldsbyname=true"]),
    ('a', &["dataintegrity=true"]),
    ('f', &["readallfields=false", "writeallfields=true"]),
    ('f', &["dataintegrity=true"]),
    ('e', &["readallfields=false", "operationcount=2000", "scanlengthdistribution=zipfian"]),
    ('e', &["minscanlength=20", "maxscanlength=20", "operationcount=2000"]),
    ('a', &["fieldcount=3", "fieldlength=40", "fieldnameprefix=f"]),
    ('a', &["fieldlengthdistribution=uniform", "minfieldlength=20", "writeallfields=true"]),
    ('a', &["fieldlengthdistribution=zipfian", "writeallfields=true"]),
    ('a', &["insertorder=ordered", "zeropadding=12"]),
    ('d', &["insertorder=ordered"]),
    ('a', &["zeropadding=30"]),
    ('a', &["requestdistribution=uniform"]),
    ('a', &["requestdistribution=hotspot"]),
    ('a', &["requestdistribution=hotspot", "hotspotdatafraction=0.05", "hotspotopnfraction=0.9"]),
    ('a', &["requestdistribution=sequential"]),
    ('d', &["requestdistribution=exponential"]),
    ('c', &["requestdistribution=exponential", "exponential.percentile=80", "exponential.frac=0.1"]),
    ('d', &["requestdistribution=zipfian", "insertproportion=0.2", "readproportion=0.8"]),
    ('a', &["insertstart=300", "insertcount=500", "requestdistribution=uniform", "insertproportion=0.1"]),
];
/// The rows of `cargo test`.
const SHORT: [usize; 8] = [0, 3, 5, 6, 7, 12, 16, 27];

fn title((letter, more): &Row) -> String {
    std::iter::once(letter.to_string())
        .chain(more.iter().map(|word| word.to_string()))
        .collect::<Vec<_>>()
        .join(" ")
}

fn pairs(row: &Row) -> impl Iterator<Item = (String, String)> {
    let sizes = [("recordcount", RECORDS), ("operationcount", OPERATIONS)];
    let sizes = sizes.into_iter().map(|(name, size)| (name.to_string(), size.to_string()));
    let more = row.1.iter().filter_map(|word| word.split_once('='));
    sizes.chain(more.map(|(name, value)| (name.to_string(), value.to_string())))
}

/// What this crate does: its load, and its run.
fn ours(row: &Row, engine: Engine) -> [Counts; 2] {
    let mut properties: Properties = builtin(row.0).unwrap();
    pairs(row).for_each(|(name, value)| properties.set(&name, &value));
    let bench = Bench::new();
    let cluster = engine == Engine::RedisCluster;
    // of a cluster each master is listened to: the order of commands is known within each
    let servers = cluster.then(|| {
        let data = bench.path.join("servers");
        std::fs::create_dir_all(&data).unwrap();
        Servers::start(true, AppendPolicy::None, 20, &data, &bench.path, &bench.journal).unwrap()
    });
    let server = (!cluster).then(|| Server::start(&bench.path));
    let logins = servers.as_ref().map_or_else(|| server.iter().map(Server::login).collect(), Servers::logins);
    let workload = Workload::of(&properties, false).unwrap();
    let job = Job { address: Some(logins[0].clone()), terminals: 1, ..common::job(engine, workload) };
    let heard = |run: &dyn Fn()| {
        let monitors: Vec<Monitor> = logins.iter().map(Monitor::begin).collect();
        run();
        count(&monitors.into_iter().flat_map(Monitor::end).collect::<Vec<_>>())
    };
    let load = heard(&|| job.fill(&bench.place()).unwrap());
    let run = heard(&|| _ = job.measure(&PACE, &bench.place()).unwrap());
    servers.into_iter().for_each(|servers| servers.stop().unwrap());
    [load, run]
}

/// What YCSB did, by the titles of rows.
fn golden() -> BTreeMap<String, [Counts; 2]> {
    let mut rows = BTreeMap::new();
    let lines: Vec<&str> = GOLDEN.lines().filter(|line| !line.starts_with('#')).collect();
    for row in lines.chunks(3) {
        let [title, load, run] = row else { panic!("{row:?}") };
        let read = |line: &str| {
            let mut counts = Counts::default();
            for (name, value) in line.split_whitespace().filter_map(|word| word.split_once('=')) {
                match value.strip_prefix('"') {
                    Some(text) => _ = counts.texts.insert(name.into(), text.trim_end_matches('"').into()),
                    None => _ = counts.numbers.insert(name.into(), value.parse().unwrap()),
                }
            }
            counts
        };
        rows.insert(title.to_string(), [read(load), read(run)]);
    }
    rows
}

/// How much a number may differ from YCSB's, in its unit.
fn tolerated(name: &str, theirs: &Counts, operations: f64) -> f64 {
    let value = theirs.numbers[name];
    let end = |part: &str| {
        let base = name.rsplit_once('.').map_or("", |(base, _)| base);
        theirs.numbers.get(&format!("{base}.{part}")).copied()
    };
    match name {
        // of what scans find, their mean; of what an operation has or has not, what is left to chance
        _ if name.starts_with("commands.") && value > operations => RELATIVE * value,
        _ if name.starts_with("commands.") => DEVIATIONS * (2.0 * value * (1.0 - value / operations)).sqrt(),
        _ if name.starts_with("top.") => SHARE,
        // each insert is a key more
        "keys" if theirs.numbers.contains_key("commands.zadd") => SHARE * operations,
        "keys" => KEYS,
        // lengths that do not vary are the same
        _ if end("min") == end("max") => 0.0,
        _ => RELATIVE * end("max").unwrap_or(value),
    }
}

fn compare(row: &Row, engine: Engine, golden: &BTreeMap<String, [Counts; 2]>) -> Vec<String> {
    let title = title(row);
    let theirs = golden.get(&title).unwrap_or_else(|| panic!("{title} was never recorded"));
    let ours = ours(row, engine);
    let operations: f64 =
        pairs(row).filter(|(name, _)| name == "operationcount").last().unwrap().1.parse().unwrap();
    let mut differences = Vec::new();
    for (phase, (theirs, ours)) in ["load", "run"].into_iter().zip(theirs.iter().zip(&ours)) {
        for name in theirs
            .numbers
            .keys()
            .chain(ours.numbers.keys().filter(|name| !theirs.numbers.contains_key(*name)))
        {
            let value = |counts: &Counts| counts.numbers.get(name).copied();
            let most =
                if theirs.numbers.contains_key(name) { tolerated(name, theirs, operations) } else { 0.0 };
            // a load has nothing that is drawn but lengths
            let drawn = phase == "run" || name.starts_with("field.bytes");
            let same = value(theirs)
                .zip(value(ours))
                .is_some_and(|(theirs, ours)| (theirs - ours).abs() <= if drawn { most } else { 1e-9 });
            if !same {
                differences.push(format!(
                    "{engine} {title}: {phase}: {name} is {:?} of YCSB and {:?} of loadline, {most:.4} are tolerated",
                    value(theirs),
                    value(ours)
                ));
            }
        }
        let texts = theirs.texts.iter().filter(|(name, _)| engine == Engine::Redis || *name == "hottest");
        for (name, text) in texts.filter(|(name, _)| phase == "run" || *name != "hottest") {
            let found = ours.texts.get(name);
            if found != Some(text) {
                differences.push(format!(
                    "{engine} {title}: {phase}: {name} is {text} of YCSB and {found:?} of loadline"
                ));
            }
        }
    }
    println!("{engine} {title}: {} differences", differences.len());
    differences
}

fn none_differs(rows: impl IntoIterator<Item = usize>, engine: Engine) {
    let golden = golden();
    let found: Vec<String> =
        rows.into_iter().flat_map(|number| compare(&ROWS[number], engine, &golden)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn a_share_of_updates_that_is_off_is_no_chance() {
    let mut theirs = Counts::default();
    theirs.numbers.insert("commands.hmset".into(), 500.0);
    let most = tolerated("commands.hmset", &theirs, 10_000.0);
    // 3.1 % instead of 5 % fails, three deviations do not
    assert!((93.0..190.0).contains(&most), "{most}");
}

#[test]
fn workloads_do_what_they_do_with_ycsbs_redis_binding() {
    needs!(Redis);
    none_differs(SHORT, Engine::Redis);
}

#[test]
fn a_cluster_is_sent_the_same() {
    needs!(Redis);
    none_differs([0, 3, 13], Engine::RedisCluster);
}

#[test]
#[ignore = "no test: it takes minutes, and make conformance runs it"]
fn all_rows_do_what_they_do_with_ycsbs_redis_binding() {
    needs!(Redis);
    none_differs(0..ROWS.len(), Engine::Redis);
}

/// Records the rows anew: `LOADLINE_YCSB` is a directory of YCSB's workloads, `LOADLINE_YCSB_CLASSES` a class path with its
/// client and its Redis binding. The head of `redis.txt` says how it was called.
#[test]
#[ignore = "no test: it records what the others compare with, by a built YCSB"]
fn record_what_ycsb_does() {
    let Some((workloads, classes)) =
        std::env::var("LOADLINE_YCSB").ok().zip(std::env::var("LOADLINE_YCSB_CLASSES").ok())
    else {
        return println!("LOADLINE_YCSB and LOADLINE_YCSB_CLASSES are not set: nothing is recorded");
    };
    for row in &ROWS {
        println!("{}", title(row));
        let bench = Bench::new();
        let server = Server::start(&bench.path);
        for (option, phase) in [("-load", "load"), ("-t", "run")] {
            let monitor = Monitor::begin(&server.login());
            let mut java = Command::new("java");
            java.args(["-cp", &classes, "site.ycsb.Client", option, "-db", "site.ycsb.db.RedisClient", "-P"]);
            java.arg(format!("{workloads}/workload{}", row.0)).args(["-threads", "1"]);
            java.args(["-p", "redis.host=127.0.0.1", "-p", &format!("redis.port={}", server.port)]);
            pairs(row).for_each(|(name, value)| _ = java.args(["-p", &format!("{name}={value}")]));
            let output = java.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let counts = count(&monitor.end());
            let numbers = counts.numbers.iter().map(|(name, value)| {
                let value = format!("{value:.4}");
                format!("{name}={}", value.trim_end_matches('0').trim_end_matches('.'))
            });
            let texts = counts.texts.iter().map(|(name, text)| format!("{name}=\"{text}\""));
            println!("  {phase} {}", numbers.chain(texts).collect::<Vec<_>>().join(" "));
        }
    }
}
