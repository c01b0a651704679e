//! Equal stacks in a run of five trials of 2 s: whole trials one after the other, and blocks in turns.
//!
//! The machine's noise has a slow part (memory of a second) and a fast one (20 ms); a build of a stack differs from the next one. The
//! slow part is such that whole trials scatter by 7 % in a block, as on the machine that said "same" in 1 of 6 such runs; the fast
//! one such that slices of 20 ms for 0.4 s scatter by 3 %, and builds by 1.6 % (docs/notebook/statistics.md).

use stats::effect::Effect;
use stats::judge::{Thresholds, judge};
use stats::rng::SplitMix;
use stats::{Sense, Verdict};

use crate::noise::{at_least, at_most, normal, rounds, share};

/// Steps of the noise in a second.
const STEPS: usize = 100;
/// Standard deviation of the logarithm and memory in steps: slow, fast.
const PARTS: [(f64, f64); 2] = [(0.07, 100.0), (0.06, 2.0)];
/// Standard deviation of a build.
const BUILD: f64 = 0.011;

/// The machine's noise, step by step.
struct Machine([f64; 2]);

impl Machine {
    fn step(&mut self, rng: &mut SplitMix) -> f64 {
        for (level, (_, memory)) in self.0.iter_mut().zip(PARTS) {
            let kept = (-1.0 / memory).exp();
            *level = kept * *level + (1.0 - kept * kept).sqrt() * normal(rng);
        }
        self.0.iter().zip(PARTS).map(|(level, (sd, _))| sd * level).sum()
    }
}

/// A run of `blocks` blocks of two equal stacks with trials of so many steps, in turns of `turn` steps (of the whole trial: one after
/// the other).
fn verdict(rng: &mut SplitMix, blocks: usize, steps: usize, turn: usize) -> Verdict {
    let mut machine = Machine([normal(rng), normal(rng)]);
    let differences: Vec<f64> = (0..blocks)
        .map(|_| {
            let builds = [BUILD * normal(rng), BUILD * normal(rng)];
            let mut work = [0.0; 2];
            for _ in 0..steps / turn {
                let first = rng.below(2);
                for side in [first, 1 - first] {
                    work[side] += (0..turn).map(|_| (machine.step(rng) + builds[side]).exp()).sum::<f64>();
                }
            }
            (work[1] / work[0]).ln()
        })
        .collect();
    let effect = Effect::of_differences(&differences).unwrap();
    judge(&effect, Sense::HigherIsBetter, &Thresholds::default()).verdict
}

#[test]
fn equal_stacks_are_the_same_in_turns() {
    let differs = |verdict| matches!(verdict, Verdict::Better | Verdict::Worse);
    for (what, blocks, seconds, turn) in
        [("5 trials of 2 s", 5, 2, 2), ("10 trials of 1 s", 10, 1, 2), ("5 trials of 2 s, synced", 5, 2, 10)]
    {
        let what = format!("{what}, turns of {} ms", turn * 1000 / STEPS);
        at_least(0.80, &format!("{what}: same"), rounds(400), 1_900, |rng| {
            verdict(rng, blocks, seconds * STEPS, turn) == Verdict::Same
        });
        at_most(0.05, &format!("{what}: better or worse"), rounds(400), 1_901, |rng| {
            differs(verdict(rng, blocks, seconds * STEPS, turn))
        });
    }
    let whole = |rng: &mut SplitMix| verdict(rng, 5, 2 * STEPS, 2 * STEPS);
    let same = share("5 whole trials of 2 s: same", rounds(400), 1_902, |rng| whole(rng) == Verdict::Same);
    share("5 whole trials of 2 s: better or worse", rounds(400), 1_903, |rng| differs(whole(rng)));
    assert!(same < 0.5, "the noise is not that of the machine where whole trials could not tell: {same}");
}
