//! `crash -- PROGRAM`: users' programs, right and wrong ones, judged by their own checkers. The programs lie beside this file.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Place, text};
use needs::needs;

/// Without the search for packages, which takes longer than the rest.
const PYTHON: &str = "/usr/bin/python3 -S -E -s -B";
/// The programs.
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/crash_program");

/// A check that is put together.
struct Check {
    place: Place,
    on: &'static str,
    states: usize,
    more: Vec<String>,
}

impl Check {
    fn of(on: &'static str) -> Check {
        Check { place: Place::new(), on, states: 60, more: Vec::new() }
    }

    fn with(mut self, words: &[&str]) -> Check {
        self.more.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    fn command(&self, program: &[&str]) -> Command {
        let mut command = self.place.command(&["crash", "-q", "--on", self.on]);
        command.args(["--states", &self.states.to_string()]).args(&self.more).arg("--").args(program);
        command
    }

    /// Runs it; its exit code, and what it said, with each run of blanks as one.
    fn run(&self, program: &[&str]) -> (Option<i32>, String) {
        let Output { status, stdout, stderr } = self.command(program).output().unwrap();
        self.place.is_clean();
        let said = text(&Output { status, stdout, stderr });
        (status.code(), said)
    }

    /// Runs `NAME.py`, judged by `NAME-check.py`.
    fn example(self, name: &str, arguments: &[&str]) -> (Option<i32>, String) {
        let checker = format!("{PYTHON} {EXAMPLES}/{name}-check.py {}", arguments.join(" "));
        let script = format!("{EXAMPLES}/{name}.py");
        let python: Vec<&str> = PYTHON.split(' ').collect();
        let program = [&python[..], &[&script], arguments].concat();
        self.with(&["--check", &checker]).run(&program)
    }

    fn shell(self, checker: &str, program: &str) -> (Option<i32>, String) {
        self.with(&["--check", checker]).run(&["sh", "-c", program])
    }
}

#[test]
fn a_rename_without_fsync_loses_the_contents() {
    needs!(Root, Mounts, Loop, Fuse, Ext4, Tool { program: "python3", package: "python3" });
    let stack = "ext4,noauto_da_alloc@980pro:64M";
    let (code, told) = Check::of(stack).example("rename", &[]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("is rejected by the program's checker"), "{told}");
    assert!(told.contains("found --check: exit code 1: config holds 0 bytes"), "{told}");
    assert!(told.contains("add --keep DIR"), "{told}");
    let (code, told) = Check::of(stack).example("rename", &["sync"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("marks 10 passed by the program") && told.contains("no violation"), "{told}");
}

/// A configuration that is there before the first save.
const OLD: &str = "printf old > config";

#[test]
fn ext4_hides_a_rename_without_fsync_and_xfs_does_not() {
    needs!(Root, Mounts, Loop, Fuse, Ext4, Xfs, Tool { program: "python3", package: "python3" });
    // with dioread_nolock, the default, it hides most of them: some states show zeroes
    let stack = "ext4,dioread_lock@980pro:64M";
    let (code, told) = Check::of(stack).with(&["--setup", OLD]).example("rename", &[]);
    assert_eq!(code, Some(0), "{told}");
    // there is nothing to replace at first, so the first save is not seen to be one
    let (code, told) = Check::of("ext4@980pro:64M").example("rename", &[]);
    assert_eq!(code, Some(1), "{told}");
    let (code, told) = Check::of("xfs@980pro").example("rename", &[]);
    assert_eq!(code, Some(1), "{told}");
    let (code, told) = Check::of("xfs@980pro").example("rename", &["sync"]);
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn records_without_a_checksum_are_torn() {
    needs!(Root, Mounts, Loop, Fuse, Ext4, Tool { program: "python3", package: "python3" });
    let (code, told) = Check::of("ext4@980pro:64M").example("append", &[]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("is torn") && told.contains("LOST data or metadata"), "{told}");
    let (code, told) = Check::of("ext4@980pro:64M").example("append", &["checksum"]);
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn sqlite_keeps_what_it_acknowledged_unless_it_is_told_not_to_sync() {
    needs!(Root, Mounts, Loop, Fuse, Ext4, Tool { program: "python3", package: "python3" });
    // in mode delete a commit is the removal of a file, and only `extra` syncs its directory
    let modes = [
        ("wal", "full", 0),
        ("delete", "extra", 0),
        ("delete", "full", 1),
        ("delete", "off", 1),
        ("wal", "off", 1),
    ];
    for (mode, synchronous, expected) in modes {
        let (code, told) = Check::of("ext4@980pro:64M").example("sqlite", &[mode, synchronous]);
        assert_eq!(code, Some(expected), "{mode}, {synchronous}: {told}");
    }
}

/// Writes a word and syncs it, then says so.
const SAVE: &str = "echo first > a; sync a .; \"$LOADLINE\" mark 'one a'; echo last > b; sync b .; echo two > $LOADLINE_MARKS";

#[test]
fn marks_are_passed_on_to_the_checker() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    // what had been said is there, and the list has the names
    let honest = "case $LOADLINE_MARKS_PASSED in 0) test -z \"$LOADLINE_MARK\";; 1) test \"$LOADLINE_MARK\" = 'one a' && grep -q first a;; \
                  2) grep -q last b && test \"$(cat $LOADLINE_MARKS_LIST)\" = \"$(printf 'one a\\ntwo')\";; esac";
    let (code, told) = Check::of("ext4@ideal:32M").shell(honest, SAVE);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("marks 2 passed"), "{told}");
    // said too early
    let early = SAVE.replace("sync b .; echo two > $LOADLINE_MARKS", "\"$LOADLINE\" mark two; sync b .");
    let kept = Check::of("ext4@ideal:32M").with(&["--keep", "kept"]);
    let dir = kept.place.dir.path().join("kept");
    let checker = "test $LOADLINE_MARKS_PASSED -lt 2 || grep -q last {dir}/b";
    let kept = kept.with(&["--check", checker]);
    let (code, told) = kept.run(&["sh", "-c", &early]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("cut after mark 2, two"), "{told}");
    assert!(
        told.contains("LOADLINE_MARK=two LOADLINE_MARKS_PASSED=2") && told.contains("mount -t ext4 -o loop"),
        "{told}"
    );
    let marks = std::fs::read_to_string(dir.join("state.marks")).unwrap();
    assert_eq!(marks, "one a\ntwo\n");
    assert!(dir.join("state.img").exists());
}

#[test]
fn a_mark_may_take_back_what_an_earlier_one_has_promised() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let checker = "[ \"$LOADLINE_MARK\" != 'have a' ] || test -s a";
    let program = "echo 1 > a; \"$LOADLINE\" mark 'have a'; \"$LOADLINE\" mark 'dropping a'; rm a";
    // the image without the file is lawful with all marks passed, too
    let (code, told) = Check::of("ext4@ideal:32M").shell(checker, program);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("cut after mark 1, have a"), "{told}");
    let (code, told) = Check::of("ext4@ideal:32M").shell(checker, &program.replacen("a;", "a; sync a .;", 1));
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn marks_are_not_demanded_of_a_device_that_promises_nothing() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    for (on, more) in [("ext4,nobarrier@980pro:none", &[][..]), ("ext4@980pro:barrier", &["--order-only"])] {
        let (code, told) = Check::of(on).with(more).shell("true", "true");
        assert!(code == Some(2) && told.contains("marks that this device need not keep"), "{told}");
    }
    // another stack's violation stands
    let (code, told) = Check::of("ext4@ideal:32M,ext4@980pro:none").shell("test -e late", LATE);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("VIOLATED") && told.contains("need not keep"), "{told}");
}

/// What it writes last is not synced.
const LATE: &str = "sync .; echo x > late";

#[test]
fn each_stacks_smallest_case_is_kept_and_its_owners_alone() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let check = Check { states: 20, ..Check::of("ext4@ideal:32M,ext4@980pro:64M") };
    let check = check.with(&["--keep", "kept", "--check", "test -e late"]);
    let kept = check.place.dir.path().join("kept");
    let (code, told) = check.run(&["sh", "-c", LATE]);
    assert_eq!(code, Some(1), "{told}");
    for folder in ["1-ext4@ideal:32M", "2-ext4@980pro:64M"] {
        for file in ["state.img", "state.txt", "state.marks"] {
            let mode = std::fs::metadata(kept.join(folder).join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{folder}/{file}");
        }
    }
}

#[test]
fn an_error_is_no_violation_and_hides_none() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let check = || Check { states: 20, ..Check::of("ext4@ideal:32M") };
    let (code, told) = check().with(&["--keep", "/proc/kept"]).shell("test -e late", LATE);
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("ended early, by an error: make /proc/kept") && told.contains("VIOLATED"),
        "{told}"
    );
    let (code, told) = check().with(&["--work-dir", "/nowhere"]).run(&["true"]);
    assert!(code == Some(4) && told.contains("/nowhere"), "{told}");
}

#[test]
fn a_checker_may_start_what_the_program_has_installed() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let setup = ["--setup", "cp /bin/true {dir}/app"];
    let (code, told) = Check::of("ext4@ideal:32M").with(&setup).shell("{dir}/app verify", LATE);
    assert_eq!(code, Some(0), "{told}");
    // what is not there is not there for want of a sync
    let (code, told) = Check::of("ext4@ideal:32M").shell("{dir}/app verify", "cp /bin/true app");
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("could not start a command"), "{told}");
}

#[test]
fn a_checker_that_hangs_is_a_violation_of_its_own_kind() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let check = Check { states: 20, ..Check::of("ext4@ideal:32M") }.with(&["--check-limit", "300ms"]);
    // it finds the file without a power cut, and waits for it after one
    let (code, told) = check.shell("test -e late || sleep 60", "sync .; echo x > late");
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("makes the program's checker hang") && told.contains("hung, not done after 0.3 s"),
        "{told}"
    );
}

#[test]
fn a_program_or_checker_that_fails_where_no_power_did_is_bad_input() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let stack = || Check::of("ext4@ideal:32M");
    for (checker, program, expected) in [
        ("true", "echo what went wrong >&2; exit 7", "sh failed: exit status: 7 | what went wrong"),
        ("echo never mind; false", "true", "without any power cut: --check: exit code 1: never mind"),
        ("no-such-command", "true", "could not start a command"),
    ] {
        let (code, told) = stack().shell(checker, program);
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains(expected), "{told}");
    }
    let (code, told) = stack().run(&["/nowhere/at/all"]);
    assert!(code == Some(2) && told.contains("cannot run /nowhere/at/all"), "{told}");
    let check = stack().with(&["--setup", "echo no >&2; false"]);
    let (code, told) = check.run(&["true"]);
    assert!(code == Some(2) && told.contains("--setup failed") && told.contains("| no"), "{told}");
    let check = stack();
    std::fs::write(check.place.dir.path().join("here.txt"), "x").unwrap();
    let (code, told) = check.run(&["cat", "here.txt"]);
    assert!(code == Some(2) && told.contains("write $PWD/here.txt"), "{told}");
    // whose failure has nothing to do with where the program runs
    let check = stack();
    std::fs::write(check.place.dir.path().join("here.txt"), "x").unwrap();
    let (code, told) = check.with(&["--check", "false"]).run(&["true", "here.txt"]);
    assert!(code == Some(2) && !told.contains("write $PWD"), "{told}");
    // what was prepared is there in every state
    let check = stack().with(&["--setup", "echo old > {dir}/old", "--check", "grep -q old old"]);
    let (code, told) = check.run(&["sh", "-c", "echo new > new; sync new"]);
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn options_of_programs_are_for_programs_and_marks_too() {
    let place = Place::new();
    for words in [
        &["crash", "--on", "ext4@ideal", "--check", "true"][..],
        &["crash", "--on", "ext4@ideal", "random", "--", "true"],
        &["crash", "--on", "ext4@ideal", "--engine", "innodb", "--", "true"],
        &["crash", "--on", "ext4@ideal", "--check-limit", "soon", "--check", "true", "--", "true"],
        &["mark", "saved"],
    ] {
        let output = place.loadline(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output));
    }
}

#[test]
fn an_interrupt_ends_a_program_and_a_checker_that_wait() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let waits_for_ever = ["sh", "-c", "echo x > a; sync a; touch $READY; sleep 600"];
    let program = Check::of("ext4@ideal:32M");
    let checker = Check::of("ext4@ideal:32M").with(&["--check-limit", "10m"]);
    // it finds the file without a power cut
    let checker = checker.with(&["--check", "test -e late || { touch $READY; sleep 600; }"]);
    for (check, words) in [(program, waits_for_ever), (checker, ["sh", "-c", "sync .; echo x > late"])] {
        let ready = check.place.dir.path().join("ready");
        let mut command = check.command(&words);
        command.env("READY", &ready).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let start = Instant::now();
        while !ready.exists() {
            assert!(start.elapsed() < Duration::from_secs(120), "{words:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{words:?}: {}", text(&output));
        assert!(start.elapsed() < Duration::from_secs(180));
        check.place.is_clean();
    }
}
