//! `list fileset`: the filesets as Filebench prints them.

use workload::{Fileset, Layout, Value, Workload};

/// Columns of `path/name`; a longer one keeps one blank behind it.
const NAME_COLUMNS: usize = 31;

/// A head and one line for each of the first `defined` filesets, the last defined first. Where Filebench draws from a
/// random variable to print it, its mean stands: nothing of the run depends on whether something was listed.
pub fn filesets(workload: &Workload, layouts: &[Layout], defined: usize) -> Vec<String> {
    let defined = defined.min(workload.filesets.len());
    if defined == 0 {
        return Vec::new();
    }
    let mut lines =
        vec![format!("File or Fileset name{:>20}{:>12}{:>10}", "file size", "dir width", "entries")];
    let pairs = workload.filesets[..defined].iter().zip(layouts);
    lines.extend(pairs.rev().map(|(fileset, layout)| line(workload, fileset, layout)));
    lines
}

fn line(workload: &Workload, fileset: &Fileset, layout: &Layout) -> String {
    let name = format!("{}/{}", fileset.path, fileset.name);
    let mut line = format!("{name:<width$}", width = NAME_COLUMNS.max(name.chars().count() + 1));
    let size = typical(workload, fileset.size);
    if crate::raw::path_of(fileset).is_some() {
        line.push_str("        (Raw Device)");
    } else if fileset.single {
        line.push_str(&format!("{size:>9}     (Single File)"));
    } else {
        let width = typical(workload, fileset.dir_width);
        line.push_str(&format!("{size:>9}{width:>12}{:>10}", layout.len()));
    }
    line
}

/// A fixed value, or the mean of a drawn one.
fn typical(workload: &Workload, value: Value) -> u64 {
    match value {
        Value::Int(value) => value,
        Value::Draw(index) => workload.draws.get(index).map_or(0, |draw| draw.mean().round() as u64),
    }
}
