//! The released OPFTL's bugs (and neighbours of our own) are each caught, and without them nothing is.

use ssd::Regime;
use ssd::mutation::Mutation;
use ssd::oracle::Property;
use ssd::soak::{Plan, soak};

/// A plan in which the bug has a chance to show.
fn plan(mutation: Mutation, seed: u64) -> Plan {
    let usual = Plan::new(Regime::Streams, 6_000, seed);
    match mutation {
        // More than 128 epochs of one stream on flash out of order.
        Mutation::EpochSlotMod128 => Plan {
            threads: 1,
            barrier: 0.97,
            jitter: 60.0,
            racing: true,
            suspended_max: 2048,
            cut: 1.0 / 700.0,
            ..usual
        },
        // The 65,536th epoch of one stream.
        Mutation::EpochWrap16 => Plan {
            threads: 1,
            barrier: 0.97,
            racing: true,
            jitter: 20.0,
            ops: 70_000,
            cut_after: 67_900,
            cut: 1.0 / 100.0,
            ..usual
        },
        Mutation::RingFullForcesEpoch => Plan { suspended_max: 12, jitter: 12.0, ..usual },
        _ => usual,
    }
}

/// The properties of the first breach found over some seeds.
fn caught(mutation: Mutation) -> Option<Vec<Property>> {
    (0..40).find_map(|seed| {
        let plan = Plan { mutation: Some(mutation), ..plan(mutation, seed) };
        let failure = soak(&plan).err()?;
        println!("{mutation:?}: seed {seed}, {failure}");
        Some(failure.violations.iter().map(|v| v.property).collect())
    })
}

#[test]
fn every_planted_bug_is_caught() {
    let missed: Vec<Mutation> = Mutation::ALL.into_iter().filter(|m| caught(*m).is_none()).collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

#[test]
fn without_the_bug_the_same_plans_pass() {
    for mutation in Mutation::ALL {
        for seed in 0..2 {
            if let Err(failure) = soak(&plan(mutation, seed)) {
                panic!("{mutation:?}: {failure}");
            }
        }
    }
}
