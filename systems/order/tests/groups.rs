//! Who shares a commit: what the scaling of containers comes from.

use order::phases::Phase;
use order::programs::{dbench, dbench_layout};
use order::{Protocol, Report, Setup, Simulation};
use ssd::Profile;

const CONTAINERS: u32 = 40;
const JOURNAL: u32 = 1 << 18;
const END_NS: u64 = 500_000_000;

fn run(protocol: Protocol, seed: u64) -> Report {
    let mut setup = Setup::testbed(protocol, Profile::named("980pro").unwrap(), CONTAINERS);
    setup.layout = dbench_layout(CONTAINERS, JOURNAL);
    let mut sim = Simulation::new(setup).unwrap();
    (0..CONTAINERS).for_each(|group| dbench(&mut sim, group, seed).unwrap());
    sim.run(END_NS);
    assert!(sim.audit().is_clean());
    sim.report()
}

/// Half of the clients wait for a commit, the other half for the next one: nobody who was woken catches the commit that
/// begins then, since those who wait for it have been woken, in vain, before him.
#[test]
fn a_commit_has_half_of_the_clients() {
    for protocol in [Protocol::Ext4, Protocol::OpExt4] {
        let rates = [7, 8, 9].map(|seed| {
            let report = run(protocol, seed);
            let calls = report.tally.durable.count() as f64;
            let each = calls / report.commits as f64;
            assert!((19.0..=21.0).contains(&each), "{protocol:?}, seed {seed}: {each} calls a commit");
            calls
        });
        let (least, most) = rates.iter().fold((f64::MAX, 0.0), |(l, m), r| (r.min(l), r.max(m)));
        assert!(most / least < 1.02, "{protocol:?}: {rates:?}");
    }
}

#[test]
fn the_phases_are_all_the_time_of_the_journal_thread() {
    for protocol in [Protocol::Ext4, Protocol::OpExt4] {
        let report = run(protocol, 7);
        let all: u64 = Phase::ALL.iter().map(|p| report.phases.ns(*p)).sum();
        let commit = END_NS / report.commits;
        assert!(all <= END_NS && END_NS - all <= 2 * commit, "{protocol:?}: {all} of {END_NS}");
        // a flush of 1.6 ms in each, and FUA of 4.2 ms for EXT4 alone
        let ms = |phase| report.phases.ns(phase) as f64 / report.commits as f64 / 1e6;
        assert!((1.5..1.8).contains(&ms(Phase::Flush)), "{protocol:?}: {}", ms(Phase::Flush));
        assert_eq!(ms(Phase::Record) > 4.0, protocol == Protocol::Ext4);
    }
}
