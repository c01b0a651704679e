//! Cells of deterministic guests compared: nothing of the machine is in their figures, so that two trials decide.
//!
//! Trials pair by index, which gives both the same seeds. Equal raw data are equal, whatever else. Of others each pair has a
//! ratio; what a seed changes is in all of them.

use stats::blocked::Trial as Value;
use stats::{Doubt, Finding, Interval, Method, Sense, Verdict};

use study::results::{Run, Trial};

/// A ratio nearer to 1 says nothing: another layout of memory alone moves a mean by up to 0.05 % (docs/notebook/guests.md).
pub const FLOOR: f64 = 0.000_5;
/// Pairs that decide.
const PAIRS_MIN: usize = 2;

/// The finding on `b` against `a`; `None` when a trial of one of them was not in a deterministic guest, or they have no
/// pairs. `of_a` and `of_b` are the values of a metric by index.
pub fn finding(
    (a, cell_a, of_a): (&Run, u32, &[Value]),
    (b, cell_b, of_b): (&Run, u32, &[Value]),
    sense: Sense,
) -> Option<Finding> {
    let (sums_a, sums_b) = (raw_data(a, cell_a)?, raw_data(b, cell_b)?);
    let pairs: Vec<(&Value, &Value)> = of_a
        .iter()
        .filter_map(|left| Some((left, of_b.iter().find(|right| right.block == left.block)?)))
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let sum = |sums: &[(u64, String)], block| {
        sums.iter().find(|(index, _)| *index == block).map(|(_, sum)| sum.clone())
    };
    let identical = pairs
        .iter()
        .all(|(left, _)| sum(&sums_a, left.block).is_some_and(|one| Some(one) == sum(&sums_b, left.block)));
    let ratios: Vec<f64> = pairs.iter().map(|(left, right)| right.value / left.value).collect();
    Some(judge(&ratios, identical, sense))
}

fn judge(ratios: &[f64], identical: bool, sense: Sense) -> Finding {
    let (low, high) =
        ratios.iter().fold((f64::INFINITY, 0.0f64), |(low, high), one| (low.min(*one), high.max(*one)));
    let n = ratios.len();
    let product: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    let better = |up: bool| match (sense, up) {
        (Sense::HigherIsBetter, true) | (Sense::LowerIsBetter, false) => Verdict::Better,
        _ => Verdict::Worse,
    };
    let verdict = if identical {
        Verdict::Same
    } else if n < PAIRS_MIN {
        Verdict::CannotTell { why: Doubt::TooFewTrials { have: n, need: PAIRS_MIN } }
    } else if low >= 1.0 + FLOOR {
        better(true)
    } else if high <= 1.0 - FLOOR {
        better(false)
    } else if low > 1.0 - FLOOR && high < 1.0 + FLOOR {
        Verdict::Same
    } else {
        let half_width = (high - low) / 2.0;
        Verdict::CannotTell { why: Doubt::TooMuchVariance { half_width, trials: 2 * n } }
    };
    // the ends are those of the pairs themselves: there is no noise that a law could speak of
    let interval = Interval { low, high, level: 1.0, coverage: 1.0 };
    Finding {
        verdict,
        ratio: (product / n as f64).exp(),
        interval,
        interval_same: interval,
        method: Method::Exact,
        n,
        p_value: if matches!(verdict, Verdict::Better | Verdict::Worse) { 0.0 } else { 1.0 },
        p_same: if verdict == Verdict::Same { 0.0 } else { 1.0 },
    }
}

/// Checksums of a cell's trials that are done, by index; `None` when one was not in a deterministic guest.
fn raw_data(run: &Run, cell: u32) -> Option<Vec<(u64, String)>> {
    let sum = |trial: &Trial| {
        let guest = trial.environment.as_ref()?.guest.as_ref()?;
        Some((u64::from(trial.index), guest.seed.and(guest.raw_data.clone())?))
    };
    run.trials_of(cell).filter(|trial| trial.status.is_done()).map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pairs_decide_and_equal_data_are_the_same() {
        let of = |ratios: &[f64], identical, sense| judge(ratios, identical, sense).verdict;
        let (up, down) = (Sense::HigherIsBetter, Sense::LowerIsBetter);
        assert_eq!(of(&[1.0, 1.0], true, up), Verdict::Same);
        assert_eq!(of(&[1.0], true, up), Verdict::Same);
        assert_eq!(of(&[1.005, 1.004], false, up), Verdict::Better);
        assert_eq!(of(&[1.005, 1.004], false, down), Verdict::Worse);
        assert_eq!(of(&[0.996, 0.995], false, up), Verdict::Worse);
        assert_eq!(of(&[1.000_1, 0.999_9], false, up), Verdict::Same);
        assert!(matches!(
            of(&[1.01, 0.99], false, up),
            Verdict::CannotTell { why: Doubt::TooMuchVariance { .. } }
        ));
        assert!(matches!(
            of(&[1.01], false, up),
            Verdict::CannotTell { why: Doubt::TooFewTrials { have: 1, need: 2 } }
        ));
        let found = judge(&[1.004, 1.006], false, up);
        assert!((found.ratio - 1.005).abs() < 1e-5 && found.differs() && found.n == 2);
    }
}
