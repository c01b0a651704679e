//! Logs that fio recorded, as `loadline run` and `loadline check` take them.

mod common;

use std::path::Path;

use common::told;

const LOG: &str = "fio version 3 iolog\n0 /mnt/x/a add\n0 b add\n10 /mnt/x/a open\n10 b open\n\
    20 /mnt/x/a read 0 4096\n100000 b write 8192 512\n100000 b datasync 0 0\n200000 /mnt/x/a read 4096 4096\n";

#[test]
fn a_log_is_replayed_whatever_its_name() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    std::fs::write(place.join("app.txt"), LOG).unwrap();
    let checked = told(place, 0, &["check", "app.txt"]);
    assert!(
        checked.contains(
            "replays 2 read of 8KiB, 1 write of 512B, 1 fdatasync on 2 files of 16.5KiB together, 0.200 s"
        ),
        "{checked}"
    );
    assert!(checked.contains(" of memory and 4KiB of buffers"), "{checked}");
    let files = format!("dir:{}", place.display());
    let ran = told(place, 0, &["run", "app.txt", "--on", &files, "--speed", "2x,max", "-n", "1", "-q"]);
    for part in ["speed=2x", "speed=max", "app-read", "app-fdatasync", "2 of 2 trials done"] {
        assert!(ran.contains(part), "{part}: {ran}");
    }
    std::fs::write(place.join("job.fio"), "[two]\nread_iolog=app.txt\nnumjobs=2\nreplay_no_stall=1\n")
        .unwrap();
    let ran = told(place, 0, &["run", "job.fio", "--on", &files, "-n", "1", "-q"]);
    assert!(ran.contains("two-write"), "{ran}");
    assert!(!Path::new("/mnt/x/a").exists(), "the recorded path is not touched");
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let write = |name: &str, text: &[u8]| std::fs::write(place.join(name), text).unwrap();
    write("app.iolog", LOG.replace("b open", "c open").as_bytes());
    let wrong = told(place, 2, &["run", "app.iolog"]);
    assert!(
        wrong.contains("app.iolog:5: `c` was not added") && wrong.contains("app.iolog:7: `b` is not open"),
        "{wrong}"
    );
    write("job.fio", b"[x]\nread_iolog=lost\n");
    write(
        "bytes.iolog",
        b"fio version 3 iolog\n0 a add\n0 f\xfe add\n0 f\xff add\n0 a open\n0 a read 0 512\n",
    );
    let bytes = told(place, 2, &["check", "bytes.iolog"]);
    assert!(bytes.contains("bytes.iolog:3: ") && bytes.contains("bytes.iolog:4: "), "{bytes}");
    assert!(bytes.contains("not UTF-8"), "{bytes}");
    let lost = told(place, 2, &["check", "job.fio"]);
    assert!(lost.contains("job.fio:2: read_iolog: lost: No such file"), "{lost}");
    write("sda.bin", b"\x07tae\0\0\0\0\xff\xfe");
    let binary = told(place, 2, &["run", "sda.bin"]);
    assert!(binary.contains("blktrace") && binary.contains("blkparse"), "{binary}");
    write("app.iolog", LOG.as_bytes());
    let paced = told(place, 2, &["run", "app.iolog", "--rate", "100"]);
    assert!(paced.contains("--set speed=max"), "{paced}");
    let with = told(place, 2, &["run", "app.iolog", "--with", "fio"]);
    assert!(with.contains("an iolog is not passed on to fio"), "{with}");
    write("work.f", b"define fileset name=a,path=/tmp,entries=1\n");
    let other = told(place, 2, &["run", "work.f", "--speed", "2x"]);
    assert!(other.contains("--speed is for what was recorded"), "{other}");
}

/// What is said of replays is for the sections that replay.
#[test]
fn a_speed_is_for_the_sections_that_replay() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    std::fs::write(place.join("app.iolog"), LOG).unwrap();
    let job = "[global]\nreplay_align=512\n[x]\nread_iolog=app.iolog\n[y]\nrw=read\nsize=64k\n";
    std::fs::write(place.join("job.fio"), job).unwrap();
    let checked = told(place, 0, &["check", "job.fio", "--set", "speed=max"]);
    assert!(checked.contains("as fast as possible") && checked.contains("job y.0: 64KiB"), "{checked}");
    std::fs::write(place.join("none.fio"), job.replace("read_iolog=app.iolog", "size=64k")).unwrap();
    let none = told(place, 2, &["check", "none.fio"]);
    assert!(none.contains("`replay_align` is for jobs that replay a log"), "{none}");
}
