//! Resolves the loads of a study before its first trial, so that a mistake shows then.

use std::ops::Deref;

use study::plan;
use study::results::Cell;
use study::{Study, StudyError};

use crate::load::{self, ResolvedWorkload};

/// The loads of a study: one for each workload with each combination of its parameters.
#[derive(Debug)]
pub struct Loads(Vec<ResolvedWorkload>);

/// Resolves every workload of `study` with every combination of its parameters, for this machine. Sizes that depend on
/// `$free` are worked out for `machine.free_bytes`, since the target does not exist yet.
///
/// # Errors
/// As [`load::prepare`].
pub fn workloads(study: &Study, machine: wml::Machine) -> Result<Loads, StudyError> {
    let mut loads = Loads(Vec::new());
    for cell in plan::cells(study) {
        if loads.of(&cell).is_some() {
            continue;
        }
        let Some(workload) = plan::workload_of(study, &cell) else { continue };
        loads.0.push(load::prepare(workload, &cell.parameters, &study.study, machine)?);
    }
    Ok(loads)
}

impl Loads {
    /// The load of a cell.
    pub fn of(&self, cell: &Cell) -> Option<&ResolvedWorkload> {
        self.0.iter().find(|load| load.workload == cell.workload && load.parameters == cell.parameters)
    }
}

impl Deref for Loads {
    type Target = [ResolvedWorkload];

    fn deref(&self) -> &[ResolvedWorkload] {
        &self.0
    }
}
