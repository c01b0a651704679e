//! Real fsyncs on real file systems.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use camino::Utf8Path;
use needs::needs;
use probe::fsync::{Recording, record};
use trace::{Options, Selection, capture};

const FSYNCS: usize = 50;

/// 50 times 4 KiB and fsync, each time at a new place so that there is metadata to write.
fn fsyncs(directory: &Path) -> Recording {
    let file =
        OpenOptions::new().write(true).create(true).truncate(true).open(directory.join("f")).expect("a file");
    let work = || {
        for at in 0..FSYNCS {
            file.write_all_at(&[at as u8; 4096], at as u64 * 4096).expect("a write");
            file.sync_all().expect("an fsync");
        }
    };
    record(directory, work).expect("a recording").0
}

fn on_image(fs_type: &str) {
    on_built_image(fs_type, |directory| check(&fsyncs(directory), fs_type));
}

fn on_built_image(fs_type: &str, then: impl FnOnce(&Path)) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let work_dir = Utf8Path::from_path(directory.path()).expect("a path in UTF-8");
    let journal = journal::Journal::open(&work_dir.join("journal"), "probe-test").expect("a journal");
    let spec = format!("{fs_type}@image:512M").parse().expect("a stack");
    let built = stack::Builder::new(work_dir).build(&spec, &journal).expect("a file system");
    then(built.path().as_std_path());
    built.teardown().expect("teardown");
}

fn check(recording: &Recording, fs_type: &str) {
    assert_eq!(recording.lost, 0);
    assert_eq!(recording.chain.levels[0].fs_type, fs_type);
    let breakdowns = recording.breakdowns();
    assert_eq!(breakdowns.len(), FSYNCS);
    for fsync in breakdowns {
        assert!(fsync.inode.is_some() && fsync.total_ns > 0);
        assert_eq!(fsync.levels.len(), recording.chain.levels.len());
        assert_eq!(fsync.levels[0].parts.total_ns(), fsync.total_ns);
        for pair in fsync.levels.windows(2) {
            let parts = pair[0].parts;
            assert_eq!(pair[1].windows_ns, parts.total_ns() - parts.host_ns - parts.queue_ns);
            assert_eq!(pair[1].parts.total_ns(), pair[1].windows_ns);
        }
        let parts = fsync.parts();
        assert!(parts.data_write_ns > 0, "every fsync had 4 KiB to write: {fsync:?}");
        assert!(parts.flush_ns > 0, "and a cache to flush: {fsync:?}");
        assert!(fsync.levels[0].written_bytes >= 4096);
    }
    // A new block each time: the journal takes part in every one.
    let with_commit = breakdowns.iter().filter(|fsync| fsync.parts().fua_ns > 0).count();
    assert_eq!(with_commit, FSYNCS, "commits with FUA or a flush instead");
    // The image's own file system: each flush of the loop device is a sync of the image.
    if recording.chain.levels.len() > 1 {
        let flushes: u64 = breakdowns.iter().map(|fsync| fsync.levels[0].flushes).sum();
        let syncs: u64 = breakdowns.iter().map(|fsync| fsync.levels[1].syncs).sum();
        assert!(syncs >= flushes / 2, "{syncs} syncs for {flushes} flushes");
    }
}

#[test]
fn ext4_image() {
    needs!(Root, Tracing, Mounts, Loop, Ext4);
    on_image("ext4");
}

#[test]
fn xfs_image() {
    needs!(Root, Tracing, Mounts, Loop, Xfs);
    on_image("xfs");
}

/// Four threads share commits: every fsync is explained once, and its device time is not longer than itself.
fn by_four_threads(directory: &Path) {
    let work = |name: &str| {
        let path = directory.join(name);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path).expect("a file");
        for at in 0..FSYNCS as u64 {
            file.write_all_at(&[1; 4096], at * 4096).expect("a write");
            file.sync_all().expect("an fsync");
        }
    };
    let all = || {
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d"] {
                scope.spawn(move || work(name));
            }
        });
    };
    let recording = record(directory, all).expect("a recording").0;
    assert_eq!((recording.lost, recording.breakdowns().len()), (0, 4 * FSYNCS));
    for fsync in recording.breakdowns() {
        assert_eq!(fsync.parts().total_ns(), fsync.total_ns);
        assert!(fsync.parts().host_ns < fsync.total_ns, "all waited for a device: {fsync:?}");
    }
    let pids: std::collections::BTreeSet<i32> =
        recording.breakdowns().iter().map(|fsync| fsync.pid).collect();
    assert_eq!(pids.len(), 4);
}

#[test]
fn ext4_image_shared_by_threads() {
    needs!(Root, Tracing, Mounts, Loop, Ext4);
    on_built_image("ext4", by_four_threads);
}

#[test]
fn btrfs_image_shared_by_threads() {
    needs!(Root, Tracing, Mounts, Loop, Btrfs);
    on_built_image("btrfs", by_four_threads);
}

#[test]
fn btrfs_image() {
    needs!(Root, Tracing, Mounts, Loop, Btrfs);
    on_image("btrfs");
}

/// Of a storm of events more are lost than kept, in the kernel's buffers or after them; the count is exact.
#[test]
fn lost_events_are_counted() {
    needs!(Root, Tracing);
    let filter = Some(format!("common_pid == {}", rustix::thread::gettid().as_raw_nonzero()));
    let event = Selection { system: "syscalls", name: "sys_enter_getppid", filter, required: true };
    let options =
        Options { events: vec![event], buffer_kib_per_cpu: 8, bytes_max: 1 << 16, end_when_full: false };
    let calls = 200_000;
    let work = || (0..calls).for_each(|_| _ = std::hint::black_box(std::os::unix::process::parent_id()));
    let (captured, ()) = capture(&options, work).expect("a capture");
    assert!(captured.lost > calls / 2 && !captured.events.is_empty(), "{} lost", captured.lost);
    assert_eq!(captured.events.len() as u64 + captured.lost, calls);
    assert!(captured.events.is_sorted_by_key(|event| event.at_ns));
}

#[test]
fn what_is_missing_is_named() {
    needs!(Root, Tracing);
    let select = |required| Selection { system: "block", name: "no_such_event", filter: None, required };
    let (captured, value) = capture(&Options::new(vec![select(false)]), || 7).expect("a capture");
    assert_eq!(
        (captured.missing, captured.events.len(), value),
        (vec!["block/no_such_event".to_string()], 0, 7)
    );
    let error = capture(&Options::new(vec![select(true)]), || 7).expect_err("an error");
    assert!(error.to_string().contains("block/no_such_event"), "{error}");
    let bad = Selection { name: "block_rq_issue", filter: Some("dev ==".into()), ..select(true) };
    let error = capture(&Options::new(vec![bad]), || 7).expect_err("an error");
    assert!(error.to_string().contains("dev =="), "{error}");
}

#[test]
fn a_panic_in_the_work_ends_tracing() {
    needs!(Root, Tracing);
    let events =
        vec![Selection { system: "syscalls", name: "sys_enter_fsync", filter: None, required: false }];
    let result = std::panic::catch_unwind(|| capture(&Options::new(events), || panic!("as asked for")));
    assert!(result.is_err());
}
