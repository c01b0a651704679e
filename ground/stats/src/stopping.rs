//! When to stop adding trials.
//!
//! The rule is that of CONFIRM (Maricq et al., "Taming Performance Variability", OSDI 2018):
//! enough is when the median's nonparametric interval is as narrow as wanted.

use serde::{Deserialize, Serialize};

use crate::interval::{self, Estimate};
use crate::sample::{Sample, SampleError};

/// A rule for stopping early.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StopRule {
    /// Relative half width of the median's interval that is narrow enough. Default 0.02.
    pub relative_half_width: f64,
    /// Confidence of that interval. Default 0.95, for which at least 6 trials are needed.
    pub level: f64,
    /// Never stop before so many trials. Default 5.
    pub trials_min: usize,
    /// Always stop at so many trials. Default 30.
    pub trials_max: usize,
}

impl Default for StopRule {
    fn default() -> Self {
        StopRule { relative_half_width: 0.02, level: 0.95, trials_min: 5, trials_max: 30 }
    }
}

/// What the rule says of the trials so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// The interval is narrow enough and reaches its confidence.
    NarrowEnough(Estimate),
    /// The most trials allowed are done, and the interval is still too wide.
    MaxTrials(Estimate),
    /// More trials are needed.
    GoOn {
        /// Median and interval so far.
        so_far: Estimate,
        /// Trials altogether that will probably do (inverse square-root law), within the rule's limits.
        trials_likely: usize,
    },
}

/// Applies the rule to the results so far (any order).
///
/// # Errors
/// When there is no result, or one is not finite.
pub fn decide(values: &[f64], rule: &StopRule) -> Result<Decision, SampleError> {
    let sample = Sample::new(values)?;
    let so_far = interval::median(&sample, rule.level);
    let n = sample.len();
    let width = so_far.relative_half_width();
    let narrow = so_far.interval.reached() && width <= rule.relative_half_width;
    if narrow && n >= rule.trials_min {
        return Ok(Decision::NarrowEnough(so_far));
    }
    if n >= rule.trials_max {
        return Ok(Decision::MaxTrials(so_far));
    }
    let by_width = (n as f64 * (width / rule.relative_half_width).powi(2)).ceil();
    let reachable = interval::values_needed(0.5, rule.level).unwrap_or(rule.trials_max);
    let likely = (by_width as usize).max(reachable).max(rule.trials_min).max(n + 1);
    Ok(Decision::GoOn { so_far, trials_likely: likely.min(rule.trials_max) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix;

    #[test]
    fn narrow_results_stop_as_soon_as_the_confidence_is_reached() {
        let rule = StopRule::default();
        let values = [100.0, 100.5, 99.5, 100.2, 99.9, 100.1];
        let Decision::GoOn { trials_likely, .. } = decide(&values[..5], &rule).unwrap() else {
            panic!("five values cannot give 95 %");
        };
        assert_eq!(trials_likely, 6);
        assert!(matches!(decide(&values, &rule).unwrap(), Decision::NarrowEnough(_)));
        let patient = StopRule { trials_min: 8, ..rule };
        assert!(matches!(decide(&values, &patient).unwrap(), Decision::GoOn { trials_likely: 8, .. }));
    }

    #[test]
    fn wide_results_go_on_up_to_the_limit() {
        let rule = StopRule { trials_max: 10, ..StopRule::default() };
        let values: Vec<f64> = (0..10).map(|i| 100.0 + 10.0 * f64::from(i)).collect();
        assert!(matches!(decide(&values[..7], &rule).unwrap(), Decision::GoOn { trials_likely: 10, .. }));
        assert!(matches!(decide(&values, &rule).unwrap(), Decision::MaxTrials(_)));
        assert!(decide(&[], &rule).is_err());
        let zero = StopRule { relative_half_width: 0.0, trials_max: usize::MAX, ..rule };
        assert!(matches!(decide(&[1.0, 2.0], &zero).unwrap(), Decision::GoOn { .. }));
        assert!(matches!(decide(&[1.0; 6], &zero).unwrap(), Decision::NarrowEnough(_)));
    }

    #[test]
    fn a_noisier_cell_takes_more_trials() {
        let rule = StopRule { trials_max: 500, ..StopRule::default() };
        let taken = |cv: f64| {
            let mut rng = SplitMix::new(41);
            let mut values = Vec::new();
            loop {
                values.push(100.0 * (1.0 + cv * rng.normal()));
                if let Decision::NarrowEnough(found) = decide(&values, &rule).unwrap() {
                    assert!(found.relative_half_width() <= 0.02);
                    break values.len();
                }
            }
        };
        let (quiet, noisy) = (taken(0.005), taken(0.1));
        assert!(quiet <= 8 && noisy > 4 * quiet, "{quiet} {noisy}");
    }
}
