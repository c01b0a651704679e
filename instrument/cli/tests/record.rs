//! `record` and `describe`: programs recorded, described, replayed.

mod common;

use common::{loadline_in, told};
use needs::needs;

/// A program that makes, renames, reads and removes files below `d`, and appends to a log that is synced.
const PROGRAM: &str = "mkdir d; for i in 1 2 3 4 5 6 7 8; do head -c 20000 /dev/zero > d/$i; mv d/$i d/f$i; cat d/f$i > /dev/null; done; \
                       for i in 1 2 3; do echo $i >> d/log; sync d/log; done; rm d/f1";

#[test]
fn a_program_is_recorded_described_and_done_again() {
    needs!(Root, Tracing);
    let place = tempfile::tempdir().unwrap();
    let place = &place.path().canonicalize().unwrap();
    let under = place.to_str().unwrap();
    let recorded = told(place, 0, &["record", "-o", "a.trace", "--under", under, "--", "sh", "-ec", PROGRAM]);
    assert!(recorded.contains("a.trace: ") && !recorded.contains("LOST"), "{recorded}");
    let check = told(place, 0, &["check", "a.trace"]);
    for part in ["1 mkdir", "8 rename", "3 fsync", "1 unlink", " write of 156.3KiB"] {
        assert!(check.contains(part), "{part}: {check}");
    }
    std::fs::remove_dir_all(place.join("d")).unwrap();
    let on = format!("dir:{under}/again");
    std::fs::create_dir(place.join("again")).unwrap();
    let replayed = told(place, 0, &["run", "a.trace", "--on", &on, "--speed", "max", "-n", "1"]);
    assert!(!replayed.contains("ended otherwise"), "{replayed}");
    let text = told(place, 0, &["describe", "a.trace"]);
    assert!(text.contains("define process") && text.contains("fsync"), "{text}");
    std::fs::write(place.join("a.f"), text).unwrap();
    told(place, 0, &["check", "a.f"]);
    let fit = loadline_in(place, &["describe", "a.trace", "--fit", &on, "--for", "1s"]);
    let table = String::from_utf8_lossy(&fit.stdout);
    assert!(table.contains("write % of calls") && matches!(fit.status.code(), Some(0 | 1)), "{fit:?}");
}

#[test]
fn the_exit_code_is_the_command_s() {
    needs!(Root, Tracing);
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    told(place, 7, &["record", "-q", "-o", "a.trace", "--", "sh", "-c", "exit 7"]);
    told(place, 0, &["record", "-q", "-o", "a.trace", "--for", "100ms", "--", "sleep", "60"]);
    let missing = told(place, 127, &["record", "-o", "b.trace", "--", "./no-such-program"]);
    assert!(missing.contains("no-such-program"), "{missing}");
    let files: Vec<_> = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!files.iter().any(|name| name.to_string_lossy().contains(".part")), "{files:?}");
}

/// Only a recording is replaced; names are hidden when that is wanted.
#[test]
fn files_of_others_stay_and_names_can_be_hidden() {
    needs!(Root, Tracing);
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    std::fs::write(place.join("mine"), "").unwrap();
    for (output, part) in
        [("mine", "is no recording"), ("/dev/null", "no regular file"), (".", "no regular file")]
    {
        let refused = told(place, 2, &["record", "-o", output, "--", "true"]);
        assert!(refused.contains(part), "{output}: {refused}");
    }
    assert!(std::fs::symlink_metadata("/dev/null").is_ok_and(|found| !found.is_file()));
    let secret = "echo x > secretplan.txt; cat secretplan.txt > /dev/null";
    told(place, 0, &["record", "-q", "-o", "a.trace", "--anonymous", "--", "sh", "-c", secret]);
    let bytes = std::fs::read(place.join("a.trace")).unwrap();
    let holds = |word: &str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
    assert!(!holds("secretplan") && !holds(place.file_name().unwrap().to_str().unwrap()));
}

#[test]
fn mistakes_are_told() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    for (words, code, part) in [
        (&["record", "-o", "a.trace"][..], 2, "COMMAND"),
        (&["record", "--", "true"], 2, "--output"),
        (&["record", "-o", "a", "--for", "5 potatoes", "--", "true"], 2, "--for"),
        (&["record", "-o", "a", "--under", "no/such", "--", "true"], 2, "--under no/such"),
        (&["describe", "no.trace"], 2, "no.trace"),
        (&["describe", "a", "--for", "5s"], 2, "--fit"),
    ] {
        let said = told(place, code, words);
        assert!(said.contains(part), "{words:?}: {said}");
    }
    std::fs::write(place.join("other"), "fio version 3 iolog\n").unwrap();
    assert!(told(place, 2, &["describe", "other"]).contains("no recording of loadline"));
}
