//! Random hosts with power cuts between any two flash operations: properties P1-P10 hold.
//! `LOADLINE_SSD_OPS` sets the number of commands of the largest run (default 200,000).

use ssd::Regime;
use ssd::soak::{Plan, soak};

fn ops() -> u64 {
    std::env::var("LOADLINE_SSD_OPS").ok().and_then(|s| s.parse().ok()).unwrap_or(200_000)
}

fn run(plan: &Plan) {
    match soak(plan) {
        Ok(r) => {
            println!("{} {:?}", plan.regime.name(), r);
            let busy = r.cuts > 0 && (r.stats.gc_programs > 0 || plan.in_place);
            assert!(busy || plan.ops < 4000, "nothing happened: {r:?}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn streams() {
    for seed in 0..2 {
        run(&Plan::new(Regime::Streams, ops() / 2, seed));
    }
}

#[test]
fn weaker_regimes() {
    for (seed, regime) in [Regime::None, Regime::Flush, Regime::Barrier].into_iter().enumerate() {
        run(&Plan::new(regime, ops() / 4, seed as u64));
    }
}

#[test]
fn power_loss_protection() {
    for (seed, regime) in Regime::ALL.into_iter().enumerate() {
        run(&Plan { plp: true, ..Plan::new(regime, ops() / 8, seed as u64) });
    }
}

#[test]
fn in_place_media() {
    for (seed, regime) in Regime::ALL.into_iter().enumerate() {
        run(&Plan { in_place: true, ..Plan::new(regime, ops() / 8, seed as u64) });
    }
}

#[test]
fn a_short_suspension_list_refuses_but_never_reorders() {
    run(&Plan { suspended_max: 12, jitter: 12.0, ..Plan::new(Regime::Streams, ops() / 8, 5) });
}
