//! One program, timed: wall and CPU time, what it printed, how it ended.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use analysis::paired::{Run, RunOutput};
use journal::{Cgroup, CgroupError, Journal, MemoryLimit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::{PairedError, with_path};

/// So long a program may take to end when it is asked to; then it is made to.
const PATIENCE: Duration = Duration::from_secs(3);
const WAKE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// So much of what a program prints is kept.
const KEPT_BYTES: usize = 1 << 20;

/// Where programs run.
#[derive(Debug, Clone, Copy)]
pub struct TrialSetup<'a> {
    /// Of what is made for them.
    pub journal: &'a Arc<Journal>,
    /// Whether the end is asked for.
    pub stop: &'a AtomicBool,
    /// A private directory.
    pub scratch: &'a Path,
}

/// A program that has ended by itself.
#[derive(Debug)]
pub struct ProgramExit {
    /// Its times, output and code.
    pub run: Run,
    /// How it ended.
    pub status: ExitStatus,
    /// The first MiB of what it printed on standard output.
    pub output: Vec<u8>,
    /// The most memory of its cgroup, page cache included; 0: not known.
    pub peak_bytes: u64,
}

impl TrialSetup<'_> {
    /// Runs a program without input, in `group` or where this process is, and waits for it. It and its children are ended
    /// when the end is asked for, or it has taken longer than `time`.
    ///
    /// # Errors
    /// It cannot be started; [`PairedError::Interrupted`], [`PairedError::TooLong`].
    pub fn run(
        &self,
        command: &mut Command,
        group: Option<Cgroup>,
        time: Duration,
    ) -> Result<ProgramExit, PairedError> {
        if let Some(group) = &group {
            group.start_in(command).map_err(cannot_limit)?;
        }
        let errors = self.errors();
        let errors = File::create(&errors).map_err(with_path("create", errors))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut ran = timed(command, self.stop, time)?;
        let used = group.and_then(|group| group.stats().ok());
        ran.peak_bytes = used.and_then(|used| used.peak_bytes).unwrap_or(0);
        Ok(ran)
    }

    /// What the last program printed on standard error.
    pub fn last_errors(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.errors()).unwrap_or_default()).into_owned()
    }

    fn errors(&self) -> PathBuf {
        self.scratch.join("errors")
    }

    /// A memory cgroup for one run, with a limit in bytes or without.
    ///
    /// # Errors
    /// [`PairedError::CannotHere`].
    pub fn group(&self, limit: Option<u64>) -> Result<Cgroup, PairedError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("paired-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Cgroup::create(&name, limit.map(MemoryLimit::bytes), self.journal).map_err(cannot_limit)
    }
}

fn cannot_limit(error: CgroupError) -> PairedError {
    PairedError::CannotHere(format!(
        "memory cannot be limited ({error}): it takes root and a writable memory cgroup; --memory none does without"
    ))
}

/// Runs a program whose standard output is a pipe.
fn timed(command: &mut Command, stop: &AtomicBool, time: Duration) -> Result<ProgramExit, PairedError> {
    let program = Path::new(command.get_program()).display().to_string();
    let failed = |why| with_path("run", &program)(why);
    host::process::end_with_parent(command);
    let begin = Instant::now();
    // A group of its own: all of it can be ended, and the terminal's Ctrl-C comes by one way.
    let mut child = command.process_group(0).spawn().map_err(failed)?;
    let mut printed = CapturedOutput { out: child.stdout.take(), ..CapturedOutput::default() };
    let ended = wait_for_exit(&child, &mut printed, (begin, time), stop);
    let (wall, late) = ended.map_err(failed)?;
    let (status, cpu_seconds) = reap(&child).map_err(failed)?;
    // A process that it left behind may keep its output open: what does not come at once, or never ends, is not waited
    // for.
    while begin.elapsed() < wall + PATIENCE
        && printed.out.as_ref().is_some_and(|out| ready([out.as_fd()]) == [true])
    {
        printed.take();
    }
    if stop.load(Ordering::Relaxed) {
        return Err(PairedError::Interrupted);
    }
    if late {
        return Err(PairedError::TooLong(time));
    }
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let said = RunOutput { code, bytes: printed.bytes, hash: printed.hash.finish() };
    let run = Run { wall_seconds: wall.as_secs_f64(), cpu_seconds, said };
    Ok(ProgramExit { run, status, output: printed.kept, peak_bytes: 0 })
}

/// Reads what a program prints until it has ended: its wall time, and whether it was made to end for having taken longer
/// than `time`. It is asked to end, and then made to, when nobody waits for it any more.
fn wait_for_exit(
    child: &Child,
    printed: &mut CapturedOutput,
    (begin, time): (Instant, Duration),
    stop: &AtomicBool,
) -> std::io::Result<(Duration, bool)> {
    let pid = Pid::from_child(child);
    // Nobody has waited for it: the number is its own. It may have ended at this moment, which is what is wanted.
    let kill = |signal| kill_process_group(pid, signal).unwrap_or(());
    let process = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| kill(Signal::KILL))?;
    let mut asked: Option<Instant> = None;
    loop {
        let out = printed.out.as_ref().map_or(process.as_fd(), AsFd::as_fd);
        let [has_ended, readable] = ready([process.as_fd(), out]);
        if has_ended {
            return Ok((begin.elapsed(), asked.is_some()));
        }
        if readable {
            printed.take();
        }
        let signal = match asked {
            None if begin.elapsed() >= time => Signal::KILL,
            None if stop.load(Ordering::Relaxed) => Signal::TERM,
            Some(asked) if asked.elapsed() >= PATIENCE => Signal::KILL,
            _ => continue,
        };
        asked = asked.or(Some(Instant::now()));
        kill(signal);
    }
}

/// What a program prints.
#[derive(Default)]
struct CapturedOutput {
    /// None once it is closed.
    out: Option<ChildStdout>,
    bytes: u64,
    hash: DefaultHasher,
    kept: Vec<u8>,
}

impl CapturedOutput {
    /// What there is.
    fn take(&mut self) {
        let mut buffer = [0; 64 << 10];
        let got = self.out.as_mut().and_then(|out| out.read(&mut buffer).ok()).unwrap_or(0);
        if got == 0 {
            self.out = None;
        }
        self.bytes += got as u64;
        self.hash.write(&buffer[..got]);
        self.kept.extend_from_slice(&buffer[..got.min(KEPT_BYTES - self.kept.len())]);
    }
}

/// Which of them have something to say within a fifth of a second: the program may need all processors.
fn ready<const N: usize>(descriptors: [BorrowedFd<'_>; N]) -> [bool; N] {
    let mut asked = descriptors.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
    // A signal ends the wait; nothing is found then.
    let _ = poll(&mut asked, Some(&WAKE));
    asked.map(|one| !one.revents().is_empty())
}

/// How a program that has ended did so, and its CPU time with that of the children it waited for: user and system, s.
fn reap(child: &Child) -> std::io::Result<(ExitStatus, [f64; 2])> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both are valid for writing; the child has not been waited for.
    while unsafe { libc::wait4(child.id() as libc::pid_t, &mut status, 0, usage.as_mut_ptr()) } < 0 {
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
    use super::*;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdout(Stdio::piped());
        command
    }

    fn run(command: &mut Command) -> Result<ProgramExit, PairedError> {
        timed(command, &AtomicBool::new(false), Duration::MAX)
    }

    /// Asks for the end once the command has made a file, whose name it gets.
    fn stopped(line: &str) -> Result<ProgramExit, PairedError> {
        let stop = AtomicBool::new(false);
        let place = tempfile::tempdir().unwrap();
        let runs = place.path().join("runs");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !runs.exists() {
                    std::thread::yield_now();
                }
                stop.store(true, Ordering::Relaxed);
            });
            timed(shell(line).arg(&runs), &stop, Duration::MAX)
        })
    }

    #[test]
    fn a_run_tells_its_time_its_output_and_its_code() {
        let said = |line: &str| run(&mut shell(line)).unwrap().run.said;
        let ran = run(&mut shell("sleep 0.2; echo abc; exit 3")).unwrap();
        assert_eq!((ran.run.said.code, ran.run.said.bytes, &ran.output[..]), (3, 4, &b"abc\n"[..]));
        assert!(ran.run.wall_seconds >= 0.2, "{ran:?}");
        assert_eq!(said("echo abc").hash, ran.run.said.hash);
        assert_ne!(said("echo abd").hash, ran.run.said.hash);
        assert_eq!(said("kill -9 $$").code, 137);
        let busy = run(&mut shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")).unwrap();
        assert!(busy.run.cpu_seconds[0] > 0.0, "{busy:?}");
    }

    #[test]
    fn all_that_is_printed_counts_and_its_beginning_is_kept() {
        let ran = run(&mut shell("head -c 3000000 /dev/zero")).unwrap();
        assert_eq!((ran.run.said.bytes, ran.output.len()), (3_000_000, KEPT_BYTES));
    }

    #[test]
    fn a_process_that_is_left_behind_is_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pid");
        let ran = run(shell("echo abc; sleep 1000000 & echo $! > \"$0\"").arg(&path)).unwrap();
        let pid = std::fs::read_to_string(path).unwrap().trim().parse().unwrap();
        // It sleeps for longer than this test runs, so the number is still its own.
        let killed = rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        assert!(killed.is_ok(), "it still runs: nobody has waited for it");
        assert_eq!(ran.run.said.bytes, 4);
    }

    #[test]
    fn a_process_that_prints_for_ever_is_left_behind() {
        let ran = run(&mut shell("yes & exit 4")).unwrap();
        assert_eq!(ran.run.said.code, 4);
    }

    #[test]
    fn a_program_is_killed_when_the_end_is_asked_for() {
        let ended = stopped(": > \"$0\"; exec sleep 1000000");
        assert!(matches!(ended, Err(PairedError::Interrupted)), "{ended:?}");
    }

    #[test]
    fn what_ignores_the_request_is_killed() {
        let ended = stopped("trap '' TERM; : > \"$0\"; while :; do sleep 1; done");
        assert!(matches!(ended, Err(PairedError::Interrupted)), "{ended:?}");
    }

    #[test]
    fn a_program_that_does_not_end_is_given_up() {
        let stop = AtomicBool::new(false);
        let ended = timed(&mut shell("exec sleep 1000000"), &stop, Duration::from_millis(300));
        assert!(matches!(ended, Err(PairedError::TooLong(_))), "{ended:?}");
        assert!(run(&mut shell("true")).unwrap().status.success());
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(&mut Command::new("./no-such-program")).unwrap_err().to_string();
        assert_eq!(error, "cannot run ./no-such-program: No such file or directory (os error 2)");
    }
}
