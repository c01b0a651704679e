//! A baseline and a candidate in turns: a user's program, and the cells of a matrix of known programs.

use std::collections::BTreeSet;

use stats::harmless::{Figure, Pair, Verdict};

/// The mode of a library that is loaded and does nothing: every harm is a false alarm.
pub const OFF: &str = "off";

/// What is measured in a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// `raw`, a profile of an emulated SSD, or `simulated` and a profile.
    pub device: String,
    /// Title of the pattern.
    pub pattern: String,
    /// Memory in percent of the file; none: without a limit.
    pub memory: Option<u64>,
    /// Of the library.
    pub mode: String,
    /// Size of the file.
    pub mib: u64,
    /// The kernel's read-ahead window of the device, KiB; 0: as the machine has it.
    pub readahead_kib: u64,
    /// The seed that device and pattern were drawn from; none: they are known ones.
    pub held_out: Option<u64>,
}

/// A cell of the matrix, measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What.
    pub key: Key,
    /// What is said of it.
    pub verdict: Verdict,
    /// What would be, if no gain paid for a longer p99.
    pub strict: Verdict,
    /// Pairs of runs.
    pub rounds: usize,
    /// Median wall times, s.
    pub wall: Figure,
    /// p99 of all reads of all rounds, ms.
    pub p99: Figure,
    /// Of memory; 0: none.
    pub limit_mib: f64,
    /// The most memory that a run used, page cache included; 0: not known.
    pub peak_mib: Pair<f64>,
}

/// One run of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// From its start to its end.
    pub wall_seconds: f64,
    /// CPU time of it and its children, user and system.
    pub cpu_seconds: [f64; 2],
    /// What it printed and how it ended.
    pub said: RunOutput,
}

/// What a run printed on standard output, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunOutput {
    /// Exit code, as a shell gives it.
    pub code: i32,
    /// Length of standard output.
    pub bytes: u64,
    /// Of standard output.
    pub hash: u64,
}

/// What came of a program in turns.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramComparison {
    /// All pairs.
    pub rounds: Vec<Pair<Run>>,
    /// Of their wall times, s.
    pub wall: Figure,
    /// Of these.
    pub verdict: Verdict,
    /// What the last run of the baseline printed on standard error, when it failed.
    pub errors: Option<String>,
    /// Whether a signal ended it.
    pub interrupted: bool,
}

/// What is said of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Every run printed the same and ended with the same code.
    Same(RunOutput),
    /// Exit codes are the same; what is printed varies in the baseline, too.
    Varies,
    /// The candidate prints something else, or ends with another code.
    Differs(Pair<RunOutput>),
}

impl ProgramComparison {
    /// Whether both print the same: of standard output and the exit code of all runs.
    pub fn output(&self) -> Output {
        let all = |run: fn(&Pair<Run>) -> &Run| -> BTreeSet<RunOutput> {
            self.rounds.iter().map(|pair| run(pair).said).collect()
        };
        let (baseline, candidate) = (all(|pair| &pair.baseline), all(|pair| &pair.candidate));
        let codes = |all: &BTreeSet<RunOutput>| all.iter().map(|said| said.code).collect::<BTreeSet<i32>>();
        if baseline.len() > 1 && codes(&candidate).is_subset(&codes(&baseline)) {
            return Output::Varies;
        }
        let first = baseline.first().copied().unwrap_or(RunOutput { code: 0, bytes: 0, hash: 0 });
        match candidate.difference(&baseline).next() {
            Some(&candidate) => Output::Differs(Pair { baseline: first, candidate }),
            None => Output::Same(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_compared_where_they_are_the_same_without_the_candidate() {
        let run = |code: i32, hash: u64| Run {
            wall_seconds: 1.0,
            cpu_seconds: [0.0; 2],
            said: RunOutput { code, bytes: 1, hash },
        };
        let output = |pairs: &[(Run, Run)]| {
            let rounds: Vec<_> =
                pairs.iter().map(|&(baseline, candidate)| Pair { baseline, candidate }).collect();
            let walls = vec![Pair { baseline: 1.0, candidate: 1.0 }; rounds.len()];
            let (wall, verdict) = stats::harmless::gain(&walls).unwrap();
            ProgramComparison { rounds, wall, verdict, errors: None, interrupted: false }.output()
        };
        let differs = |a: Run, b: Run| Output::Differs(Pair { baseline: a.said, candidate: b.said });
        let (a, b, fails) = (run(0, 1), run(0, 2), run(1, 1));
        assert_eq!(output(&[(a, a), (a, a)]), Output::Same(a.said));
        assert_eq!(output(&[(a, a), (a, b)]), differs(a, b));
        assert_eq!(output(&[(a, b), (b, run(0, 3))]), Output::Varies);
        assert_eq!(output(&[(a, fails), (b, a)]), differs(a, fails));
    }
}
