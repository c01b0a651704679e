//! How long pages take with 5,000 stored runs of 12 trials each: the median and the worst of 50 requests of each view, and the
//! first list, which reads all. `cargo run --release -p loadline-web --example pages [RUNS]`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::{Client, Home, serve};

/// Runs, unless the command line says otherwise.
const RUNS: usize = 5_000;
/// Requests of each view.
const REQUESTS: usize = 50;

fn main() {
    let runs = std::env::args().nth(1).map_or(RUNS, |word| word.parse().expect("a number of runs"));
    let home = Home::with_runs(runs);
    let ids = home.ids();
    let client = Client::of(&serve(&home, &[]));
    let timed = |path: &str| {
        let began = Instant::now();
        let answer = client.get(path);
        assert_eq!(answer.status, 200, "{path}");
        (began.elapsed().as_secs_f64() * 1e3, answer.body.len())
    };
    println!(
        "{runs} runs of 12 trials; milliseconds\n\n| view | first | median | worst of {REQUESTS} | KiB |\n|---|---|---|---|---|"
    );
    let (a, b) = (&ids[0], &ids[runs / 2]);
    for (name, path) in [
        ("list", "/".to_string()),
        ("list, filtered, page 20", "/?stack=xfs&workload=hog&page=20".into()),
        ("report", format!("/runs/{a}")),
        ("counters", format!("/runs/{a}/counters")),
        ("progress", format!("/runs/{a}/live")),
        ("compare, two runs", format!("/compare?a={a}&b={b}")),
        ("compare, stacks", format!("/compare?a={a}")),
        ("series", "/trend".into()),
        ("trend, by the hour", "/trend?workload=hog&stack=ext4".into()),
        ("trend, each run", "/trend?workload=hog&stack=ext4&every_seconds=0".into()),
    ] {
        let (first, bytes) = timed(&path);
        let mut times: Vec<f64> = (0..REQUESTS).map(|_| timed(&path).0).collect();
        times.sort_by(f64::total_cmp);
        let (median, worst) = (times[REQUESTS / 2], times[REQUESTS - 1]);
        println!("| {name} | {first:.1} | {median:.1} | {worst:.1} | {} |", bytes / 1024);
    }
}
