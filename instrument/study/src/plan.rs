//! The plan of a study: its cells, and the order of their trials.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use spec::StackSpec;

use crate::counts::CONTAINERS;
use crate::offered::{OFFERED, OfferedRate};
use crate::results::{Cell, Parameter, Published, Trial};
use crate::turns::{InterleavedDesign, TRIALS_OF_BLOCK};
use crate::{Order, Row, Selector, Study, Workload};

/// One planned trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// [`Cell::id`].
    pub cell: u32,
    /// Which trial of its cell, from 0; also the block that it belongs to.
    pub index: u32,
    /// Position in the whole plan, from 0.
    pub order: u32,
}

/// The cells of a study: for each workload, for each combination of parameters, every stack; or every row.
pub fn cells(study: &Study) -> Vec<Cell> {
    if let Some(turns) = &study.study.turns {
        return in_turns(study, turns);
    }
    let mut cells: Vec<Cell> = Vec::new();
    let mut known = HashSet::new();
    for workload in &study.workloads {
        for parameters in points(study, workload) {
            for (stack, own) in systems(study, workload) {
                let id = u32::try_from(cells.len()).unwrap_or(u32::MAX);
                let parameters = parameters.iter().cloned().chain(own).collect();
                let cell = Cell { id, workload: workload.label().to_string(), stack, parameters };
                // two rows may stand for the same system
                if known.insert((key(&cell.workload, &cell.parameters), cell.stack.clone())) {
                    cells.push(cell);
                }
            }
        }
    }
    cells
}

/// A and B: the first two stacks, or twice the only one.
fn in_turns(study: &Study, turns: &InterleavedDesign) -> Vec<Cell> {
    let (Some(workload), Some(last)) = (study.workloads.first(), study.stacks.len().checked_sub(1)) else {
        return Vec::new();
    };
    let side = |(id, own): (usize, &BTreeMap<String, String>)| Cell {
        id: id as u32,
        workload: workload.label().to_string(),
        stack: study.stacks[id.min(last)].label(),
        parameters: own
            .iter()
            .map(|(name, value)| Parameter { name: name.clone(), value: value.clone() })
            .collect(),
    };
    [&turns.a, &turns.b].into_iter().enumerate().map(side).collect()
}

/// A B B A or B A A B, by lot, block after block: a drift of the machine cancels in a block, and the sign of a block's
/// difference is that of a fair coin when A and B are the same.
fn order_in_turns(study: &Study) -> Vec<Slot> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(study.study.seed);
    let mut slots = Vec::new();
    for index in (0..study.study.trials).step_by(TRIALS_OF_BLOCK as usize) {
        let first = u32::from(rng.random::<bool>());
        for (cell, index) in [(first, index), (1 - first, index), (1 - first, index + 1), (first, index + 1)]
        {
            slots.push(Slot { cell, index, order: slots.len() as u32 });
        }
    }
    slots
}

/// Every combination of a workload's parameters; the number of containers or the offered rate, which is one of them, turns
/// fastest.
fn points(study: &Study, workload: &Workload) -> Vec<Vec<Parameter>> {
    let points = study.parameters.with(&workload.parameters).combinations().into_iter();
    let points = points.map(|point| -> Vec<Parameter> {
        point.into_iter().map(|(name, value)| Parameter { name, value }).collect()
    });
    let (counts, offered) = (&study.study.containers, &study.study.offered);
    let (name, values): (&str, Vec<String>) = match (counts.is_empty(), offered.is_empty()) {
        (true, true) => return points.collect(),
        (false, _) => (CONTAINERS, counts.iter().map(|number| number.to_string()).collect()),
        (true, false) => (OFFERED, offered.iter().map(|level| level.to_string()).collect()),
    };
    let with = |point: &Vec<Parameter>, value: &String| {
        let own = Parameter { name: name.into(), value: value.clone() };
        point.iter().cloned().chain([own]).collect()
    };
    points.flat_map(|point| values.iter().map(|value| with(&point, value)).collect::<Vec<_>>()).collect()
}

/// Under what a load runs: stacks, with the parameters of the rows that are to run and that it belongs to.
fn systems(study: &Study, workload: &Workload) -> Vec<(String, Vec<Parameter>)> {
    let stacks = || study.stacks.iter().map(StackSpec::label);
    if study.rows.is_empty() {
        return stacks().map(|stack| (stack, Vec::new())).collect();
    }
    let of_row = |row: &Row| -> Vec<(String, Vec<Parameter>)> {
        match &row.stack {
            Some(stack) => vec![(stack.label(), row.values())],
            None => stacks().map(|stack| (stack, row.values())).collect(),
        }
    };
    let runs = |row: &&Row| !row.skip && row.runs(&study.columns, workload.label());
    study.rows.iter().filter(runs).flat_map(of_row).collect()
}

/// The stacks of a study: its own and those of the rows that are to run, each once.
pub fn stacks(study: &Study) -> Vec<StackSpec> {
    let of_rows = study.rows.iter().filter(|row| !row.skip).filter_map(|row| row.stack.as_ref());
    let mut stacks: Vec<StackSpec> = Vec::new();
    for stack in study.stacks.iter().chain(of_rows) {
        if !stacks.iter().any(|known| known.label() == stack.label()) {
            stacks.push(stack.clone());
        }
    }
    stacks
}

/// The stack of a cell.
pub fn stack_of<'a>(study: &'a Study, cell: &Cell) -> Option<&'a StackSpec> {
    let of_rows = study.rows.iter().filter_map(|row| row.stack.as_ref());
    study.stacks.iter().chain(of_rows).find(|stack| stack.label() == cell.stack)
}

/// Whether a cell belongs to a row.
pub fn is_of_row(cell: &Cell, row: &Row) -> bool {
    row.stack.as_ref().is_none_or(|stack| stack.label() == cell.stack)
        && row.values().iter().all(|value| cell.parameters.contains(value))
}

/// Trials that a cell may have at most, by its load and its row.
fn trials_max(study: &Study, cell: &Cell) -> u32 {
    let of_load = workload_of(study, cell).and_then(|workload| workload.trials);
    let is_its = |row: &&Row| is_of_row(cell, row) && row.runs(&study.columns, &cell.workload);
    let of_rows = study.rows.iter().filter(is_its).map(|row| row.trials.unwrap_or(u32::MAX));
    of_load.unwrap_or(u32::MAX).min(of_rows.max().unwrap_or(u32::MAX))
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
/// Trial *n* of all cells comes before trial *n + 1* of any, so that an interrupted run is balanced. Within that, the cells
/// of one workload and parameter set (all stacks, all rows) run back to back: a block, short enough for the machine to be
/// the same. Blocks and the cells within them are shuffled; the same seed gives the same order. Offered rates are not: they
/// go up, in the next block down (after the closed loop that they are shares of), so that a drift does not look like load.
pub fn order(study: &Study) -> Vec<Slot> {
    if study.study.turns.is_some() {
        return order_in_turns(study);
    }
    let cells = cells(study);
    let trials_max: Vec<u32> = cells.iter().map(|cell| trials_max(study, cell)).collect();
    let groups = groups(study, &cells);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(study.study.seed);
    let mut slots = Vec::new();
    for index in 0..study.study.trials {
        let mut groups = groups.clone();
        let rates_are_swept = !study.study.offered.is_empty();
        if rates_are_swept && index % 2 == 1 {
            downwards(&cells, &mut groups);
        }
        if study.study.order == Order::Shuffled {
            if !rates_are_swept {
                groups.shuffle(&mut rng);
            }
            groups.iter_mut().for_each(|group| group.shuffle(&mut rng));
        }
        for cell in groups.into_iter().flatten().filter(|cell| index < trials_max[*cell as usize]) {
            slots.push(Slot { cell, index, order: u32::try_from(slots.len()).unwrap_or(u32::MAX) });
        }
    }
    slots
}

/// Turns the order of the groups round, but for those without a rate, which come first.
fn downwards(cells: &[Cell], groups: &mut [Vec<u32>]) {
    groups.reverse();
    let has_rate = |group: &Vec<u32>| {
        let first = group.first().and_then(|id| cells.get(*id as usize));
        first.is_some_and(|cell| OfferedRate::of(cell) != Some(OfferedRate::Max))
    };
    groups.sort_by_key(has_rate);
}

/// Cells that are compared with each other: those of one workload and parameter set, whatever the stack or row.
pub(crate) fn groups(study: &Study, cells: &[Cell]) -> Vec<Vec<u32>> {
    let of_rows: Vec<&String> =
        study.rows.iter().flat_map(|row| row.parameters.iter().map(|(name, _)| name)).collect();
    let own = |cell: &Cell| -> Vec<Parameter> {
        cell.parameters.iter().filter(|one| !of_rows.contains(&&one.name)).cloned().collect()
    };
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut known: HashMap<_, usize> = HashMap::new();
    for cell in cells {
        let number = *known.entry(key(&cell.workload, &own(cell))).or_insert(groups.len());
        match groups.get_mut(number) {
            Some(group) => group.push(cell.id),
            None => groups.push(vec![cell.id]),
        }
    }
    groups
}

/// What tells workloads with their parameters apart; studies may have tens of thousands of cells.
fn key(workload: &str, parameters: &[Parameter]) -> (String, Vec<(String, String)>) {
    let parameters = parameters.iter().map(|one| (one.name.clone(), one.value.clone()));
    (workload.to_string(), parameters.collect())
}

/// The planned trials that have no result yet, in the planned order.
pub fn remaining(order: &[Slot], trials: &[Trial]) -> Vec<Slot> {
    let done: std::collections::HashSet<(u32, u32)> =
        trials.iter().filter(|trial| trial.status.is_done()).map(|trial| (trial.cell, trial.index)).collect();
    order.iter().copied().filter(|slot| !done.contains(&(slot.cell, slot.index))).collect()
}

/// The published values of single cells of a study.
pub fn published(study: &Study) -> Vec<Published> {
    let cells = cells(study);
    let of_cells = study.published.iter().filter_map(|published| match published.as_ref() {
        crate::Published::Cell(one) => Some(one),
        crate::Published::Column(_) => None,
    });
    of_cells
        .flat_map(|one| {
            choose(&cells, &one.cell).into_iter().map(|cell| Published {
                cell: cell.id,
                metric: one.metric,
                value: one.value,
                unit: one.unit.clone(),
                source: one.source.clone(),
            })
        })
        .collect()
}
