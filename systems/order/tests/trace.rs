//! The trace of one fsync has the ids of the OPIMQ artifact's shipped trace, with and without pinning.

use order::programs::write_sync;
use order::trace::{Kind, Trace};
use order::{FIRST_PID, JOURNAL_STREAM, Protocol, Setup, Simulation, Sync};
use ssd::Profile;

/// (name, sid1, eid1, sid2, eid2, barrier, kind).
type Row = (&'static str, u32, u32, u32, u32, bool, Kind);

fn run(pinning: bool, count: u32, protocol: Protocol) -> (Trace, Simulation<'static>) {
    let mut setup = Setup::testbed(protocol, Profile::named("980pro").unwrap(), 1);
    (setup.pinning, setup.traced) = (pinning, true);
    let mut sim = Simulation::new(setup).unwrap();
    let dir = sim.dir(0).unwrap();
    let file = sim.file(dir, 16, None).unwrap();
    sim.spawn("fio", write_sync(file, count, Sync::Fsync));
    assert!(!sim.run(60_000_000_000), "comes to rest");
    assert_eq!(sim.verdict().violations, []);
    assert!(sim.audit().is_clean(), "{:?}", sim.audit());
    (sim.trace(), sim)
}

fn rows(trace: &Trace) -> Vec<Row> {
    let pair = |t: Option<ssd::StreamTag>| t.map_or((0, 0), |t| (t.stream, t.epoch));
    let of = |e: &order::trace::Entry| {
        let ((s1, e1), (s2, e2)) = (pair(e.tags.major), pair(e.tags.minor));
        (e.name, s1, e1, s2, e2, e.tags.barrier, e.kind)
    };
    trace.entries.iter().filter(|e| e.kind != Kind::Other).map(of).collect()
}

#[test]
fn ids_of_a_first_fsync_and_of_the_next_ones() {
    let (app, jbd) = (FIRST_PID, JOURNAL_STREAM);
    assert_eq!((app, jbd), (2736, 2688), "as in the shipped trace");
    for pinning in [true, false] {
        let (trace, _sim) = run(pinning, 3, Protocol::OpExt4);
        let shipped: Vec<Row> = vec![
            ("fio", app, 0, jbd, 0, true, Kind::Write),
            ("jbd2", jbd, 1, 0, 0, false, Kind::Write),
            ("jbd2", jbd, 1, 0, 0, true, Kind::Write),
            ("jbd2", jbd, 2, 0, 0, true, Kind::Write),
            ("kworker", jbd, 3, 0, 0, true, Kind::Flush),
            ("fio", app, 1, jbd, 4, true, Kind::Write),
            // From here on descriptor and metadata are one request, as in the quick test's trace.
            ("jbd2", jbd, 5, 0, 0, true, Kind::Write),
            ("jbd2", jbd, 6, 0, 0, true, Kind::Write),
            ("kworker", jbd, 7, 0, 0, true, Kind::Flush),
            ("fio", app, 2, jbd, 8, true, Kind::Write),
            ("jbd2", jbd, 9, 0, 0, true, Kind::Write),
            ("jbd2", jbd, 10, 0, 0, true, Kind::Write),
            ("kworker", jbd, 11, 0, 0, true, Kind::Flush),
        ];
        assert_eq!(rows(&trace), shipped, "pinning {pinning}\n{}", trace.table());
    }
}

#[test]
fn tables_have_the_artifacts_columns() {
    let (trace, _sim) = run(true, 1, Protocol::OpExt4);
    let table = trace.table();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "Timestamp\tPName\tPID\t[sid1, eid1]\t[sid2, eid2]\tbflag\tqid\toptype");
    let fields: Vec<&str> = lines[1].split('\t').collect();
    assert_eq!(fields[1..6], ["fio", "2736", "[2736, 0]", "[2688, 0]", "1"]);
    assert_eq!(fields[7], "nvme_cmd_write");
    let raw = trace.raw();
    assert!(raw.contains(
        "nvme_setup_cmd: cmd_type:nvme_cmd_write sid1: 2736 eid1: 0 sid2: 2688 eid2: 0 bflag: 1 qid: "
    ));
    assert_eq!(
        raw.lines().count(),
        12,
        "five commands and the end of the stream, set up and completed:\n{raw}"
    );
}

#[test]
fn ext4_flushes_and_writes_its_record_with_fua() {
    let (trace, _sim) = run(true, 1, Protocol::Ext4);
    let kinds: Vec<(&str, Kind, bool)> = trace.entries.iter().map(|e| (e.name, e.kind, e.fua)).collect();
    assert_eq!(
        kinds,
        [
            ("fio", Kind::Write, false),
            ("jbd2", Kind::Write, false),
            ("jbd2", Kind::Write, false),
            ("kworker", Kind::Flush, false),
            ("kworker", Kind::Write, true)
        ]
    );
    assert!(trace.entries.iter().all(|e| e.tags.major.is_none()));
}
