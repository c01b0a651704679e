//! Replayed logs as a whole: what is done is what the log says, when it says it.

use engine::{Control, RunOptions};
use stats::outcome::{OpOutcome, Outcome};
use stats::{Ended, metric::names};

/// Replays a log below a directory of its own.
fn replay(log: &str, set: &[(&str, &str)], options: &RunOptions) -> (Outcome, tempfile::TempDir) {
    let set: Vec<_> = set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let workload = fiojob::load(log, "app", &set).unwrap_or_else(|error| panic!("{error}")).workload;
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let outcome =
        engine::run(&workload, directory.path(), options, &Control::new(), &mut |_| {}).expect("the run");
    assert!(!matches!(outcome.ended, Ended::Failed { .. }), "{:?}", outcome.ended);
    (outcome, directory)
}

fn op<'o>(outcome: &'o Outcome, name: &str) -> &'o OpOutcome {
    outcome.ops.iter().find(|op| op.name == name).unwrap_or_else(|| panic!("no {name} in {outcome:#?}"))
}

/// A log of so many reads and writes, a millisecond apart, of two files that are closed and opened again.
fn log(operations: u64) -> String {
    let mut text = String::from("fio version 3 iolog\n0 /mnt/a add\n0 b add\n0 /mnt/a open\n0 b open\n");
    for number in 0..operations {
        let time = number * 1000;
        text += &match number % 4 {
            0 => format!("{time} /mnt/a read {} 4096\n", number * 512),
            1 => format!("{time} b write {} 8192\n", number * 4096),
            2 => format!("{time} b datasync 0 0\n"),
            _ => format!("{time} /mnt/a close\n{time} /mnt/a open\n{time} /mnt/a sync 0 0\n"),
        };
    }
    text
}

#[test]
fn operations_and_bytes_are_those_of_the_log() {
    for engine in ["psync", "libaio", "io_uring", "mmap"] {
        if engine == "io_uring"
            && std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").is_ok_and(|x| x.trim() != "0")
        {
            continue;
        }
        let set = [("speed", "max"), ("ioengine", engine), ("iodepth", "4")];
        let (outcome, directory) = replay(&log(400), &set, &RunOptions::default());
        let sums = |name: &str| (op(&outcome, name).ops, op(&outcome, name).bytes);
        assert_eq!(sums("app-read"), (100, 409_600), "{engine}");
        assert_eq!(sums("app-write"), (100, 819_200), "{engine}");
        assert_eq!((sums("app-fdatasync"), sums("app-fsync")), ((100, 0), (100, 0)), "{engine}");
        assert_eq!(outcome.ended, Ended::Done, "{engine}");
        assert!(op(&outcome, "app-read").intended.is_none(), "{engine}: nothing was due");
        // names of the log lie below the directory
        assert!(directory.path().join("mnt/a").exists() && directory.path().join("b").exists());
    }
}

#[test]
fn each_operation_is_due_when_the_log_says() {
    let (outcome, _directory) = replay(&log(300), &[], &RunOptions::default());
    assert!(outcome.measured_seconds >= 0.299, "{}", outcome.measured_seconds);
    let intended = op(&outcome, "app-write").intended.as_ref().expect("writes were due");
    assert_eq!(intended.count(), 75);
    for (name, _) in names::DUE_TIME_LATENESS {
        assert!(outcome.metrics.iter().any(|metric| metric.name == name), "{name}");
    }
    let (twice, _directory) = replay(&log(300), &[("speed", "0.5x")], &RunOptions::default());
    assert!(twice.measured_seconds >= 0.598, "{}", twice.measured_seconds);
}

#[test]
fn waits_of_version_2_are_waited() {
    let log = "fio version 2 iolog\na add\na open\na read 0 512\na wait 150000 0\na read 0 512\na read 512 512\na wait 150000 0\n";
    let (outcome, _directory) = replay(log, &[], &RunOptions::default());
    assert!(outcome.measured_seconds >= 0.3, "{}", outcome.measured_seconds);
    // what follows no wait was wanted with what is before it
    assert_eq!(op(&outcome, "app-read").intended.as_ref().map(|intended| intended.count()), Some(3));
    let (outcome, _directory) = replay(log, &[("replay_no_stall", "1")], &RunOptions::default());
    assert!(op(&outcome, "app-read").intended.is_none() && outcome.ended == Ended::Done);
}

/// All operations of a paced replay have an intended start, so that its measure is the latency from there: what has no time of its
/// own is wanted with what is before it, and waits for it.
#[test]
fn what_follows_a_timed_record_has_its_intended_start() {
    let mut log = String::from("fio version 2 iolog\na add\na open\na read 0 512\n");
    for number in 0..5 {
        log += "a wait 20000 0\na close\na open\n";
        log += &format!("a write {} 1048576\na datasync 0 0\n", number << 20);
    }
    for engine in ["psync", "libaio"] {
        let set = [("ioengine", engine), ("iodepth", "4")];
        let (outcome, _directory) = replay(&log, &set, &RunOptions::default());
        let intended = |name: &str| op(&outcome, name).intended.as_ref().expect(name);
        let counts = ["app-read", "app-write", "app-fdatasync"].map(|name| intended(name).count());
        assert_eq!(counts, [1, 5, 5], "{engine}");
        // a sync behind a write has waited for it; it took less than the 20 ms to the next one
        assert!(intended("app-fdatasync").max() >= intended("app-write").min(), "{engine}");
    }
    let (outcome, _directory) = replay(&log, &[("speed", "max")], &RunOptions::default());
    assert!(outcome.ops.iter().all(|op| op.intended.is_none()));
}

/// Nothing is made of files that the target cannot hold.
#[test]
fn files_that_do_not_fit_are_not_begun() {
    let log = format!("fio version 3 iolog\n0 a add\n0 a open\n0 a read {} 4096\n", 1_u64 << 60);
    let workload = fiojob::load(&log, "app", &[]).unwrap().workload;
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let control = Control::new();
    let told = engine::run(&workload, directory.path(), &RunOptions::default(), &control, &mut |_| {});
    let told = told.expect_err("it does not fit").to_string();
    assert!(told.contains("take 1024.0PiB") && told.contains("replay_scale=NUMBER"), "{told}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    replay(&log, &[("replay_scale", "1099511627776")], &RunOptions::default());
}

/// A length that is told repeats the log or cuts it; loops repeat it.
#[test]
fn a_log_is_repeated_until_the_time_is_up() {
    let options = RunOptions { seconds: Some(1.0), ..RunOptions::default() };
    let (outcome, _directory) = replay(&log(100), &[], &options);
    let reads = op(&outcome, "app-read").ops;
    // 25 in each pass of 0.1 s, of which at most eleven begin; a machine that stands still does fewer
    assert!((26..=275).contains(&reads), "{reads}");
    let options = RunOptions { seconds: Some(0.1), ..RunOptions::default() };
    assert!(op(&replay(&log(100_000), &[], &options).0, "app-read").ops < 1000);
    let thrice = [("speed", "max"), ("loops", "3")];
    assert_eq!(op(&replay(&log(100), &thrice, &RunOptions::default()).0, "app-read").ops, 75);
    let options = RunOptions { ops: Some(30), ..RunOptions::default() };
    assert_eq!(replay(&log(100), &[("speed", "max")], &options).0.io_ops(), 30);
}

#[test]
fn a_trim_of_a_file_is_a_hole() {
    let log = "fio version 3 iolog\n0 a add\n0 a open\n0 a read 0 4096\n0 a trim 4096 65536\n0 a write 131072 4096\n";
    let (outcome, directory) = replay(log, &[], &RunOptions::default());
    assert_eq!((op(&outcome, "app-trim").ops, op(&outcome, "app-trim").bytes), (1, 65536));
    fn file(path: &std::path::Path) -> std::path::PathBuf {
        match std::fs::read_dir(path) {
            Ok(mut entries) => file(&entries.next().expect("an entry").expect("an entry").path()),
            Err(_) => path.to_path_buf(),
        }
    }
    let data = std::fs::read(file(directory.path())).expect("the file");
    assert!(data[4096..69632].iter().all(|byte| *byte == 0) && data[..4096].iter().any(|byte| *byte != 0));
}

/// Sizes of buffers and places of files are told apart from the records.
#[test]
fn a_record_that_does_not_fit_ends_the_run() {
    let workload = fiojob::load(&log(8), "app", &[("speed".into(), "max".into())]).unwrap().workload;
    let damages: [fn(&mut workload::Stream); 2] = [
        |stream| {
            stream.sizes =
                [workload::stream::TransferSizes::One(512), workload::stream::TransferSizes::One(512)]
        },
        |stream| stream.files.truncate(1),
    ];
    for damage in damages {
        let mut damaged = workload.clone();
        damage(damaged.processes[0].threads[0].stream.as_mut().expect("a stream"));
        let directory = tempfile::tempdir().unwrap();
        let outcome =
            engine::run(&damaged, directory.path(), &RunOptions::default(), &Control::new(), &mut |_| {});
        let Ok(Outcome { ended: Ended::Failed { message }, .. }) = outcome else { panic!("{outcome:?}") };
        assert!(message.contains("the trace is damaged"), "{message}");
    }
}
