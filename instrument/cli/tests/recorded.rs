//! Recordings of programs, as `loadline run` and `loadline check` take them.

mod common;

use std::path::Path;

use common::told;
use recording::format::FileKind;
use recording::{Call, Header, Item, Operation, Summary, Writer};

const NOTHING: Operation = Operation::blank(Call::Stat, 0);

/// Two threads: one writes a log and renames it, the other one reads a file that was there, and what was renamed.
fn recorded() -> Vec<u8> {
    let header = Header { command: vec!["app".into(), "-x".into()], ..Header::default() };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for tid in [7, 8] {
        writer.push(&Item::Thread { tid, pid: 7, name: "app".into() }).unwrap();
    }
    for (path, kind) in [
        ("/srv/data/old", FileKind::File(100_000)),
        ("/srv/data/log.tmp", FileKind::Absent),
        ("/srv/data/log", FileKind::Absent),
    ] {
        writer.push(&Item::Path(path.into())).unwrap();
        let number =
            ["/srv/data/old", "/srv/data/log.tmp", "/srv/data/log"].iter().position(|one| *one == path);
        writer.push(&Item::Found { path: number.unwrap() as u32, kind }).unwrap();
    }
    let new = (libc::O_CREAT | libc::O_WRONLY) as u32;
    let operations = [
        Operation { thread: 1, call: Call::Open, path: Some(0), handle: Some(0), result: 5, ..NOTHING },
        Operation { call: Call::Open, path: Some(1), handle: Some(1), result: 4, flags: new, ..NOTHING },
        Operation { call: Call::Write, handle: Some(1), bytes: 5000, result: 5000, ..NOTHING },
        Operation { call: Call::Fdatasync, handle: Some(1), ..NOTHING },
        Operation { thread: 1, call: Call::Read, handle: Some(0), bytes: 65_536, result: 65_536, ..NOTHING },
        Operation { call: Call::Rename, path: Some(1), to: Some(2), ..NOTHING },
        Operation { thread: 1, call: Call::Open, path: Some(2), handle: Some(2), result: 6, ..NOTHING },
        Operation { thread: 1, call: Call::Read, handle: Some(2), bytes: 9000, result: 5000, ..NOTHING },
        Operation { thread: 1, path: Some(1), result: -i64::from(libc::ENOENT), ..NOTHING },
    ];
    for (at, operation) in operations.into_iter().enumerate() {
        let operation = Operation { begin_ns: at as u64 * 20_000_000, ..operation };
        writer.push(&Item::Operation(operation)).unwrap();
    }
    writer.finish(Summary { length_ns: 200_000_000, lost: 3, ..Summary::default() }).unwrap()
}

#[test]
fn a_recording_is_replayed_whatever_its_name() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    std::fs::write(place.join("app.txt"), recorded()).unwrap();
    let checked = told(place, 0, &["check", "app.txt"]);
    for part in [
        "app.txt: ok",
        "a recording of app -x",
        "0.200 s, 2 threads of 1 processes, 9 operations, 1 of which failed",
        "2 read of 68.9KiB",
        "1 fdatasync",
        "1 files of 97.7KiB together",
        "3 calls are missing",
    ] {
        assert!(checked.contains(part), "{part}: {checked}");
    }
    let files = format!("dir:{}", place.display());
    let ran = told(place, 0, &["run", "app.txt", "--on", &files, "--speed", "2x,max", "-n", "1", "-q"]);
    for part in ["speed=2x", "speed=max", "read", "fdatasync", "2 of 2 trials done", "3 calls are missing"] {
        assert!(ran.contains(part), "{part}: {ran}");
    }
    assert!(!ran.contains("otherwise than recorded"), "{ran}");
    assert!(!Path::new("/srv/data/log").exists(), "the recorded path is not touched");
}

/// The same on a file system of its own.
#[test]
fn a_recording_is_replayed_in_memory() {
    needs::needs!(Root, Mounts);
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    std::fs::write(place.join("app.trace"), recorded()).unwrap();
    let ran = told(place, 0, &["run", "app.trace", "--on", "tmpfs", "-n", "2", "-q"]);
    assert!(ran.contains("2 of 2 trials done") && !ran.contains("otherwise than recorded"), "{ran}");
}

#[test]
fn what_is_wrong_is_told() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let whole = recorded();
    let cut = whole.len() - 5;
    std::fs::write(place.join("cut.trace"), &whole[..cut]).unwrap();
    for command in ["check", "run"] {
        let told = told(place, 2, &[command, "cut.trace"]);
        assert!(told.contains(&format!("the recording was cut at byte {cut}")), "{told}");
    }
    std::fs::write(place.join("app.trace"), &whole).unwrap();
    let slow = told(place, 2, &["run", "app.trace", "--speed", "slow"]);
    assert!(slow.contains("write 2x, 0.5x, or max"), "{slow}");
    let crowd = told(place, 2, &["run", "app.trace", "--on", "ext4", "--containers", "2"]);
    assert!(crowd.contains("`recorded` does not run in containers"), "{crowd}");
    let guest = told(place, 2, &["run", "app.trace", "--on", "ext4@nvme+kernel:debian-6.12"]);
    assert!(guest.contains("reads a file of this machine"), "{guest}");
    let no_trace = told(place, 2, &["run", "recorded"]);
    assert!(no_trace.contains("recorded needs a recording"), "{no_trace}");
}
