//! Runs of evaluations that were stored before studies had rows and columns.
//!
//! Their study is one that is embedded today: the title tells which, and at which scale; memory and device stand in what
//! was stored.

use study::embedded::STUDIES;
use study::plan;
use study::results::Run;
use study::{Study, StudyVariant};

/// What followed the name of a load under rows that no claim is about.
const OTHER_ROWS: &str = " (other rows)";

/// The evaluation of an earlier run, and the run with the names that the evaluation has; `None` when it is none.
pub(crate) fn evaluated(run: &Run) -> Option<(Study, Run)> {
    let stored = Study::from_stored(&run.study).ok()?;
    let (_, scale) = run.title.strip_suffix(')')?.rsplit_once(" (")?;
    let memory = stored.study.memory?;
    let stack = stored.stacks.first()?.label();
    let device = stack.split_once('@').map_or(stack.as_str(), |(_, device)| device);
    let of = |device: &str, text: &study::embedded::EmbeddedStudy| {
        let set = vec![("memory".to_string(), memory.0.to_string())];
        let scene = StudyVariant {
            scale: Some(scale.to_string()),
            device: Some(device.to_string()),
            ram_bytes: memory.0,
            cores: 1,
            set,
            ..StudyVariant::default()
        };
        text.study(&scene).ok().filter(|study| study.study.title == run.title)
    };
    // the stack itself where rows are settings, its device where they are stacks
    let found = STUDIES.iter().find_map(|text| of(&stack, text).filter(|study| !study.stacks.is_empty()));
    let mut study = found.or_else(|| STUDIES.iter().find_map(|text| of(device, text)))?;
    let mut run = run.clone();
    for cell in &mut run.cells {
        if let Some(load) = cell.workload.strip_suffix(OTHER_ROWS) {
            cell.workload = load.to_string();
        }
    }
    for row in &mut study.rows {
        row.skip = !run.cells.iter().any(|cell| plan::is_of_row(cell, row));
    }
    study.workloads.retain_mut(|workload| {
        let ours = |label: &str| label.strip_suffix(OTHER_ROWS).unwrap_or(label) == workload.label();
        let Some(before) = stored.workloads.iter().find(|before| ours(before.label())) else { return false };
        if let Some(variable) = &workload.sections
            && let Some(sections) = before.set.get(variable)
        {
            // it was checked when it was stored
            let _ = workload.set.put(variable, sections.to_vec());
        }
        true
    });
    Some((study, run))
}
