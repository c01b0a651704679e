//! What all lanes of a run share.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use workload::EndMode;

use crate::control::Control;
use crate::fileset::LiveFileset;
use crate::limit::Schedule;
use crate::program::Program;
use crate::record::{OpRecord, ReportKind};
use crate::slices::Slices;

/// Most operations that a lane claims at once of a run's set number.
const CLAIM_MAX: u64 = 64;

/// What all lanes of a run share; written rarely.
pub struct Shared<'r> {
    /// The filesets, by index.
    pub filesets: Vec<LiveFileset>,
    /// When the run ends.
    pub end_mode: EndMode,
    /// Starvation ends the run.
    pub strict: bool,
    /// Stop flag.
    pub control: &'r Control,
    /// The offered load, when one is set for the whole run.
    pub pace: Option<Schedule>,
    /// Operations left of the run's set number.
    pub ops_left: Option<AtomicU64>,
    /// Lanes that have not ended.
    pub lanes: AtomicU64,
    /// Totals of each process instance, when some flowop looks at them; empty otherwise.
    pub totals: Vec<Totals>,
    /// Lines that flowops print.
    pub lines: Mutex<Vec<String>>,
    /// Sums of reporting periods.
    pub periods: Mutex<Periods>,
    /// Files cut back since they had grown past their fileset's limit.
    pub cut_back: AtomicU64,
}

/// Operations and bytes of a process instance.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Totals {
    ops: AtomicU64,
    bytes: AtomicU64,
}

impl Totals {
    /// Counts one operation.
    pub fn add(&self, bytes: u64) {
        self.ops.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Operations so far.
    pub fn ops(&self) -> u64 {
        self.ops.load(Relaxed)
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

impl Shared<'_> {
    /// A path that was opened, as messages name it: a device by its name. May end with a zero byte.
    #[cold]
    pub fn shown(&self, path: &[u8]) -> String {
        let path = path.strip_suffix(&[0]).unwrap_or(path);
        let is_it = |fileset: &&LiveFileset| fileset.raw.as_ref().is_some_and(|raw| raw.as_bytes() == path);
        let device = self.filesets.iter().find(is_it).and_then(|fileset| fileset.device.clone());
        device.unwrap_or_else(|| String::from_utf8_lossy(path).into_owned())
    }

    /// Whether lanes may do a set number of operations only.
    #[inline(always)]
    pub fn counts_ops(&self) -> bool {
        self.ops_left.is_some() || self.control.slices().is_some_and(|slices| !slices.is_timed())
    }

    /// Claims some of the operations left; 0 when there are none. Near the end the claims get smaller, so that all
    /// lanes work until it.
    pub fn claim_ops(&self) -> u64 {
        let left = self.control.slices().map(Slices::left).or(self.ops_left.as_ref());
        let Some(left) = left else { return u64::MAX };
        let claim = |left: u64| (left / 64).clamp(1, CLAIM_MAX).min(left);
        left.fetch_update(Relaxed, Relaxed, |left| (left > 0).then(|| left - claim(left))).map_or(0, claim)
    }

    /// Adds what a lane reports to the sums of the reporting periods.
    pub fn add_period(&self, what: ReportKind, program: &Program, ops: &[OpRecord], lines: usize) {
        let mut periods = self.periods.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let sums = periods.sums(what, lines);
        for (op, record) in program.ops.iter().zip(ops) {
            sums[op.line].merge(record);
        }
    }

    /// Prints a line.
    pub fn say(&self, line: String) {
        self.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(line);
    }
}

/// Records of each line of the result, and of how many lanes.
type Sums = (Vec<OpRecord>, usize);

/// Sums of reporting periods (`psrun`), by the number of the period.
#[derive(Debug, Default)]
pub struct Periods {
    /// Each report starts from zero, instead of from the start of the interval.
    anew: bool,
    /// Periods that are over, not told yet.
    over: BTreeMap<usize, Sums>,
    /// Lanes that ended within a period: what they did belongs to it, and when reports count from the start, to all later
    /// ones.
    ended: BTreeMap<usize, Sums>,
}

impl Periods {
    /// No reports yet; `anew`: each starts from zero.
    pub fn new(anew: bool) -> Periods {
        Periods { anew, ..Periods::default() }
    }

    /// The sums that a report of one more lane goes into.
    fn sums(&mut self, what: ReportKind, lines: usize) -> &mut Vec<OpRecord> {
        let (map, number) = match what {
            ReportKind::Over(number) => (&mut self.over, number),
            ReportKind::Ended(number) => (&mut self.ended, number),
        };
        let (sums, lanes) = map.entry(number).or_insert_with(|| (vec![OpRecord::default(); lines], 0));
        *lanes += 1;
        sums
    }

    /// Takes the sums of a period that is over, once `lanes` lanes have added their part or have ended. (A period in
    /// which the last of them ended is not over.)
    pub fn take(&mut self, number: usize, lanes: usize) -> Option<Vec<OpRecord>> {
        let there = self.over.get(&number)?.1;
        let gone: usize = self.ended.range(..=number).map(|(_, (_, lanes))| lanes).sum();
        if there + gone < lanes {
            return None;
        }
        let (mut sums, _) = self.over.remove(&number)?;
        let from = if self.anew { number } else { 0 };
        for (ended, _) in self.ended.range(from..=number).map(|(_, sums)| sums) {
            sums.iter_mut().zip(ended).for_each(|(sum, ended)| sum.merge(ended));
        }
        Some(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two lanes of one flowop: one ends within the second period, the other goes on.
    #[test]
    fn what_a_lane_did_before_its_end_stays_in_the_reports() {
        for (anew, expected) in [(false, [13, 35, 49]), (true, [13, 7, 9])] {
            let mut periods = Periods::new(anew);
            let (one, other) = if anew { ([3, 2], [10, 5, 9]) } else { ([3, 5], [10, 30, 44]) };
            let mut add = |what, ops| periods.sums(what, 1)[0].ops += ops;
            add(ReportKind::Over(0), one[0]);
            add(ReportKind::Ended(1), one[1]);
            other.iter().enumerate().for_each(|(number, ops)| add(ReportKind::Over(number), *ops));
            let told: Vec<u64> =
                (0..3).map(|number| periods.take(number, 2).expect("it is complete")[0].ops).collect();
            assert_eq!(told, expected, "anew: {anew}");
        }
    }

    #[test]
    fn a_report_waits_for_every_lane_at_work() {
        let mut periods = Periods::new(false);
        periods.sums(ReportKind::Over(0), 1);
        assert!(periods.take(0, 2).is_none());
        periods.sums(ReportKind::Over(0), 1);
        assert!(periods.take(0, 2).is_some());
        assert!(periods.take(0, 0).is_none(), "it was told");
    }
}
