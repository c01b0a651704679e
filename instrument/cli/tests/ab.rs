//! `loadline ab`, as its user runs it.

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};

const SCRIPT: &str = "set $n=2\ndefine fileset name=mail, path=/tmp, entries=50, size=4k, prealloc=100\n\
    define process name=p { thread name=t, instances=$n {\n\
      flowop openfile name=open, filesetname=mail, fd=1\n\
      flowop readwholefile name=read, fd=1\n\
      flowop closefile name=close, fd=1\n\
    } }\nrun 60\n";

fn command(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.current_dir(home).env("LOADLINE_HOME", home.join("home")).env("NO_COLOR", "1").args(words);
    command
}

fn loadline(home: &Path, words: &[&str]) -> Output {
    command(home, words).output().unwrap()
}

fn told(output: &Output, codes: &[i32]) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(codes.contains(&output.status.code().unwrap()), "{:?}\n{out}\n{err}", output.status);
    (out, err)
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("mail.f"), SCRIPT).unwrap();
    home
}

#[test]
fn stacks_are_compared_stored_and_reported() {
    let home = home();
    let words = ["ab", "dir:.", "dir:.", "-w", "mail.f", "--for", "20ms", "--budget", "1s", "--set-b", "n=1"];
    // whichever verdict this machine gives
    let (answer, progress) = told(&loadline(home.path(), &words), &[0, 1, 4]);
    assert!(progress.contains("block 8 of at most"), "{progress}");
    assert!(answer.contains("A is dir:") && answer.contains(" n=1."), "{answer}");
    // the report says the very same, from the store
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (report, _) = told(&loadline(home.path(), &["report", "last"]), &[0]);
    let sentence = one_line(answer.lines().next().unwrap());
    assert!(one_line(&report).contains(&sentence), "{report}\n--- for\n{sentence}");
    assert!(!report.contains("Against"), "the rule for a fixed number of trials does not hold: {report}");
}

#[test]
fn slices_of_loads_that_go_on_are_compared_and_nothing_stays() {
    let home = home();
    let words =
        ["ab", "dir:.", "dir:.", "-w", "mail.f", "--slices", "2ms", "--budget", "1s", "--set-b", "n=1"];
    // whichever verdict this machine gives
    let child = command(home.path(), &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = child.id();
    let (answer, _) = told(&child.wait_with_output().unwrap(), &[0, 1, 4]);
    assert!(answer.contains(" of four slices, "), "{answer}");
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (report, _) = told(&loadline(home.path(), &["report", "last"]), &[0]);
    let sentence = one_line(answer.lines().next().unwrap());
    assert!(one_line(&report).contains(&sentence), "{report}\n--- for\n{sentence}");
    let (left, _) = told(&loadline(home.path(), &["doctor"]), &[0]);
    assert_eq!(common::found(&left, process), Vec::<&str>::new(), "{left}");
    let (_, why) = told(&loadline(home.path(), &[&words[..], &["--metric", "latency_p99"]].concat()), &[2]);
    assert!(why.contains("a slice has a throughput only"), "{why}");
}

#[test]
fn a_load_that_ends_is_refused_for_slices() {
    let home = home();
    let once = SCRIPT
        .replace("run 60", "set mode quit alldone\nrun 60")
        .replace("flowop closefile", "flowop finishoncount name=end, value=50\n flowop closefile");
    std::fs::write(home.path().join("once.f"), once).unwrap();
    let words = ["ab", "dir:.", "dir:.", "-w", "once.f", "--slices", "--budget", "1s"];
    let (out, err) = told(&loadline(home.path(), &words), &[1]);
    assert!(format!("{out}{err}").contains("slices are for loads that go on"), "{out}{err}");
}

#[test]
fn commands_are_compared_by_time() {
    let home = home();
    let (answer, _) = told(&loadline(home.path(), &["ab", "true", "sleep 0.2"]), &[1]);
    assert!(answer.contains("B is worse") && answer.contains("Mean time: A "), "{answer}");
    let (_, why) = told(&loadline(home.path(), &["ab", "true", "echo no such thing >&2; exit 3"]), &[1]);
    assert!(why.contains("B (`echo") && why.contains("exit status: 3: no such thing"), "{why}");
}

#[test]
fn wrong_words_are_refused_with_what_would_be_right() {
    let home = home();
    for (more, right) in [
        (&["--metric", "speed"][..], "there are throughput,"),
        (&["--set-b", "n"], "write --set-b name=value"),
        (&["--set", "n=1,2"], "single value, or --set-a and --set-b"),
        (&["--target", "0"], "a share lies between 0 and 1"),
        (&["--budget", "soon"], "--budget:"),
        (&["--drop", "."], "cannot be used with"),
    ] {
        let words = [&["ab", "dir:.", "dir:.", "-w", "mail.f"], more].concat();
        let (_, why) = told(&loadline(home.path(), &words), &[2]);
        assert!(why.contains(right), "{more:?}: {why}");
    }
    let (_, why) = told(&loadline(home.path(), &["ab", "dir:.", "tmpfs,xfs", "-w", "mail.f"]), &[2]);
    assert!(why.contains("compares one with one"), "{why}");
    told(&loadline(home.path(), &["ab", "true", " "]), &[2]);
}
