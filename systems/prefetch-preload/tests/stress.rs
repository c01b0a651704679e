//! The library under threads, forks, signals, locks and a panic of its own. Each test runs this program again
//! under LD_PRELOAD, with the part to play in an environment variable.

mod common;

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prefetch_os::area::Snapshot;

const PART: &str = "LOADLINE_TEST_PART";
const FILE: &str = "LOADLINE_TEST_FILE";

fn again(part: &str, file: &Path, statistics: &Path, extra: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(PART, part).env(FILE, file).env("LD_PRELOAD", common::library());
    command.env("LOADLINE_PREFETCH", "auto").env("LOADLINE_PREFETCH_DIR", statistics);
    command.envs(extra.iter().copied());
    command.output().unwrap()
}

fn assert_done(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{} {text} {}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("PART DONE"), "{text}");
}

/// Runs a part on a cold file of so many MiB; what the statistics say afterwards.
fn play(part: &str, mib: u64, extra: &[(&str, &str)]) -> Vec<Snapshot> {
    let directory = common::directory();
    let file = directory.path().join("data");
    common::cold_file(&file, mib);
    let statistics = common::directory();
    assert_done(&again(part, &file, statistics.path(), extra));
    let seen = common::pages(statistics.path());
    let prefetched = seen.iter().any(|page| page.total().issued > 0);
    assert!(prefetched || !extra.is_empty(), "nothing was prefetched: {seen:?}");
    seen
}

/// Reads a cold file until the library prefetches: what a part tests is what happens beside it.
fn with_prefetching(path: &Path) {
    let size = std::fs::metadata(path).unwrap().len();
    common::until("something is prefetched", || {
        common::drop_cache(path);
        stride(&File::open(path).unwrap(), size);
        common::prefetches()
    });
}

#[test]
fn threads_read_what_is_there() {
    let seen = play("threads", 64, &[]);
    assert!(seen.iter().any(|s| s.files.iter().any(|f| f.counters.reads > 100)), "{seen:?}");
}

#[test]
fn forks_and_signals_do_no_harm() {
    play("forks", 32, &[]);
}

#[test]
fn locks_descriptors_and_errno_stay_as_they_were() {
    play("locks", 64, &[]);
}

/// The library is held while it has a file open that it fetches: a lock taken then, in another thread, must not go with it.
#[cfg(debug_assertions)]
#[test]
fn a_lock_taken_while_a_file_is_fetched_stays() {
    let fifo = common::directory();
    let fifo = fifo.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fetched = series("lock-beside", &[("LOADLINE_PREFETCH_HOLD", fifo.to_str().unwrap())]);
    assert!(fetched > 0, "nothing was fetched: this shows nothing");
}

#[test]
fn a_lock_from_before_execve_stays() {
    assert!(series("open-series", &[]) > 0, "nothing would be fetched: this shows nothing");
    assert_eq!(series("lock-and-execute", &[]), 0, "files fetched beside a lock");
}

/// Plays a part beside a series of numbered files; how many were fetched.
fn series(part: &str, extra: &[(&str, &str)]) -> u64 {
    let (directory, statistics) = (common::directory(), common::directory());
    (0..SERIES).for_each(|at| common::cold_file(&member(directory.path(), at), 1));
    assert_done(&again(part, &member(directory.path(), 0), statistics.path(), extra));
    common::pages(statistics.path()).iter().map(|page| page.walked.0).sum()
}

#[test]
fn namespaces_and_credentials_can_be_changed_after_prefetching() {
    play("unshare", 64, &[]);
}

#[test]
fn cancelled_threads_unwind_through_the_hooks() {
    play("cancel", 8, &[]);
}

#[cfg(debug_assertions)]
#[test]
fn a_panic_in_the_core_leaves_the_program_running() {
    let seen = play("threads", 16, &[("LOADLINE_PREFETCH_PANIC", "200")]);
    assert!(seen.iter().any(|s| s.panics > 0), "{seen:?}");
}

/// The program under the library: only when it is told its part.
#[test]
#[ignore = "no test: the others run it in a process of its own"]
fn child() {
    let Ok(part) = std::env::var(PART) else { return };
    let path = PathBuf::from(std::env::var_os(FILE).unwrap());
    match part.as_str() {
        "threads" => {
            // With a panic ahead nothing may be prefetched.
            if std::env::var_os("LOADLINE_PREFETCH_PANIC").is_none() {
                with_prefetching(&path);
                common::drop_cache(&path);
            }
            threads(&path);
        }
        "forks" => forks(&path),
        "locks" => locks(&path),
        "unshare" => unshare(&path),
        "cancel" => cancel(&path),
        "lock-beside" => lock_beside(path.parent().unwrap()),
        "open-series" => drop(open_series(path.parent().unwrap())),
        "lock-and-execute" => lock_and_execute(path.parent().unwrap()),
        "executed" => executed(path.parent().unwrap()),
        _ => panic!("no such part"),
    }
    println!("PART DONE");
}

/// Reads and checks what was read: every 8 bytes are their own offset.
fn check(file: &File, offset: u64, len: usize) {
    let offset = offset / 8 * 8;
    let mut buffer = vec![0; len];
    let got = file.read_at(&mut buffer, offset).unwrap();
    for (at, word) in buffer[..got].chunks_exact(8).enumerate() {
        assert_eq!(u64::from_le_bytes(word.try_into().unwrap()), offset + at as u64 * 8);
    }
}

/// Reads with a stride, so that a stream is confirmed and prefetched when the file is cold.
fn stride(file: &File, size: u64) {
    (0..size / 163_840).for_each(|i| check(file, i * 163_840, 16_384));
}

fn threads(path: &Path) {
    let size = std::fs::metadata(path).unwrap().len();
    let shared = File::open(path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            let shared = &shared;
            scope.spawn(move || {
                for round in 0..4 {
                    let own = File::open(path).unwrap();
                    let file = if thread % 2 == 0 { shared } else { &own };
                    match (thread + round) % 3 {
                        0 => stride(file, size),
                        1 => (0..size / 65_536).rev().for_each(|i| check(file, i * 65_536, 65_536)),
                        _ => (0..500).for_each(|i| check(file, i * 7_919 * 4_096 % size, 4_096)),
                    }
                }
            });
        }
    });
}

static SIGNAL_FILE: AtomicI32 = AtomicI32::new(-1);
static SIGNAL_AT: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_alarm(_: i32) {
    let mut byte = [0u8; 512];
    let at = SIGNAL_AT.fetch_add(40_960, Ordering::Relaxed) % (16 << 20);
    // SAFETY: pread and the buffer: allowed in a signal handler.
    unsafe {
        let before = *libc::__errno_location();
        libc::pread(SIGNAL_FILE.load(Ordering::Relaxed), byte.as_mut_ptr().cast(), byte.len(), at as i64);
        *libc::__errno_location() = before;
    }
}

/// Forks of a run: enough for each of the moments in which one may come.
const FORKS_MIN: usize = 100;

/// Ends the threads of a scope with it, after a failure too.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn forks(path: &Path) {
    let size = std::fs::metadata(path).unwrap().len();
    with_prefetching(path);
    let signalled = File::open(path).unwrap();
    SIGNAL_FILE.store(signalled.as_raw_fd(), Ordering::Relaxed);
    // SAFETY: a handler that only reads; a timer.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_alarm as extern "C" fn(i32) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        let every = libc::timeval { tv_sec: 0, tv_usec: 700 };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
    let file = File::open(path).unwrap();
    let seconds = std::env::var("LOADLINE_STRESS_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&done);
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    stride(&file, size);
                }
            });
        }
        let mut forks = 0;
        while forks < FORKS_MIN || Instant::now() < end {
            // Something to prefetch for the children, too.
            if forks % 8 == 0 {
                common::drop_cache(path);
            }
            // SAFETY: the child only reads through descriptors it has, and leaves without unwinding.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let mut buffer = [0u8; 4096];
                for i in 0..400i64 {
                    // SAFETY: the buffer is valid for its length.
                    let got = unsafe {
                        libc::pread(
                            file.as_raw_fd(),
                            buffer.as_mut_ptr().cast(),
                            4096,
                            i * 40_960 % size as i64,
                        )
                    };
                    if got != 4096
                        || i64::from_le_bytes(buffer[..8].try_into().unwrap()) != i * 40_960 % size as i64
                    {
                        // SAFETY: ends the child.
                        unsafe { libc::_exit(9) };
                    }
                }
                // SAFETY: ends the child.
                unsafe { libc::_exit(0) };
            }
            let mut status = 0;
            // SAFETY: waits for the child made above; interrupted by the timer, it waits on.
            while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {}
            assert_eq!(status, 0);
            assert!(Command::new("true").status().unwrap().success());
            forks += 1;
        }
        println!("{forks} forks");
    });
}

fn locks(path: &Path) {
    let size = std::fs::metadata(path).unwrap().len();
    let file = File::options().read(true).write(true).open(path).unwrap();
    lock(file.as_raw_fd());
    let lowest = File::open("/dev/null").unwrap().as_raw_fd();
    let mut buffer = vec![0; 16_384];
    common::until("something is prefetched", || {
        // SAFETY: no pointers; then this thread's errno. Opening the file anew to drop it would drop the lock, too.
        unsafe {
            libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
            *libc::__errno_location() = 77;
        }
        for i in 0..size / 163_840 {
            // SAFETY: the buffer is valid for its length.
            unsafe {
                libc::pread(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), (i * 163_840) as i64)
            };
            // SAFETY: this thread's errno.
            assert_eq!(unsafe { *libc::__errno_location() }, 77);
        }
        common::prefetches()
    });
    (0..size / 4096).for_each(|i| check(&file, i * 7919 % (size / 4096) * 4096, 4096));
    assert_eq!(File::open("/dev/null").unwrap().as_raw_fd(), lowest);
    assert!(is_locked(file.as_raw_fd()), "the lock is gone");
}

/// All of a file.
static WHOLE: libc::flock =
    libc::flock { l_type: libc::F_WRLCK as i16, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 };

/// Locks a file.
fn lock(fd: RawFd) {
    // SAFETY: the structure lives through the call.
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETLK, &raw const WHOLE) }, 0);
}

/// Whether another process finds a file locked.
fn is_locked(fd: RawFd) -> bool {
    // SAFETY: the child makes system calls only and leaves without unwinding.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: the structure lives through the call; then the child ends.
        unsafe {
            let free = libc::fcntl(fd, libc::F_SETLK, &raw const WHOLE) == 0;
            let held = !free && matches!(*libc::__errno_location(), libc::EAGAIN | libc::EACCES);
            libc::_exit(if held { 5 } else { 0 });
        }
    }
    end_of(pid) == Some(5)
}

/// Files of a series, 1 MiB each.
const SERIES: usize = 24;

fn member(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("part-{number:03}"))
}

/// Reads the first files of a series, after which the next ones are fetched. They stay open: closing them, too, would drop
/// locks.
fn open_series(directory: &Path) -> Vec<File> {
    let open = |at| {
        let file = File::open(member(directory, at)).unwrap();
        (0..8).for_each(|piece| check(&file, piece << 17, 1 << 17));
        file
    };
    (0..SERIES / 2).map(open).collect()
}

fn open_to_lock(directory: &Path) -> Vec<File> {
    (0..SERIES).map(|at| File::options().write(true).open(member(directory, at)).unwrap()).collect()
}

#[cfg(debug_assertions)]
fn lock_beside(directory: &Path) {
    let fifo = std::env::var_os("LOADLINE_PREFETCH_HOLD").unwrap();
    std::thread::scope(|scope| {
        let opener = scope.spawn(|| open_series(directory));
        // There is a reader once the library has a file open, and it goes on when there is no writer any more.
        let mut writer = None;
        common::until("the library has a file open", || {
            let opened = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(&fifo);
            writer = opened.ok();
            writer.is_some()
        });
        let locked = open_to_lock(directory);
        locked.iter().for_each(|file| lock(file.as_raw_fd()));
        drop(writer);
        let _open = opener.join().unwrap();
        for (at, file) in locked.iter().enumerate() {
            assert!(is_locked(file.as_raw_fd()), "the lock of file {at} is gone");
        }
    });
}

#[cfg(not(debug_assertions))]
fn lock_beside(_: &Path) {}

/// Locks all files of a series and becomes this program anew, with another part.
fn lock_and_execute(directory: &Path) {
    use std::os::unix::process::CommandExt;
    let locked = open_to_lock(directory);
    for file in &locked {
        lock(file.as_raw_fd());
        // SAFETY: no pointers. It stays open through execve(2).
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) }, 0);
    }
    let numbers: Vec<String> = locked.iter().map(|file| file.as_raw_fd().to_string()).collect();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"]);
    panic!("{}", command.env(PART, "executed").env(LOCKED, numbers.join(" ")).exec());
}

/// The descriptors of the locked files.
const LOCKED: &str = "LOADLINE_TEST_LOCKED";

fn executed(directory: &Path) {
    let numbers = std::env::var(LOCKED).unwrap();
    let _open = open_series(directory);
    for (at, fd) in numbers.split(' ').enumerate() {
        assert!(is_locked(fd.parse().unwrap()), "the lock of file {at} is gone");
    }
}

/// The exit code of a child.
fn end_of(pid: libc::pid_t) -> Option<i32> {
    let mut status = 0;
    // SAFETY: waits for a child of this process; the status is valid for writing.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
}

fn tasks() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

fn unshare(path: &Path) {
    // The test harness has a second thread itself, so the call that needs a single one is made in a child.
    // SAFETY: the child leaves without unwinding.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        with_prefetching(path);
        let before = tasks();
        // SAFETY: no pointers.
        let code = unsafe {
            let refused = libc::unshare(libc::CLONE_NEWUSER) != 0;
            // Without user namespaces (EPERM, ENOSPC) nothing is said; EINVAL would mean a second thread.
            match (refused, *libc::__errno_location()) {
                (true, libc::EINVAL) => 3,
                (true, _) => REFUSED,
                _ => 0,
            }
        };
        let alone = tasks() == 1;
        let code = if before == 1 && alone { code } else { 4 };
        // SAFETY: ends the child.
        unsafe { libc::_exit(code) };
    }
    match end_of(pid) {
        Some(REFUSED) => println!("not run: user namespaces are refused here"),
        code => {
            assert_eq!(code, Some(0), "3: refused for a second thread; 4: there is one")
        }
    }
}

/// The exit code of a child that may not make a user namespace.
const REFUSED: i32 = 77;

/// The thread that is to be cancelled, once it is about to read.
static READER: AtomicI32 = AtomicI32::new(0);

fn thread_number() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// After it has said who it is, the first thing the thread can wait for is its read.
fn is_reader_waiting() -> bool {
    let tid = READER.load(Ordering::Relaxed);
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
    tid != 0 && stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
}

fn cancel(path: &Path) {
    type Start = extern "C-unwind" fn(*mut libc::c_void) -> *mut libc::c_void;
    // As glibc has them: a thread that is cancelled is unwound through `read` and through what it was started with.
    unsafe extern "C-unwind" {
        fn read(fd: libc::c_int, buffer: *mut libc::c_void, count: usize) -> isize;
        fn pthread_create(
            thread: *mut libc::pthread_t,
            attributes: *const libc::pthread_attr_t,
            start: Start,
            argument: *mut libc::c_void,
        ) -> libc::c_int;
        fn pthread_cancel(thread: libc::pthread_t) -> libc::c_int;
    }
    extern "C-unwind" fn reader(pipe: *mut libc::c_void) -> *mut libc::c_void {
        let mut byte = 0u8;
        READER.store(thread_number(), Ordering::Relaxed);
        // SAFETY: blocks in a cancellation point until it is cancelled.
        unsafe { read(pipe as i32, (&raw mut byte).cast(), 1) };
        std::ptr::null_mut()
    }
    with_prefetching(path);
    let mut ends = [0; 2];
    // SAFETY: a pipe nobody writes to, threads that are joined, pointers to locals that live on.
    unsafe {
        libc::pipe(ends.as_mut_ptr());
        for _ in 0..20 {
            let mut thread: libc::pthread_t = std::mem::zeroed();
            let pipe = ends[0] as usize as *mut libc::c_void;
            assert_eq!(pthread_create(&raw mut thread, std::ptr::null(), reader, pipe), 0);
            common::until("the thread waits in read(2)", is_reader_waiting);
            READER.store(0, Ordering::Relaxed);
            assert_eq!(pthread_cancel(thread), 0);
            let mut result = std::ptr::null_mut();
            libc::pthread_join(thread, &raw mut result);
            // PTHREAD_CANCELED.
            assert_eq!(result as isize, -1);
        }
    }
}
