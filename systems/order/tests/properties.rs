//! The same seed gives the same bytes; barriers return at dispatch; figures that must hold at any size.

use order::programs::{dbench, dbench_layout, write_sync};
use order::trace::Kind;
use order::{Op, Protocol, Setup, Simulation, Sync, View};
use ssd::Profile;

fn setup(protocol: Protocol) -> Setup {
    Setup::testbed(protocol, Profile::named("980pro").unwrap(), 1)
}

/// A traced dbench of eight containers, as bytes.
fn bytes(protocol: Protocol, seed: u64) -> String {
    let mut setup = setup(protocol);
    (setup.layout, setup.traced, setup.seed) = (dbench_layout(8, 4096), true, seed);
    let mut sim = Simulation::new(setup).unwrap();
    (0..8).try_for_each(|g| dbench(&mut sim, g, seed)).unwrap();
    sim.run(100_000_000);
    let audit = sim.audit();
    assert!(audit.is_clean() || protocol == Protocol::Ext4NoBarrier, "{}: {audit:?}", protocol.name());
    format!("{}{:?}", sim.trace().raw(), sim.report())
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for protocol in Protocol::ALL {
        let first = bytes(protocol, 5);
        assert!(first.lines().count() > 100, "{}", protocol.name());
        assert_eq!(first, bytes(protocol, 5), "{}", protocol.name());
        assert_ne!(first, bytes(protocol, 6), "{}", protocol.name());
    }
}

/// When the barrier returned, and when the commit record was transferred.
fn barrier_and_record(mutation: Option<order::mutation::Mutation>) -> (u64, u64) {
    let mut setup = setup(Protocol::OpExt4);
    (setup.traced, setup.mutation) = (true, mutation);
    let mut sim = Simulation::new(setup).unwrap();
    let dir = sim.dir(0).unwrap();
    let file = sim.file(dir, 4, None).unwrap();
    sim.spawn("fio", write_sync(file, 1, Sync::Fbarrier));
    sim.run(60_000_000_000);
    assert!(sim.verdict().is_clean());
    let trace = sim.trace();
    assert!(trace.entries.iter().all(|e| e.kind != Kind::Flush), "order needs no flush");
    let record = trace.entries.iter().rfind(|e| e.kind == Kind::Write).unwrap();
    (sim.report().tally.last.unwrap().1, record.done_at)
}

#[test]
fn barriers_return_at_dispatch() {
    let (returned, record) = barrier_and_record(None);
    assert!(returned < record + 20_000, "{returned} {record}");
    let (late, record) = barrier_and_record(Some(order::mutation::Mutation::FbarrierWaits));
    assert!(late > record + 20_000, "the planted bug is seen: {late} {record}");
}

#[test]
fn pinning_costs_nothing() {
    let rate = |pinning| {
        let mut setup = setup(Protocol::OpExt4);
        (setup.layout, setup.pinning) = (dbench_layout(40, 1 << 16), pinning);
        let mut sim = Simulation::new(setup).unwrap();
        (0..40).try_for_each(|g| dbench(&mut sim, g, 3)).unwrap();
        sim.run(2_000_000_000);
        sim.report().tally.counted as f64
    };
    let difference = rate(true) / rate(false) - 1.0;
    assert!(difference.abs() < 0.01, "{difference}");
}

#[test]
fn a_journal_that_wraps_is_checkpointed() {
    for protocol in Protocol::ALL {
        let mut setup = setup(protocol);
        // With MQFS each of four cores has a quarter.
        (setup.cores, setup.queues) = (4, 4);
        (setup.layout, setup.chained) = (dbench_layout(4, 256), true);
        let mut sim = Simulation::new(setup).unwrap();
        (0..4).try_for_each(|g| dbench(&mut sim, g, 11)).unwrap();
        for step in 1..=40u64 {
            sim.run(step * 20_000_000);
            let verdict = sim.audit();
            assert_eq!(verdict.violations, [], "{}", protocol.name());
            assert!(verdict.is_clean() || protocol == Protocol::Ext4NoBarrier, "{verdict:?}");
            if protocol != Protocol::Ext4NoBarrier {
                let verdict = sim.lawful_image(step).unwrap();
                assert!(verdict.is_clean(), "{} image {step}: {verdict:?}", protocol.name());
            }
        }
        assert!(sim.report().commits > 50, "{}", protocol.name());
    }
}

/// Without a flush nothing is safe: `barrier=0` allows an image that order forbids.
#[test]
fn nobarrier_allows_what_order_forbids() {
    let broken = |protocol| {
        let mut sim = Simulation::new(setup(protocol)).unwrap();
        let dir = sim.dir(0).unwrap();
        let file = sim.file(dir, 16, None).unwrap();
        sim.spawn("fio", write_sync(file, 6, Sync::Fsync));
        sim.run(60_000_000_000);
        (0..200).filter(|seed| !sim.lawful_image(*seed).unwrap().is_clean()).count()
    };
    assert!(broken(Protocol::Ext4NoBarrier) > 50);
    for protocol in Protocol::ALL.into_iter().filter(|p| *p != Protocol::Ext4NoBarrier) {
        assert_eq!(broken(protocol), 0, "{}", protocol.name());
    }
}

#[test]
fn bad_input_is_harmless() {
    let mut sim = Simulation::new(setup(Protocol::OpExt4)).unwrap();
    let dir = sim.dir(0).unwrap();
    assert!(sim.dir(9).is_none(), "no such group");
    assert!(sim.file(dir, u32::MAX, None).is_none(), "no room");
    let file = sim.file(dir, 2, None).unwrap();
    let mut script = [
        Op::Sync(file, Sync::Fsync),
        Op::Write { file, page: 0, pages: 1 },
        Op::Delete(file),
        Op::Create(file),
        Op::Write { file, page: u32::MAX, pages: u32::MAX },
        Op::Append { file, pages: 9 },
        Op::Read { file, page: 5, pages: 1 },
        Op::Sync(file, Sync::Fsync),
        Op::Sync(dir, Sync::Fdatasync),
    ]
    .into_iter();
    sim.spawn("odd", move |_: View| script.next().unwrap_or(Op::End));
    assert!(!sim.run(60_000_000_000));
    assert!(sim.power_cut().is_clean());
}
