//! Better, worse, same or cannot tell: what a comparison may conclude. How it gets there: [`crate::judge`].

use serde::{Deserialize, Serialize};

/// What a comparison concludes about B.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// B is better than A.
    Better,
    /// B is worse than A.
    Worse,
    /// B and A differ by less than the margin.
    Same,
    /// The trials do not decide.
    CannotTell {
        /// What is missing.
        why: Doubt,
    },
}

/// Why the trials do not decide.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "doubt")]
pub enum Doubt {
    /// No outcome of so few trials could be significant.
    TooFewTrials {
        /// Trials on the smaller side.
        have: usize,
        /// Trials on each side from which a significant outcome is possible.
        need: usize,
    },
    /// So few latencies of a trial lie beyond the quantile that it depends on their number.
    ShortTail {
        /// Beyond it, in the trial that has the fewest.
        have: u64,
        /// From so many on it is compared.
        need: u64,
    },
    /// Two runs were made on machines that differ, and share nothing to compare them by.
    OtherMachine,
    /// The interval is too wide for the effect and for the margin.
    TooMuchVariance {
        /// Half width of the ratio's interval, relative (0.1 reads "times or over 1.1").
        half_width: f64,
        /// Trials on each side that would probably decide, if the variance stays; a rough guess from
        /// the inverse square-root law, at most 10,000.
        trials: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_stored_without_loss() {
        let verdict = Verdict::CannotTell { why: Doubt::TooFewTrials { have: 2, need: 3 } };
        let text = serde_json::to_string(&verdict).unwrap();
        assert_eq!(text, r#"{"verdict":"cannot_tell","why":{"doubt":"too_few_trials","have":2,"need":3}}"#);
        assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
    }
}
