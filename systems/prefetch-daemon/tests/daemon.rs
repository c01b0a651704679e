//! Real programs on a real file system, watched as root; elsewhere these tests say why they do nothing.
//!
//! The watched program is this test program itself, started for the one test `reader` with its orders in the
//! environment.

use needs::needs;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use camino::Utf8Path;
use prefetch::{Mode, Shape};
use prefetch_daemon::{DaemonError, Outcome, Settings, Signals, Target};
use prefetch_os::area::FileSeen;
use prefetch_os::areas::{self, Found};

const FILE: &str = "PREFETCH_DAEMON_TEST_FILE";
const PATTERN: &str = "PREFETCH_DAEMON_TEST_PATTERN";
const READY: &str = "ready to be watched";
/// The directory of the statistics of the daemon, a process of this number: the reader waits until it is prefetched for.
const STATISTICS: &str = "PREFETCH_DAEMON_TEST_STATISTICS";
const DAEMON_OF: &str = "PREFETCH_DAEMON_TEST_PID";
/// Arguments that have this program be the reader. One thread, which libtest takes by itself on one processor, would have it begin a
/// line with the test's name, and what the reader says first would stand behind that.
const READER: [&str; 5] = ["--ignored", "--exact", "reader", "--nocapture", "--test-threads=2"];
const BLOCK: u64 = 16 << 10;
const SIZE: u64 = 64 << 20;

/// Work of the watched program's own between two accesses, in which prefetching gets ahead. Until something was asked for
/// it takes its time: how soon a daemon is given a processor is not what is tested.
struct Work {
    statistics: Option<(PathBuf, u32)>,
}

impl Work {
    fn new() -> Work {
        let orders = std::env::var(STATISTICS).ok();
        let orders =
            orders.and_then(|text| text.rsplit_once(' ').map(|(d, p)| (d.into(), p.parse().unwrap())));
        Work { statistics: orders }
    }

    fn pause(&mut self) {
        if let Some((directory, pid)) = &self.statistics {
            let issued = |found: Found| found.snapshot.total().issued > 0;
            if !areas::of(&[directory], *pid).is_some_and(issued) {
                return std::thread::sleep(Duration::from_millis(50));
            }
            self.statistics = None;
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// The watched program: only does something when it is started with orders.
#[test]
#[ignore = "no test: a process of the others"]
fn reader() {
    let (Some(path), Ok(pattern)) = (std::env::var_os(FILE), std::env::var(PATTERN)) else { return };
    let file = File::open(&path).unwrap();
    if pattern == "wait" {
        // Not before it is watched, which is not before its thread exists.
        println!("\n{READY}");
        assert_eq!(std::io::stdin().read(&mut [0]).unwrap(), 1);
    }
    let count = SIZE / (5 * BLOCK);
    let offset = |at: u64| match pattern.as_str() {
        "reverse" => SIZE - (at + 1) * BLOCK,
        _ => at * 5 * BLOCK,
    };
    if pattern == "mmap" {
        return touch(&file, (0..count).map(offset));
    }
    let mut buffer = vec![0; BLOCK as usize];
    let mut work = Work::new();
    for at in 0..count {
        if pattern == "change" && at == count / 2 {
            change(Path::new(&path), offset(at));
        }
        if pattern == "change" && at >= count / 2 {
            assert_eq!(file.read_at(&mut buffer, offset(at)).unwrap(), 0);
            continue;
        }
        file.read_exact_at(&mut buffer, offset(at)).unwrap();
        assert_eq!(buffer[0], (offset(at) / BLOCK) as u8);
        work.pause();
    }
    if pattern == "wait" {
        drop(file);
        // It lives on until it is told to end.
        assert_eq!(std::io::stdin().read(&mut [0]).unwrap(), 0);
    }
}

/// Cuts a file off, renames and deletes it.
fn change(path: &Path, len: u64) {
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
    let other = path.with_extension("renamed");
    std::fs::rename(path, &other).unwrap();
    std::fs::remove_file(other).unwrap();
}

/// A daemon in a process of its own: only does something when it is started with orders.
#[test]
#[ignore = "no test: a process of the others"]
fn daemon() {
    let (Some(directory), Ok(pid)) = (std::env::var_os(FILE), std::env::var(DAEMON_OF)) else { return };
    let target = Target::Pids(vec![pid.parse().unwrap()]);
    prefetch_daemon::run(settings(target, Mode::Predict, Path::new(&directory)), &Signals::default())
        .unwrap();
}

fn touch(file: &File, offsets: impl Iterator<Item = u64>) {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
    // SAFETY: a fresh mapping of a file that nobody changes, read within its length and then removed.
    unsafe {
        let base =
            mmap(std::ptr::null_mut(), SIZE as usize, ProtFlags::READ, MapFlags::SHARED, file, 0).unwrap();
        madvise(base, SIZE as usize, Advice::Random).unwrap();
        let mut work = Work::new();
        for offset in offsets {
            let first = base.cast::<u8>().add(offset as usize);
            assert_eq!(first.read_volatile(), (offset / BLOCK) as u8);
            work.pause();
        }
        munmap(base, SIZE as usize).unwrap();
    }
}

/// Runs `then` with a file of [`SIZE`] bytes on a fresh ext4 that nothing of it is cached of.
fn with_file(then: impl FnOnce(&Path)) {
    let directory = tempfile::tempdir().unwrap();
    let work_dir = Utf8Path::from_path(directory.path()).unwrap();
    let journal = journal::Journal::open(&work_dir.join("journal"), "prefetch-daemon-test").unwrap();
    let built = stack::Builder::new(work_dir).build(&"ext4@image:256M".parse().unwrap(), &journal).unwrap();
    let path = built.path().as_std_path().join("data");
    let file = File::create_new(&path).unwrap();
    for at in 0..SIZE / BLOCK {
        file.write_all_at(&vec![at as u8; BLOCK as usize], at * BLOCK).unwrap();
    }
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    drop(file);
    then(&path);
    // A file that is still held would keep it mounted. The loop device others may look at in that moment: its detaching
    // is then the kernel's, when they are done.
    let report = match built.teardown() {
        Ok(report) | Err(stack::StackError::Teardown(report)) => report,
        Err(error) => panic!("{error}"),
    };
    let mut steps = report.steps.iter();
    let done = steps.all(|step| {
        let is_loop = matches!(step.resource, journal::Resource::LoopDevice { .. });
        is_loop || matches!(step.outcome, journal::Outcome::Undone)
    });
    assert!(done, "{report:?}");
}

/// The reader; with `statistics`, until it is prefetched for, with time between its accesses.
fn command(path: &Path, pattern: &str, statistics: Option<&Path>) -> Target {
    let own = std::env::current_exe().unwrap();
    let mut words: Vec<std::ffi::OsString> = vec!["env".into()];
    words.push(format!("{FILE}={}", path.display()).into());
    words.push(format!("{PATTERN}={pattern}").into());
    words.extend(statistics.map(|d| format!("{STATISTICS}={} {}", d.display(), std::process::id()).into()));
    words.push(own.into());
    words.extend(READER.map(Into::into));
    Target::Command(words)
}

fn settings(target: Target, mode: Mode, directory: &Path) -> Settings {
    Settings { target, mode, budget_mib: None, directory: Some(directory.to_owned()) }
}

/// What is known of the file: the program's own executable may have been missed in as well.
fn of<'a>(found: &'a Found, path: &Path) -> &'a FileSeen {
    let mut files = found.snapshot.files.iter();
    files.find(|file| Path::new(&file.path) == path).unwrap_or_else(|| panic!("{found:?}"))
}

/// The statistics lie in the file of this process: one daemon at a time.
static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn watched(path: &Path, pattern: &str, mode: Mode) -> (Outcome, Found) {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let directory = tempfile::tempdir().unwrap();
    let statistics = (mode == Mode::Predict).then_some(directory.path());
    let settings = settings(command(path, pattern, statistics), mode, directory.path());
    let outcome = prefetch_daemon::run(settings, &Signals::default()).unwrap();
    assert!(outcome.status.unwrap().success());
    (outcome, areas::of(&[directory.path()], std::process::id()).unwrap())
}

#[test]
fn strided_and_reverse_readers_are_prefetched() {
    needs!(Root, Tracing, Mounts, Loop, Ext4);
    with_file(|path| {
        for pattern in ["stride", "reverse"] {
            // What is cached of the first turn would be hits in the second.
            rustix::fs::fadvise(File::open(path).unwrap(), 0, None, rustix::fs::Advice::DontNeed).unwrap();
            let (outcome, found) = watched(path, pattern, Mode::Predict);
            let file = of(&found, path);
            assert_eq!(file.size, SIZE);
            let c = &file.counters;
            assert!(c.issued > 0 && c.useful > 0, "{pattern}: {c:?}, {outcome:?}");
            let shape = if pattern == "reverse" { Shape::Backward } else { Shape::Stride(5 * BLOCK as i64) };
            assert!(file.shape == shape || file.shape == Shape::Unknown, "{pattern}: {:?}", file.shape);
            assert!(outcome.events > 0);
        }
    });
}

#[test]
fn touches_of_a_mapping_are_prefetched() {
    needs!(Root, Tracing, Mounts, Loop, Ext4);
    with_file(|path| {
        let (outcome, found) = watched(path, "mmap", Mode::Predict);
        let c = &of(&found, path).counters;
        assert!(c.issued > 0 && c.useful > 0, "{c:?}, {outcome:?}");
    });
}

#[test]
fn observing_asks_for_nothing() {
    needs!(Root, Tracing, Mounts, Loop, Ext4);
    with_file(|path| {
        let (_, found) = watched(path, "stride", Mode::Observe);
        let c = &of(&found, path).counters;
        assert!(c.reads > 0 && c.issued == 0, "{c:?}");
    });
}

/// Waits until something holds, however slow the machine is.
fn until(mut holds: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(300), "this never happens");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether this process, of which the daemon is a thread, has a file open.
fn is_held(path: &Path) -> bool {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    links.filter_map(|link| std::fs::read_link(link.path()).ok()).any(|target| target == path)
}

#[test]
fn a_file_that_its_program_closed_is_let_go_while_both_live_on() {
    needs!(Root, Tracing, Mounts, Loop, Ext4);
    with_file(|path| {
        let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let directory = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(READER)
            .envs([(FILE, path.to_str().unwrap()), (PATTERN, "wait")])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap() == READY));
        let settings = settings(Target::Pids(vec![child.id()]), Mode::Predict, directory.path());
        let daemon = std::thread::spawn(|| prefetch_daemon::run(settings, &Signals::default()).unwrap());
        let own = std::process::id();
        until(|| directory.path().join(own.to_string()).exists());
        let mut orders = child.stdin.take().unwrap();
        orders.write_all(b"!").unwrap();
        let knows = |found: Found| found.snapshot.files.iter().any(|file| Path::new(&file.path) == path);
        until(|| areas::of(&[directory.path()], own).is_some_and(knows));
        until(|| !is_held(path));
        assert!(!daemon.is_finished() && child.try_wait().unwrap().is_none());
        drop(orders);
        assert!(child.wait().unwrap().success());
        assert!(daemon.join().unwrap().events > 0);
    });
}

#[test]
fn a_file_may_be_cut_off_renamed_and_deleted_while_it_is_followed() {
    needs!(Root, Tracing, Mounts, Loop, Ext4);
    with_file(|path| {
        let (_, found) = watched(path, "change", Mode::Predict);
        let c = &of(&found, path).counters;
        assert!(c.issued > 0 && c.useful > 0, "{c:?}");
        assert!(!path.exists());
    });
}

#[test]
fn after_a_kill_the_next_one_clears_up_and_works() {
    needs!(Root, Tracing, Mounts, Loop, Ext4);
    with_file(|path| {
        let directory = tempfile::tempdir().unwrap();
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let orders =
            [(FILE, directory.path().as_os_str().to_owned()), (DAEMON_OF, sleeper.id().to_string().into())];
        let mut killed = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "daemon"])
            .envs(orders)
            .spawn()
            .unwrap();
        until(|| directory.path().join(killed.id().to_string()).exists());
        killed.kill().unwrap();
        killed.wait().unwrap();
        let (outcome, found) = watched(path, "stride", Mode::Predict);
        let c = &of(&found, path).counters;
        assert!(c.issued > 0, "{c:?}, {outcome:?}");
        let left = format!("loadline-{}-", killed.id());
        for root in ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"] {
            let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
            let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            assert_eq!(names.find(|name| name.starts_with(&left)), None);
        }
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    });
}

#[test]
fn a_signal_ends_it_and_leaves_nothing() {
    needs!(Root, Tracing);
    let directory = tempfile::tempdir().unwrap();
    let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let signals = Signals::default();
    signals.stop.store(true, Ordering::Relaxed);
    let target = Target::Pids(vec![sleeper.id()]);
    let outcome = prefetch_daemon::run(settings(target, Mode::Auto, directory.path()), &signals).unwrap();
    assert_eq!((outcome.status, outcome.lost), (None, 0));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn nobody_to_watch_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    for target in [Target::Pids(vec![]), Target::Command(vec![]), Target::Cgroup("/no/such".into())] {
        let error = prefetch_daemon::run(settings(target, Mode::Auto, directory.path()), &Signals::default());
        assert!(matches!(error, Err(DaemonError::Target(_))), "{error:?}");
    }
}
