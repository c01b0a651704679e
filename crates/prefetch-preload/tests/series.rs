//! Programs that read numbered files one after another find the next ones in the cache.

mod common;

use std::path::Path;
use std::process::Command;

use prefetch::area::Snapshot;

const FILES: usize = 40;

/// Runs a script under the library in a directory of cold numbered files; its output, and what the library said.
fn run(script: &str) -> (String, Vec<Snapshot>) {
    let directory = common::directory();
    for file in 0..FILES {
        common::cold_file(&directory.path().join(format!("part-{file:03}.bin")), 1);
    }
    let statistics = common::directory();
    let mut command = Command::new("sh");
    command.current_dir(directory.path()).args(["-c", script]).env("LC_ALL", "C");
    command.env("LD_PRELOAD", common::library()).env("LOADLINE_PREFETCH", "auto");
    command.env("LOADLINE_PREFETCH_DIR", statistics.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8_lossy(&output.stdout).into_owned(), snapshots(statistics.path()))
}

fn snapshots(statistics: &Path) -> Vec<Snapshot> {
    let files = std::fs::read_dir(statistics).unwrap().flatten();
    files.filter_map(|f| Snapshot::parse(&std::fs::read(f.path()).ok()?).ok()).collect()
}

#[test]
fn files_read_whole_are_fetched_before_they_are_opened() {
    let (sum, seen) = run("cat part-*.bin | cksum");
    let (alone, _) = run("cat part-*.bin | LD_PRELOAD= cksum");
    assert_eq!(sum, alone);
    let walked = seen.iter().find(|s| s.name == "cat").expect("statistics of cat").walked;
    // The machine's own disk may be faster than the keeper: some are fetched, most of those were opened.
    assert!(walked.0 >= 3 && walked.1 >= 2, "{walked:?}");
}

#[test]
fn the_names_that_come_next_need_not_exist() {
    let (sum, _) = run("rm part-005.bin part-01*.bin; cat part-*.bin | cksum; cat part-*.bin | wc -c");
    assert!(sum.contains(&((FILES - 11) << 20).to_string()), "{sum}");
}
