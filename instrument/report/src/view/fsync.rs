//! Where the fsyncs of each cell spent their time: the trial whose mean fsync is the median stands for all.

use study::fsync::FsyncSplit;
use study::fsync::Part;
use study::fsync::summary::LevelSummary;

use super::View;
use crate::format;

/// The split of one cell.
#[derive(Debug, Clone)]
pub struct FsyncRow<'a> {
    /// Column of the view.
    pub column: usize,
    /// Row of the view.
    pub row: usize,
    /// Trials that are done, with fsyncs.
    pub trials: usize,
    /// What the trial that stands for them has recorded.
    pub split: &'a FsyncSplit,
    /// Its first level: what the program waited for.
    pub top: &'a LevelSummary,
}

/// Every cell with recorded fsyncs, load by load.
pub fn fsyncs<'a>(view: &View<'a>) -> Vec<FsyncRow<'a>> {
    let cells = (0..view.loads.len()).flat_map(|column| (0..view.stacks.len()).map(move |row| (column, row)));
    cells.filter_map(|(column, row)| of_cell(view, column, row)).collect()
}

fn of_cell<'a>(view: &View<'a>, column: usize, row: usize) -> Option<FsyncRow<'a>> {
    let trials = &view.point(row, column).trials;
    let mut splits: Vec<(&FsyncSplit, &LevelSummary)> = trials
        .iter()
        .filter(|trial| trial.status.is_done())
        .filter_map(|trial| trial.fsync.as_ref())
        .filter_map(|split| Some((split, split.summary.levels.first()?)))
        .collect();
    splits.sort_by(|a, b| a.1.whole.mean_ns.total_cmp(&b.1.whole.mean_ns));
    let (split, top) = *splits.get(splits.len().checked_sub(1)? / 2)?;
    Some(FsyncRow { column, row, trials: splits.len(), split, top })
}

/// The parts that took any time in one of the rows, in their order.
pub fn parts(rows: &[FsyncRow<'_>]) -> Vec<Part> {
    let any = |part: &Part| rows.iter().any(|row| row.mean_ns(*part) > 0.0);
    Part::ALL.into_iter().filter(any).collect()
}

impl FsyncRow<'_> {
    /// Mean nanoseconds per fsync that go to `part`.
    pub fn mean_ns(&self, part: Part) -> f64 {
        self.top.parts.iter().find(|(known, _)| *known == part).map_or(0.0, |(_, times)| times.mean_ns)
    }

    /// Share of `part` in the fsync, 0 to 1.
    pub fn share(&self, part: Part) -> f64 {
        if self.top.whole.mean_ns > 0.0 { self.mean_ns(part) / self.top.whole.mean_ns } else { 0.0 }
    }

    /// What a reader must know beside the figures.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = self.split.notes.clone();
        if self.split.lost > 0 {
            remarks.push(format!("{} trace events were lost: parts may lack I/O", self.split.lost));
        }
        if self.split.ended_early {
            let fsyncs = self.split.summary.fsyncs;
            remarks.push(format!("the recording was full after the first {} fsyncs", format::count(fsyncs)));
        }
        remarks
    }
}
