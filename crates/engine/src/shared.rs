//! What all lanes of a run share.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use workload::EndMode;

use crate::control::Control;
use crate::fileset::LiveFileset;
use crate::limit::Schedule;
use crate::program::Program;
use crate::record::OpRecord;

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
    /// Totals of each process instance, when some flowop looks at them; empty otherwise.
    pub totals: Vec<Totals>,
    /// Lines that flowops print.
    pub lines: Mutex<Vec<String>>,
    /// Sums of reporting periods that are over: by number, the records of each line and how many lanes added theirs.
    pub periods: Mutex<BTreeMap<usize, (Vec<OpRecord>, usize)>>,
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
    /// Claims some of the operations left; 0 when there are none. Near the end the claims get smaller, so that all
    /// lanes work until it.
    pub fn claim_ops(&self) -> u64 {
        let Some(left) = &self.ops_left else { return u64::MAX };
        let claim = |left: u64| (left / 64).clamp(1, CLAIM_MAX).min(left);
        left.fetch_update(Relaxed, Relaxed, |left| (left > 0).then(|| left - claim(left))).map_or(0, claim)
    }

    /// Adds a lane's records to those of a reporting period.
    pub fn add_period(&self, period: usize, program: &Program, ops: &[OpRecord], lines: usize) {
        let mut periods = self.periods.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (sums, lanes) = periods.entry(period).or_insert_with(|| (vec![OpRecord::default(); lines], 0));
        for (op, record) in program.ops.iter().zip(ops) {
            sums[op.line].merge(record);
        }
        *lanes += 1;
    }

    /// Prints a line.
    pub fn say(&self, line: String) {
        self.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(line);
    }
}
