//! `loadline reproduce betrfs`: what it refuses, and one real trial where the machine allows it.

use std::path::Path;
use std::process::{Command, Output};

fn loadline(home: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadline"))
        .arg("--home")
        .arg(home)
        .args(["reproduce", "betrfs"])
        .args(words)
        .output()
        .unwrap()
}

#[test]
fn what_is_not_known_is_named_with_what_is() {
    let home = tempfile::tempdir().unwrap();
    for (words, code, told) in [
        (&["--rows", "ntfs"][..], 2, "rows are all, ext4"),
        (&["--columns", "nothing"], 2, "tokubench"),
        (&["--rows", ","], 2, "name a row"),
        (&["--device", "nothing"], 3, "one of these profiles"),
        (&["--show", "last"], 2, "run"),
        (&["--device", "/dev/null", "--rows", "ext4"], 3, "block device"),
    ] {
        let output = loadline(home.path(), words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        assert!(text.contains(told), "{words:?}: {text}");
    }
}

/// TokuBench on a small image: exit code 4, since one column decides no claim.
#[test]
fn a_column_is_run_stored_and_shown_again() {
    let home = tempfile::tempdir().unwrap();
    let files = home.path().join("csv");
    let run = [
        "--quick",
        "--rows",
        "ext4",
        "--columns",
        "tokubench",
        "--trials",
        "1",
        "--device",
        "image:1G",
        "-q",
    ];
    let output = loadline(home.path(), &run);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.contains("n/a") && !text.contains("1.00+") {
        return; // neither root nor loop devices here
    }
    assert_eq!(output.status.code(), Some(4), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("46875 files") && text.contains("cannot tell: random writes"), "{text}");
    let again = loadline(home.path(), &["--show", "last", "--csv", files.to_str().unwrap()]);
    assert_eq!(String::from_utf8_lossy(&again.stdout), text, "a stored run shows the same");
    assert_eq!(std::fs::read_dir(&files).unwrap().count(), 16);
}
