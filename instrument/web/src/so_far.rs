//! How far a run is.

use lab::Store;
use lab::store::StoreError;
use report::web::{CellProgress, RunProgress};
use study::Study;
use study::deal;
use study::results::Run;

/// How far a run is, by its stored trials and its plan.
pub fn so_far(store: &Store, run: &Run) -> Result<RunProgress, StoreError> {
    let briefs = store.briefs(&run.id)?;
    let stacks = run.stacks();
    let order =
        Study::from_stored(&run.study).map(|study| deal::order(&study, run.shard)).unwrap_or_default();
    // which trial runs is not stored: it is the first of the plan that has not ended, unless a cell was closed early
    let next =
        order.iter().find(|slot| !briefs.iter().any(|one| (one.cell, one.index) == (slot.cell, slot.index)));
    let planned = |cell: u32| order.iter().filter(|slot| slot.cell == cell).count() as u32;
    let cells = run.cells.iter().map(|cell| CellProgress {
        cell: cell.id,
        label: cell.label(),
        stack: stacks.iter().position(|stack| *stack == cell.stack).unwrap_or(0),
        trials: briefs
            .iter()
            .enumerate()
            .filter(|(_, one)| one.cell == cell.id)
            .map(|(at, one)| (at, one.status.clone(), one.ops_per_second, one.seconds))
            .collect(),
        planned: if order.is_empty() { run.planned_trials } else { planned(cell.id) },
        is_next: next.is_some_and(|slot| slot.cell == cell.id),
    });
    let planned = if order.is_empty() {
        run.cells.len() as u64 * u64::from(run.planned_trials)
    } else {
        order.len() as u64
    };
    Ok(RunProgress {
        cells: cells.collect(),
        planned,
        is_finished: run.finished.is_some(),
        is_extended: store.is_extended(&run.id)?,
    })
}
