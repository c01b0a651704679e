//! Programs that go through a directory in its own order find the next files in the cache. The program is this one, run
//! again under LD_PRELOAD, so that it can wait for the library: whose disk is faster is not the question.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

const DIRECTORY: &str = "LOADLINE_TEST_DIRECTORY";
/// Files in the order of the directory before the next ones are fetched.
const CONFIRM: usize = 3;
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
    play_in(part, directory.path())
}

fn play_in(part: &str, directory: &Path) -> (u64, u64) {
    let statistics = common::directory();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(PART, part).env(DIRECTORY, directory);
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
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    let (first, rest) = files.split_at(CONFIRM);
    match std::env::var(PART).unwrap().as_str() {
        "again" => return (0..200).for_each(|_| read(&files[0])),
        "first" => return first.iter().for_each(|file| read(file)),
        _ => {}
    }
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

/// Entries that are no files, after three that are: with names of 250 bytes some 30 to a piece of the directory, of which 64 are
/// looked through.
const OTHERS: usize = 3000;

/// The program waits in its own `open` while its directory is looked through for the file that comes next.
#[test]
fn a_directory_is_not_read_through_for_the_next_file() {
    let (order, directory) = (common::directory(), common::directory());
    let link = |path: PathBuf| std::os::unix::fs::symlink("nowhere", path).unwrap();
    let letters = |at: usize| (0..4).map(move |digit| char::from(b'a' + (at >> (4 * digit) & 15) as u8));
    (0..OTHERS).for_each(|at| {
        link(order.path().join(letters(at).chain("x".repeat(246).chars()).collect::<String>()))
    });
    let names: Vec<_> =
        std::fs::read_dir(order.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    // Made in the order in which they are listed: the files are at both ends, whatever the file system goes by.
    for (at, name) in names.iter().enumerate() {
        let path = directory.path().join(name);
        match (CONFIRM..OTHERS - CONFIRM).contains(&at) {
            true => link(path),
            false => common::cold_file(&path, 1),
        }
    }
    assert_eq!(play_in("first", directory.path()), (0, 0), "a file behind {OTHERS} others was looked for");
    // Without the others it would be fetched.
    let others = names.iter().skip(CONFIRM).take(OTHERS - 2 * CONFIRM);
    others.for_each(|name| std::fs::remove_file(directory.path().join(name)).unwrap());
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        common::drop_cache(&entry.unwrap().path());
    }
    assert!(play_in("first", directory.path()).0 > 0, "nothing was fetched: this shows nothing");
}
