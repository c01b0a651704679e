//! `prefetch harm` and `prefetch compare` as their user runs them: real programs, the smallest files that tell anything.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use needs::needs;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    /// On a disk: nothing is read from a device in /dev/shm.
    fn new() -> Place {
        Place { directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.current_dir(self.directory.path()).env("LOADLINE_HOME", self.path("home")).arg("prefetch");
        command.args(words).stdin(Stdio::null());
        command
    }

    /// Runs and returns the exit code, standard output, standard error.
    fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        told(&self.command(words).output().expect("the command starts"))
    }

    /// Nothing is left but what was asked for.
    fn is_clean(&self) {
        let names = |path: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(path).expect("the directory");
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        let mut left = names(self.directory.path());
        left.retain(|name| name != "home" && name != "cells.csv");
        left.extend(names(&self.path("home")).into_iter().filter(|name| name != "journal"));
        left.extend(names(&self.path("home/journal")));
        assert!(left.is_empty(), "left: {left:?}");
    }
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Fields of a line of CSV, quoted commas kept together.
fn fields(line: &str) -> Vec<String> {
    let mut quoted = false;
    let split = line.split(|c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    split.map(|word| word.trim_matches('"').to_owned()).collect()
}

#[test]
fn a_cell_of_the_own_file_system_is_measured_once_and_shown_again() {
    needs!(Library);
    let place = Place::new();
    let words =
        ["harm", "--dir", ".", "--memory", "none", "--patterns", "stride:1", "--mib", "16", "--rounds", "2"];
    let all = [&words[..], &["--rounds-max", "2", "--csv", "cells.csv"]].concat();
    let (code, out, err) = place.run(&all);
    assert!(matches!(code, Some(0 | 1 | 4)), "{out}\n{err}");
    assert!(out.contains("| stride, 1 thread |") && out.contains("1 cells of 1"), "{out}");
    assert!(err.contains("raw, stride, 1 thread, no limit: "), "{err}");
    let csv = std::fs::read_to_string(place.path("cells.csv")).unwrap();
    let lines: Vec<Vec<String>> = csv.lines().map(fields).collect();
    assert_eq!(lines.len(), 2, "{csv}");
    assert_eq!(lines[1][..5], ["raw", "stride, 1 thread", "none", "auto", "16"], "{csv}");
    assert_eq!((lines[0][9].as_str(), lines[1][9].as_str()), ("rounds", "2"), "{csv}");
    place.is_clean();

    let (again, _, err) = place.run(&all);
    assert_eq!(again, Some(2), "a file is not overwritten");
    assert!(err.contains("--resume"), "{err}");
    let (again, shown, err) = place.run(&[&all[..], &["--resume"]].concat());
    assert_eq!((again, err.as_str()), (code, ""), "nothing is measured");
    assert_eq!(shown, out);
}

#[test]
fn an_emulated_device_gains_within_its_memory_and_is_detached() {
    needs!(Library, Root, Mounts, Loop, Fuse, Ext4, MemoryCgroup);
    let place = Place::new();
    let words =
        ["harm", "--devices", "slow(5ms,1GB/s)", "--memory", "none,75", "--patterns", "small-stride:1:16"];
    let (code, out, err) = place.run(
        &[&words[..], &["--mib", "16", "--rounds", "1", "--rounds-max", "1", "--csv", "c.csv"]].concat(),
    );
    assert!(matches!(code, Some(0 | 1 | 4)), "{out}\n{err}");
    let csv = std::fs::read_to_string(place.path("c.csv")).unwrap();
    let lines: Vec<Vec<String>> = csv.lines().skip(1).map(fields).collect();
    assert_eq!(lines.len(), 2, "{csv}");
    let number = |line: usize, at: usize| lines[line][at].parse::<f64>().unwrap();
    // 256 reads of five milliseconds each, one after another, and the file cannot be in the cache.
    assert!(number(0, 10) > 1.0 && number(1, 10) > 1.0, "{csv}");
    assert!(number(0, 12) > 1.2, "the library was loaded and did its work: {csv}");
    assert!(number(1, 20) == 12.0 && number(1, 21) <= 12.0 && number(1, 22) <= 12.0, "{csv}");
    assert!(number(1, 22) > 1.0, "the run was in its cgroup: {csv}");
    let listed = place.command(&[]).args(["--help"]).output().unwrap();
    assert!(listed.status.success());
    let list = Command::new(env!("CARGO_BIN_EXE_loadline"))
        .args(["ssd", "list"])
        .env("LOADLINE_HOME", place.path("home"))
        .output();
    assert_eq!(told(&list.unwrap()), (Some(0), String::new(), String::new()));
}

#[test]
fn ctrl_c_ends_a_measurement_soon_and_shows_what_there_is() {
    needs!(Library);
    let place = Place::new();
    let words =
        ["harm", "--dir", ".", "--memory", "none", "--patterns", "stride:1,seq,reverse,runs,random,hot"];
    let more = ["--mib", "64", "--rounds", "50", "--rounds-max", "50", "--csv", "cells.csv"];
    let mut command = place.command(&[&words[..], &more].concat());
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let begin = Instant::now();
    while !place.path("cells.csv").exists() {
        assert!(begin.elapsed() < Duration::from_secs(300), "no cell is measured");
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let (code, out, err) = told(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(130), "{out}\n{err}");
    assert!(out.contains("| stride, 1 thread |") && out.contains("of 6: "), "{out}");
    assert!(err.contains("interrupted; --resume goes on"), "{err}");
    place.is_clean();
}

#[test]
fn a_drawn_set_is_printed_stored_and_the_same_again() {
    let place = Place::new();
    let words = ["harm", "--held-out", "4711", "--simulate", "--memory", "none", "-q", "--csv"];
    let (code, out, err) = place.run(&[&words[..], &["cells.csv"]].concat());
    assert!(matches!(code, Some(0 | 1 | 4)), "{out}\n{err}");
    assert!(out.starts_with("Held out, drawn from seed 4711:\n- device slow("), "{out}");
    assert!(out.contains("- pattern mix@") && out.contains("18 cells of 18: "), "{out}");
    let csv = std::fs::read_to_string(place.path("cells.csv")).unwrap();
    let lines: Vec<Vec<String>> = csv.lines().map(fields).collect();
    assert_eq!((lines.len(), lines[0][6].as_str()), (19, "held_out"), "{csv}");
    assert!(lines[1..].iter().all(|line| line[6] == "4711"), "{csv}");
    assert!(lines[1][0].starts_with("simulated slow(") && lines[1][1].starts_with("mix@"), "{csv}");
    let again = place.run(&[&words[..], &["more.csv"]].concat());
    assert_eq!((again.0, again.1), (code, out), "the same seed");
    assert_eq!(std::fs::read_to_string(place.path("more.csv")).unwrap(), csv);
    let other = place.run(&["harm", "--held-out", "4712", "--simulate", "--memory", "none", "-q"]).1;
    assert!(!csv.lines().skip(1).any(|line| other.contains(&fields(line)[1])), "another seed: {other}");
}

#[test]
fn wrong_words_are_explained() {
    let place = Place::new();
    for (words, hint) in [
        (&["--patterns", "sideways"][..], "small-stride"),
        (&["--memory", "half"], "none,50,25"),
        (&["--resume"], "--csv"),
        (&["--patterns", "held-out"], "--held-out SEED"),
        (&["--held-out", "1", "--patterns", "seq"], "--held-out"),
        (&["--simulate", "--devices", "raw"], "slow(1ms,1GB/s)"),
        (&["--control", "--mode", "auto"], "--control"),
    ] {
        let (code, _, err) = place.run(&[&["harm"], words].concat());
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(hint), "{words:?}: {err}");
    }
}

#[test]
fn wrong_words_about_the_place_are_explained() {
    needs!(Library);
    let place = Place::new();
    for (words, hint) in [
        (&["--dir", "/proc"][..], "a directory on a disk"),
        (&["--dir", "/nowhere"], "not a directory"),
        (&["--dir", ".", "--mode", "fast"], "fetch-all"),
        (&["--dir", ".", "--mib", "1"], "16"),
        (&["--dir", ".", "--library", "/nowhere.so"], "/nowhere.so"),
    ] {
        let (code, _, err) = place.run(&[&["harm", "--memory", "none"], words].concat());
        assert!(code == Some(2) || code == Some(1), "{err}");
        assert!(err.contains(hint), "{words:?}: {err}");
    }
}

#[test]
fn a_program_is_compared_with_itself_under_the_library() {
    needs!(Library);
    let place = Place::new();
    std::fs::write(place.path("data"), vec![7; 8 << 20]).unwrap();
    let words =
        ["compare", "--drop", "data", "--rounds", "3", "--rounds-max", "3", "--csv", "runs.csv", "--"];
    let (code, out, err) = place.run(&[&words[..], &["cksum", "data"]].concat());
    assert!(matches!(code, Some(0 | 1 | 4)), "{out}\n{err}");
    assert!(out.starts_with("cksum data: 3 rounds\n"), "{out}");
    assert!(out.contains("the same in all 6 runs: 24 bytes, exit code 0"), "{out}");
    assert!(err.contains("round 3 of 3: alone") && err.contains("round 3 of 3: with the library"), "{err}");
    let csv = std::fs::read_to_string(place.path("runs.csv")).unwrap();
    assert_eq!(csv.lines().count(), 7, "{csv}");
    assert!(csv.lines().skip(1).all(|line| line.ends_with(",0,24")), "{csv}");
}

#[test]
fn another_output_under_the_library_is_seen_and_a_varying_one_forgiven() {
    needs!(Library);
    let place = Place::new();
    let compare = |line: &str, more: &[&str]| {
        let words =
            [&["compare", "--rounds", "2", "--rounds-max", "2", "-q"], more, &["--", "sh", "-c", line]];
        place.run(&words.concat())
    };
    let (code, out, err) = compare("echo $LD_PRELOAD", &[]);
    assert_eq!(code, Some(1), "{out}\n{err}");
    assert!(out.contains("DIFFERS: alone 1 bytes") && out.ends_with("DIFFERS\n"), "{out}");
    let (code, out, err) = compare("date +%N", &[]);
    assert_eq!(code, Some(4), "two rounds tell nothing of the time: {out}\n{err}");
    assert!(out.contains("varies without the library"), "{out}");
    let (_, out, _) = compare("echo why >&2; exit 3", &[]);
    assert!(out.contains("exit code 3") && out.contains("it fails as well: why"), "{out}");
    let (_, out, _) = compare("echo x >> log; wc -l < log", &["--prepare", "rm -f log"]);
    assert!(out.contains("the same in all 4 runs: 2 bytes"), "each run is prepared: {out}");
}

#[test]
fn a_comparison_says_what_is_wrong_and_ends_at_ctrl_c() {
    needs!(Library);
    let place = Place::new();
    assert_eq!(place.run(&["compare"]).0, Some(2));
    for (words, code, hint) in [
        (&["--drop", "nothing", "--", "true"][..], 2, "no such file"),
        (&["--mode", "fast", "--", "true"], 2, "fetch-all"),
        (&["--memory", "much", "--", "true"], 2, "--memory"),
        (
            &["--", "./no-such-program"],
            1,
            "cannot run ./no-such-program: No such file or directory (os error 2)\n",
        ),
        (&["--prepare", "exit 5", "--", "true"], 1, "--prepare exit 5"),
    ] {
        let (ended, _, err) = place.run(&[&["compare"], words].concat());
        assert_eq!(ended, Some(code), "{err}");
        assert!(err.contains(hint), "{words:?}: {err}");
    }
    let mut command = place.command(&["compare", "--", "sh", "-c", "echo $$ >> log; exec sleep 1000000"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let begin = Instant::now();
    let log = || std::fs::read_to_string(place.path("log")).unwrap_or_default();
    while !log().ends_with('\n') {
        assert!(begin.elapsed() < Duration::from_secs(300), "it never ran");
        std::thread::sleep(Duration::from_millis(20));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let (code, out, err) = told(&child.wait_with_output().unwrap());
    assert_eq!((code, out.as_str()), (Some(130), ""), "{err}");
    let left = std::fs::read_to_string(format!("/proc/{}/cmdline", log().trim())).unwrap_or_default();
    assert!(!left.starts_with("sleep"), "the program goes on");
}
