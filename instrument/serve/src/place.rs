//! Where a load runs, and who hears of it.

use std::cell::Cell;
use std::sync::Arc;

use camino::Utf8Path;
use journal::Journal;

use crate::drive::{Caller, Moment};

/// Where a load runs, and who hears of it.
pub struct LoadSite<'a> {
    /// Directory on the stack under test.
    pub root: &'a Utf8Path,
    /// Directory for sockets and logs of private servers, elsewhere.
    pub temporary: &'a Utf8Path,
    /// Where servers are recorded.
    pub journal: &'a Arc<Journal>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Whether to end.
    pub stopped: &'a (dyn Fn() -> bool + Sync),
    /// Hears what happens, in a line.
    pub tell: &'a dyn Fn(&str),
    /// Hears when the measured interval begins and when its last transaction has ended: nothing else happens in between.
    pub moment: &'a dyn Fn(Moment),
}

impl<'a> LoadSite<'a> {
    /// Who ends a run here, and hears of its measured interval.
    pub fn caller(&self) -> Caller<'a> {
        Caller { stopped: self.stopped, moment: self.moment }
    }
}

/// Processor seconds that a server used in the measured interval.
#[derive(Debug, Default)]
pub struct UsedSeconds {
    begin: Cell<Option<f64>>,
    end: Cell<Option<f64>>,
}

impl UsedSeconds {
    /// What it had used at a moment; none: it is not known.
    pub fn at(&self, moment: Moment, seconds: Option<f64>) {
        match moment {
            Moment::Begin => self.begin.set(seconds),
            Moment::End => self.end.set(seconds),
        }
    }

    /// What it used between both, if both are known.
    pub fn seconds(&self) -> Option<f64> {
        Some(self.end.get()? - self.begin.get()?)
    }
}
