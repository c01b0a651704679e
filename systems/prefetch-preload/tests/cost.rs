//! The library rests where it costs more than it gives, says so, and loses no account of descriptors meanwhile. The
//! cost is injected, which debug builds can do; this program runs again under LD_PRELOAD.
#![cfg(debug_assertions)]

mod common;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use prefetch_os::area::Snapshot;

const FILE: &str = "LOADLINE_TEST_FILE";

/// Runs the child with each sampled call said to cost so much; the page of its process.
fn play(dear_ns: &str) -> Snapshot {
    let directory = common::directory();
    let file = directory.path().join("data");
    common::cold_file(&file, 16);
    let statistics = common::directory();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(FILE, &file).env("LD_PRELOAD", common::library());
    command.env("LOADLINE_PREFETCH", "predict").env("LOADLINE_PREFETCH_DIR", statistics.path());
    command.env("LOADLINE_PREFETCH_DEAR", dear_ns);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let files = std::fs::read_dir(statistics.path()).unwrap().flatten();
    let mut pages = files.filter_map(|f| Snapshot::parse(&std::fs::read(f.path()).ok()?).ok());
    pages.next().expect("statistics")
}

/// Reads cold pages in no order: nothing that the library could do would help.
#[test]
#[ignore = "no test: a part of the others"]
fn child() {
    let path = std::env::var_os(FILE).unwrap();
    let path = Path::new(&path);
    let mut seed = 1u64;
    let mut word = [0; 8];
    for round in 0..15 {
        // A new description each time, mostly of the same number: what was closed must be noticed in a rest too.
        let file = File::open(path).unwrap();
        for _ in 0..400 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 33) % (16 << 20) / 4096 * 4096;
            file.read_exact_at(&mut word, at).unwrap();
            assert_eq!(u64::from_le_bytes(word), at, "round {round}");
            // SAFETY: no pointers.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), at as i64, 4096, libc::POSIX_FADV_DONTNEED) };
        }
    }
}

#[test]
fn it_rests_when_it_costs_more_than_it_gives() {
    let page = play("1000000");
    // Whether it still rests at the end depends on how long the rest of the reads takes.
    assert!(page.off.0 >= 1, "{:?} {} ns", page.off, page.hook_ns);
}

#[test]
fn it_goes_on_when_it_costs_little() {
    let page = play("1");
    assert_eq!(page.off, (0, false), "{} ns", page.hook_ns);
}
