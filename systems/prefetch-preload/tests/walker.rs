//! Programs that go through a directory in its own order find the next files in the cache. The program is this one, run
//! again under LD_PRELOAD, so that it can wait for the library: whose disk is faster is not the question.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use prefetch::walk::CONFIRM;

const DIRECTORY: &str = "LOADLINE_TEST_DIRECTORY";
const PART: &str = "LOADLINE_TEST_PART";

/// Names without numbers, which `series` would follow.
const NAMES: [&str; 24] = [
    "ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay", "kite", "lark", "mole", "newt",
    "owl", "pig", "quail", "rat", "swan", "toad", "urchin", "vole", "wasp", "yak",
];

/// Plays a part on cold files; files fetched ahead and how many of them were opened.
fn play(part: &str) -> (u64, u64) {
    let directory = common::directory();
    for name in NAMES {
        common::cold_file(&directory.path().join(name), 1);
    }
    let statistics = common::directory();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(PART, part).env(DIRECTORY, directory.path());
    command.env("LD_PRELOAD", common::library()).env("LOADLINE_PREFETCH", "auto");
    command.env("LOADLINE_PREFETCH_DIR", statistics.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pages = common::pages(statistics.path());
    assert_eq!(pages.len(), 1, "one process, which was watched");
    pages[0].walked
}

fn walked() -> (u64, u64) {
    common::own_page().map_or((0, 0), |page| page.walked)
}

fn read(path: &Path) {
    assert_eq!(common::read_through(path), 1 << 20);
}

/// Plays the part that the environment names: run by the tests below only.
#[test]
#[ignore = "no test: a part of the others"]
fn child() {
    let directory = std::env::var_os(DIRECTORY).unwrap();
    // As `ls -U` lists them.
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    if std::env::var(PART).unwrap() == "again" {
        return (0..200).for_each(|_| read(&files[0]));
    }
    let (first, rest) = files.split_at(CONFIRM as usize);
    first.iter().for_each(|file| read(file));
    common::until("files are fetched ahead", || walked().0 >= 3);
    rest.iter().for_each(|file| read(file));
    common::until("it is seen that they were opened", || walked().1 >= 2);
}

#[test]
fn the_order_of_the_directory_is_followed() {
    let (fetched, opened) = play("through");
    assert!(fetched >= 3 && (2..=fetched).contains(&opened), "{fetched} {opened}");
}

#[test]
fn a_file_that_is_opened_again_and_again_is_no_directory() {
    assert_eq!(play("again"), (0, 0));
}
