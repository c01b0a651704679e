//! Programs under a system call filter are left alone: a call that the filter does not know would end them. Each test runs
//! this program again under LD_PRELOAD, with the part to play in an environment variable.

mod common;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

const PART: &str = "LOADLINE_TEST_PART";
const FILE: &str = "LOADLINE_TEST_FILE";
const MIB: u64 = 64;
/// cachestat(2), newer than libc's list.
const SYS_CACHESTAT: libc::c_long = 451;

/// Whoever asks for data to be read ahead, or what is cached of a file, is killed.
fn filter() -> [libc::sock_filter; 5] {
    // SAFETY: no pointers: they make plain instructions.
    unsafe {
        let jump = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        let end = (libc::BPF_RET | libc::BPF_K) as u16;
        [
            // The number of the call is the first word of `seccomp_data`.
            libc::BPF_STMT((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0),
            libc::BPF_JUMP(jump, libc::SYS_readahead as u32, 2, 0),
            libc::BPF_JUMP(jump, SYS_CACHESTAT as u32, 1, 0),
            libc::BPF_STMT(end, libc::SECCOMP_RET_ALLOW),
            libc::BPF_STMT(end, libc::SECCOMP_RET_KILL_PROCESS),
        ]
    }
}

/// Puts this thread under the filter.
fn filtered() -> bool {
    let mut rules = filter();
    let program = libc::sock_fprog { len: rules.len() as u16, filter: rules.as_mut_ptr() };
    // SAFETY: the program and its rules live through the calls.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

/// Runs a part on a cold file, `before` its exec in its process.
fn play(part: &str, extra: Option<(&str, &str)>, is_filtered: bool) -> (ExitStatus, usize) {
    let directory = common::directory();
    let file = directory.path().join("data");
    common::cold_file(&file, MIB);
    let statistics = common::directory();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(PART, part).env(FILE, &file).env("LD_PRELOAD", common::library());
    command.env("LOADLINE_PREFETCH", "auto").env("LOADLINE_PREFETCH_DIR", statistics.path());
    command.envs(extra);
    if is_filtered {
        // SAFETY: system calls only.
        unsafe {
            command.pre_exec(|| match filtered() {
                true => Ok(()),
                false => Err(std::io::Error::last_os_error()),
            });
        }
    }
    let status = command.output().unwrap().status;
    (status, common::pages(statistics.path()).len())
}

/// Reads with a stride, which is prefetched where it may be.
fn stride(path: &Path) {
    let file = File::open(path).unwrap();
    let mut buffer = [0; 16_384];
    (0..(MIB << 20) / 163_840).for_each(|at| file.read_exact_at(&mut buffer, at * 163_840).unwrap());
}

/// Reads until the library prefetches.
fn with_prefetching(path: &Path) {
    common::until("something is prefetched", || {
        common::drop_cache(path);
        stride(path);
        common::prefetches()
    });
}

/// Plays the part that the environment names: run by the tests below only.
#[test]
#[ignore = "no test: a part of the others"]
fn child() {
    let path = PathBuf::from(std::env::var_os(FILE).unwrap());
    let part = std::env::var(PART).unwrap();
    if part == "begin" {
        return (0..20).for_each(|_| {
            common::drop_cache(&path);
            stride(&path);
        });
    }
    with_prefetching(&path);
    strict(&path);
}

/// Only read, write and exit are left to this thread. The test harness could not live so: a child of its own does.
fn strict(path: &Path) {
    let file = File::open(path).unwrap();
    let mut buffer = [0u8; 65_536];
    // SAFETY: the child makes system calls only, and ends itself by one that is allowed; the buffer is valid.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: as above.
        unsafe {
            let refused = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) != 0;
            while !refused && libc::read(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) > 0 {}
            libc::syscall(libc::SYS_exit, i32::from(refused));
        }
    }
    let mut status = 0;
    // SAFETY: waits for the child made above; the status is valid for writing.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "killed, or the mode was refused");
}

#[test]
fn who_begins_under_a_filter_is_not_watched() {
    let (status, pages) = play("begin", None, true);
    assert!(status.success() && pages == 0, "{status} {pages}");
    // The same filter ends it where it is told that its calls are allowed: these reads would have been prefetched.
    let (status, _) = play("begin", Some(("LOADLINE_PREFETCH_SECCOMP", "1")), true);
    assert_eq!(status.signal(), Some(libc::SIGSYS), "{status}");
    let (status, pages) = play("begin", None, false);
    assert!(status.success() && pages > 0, "{status} {pages}");
}

#[test]
fn who_puts_itself_under_a_filter_is_let_go() {
    let (status, pages) = play("strict", None, false);
    assert!(status.success() && pages > 0, "{status} {pages}");
}
