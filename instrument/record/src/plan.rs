//! The plan of a study: its cells, and the order of their trials.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::results::{Cell, Parameter, Published, Trial};
use crate::study::{Order, Selector, Study, Workload};

/// One planned trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// [`Cell::id`].
    pub cell: u32,
    /// Which trial of its cell, from 0; also the block that it belongs to.
    pub index: u32,
    /// Position in the whole plan, from 0.
    pub order: u32,
}

/// The cells of a study: for each workload, for each combination of parameters, every stack.
pub fn cells(study: &Study) -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in &study.workloads {
        for point in study.parameters.with(&workload.parameters).combinations() {
            let parameters: Vec<Parameter> =
                point.into_iter().map(|(name, value)| Parameter { name, value }).collect();
            for stack in &study.stacks {
                cells.push(Cell {
                    id: u32::try_from(cells.len()).unwrap_or(u32::MAX),
                    workload: workload.label().to_string(),
                    stack: stack.label(),
                    parameters: parameters.clone(),
                });
            }
        }
    }
    cells
}

/// The cells that a selector chooses.
pub fn choose<'a>(cells: &'a [Cell], selector: &Selector) -> Vec<&'a Cell> {
    cells.iter().filter(|cell| selector.matches(&cell.workload, &cell.stack, &cell.parameters)).collect()
}

/// The workload of a cell.
pub fn workload_of<'a>(study: &'a Study, cell: &Cell) -> Option<&'a Workload> {
    study.workloads.iter().find(|workload| workload.label() == cell.workload)
}

/// All trials in the order in which they are to run.
///
/// Each block holds one trial of every cell, shuffled within the block, so that slow drift of the machine
/// (heat, neighbours) hits all cells alike and an interrupted run is balanced. The same seed gives the same
/// order.
pub fn order(study: &Study) -> Vec<Slot> {
    let trials_max: Vec<u32> = cells(study)
        .iter()
        .map(|cell| workload_of(study, cell).and_then(|workload| workload.trials).unwrap_or(u32::MAX))
        .collect();
    let cells = u32::try_from(trials_max.len()).unwrap_or(u32::MAX);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(study.study.seed);
    let mut slots = Vec::new();
    for index in 0..study.study.trials {
        let mut block: Vec<u32> = (0..cells).collect();
        if study.study.order == Order::Shuffled {
            block.shuffle(&mut rng);
        }
        for cell in block.into_iter().filter(|cell| index < trials_max[*cell as usize]) {
            slots.push(Slot { cell, index, order: u32::try_from(slots.len()).unwrap_or(u32::MAX) });
        }
    }
    slots
}

/// The planned trials that have no result yet, in the planned order.
pub fn remaining(order: &[Slot], trials: &[Trial]) -> Vec<Slot> {
    let done: std::collections::HashSet<(u32, u32)> =
        trials.iter().filter(|trial| trial.status.is_done()).map(|trial| (trial.cell, trial.index)).collect();
    order.iter().copied().filter(|slot| !done.contains(&(slot.cell, slot.index))).collect()
}

/// The published values of a study with the cells that they belong to.
pub fn published(study: &Study) -> Vec<Published> {
    let cells = cells(study);
    study
        .published
        .iter()
        .map(|published| published.as_ref())
        .flat_map(|published| {
            choose(&cells, &published.cell).into_iter().map(|cell| Published {
                cell: cell.id,
                metric: published.metric,
                value: published.value,
                unit: published.unit.clone(),
                source: published.source.clone(),
            })
        })
        .collect()
}
