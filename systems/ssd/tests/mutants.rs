//! The released OPFTL's bugs (and neighbours of our own) are each caught, and without them nothing is.

use ssd::Regime;
use ssd::mutation::Mutation;
use ssd::oracle::Property;
use ssd::soak::{Plan, small_device, soak};
use ssd::{Command, Ssd, Status, StreamTag, Tags, Token};

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

/// Epoch 1 of a stream waits on flash for the barrier of epoch 0 while everything around its pages is
/// overwritten and collected. Then the barrier comes. Whether the pages can be read throughout and are in
/// the image of a power cut after a flush.
fn suspended_pages_outlive_collection(mutation: Option<Mutation>) -> bool {
    let mut ssd = Ssd::new(small_device(&Plan { jitter: 0.0, ..Plan::new(Regime::Streams, 0, 1) })).unwrap();
    if let Some(m) = mutation {
        ssd.plant(m);
    }
    let (mut now, mut id, mut done) = (0, 0, Vec::new());
    let mut run = |ssd: &mut Ssd, mut c: Command| {
        (id, c.id) = (id + 1, id + 1);
        ssd.submit(c, now).unwrap();
        while ssd.in_flight() > 0 {
            let Some(t) = ssd.next_event() else { break };
            now = t.max(now);
            ssd.advance(now, &mut done);
        }
        done.drain(..).next_back()
    };
    let tag = |epoch, barrier| Tags { major: Some(StreamTag::new(9, epoch)), minor: None, barrier };
    run(&mut ssd, Command::write(0, 0, 1, Token(100)).tagged(tag(0, false)));
    for i in 0..24 {
        run(&mut ssd, Command::write(0, 1 + i, 1, Token(200 + i)).tagged(tag(1, false)));
        run(&mut ssd, Command::write(0, 100 + i * 7, 3, Token(1000)));
    }
    for round in 0..6000u64 {
        // Scattered, so that blocks never empty by themselves.
        let lba = 64 + (round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 700;
        run(&mut ssd, Command::write(0, lba, 1, Token(10_000 + round)));
    }
    assert!(ssd.stats().gc_programs > 50, "{:?}", ssd.stats());
    let expected: Vec<Token> = (0..24).map(|i| Token(200 + i)).collect();
    let read = run(&mut ssd, Command::read_tokens(0, 1, 24)).unwrap();
    let readable = read.status == Status::Ok && read.tokens.as_deref() == Some(&expected[..]);
    run(&mut ssd, Command::barrier(0).tagged(tag(0, true)));
    run(&mut ssd, Command::flush(0));
    readable && ssd.power_cut().image[1..25] == expected[..]
}

#[test]
fn collection_moves_suspended_pages() {
    assert!(suspended_pages_outlive_collection(None));
    assert!(!suspended_pages_outlive_collection(Some(Mutation::GcIgnoresSuspended)));
}

#[test]
fn every_planted_bug_is_caught() {
    // The one that takes a directed test is above.
    let random = Mutation::ALL.into_iter().filter(|m| *m != Mutation::GcIgnoresSuspended);
    let missed: Vec<Mutation> = random.filter(|m| caught(*m).is_none()).collect();
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
