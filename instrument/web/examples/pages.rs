//! How long pages take with 5,000 stored runs: of each view the first request to a server that has just begun, and to one that
//! has read ahead; the median and the worst of 50 more. `cargo run --release -p loadline-web --example pages [RUNS [HOME [RUN]]]`.
//! With a home, all are copies of a run that is stored there; else they are made up, of 12 trials each.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::time::Instant;

use common::{Client, Home, serve};
use lab::Store;

/// Runs, unless the command line says otherwise.
const RUNS: usize = 5_000;
/// Requests of each view.
const REQUESTS: usize = 50;

/// A label as it may stand in an address.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn main() {
    let runs = std::env::args().nth(1).map_or(RUNS, |word| word.parse().expect("a number of runs"));
    let words: Vec<String> = std::env::args().skip(2).collect();
    let home = match words.first() {
        None => Home::with_runs(runs),
        Some(from) => {
            let word = words.get(1).map_or("last", String::as_str);
            let run = Store::open_to_read(Path::new(from)).and_then(|store| store.load_run(word));
            Home::with_copies(&run.expect("a stored run"), runs)
        }
    };
    let ids = home.ids();
    let like = home.store().load_run(&ids[0]).expect("it was stored");
    let cell = &like.cells[0];
    let (load, stack) = (encoded(&cell.load_label()), encoded(&cell.stack));
    let client = Client::of(&serve(&home, &[]));
    // the last thing that a server reads ahead is behind what this waits for
    assert_eq!(client.get("/trend").status, 200);
    let timed = |client: &Client, path: &str| {
        let began = Instant::now();
        let answer = client.get(path);
        assert_eq!(answer.status, 200, "{path}");
        (began.elapsed().as_secs_f64() * 1e3, answer.body.len())
    };
    println!(
        "{runs} runs of {} trials; milliseconds\n\n| view | at the start | first | median | worst of {REQUESTS} | KiB |\n|---|---|---|---|---|---|",
        like.trials.len()
    );
    let (a, b) = (&ids[0], &ids[runs / 2]);
    for (name, path) in [
        ("list", "/".to_string()),
        ("list, filtered, page 20", format!("/?stack={stack}&workload={}&page=20", encoded(&cell.workload))),
        ("report", format!("/runs/{a}")),
        ("counters", format!("/runs/{a}/counters")),
        ("progress", format!("/runs/{a}/live")),
        ("compare, two runs", format!("/compare?a={a}&b={b}")),
        ("compare, stacks", format!("/compare?a={a}")),
        ("series", "/trend".into()),
        ("trend, by the hour", format!("/trend?workload={load}&stack={stack}")),
        ("trend, each run", format!("/trend?workload={load}&stack={stack}&every_seconds=0")),
    ] {
        let beginner = Client::of(&serve(&home, &[]));
        let (at_start, _) = timed(&beginner, &path);
        beginner.get("/trend");
        let (first, bytes) = timed(&client, &path);
        let mut times: Vec<f64> = (0..REQUESTS).map(|_| timed(&client, &path).0).collect();
        times.sort_by(f64::total_cmp);
        let (median, worst) = (times[REQUESTS / 2], times[REQUESTS - 1]);
        println!("| {name} | {at_start:.1} | {first:.1} | {median:.1} | {worst:.1} | {} |", bytes / 1024);
    }
}
