//! The command as its user runs it: real processes, a home of its own for each test.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use needs::needs;

const WORKLOAD: &str = "set $nfiles=200\n\
    define fileset name=files,path=/tmp,size=4k,entries=$nfiles,dirwidth=20,prealloc=80\n\
    define process name=p { thread name=t,instances=2 {\n\
      flowop createfile name=create,filesetname=files,fd=1\n\
      flowop writewholefile name=write,fd=1,srcfd=1,iosize=4k\n\
      flowop closefile name=close,fd=1\n\
      flowop statfile name=stat,filesetname=files\n\
      flowop deletefile name=delete,filesetname=files\n\
    } }\nrun 60\n";

struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let bench = Bench { directory };
        bench.write("work.f", WORKLOAD);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.path(name), text).expect("a writable directory");
        self.path(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command
            .current_dir(self.directory.path())
            .env("LOADLINE_HOME", self.path("home"))
            .env("NO_COLOR", "1")
            .args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command starts")
    }

    /// Runs and expects this exit code; returns standard output and standard error.
    fn expect(&self, code: i32, arguments: &[&str]) -> (String, String) {
        let output = self.run(arguments);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n--- out\n{out}\n--- err\n{err}");
        (out, err)
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts")
    }

    fn is_empty(&self, name: &str) -> bool {
        std::fs::read_dir(self.path(name)).is_ok_and(|mut entries| entries.next().is_none())
    }
}

fn texts(output: &Output) -> (String, String) {
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Waits until `ready` holds; panics when it never does.
fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < Duration::from_secs(300), "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn mounts_below(path: &Path) -> usize {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    mounts.lines().filter(|line| line.contains(path.to_str().expect("a UTF-8 path"))).count()
}

/// Loop devices whose backing file lies below `path`.
fn loops_below(path: &Path) -> usize {
    let backing = |name: std::ffi::OsString| {
        std::fs::read_to_string(Path::new("/sys/block").join(name).join("loop/backing_file"))
            .unwrap_or_default()
    };
    let names =
        std::fs::read_dir("/sys/block").into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| backing(name.clone()).starts_with(path.to_str().expect("a UTF-8 path"))).count()
}

#[test]
fn a_run_in_a_directory_is_stored_and_reported() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("target")).unwrap();
    let (out, _) = bench
        .expect(0, &["run", "work.f", "--on", "dir:target", "--for", "1s", "-n", "2", "--html", "r.html"]);
    assert!(out.contains("work") && out.contains("r.html"), "{out}");
    assert!(bench.is_empty("target"), "the run left something in the directory");
    let (runs, _) = bench.expect(0, &["runs"]);
    assert!(runs.contains("complete") && runs.contains("2/2"), "{runs}");
    let html = std::fs::read_to_string(bench.path("r.html")).unwrap();
    assert!(html.contains("</html>"));
    bench.expect(0, &["report", "--csv", "out", "--json", "r.json", "--hdr", "r.hdr", "--format", "none"]);
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(bench.path("r.json")).unwrap()).unwrap();
    assert!(json.is_object());
    assert!(bench.path("out/trials.csv").exists() && bench.path("r.hdr").exists());
    let (_, said) = bench.expect(0, &["report", "--svg", "drawn", "--format", "none"]);
    assert!(bench.path("drawn/work-results.svg").exists(), "{said}");
    let (text, _) = bench.expect(0, &["report", "last", "--format", "filebench"]);
    assert!(text.contains("Per-Operation Breakdown") && text.contains("IO Summary:"), "{text}");
}

#[test]
fn the_hint_of_a_wrong_workload_says_what_would_be_right() {
    let bench = Bench::new();
    bench.write("wrong.f", "define fileset name=a,path=/tmp,entires=100,dirwidth=20\nrun 5\n");
    for command in [&["check", "wrong.f"][..], &["run", "wrong.f", "--on", "dir:."]] {
        let (_, err) = bench.expect(2, command);
        assert!(err.contains("wrong.f:1:33") && err.contains("entires") && err.contains("entries"), "{err}");
    }
    bench.write("wrong.f", "define process name=p { thread name=t { flowop readd name=r } }");
    let (_, err) = bench.expect(2, &["check", "wrong.f"]);
    assert!(err.contains("readd") && err.contains("`read`"), "{err}");
}

#[test]
fn check_says_what_would_happen() {
    let bench = Bench::new();
    let (out, _) = bench.expect(0, &["check", "work.f", "--set", "nfiles=1000"]);
    assert!(out.contains("1000 files") && out.contains("$nfiles = 1000"), "{out}");
    bench.expect(2, &["check", "nothing-there.f"]);
    bench.expect(2, &["check", "work.f", "--set", "nfile=1000"]);
}

#[test]
fn programs_of_a_workload_are_listed_refused_and_started_when_allowed() {
    let bench = Bench::new();
    let started = bench.path("started");
    let text = WORKLOAD
        .replace("run 60", &format!("set $mark={}\nsystem \"touch $mark\"\nrun 60", started.display()));
    bench.write("system.f", &text);
    let listed = format!("system.f:11: touch {}", started.display());
    let (out, _) = bench.expect(0, &["check", "system.f"]);
    assert!(out.contains("line 11") || out.contains(&listed), "{out}");
    let run = ["run", "system.f", "--on", "dir:.", "--for", "100ms", "-n", "1"];
    for command in [
        &run[..],
        &["explain", "fsync", "--on", "dir:.", "--job", "system.f"],
        &["explain", "cache", "--on", "dir:.", "--job", "system.f"],
        &["explain", "fuse", "--on", "dir:.", "--job", "system.f"],
        &["crash", "--on", "ext4@980pro", "system.f"],
    ] {
        let (_, err) = bench.expect(2, command);
        assert!(err.contains(&listed) && err.contains("--allow-system"), "{command:?}: {err}");
        assert!(!started.exists(), "{command:?}");
    }
    let (runs, _) = bench.expect(0, &["runs"]);
    assert!(!runs.contains("system"), "a refused run leaves no record: {runs}");
    let (out, err) = bench.expect(0, &[&run[..], &["--allow-system", "--quiet"]].concat());
    assert!(err.contains(&listed) && err.contains("as --allow-system allows"), "{err}");
    assert!(out.contains("the workload started a program"), "{out}");
    assert!(started.exists());
}

#[test]
fn a_study_says_itself_that_its_programs_may_start() {
    let bench = Bench::new();
    bench.write("system.f", &WORKLOAD.replace("run 60", "system \"echo x > /dev/null\"\nrun 60"));
    let study = |allow: &str| {
        format!(
            "stacks = ['dir:.']\n[study]\ntrials = 1\nseconds = 0.1\n{allow}[[workload]]\nfile = 'system.f'\n\
             [[workload]]\napp = 'git'\n"
        )
    };
    bench.write("study.toml", &study(""));
    let (out, _) = bench.expect(0, &["check", "study.toml"]);
    assert!(
        out.contains("system.f:10: echo x > /dev/null") && out.contains("of its own choice: git"),
        "{out}"
    );
    let (_, err) = bench.expect(2, &["run", "study.toml"]);
    assert!(err.contains("system.f:10: echo x") && err.contains("allow_system = true"), "{err}");
    let alone = study("allow_system = true\n");
    bench.write("study.toml", alone.split("[[workload]]\napp = 'git'").next().unwrap());
    let (_, err) = bench.expect(0, &["run", "study.toml"]);
    assert!(err.contains("system.f:10: echo x") && err.contains("of the study allows"), "{err}");
}

#[test]
fn periodic_reports_and_latency_counters_are_shown() {
    let bench = Bench::new();
    bench.write("work.f", &WORKLOAD.replace("run 60", "list fileset\nenable lathist\npsrun -1 2"));
    let (out, err) = bench.expect(0, &["run", "work.f", "--on", "dir:.", "-n", "1"]);
    assert_eq!(err.matches("Per-Operation Breakdown").count(), 2, "{err}");
    assert_eq!(err.matches("\t[ ").count(), 10, "{err}");
    assert_eq!(out.matches("\t[ ").count(), 5, "{out}");
    let (text, _) = bench.expect(0, &["report", "last", "--format", "filebench"]);
    assert_eq!(text.matches("Per-Operation Breakdown").count(), 3, "{text}");
    assert_eq!(text.matches("\t[ ").count(), 15, "{text}");
    assert!(text.contains("0.000: File or Fileset name") && text.contains("/tmp/files"), "{text}");
    bench.write("work.f", WORKLOAD);
    let (out, err) = bench.expect(0, &["run", "work.f", "--on", "dir:.", "-n", "1", "--for", "100ms"]);
    assert!(!out.contains('\t') && !err.contains("Breakdown"), "{out}{err}");
}

#[test]
fn bad_options_are_explained() {
    let bench = Bench::new();
    for (arguments, hint) in [
        (&["run", "work.f", "--on", "ext5"][..], "ext4"),
        (&["run", "work.f", "--for", "soon"], "--for"),
        (&["run", "work.f", "--for", "0"], "nothing can be measured in no time"),
        (&["ssd", "detach", "/dev/loop0"], "none is attached"),
        (&["new", "workload", "work.f"], "work.f exists"),
        (&["run", "work.f", "--io", "quick"], "--io"),
        (&["run", "work.f", "--memory", "much"], "--memory"),
        (&["run", "work.f", "--on", "dir:.", "--set", "nothing=1"], "nothing"),
        (&["run", "work.f", "--on", "dir:.", "--rows", "ext4"], "--rows is for studies"),
        (&["check", "work.f", "--scale", "quick"], "--scale is for studies"),
        (
            &["run", "work.f", "--on", "dir:.", "--for", "1s", "-n", "1", "--name", "2026"],
            "no name for a run",
        ),
        (&["report", "no-such-run"], "no-such-run"),
    ] {
        let (_, err) = bench.expect(2, arguments);
        assert!(err.contains(hint), "{arguments:?}: {err}");
    }
}

/// A disk of 64 MiB that is not ours to erase: a loop device of the test's own, with somebody's ext4.
struct Disk {
    path: String,
    file: PathBuf,
}

impl Disk {
    fn attach(file: PathBuf) -> Disk {
        std::fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
        let run = |program: &str, words: &[&str], last: &str| {
            let output = Command::new(program).args(words).arg(last).output().unwrap();
            assert!(output.status.success(), "{program}: {}", texts(&output).1);
            texts(&output).0
        };
        let name = file.to_str().expect("a UTF-8 path");
        run("mkfs.ext4", &["-q", "-F", "-L", "precious"], name);
        let path = run("losetup", &["--show", "-f"], name).trim().to_owned();
        Disk { path, file }
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.file).unwrap()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Only while it still shows our file.
        if loops_below(&self.file) == 1 {
            let _ = Command::new("losetup").args(["-d", &self.path]).status();
        }
    }
}

#[test]
fn a_real_device_is_never_erased_without_being_named() {
    needs!(Root, Mounts, Loop, Ext4);
    let bench = Bench::new();
    let disk = Disk::attach(bench.path("disk"));
    let (before, on) = (disk.bytes(), format!("ext4@{}", disk.path));
    let run = ["run", "work.f", "--on", &on, "--for", "1s", "-n", "1"];
    let (add, same) = (format!("add --erase {}", disk.path), "name the same in both places".to_owned());
    for (more, remedy) in [(&[][..], add), (&["--erase", "/dev/null"], same)] {
        let (out, err) = bench.expect(2, &[&run[..], more].concat());
        assert!(err.contains("precious"), "what is on it is shown: {err}");
        assert!(err.contains(&remedy), "{err}");
        assert_eq!(out, "");
        assert!(disk.bytes() == before, "{more:?}: the disk was written to");
    }
    // Named twice it is: so the disk could have been erased above.
    bench.expect(0, &[&run[..], &["--erase", &disk.path]].concat());
    assert!(disk.bytes() != before);
}

#[test]
fn sweeps_make_cells_and_stacks_are_compared() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("a")).unwrap();
    std::fs::create_dir(bench.path("b")).unwrap();
    let on = "dir:a;dir:b";
    bench.expect(0, &["run", "work.f", "--on", on, "--for", "300ms", "-n", "1", "--set", "nfiles=100,200"]);
    let (runs, _) = bench.expect(0, &["runs"]);
    assert!(runs.contains("4/4"), "{runs}");
    // One trial decides nothing.
    let (out, _) = bench.expect(4, &["compare", "last"]);
    assert!(out.contains("cannot tell"), "{out}");
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_resumes() {
    let bench = Bench::new();
    // Long enough that the end of the first trial is seen before that of the last.
    let arguments = ["run", "work.f", "--on", "dir:.", "--for", "3s", "-n", "3"];
    let child = bench.start(&arguments);
    until("the first trial", || {
        let (runs, _) = texts(&bench.run(&["runs"]));
        runs.contains("1/3") || runs.contains("2/3")
    });
    // SAFETY of the test: the process is our child and not yet waited for.
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(130), "{out}{err}");
    assert!(out.contains("ops/s"), "no partial results:\n{out}");
    let mut resume = arguments.to_vec();
    resume.push("--resume");
    let (_, err) = bench.expect(0, &resume);
    assert!(err.contains("resuming run"), "{err}");
    let (runs, _) = bench.expect(0, &["runs"]);
    assert!(runs.contains("3/3") && runs.lines().count() == 1, "{runs}");
}

#[test]
fn after_kill_nine_the_doctor_cleans_up_and_the_run_resumes() {
    needs!(Root, Mounts, Loop, Ext4);
    let bench = Bench::new();
    let arguments = ["run", "work.f", "--on", "ext4@image:256M", "--for", "1s", "-n", "2"];
    let mut child = bench.start(&arguments);
    until("the mount", || mounts_below(&bench.path("home")) > 0);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let (listed, _) = bench.expect(0, &["doctor", "--dry-run"]);
    assert!(listed.contains("loop") && mounts_below(&bench.path("home")) == 1, "{listed}");
    bench.expect(0, &["doctor"]);
    assert_eq!((mounts_below(&bench.path("home")), loops_below(bench.directory.path())), (0, 0));
    assert!(bench.is_empty("home/images"), "an image was left");
    let mut resume = arguments.to_vec();
    resume.push("--resume");
    bench.expect(0, &resume);
    let (doctor, _) = bench.expect(0, &["doctor"]);
    assert_eq!(common::found(&doctor, child.id()), Vec::<&str>::new(), "{doctor}");
    assert_eq!((mounts_below(&bench.path("home")), loops_below(bench.directory.path())), (0, 0));
}

#[test]
fn file_systems_are_compared_cold_and_in_little_memory() {
    needs!(Root, Mounts, Loop, Ext4, MemoryCgroup);
    let bench = Bench::new();
    let (out, err) = bench.expect(
        0,
        &[
            "run",
            "work.f",
            "--on",
            "ext4@image:256M,tmpfs,f2fs",
            "--for",
            "500ms",
            "-n",
            "1",
            "--cold",
            "--memory",
            "200M",
        ],
    );
    assert!(out.contains("ext4") && out.contains("tmpfs"), "{out}");
    assert!(err.contains("f2fs") && err.contains("unavailable"), "{err}");
    assert_eq!((mounts_below(&bench.path("home")), loops_below(bench.directory.path())), (0, 0));
}

const MAIL: &str = "define fileset name=files,path=/tmp,size=8k,entries=20,dirwidth=20,prealloc=100\n\
    define process name=p { thread name=t {\n\
      flowop openfile name=open,filesetname=files,fd=1\n\
      flowop appendfile name=append,iosize=4k,fd=1\n\
      flowop fsync name=sync,fd=1\n\
      flowop readwholefile name=read,fd=1,iosize=64k\n\
      flowop closefile name=close,fd=1\n\
    } }\nrun 60\n";

/// A request crosses the link twice: no operation that waits for its answer takes less. sshfs answers writes itself, and the
/// kernel what it has seen.
#[test]
fn a_stack_behind_a_network_has_its_delay() {
    needs!(Root, Mounts, Loop, Fuse, Ext4, Sshfs);
    let bench = Bench::new();
    let stack = "sshfs,delay=3ms,rate=10MB/s,cache=no(ext4@image:64M)";
    bench.expect(
        0,
        &["run", "work.f", "--set", "nfiles=20", "--on", stack, "-n", "1", "--for", "500ms", "--cold"],
    );
    let (out, _) = bench.expect(0, &["report", "last", "--format", "json"]);
    let run: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let mut least = Vec::new();
    fn find(value: &serde_json::Value, least: &mut Vec<(String, f64)>) {
        if let (Some(name), Some(ns)) = (value["name"].as_str(), value["service"]["min"].as_f64()) {
            least.push((name.to_string(), ns));
        }
        match value {
            serde_json::Value::Object(fields) => fields.values().for_each(|value| find(value, least)),
            serde_json::Value::Array(items) => items.iter().for_each(|value| find(value, least)),
            _ => {}
        }
    }
    find(&run, &mut least);
    let of = |name: &str| least.iter().find(|(known, _)| known == name).map(|(_, ns)| *ns);
    for name in ["create", "delete"] {
        let ns = of(name).unwrap_or_else(|| panic!("no {name} in {least:?}: {run:#}"));
        assert!(ns >= 6e6, "{name}: {ns} ns");
    }
    assert!(out.contains("sshfs,delay=3ms,rate=10MB/s,cache=no(ext4@image:64M)"), "{out}");
    assert_eq!((mounts_below(bench.directory.path()), loops_below(bench.directory.path())), (0, 0));
}

#[test]
fn emulated_ssds_are_stacks_of_every_command() {
    needs!(Root, Mounts, Loop, Fuse, Ext4, Tracing);
    let bench = Bench::new();
    bench.write("mail.f", MAIL);
    let (out, _) = bench.expect(
        0,
        &[
            "run",
            "mail.f",
            "--on",
            "ext4@slow(200us,1GB/s):64M,ext4@ideal:64M",
            "-n",
            "1",
            "--for",
            "1s",
            "--explain",
        ],
    );
    assert!(out.contains("what an fsync waits for") && out.contains("a flush instead of FUA"), "{out}");
    let (out, _) = bench.expect(0, &["explain", "fsync", "--on", "ext4@980pro:64M", "--count", "20"]);
    assert!(out.contains("20 fsyncs") && out.contains("of the emulated device's"), "{out}");
    let (out, _) =
        bench.expect(0, &["explain", "cache", "--on", "ext4@ideal:64M", "--job", "mail.f", "--for", "1s"]);
    assert!(out.contains("all files") && out.contains("files/"), "{out}");
    let fuse = |stack| ["explain", "fuse", "--on", stack, "--job", "mail.f", "--for", "1s"];
    let (out, _) = bench.expect(0, &fuse("betrfs@ideal:256M"));
    let line = |name: &str| out.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    // Count, rate, then queue and daemon: the daemon was found, and seen to take what it answers.
    assert!(line("FSYNC").split_whitespace().nth(4).is_some_and(|us| us.parse::<f64>().is_ok()), "{out}");
    assert!(out.contains("for each execution of a flowop") && out.contains("\n  FSYNC "), "{out}");
    let (_, err) = bench.expect(2, &fuse("ext4@ideal:64M"));
    assert!(err.contains("on no FUSE file system"), "{err}");
    let (_, err) = bench.expect(3, &["run", "mail.f", "--on", "ext4@floppy:64M", "-n", "1", "--for", "1s"]);
    assert!(err.contains("980pro"), "{err}");
    assert_eq!((mounts_below(bench.directory.path()), loops_below(bench.directory.path())), (0, 0));
    assert_eq!(std::fs::read_dir(bench.path("home/ssd")).map_or(0, Iterator::count), 0);
}

#[test]
fn a_recording_can_be_read_while_its_device_is_attached() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let bench = Bench::new();
    let attach = ["ssd", "attach", "--profile", "ideal", "--size", "64M", "--name", "a", "--record", "log"];
    let (_, err) = bench.expect(2, &[&attach[..], &["--fua", "maybe"]].concat());
    assert!(err.contains("choose modelled or flush"), "{err}");
    let (_, err) = bench.expect(2, &[&attach[..], &["--transport", "pigeon"]].concat());
    assert!(
        err.contains("choose auto, classic, uring, fastest or ublk") && err.contains("  ublk: "),
        "{err}"
    );
    let (device, _) = bench.expect(0, &[&attach[..], &["--transport", "classic"]].concat());
    let made = Command::new("mkfs.ext4").args(["-q", device.trim()]).status().expect("mkfs.ext4");
    assert!(made.success());
    let (out, _) = bench.expect(0, &["ssd", "record", "a", "--mark", "made"]);
    assert!(out.contains("records"), "{out}");
    let bytes = std::fs::read(bench.path("log")).expect("the recording");
    assert!(bytes.starts_with(b"LLREQLOG") && bytes.ends_with(b"made"));
    let (out, _) = bench.expect(0, &["ssd", "stats", "a"]);
    assert!(out.contains("loadline_ssd_recorded_bytes_total"), "{out}");
    bench.expect(0, &["ssd", "detach", device.trim()]);
    let (_, err) = bench.expect(1, &attach);
    assert!(err.contains("File exists"), "never overwritten: {err}");
    assert_eq!((mounts_below(bench.directory.path()), loops_below(bench.directory.path())), (0, 0));
}

#[test]
fn an_emulated_ssd_goes_after_its_run_was_killed() {
    needs!(Root, Mounts, Loop, Fuse, Ext4);
    let bench = Bench::new();
    let mut child = bench
        .command(&["run", "work.f", "--on", "ext4@ideal:64M", "-n", "1", "--for", "60s"])
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the command starts");
    until("mounted", || mounts_below(bench.directory.path()) == 2);
    child.kill().expect("killed");
    child.wait().expect("ended");
    bench.expect(0, &["doctor"]);
    until("detached", || {
        mounts_below(bench.directory.path()) == 0 && loops_below(bench.directory.path()) == 0
    });
}

/// In a mount namespace of its own, so that no other test's doctor meets the dead mount.
#[test]
fn the_doctor_takes_away_betrfs_mounts_whose_daemon_was_killed() {
    needs!(Root, Mounts, Loop, Fuse);
    let bench = Bench::new();
    let script = r#"
        set -e
        mkdir m other
        for name in m other; do
            loadline mkfs betrfs --size 64M $name.img && loadline mount betrfs $name.img $name
            echo text > $name/f && sync $name/f
        done
        for process in /proc/[0-9]*; do
            if tr '\0' ' ' < $process/cmdline 2>/dev/null | grep -q "betrfs-daemon $PWD/m.img "; then
                kill -9 ${process#/proc/}
            fi
        done
        until stat -f m 2>&1 | grep -q 'not connected'; do :; done
        echo "== dry"; loadline doctor --dry-run | sed -n '/dead/,$p'
        echo "== doctor"; loadline doctor | sed -n '/dead/,$p'
        echo "== again"; loadline doctor
        echo "== after"; ls m; cat other/f
        loadline fsck betrfs m.img; loadline mount betrfs m.img m; cat m/f
        umount m other
    "#;
    let mut shell = Command::new("unshare");
    let program = Path::new(env!("CARGO_BIN_EXE_loadline")).parent().expect("a directory");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    shell
        .args(["--mount", "--propagation", "private", "timeout", "300", "sh", "-c", script])
        .env("PATH", path);
    shell.current_dir(bench.directory.path()).env("LOADLINE_HOME", bench.path("home"));
    let (out, err) = texts(&shell.output().expect("unshare starts"));
    let part = |from: &str, to: &str| {
        let text = out.split(from).nth(1).unwrap_or_else(|| panic!("no {from} in {out}\n{err}"));
        text.split(to).next().unwrap_or_default().to_owned()
    };
    let (dry, real) = (part("== dry", "== doctor"), part("== doctor", "== again"));
    assert!(dry.contains("m.img") && dry.contains("umount") && dry.contains("nothing was changed"), "{dry}");
    assert!(real.contains("removed     mount of m.img at "), "{real}");
    assert!(
        !dry.contains("other") && !real.contains("other"),
        "a mount that lives is left alone: {dry}{real}"
    );
    let after = part("== after", "== end");
    assert!(after.starts_with("\ntext\n"), "the other is still served: {after}\n{err}");
    let again = part("== again", "== after");
    // whatever is traced here is not by this script
    assert_eq!(common::found(&again, std::process::id()), Vec::<&str>::new(), "{again}");
    assert!(after.trim_end().ends_with("text"), "what was synced is there again: {after}\n{err}");
}

/// The log is small, so that checkpoints fall into the recording.
#[test]
fn betrfs_is_found_between_two_operations_after_a_power_cut() {
    needs!(Root, Mounts, Loop, Fuse);
    let bench = Bench::new();
    let crash = |code, regime: &str, states: &str| {
        let stack = format!("betrfs,mkfs:--log=256K@980pro:{regime}");
        bench.expect(code, &["crash", "--on", &stack, "random", "--states", states, "-q"]).0
    };
    let clean = crash(0, "flush", "60");
    assert!(clean.contains("60 distinct, 60 checked") && clean.contains("no violation"), "{clean}");
    // a device that ignores flushes breaks it, and that is seen
    let broken = crash(1, "none", "200");
    assert!(broken.contains("VIOLATED") && broken.contains("smallest case"), "{broken}");
    // a device that another process just looks at goes when that one closes it
    until("nothing is left", || {
        mounts_below(bench.directory.path()) + loops_below(bench.directory.path()) == 0
    });
}

#[test]
fn a_failing_trial_is_exit_code_one_and_names_the_flowop() {
    let bench = Bench::new();
    bench.write(
        "fails.f",
        "define file name=f,path=/x,size=1k,prealloc\n\
         define process name=p { thread name=t { flowop openfile name=twice,filename=f,fd=1 } }\nrun 5\n",
    );
    let (_, err) = bench.expect(1, &["run", "fails.f", "--on", "dir:.", "-n", "1"]);
    assert!(err.contains("twice") && err.contains("already open"), "{err}");
}

#[test]
fn what_new_writes_is_right_and_the_command_alone_says_where_to_begin() {
    let bench = Bench::new();
    for (what, file) in [("study", "study.toml"), ("workload", "workload.f")] {
        let (out, _) = bench.expect(0, &["new", what]);
        assert!(out.contains(&format!("loadline check {file}")), "{out}");
        bench.expect(0, &["check", file]);
    }
    let (out, _) = bench.expect(0, &[]);
    assert!(out.contains("loadline doctor") && out.lines().count() < 15, "{out}");
}

#[test]
fn workloads_of_loadline_need_no_file_and_wrong_names_are_told_what_was_meant() {
    let bench = Bench::new();
    for name in ["varmail", "varmail.f", "workloads/varmail.f"] {
        assert!(
            bench.expect(0, &["check", name]).0.starts_with(&format!("{name}: ok\n  fileset spool")),
            "{name}"
        );
    }
    bench.expect(0, &["run", "statfiles", "--on", "dir:.", "--set", "nfiles=20", "--ops", "10", "-n", "1"]);
    // a file of that name goes before
    bench.write("varmail.f", WORKLOAD);
    assert!(bench.expect(0, &["check", "varmail.f"]).0.contains("fileset files"));
    bench.expect(0, &["new", "workload", "mail.f", "--from", "varmail"]);
    assert_eq!(
        std::fs::read_to_string(bench.path("mail.f")).unwrap(),
        include_str!("../../../workloads/varmail.f")
    );
    for (word, near) in
        [("varmial.f", "`varmail`"), ("webservr", "`webserver`"), ("tpc", "`tpcc`"), ("zzz", "varmail,")]
    {
        let (_, err) = bench.expect(2, &["run", word, "--on", "dir:."]);
        assert!(err.contains("there is no such file") && err.contains(near), "{word}: {err}");
    }
    bench.expect(2, &["new", "workload", "other.f", "--from", "zzz"]);
    assert!(!bench.path("other.f").exists());
}

#[test]
fn run_alone_says_what_can_be_run() {
    let bench = Bench::new();
    let (out, err) = bench.expect(2, &["run"]);
    assert!(out.is_empty() && err.contains("run varmail --on") && err.contains("study.toml"), "{err}");
}

#[test]
fn pages_come_from_the_options() {
    let bench = Bench::new();
    let (completions, _) = bench.expect(0, &["completions", "bash"]);
    assert!(completions.contains("--stop-early"));
    bench.expect(0, &["man", "man"]);
    let page = std::fs::read_to_string(bench.path("man/loadline-run.1")).unwrap();
    assert!(page.contains("Offered load") && page.contains("varmail.f \\-\\-on"), "{page}");
    for command in ["run", "check", "compare", "report", "doctor"] {
        let (help, _) = bench.expect(0, &[command, "--help"]);
        assert!(
            help.contains("Examples:") && help.contains(&format!("loadline {command}")),
            "{command}: {help}"
        );
    }
}

const JOBS: &str = "[global]\nsize=1m\ntime_based\nruntime=1\n[reads]\nrw=randread\n\
    [writes]\nstonewall\nrw=randwrite\nbssplit=4k/75:16k/25\nfdatasync=8\n";

#[test]
fn a_job_file_is_checked_with_what_differs_from_fio() {
    let bench = Bench::new();
    let file = bench.write("jobs.fio", JOBS);
    let (out, _) = bench.expect(0, &["check", file.to_str().unwrap()]);
    assert!(out.contains("job=reads") && out.contains("job=writes"), "{out}");
    assert!(out.contains("job writes.0: for 1 s, 1 in flight by psync"), "{out}");
    let mixed = bench.write("mixed.txt", "[a]\nsize=1m\nrw=rw\nfsync=4\n");
    let (_, err) = bench.expect(0, &["check", mixed.to_str().unwrap()]);
    assert!(err.contains("syncs follow writes alone"), "known by what it says, not by its name: {err}");
    let wrong = bench.write("wrong.fio", "[a]\nsize=1m\nblocksise=4k\n");
    let (_, err) = bench.expect(2, &["check", wrong.to_str().unwrap()]);
    assert!(err.contains("wrong.fio:3:") && err.contains("did you mean `blocksize`?"), "{err}");
}

/// Sections that wait for each other are cells; fio's figures stand beside ours, and its JSON is kept.
#[test]
fn fio_itself_runs_a_job_file_beside_loadline() {
    needs!(Tool { program: "fio", package: "fio" });
    let bench = Bench::new();
    let file = bench.write("jobs.fio", JOBS);
    let on = format!("dir:{}", bench.directory.path().display());
    let words = [
        "run",
        file.to_str().unwrap(),
        "--on",
        &on,
        "--with",
        "loadline,fio",
        "--for",
        "500ms",
        "-n",
        "1",
        "-q",
    ];
    let (out, _) = bench.expect(0, &words);
    for (cell, op) in [("job=reads with=fio", "reads-read"), ("job=writes with=loadline", "writes-fdatasync")]
    {
        assert!(out.contains(cell) && out.contains(op), "{cell}: {out}");
    }
    assert!(out.contains("4 of 4 trials done") && out.contains("bins of 1/64 of a power of two"), "{out}");
    let refused = bench.write("refused.fio", "[a]\nsize=1m\nexec_prerun=true\n");
    let (_, err) = bench.expect(2, &["run", refused.to_str().unwrap(), "--on", &on, "--with", "fio"]);
    assert!(err.contains("refused.fio:3:") && err.contains("not passed on"), "{err}");
    let line = [
        "run",
        "fio",
        "--on",
        &on,
        "-n",
        "1",
        "-q",
        "--",
        "--name=x",
        "--rw=randread",
        "--bs",
        "4k",
        "--size=1m",
    ];
    let (out, _) = bench.expect(0, &line);
    assert!(out.contains("x-read") && out.contains("1 of 1 trial done"), "{out}");
    let (_, err) = bench.expect(2, &["run", "work.f", "--on", &on, "--with", "fio"]);
    assert!(err.contains("--with is for job files"), "{err}");
}

#[test]
fn check_refuses_what_run_refuses() {
    let bench = Bench::new();
    bench.write("many.f", "define fileset name=a,path=/tmp,entries=5000000000000,dirwidth=20\nrun 1\n");
    bench.write(
        "client.txt",
        "Deltree \"\\clients\\client1\" NT_STATUS_OK\nMkdir \"\\clients\" NT_STATUS_OK\n",
    );
    for (file, told) in
        [("many.f", "5000000000000 files and leaf directories"), ("client.txt", "loadline simulate")]
    {
        for words in [&["check", file][..], &["run", file, "--on", "dir:.", "-n", "1"]] {
            let (_, err) = bench.expect(2, words);
            assert!(err.contains(told), "{words:?}: {err}");
        }
    }
    let (_, err) = bench.expect(2, &["check", "many.f"]);
    assert!(err.contains("many.f:1"), "with its line: {err}");
}
