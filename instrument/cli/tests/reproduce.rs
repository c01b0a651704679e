//! `loadline reproduce`: what it refuses, and one real trial of each evaluation.

use std::path::Path;
use std::process::{Command, Output};

use needs::needs;

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
    ] {
        let output = loadline(home.path(), words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        assert!(text.contains(told), "{words:?}: {text}");
    }
}

#[test]
fn what_is_no_disk_is_refused() {
    needs!(Root, Mounts, Ext4);
    let home = tempfile::tempdir().unwrap();
    let output = loadline(home.path(), &["--device", "/dev/null", "--rows", "ext4"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && text.contains("block device"), "{text}");
}

/// TokuBench on a small image: exit code 4, since one column decides no claim.
#[test]
fn a_column_is_run_stored_and_shown_again() {
    needs!(Root, Mounts, Loop, Ext4);
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
    assert_eq!(output.status.code(), Some(4), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("46875 files") && text.contains("? cannot tell\n    random writes"), "{text}");
    let again = loadline(home.path(), &["--show", "last", "--csv", files.to_str().unwrap()]);
    assert_eq!(String::from_utf8_lossy(&again.stdout), text, "a stored run shows the same");
    let names: std::collections::BTreeSet<String> = std::fs::read_dir(&files)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.len() == 7 && names.contains("micro.svg") && names.contains("trials.csv"), "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("ext4-")).count(), 1, "{names:?}");
}

fn crossprefetch(home: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_loadline"))
        .arg("--home")
        .arg(home)
        .args(["reproduce", "crossprefetch"])
        .args(words)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn what_crossprefetch_does_not_know_is_named_with_what_it_does() {
    let home = tempfile::tempdir().unwrap();
    for (words, told) in [
        (&["--rows", "ext4"][..], "fetch-all"),
        (&["--columns", "f2fs"], "multi-read"),
        (&["--published", "/dev/null"], "no values"),
        (&["--scale", "huge"], "it has default, paper, quick"),
        (&["--set", "memroy"], "write --set name=value"),
    ] {
        let (code, _, error) = crossprefetch(home.path(), words);
        assert!(code == Some(2) && error.contains(told), "{words:?}: {error}");
    }
}

/// Strided reads under three rows on a small image: no claim is decided by one trial, and the library is seen to
/// prefetch.
#[test]
fn crossprefetch_is_run_stored_and_shown_again() {
    needs!(Library, Root, Mounts, Loop, Fuse, Ext4, MemoryCgroup);
    let home = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| crossprefetch(home.path(), words);
    let chosen = ["--rows", "app-only,auto,read-ahead", "--columns", "stride-4", "--trials", "1", "-q"];
    let device = ["--quick", "--device", "slow(2ms,1GB/s)"];
    let (code, text, error) = run(&[&chosen[..], &device[..]].concat());
    assert!(matches!(code, Some(1 | 4)), "{code:?} {text}{error}");
    assert!(
        text.contains("? cannot tell\n    I/O throughput up to 3.7 x") && text.contains("published 7.63 x"),
        "{text}"
    );
    let files = home.path().join("csv");
    let (_, again, _) = run(&["--show", "last", "--csv", files.to_str().unwrap()]);
    assert_eq!(again, text, "a stored run shows the same");
    let details = std::fs::read_to_string(files.join("DETAILS.csv")).unwrap();
    let of = |row: &str| -> Option<Vec<f64>> {
        let line = details.lines().find(|line| line.starts_with(&format!("stride-4,{row},")))?;
        Some(line.split(',').skip(3).map(|number| number.parse().unwrap_or(0.0)).collect())
    };
    let base = of("app-only").expect("a line of APPonly");
    assert!(base[7] >= 0.0 && base[8] > 50.0, "a fifth of 256 MiB comes from the device: {base:?}");
    let ours = of("auto").expect("a line of the library");
    assert!(ours[9] > 10.0 && ours[10] > 0.5 * ours[9], "prefetched and useful: {ours:?}");
    assert!(of("read-ahead").is_some());
    let (code, _, error) = {
        let output = loadline(home.path(), &["--show", "last"]);
        (output.status.code(), (), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(code == Some(2), "another evaluation's run is not shown: {error}");
}

/// Two cells of the Swissknife study, with rows that are file systems alone, and a claim that one trial leaves open.
#[test]
fn swissknife_runs_only_what_its_chosen_columns_need() {
    needs!(Root, Mounts, Loop, IoUring, Ext4, Btrfs);
    let home = tempfile::tempdir().unwrap();
    let swissknife = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_loadline"))
            .arg("--home")
            .arg(home.path())
            .args(["reproduce", "swissknife"])
            .args(words)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let device = ["--device", "image:1G", "--set", "file=16M"];
    let chosen = ["--quick", "-n", "1", "-q", "--columns", "direct-4k"];
    let files = home.path().join("csv");
    let (code, text, error) = swissknife(&[&chosen[..], &device[..]].concat());
    assert_eq!(code, Some(4), "{text}{error}");
    assert!(text.contains("2 of 2 trials done") && text.contains("Figure 6"), "{text}");
    assert!(!text.contains("Figure 4:") && text.contains("one trial, 3 are needed"), "{text}");
    let (_, again, _) = swissknife(&["--show", "last", "--csv", files.to_str().unwrap()]);
    assert_eq!(again, text, "a stored run shows the same");
    assert!(std::fs::read_to_string(files.join("fig6.svg")).unwrap().contains("<svg"), "the line drawing");
}

/// A study of one file: two sizes of a file beside a small memory limit.
#[test]
fn a_paper_that_is_a_file_only_is_run_and_judged() {
    needs!(Root, Mounts, Loop, Fuse, Ext4, MemoryCgroup);
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_loadline"))
        .arg("--home")
        .arg(home.path())
        .args(["reproduce", "hotos11", "--quick", "-q", "-n", "1", "--rows", "half,double"])
        .args(["--set", "memory=64M", "--set", "seconds=1"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(4), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        text.contains("memory of the load: 64 MiB") && text.contains("one trial, 3 are needed"),
        "{text}"
    );
    assert!(text.contains("Not run\n  1/4 of memory, memory, 5/4 of memory"), "{text}");
}
