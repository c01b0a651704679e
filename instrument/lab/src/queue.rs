//! What is still to run of a plan, and how long that will take.

use std::collections::VecDeque;

use study::Study;
use study::deal;
use study::estimate::Estimate;
use study::plan::{self, Slot};
use study::results::{Run, Trial};

use crate::check::Loads;
use crate::load::ResolvedWorkload;

/// The trials that are still to run, and how long they will take.
#[derive(Debug)]
pub struct Queue {
    /// The next one first.
    waiting: VecDeque<Slot>,
    planned: usize,
    estimate: Estimate,
}

impl Queue {
    /// What is missing of `run`.
    pub fn new(study: &Study, run: &Run, loads: &Loads) -> Queue {
        let waiting: VecDeque<Slot> = plan::remaining(&deal::order(study, run.shard), &run.trials).into();
        let seconds = |cell| loads.of(cell).map_or(0.0, ResolvedWorkload::load_seconds);
        let mut estimate = Estimate::new(run.cells.iter().map(seconds).collect());
        run.trials.iter().for_each(|trial| estimate.learn(trial));
        Queue { planned: waiting.len(), waiting, estimate }
    }

    /// Seconds that it is likely to take.
    pub fn seconds(&self) -> f64 {
        self.estimate.total_seconds(&self.waiting)
    }

    /// Seconds that one trial of a cell is likely to take.
    pub fn trial_seconds(&self, cell: u32) -> f64 {
        self.estimate.trial_seconds(cell)
    }

    /// Learns from a trial that has ended.
    pub fn learn(&mut self, trial: &Trial) {
        self.estimate.learn(trial);
    }

    /// How many trials there were at the beginning, less those of cells that get no further ones.
    pub fn planned(&self) -> usize {
        self.planned
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a cell has trials to run.
    pub fn holds(&self, cell: u32) -> bool {
        self.waiting.iter().any(|slot| slot.cell == cell)
    }

    /// Takes the next trial.
    pub fn take(&mut self) -> Option<Slot> {
        self.waiting.pop_front()
    }

    /// Takes the trials that follow and are of the same block: of a cell that `is_like` accepts, with the same index.
    pub fn take_block(&mut self, index: u32, is_like: impl Fn(u32) -> bool) -> Vec<Slot> {
        let mut block = Vec::new();
        while self.waiting.front().is_some_and(|next| next.index == index && is_like(next.cell)) {
            block.extend(self.waiting.pop_front());
        }
        block
    }

    /// The first waiting trial of each cell on a stack.
    pub fn cells_on(&self, run: &Run, stack: &str) -> Vec<Slot> {
        let mut cells: Vec<Slot> = Vec::new();
        for slot in &self.waiting {
            let of_stack = run.cell(slot.cell).is_some_and(|cell| cell.stack == stack);
            if of_stack && cells.iter().all(|known| known.cell != slot.cell) {
                cells.push(*slot);
            }
        }
        cells
    }

    /// Takes the waiting trials of a cell off.
    pub fn close(&mut self, cell: u32) {
        let before = self.waiting.len();
        self.waiting.retain(|slot| slot.cell != cell);
        self.planned -= before - self.waiting.len();
    }
}
