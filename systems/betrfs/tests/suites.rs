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

#[test]
fn without_the_program_nothing_passes() {
    assert!(!stress("", 0).0);
}
