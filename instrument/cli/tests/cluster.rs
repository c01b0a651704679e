//! Many ranks under a launcher, and the shards of a study: as their users start them, and what is left.

mod common;
#[path = "cluster/hosts.rs"]
mod hosts;
#[path = "cluster/parallel.rs"]
mod parallel;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use needs::Need::Tool;
use needs::needs;
use serde_json::{Value, json};

const MPIRUN: needs::Need = Tool { program: "mpirun", package: "openmpi-bin" };
/// Files are made before, so that what is counted are reads and appends only.
const SCRIPT: &str = "define fileset name=mail, path=/tmp, entries=20, size=4k, prealloc=100\n\
    define process name=p { thread name=t {\n\
      flowop openfile name=open, filesetname=mail, fd=1\n\
      flowop readwholefile name=read, fd=1\n\
      flowop appendfile name=append, iosize=1k, fd=1\n\
      flowop closefile name=close, fd=1\n\
    } }\nrun 60\n";
/// Rounds with a second between them: however busy the machine is, the ranks' rates are alike.
const PACED: &str = "define fileset name=mail, path=/tmp, entries=20, size=4k, prealloc=100\n\
    define process name=p { thread name=t, instances=20 {\n\
      flowop appendfile name=append, filesetname=mail, iosize=64k\n\
      flowop delay name=pause, value=1\n\
    } }\nrun 60\n";
/// Longest wait for something that happens soon on an idle machine.
const PATIENCE: Duration = Duration::from_secs(300);

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        place.write("mail.f", SCRIPT);
        std::fs::create_dir(place.path().join("shared")).unwrap();
        place
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn command(&self, program: &str, home: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path()).env("LOADLINE_HOME", self.path().join(home)).env("NO_COLOR", "1");
        command.stdin(Stdio::null());
        command
    }

    fn loadline(&self, home: &str, words: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_loadline"), home).args(words).output().unwrap()
    }

    /// `mpirun -n RANKS loadline run ...`, in a session of its own.
    fn mpirun(&self, ranks: &str, words: &[&str]) -> Command {
        let mut command = self.command("mpirun", "home");
        // what Open MPI demands of root, and more ranks than CPUs
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.args([
            "-n",
            ranks,
            "--oversubscribe",
            "--bind-to",
            "none",
            env!("CARGO_BIN_EXE_loadline"),
            "run",
        ]);
        command.args(words);
        // SAFETY: setsid(2) may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                Ok(())
            });
        }
        command
    }

    fn last(&self, home: &str) -> Value {
        let output = self.loadline(home, &["report", "last", "--format", "json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
    }

    /// The processes that have this place in their arguments and a rank of Open MPI in their environment.
    fn ranks(&self) -> Vec<(u32, i32)> {
        let here = self.path().to_str().unwrap();
        let mut found = Vec::new();
        for process in names(Path::new("/proc")).into_iter().filter_map(|name| name.parse::<i32>().ok()) {
            let read = |name: &str| std::fs::read(format!("/proc/{process}/{name}")).unwrap_or_default();
            let environment = String::from_utf8_lossy(&read("environ")).into_owned();
            let variable = |name: &str| {
                environment.split('\0').find_map(|one| Some(one.strip_prefix(name)?.to_string()))
            };
            let ours = variable("LOADLINE_HOME=").is_some_and(|home| home.starts_with(here));
            let words = String::from_utf8_lossy(&read("cmdline")).into_owned();
            // the load itself runs in a child of each rank, which has another first word
            if ours
                && words.split('\0').nth(1) == Some("run")
                && let Some(rank) = variable("OMPI_COMM_WORLD_RANK=")
            {
                found.push((rank.parse().unwrap(), process));
            }
        }
        found
    }

    fn is_clean(&self) {
        let here = self.path().to_str().unwrap();
        until("no process is left", || {
            names(Path::new("/proc")).into_iter().filter(|name| name.parse::<u32>().is_ok()).all(|process| {
                let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
                !String::from_utf8_lossy(&environment).contains(&format!("LOADLINE_HOME={here}"))
            })
        });
        assert_eq!(names(&self.path().join("home/journal")), Vec::<String>::new());
        assert_eq!(names(&self.path().join("home/rendezvous")), Vec::<String>::new());
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn text(output: &Output) -> String {
    let told =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    told.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether something below `folder` has this name.
fn is_below(folder: &Path, name: &str) -> bool {
    names(folder).into_iter().any(|one| one == name || is_below(&folder.join(one), name))
}

/// Bytes of all files below `folder` whose path has `part` in it.
fn bytes_below(folder: &Path, part: &str) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => bytes_below(&entry.path(), part),
        Ok(data) if entry.path().to_string_lossy().contains(part) => data.len(),
        _ => 0,
    };
    entries.map(bytes).sum()
}

/// Waits until all ranks have files below `shared`.
fn measuring(place: &Place, ranks: usize, child: &mut Child) {
    let shared = place.path().join("shared");
    until("all ranks measure", || {
        assert!(child.try_wait().unwrap().is_none(), "the launcher has ended");
        place.ranks().len() == ranks && (0..ranks).all(|rank| is_below(&shared, &format!("rank-{rank:05}")))
    });
}

#[test]
fn what_ranks_did_is_added_to_the_unit() {
    needs!(MPIRUN);
    let place = Place::new();
    let output = place
        .mpirun("8", &["mail.f", "--on", "dir:shared", "--for", "500ms", "--warmup", "0", "-n", "1"])
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let shown = place.last("home");
    let trial = &shown["run"]["trials"][0];
    let whole = &trial["outcome"];
    let parts = trial["extras"]["ranks"].as_array().unwrap_or_else(|| panic!("{trial:#}"));
    assert_eq!(parts.len(), 8);
    for (at, op) in whole["ops"].as_array().unwrap().iter().enumerate() {
        for field in ["ops", "bytes"] {
            let sum: u64 = parts.iter().map(|part| part["outcome"]["ops"][at][field].as_u64().unwrap()).sum();
            assert_eq!(op[field].as_u64(), Some(sum), "{field} of {}", op["name"]);
        }
        let mut buckets = BTreeMap::<u64, u64>::new();
        for part in parts {
            for bucket in part["outcome"]["ops"][at]["service"]["buckets"].as_array().unwrap() {
                *buckets.entry(bucket[0].as_u64().unwrap()).or_default() += bucket[1].as_u64().unwrap();
            }
        }
        let added: Vec<Value> = buckets.into_iter().map(|(bucket, count)| json!([bucket, count])).collect();
        assert_eq!(op["service"]["buckets"], json!(added), "histogram of {}", op["name"]);
    }
    place.is_clean();
}

#[test]
fn a_killed_rank_is_named_and_nothing_is_left() {
    needs!(MPIRUN);
    let place = Place::new();
    let mut mpirun = place.mpirun("3", &["mail.f", "--on", "dir:shared", "--for", "100s", "-n", "1"]);
    let mut child = mpirun.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    measuring(&place, 3, &mut child);
    let victim = place.ranks().into_iter().find(|(rank, _)| *rank == 2).unwrap().1;
    kill(victim, rustix::process::Signal::KILL);
    let output = child.wait_with_output().unwrap();
    let told = text(&output);
    assert!(!output.status.success(), "{told}");
    // Open MPI names the rank as well, and may end rank 0 before it can speak
    assert!(told.contains("rank 2"), "{told}");
    left_by_a_killed_rank(&place);
}

#[test]
fn nothing_outlives_a_killed_launcher() {
    needs!(MPIRUN);
    let place = Place::new();
    let mut child = place.mpirun("3", &["mail.f", "--on", "dir:shared", "--for", "100s", "-n", "1"]);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    measuring(&place, 3, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    left_by_a_killed_rank(&place);
}

/// A launcher that ends its ranks may leave rank 0 no time: the doctor takes away the rest.
fn left_by_a_killed_rank(place: &Place) {
    until("no rank runs", || place.ranks().is_empty());
    let doctor = place.loadline("home", &["doctor"]);
    assert!(doctor.status.success(), "{}", text(&doctor));
    place.is_clean();
    assert_eq!(names(&place.path().join("shared")), Vec::<String>::new());
}

fn kill(process: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(process).unwrap(), signal).unwrap();
}

#[test]
fn a_rank_that_stood_still_is_shown() {
    needs!(MPIRUN);
    let place = Place::new();
    place.write("paced.f", PACED);
    let mut mpirun =
        place.mpirun("6", &["paced.f", "--on", "dir:shared", "--for", "6s", "--warmup", "0", "-n", "1"]);
    let mut child = mpirun.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    measuring(&place, 6, &mut child);
    // the load of rank 1 is a child of it
    let rank = place.ranks().into_iter().find(|(rank, _)| *rank == 1).unwrap().1;
    // twenty files of about 4 KiB before it appends to them; a round adds 1.25 MiB
    until("rank 1 measures", || bytes_below(&place.path().join("shared"), "rank-00001") > 1 << 20);
    let loads = children(rank);
    assert!(!loads.is_empty());
    loads.iter().for_each(|load| kill(*load, rustix::process::Signal::STOP));
    std::thread::sleep(Duration::from_secs(4));
    loads.iter().for_each(|load| kill(*load, rustix::process::Signal::CONT));
    let output = child.wait_with_output().unwrap();
    let told = text(&output);
    assert!(output.status.success(), "{told}");
    let run = place.last("home").to_string();
    assert!(run.contains("straggler: rank 1"), "{told}");
    place.is_clean();
}

#[test]
fn a_full_disk_is_told_with_the_rank() {
    needs!(MPIRUN, Root, Mounts);
    let place = Place::new();
    let shared = place.path().join("shared");
    let flags = rustix::mount::MountFlags::NODEV;
    rustix::mount::mount("full", &shared, "tmpfs", flags, c"size=512k").unwrap();
    let output = place
        .mpirun("3", &["mail.f", "--on", "dir:shared", "--for", "20s", "--warmup", "0", "-n", "1"])
        .output()
        .unwrap();
    rustix::mount::unmount(&shared, rustix::mount::UnmountFlags::empty()).unwrap();
    let told = text(&output);
    assert!(!output.status.success(), "{told}");
    assert!(told.contains("on host") && told.contains("No space left on device"), "{told}");
    place.is_clean();
}

fn children(process: i32) -> Vec<i32> {
    let tasks = names(Path::new(&format!("/proc/{process}/task")));
    let read = |task: &String| {
        std::fs::read_to_string(format!("/proc/{process}/task/{task}/children")).unwrap_or_default()
    };
    tasks
        .iter()
        .map(read)
        .flat_map(|list| list.split_whitespace().map(|one| one.parse().unwrap()).collect::<Vec<i32>>())
        .collect()
}

#[test]
fn what_ranks_cannot_do_is_said_before_anything_runs() {
    needs!(MPIRUN);
    let place = Place::new();
    for (words, why) in [
        (&["ior", "--on", "dir:shared", "--cold"][..], "leave out --cold"),
        (&["nowhere.f", "--on", "dir:shared"][..], "nowhere.f"),
    ] {
        let length: &[&str] = if words[0] == "ior" { &["-n", "1"] } else { &["-n", "1", "--for", "200ms"] };
        let words = [words, length].concat();
        let output = place.mpirun("2", &words).output().unwrap();
        let told = text(&output);
        assert!(!output.status.success() && told.contains(why), "{words:?}: {told}");
    }
    place.is_clean();
}

/// Each host is made cold before its ranks read, each rank has its part of the host's memory, and rank 0 traces them all.
#[test]
fn ranks_begin_cold_within_limits_and_are_explained() {
    needs!(MPIRUN, Root, Mounts, Loop, Ext4, MemoryCgroup, Tracing);
    let place = Place::new();
    // 16 MiB a rank, and it ends by what was done, not by the time
    let reads = "define fileset name=f, path=/tmp, entries=4, size=4m, prealloc=100, dirwidth=4\n\
        define process name=p { thread name=t {\n\
          flowop openfile name=open, filesetname=f, fd=1\n\
          flowop readwholefile name=read, fd=1, iosize=64k\n\
          flowop write name=write, fd=1, iosize=4k\n\
          flowop fsync name=sync, fd=1\n\
          flowop closefile name=close, fd=1\n\
          flowop finishoncount name=end, value=40, target=sync\n\
        } }\nrun 60\n";
    place.write("reads.f", reads);
    let disk = Disk::on(place.path().join("shared"), &place.path().join("image"));
    let start = |words: &[&str]| {
        let always = ["reads.f", "--on", "dir:shared", "--for", "120s", "--warmup", "0", "-n", "1"];
        let output = place.mpirun("2", &[&always, words].concat()).output().unwrap();
        (output.status.success(), text(&output))
    };
    // less than a process needs kills it
    let (done, told) = start(&["--memory", "1M"]);
    assert!(!done && told.contains("the memory limit was met"), "{told}");
    // what a slow disk has not written yet has room, twice: in the files and in the image
    let (done, told) = start(&["--cold", "--memory", "256M", "--explain"]);
    assert!(done, "{told}");
    let limited = place.last("home")["run"]["trials"][0].clone();
    let metric = |name: &str| parallel::metric(&limited, name);
    // rank 0 counts for its host, and the other may have read all of its files when it begins to
    assert!(metric("device_read_bytes") >= f64::from(12 << 20), "{limited:#}");
    let peak = metric("memory_peak_bytes");
    assert!(peak > f64::from(2 * (16 << 20)) && peak <= f64::from(256 << 20), "{peak}");
    let syncs = |trial: &Value| {
        let ops = trial["outcome"]["ops"].as_array().unwrap();
        ops.iter().find(|op| op["name"] == "sync").unwrap()["ops"].as_u64().unwrap()
    };
    let parts = limited["extras"]["ranks"].as_array().unwrap();
    let most = parts.iter().map(syncs).max().unwrap();
    let traced = limited["fsync"]["summary"]["fsyncs"].as_u64().unwrap_or_else(|| panic!("{limited:#}"));
    assert!(traced > most, "{traced} fsyncs of both ranks were traced, {most} were of one");
    drop(disk);
    place.is_clean();
}

/// ext4 in an image, mounted until it is dropped.
struct Disk(PathBuf);

impl Disk {
    fn on(target: PathBuf, image: &Path) -> Disk {
        std::fs::File::create(image).unwrap().set_len(128 << 20).unwrap();
        let run = |program: &str, words: &[&std::ffi::OsStr]| {
            let output = Command::new(program).args(words).output().unwrap();
            assert!(output.status.success(), "{program}: {}", text(&output));
        };
        run("mkfs.ext4", &["-qF".as_ref(), image.as_os_str()]);
        run("mount", &["-o".as_ref(), "loop".as_ref(), image.as_os_str(), target.as_os_str()]);
        Disk(target)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let done = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::empty());
        assert!(done.is_ok() || std::thread::panicking(), "{done:?}");
    }
}

#[test]
fn shards_are_merged_to_the_run_of_one_machine() {
    let place = Place::new();
    place.write(
        "study.toml",
        "stacks = ['dir:shared']\n[[workload]]\nfile = 'mail.f'\n[study]\ntrials = 4\nseconds = 0.02\nwarmup = 0\n",
    );
    for shard in ["1/3", "2/3", "3/3"] {
        let home = format!("home{}", &shard[..1]);
        let output = place.loadline(&home, &["run", "study.toml", "--shard", shard]);
        assert!(output.status.success(), "{}", text(&output));
    }
    let merge = |stores: &[&str], home: &str| {
        let output = place.loadline(home, &[&["merge"][..], stores].concat());
        (output.status.code(), text(&output))
    };
    let (code, told) = merge(&["home1", "home2", "home3"], "whole");
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("3 runs joined, 4 of 4 trials have a result"), "{told}");
    assert_eq!(place.last("whole")["run"]["trials"].as_array().unwrap().len(), 4);
    // a hole is named, and filled
    let (code, told) = merge(&["home1", "home3"], "part");
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("shard 2/3: 1 trials are missing"), "{told}");
    let output = place.loadline("part", &["run", "study.toml", "--resume"]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(place.last("part")["run"]["trials"].as_array().unwrap().len(), 4);
    // what does not fit
    place.write(
        "other.toml",
        &std::fs::read_to_string(place.path().join("study.toml")).unwrap().replace("0.02", "0.03"),
    );
    let output = place.loadline("other", &["run", "other.toml", "--shard", "2/3"]);
    assert!(output.status.success(), "{}", text(&output));
    let (code, told) = merge(&["home1", "other"], "refused");
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("does not fit"), "{told}");
    assert!(!place.loadline("refused", &["report", "last"]).status.success(), "nothing was stored");
    let (code, told) = merge(&["nowhere"], "refused");
    assert_eq!((code, told.contains("no store is there")), (Some(2), true), "{told}");
}
