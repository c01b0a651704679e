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
