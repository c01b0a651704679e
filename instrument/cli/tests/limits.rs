//! What a command does when its surroundings fail it: nobody reads what it says, its limits are met, it is stopped, a program is
//! missing, somebody has the image.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Place, WORKLOAD, text};
use needs::needs;
use rustix::process::{Pid, Signal, kill_process};

/// How long something may take to come.
const PATIENCE: Duration = Duration::from_secs(300);

fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.dir.path().join("work.f"), WORKLOAD).unwrap();
    std::fs::create_dir(place.dir.path().join("target")).unwrap();
    place
}

const RUN: [&str; 8] = ["run", "work.f", "--on", "dir:target", "--for", "1s", "-n", "2"];

#[test]
fn a_study_goes_on_when_nobody_reads_standard_error() {
    let place = place();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = place.command(&RUN).stderr(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let runs = text(&place.loadline(&["runs"]));
    assert!(runs.contains("complete") && runs.contains("2/2"), "{runs}");
}

#[test]
fn a_study_is_whole_when_nobody_reads_standard_output() {
    let place = place();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = place.command(&[&RUN[..], &["--html", "r.html"]].concat()).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(place.dir.path().join("r.html").exists(), "the report was lost with the reader");
    assert!(text(&place.loadline(&["runs"])).contains("2/2"));
}

/// Runs loadline under a limit of the shell's ulimit.
fn limited(place: &Place, limit: &str, words: &[&str]) -> Output {
    let script = format!("ulimit {limit}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_loadline")]).args(words);
    shell.current_dir(place.dir.path()).env("LOADLINE_HOME", place.dir.path().join("home"));
    shell.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_limit_of_file_sizes_is_an_error_with_words_and_no_signal() {
    let place = place();
    // blocks of 512 bytes
    let output = limited(&place, "-f 16", &RUN);
    let said = text(&output);
    assert_eq!(output.status.signal(), None, "{said}");
    assert!(output.status.code() != Some(0) && said.contains("loadline: "), "{said}");
}

#[test]
fn a_limit_of_memory_that_is_met_is_named() {
    let place = place();
    let output = limited(&place, "-v 120000", &["runs"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("limited to 117 MiB (ulimit -v)"), "{said}");
    // whatever comes of somewhat more: it works, or it says what it met
    for kib in [140_000, 170_000, 200_000, 230_000] {
        let output = limited(&place, &format!("-v {kib}"), &RUN);
        let said = text(&output);
        assert!(
            output.status.success() || said.contains("ulimit -v") || said.contains("memory"),
            "{kib}: {said}"
        );
    }
}

#[test]
fn a_program_that_cannot_be_started_has_the_exit_code_of_a_shell() {
    needs!(Library);
    let place = place();
    let code = |words: &[&str]| place.loadline(&[&["prefetch"], words].concat()).status.code();
    for explain in [&[][..], &["--explain"]] {
        let ending = |program| code(&[explain, &["--", program]].concat());
        assert_eq!(ending("loadline-no-such-program"), Some(127), "{explain:?}");
        assert_eq!(ending("./work.f"), Some(126), "{explain:?}");
        assert_eq!(ending("true"), Some(0), "{explain:?}");
    }
}

/// A file system that is unmounted.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_read_only_home_shows_its_runs_and_takes_no_more() {
    needs!(Root, Mounts);
    let place = place();
    let home = place.dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let mount = |words: &[&str]| {
        assert!(Command::new("mount").args(words).arg(&home).status().unwrap().success());
    };
    mount(&["-t", "tmpfs", "-o", "size=64m", "tmpfs"]);
    let _mounted = Mounted(home.clone());
    let once = ["run", "work.f", "--on", "dir:target", "--for", "100ms", "-n", "1"];
    let output = place.loadline(&once);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    mount(&["-o", "remount,ro"]);
    for words in [&["runs"][..], &["report", "last"]] {
        let output = place.loadline(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output));
    }
    let output = place.loadline(&once);
    let said = text(&output);
    assert_ne!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("Read-only file system") && said.contains("--home FOLDER"), "{said}");
    assert!(!said.contains("disk full"), "{said}");
}

/// The processes that process `pid` has started.
fn children(pid: u32) -> Vec<u32> {
    let tasks = common::names(std::path::Path::new(&format!("/proc/{pid}/task")));
    let of = |task: &String| {
        std::fs::read_to_string(format!("/proc/{pid}/task/{task}/children")).unwrap_or_default()
    };
    tasks.iter().map(of).collect::<String>().split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn a_trial_that_was_stopped_for_some_seconds_is_stored_with_a_doubt() {
    let place = place();
    let words = ["run", "work.f", "--on", "dir:target", "--for", "6s", "-n", "1"];
    let run = place.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let is_trial = |pid: &u32| {
        // its heartbeat is there once it is under way
        common::names(std::path::Path::new(&format!("/proc/{pid}/task"))).iter().any(|task| {
            std::fs::read_to_string(format!("/proc/{pid}/task/{task}/comm"))
                .is_ok_and(|name| name.trim() == "heartbeat")
        })
    };
    let begin = Instant::now();
    let trial = loop {
        if let Some(trial) = children(run.id()).into_iter().find(is_trial) {
            break Pid::from_raw(trial as i32).unwrap();
        }
        assert!(begin.elapsed() < PATIENCE, "the trial never began");
        std::thread::sleep(Duration::from_millis(20));
    };
    kill_process(trial, Signal::STOP).unwrap();
    // the stop itself: more than the second from which one counts
    std::thread::sleep(Duration::from_secs(3));
    kill_process(trial, Signal::CONT).unwrap();
    let said = text(&run.wait_with_output().unwrap());
    assert!(said.contains("stood still for up to"), "{said}");
    assert!(text(&place.loadline(&["report", "last"])).contains("stood still for up to"));
}

#[test]
fn who_has_a_mounted_image_is_said_at_once_in_whatever_namespace() {
    needs!(Mounts, Fuse);
    let place = place();
    let target = place.dir.path().join("target").canonicalize().unwrap();
    let target = target.to_str().unwrap();
    assert!(place.loadline(&["mkfs", "betrfs", "--size", "128M", "a.img"]).status.success());
    let mounted = place.loadline(&["mount", "betrfs", "a.img", target]);
    assert!(mounted.status.success(), "{}", text(&mounted));
    let begin = Instant::now();
    let refused = |words: &[&str]| {
        let output = place.loadline(words);
        assert!(!output.status.success(), "{words:?}");
        text(&output)
    };
    let own = format!("mounted at {target} (umount {target})");
    for words in [
        &["fsck", "betrfs", "a.img"][..],
        &["dump", "betrfs", "a.img"],
        &["mount", "betrfs", "a.img", "home"],
    ] {
        let _ = std::fs::create_dir(place.dir.path().join("home"));
        assert!(refused(words).contains(&own), "{words:?}: {}", refused(words));
    }
    // a copy of the mount, as a container that is started meanwhile has one
    let mut other = Command::new("unshare").args(["-m", "sleep", "600"]).spawn().unwrap();
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let apart = host::wait::wait_until(PATIENCE, || {
        let found = namespace(&other.id().to_string());
        found.is_some() && found != namespace("self")
    });
    assert!(apart && Command::new("umount").arg(target).status().unwrap().success());
    let said = refused(&["fsck", "betrfs", "a.img"]);
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(
        said.contains("another mount namespace") && said.contains(&format!("nsenter -t {}", other.id())),
        "{said}"
    );
    assert!(begin.elapsed() < PATIENCE / 2, "it was waited for what does not end");
    let clean = place.loadline(&["fsck", "betrfs", "a.img"]);
    assert!(clean.status.success(), "{}", text(&clean));
}
