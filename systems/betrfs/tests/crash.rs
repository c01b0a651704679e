//! Power cuts, a few; `examples/crash_soak.rs` makes as many as one likes. `BETRFS_SEEDS=100..200` chooses other seeds.

mod common;

use common::cuts::{Kind, Tally, Trial};

fn seeds(normal: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let text = std::env::var("BETRFS_SEEDS").unwrap_or_default();
    let bounds = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    bounds.unwrap_or(normal)
}

#[test]
fn a_cut_leaves_a_prefix_of_the_operations() {
    let mut tally = Tally::default();
    for seed in seeds(0..20) {
        println!("seed {seed}");
        tally += Trial::new(seed, Kind::of(seed)).run(5, 2);
    }
    println!("{tally}");
    assert!(
        tally.in_a_row > 0 && tally.log_tails > 0 && tally.blocks > 0 && tally.bound_bytes > 0,
        "the cuts hit too little: {tally}"
    );
}
