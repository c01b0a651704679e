//! Programs that read numbered files one after another find the next ones in the cache.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

const FILES: usize = 40;
const DIRECTORY: &str = "LOADLINE_TEST_DIRECTORY";

fn prepare(directory: &Path) {
    (0..FILES).for_each(|at| common::cold_file(&file(directory, at), 1));
}

fn file(directory: &Path, at: usize) -> PathBuf {
    directory.join(format!("part-{at:03}.bin"))
}

fn under_the_library(command: &mut Command, statistics: &Path) {
    command.env("LD_PRELOAD", common::library()).env("LOADLINE_PREFETCH", "auto");
    command.env("LOADLINE_PREFETCH_DIR", statistics);
}

/// The output of a script in a directory of cold numbered files, under the library or not.
fn run(script: &str, library: bool) -> String {
    let (directory, statistics) = (common::directory(), common::directory());
    prepare(directory.path());
    let mut command = Command::new("sh");
    command.current_dir(directory.path()).args(["-c", script]).env("LC_ALL", "C");
    if library {
        under_the_library(&mut command, statistics.path());
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(!common::pages(statistics.path()).is_empty(), library, "whether it was watched");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn files_read_whole_are_fetched_before_they_are_opened() {
    let (directory, statistics) = (common::directory(), common::directory());
    prepare(directory.path());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"]);
    under_the_library(command.env(DIRECTORY, directory.path()), statistics.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pages = common::pages(statistics.path());
    let [page] = pages.as_slice() else { panic!("one process, which was watched: {pages:?}") };
    let (fetched, opened) = page.walked;
    assert!(fetched >= 3 && (2..=fetched).contains(&opened), "{fetched} {opened}");
}

/// Reads the files in their order, and waits for the library where it is to be ahead: the machine's own disk may be
/// faster than the library's thread. Run by the test above only.
#[test]
#[ignore = "no test: a part of the other one"]
fn child() {
    let directory = std::env::var_os(DIRECTORY).unwrap();
    let walked = || common::own_page().map_or((0, 0), |page| page.walked);
    for at in 0..FILES {
        assert_eq!(common::read_through(&file(Path::new(&directory), at)), 1 << 20);
        let least = (at as u64).saturating_sub(1).min(3);
        common::until("the next files are fetched", || walked().0 >= least);
    }
    common::until("it is seen that they were opened", || walked().1 >= 2);
}

#[test]
fn what_is_read_is_the_same() {
    let script = "cat part-*.bin | cksum";
    assert_eq!(run(script, true), run(script, false));
}

#[test]
fn the_names_that_come_next_need_not_exist() {
    let script = "rm part-005.bin part-01*.bin; cat part-*.bin | cksum; cat part-*.bin | wc -c";
    let sum = run(script, true);
    assert!(sum.contains(&((FILES - 11) << 20).to_string()), "{sum}");
    assert_eq!(sum, run(script, false));
}
