//! Streams of transfers as a whole: budgets, intervals, warm-up, read-back, failures.

use engine::{Control, RunOptions};
use stats::Ended;
use stats::outcome::{OpOutcome, Outcome};

/// Runs a job file below a directory of its own.
fn job(text: &str, options: &RunOptions) -> Outcome {
    let workload = fiojob::load(text, "job", &[]).unwrap_or_else(|error| panic!("{error}")).workload;
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    engine::run(&workload, directory.path(), options, &Control::new(), &mut |_| {}).expect("the run")
}

fn done(text: &str) -> Outcome {
    let outcome = job(text, &RunOptions::default());
    assert!(!matches!(outcome.ended, Ended::Failed { .. }), "{text}: {:?}", outcome.ended);
    outcome
}

fn op<'o>(outcome: &'o Outcome, name: &str) -> &'o OpOutcome {
    outcome.ops.iter().find(|op| op.name == name).unwrap_or_else(|| panic!("no {name} in {outcome:#?}"))
}

fn ops(outcome: &Outcome, name: &str) -> u64 {
    op(outcome, name).ops
}

/// Bytes of all files below a directory.
fn length(directory: &std::path::Path) -> u64 {
    let entries =
        std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    entries
        .map(|path| if path.is_dir() { length(&path) } else { path.metadata().expect("a file").len() })
        .sum()
}

/// The kernel refuses the flag when transfers are handed over: the run ends with its message.
#[test]
fn a_refused_submission_ends_the_run() {
    // tmpfs knows no atomic writes
    let text = "[x]\nrw=write\nbs=4k\nsize=64k\nioengine=libaio\niodepth=4\ndirect=1\natomic=1\n";
    let outcome = job(text, &RunOptions::default());
    let Ended::Failed { message } = &outcome.ended else { panic!("{:?}", outcome.ended) };
    assert!(message.contains("atomic") || message.contains("direct"), "{message}");
}

/// A time-based stream comes to blocks again that it has not read back.
#[test]
fn a_block_written_twice_in_a_pass_is_expected_to_hold_the_later_write() {
    let wraps = "[x]\nrw=randwrite\nbs=12k\nsize=1m\nioengine=libaio\nverify=crc32c\ntime_based\nruntime=1\n";
    assert!(ops(&done(wraps), "x-verify") > 0);
    let deep = wraps.replace("ioengine=libaio", "ioengine=libaio\niodepth=16");
    assert!(ops(&done(&deep), "x-verify") > 0);
    let backlog =
        "[x]\nrw=randwrite\nbs=4k\nsize=1m\nverify=crc32c\nverify_backlog=100\ntime_based\nruntime=1\n";
    assert!(ops(&done(backlog), "x-verify") > 0);
}

/// fio's `io_size` is of the whole job: what `ramp_time` has moved is gone from it (fio 3.33: 1,024 transfers of `io_size=4m` are
/// 401 in the ramp and 623 after it). Its `number_ios` begins anew when the ramp is over.
#[test]
fn the_ramp_eats_of_the_size_and_not_of_the_number_of_transfers_as_in_fio() {
    let text = "[x]\nrw=write\nbs=4k\nsize=64m\nfallocate=none\nrate_iops=2000\nramp_time=1\n";
    let run = |more: &str| {
        let workload = fiojob::load(&format!("{text}{more}\n"), "job", &[]).unwrap().workload;
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let options = RunOptions::default();
        let outcome = engine::run(&workload, directory.path(), &options, &Control::new(), &mut |_| {})
            .expect("the run");
        // the file is as long as what was written in all
        (length(directory.path()) >> 12, ops(&outcome, "x-write"))
    };
    let (all, measured) = run("io_size=12m");
    assert_eq!(all, 3072);
    assert!((1..3072).contains(&measured), "{measured}");
    let (all, measured) = run("number_ios=3072");
    assert_eq!(measured, 3072);
    assert!(all > 3072, "{all}");
}

/// A warm-up that is told is the job's own, also where its `ramp_time` is longer.
#[test]
fn a_shorter_warm_up_ends_the_ramp() {
    let text = "[x]\nrw=read\nbs=4k\nsize=1m\nio_size=64m\nrate_iops=1000\nramp_time=2\nnumber_ios=500\n";
    let options = RunOptions { warmup_seconds: Some(0.2), ..RunOptions::default() };
    let outcome = job(text, &options);
    assert_eq!((outcome.io_ops(), &outcome.ended), (500, &Ended::Done));
}

/// The number of operations of a run is that of the measured interval, however deep the queue is.
#[test]
fn a_set_number_of_operations_is_not_spent_in_the_warm_up() {
    let options = RunOptions { ops: Some(5000), warmup_seconds: Some(0.2), ..RunOptions::default() };
    for queue in ["ioengine=psync", "ioengine=libaio\niodepth=16", "ioengine=libaio\niodepth=16\nfsync=3"] {
        let text = format!("[x]\nrw=write\nbs=4k\nsize=1m\ntime_based\nruntime=60\n{queue}\n");
        let outcome = job(&text, &options);
        assert_eq!((outcome.io_ops(), &outcome.ended), (5000, &Ended::OpsReached), "{queue}");
    }
    // fewer than the queue is deep
    let few = RunOptions { ops: Some(3), ..options };
    let deep = "[x]\nrw=read\nbs=4k\nsize=1m\ntime_based\nruntime=60\nioengine=libaio\niodepth=16\n";
    assert_eq!(job(deep, &few).io_ops(), 3);
}

/// Jobs that begin later, or end earlier, than others have rates of their own: as in fio, 1,000 a second each.
#[test]
fn a_rate_is_of_the_jobs_own_interval() {
    let text = "[global]\nrw=read\nbs=4k\nsize=1m\ntime_based\nrate_iops=1000\n\
                [late]\nstartdelay=2\nruntime=1\n[full]\nstartdelay=1\nruntime=2\n[short]\nstartdelay=1\nruntime=1\n";
    let outcome = done(text);
    for (name, seconds) in [("late-read", 1.0), ("full-read", 2.0), ("short-read", 1.0)] {
        let op = op(&outcome, name);
        let own = outcome.op_seconds(op);
        assert!(own >= seconds, "{name}: {own} s");
        // a job has no operation before its begin or behind its end: dividing by all of the interval would say less
        let metric = outcome.metrics.iter().find(|metric| metric.name == format!("{name}/seconds"));
        assert_eq!(metric.map(|metric| metric.value), Some(own), "{name}");
    }
    let seconds = |name: &str| outcome.op_seconds(op(&outcome, name));
    assert!(seconds("short-read") < seconds("full-read") && seconds("late-read") < seconds("full-read"));
    // all wait a second at least: that is no part of the load
    assert_eq!(outcome.warmup_seconds, 0.0);
    let first = op(&outcome, "full-read").ops_per_second[0];
    assert!(first > 0, "the measured interval begins with the first job");
    // sections of one name are one kind of operation: from the begin of the first to the end of the last
    let twice = done(
        "[global]\nrw=read\nbs=4k\nsize=1m\ntime_based\nruntime=1\nrate_iops=500\n\
         [a]\n[a]\nstartdelay=1\n[b]\n",
    );
    let own = twice.op_seconds(op(&twice, "a-read"));
    assert!(own >= 2.0, "{own} s");
    let alone = done("[x]\nrw=read\nbs=4k\nsize=1m\nnumjobs=2\n");
    assert!(
        !alone.metrics.iter().any(|metric| metric.name.ends_with("/seconds")),
        "one job has one interval"
    );
    // beside a container that does read back, this one's interval counts as well
    let unread = done("[x]\nrw=write\nbs=4k\nsize=1m\nverify=md5\ntime_based\nruntime=1\n");
    let metric = unread.metrics.iter().find(|metric| metric.name == "x-write/seconds");
    assert!(metric.is_some_and(|metric| metric.value >= 1.0), "{:?}", unread.metrics);
}

/// What reads blocks back does not write meanwhile: each has the time of its own part, and both together the whole.
#[test]
fn writing_and_reading_back_have_rates_of_their_own() {
    let text = "[x]\nrw=randwrite\nbs=4k\nsize=1m\nfsync=16\nverify=crc32c\nrate_iops=500\n";
    for more in ["", "verify_backlog=32\n", "ioengine=libaio\niodepth=8\nverify_backlog=32\n"] {
        let outcome = done(&format!("{text}{more}"));
        let seconds = |name: &str| outcome.op_seconds(op(&outcome, name));
        let [write, sync, verify] = ["x-write", "x-fsync", "x-verify"].map(seconds);
        assert_eq!(ops(&outcome, "x-write"), 256, "{more}");
        // the rate is that of the writes
        assert!(write >= 0.4 && verify > 0.0, "{more}: {write} s, {verify} s");
        assert_eq!(write, sync, "{more}");
        assert!(
            (write + verify - outcome.measured_seconds).abs() < 1e-6,
            "{more}: {write} + {verify}: {outcome:#?}"
        );
    }
    // a stream that reads too does so all the time
    let mixed = done("[x]\nrw=randrw\nbs=4k\nsize=1m\nverify=crc32c\n");
    let seconds = |name: &str| mixed.op_seconds(op(&mixed, name));
    assert!(seconds("x-write") < seconds("x-read"), "{mixed:#?}");
    assert_eq!(seconds("x-read"), mixed.measured_seconds);
}
