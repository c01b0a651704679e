//! One round: the reader without and with the library.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use journal::Journal;
use prefetch::Mode;
use prefetch_os::launch::{LIBRARY, Launch, MODE_VARIABLE, Statistics};
use stats::Histogram;

use crate::device;
use crate::group::Group;
use crate::plan::OFF;
use crate::{HarmError, Pattern, Plan, at};

/// One run of the reader.
#[derive(Debug, Clone)]
pub struct Run {
    /// Wall time from the first open, ns.
    pub wall_ns: f64,
    /// How long each read took, ns.
    pub reads: Histogram,
    /// The most memory of its cgroup, page cache included; 0: not known.
    pub peak_bytes: u64,
}

/// A pair of runs, one after the other.
#[derive(Debug, Clone)]
pub struct Round {
    /// Without the library.
    pub alone: Run,
    /// With it.
    pub helped: Run,
}

/// What runs need.
pub struct Runner<'a> {
    plan: &'a Plan,
    journal: &'a Arc<Journal>,
    stop: &'a AtomicBool,
    scratch: &'a Path,
    reader: PathBuf,
}

impl<'a> Runner<'a> {
    /// The library leaves programs named `loadline` alone: the reader is this program by another name.
    pub fn new(
        plan: &'a Plan,
        journal: &'a Arc<Journal>,
        stop: &'a AtomicBool,
        scratch: &'a Path,
    ) -> Result<Runner<'a>, HarmError> {
        let reader = scratch.join("reader");
        if std::fs::hard_link(&plan.loadline, &reader).is_err() {
            std::fs::copy(&plan.loadline, &reader).map_err(at("copy this program to", &reader))?;
        }
        Ok(Runner { plan, journal, stop, scratch, reader })
    }

    /// Runs both; `swapped`: with the library first. `limit`: bytes of memory.
    pub fn round(
        &self,
        file: &Path,
        pattern: &Pattern,
        limit: Option<u64>,
        swapped: bool,
    ) -> Result<Round, HarmError> {
        let first = self.run(file, pattern, limit, swapped)?;
        let second = self.run(file, pattern, limit, !swapped)?;
        let (alone, helped) = if swapped { (second, first) } else { (first, second) };
        Ok(Round { alone, helped })
    }

    fn run(
        &self,
        file: &Path,
        pattern: &Pattern,
        limit: Option<u64>,
        library: bool,
    ) -> Result<Run, HarmError> {
        device::drop_cache(file)?;
        let group = Group::new(limit, self.journal)?;
        let (threads, block) = (pattern.threads.to_string(), pattern.block_kib.to_string());
        let mut words: Vec<OsString> =
            [self.reader.as_os_str(), "prefetch".as_ref(), "reader".as_ref(), file.as_os_str()]
                .map(OsString::from)
                .into();
        words.extend(
            [&pattern.name, "--raw", "--histogram", "--threads", &threads, "--block", &block]
                .map(OsString::from),
        );
        words.extend(pattern.shared.then(|| OsString::from("--shared")));
        let mut command = if library {
            helped(&self.plan.library, &self.plan.mode, self.scratch, &words)?
        } else {
            alone(&words)
        };
        if let Some(group) = &group {
            group.enter_with(&mut command)?;
        }
        let output = output(&mut command, self.stop, self.plan.run_time())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let killed = output.status.signal() == Some(libc::SIGKILL) && limit.is_some();
            let hint =
                if killed { "; a limit of memory this low may be the cause: try a higher --mib" } else { "" };
            return Err(HarmError::Program(format!("the reader ended with {}{hint} {said}", output.status)));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let unknown = || HarmError::Program(format!("the reader said {text}"));
        let (numbers, histogram) = text.trim().split_once('\n').ok_or_else(unknown)?;
        let wall_ns = numbers.split(' ').next().and_then(|word| word.parse().ok()).ok_or_else(unknown)?;
        let reads = Histogram::from_hdr_v2_base64(histogram).map_err(|_| unknown())?;
        Ok(Run { wall_ns, reads, peak_bytes: group.map_or(0, |group| group.peak_bytes()) })
    }
}

/// A program and its arguments under the library, which keeps its statistics in `scratch`.
pub(crate) fn helped(
    library: &Path,
    mode: &str,
    scratch: &Path,
    words: &[OsString],
) -> Result<Command, HarmError> {
    let known = Mode::parse(mode.as_bytes()).unwrap_or_default();
    let launch =
        Launch { mode: known, budget_mib: None, statistics: Statistics::In(scratch.join("statistics")) };
    let mut command = launch.command(library, words)?;
    if mode == OFF {
        command.env(MODE_VARIABLE, OFF);
    }
    Ok(command)
}

/// The same without it, even when this program was started under it.
pub(crate) fn alone(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    if let Some(loaded) = std::env::var_os("LD_PRELOAD") {
        command.env("LD_PRELOAD", without(&loaded));
    }
    command
}

/// `LD_PRELOAD` without the library.
fn without(loaded: &OsStr) -> OsString {
    let text = loaded.to_string_lossy();
    let others = text.split([':', ' ']).filter(|path| !path.ends_with(LIBRARY));
    others.collect::<Vec<_>>().join(":").into()
}

/// What a program prints; it is killed when the end is asked for, or after so long.
fn output(command: &mut Command, stop: &AtomicBool, time: Duration) -> Result<Output, HarmError> {
    let program = Path::new(command.get_program()).display().to_string();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    host::process::end_with_parent(command);
    let mut child =
        command.spawn().map_err(|why| HarmError::File { what: format!("cannot run {program}"), why })?;
    let said = wait_for_words(&mut child, stop, time);
    if !said {
        // It has ended, or ends now.
        let _ = child.kill();
    }
    let output = child.wait_with_output();
    // The terminal's Ctrl-C reached it as well.
    if stop.load(Ordering::Relaxed) {
        return Err(HarmError::Interrupted);
    }
    if !said {
        return Err(HarmError::TooLong(time));
    }
    output.map_err(|why| HarmError::File { what: format!("cannot wait for {program}"), why })
}

/// Whether it printed or ended before the end was asked for or the time was over. Five wakes a second: the measured program
/// may need all processors.
fn wait_for_words(child: &mut Child, stop: &AtomicBool, time: Duration) -> bool {
    let Some(out) = &child.stdout else { return true };
    let mut wanted = libc::pollfd { fd: out.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let begin = Instant::now();
    while !stop.load(Ordering::Relaxed) && begin.elapsed() < time {
        // SAFETY: one struct that is valid for writing.
        if unsafe { libc::poll(&mut wanted, 1, 200) } > 0 {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_alone_has_not_the_library_but_what_else_was_loaded() {
        let loaded = format!("/opt/lib/{LIBRARY}:/a.so /b.so");
        assert_eq!(without(OsStr::new(&loaded)), "/a.so:/b.so");
        assert_eq!(without(OsStr::new(LIBRARY)), "");
    }

    #[test]
    fn the_control_loads_the_library_and_has_it_do_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let words = [OsString::from("true")];
        let mode = |mode: &str| {
            let command = helped(Path::new("/opt/lib.so"), mode, scratch.path(), &words).unwrap();
            let value = |name: &str| {
                let (_, value) = command.get_envs().find(|(known, _)| *known == name).unwrap();
                value.unwrap().to_str().unwrap().to_owned()
            };
            assert!(value("LD_PRELOAD").starts_with("/opt/lib.so"));
            value(MODE_VARIABLE)
        };
        assert_eq!([mode(OFF), mode("predict")], ["off", "predict"]);
    }

    #[test]
    fn a_program_is_killed_when_the_end_is_asked_for() {
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
            let mut command = Command::new("sh");
            command.args(["-c", ": > \"$0\"; exec sleep 1000000"]).arg(&runs);
            let ended = output(&mut command, &stop, Duration::MAX);
            assert!(matches!(ended, Err(HarmError::Interrupted)), "{ended:?}");
        });
    }

    #[test]
    fn a_program_that_does_not_end_is_given_up() {
        let stop = AtomicBool::new(false);
        let ended = output(Command::new("sleep").arg("1000000"), &stop, Duration::from_millis(300));
        assert!(matches!(ended, Err(HarmError::TooLong(_))), "{ended:?}");
        let ended = output(&mut Command::new("true"), &stop, Duration::MAX);
        assert!(ended.is_ok_and(|output| output.status.success()));
    }
}
