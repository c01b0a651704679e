//! Programs that go through a directory in its own order find the next files in the cache.

mod common;

use std::process::Command;

use prefetch::area::Snapshot;

/// Names without numbers, which `series` would follow.
const NAMES: [&str; 24] = [
    "ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay", "kite", "lark", "mole", "newt",
    "owl", "pig", "quail", "rat", "swan", "toad", "urchin", "vole", "wasp", "yak",
];

/// Reads cold files in the order that a command lists; files fetched ahead and how many of them were opened.
fn cat(list: &str) -> (u64, u64) {
    let directory = common::directory();
    for name in NAMES {
        common::cold_file(&directory.path().join(name), 1);
    }
    let statistics = common::directory();
    let mut command = Command::new("sh");
    command.current_dir(directory.path()).args(["-c", &format!("exec cat $({list}) >/dev/null")]);
    command.env("LD_PRELOAD", common::library()).env("LOADLINE_PREFETCH", "auto");
    command.env("LOADLINE_PREFETCH_DIR", statistics.path());
    assert!(command.status().unwrap().success(), "{list}");
    let files = std::fs::read_dir(statistics.path()).unwrap().flatten();
    let mut seen = files.filter_map(|f| Snapshot::parse(&std::fs::read(f.path()).ok()?).ok());
    seen.find(|s| s.name == "cat").expect("statistics of cat").walked
}

#[test]
fn the_order_of_the_directory_is_followed() {
    let (fetched, opened) = cat("ls -U");
    assert!(fetched >= 3 && opened >= 2, "{fetched} {opened}");
}

#[test]
fn a_file_that_is_opened_again_and_again_is_no_directory() {
    assert_eq!(cat("ls -U | head -n 1 | sed p | sed p | sed p | sed p | sed p | sed p"), (0, 0));
}
