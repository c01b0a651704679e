//! The user's own program without and with the library, in turns.
//!
//! Gain: median wall time without the library over that with it, from the start of the program to its end, with a BCa
//! bootstrap interval of 90 % over rounds (a round, both its runs, is drawn as a whole).
//!
//! - `faster`: the interval is at 1.03 or above as a whole.
//! - `no harm`: at 0.97 or above.
//! - `SLOWER`: below 0.97 as a whole, and so many of the single rounds are that chance alone would do it in 5 % (sign
//!   test); after three more rounds again.
//! - `untold`: anything else.
//!
//! Whether both print the same is asked of standard output and the exit code, of all runs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use journal::Journal;
use prefetch_os::areas;
use stats::bootstrap::one_sample;
use stats::{Estimate, Sample};

use crate::device::drop_cache;
use crate::group::Group;
use crate::judge::{GAIN, LEVEL, RESAMPLING, SIGN, by_chance};
use crate::matrix::STEP;
use crate::plan::check_mode;
use crate::run::{alone, helped};
use crate::timed::timed;
use crate::{HarmError, at, is_root, private_tree};

pub use crate::timed::{Run, Said};

/// From here on it is called faster.
const FASTER: f64 = 1.0 / GAIN;

/// What is run, and how often.
#[derive(Debug, Clone)]
pub struct Turns {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// A line for the shell before each run; it is not timed.
    pub prepare: Option<OsString>,
    /// Drop the whole page cache before each run.
    pub cold: bool,
    /// Drop these files, and those below these directories.
    pub drop: Vec<PathBuf>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Rounds at first.
    pub rounds: usize,
    /// And at most.
    pub rounds_max: usize,
    /// No more rounds that would take longer.
    pub time: Duration,
    /// Mode of the library, or [`crate::plan::OFF`].
    pub mode: String,
    /// The library.
    pub library: PathBuf,
}

/// A pair of runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// Without the library.
    pub alone: Run,
    /// With it.
    pub helped: Run,
}

/// What is said of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Gains at least 3 %.
    Faster,
    /// Loses no 3 %.
    NoHarm,
    /// Loses.
    Slower,
    /// More rounds are needed.
    Untold,
}

/// What is said of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Every run printed the same and ended with the same code.
    Same(Said),
    /// Exit codes are the same; what is printed varies without the library, too.
    Varies,
    /// With the library it prints something else, or ends with another code.
    Differs {
        /// Without the library.
        alone: Said,
        /// With it.
        helped: Said,
    },
}

/// What came out.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// All pairs.
    pub rounds: Vec<Round>,
    /// Median wall time alone over that with the library.
    pub gain: Estimate,
    /// Of the gain.
    pub verdict: Verdict,
    /// Of the output.
    pub output: Output,
    /// Whether the library watched any file of any run.
    pub watched: bool,
    /// What the last run without the library printed on standard error, when it failed.
    pub errors: Option<String>,
    /// Whether a signal ended it.
    pub interrupted: bool,
}

/// What is told while it runs.
#[derive(Debug, Clone, Copy)]
pub struct Begins {
    /// Number of the round, from 1; 0: the run that warms up.
    pub round: usize,
    /// How many there will be as far as is known.
    pub of: usize,
    /// Whether the library is loaded.
    pub library: bool,
}

impl Turns {
    /// Whether all of it makes sense and can be done here.
    ///
    /// # Errors
    /// Says what to change.
    pub fn check(&self) -> Result<(), HarmError> {
        check_mode(&self.mode)?;
        if self.cold && !is_root() {
            return Err(HarmError::CannotHere(
                "--cold drops the whole page cache, which only root may; --drop PATH drops your own files"
                    .into(),
            ));
        }
        if self.memory.is_some() && !is_root() {
            return Err(HarmError::CannotHere("--memory: memory is limited by root only".into()));
        }
        if let Some(path) = self.drop.iter().find(|path| !path.exists()) {
            return Err(HarmError::Input(format!(
                "--drop {}: there is no such file or directory",
                path.display()
            )));
        }
        Ok(())
    }

    /// Runs it until the gain is told. What is made for it is in `journal`.
    ///
    /// # Errors
    /// The program cannot be started, or [`HarmError::Interrupted`] before the first round is there.
    pub fn run(
        &self,
        journal: &Arc<Journal>,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(Begins),
    ) -> Result<Outcome, HarmError> {
        let tree = private_tree(journal, &std::env::temp_dir())?;
        let scratch = tree.path().as_std_path();
        let one = |library| self.one(library, scratch, journal, stop);
        let mut wanted = self.rounds.max(1);
        if !self.cold {
            // The first run of all would pay for what is read the first time.
            tell(Begins { round: 0, of: wanted, library: false });
            one(false)?;
        }
        let begin = Instant::now();
        let mut rounds: Vec<Round> = Vec::new();
        let mut before = None;
        let (gain, verdict, interrupted) = loop {
            let mut interrupted = false;
            while rounds.len() < wanted {
                let swapped = rounds.len() % 2 == 1;
                let mut next = |library| {
                    tell(Begins { round: rounds.len() + 1, of: wanted, library });
                    one(library)
                };
                let pair = next(swapped).and_then(|first| Ok((first, next(!swapped)?)));
                interrupted = matches!(pair, Err(HarmError::Interrupted)) && !rounds.is_empty();
                if interrupted {
                    break;
                }
                let (first, second) = pair?;
                let (alone, helped) = if swapped { (second, first) } else { (first, second) };
                rounds.push(Round { alone, helped });
            }
            let (gain, verdict) = judge(&rounds)?;
            let room = begin.elapsed() + begin.elapsed() / rounds.len() as u32 * STEP as u32 <= self.time;
            let told = match verdict {
                Verdict::Faster | Verdict::NoHarm => true,
                Verdict::Slower => before == Some(Verdict::Slower),
                Verdict::Untold => false,
            };
            if told || interrupted || wanted >= self.rounds_max || !room {
                break (gain, verdict, interrupted);
            }
            before = Some(verdict);
            wanted = (wanted + STEP).min(self.rounds_max);
        };
        let output = same(&rounds);
        let watched = !areas::all(&[scratch.join("statistics")]).is_empty();
        let failed = rounds.last().is_some_and(|round| round.alone.said.code != 0) && !interrupted;
        let errors = last_line(&scratch.join("alone")).filter(|_| failed);
        Ok(Outcome { rounds, gain, verdict, output, watched, errors, interrupted })
    }

    fn one(
        &self,
        library: bool,
        scratch: &Path,
        journal: &Arc<Journal>,
        stop: &AtomicBool,
    ) -> Result<Run, HarmError> {
        if let Some(line) = &self.prepare {
            let ended =
                Command::new("sh").arg("-c").arg(line).stdin(Stdio::null()).stdout(Stdio::null()).status();
            let ended = ended.map_err(at("run", Path::new("sh")))?;
            if !ended.success() {
                return Err(stopped(stop).unwrap_or_else(|| {
                    HarmError::Program(format!("--prepare {}: {ended}", line.display()))
                }));
            }
        }
        self.make_cold()?;
        let mut command = if library {
            helped(&self.library, &self.mode, scratch, &self.words)?
        } else {
            alone(&self.words)
        };
        let group = self.memory.map(|bytes| Group::new(Some(bytes), journal)).transpose()?.flatten();
        if let Some(group) = &group {
            group.enter_with(&mut command)?;
        }
        let errors = scratch.join(if library { "helped" } else { "alone" });
        let file = File::create(&errors).map_err(at("create", &errors))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        timed(&mut command, &self.words[0], stop)
    }

    /// The library itself stays in the cache: it would be there where it is in use.
    fn make_cold(&self) -> Result<(), HarmError> {
        if self.cold || !self.drop.is_empty() {
            // What is dirty cannot be dropped.
            // SAFETY: no arguments.
            unsafe { libc::sync() };
        }
        self.drop.iter().try_for_each(|path| drop_below(path))?;
        if self.cold {
            let switch = Path::new("/proc/sys/vm/drop_caches");
            std::fs::write(switch, "3").map_err(at("write", switch))?;
            std::fs::read(&self.library).map_err(at("read", &self.library))?;
        }
        Ok(())
    }
}

/// The last line that is not empty.
fn last_line(path: &Path) -> Option<String> {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    Some(text.trim_end().lines().next_back()?.chars().take(200).collect())
}

fn stopped(stop: &AtomicBool) -> Option<HarmError> {
    stop.load(Ordering::Relaxed).then_some(HarmError::Interrupted)
}

/// Drops a file, or all files below a directory, links not followed.
fn drop_below(path: &Path) -> Result<(), HarmError> {
    if path.is_file() {
        return drop_cache(path);
    }
    for entry in std::fs::read_dir(path).map_err(at("read", path))? {
        let entry = entry.map_err(at("read", path))?;
        let kind = entry.file_type().map_err(at("read", path))?;
        if kind.is_dir() || kind.is_file() {
            drop_below(&entry.path())?;
        }
    }
    Ok(())
}

/// The median.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

fn judge(rounds: &[Round]) -> Result<(Estimate, Verdict), HarmError> {
    // What is drawn are the numbers of rounds.
    let numbers: Vec<f64> = (0..rounds.len()).map(|i| i as f64).collect();
    let numbers = Sample::new(&numbers)?;
    let walls = |picked: &[f64], run: fn(&Round) -> &Run| {
        median(picked.iter().map(|&i| run(&rounds[i as usize]).wall).collect())
    };
    let gain =
        |picked: &mut [f64]| walls(picked, |round| &round.alone) / walls(picked, |round| &round.helped);
    let estimate = one_sample(&numbers, gain, LEVEL, RESAMPLING)?;
    let slower = (0..rounds.len()).filter(|&i| gain(&mut [i as f64]) < GAIN).count();
    let interval = estimate.interval;
    let verdict = if interval.high < GAIN && by_chance(slower, rounds.len()) <= SIGN {
        Verdict::Slower
    } else if rounds.len() < 3 {
        // An interval of two rounds is too narrow to say anything.
        Verdict::Untold
    } else if interval.low >= FASTER {
        Verdict::Faster
    } else if interval.low >= GAIN {
        Verdict::NoHarm
    } else {
        Verdict::Untold
    };
    Ok((estimate, verdict))
}

fn same(rounds: &[Round]) -> Output {
    let all = |run: fn(&Round) -> Said| rounds.iter().map(run).collect::<BTreeSet<Said>>();
    let (alone, helped) = (all(|round| round.alone.said), all(|round| round.helped.said));
    let codes = |all: &BTreeSet<Said>| all.iter().map(|said| said.code).collect::<BTreeSet<i32>>();
    let first = |all: &BTreeSet<Said>| all.first().copied().unwrap_or(Said { code: 0, bytes: 0, hash: 0 });
    if alone.len() > 1 && codes(&helped).is_subset(&codes(&alone)) {
        return Output::Varies;
    }
    match helped.difference(&alone).next() {
        Some(&helped) => Output::Differs { alone: first(&alone), helped },
        None => Output::Same(first(&alone)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(wall: f64, code: i32, hash: u64) -> Run {
        Run { wall, cpu: [0.0; 2], said: Said { code, bytes: 1, hash } }
    }

    fn rounds(helped: f64, noise: f64) -> Vec<Round> {
        let off = [0.0, 0.5, -0.7, 1.0, -1.0, 0.2, -0.3];
        let shifted = off.iter().zip(off.iter().rev());
        shifted
            .map(|(a, b)| Round {
                alone: run(100.0 + a * noise, 0, 1),
                helped: run(helped + b * noise, 0, 1),
            })
            .collect()
    }

    #[test]
    fn a_gain_is_told_when_the_rounds_agree() {
        let verdict = |helped, noise| judge(&rounds(helped, noise)).unwrap().1;
        assert_eq!(verdict(50.0, 3.0), Verdict::Faster);
        assert_eq!(verdict(100.0, 0.5), Verdict::NoHarm);
        assert_eq!(verdict(110.0, 1.0), Verdict::Slower);
        assert_eq!(verdict(100.0, 20.0), Verdict::Untold);
        assert_eq!(judge(&rounds(50.0, 0.0)[..2]).unwrap().1, Verdict::Untold);
        let (gain, _) = judge(&rounds(50.0, 3.0)).unwrap();
        assert!((1.9..2.1).contains(&gain.value), "{gain:?}");
    }

    #[test]
    fn outputs_are_compared_where_they_are_the_same_without_the_library() {
        let pair = |alone, helped| Round { alone, helped };
        let a = run(1.0, 0, 1);
        assert_eq!(same(&[pair(a, a), pair(a, a)]), Output::Same(a.said));
        let (b, fails) = (run(1.0, 0, 2), run(1.0, 1, 1));
        assert_eq!(same(&[pair(a, a), pair(a, b)]), Output::Differs { alone: a.said, helped: b.said });
        assert_eq!(same(&[pair(a, b), pair(b, run(1.0, 0, 3))]), Output::Varies);
        assert_eq!(
            same(&[pair(a, fails), pair(b, a)]),
            Output::Differs { alone: a.said, helped: fails.said }
        );
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
