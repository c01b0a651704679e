//! kill -9 of every command that makes something, at random moments, then `loadline doctor`: the machine is as it was.
//!
//! `LOADLINE_SEED` gives other moments, `LOADLINE_KILLS` more of them for each command, `LOADLINE_COMMAND` only the commands in
//! whose names that word is.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use needs::needs;

const WORKLOAD: &str = "define fileset name=files,path=/tmp,size=4k,entries=200,dirwidth=20,prealloc=80\n\
    define process name=p { thread name=t,instances=2 {\n\
      flowop createfile name=create,filesetname=files,fd=1\n\
      flowop writewholefile name=write,fd=1,srcfd=1,iosize=4k\n\
      flowop closefile name=close,fd=1\n\
      flowop deletefile name=delete,filesetname=files\n\
    } }\nrun 60\n";

/// Rows that go on beside each other.
const AT_A_TIME: usize = 4;
/// What tells the seeds of rows apart.
const SEED_STEP: u64 = 1_000_003;
/// Set in the process that has a mount namespace of its own: no other doctor meets what is killed here.
const INSIDE: &str = "LOADLINE_TEST_KILLED";
/// A device whose run was killed goes by itself when its daemon sees that; the last data are written first.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is left is looked for in all of /proc.
const LOOKS_AGAIN: Duration = Duration::from_millis(100);

/// A command, and the longest time after which it is killed, in ms: most of what it makes is made until then.
const COMMANDS: [(&str, u64, &[&str]); 18] = [
    ("run on ext4", 1200, &["run", "work.f", "--on", "ext4@image:256M", "--for", "1s", "-n", "1"]),
    ("run on ext4@980pro", 2000, &["run", "work.f", "--on", "ext4@980pro:256M", "--for", "1s", "-n", "1"]),
    (
        "run over sshfs",
        1200,
        &["run", "work.f", "--on", "sshfs,delay=50us(ext4@image:256M)", "--for", "1s", "-n", "1"],
    ),
    (
        "run in 20 containers",
        4500,
        &["run", "work.f", "--on", "ext4@image:256M", "--containers", "20", "--for", "2s", "-n", "1"],
    ),
    ("ssd attach", 250, &["ssd", "attach", "--profile", "980pro", "--size", "64M", "--name", "killed"]),
    ("mount betrfs", 50, &["mount", "betrfs", "m.img", "m"]),
    (
        "prefetch harm",
        1500,
        &[
            "prefetch",
            "harm",
            "--devices",
            "slow(1ms,1GB/s),raw",
            "--memory",
            "none,75",
            "--patterns",
            "small-stride:1:16",
            "--mib",
            "16",
            "--rounds",
            "1",
            "--rounds-max",
            "1",
        ],
    ),
    (
        "reproduce betrfs",
        3000,
        &["reproduce", "betrfs", "--quick", "--rows", "ext4,betrfs", "--columns", "micro"],
    ),
    ("reproduce crossprefetch", 3000, &["reproduce", "crossprefetch", "--quick"]),
    (
        "crash",
        2500,
        &["crash", "create-fsync", "--on", "ext4@980pro", "--states", "50", "--work-dir", "work"],
    ),
    (
        "crash of a program",
        2500,
        &[
            "crash",
            "--on",
            "ext4@ideal:32M",
            "--work-dir",
            "work",
            "--check",
            "sleep 0.1; true",
            "--",
            "sh",
            "-c",
            "for i in 1 2 3 4; do echo $i > $i; sync .; sleep 0.2; done",
        ],
    ),
    (
        "run tpcc on InnoDB",
        9000,
        &["run", "tpcc", "--set", "small=1", "--on", "ext4@image:1G", "--for", "2s", "-n", "1"],
    ),
    (
        "run tpcc on PostgreSQL",
        6000,
        &[
            "run",
            "tpcc",
            "--engine",
            "postgres",
            "--set",
            "small=1",
            "--on",
            "ext4@image:1G",
            "--for",
            "2s",
            "-n",
            "1",
        ],
    ),
    (
        "run ycsb-a on RocksDB",
        2500,
        &["run", "ycsb-a", "--set", "recordcount=20000", "--on", "ext4@image:1G", "--for", "1s", "-n", "1"],
    ),
    (
        "run ycsb-a on a Redis Cluster",
        6000,
        &[
            "run",
            "ycsb-a",
            "--engine",
            "redis-cluster",
            "--set",
            "recordcount=20000",
            "--on",
            "ext4@image:1G",
            "--for",
            "1s",
            "-n",
            "1",
        ],
    ),
    (
        "crash under PostgreSQL",
        9000,
        &["crash", "--engine", "postgres", "--cuts", "2", "--on", "ext4@980pro", "--work-dir", "work"],
    ),
    (
        "ab in slices",
        2500,
        &["ab", "ext4@image:128M", "ext4@980pro:128M", "-w", "work.f", "--slices", "20ms", "--budget", "9s"],
    ),
    ("explain fsync", 600, &["explain", "fsync", "--on", "ext4@image:256M"]),
];

/// A multiplicative generator: the moments are random enough, and the same for a seed.
struct Moments(u64);

impl Moments {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        // on a disk: nothing is read from a device in memory
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for name in ["tmp", "m", "work"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("work.f"), WORKLOAD).unwrap();
        let place = Place { dir };
        assert!(
            place.loadline(&["mkfs", "betrfs", "--size", "64M", "m.img"]).output().unwrap().status.success()
        );
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn loadline(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.current_dir(self.dir.path()).args(words).stdin(Stdio::null());
        command.env("LOADLINE_HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        command
    }

    /// Starts a command and kills it after that time; true: it had ended by itself.
    fn kill(&self, words: &[&str], after: Duration) -> (u32, bool) {
        let log = |name: &str| std::fs::File::create(self.path(name)).unwrap();
        let mut command = self.loadline(words);
        let mut child: Child = command.stdout(log("out")).stderr(log("err")).spawn().unwrap();
        let begin = Instant::now();
        let mut ended = false;
        while begin.elapsed() < after && !ended {
            if let Some(status) = child.try_wait().unwrap() {
                // a command that is refused makes nothing, and would show nothing
                let told = std::fs::read_to_string(self.path("err")).unwrap();
                assert!(!matches!(status.code(), None | Some(2 | 101)), "{words:?}: {status}: {told}");
                ended = true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = child.kill();
        child.wait().unwrap();
        (child.id(), ended)
    }

    /// What a command made, if that is all it was to do, is taken away as its user would.
    fn take_back(&self) {
        let listed = self.loadline(&["ssd", "list"]).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        if listed.contains("killed ") && !listed.contains("dead") {
            self.loadline(&["ssd", "detach", "killed"]).output().unwrap();
        }
        if rustix::fs::statfs(self.path("m")).is_ok_and(|stat| stat.f_type as u64 == FUSE_MAGIC) {
            Command::new("umount").arg(self.path("m")).status().unwrap();
        }
    }

    /// Processes that a command here started, with their command lines. PostgreSQL's write their titles over their
    /// environment, but stay in the directory of their data.
    fn processes(&self) -> Vec<(u32, String)> {
        let here = self.dir.path().to_str().unwrap();
        let text = |process: u32, name: &str| {
            let bytes = std::fs::read(format!("/proc/{process}/{name}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let ours = |process: &u32| {
            let directory = std::fs::read_link(format!("/proc/{process}/cwd")).unwrap_or_default();
            text(*process, "environ").contains(here) || directory.starts_with(here)
        };
        let all = names("/proc").into_iter().filter_map(|name| name.parse().ok()).filter(ours);
        all.map(|process| (process, text(process, "cmdline"))).collect()
    }

    /// Sockets that the process of the trial has open: as many as terminals when the load runs, few before.
    fn sockets_of_trial(&self) -> usize {
        let trial = self.processes().into_iter().find(|(_, line)| line.contains(" trial"));
        let Some((process, _)) = trial else { return 0 };
        let open = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let links = open.filter_map(|file| std::fs::read_link(file.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    }

    /// What is still there of what was made.
    fn left(&self, pid: u32) -> Vec<String> {
        let here = self.dir.path().to_str().unwrap();
        let read = |path: &Path| std::fs::read(path).unwrap_or_default();
        let mut left = Vec::new();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        left.extend(mounts.lines().filter(|line| line.contains(here)).map(|line| format!("mount {line}")));
        for name in names("/sys/block") {
            let file = format!("/sys/block/{name}/loop/backing_file");
            let file = String::from_utf8_lossy(&read(Path::new(&file))).trim().to_owned();
            left.extend(file.contains(here).then(|| format!("{name} on {file}")));
        }
        left.extend(self.processes().into_iter().map(|(process, line)| format!("process {process} {line}")));
        let hierarchies = names("/sys/fs/cgroup").into_iter().map(|name| format!("/sys/fs/cgroup/{name}"));
        for root in hierarchies.chain(["/sys/fs/cgroup".to_string()]) {
            let ours = |name: &String| {
                name.starts_with("loadline-") && name.split(['-', '.']).any(|word| word == pid.to_string())
            };
            left.extend(names(root).into_iter().filter(ours).map(|name| format!("group {name}")));
        }
        for root in ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"] {
            let ours = format!("loadline-{pid}-");
            left.extend(names(root).into_iter().filter(|name| name.starts_with(&ours)));
        }
        for (folder, may_be) in [
            ("", &["home", "m", "m.img", "tmp", "work", "work.f", "out", "err"][..]),
            (
                "home",
                &[
                    "journal",
                    "images",
                    "ssd",
                    "sources",
                    "loadline.db",
                    "loadline.db-wal",
                    "loadline.db-shm",
                    // of a store that was just being made: SQLite takes it back when it is opened next
                    "loadline.db-journal",
                ],
            ),
            ("home/journal", &[]),
            ("home/images", &[]),
            ("home/ssd", &[]),
            ("tmp", &[]),
            ("work", &[]),
        ] {
            let found = names(self.path(folder)).into_iter().filter(|name| !may_be.contains(&name.as_str()));
            left.extend(found.map(|name| format!("file {folder}/{name}")));
        }
        left.extend(
            names(self.path("home/sources")).into_iter().filter(|name| name.starts_with("loadline-")),
        );
        left
    }

    /// The doctor, until nothing is left; how often it took that.
    fn cure(&self, pid: u32, case: &str) -> u32 {
        let begin = Instant::now();
        let mut told = String::new();
        for visits in 1.. {
            let output = self.loadline(&["doctor"]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let from = text
                .find("\n\n")
                .map_or(0, |at| text[at + 2..].find("\n\n").map_or(at, |more| at + 2 + more));
            let _ = write!(told, "{}{}", &text[from..], String::from_utf8_lossy(&output.stderr));
            // what waits for its last user, or for the daemon that writes its last data, goes by itself
            let visited = Instant::now();
            while visited.elapsed() < Duration::from_secs(2) {
                if self.left(pid).is_empty() {
                    return visits;
                }
                std::thread::sleep(LOOKS_AGAIN);
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{case}: left: {:#?}\nthe doctor said: {told}",
                self.left(pid)
            );
        }
        unreachable!("it looks again and again")
    }
}

/// `f_type` of FUSE (statfs(2)).
const FUSE_MAGIC: u64 = 0x6573_5546;

fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Runs `killing` in a process with a mount namespace of its own, which is this test program with the one test of that name.
fn in_a_namespace_of_its_own(test: &str, killing: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return killing();
    }
    let me = std::env::current_exe().unwrap();
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(me)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare (util-linux) starts");
    assert!(status.success(), "see above");
}

#[test]
fn after_kill_nine_of_any_command_the_doctor_leaves_nothing() {
    needs!(
        Root,
        Mounts,
        Loop,
        Fuse,
        Ext4,
        Tracing,
        MemoryCgroup,
        Library,
        Runc,
        Sshfs,
        MariaDb,
        Postgres,
        RocksDb,
        Redis
    );
    in_a_namespace_of_its_own("after_kill_nine_of_any_command_the_doctor_leaves_nothing", kill_all);
}

/// Engines whose servers are to end with loadline, and the load that they are under.
const SERVERS: [(&str, &str); 5] = [
    ("postgres", "oltp-write-only"),
    ("innodb", "oltp-write-only"),
    ("myrocks", "oltp-write-only"),
    ("redis", "ycsb-a"),
    ("redis-cluster", "ycsb-a"),
];
/// Terminals of that load; more than anything that fills tables has connections.
const TERMINALS: usize = 8;
/// The longest that a load goes on before loadline is killed, in ms.
const UNDER_LOAD_MS: u64 = 700;

#[test]
fn after_kill_nine_under_load_no_server_runs_on_and_the_doctor_leaves_nothing() {
    needs!(Root, Mounts, Loop, Ext4, MariaDb, Postgres, Redis);
    in_a_namespace_of_its_own(
        "after_kill_nine_under_load_no_server_runs_on_and_the_doctor_leaves_nothing",
        kill_under_load,
    );
}

fn kill_under_load() {
    let seed = number("LOADLINE_SEED").unwrap_or(1);
    println!("LOADLINE_SEED={seed}");
    let mut moments = Moments(seed);
    let place = Place::new();
    for (engine, load) in SERVERS {
        let terminals = TERMINALS.to_string();
        let small = if load == "ycsb-a" { "recordcount=2000" } else { "rows=1000" };
        let words = ["run", load, "--engine", engine, "--terminals", &terminals, "--set", small];
        let place_of_it = ["--on", "ext4@image:1G", "--for", "100s", "-n", "1"];
        let mut command = place.loadline(&[&words[..], &place_of_it].concat());
        let log = |name: &str| std::fs::File::create(place.path(name)).unwrap();
        let mut child = command.stdout(log("out")).stderr(log("err")).spawn().unwrap();
        let begin = Instant::now();
        while place.sockets_of_trial() < TERMINALS {
            let told = std::fs::read_to_string(place.path("err")).unwrap();
            assert!(child.try_wait().unwrap().is_none(), "{engine} ended before its load began: {told}");
            assert!(begin.elapsed() < PATIENCE, "{engine}: no load within {PATIENCE:?}: {told}");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(moments.below(UNDER_LOAD_MS)));
        let running = place.processes();
        let below = running.len() - 1;
        assert!(running.len() > 2, "{engine}: loadline, the trial, a server: {running:#?}");
        child.kill().unwrap();
        child.wait().unwrap();
        let killed = Instant::now();
        // the kernel ends them; nobody has called the doctor yet
        while !place.processes().is_empty() {
            let left = place.processes();
            assert!(killed.elapsed() < PATIENCE, "{engine}: runs after {PATIENCE:?}: {left:#?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let gone = killed.elapsed();
        let left = place.left(child.id());
        assert!(left.iter().any(|what| what.starts_with("mount ")), "{engine} ran on a mount: {left:#?}");
        let visits = place.cure(child.id(), engine);
        println!(
            "{engine:14} {below} processes, gone after {gone:.2?}; {} left, doctor x{visits}: 0",
            left.len()
        );
    }
}

fn kill_all() {
    let seed = number("LOADLINE_SEED").unwrap_or(1);
    let kills = number("LOADLINE_KILLS").unwrap_or(4);
    println!("LOADLINE_SEED={seed} LOADLINE_KILLS={kills}");
    let only = std::env::var("LOADLINE_COMMAND").unwrap_or_default();
    let rows: Vec<_> =
        COMMANDS.into_iter().enumerate().filter(|(_, (name, ..))| name.contains(&only)).collect();
    // most of a row is waiting: several at a time, each in a place of its own
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                let place = Place::new();
                while let Some((number, row)) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    kill_row(&place, *row, kills, seed.wrapping_add(*number as u64 * SEED_STEP));
                }
            });
        }
    });
}

fn kill_row(place: &Place, (name, longest, words): (&str, u64, &[&str]), kills: u64, seed: u64) {
    let mut moments = Moments(seed);
    let mut line = format!("{name:24}");
    for _ in 0..kills {
        let after = Duration::from_millis(moments.below(longest));
        let (pid, ended) = place.kill(words, after);
        let made = place.left(pid).len();
        place.take_back();
        let visits = place.cure(pid, &format!("{name}, killed after {after:?}"));
        let how = if ended { "ended" } else { "killed" };
        let _ = write!(line, "  {how} after {:4} ms, {made:2} left, doctor x{visits}: 0;", after.as_millis());
    }
    println!("{line}");
}
