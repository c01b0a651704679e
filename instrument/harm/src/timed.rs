//! One program, timed: wall and CPU time, what it printed, how it ended.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::HarmError;

/// So often, five times a second, a program is asked to end before it is made to.
const PATIENCE: u32 = 15;

/// One run of the program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Wall time, s.
    pub wall: f64,
    /// CPU time of it and its children, user and system, s.
    pub cpu: [f64; 2],
    /// What it printed and how it ended.
    pub said: Said,
}

/// What a run printed on standard output, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Said {
    /// Exit code, as a shell gives it.
    pub code: i32,
    /// Length of standard output.
    pub bytes: u64,
    pub(crate) hash: u64,
}

/// Runs a program and waits for it; it and its children are ended when the end is asked for.
pub(crate) fn timed(command: &mut Command, program: &OsStr, stop: &AtomicBool) -> Result<Run, HarmError> {
    let failed = |why| HarmError::File { what: format!("cannot run {}", program.display()), why };
    let begin = Instant::now();
    host::process::end_with_parent(command);
    // A group of its own: all of it can be ended, and the terminal's Ctrl-C comes by one way.
    let mut child = command.process_group(0).spawn().map_err(failed)?;
    let over = AtomicBool::new(false);
    let (ended, printed) = std::thread::scope(|scope| {
        let (out, over) = (child.stdout.take(), &over);
        let printed = scope.spawn(move || out.map_or(Ok((0, 0)), |out| digest(out, over)));
        let ended = wait(&child, stop).map(|(status, cpu)| (status, cpu, begin.elapsed()));
        over.store(true, Ordering::Relaxed);
        (ended, printed.join().expect("reads only"))
    });
    if stop.load(Ordering::Relaxed) {
        return Err(HarmError::Interrupted);
    }
    let (status, cpu, wall) = ended.map_err(failed)?;
    let (bytes, hash) = printed.map_err(failed)?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(Run { wall: wall.as_secs_f64(), cpu, said: Said { code, bytes, hash } })
}

/// Length and hash of all that comes. A process that the program left behind may keep its output open: once it is
/// `over`, what does not come at once is not waited for.
fn digest(mut out: ChildStdout, over: &AtomicBool) -> std::io::Result<(u64, u64)> {
    let (mut bytes, mut hasher) = (0, DefaultHasher::new());
    let mut buffer = vec![0; 64 << 10];
    loop {
        let last = over.load(Ordering::Relaxed);
        if !is_ready(out.as_fd()) {
            if last {
                return Ok((bytes, hasher.finish()));
            }
            continue;
        }
        match out.read(&mut buffer)? {
            0 => return Ok((bytes, hasher.finish())),
            n => {
                bytes += n as u64;
                hasher.write(&buffer[..n]);
            }
        }
    }
}

/// Whether there is something to read within a fifth of a second: the program may need all processors.
fn is_ready(descriptor: BorrowedFd<'_>) -> bool {
    let mut wanted = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one struct that is valid for writing.
    unsafe { libc::poll(&mut wanted, 1, 200) > 0 }
}

/// Until the program has ended: how, and its CPU time.
fn wait(child: &Child, stop: &AtomicBool) -> std::io::Result<(ExitStatus, [f64; 2])> {
    let pid = child.id() as libc::pid_t;
    // SAFETY: no pointers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if descriptor >= 0 {
        // SAFETY: the system call has just made it, and nobody else has it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };
        let mut asked = 0;
        while !is_ready(descriptor.as_fd()) {
            if stop.load(Ordering::Relaxed) {
                let signal = if asked < PATIENCE { libc::SIGTERM } else { libc::SIGKILL };
                asked += 1;
                // SAFETY: the group of a child that nobody has waited for.
                unsafe { libc::kill(-pid, signal) };
            }
        }
    }
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both are valid for writing; the child has not been waited for.
    while unsafe { libc::wait4(pid, &mut status, 0, usage.as_mut_ptr()) } < 0 {
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: all zero is a valid value, and wait4 wrote more.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok((ExitStatus::from_raw(status), [seconds(usage.ru_utime), seconds(usage.ru_stime)]))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_run_tells_its_time_its_output_and_its_code() {
        let stop = AtomicBool::new(false);
        let shell = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]).stdout(Stdio::piped());
            timed(&mut command, "sh".as_ref(), &stop).unwrap()
        };
        let run = shell("sleep 0.2; echo abc; exit 3");
        assert_eq!((run.said.code, run.said.bytes), (3, 4));
        assert!(run.wall >= 0.2, "{run:?}");
        assert_eq!(shell("echo abc").said.hash, run.said.hash);
        assert_ne!(shell("echo abd").said.hash, run.said.hash);
        assert_eq!(shell("kill -9 $$").said.code, 137);
        let busy = shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
        assert!(busy.cpu[0] > 0.0, "{busy:?}");
    }

    #[test]
    fn a_process_that_is_left_behind_is_not_waited_for() {
        let stop = AtomicBool::new(false);
        let mut command = Command::new("sh");
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pid");
        command.args(["-c", "echo abc; sleep 1000000 & echo $! > \"$0\""]).arg(&path).stdout(Stdio::piped());
        let run = timed(&mut command, "sh".as_ref(), &stop).unwrap();
        let pid: i32 = std::fs::read_to_string(path).unwrap().trim().parse().unwrap();
        // SAFETY: no pointers; the process sleeps for longer than this test runs, so the number is still its own.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0, "it still runs: nobody has waited for it");
        assert_eq!(run.said.bytes, 4);
    }

    #[test]
    fn what_ignores_the_request_is_killed() {
        let stop = AtomicBool::new(false);
        let place = tempfile::tempdir().unwrap();
        let deaf = place.path().join("deaf");
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; : > \"$0\"; while :; do sleep 1; done"]).arg(&deaf);
        command.stdout(Stdio::piped());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !deaf.exists() {
                    std::thread::yield_now();
                }
                stop.store(true, Ordering::Relaxed);
            });
            assert!(matches!(timed(&mut command, "sh".as_ref(), &stop), Err(HarmError::Interrupted)));
        });
    }
}
