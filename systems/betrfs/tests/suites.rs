//! The scripts of `suites/` judge what they run: tried with a stand-in for the program, without a file system.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Stands in for stress-ng: knows four stressors, and ends as those of the test do.
const STRESS_NG: &str = r#"#!/bin/bash
case "$*" in
--class*) [ "$2" = io? ] || echo "class filesystem stressors: $KNOWN" ;;
*--chmod*) echo "stress-ng: info:  [7] chmod: not supported here, skipping stressor"; exit 0 ;;
*--dentry*) echo "skipped: 2: dentry (2)"; exit 4 ;;
*--fstat*) exit "$FSTAT" ;;
esac
"#;

/// Runs the suite with these stressors known; whether it passed, and its figures.
fn stress(known: &str, fstat: u8) -> (bool, String) {
    let work = tempfile::tempdir().unwrap();
    let program = work.path().join("stress-ng");
    std::fs::write(&program, STRESS_NG).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/suites.sh");
    let script = r#". "$0"; fresh() { :; }; be_quiet() { :; }; suite_stress >&2; code=$?; echo "$figures"; exit $code"#;
    let path = format!("{}:{}", work.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-c", script]).arg(suites).env("PATH", path);
    command.env("KNOWN", known).env("FSTAT", fstat.to_string());
    command.env("work", work.path()).env("mnt", work.path()).env("seed", "1").env("STRESS_SECONDS", "1");
    let output = command.output().expect("bash");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    (output.status.success(), String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn stressors_that_did_not_run_are_no_passes() {
    // Pairs: chmod (leaves itself out) and chown, dentry (its code and its line say so) and fstat.
    let (passed, figures) = stress("chmod chown dentry fstat", 0);
    assert!(passed, "{figures}");
    assert!(figures.starts_with("2 of ") && figures.contains("not run: chmod dentry access "), "{figures}");
}

#[test]
fn where_no_stressor_says_which_all_of_the_run_count_as_not_run() {
    for code in [3, 4] {
        let (passed, figures) = stress("fstat getent getdent", code);
        assert!(!passed && figures.contains("not run: fstat getdent"), "{figures}");
    }
}

#[test]
fn a_failed_stressor_fails_the_suite() {
    let (passed, figures) = stress("access fstat", 2);
    assert!(!passed && figures.contains("1 failed"), "{figures}");
}

#[test]
fn a_program_that_is_missing_is_named() {
    let nowhere = tempfile::tempdir().unwrap();
    let there = nowhere.path().join("db_bench");
    std::fs::write(&there, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&there, PermissionsExt::from_mode(0o755)).unwrap();
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/suites.sh");
    let missing = |suite: &str| {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", r#". "$0"; missing "$1""#]).arg(&suites).arg(suite);
        command.env("PATH", nowhere.path()).env_remove("FSX");
        String::from_utf8(command.output().expect("bash").stdout).unwrap()
    };
    assert_eq!(missing("rocksdb"), "ldb\n");
    assert_eq!(missing("fsx"), "fsx\n");
    assert_eq!(missing("chaos"), "");
}

/// Runs `script` of bash in `dir`, with the functions of the xfstests suite; its output.
fn with_xfstests(dir: &Path, script: &str) -> String {
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites");
    let script = format!(r#". "$here/xfstests.sh"; {script}"#);
    let mut command = Command::new("/bin/bash");
    command.args(["-c", &script]).current_dir(dir).env("here", suites).env("work", dir);
    command.env_remove("XFSTESTS").env_remove("XFSTESTS_TESTS");
    String::from_utf8(command.output().expect("bash").stdout).unwrap()
}

#[test]
fn without_xfstests_its_suite_does_not_run_and_says_how_to_get_it() {
    let dir = tempfile::tempdir().unwrap();
    let said = with_xfstests(dir.path(), "xfstests_missing 2>&1");
    for words in ["XFSTESTS=(a built xfstests)", "apt-get install", "git clone https://", "checkout 63a29724"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn what_each_test_of_xfstests_did_is_found_in_its_words() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    file("part", "generic/001\ngeneric/002\ngeneric/003\ngeneric/004\ngeneric/005\n");
    let ran = "Ran: generic/001 generic/002 generic/003 generic/004";
    file("said", &format!("{ran}\nNot run: generic/002\nFailures: generic/003 generic/004\n"));
    file("late", "generic/004\n");
    std::fs::create_dir(dir.path().join("generic")).unwrap();
    file("generic/002.notrun", "no such thing\n");
    let found = with_xfstests(dir.path(), "xfstests_found part said . late");
    let expected = "generic/001 passed\ngeneric/002 not-run no such thing\ngeneric/003 failed\n\
        generic/004 failed took too long\ngeneric/005 lost it was not run to its end\n";
    assert_eq!(found, expected);
    // Ended from outside: nothing was said.
    file("said", "");
    file("late", "");
    assert_eq!(with_xfstests(dir.path(), "xfstests_found part said . late").matches(" lost ").count(), 5);
}

#[test]
fn what_xfstests_does_otherwise_than_expected_is_named_in_either_direction() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let lines = [
        "# of these",
        "g/1 failed  why one",
        "g/2 not-run not there",
        "g/3 left-out hours",
        "g/9 failed gone",
    ];
    file("expected", &lines.join("\n"));
    file("found", "g/1 failed\ng/2 not-run something\ng/3 failed took too long\ng/4 passed\n");
    assert_eq!(with_xfstests(dir.path(), "xfstests_differ expected found"), "");
    let whole = with_xfstests(dir.path(), "xfstests_differ expected found whole");
    assert_eq!(whole, "g/9: not in the list of tests, expected: failed\n");
    file("found", "g/1 passed\ng/2 failed\ng/4 not-run no wish\ng/5 lost it was not run to its end\n");
    let differ = with_xfstests(dir.path(), "xfstests_differ expected found");
    let expected = "g/1: passed, expected: failed (why one)\ng/2: failed, expected: not-run (not there)\n\
        g/4: not-run (no wish), expected: passed\ng/5: lost (it was not run to its end), expected: passed\n";
    assert_eq!(differ, expected);
}

#[test]
fn each_expectation_of_xfstests_has_a_known_kind_and_a_reason() {
    let list =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/xfstests.expected"));
    let mut last = String::new();
    for line in list.unwrap().lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let (test, kind) = (words.next().unwrap(), words.next().unwrap());
        assert!(["failed", "not-run", "left-out"].contains(&kind), "{line}");
        assert!(words.count() >= 2, "no reason: {line}");
        assert!(test > last.as_str(), "{test} stands twice or out of order");
        last = test.to_owned();
    }
}

#[test]
fn without_the_program_nothing_passes() {
    assert!(!stress("", 0).0);
}
