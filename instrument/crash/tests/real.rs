//! Real file systems on emulated SSDs.
//!
//! This program is its own daemon (hence no test harness).

use std::fs::File;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use blockdev::Launcher;
use camino::{Utf8Path, Utf8PathBuf};
use crash::oracle::Kind;
use crash::workload::builtin;
use crash::{CrashError, CrashOptions, Load, Outcome, Progress, Verdict};
use host::Host;
use journal::Journal;
use needs::{Case, Need};

/// Name, the file system that it needs, and what it does.
type Test = (&'static str, Need, fn(&Bench));

const TESTS: [Test; 12] = [
    ("ext4_survives", Need::Ext4, |bench| survives(bench, "ext4@980pro")),
    ("ext4_survives_where_order_is_kept", Need::Ext4, |bench| survives(bench, "ext4@980pro:streams")),
    ("xfs_survives", Need::Xfs, |bench| survives(bench, "xfs@980pro")),
    ("btrfs_survives", Need::Btrfs, |bench| survives(bench, "btrfs@980pro:flush")),
    ("ext4_without_barriers_is_corrupted", Need::Ext4, ext4_without_barriers_is_corrupted),
    ("power_loss_protection_makes_up_for_barriers", Need::Ext4, power_loss_protection_makes_up_for_barriers),
    ("order_alone_keeps_ext4_whole", Need::Ext4, order_alone_keeps_ext4_whole),
    ("exposed_stale_bytes_are_seen", Need::Ext4, exposed_stale_bytes_are_seen),
    ("any_load_can_be_checked_for_consistency", Need::Ext4, any_load_can_be_checked_for_consistency),
    (
        "copies_of_mounts_in_other_namespaces_are_waited_for",
        Need::Xfs,
        copies_of_mounts_in_other_namespaces_are_waited_for,
    ),
    ("a_check_ends_when_it_should", Need::Ext4, a_check_ends_when_it_should),
    ("what_a_killed_check_leaves_is_taken_away", Need::Ext4, what_a_killed_check_leaves_is_taken_away),
];

/// The hidden argument that makes this program a check, to be killed.
const VICTIM: &str = "victim";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [hidden, config] if hidden == "ssd-daemon" => return blockdev::daemon::main(config.as_str().into()),
        [hidden, dir] if hidden == VICTIM => return victim(dir.as_str().into()),
        _ => {}
    }
    let cases = TESTS.map(|(name, fs, test)| {
        let needs = [Need::Root, Need::Mounts, Need::Fuse, Need::Loop, fs];
        Case::new(name, &needs, move || {
            let bench = Bench::new();
            let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&bench))).is_ok();
            bench.is_left_clean() && fine
        })
    });
    needs::run(env!("CARGO_PKG_NAME"), "real", cases.into())
}

/// A private place, in memory where there is one.
struct Bench {
    dir: tempfile::TempDir,
    journal: Arc<Journal>,
}

impl Bench {
    fn new() -> Bench {
        let shm = std::path::Path::new("/dev/shm");
        let dir = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap();
        let journal = Journal::open(&utf8(dir.path()).join("home/journal"), "crash").unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        Bench { dir, journal }
    }

    fn path(&self, name: &str) -> Utf8PathBuf {
        utf8(self.dir.path()).join(name)
    }

    fn options(&self, stack: &str) -> CrashOptions {
        options(&utf8(self.dir.path()), stack)
    }

    fn check(&self, options: &CrashOptions, workload: &str) -> Verdict {
        let mut load = Load::Script(builtin(workload, options.seed).unwrap());
        self.run(options, &mut load, &AtomicBool::new(false)).unwrap()
    }

    fn run(&self, options: &CrashOptions, load: &mut Load, stop: &AtomicBool) -> Result<Verdict, CrashError> {
        crash::run(options, load, &self.journal, stop, &mut |_| {})
    }

    fn is_left_clean(&self) -> bool {
        let files: Vec<_> = self.path("work").read_dir_utf8().unwrap().flatten().collect();
        let mounts = Host::system().mounts().unwrap();
        let mounted: Vec<_> = mounts.iter().filter(|mount| mount.target.starts_with(self.path(""))).collect();
        let journal = self.journal.undo();
        if !files.is_empty() || !mounted.is_empty() || !journal.is_clean() {
            println!("left behind: {files:?} {mounted:?} {journal}");
        }
        files.is_empty() && mounted.is_empty()
    }
}

fn utf8(path: &std::path::Path) -> Utf8PathBuf {
    Utf8PathBuf::from_path_buf(path.canonicalize().unwrap()).unwrap()
}

fn options(dir: &Utf8Path, stack: &str) -> CrashOptions {
    let launcher = Launcher::this_program().unwrap();
    let mut options = CrashOptions::new(stack.parse().unwrap(), dir.join("home"), launcher);
    options.work_dir = Some(dir.join("work"));
    options.states = 60;
    options
}

fn survives(bench: &Bench, stack: &str) {
    let verdict = bench.check(&bench.options(stack), "random");
    assert_eq!(verdict.outcome(), Outcome::Clean, "{verdict}");
    assert_eq!((verdict.checked, verdict.distinct, verdict.exhaustive), (60, 60, false), "{verdict}");
    assert!(verdict.flushes > 20 && verdict.poisoned > 20 && verdict.states_per_minute() > 0.0, "{verdict}");
    let text = verdict.to_string();
    assert!(text.contains("60 distinct, 60 checked") && text.contains("seed 1"), "{text}");
}

fn ext4_without_barriers_is_corrupted(bench: &Bench) {
    let mut options = bench.options("ext4,nobarrier@980pro:none");
    options.keep = Some(bench.path("kept"));
    let verdict = bench.check(&options, "random");
    assert_eq!(verdict.outcome(), Outcome::Violated, "{verdict}");
    assert!(verdict.lost_as_expected > 0, "synced data is lost as well: {verdict}");
    assert!(!verdict.kinds.contains_key(&Kind::Lost), "and that is no violation here: {verdict}");
    let smallest = verdict.smallest.as_ref().unwrap();
    assert_eq!(smallest.kind, Kind::Unmountable, "{verdict}");
    assert!(smallest.lost.len() <= 2 && smallest.tried > 3, "{verdict}");
    assert!(smallest.lost[0].what.starts_with("journal: "), "{verdict}");
    // what was kept fails by itself
    let image = smallest.kept.clone().unwrap();
    let repaired = Command::new("e2fsck").args(["-f", "-y", image.as_str()]).output().unwrap();
    let told =
        format!("{}{}", String::from_utf8_lossy(&repaired.stdout), String::from_utf8_lossy(&repaired.stderr));
    assert!(!repaired.status.success() && told.contains("Journal checksum error"), "{told}");
    let text = std::fs::read_to_string(bench.path("kept/state.txt")).unwrap();
    assert!(text.contains("smallest case") && text.contains("operations:"), "{text}");
}

fn power_loss_protection_makes_up_for_barriers(bench: &Bench) {
    let verdict = bench.check(&bench.options("ext4,nobarrier@980pro"), "append-fsync");
    assert!(verdict.kinds.contains_key(&Kind::Lost), "{verdict}");
    let verdict = bench.check(&bench.options("ext4,nobarrier@plp-datacenter"), "append-fsync");
    assert_eq!((verdict.flushes, verdict.outcome()), (0, Outcome::Clean), "{verdict}");
}

/// Flushes that make nothing durable but keep the order: data is lost, and the file system is whole.
fn order_alone_keeps_ext4_whole(bench: &Bench) {
    let mut options = bench.options("ext4@980pro:barrier");
    options.order_only = true;
    let verdict = bench.check(&options, "random");
    assert_eq!((verdict.outcome(), verdict.checked, verdict.windows), (Outcome::Clean, 60, 1), "{verdict}");
    assert!(verdict.lost_as_expected > 5, "{verdict}");
    options.spec = "ext4@980pro:flush".parse().unwrap();
    let mut load = Load::Script(builtin("random", 1).unwrap());
    let error = bench.run(&options, &mut load, &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("barrier or streams"), "{error}");
}

/// data=writeback without delayed allocation commits an extent before its data.
fn exposed_stale_bytes_are_seen(bench: &Bench) {
    let stack = "ext4,data=writeback,nodelalloc,dioread_lock@980pro";
    let verdict = bench.check(&bench.options(stack), "random");
    assert!(verdict.kinds.contains_key(&Kind::Stale), "{verdict}");
    let smallest = verdict.smallest.unwrap();
    assert!(smallest.breaches[0].contains("what lay in free space before"), "{:?}", smallest.breaches);
}

fn any_load_can_be_checked_for_consistency(bench: &Bench) {
    let prepare = |root: &Utf8Path| std::fs::write(root.join("old"), [1; 5000]).map_err(|e| e.to_string());
    let run = |root: &Utf8Path| {
        let work = || {
            for i in 0..10 {
                let file = File::create(root.join(format!("f{i}")))?;
                file.set_len(100_000)?;
                file.sync_all()?;
            }
            std::fs::remove_file(root.join("old"))
        };
        work().map_err(|error| error.to_string())
    };
    let mut load = Load::Custom { name: "mine".into(), prepare: Box::new(prepare), run: Box::new(run) };
    let verdict = bench.run(&bench.options("ext4@ideal:32M"), &mut load, &AtomicBool::new(false)).unwrap();
    assert_eq!(verdict.outcome(), Outcome::Clean, "{verdict}");
    assert!(verdict.only_consistency && verdict.checked > 20, "{verdict}");
    let fails = |_: &Utf8Path| Err("it broke".to_owned());
    let mut load = Load::Custom { name: "bad".into(), prepare: Box::new(|_| Ok(())), run: Box::new(fails) };
    let error = bench.run(&bench.options("ext4@ideal:32M"), &mut load, &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("it broke"), "{error}");
}

/// Whoever enters a namespace of his own keeps the file system mounted, in which the checker would find what is not written yet.
fn copies_of_mounts_in_other_namespaces_are_waited_for(bench: &Bench) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // some time, also if the check ends otherwise
            for _ in 0..600 {
                if over.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                let entered = Command::new("unshare").args(["-m", "sleep", "0.1"]).status().unwrap();
                assert!(entered.success());
            }
        });
        let verdict = bench.check(&bench.options("xfs@980pro"), "random");
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(verdict.outcome(), Outcome::Clean, "{verdict}");
    });
}

fn a_check_ends_when_it_should(bench: &Bench) {
    let mut options = bench.options("ext4@ideal");
    let load = || Load::Script(builtin("create-fsync", 1).unwrap());
    let verdict = bench.run(&options, &mut load(), &AtomicBool::new(true)).unwrap();
    assert_eq!((verdict.outcome(), verdict.checked), (Outcome::Nothing, 0), "{verdict}");
    options.budget = Some(Duration::ZERO);
    let verdict = bench.run(&options, &mut load(), &AtomicBool::new(false)).unwrap();
    assert_eq!(verdict.outcome(), Outcome::Nothing, "{verdict}");
    for (stack, told) in [
        ("tmpfs", "cannot be brought up"),
        ("dir:/tmp", "cannot be brought up"),
        ("ext2@980pro", "choose ext4, xfs, btrfs, f2fs or betrfs"),
    ] {
        let error = bench.run(&bench.options(stack), &mut load(), &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().contains(told), "{stack}: {error}");
    }
}

/// Checks for ever.
fn victim(dir: Utf8PathBuf) -> ExitCode {
    let journal = Journal::open(&dir.join("home/journal"), "victim").unwrap();
    let mut options = options(&dir, "ext4@ideal");
    options.states = 1_000_000;
    let mut load = Load::Script(builtin("random", 1).unwrap());
    let told = crash::run(&options, &mut load, &journal, &AtomicBool::new(false), &mut |progress| {
        if let Progress::Checking { .. } = progress {
            println!("checking");
        }
    });
    println!("{told:?}");
    ExitCode::FAILURE
}

fn what_a_killed_check_leaves_is_taken_away(bench: &Bench) {
    use std::io::BufRead;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([VICTIM, bench.path("").as_str()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(line, "checking\n");
    let left = || Journal::leftovers(&bench.path("home/journal")).unwrap();
    assert!(!left().is_empty());
    // a checker that the killed process had started may hold an image for a moment
    let start = Instant::now();
    while !left().is_empty() && start.elapsed() < Duration::from_secs(300) {
        for leftover in left() {
            let _ = leftover.clean();
        }
    }
    assert!(left().is_empty());
}
