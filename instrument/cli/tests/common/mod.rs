//! What several tests of the command line ask. Each test program uses a part of it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// How lines begin in which the doctor tells what it found (`loadline doctor`).
const FINDINGS: [&str; 7] =
    ["run `", "journal ", "removed", "gone before", "deferred", "left alone", "FAILED"];

/// What a doctor found that process `of` may have left. Tracing instances belong to the machine, not to a home: those of
/// other processes come from tests that kill theirs.
pub fn found(doctor: &str, of: u32) -> Vec<&str> {
    let of_others = |line: &str| {
        line.starts_with("removed     tracing instance ") && !line.contains(&format!("loadline-{of}-"))
    };
    let lines = doctor.lines().filter(|line| FINDINGS.iter().any(|finding| line.starts_with(finding)));
    let found: Vec<_> = lines.clone().filter(|line| !of_others(line)).collect();
    assert!(lines.count() > 0 || doctor.contains("nothing was left behind"), "{doctor}");
    found
}

/// Two threads that make, sync and delete small files for a minute.
pub const WORKLOAD: &str = "define fileset name=files,path=/tmp,size=4k,entries=50,dirwidth=20,prealloc=80\n\
    define process name=p { thread name=t,instances=2 {\n\
      flowop createfile name=create,filesetname=files,fd=1\n\
      flowop writewholefile name=write,fd=1,srcfd=1,iosize=4k\n\
      flowop fsync name=sync,fd=1\n\
      flowop closefile name=close,fd=1\n\
      flowop deletefile name=delete,filesetname=files\n\
    } }\nrun 60\n";

/// A directory with a home of its own, for commands as their user runs them. On a disk: /tmp may be memory.
pub struct Place {
    pub dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.current_dir(self.dir.path()).args(words).env("LOADLINE_HOME", self.dir.path().join("home"));
        command.stdin(Stdio::null());
        command
    }

    pub fn loadline(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// No mount, journal, image, device or process of a run is there.
    pub fn is_clean(&self) {
        let here = self.dir.path().to_str().unwrap();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert_eq!(mounts.lines().find(|line| line.contains(here)), None);
        for folder in ["home/journal", "home/images", "home/ssd"] {
            assert_eq!(names(&self.dir.path().join(folder)), Vec::<String>::new(), "{folder}");
        }
        for process in names(Path::new("/proc")).into_iter().filter(|name| name.parse::<u32>().is_ok()) {
            let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            assert!(!line.contains(here) || line.contains("/deps/"), "{process}: {line}");
        }
    }
}

/// Names in a folder; none where there is none.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Runs of which one shows no more CPU seconds of the machine than its processors had. Whoever samples and is held up between those
/// seconds and the clock counts too many, on a busy machine at times; one who adds samples of the same machine does so always.
pub const SAMPLED_RUNS: u32 = 5;

/// Whether the machine can have worked so many CPU seconds in so many seconds. The kernel counts in ticks of 10 ms, for each processor
/// by itself. A quota on this process does not bind the machine.
pub fn can_have_worked(cpu_seconds: f64, seconds: f64) -> bool {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let is_processor = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    cpu_seconds <= stat.lines().filter(is_processor).count() as f64 * (seconds + 0.05)
}

/// Runs loadline with some words in a directory, which has the home of results, too.
pub fn loadline_in(place: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.current_dir(place).env("LOADLINE_HOME", place.join("home")).env("NO_COLOR", "1");
    command.args(words).output().unwrap()
}

/// What loadline says of some words, whose exit code is to be this one.
pub fn told(place: &Path, code: i32, words: &[&str]) -> String {
    let output = loadline_in(place, words);
    let text =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
    text
}

/// What a command said, as if the terminal were wide.
pub fn text(output: &Output) -> String {
    let told =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    told.split_whitespace().collect::<Vec<_>>().join(" ")
}
