//! A program of the user's, in two variants that meet the same conditions.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use analysis::paired::ProgramComparison;
use host::Host;
use rustix::fs::{Advice, fadvise};
use stats::harmless::gain;

use super::trial::TrialSetup;
use super::{Budget, PairedError, PairedSeries, RunStart, Side, in_turns, with_path};

/// What each run meets.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// A line for the shell before each run; it is not timed.
    pub prepare: Option<OsString>,
    /// Drop the whole page cache before each run.
    pub cold: bool,
    /// Drop these files, and those below these directories.
    pub drop: Vec<PathBuf>,
    /// Files that stay in the page cache even so: what would be there where the candidate is in use.
    pub warm: Vec<PathBuf>,
    /// Bytes of memory.
    pub memory: Option<u64>,
}

impl Conditions {
    /// Whether all of it makes sense and can be done here.
    ///
    /// # Errors
    /// Says what to change.
    pub fn check(&self) -> Result<(), PairedError> {
        let root = rustix::process::geteuid().is_root();
        if self.cold && !root {
            return Err(PairedError::CannotHere(
                "--cold drops the whole page cache, which only root may; --drop PATH drops your own files"
                    .into(),
            ));
        }
        if self.memory.is_some() && !root {
            return Err(PairedError::CannotHere("--memory: memory is limited by root only".into()));
        }
        if let Some(path) = self.drop.iter().find(|path| !path.exists()) {
            let why = "there is no such file or directory";
            return Err(PairedError::Input(format!("--drop {}: {why}", path.display())));
        }
        Ok(())
    }

    /// Brings them about.
    pub(super) fn apply(&self, stop: &AtomicBool) -> Result<(), PairedError> {
        if let Some(line) = &self.prepare {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(line).stdin(Stdio::null()).stdout(Stdio::null());
            let ended = shell.status().map_err(with_path("run", "sh"))?;
            // The terminal's Ctrl-C reaches the shell as well.
            if stop.load(Ordering::Relaxed) {
                return Err(PairedError::Interrupted);
            }
            if !ended.success() {
                return Err(PairedError::Program(format!("--prepare {}: {ended}", line.display())));
            }
        }
        if self.cold || !self.drop.is_empty() {
            // What is dirty cannot be dropped.
            rustix::fs::sync();
        }
        self.drop.iter().try_for_each(|path| drop_below(path))?;
        if self.cold {
            Host::system().drop_caches().map_err(with_path("write", "/proc/sys/vm/drop_caches"))?;
            for path in &self.warm {
                std::fs::read(path).map_err(with_path("read", path))?;
            }
        }
        Ok(())
    }
}

/// Runs both variants in turns until the gain is told; unless every run is to be cold, the baseline once before, which
/// would else pay for what is read the first time. `variant` gives the command of a run; `tell` hears of each.
///
/// # Errors
/// A program cannot be started, or [`PairedError::Interrupted`] before the first round is there.
pub fn compare(
    setting: TrialSetup<'_>,
    conditions: &Conditions,
    effort: Budget,
    variant: &dyn Fn(Side) -> Result<Command, PairedError>,
    tell: &mut dyn FnMut(RunStart),
) -> Result<ProgramComparison, PairedError> {
    let mut errors = None;
    let mut one = |turn: RunStart| {
        tell(turn);
        conditions.apply(setting.stop)?;
        let group = conditions.memory.map(|bytes| setting.group(Some(bytes))).transpose()?;
        let run = setting.run(&mut variant(turn.side)?, group, Duration::MAX)?.run;
        if turn.side == Side::Baseline {
            errors = if run.said.code == 0 { None } else { last_line(&setting.last_errors()) };
        }
        Ok(run)
    };
    if !conditions.cold {
        one(RunStart { round: 0, of: effort.rounds, side: Side::Baseline })?;
    }
    let PairedSeries { rounds, judged: wall, verdict, interrupted } = in_turns(effort, one, |rounds| {
        gain(&rounds.iter().map(|pair| pair.map(|run| run.wall_seconds)).collect::<Vec<_>>())
    })?;
    let errors = errors.filter(|_| !interrupted);
    Ok(ProgramComparison { rounds, wall, verdict, errors, interrupted })
}

/// The last line that is not empty.
pub(super) fn last_line(text: &str) -> Option<String> {
    Some(text.trim_end().lines().next_back()?.chars().take(200).collect())
}

/// Drops a file from the page cache.
pub(super) fn drop_cache(path: &Path) -> Result<(), PairedError> {
    let file = File::open(path).map_err(with_path("open", path))?;
    fadvise(&file, 0, None, Advice::DontNeed)
        .map_err(|why| with_path("drop from the cache", path)(why.into()))
}

/// Drops a file, or all files below a directory, links not followed.
fn drop_below(path: &Path) -> Result<(), PairedError> {
    if path.is_file() {
        return drop_cache(path);
    }
    for entry in std::fs::read_dir(path).map_err(with_path("read", path))? {
        let entry = entry.map_err(with_path("read", path))?;
        let kind = entry.file_type().map_err(with_path("read", path))?;
        if kind.is_dir() || kind.is_file() {
            drop_below(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use analysis::paired::Output;
    use camino::Utf8Path;
    use journal::Journal;

    use super::*;

    const EFFORT: Budget = Budget { rounds: 2, rounds_max: 2, time: Duration::MAX };

    /// Compares two lines of the shell, whose `$0` is a private directory.
    fn compared(conditions: Conditions, lines: [&str; 2]) -> (ProgramComparison, Vec<usize>) {
        let home = tempfile::tempdir().unwrap();
        let journal = Journal::open(Utf8Path::from_path(home.path()).unwrap(), "compare").unwrap();
        let stop = AtomicBool::new(false);
        let setting = TrialSetup { journal: &journal, stop: &stop, scratch: home.path() };
        let variant = |side| {
            let mut command = Command::new("sh");
            command.args(["-c", lines[usize::from(side == Side::Candidate)]]).arg(home.path());
            Ok(command)
        };
        let mut rounds = Vec::new();
        let found = compare(setting, &conditions, EFFORT, &variant, &mut |turn| rounds.push(turn.round));
        (found.unwrap(), rounds)
    }

    #[test]
    fn any_two_commands_are_compared() {
        let (found, rounds) = compared(Conditions::default(), ["echo a", "echo b"]);
        assert_eq!(rounds, [0, 1, 1, 2, 2]);
        assert!(matches!(found.output(), Output::Differs(_)), "{found:?}");
        assert_eq!((found.rounds.len(), found.errors), (2, None));
    }

    #[test]
    fn what_the_baseline_says_when_it_fails_is_kept() {
        let (found, _) = compared(Conditions::default(), ["echo x; echo why >&2; exit 3", "echo no >&2"]);
        assert_eq!(found.errors.as_deref(), Some("why"));
        assert_eq!(found.rounds[1].baseline.said.code, 3);
    }

    #[test]
    fn every_run_is_prepared() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        let prepare = Some(format!("echo x >> {}", log.display()).into());
        compared(Conditions { prepare, ..Conditions::default() }, ["true", "true"]);
        assert_eq!(std::fs::read_to_string(log).unwrap(), "x\n".repeat(5));
    }

    #[test]
    fn files_below_a_directory_are_dropped() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("below")).unwrap();
        std::fs::write(home.path().join("below/file"), "text").unwrap();
        std::os::unix::fs::symlink("/", home.path().join("below/link")).unwrap();
        drop_below(home.path()).unwrap();
        assert!(drop_below(Path::new("/nowhere")).is_err());
    }
}
