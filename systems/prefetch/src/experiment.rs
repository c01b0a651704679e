//! Try, compare, rest twice as long: one rule for all that is done only where it is seen to gain.
//!
//! Streams ([`trial`](crate::trial)), the order of files ([`order`](crate::order), [`series`](crate::series)) and the
//! library's own cost differ in what they compare. What
//! follows from it is the same: some losses in a row end it for a while, each time for twice as long, and a gain makes
//! that forgotten. So what never gains costs a share of the time that falls with every try, and what begins to gain is
//! found (exponential backoff; Metcalfe and Boggs, "Ethernet", 1976).

use crate::shared::New;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a comparison showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It gains.
    Gain,
    /// It is not worth a rest, and no reason to forget the earlier ones.
    Even,
    /// It brings nothing.
    Loss,
}

/// How one is judged. Rests are counted in what its owner counts: reads, files or ns.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Losses in a row that end it.
    pub losses: u64,
    /// The first rest.
    pub least: u64,
    /// The longest rest.
    pub most: u64,
}

/// An experiment. All methods may race: a lost update costs a try.
#[derive(Debug)]
pub struct Experiment {
    terms: Terms,
    /// Losses in a row.
    lost: AtomicU64,
    /// The latest rest; 0 before the first and after a gain.
    rest: AtomicU64,
    /// When that one ends.
    until: AtomicU64,
}

impl Experiment {
    /// Nothing was tried yet.
    pub const fn new(terms: Terms) -> Experiment {
        Experiment { terms, lost: AtomicU64::NEW, rest: AtomicU64::NEW, until: AtomicU64::NEW }
    }

    /// Takes what a comparison showed at a moment of the owner's count; `true`: a rest begins.
    pub fn learn(&self, verdict: Verdict, at: u64) -> bool {
        let lost = match verdict {
            Verdict::Gain => {
                self.rest.store(0, Relaxed);
                self.until.store(0, Relaxed);
                0
            }
            Verdict::Even => 0,
            Verdict::Loss => self.lost.load(Relaxed) + 1,
        };
        let ends = lost >= self.terms.losses;
        self.lost.store(lost, Relaxed);
        if ends {
            self.rest(at);
        }
        ends
    }

    /// Begins a rest, twice as long as the one before; how long.
    pub fn rest(&self, at: u64) -> u64 {
        let rest = self.rest.load(Relaxed).saturating_mul(2).clamp(self.terms.least, self.terms.most);
        self.lost.store(0, Relaxed);
        self.rest.store(rest, Relaxed);
        self.until.store(at.saturating_add(rest), Relaxed);
        rest
    }

    /// When the latest rest ends; 0 without one.
    pub fn until(&self) -> u64 {
        self.until.load(Relaxed)
    }

    /// Whether it rests at a moment.
    pub fn rests(&self, at: u64) -> bool {
        at < self.until()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        Experiment::new(Terms { losses: 2, least: 4, most: 16 })
    }

    #[test]
    fn losses_in_a_row_end_it_for_twice_as_long_each_time() {
        let (experiment, mut at) = (experiment(), 100);
        for rest in [4, 8, 16, 16] {
            assert!(!experiment.learn(Verdict::Loss, at));
            assert!(!experiment.rests(at));
            assert!(experiment.learn(Verdict::Loss, at));
            assert!(experiment.rests(at + rest - 1) && !experiment.rests(at + rest));
            at += rest;
        }
    }

    #[test]
    fn what_is_even_forgives_losses_and_a_gain_rests_too() {
        let experiment = experiment();
        for _ in 0..9 {
            assert!(!experiment.learn(Verdict::Loss, 0) && !experiment.learn(Verdict::Even, 0));
        }
        assert_eq!([experiment.rest(0), experiment.rest(0)], [4, 8]);
        experiment.learn(Verdict::Even, 0);
        assert_eq!(experiment.rest(0), 16);
        experiment.learn(Verdict::Gain, 0);
        assert!(!experiment.rests(0), "it is over");
        assert_eq!(experiment.rest(0), 4);
    }
}
