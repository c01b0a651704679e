//! What a check found, for people.

use std::collections::BTreeMap;
use std::fmt;

use camino::Utf8PathBuf;

use crate::history::Contract;
use crate::oracle::Kind;

/// Lines of a checker's output that are shown.
const SAID_LINES: usize = 12;

/// What came of a crash check.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The stack as written.
    pub stack: String,
    /// The device that was recorded.
    pub device: String,
    /// What it promises.
    pub contract: Contract,
    /// Name of the workload.
    pub workload: String,
    /// Seed of the sample.
    pub seed: u64,
    /// Writes, discards and writes of zeroes recorded.
    pub requests: usize,
    /// Blocks of these.
    pub blocks: usize,
    /// Writes with FUA among them: durable when they have completed.
    pub fua: usize,
    /// Flushes recorded.
    pub flushes: usize,
    /// Cuts that matter: just before something became durable, and the end.
    pub windows: usize,
    /// Free blocks filled with a pattern that must never be seen.
    pub poisoned: u64,
    /// Logarithm to base 2 of the number of lawful choices.
    pub choices_log2: f64,
    /// Whether every lawful image was checked.
    pub exhaustive: bool,
    /// States generated, duplicates included.
    pub tried: u64,
    /// States with different images, or with different marks of a user's program passed.
    pub distinct: usize,
    /// Of these, brought up and judged.
    pub checked: usize,
    /// Of these, with something wrong.
    pub failed: usize,
    /// States that show a known weakness of the file system ([`crate::oracle::Weakness`]), not among the
    /// failed.
    pub known: usize,
    /// One of these.
    pub known_example: Option<String>,
    /// States in which synced data is missing, as must be expected of a device that promises nothing.
    pub lost_as_expected: usize,
    /// Failed states by their worst breach.
    pub kinds: BTreeMap<Kind, usize>,
    /// Workers.
    pub jobs: usize,
    /// Seconds of checking.
    pub seconds: f64,
    /// Whether nothing was known of what had been synced.
    pub only_consistency: bool,
    /// Of a user's program, how many marks it passed.
    pub marks: Option<usize>,
    /// The command that judged its states.
    pub checker: Option<String>,
    /// The error that ended the check early: what was found until then stands.
    pub error: Option<String>,
    /// The smallest failing case.
    pub smallest: Option<MinimalCase>,
}

/// What a verdict amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing wrong in any state that was checked.
    Clean,
    /// Some state is not what it must be.
    Violated,
    /// No state was checked, or an error ended the check and there was no violation before.
    Nothing,
}

impl Verdict {
    /// What it amounts to.
    pub fn outcome(&self) -> Outcome {
        match (self.failed, self.checked, &self.error) {
            (1.., ..) => Outcome::Violated,
            (0, 1.., None) => Outcome::Clean,
            _ => Outcome::Nothing,
        }
    }

    /// States brought up and judged in a minute.
    pub fn states_per_minute(&self) -> f64 {
        if self.seconds > 0.0 { self.checked as f64 * 60.0 / self.seconds } else { 0.0 }
    }
}

/// The smallest failing case.
#[derive(Clone, Debug, Default)]
pub struct MinimalCase {
    /// The worst that is wrong.
    pub kind: Kind,
    /// All that is wrong.
    pub breaches: Vec<String>,
    /// The operation during or after which the power failed.
    pub when: String,
    /// Writes the device had been sent.
    pub requests: usize,
    /// Of so many.
    pub of: usize,
    /// The blocks whose newest version is lost.
    pub lost: Vec<LostBlock>,
    /// How many there were before it was shrunk.
    pub lost_at_first: usize,
    /// States tried while shrinking.
    pub tried: usize,
    /// The last requests before the cut.
    pub last: Vec<Request>,
    /// What the checker printed.
    pub output: String,
    /// The end of what the checker of a user's program printed.
    pub said: String,
    /// Commands that bring the kept image up again and judge it.
    pub again: Option<String>,
    /// Where the image was kept.
    pub kept: Option<Utf8PathBuf>,
}

/// A block whose newest version is lost.
#[derive(Clone, Debug)]
pub struct LostBlock {
    /// Address in blocks of 4096 bytes.
    pub lba: u64,
    /// What was lost.
    pub what: String,
    /// The request that had written it.
    pub request: u64,
    /// The operation in which it was sent.
    pub when: String,
    /// What is there instead.
    pub holds: String,
    /// So many versions older.
    pub versions: u32,
}

/// A request before the cut.
#[derive(Clone, Debug)]
pub struct Request {
    /// The device's number.
    pub id: u64,
    /// First block.
    pub lba: u64,
    /// Blocks; none of a flush.
    pub blocks: usize,
    /// Of these, lost.
    pub lost: usize,
    /// What the first block is, or how far a flush is.
    pub what: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} under {}", self.stack, self.workload)?;
        writeln!(
            f,
            "  device    {}{}",
            self.device,
            if self.contract.plp { ", power-loss protection" } else { "" }
        )?;
        let fua = if self.fua > 0 { format!(" ({} with FUA)", self.fua) } else { String::new() };
        writeln!(
            f,
            "  recorded  {} writes of {} blocks{fua}, {} flushes; {} cuts matter; {} free blocks poisoned",
            self.requests, self.blocks, self.flushes, self.windows, self.poisoned
        )?;
        let (how, seed) = match self.exhaustive {
            true => ("all lawful states".to_owned(), String::new()),
            false => (
                format!("a sample of 2^{:.0} lawful choices", self.choices_log2),
                format!(", seed {}", self.seed),
            ),
        };
        writeln!(
            f,
            "  states    {} tried, {} distinct, {} checked: {how}{seed}",
            self.tried, self.distinct, self.checked
        )?;
        writeln!(
            f,
            "  rate      {:.0} states a minute ({:.1} s, {} workers)",
            self.states_per_minute(),
            self.seconds,
            self.jobs
        )?;
        if let Some(marks) = self.marks {
            writeln!(f, "  marks     {marks} passed by the program")?;
        }
        if let Some(checker) = &self.checker {
            writeln!(f, "  checker   {checker}")?;
        }
        if self.only_consistency {
            writeln!(f, "  oracles   consistency only: what this workload had synced is not known")?;
        }
        if self.lost_as_expected > 0 {
            writeln!(
                f,
                "  expected  {} states lost synced data: this device does not promise it",
                self.lost_as_expected
            )?;
        }
        if let Some(example) = &self.known_example {
            writeln!(
                f,
                "  known     {} states show known weaknesses of this file system, such as:",
                self.known
            )?;
            writeln!(f, "            {example}")?;
        }
        if let Some(error) = &self.error {
            writeln!(f, "  ended     early, by an error: {error}")?;
        }
        match self.outcome() {
            Outcome::Nothing if self.checked > 0 => {
                write!(f, "  verdict   none: no violation in the {} states before the error", self.checked)
            }
            Outcome::Nothing => write!(f, "  verdict   none: no state was checked"),
            Outcome::Clean => write!(f, "  verdict   no violation"),
            Outcome::Violated => {
                let share = 100.0 * self.failed as f64 / self.checked as f64;
                write!(f, "  verdict   VIOLATED in {} states ({share:.1} %)", self.failed)?;
                for (kind, count) in &self.kinds {
                    write!(f, "\n            {count} x {}", kind.what())?;
                }
                self.smallest.iter().try_for_each(|smallest| write!(f, "\n\n{smallest}"))
            }
        }
    }
}

impl fmt::Display for MinimalCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "smallest case: the file system {}", self.kind.what())?;
        self.breaches.iter().try_for_each(|breach| writeln!(f, "  found     {breach}"))?;
        writeln!(f, "  cut       {}; {} of {} writes had been sent", self.when, self.requests, self.of)?;
        writeln!(
            f,
            "  lost      {} blocks ({} before shrinking, {} states tried)",
            self.lost.len(),
            self.lost_at_first,
            self.tried
        )?;
        for lost in &self.lost {
            writeln!(f, "    block {} of request {}: {}", lost.lba, lost.request, lost.what)?;
            writeln!(f, "      sent {}; holds {} ({} older)", lost.when, lost.holds, lost.versions)?;
        }
        write!(f, "  last requests before the cut")?;
        for request in &self.last {
            if request.blocks == 0 {
                write!(f, "\n    {:>6}  {}", request.id, request.what)?;
                continue;
            }
            let there = match request.lost {
                0 => "there".to_owned(),
                lost if lost == request.blocks => "LOST".to_owned(),
                lost => format!("{lost} LOST"),
            };
            write!(
                f,
                "\n    {:>6}  block {:>6} + {:<4} {there:<8} {}",
                request.id, request.lba, request.blocks, request.what
            )?;
        }
        if !self.said.is_empty() {
            write!(f, "\n  the program's checker said")?;
            let lines: Vec<&str> = self.said.trim_end().lines().collect();
            lines[lines.len().saturating_sub(SAID_LINES)..]
                .iter()
                .try_for_each(|line| write!(f, "\n    {line}"))?;
        }
        if let Some(path) = &self.kept {
            write!(f, "\n  kept      {path}")?;
        }
        for (number, line) in self.again.iter().flat_map(|again| again.lines()).enumerate() {
            write!(f, "\n  {:<8}  {line}", if number == 0 { "again" } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_before_an_error_stands_and_nothing_more() {
        let verdict = |checked, failed, error: Option<&str>| Verdict {
            checked,
            failed,
            error: error.map(str::to_owned),
            ..Verdict::default()
        };
        let outcome = |checked, failed, error| verdict(checked, failed, error).outcome();
        assert_eq!(outcome(5, 0, None), Outcome::Clean);
        assert_eq!(outcome(0, 0, None), Outcome::Nothing);
        assert_eq!(outcome(5, 0, Some("no space")), Outcome::Nothing);
        assert_eq!(outcome(5, 1, Some("no space")), Outcome::Violated);
        let text = verdict(5, 0, Some("no space")).to_string();
        assert!(text.contains("by an error: no space") && text.contains("in the 5 states before"), "{text}");
    }
}
