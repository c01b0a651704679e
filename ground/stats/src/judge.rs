//! The three-way rule: an [`Effect`] becomes better, worse, same or cannot tell. In one place for all comparisons.
//!
//! 1. Fewer than 3 blocks: cannot tell.
//! 2. **better / worse**: the interval at `1 - alpha` lies beyond the floor, wholly on one side. A difference *below the floor*, or
//!    none, is called better or worse in at most `alpha` of cases (a test of a minimum effect: Murphy & Myors 1999); no
//!    difference at all much more seldom.
//! 3. **same**: the interval at `1 - 2 alpha` lies inside the margin. This *is* two one-sided tests at `alpha` (Schuirmann
//!    1987): a difference as large as the margin is called the same in at most `alpha` of cases.
//! 4. **cannot tell** otherwise.

use serde::{Deserialize, Serialize};

use crate::effect::{Effect, FEWEST, Method};
use crate::interval::Interval;
use crate::sample::Sense;
use crate::verdict::{Doubt, Verdict};

/// Most blocks that a doubt asks for.
const MOST_BLOCKS: usize = 10_000;

/// What counts as a difference, and as none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// Chance of better or worse where the difference is the floor or less, and of same where it is as large as the margin.
    /// Default 0.05.
    pub alpha: f64,
    /// Largest relative effect that is not worth the word better or worse. Default 0.01; 0 in sequential comparisons.
    pub floor: f64,
    /// 0.05 reads "within a factor of 1.05 is the same". Default 0.05.
    pub margin: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds { alpha: 0.05, floor: 0.01, margin: 0.05 }
    }
}

/// A verdict with everything it rests on. Ratios are B/A; intervals are of the ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The conclusion about B. In a doubt, "trials" counts what `n` counts.
    pub verdict: Verdict,
    /// The estimated ratio.
    pub ratio: f64,
    /// Its interval at `1 - alpha` (95 %), which decides better and worse.
    pub interval: Interval,
    /// Its interval at `1 - 2 alpha` (90 %), which decides same.
    pub interval_same: Interval,
    /// The law used.
    pub method: Method,
    /// Blocks, or trials of the smaller side where there are no blocks.
    pub n: usize,
    /// Two-sided p-value against "the difference is the floor or less".
    pub p_value: f64,
    /// p-value against "they differ by the margin or more".
    pub p_same: f64,
}

impl Finding {
    /// Whether the interval excludes 1, however small the effect: "the same (differs by 0.6 %)".
    pub fn differs(&self) -> bool {
        self.interval.reached() && !self.interval.contains(1.0)
    }
}

/// Judges an effect of B against A.
pub fn judge(effect: &Effect, sense: Sense, thresholds: &Thresholds) -> Finding {
    let wide = effect.interval(1.0 - thresholds.alpha);
    let narrow = effect.interval(1.0 - 2.0 * thresholds.alpha);
    Finding {
        verdict: decide(effect, &wide, &narrow, sense, thresholds),
        ratio: ratio(effect.estimate()),
        interval: of_ratio(wide),
        interval_same: of_ratio(narrow),
        method: effect.method(),
        n: effect.n(),
        p_value: effect.p_differs(thresholds.floor.ln_1p()),
        p_same: effect.p_same(thresholds.margin.ln_1p()),
    }
}

fn decide(effect: &Effect, wide: &Interval, narrow: &Interval, sense: Sense, t: &Thresholds) -> Verdict {
    let have = effect.n();
    if have < FEWEST {
        return Verdict::CannotTell { why: Doubt::TooFewTrials { have, need: FEWEST } };
    }
    let floor = t.floor.ln_1p();
    if wide.reached() && (wide.low > floor || wide.high < -floor) {
        return direction(effect.estimate(), sense);
    }
    let margin = t.margin.ln_1p();
    if narrow.reached() && -margin <= narrow.low && narrow.high <= margin {
        return Verdict::Same;
    }
    doubt(effect, t)
}

/// Cannot tell, with the number of blocks that would probably do.
pub(crate) fn doubt(effect: &Effect, t: &Thresholds) -> Verdict {
    // Either the interval must come off the floor, or it must fit into the margin: the easier of the two.
    let (size, have) = (effect.estimate().abs(), effect.n());
    let half = effect.interval(1.0 - t.alpha).half_width();
    let room = (size - t.floor.ln_1p()).max(t.margin.ln_1p() - size).max(1e-3);
    let guess = (have as f64 * (half / room).powi(2)).ceil();
    let trials = guess.clamp(have as f64 + 1.0, MOST_BLOCKS.max(have + 1) as f64) as usize;
    Verdict::CannotTell { why: Doubt::TooMuchVariance { half_width: ratio(half) - 1.0, trials } }
}

/// Better or worse for a logarithm of B/A that is not 0.
pub(crate) fn direction(effect: f64, sense: Sense) -> Verdict {
    if (effect > 0.0) == (sense == Sense::HigherIsBetter) { Verdict::Better } else { Verdict::Worse }
}

/// `exp`, kept finite: results are stored as JSON, which knows no infinity.
pub(crate) fn ratio(log: f64) -> f64 {
    log.clamp(-700.0, 700.0).exp()
}

/// The interval of a logarithm as that of the ratio.
pub(crate) fn of_ratio(log: Interval) -> Interval {
    Interval { low: ratio(log.low), high: ratio(log.high), ..log }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(differences: &[f64]) -> Finding {
        judge(&Effect::of_differences(differences).unwrap(), Sense::HigherIsBetter, &Thresholds::default())
    }

    #[test]
    fn one_or_two_blocks_decide_nothing() {
        for n in 1..3 {
            let why = Doubt::TooFewTrials { have: n, need: 3 };
            assert_eq!(up(&vec![1.0; n]).verdict, Verdict::CannotTell { why });
        }
        assert_eq!(up(&[1.0; 3]).verdict, Verdict::Better);
    }

    #[test]
    fn direction_follows_the_sense() {
        let d = [0.10, 0.11, 0.12, 0.10, 0.09];
        assert_eq!(up(&d).verdict, Verdict::Better);
        let effect = Effect::of_differences(&d).unwrap();
        assert_eq!(judge(&effect, Sense::LowerIsBetter, &Thresholds::default()).verdict, Verdict::Worse);
    }

    #[test]
    fn a_significant_trifle_is_the_same_and_says_so() {
        let found = up(&[0.005, 0.006, 0.007, 0.005, 0.006]);
        assert_eq!((found.verdict, found.differs()), (Verdict::Same, true));
    }

    /// Off by 1.7 % with p = 0.024, of two directories of one tmpfs: what is sure is 0.4 %.
    #[test]
    fn better_is_what_is_better_by_more_than_the_floor() {
        let small = [0.009, 0.038, 0.013, 0.009, 0.018];
        let found = up(&small);
        assert_eq!((found.verdict, found.differs()), (Verdict::Same, true), "{found:?}");
        assert!(found.p_value > 0.05);
        let with = |floor| {
            let effect = Effect::of_differences(&small).unwrap();
            judge(&effect, Sense::HigherIsBetter, &Thresholds { floor, ..Thresholds::default() })
        };
        let any = with(0.0);
        assert!(any.verdict == Verdict::Better && any.p_value <= 0.05, "{any:?}");
        // the interval and the p-value say the same at any floor
        for floor in (0..40).map(|thousandths| f64::from(thousandths) / 1000.0) {
            let found = with(floor);
            assert_eq!(found.verdict == Verdict::Better, found.p_value <= 0.05, "{floor} {found:?}");
        }
    }

    #[test]
    fn noise_asks_for_more_blocks() {
        let found = up(&[0.3, -0.2, 0.1, -0.3, 0.2]);
        let Verdict::CannotTell { why: Doubt::TooMuchVariance { half_width, trials } } = found.verdict else {
            panic!("{found:?}");
        };
        assert!(half_width > 0.2 && trials > 100, "{half_width} {trials}");
    }

    #[test]
    fn a_finding_is_stored_without_loss_even_when_it_is_absurd() {
        for d in [vec![0.1, 0.2, 0.4], vec![900.0, -900.0, 800.0, 3.0], vec![0.5]] {
            let found = up(&d);
            let text = serde_json::to_string(&found).unwrap();
            assert_eq!(serde_json::from_str::<Finding>(&text).unwrap(), found, "{text}");
        }
        assert_eq!(serde_json::from_str::<Thresholds>("{}").unwrap(), Thresholds::default());
    }
}
