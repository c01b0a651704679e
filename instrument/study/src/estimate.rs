//! How long the rest of a run will take: guessed before the first trial, learned from each one.

use std::collections::HashMap;

use crate::plan::Slot;
use crate::results::Trial;

/// Building a stack, creating the files and taking all down, in seconds, before anything is known.
const OVERHEAD_SECONDS_GUESS: f64 = 2.0;

/// Learns what trials cost.
#[derive(Debug, Clone, Default)]
pub struct Estimate {
    /// Warm-up and measured interval of each cell in seconds, by cell id.
    load_seconds: Vec<f64>,
    /// Sum and number of what trials of a cell took beyond their load.
    overhead: HashMap<u32, (f64, u32)>,
}

impl Estimate {
    /// With the seconds of load (warm-up and measured interval) of each cell, by cell id.
    pub fn new(load_seconds: Vec<f64>) -> Self {
        Estimate { load_seconds, overhead: HashMap::new() }
    }

    /// Learns from a trial that has ended.
    pub fn learn(&mut self, trial: &Trial) {
        if trial.status.is_done() {
            let beyond = (trial.seconds - self.load(trial.cell)).max(0.0);
            let (sum, number) = self.overhead.entry(trial.cell).or_default();
            *sum += beyond;
            *number += 1;
        }
    }

    /// Seconds that one trial of a cell will take.
    pub fn trial_seconds(&self, cell: u32) -> f64 {
        self.load(cell) + self.overhead_seconds(cell)
    }

    /// Seconds that these trials will take.
    pub fn total_seconds<'a>(&self, slots: impl IntoIterator<Item = &'a Slot>) -> f64 {
        slots.into_iter().map(|slot| self.trial_seconds(slot.cell)).sum()
    }

    fn load(&self, cell: u32) -> f64 {
        self.load_seconds.get(cell as usize).copied().unwrap_or(0.0)
    }

    /// The cell's own mean, else the mean of all cells, else a guess.
    fn overhead_seconds(&self, cell: u32) -> f64 {
        if let Some((sum, number)) = self.overhead.get(&cell) {
            return sum / f64::from(*number);
        }
        let (sum, number) =
            self.overhead.values().fold((0.0, 0), |(sum, number), (s, n)| (sum + s, number + n));
        if number > 0 { sum / f64::from(number) } else { OVERHEAD_SECONDS_GUESS }
    }
}
