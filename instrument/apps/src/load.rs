//! What a load is: phases on a directory.

use std::path::Path;

use stats::Outcome;

use crate::span::PhaseTotals;
use crate::{AppError, Bench};

/// Where a load runs.
#[derive(Debug, Clone, Copy)]
pub struct LoadSite<'a> {
    /// Directory on the file system under test.
    pub root: &'a Path,
    /// Directory for what is made once and kept (sources), elsewhere.
    pub home: &'a Path,
    /// Seed of every random choice.
    pub seed: u64,
    /// How long and how fast, for a load that takes it ([`Load::takes_time`]).
    pub pace: LoadPacing,
}

/// How long and how fast a load is to run; what is left out is the load's own choice.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LoadPacing {
    /// Measured seconds.
    pub seconds: Option<f64>,
    /// Seconds of load before them.
    pub warmup_seconds: Option<f64>,
    /// Operations a second that are offered.
    pub rate: Option<f64>,
}

/// A load that runs on a directory.
pub trait Load: std::fmt::Debug + Send {
    /// Number of phases; between two of them the file system is to be made cold.
    fn phases(&self) -> u32;

    /// Seconds that all phases take, roughly.
    fn seconds_guess(&self) -> f64;

    /// Whether it runs as long as [`LoadSite::pace`] says, instead of ending when it is done.
    fn takes_time(&self) -> bool {
        false
    }

    /// Programs of the system that it starts, by name, beside those that make a source tree once (apt-get, bash, tar).
    /// Which they are is ours to choose: no parameter names one.
    fn programs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether it prepares what it needs, calls [`Bench::ready`], and measures only then: it can run in many containers that
    /// begin together.
    fn waits_at_gate(&self) -> bool {
        false
    }

    /// Whether it reads a file of this machine that a parameter names, so that it cannot run where that is not: in a container, or
    /// in a guest.
    fn reads_host_files(&self) -> bool {
        false
    }

    /// Whether the ranks of a launcher can run it together: it has one phase, meets them by [`Bench`], and tells its spans.
    fn takes_ranks(&self) -> bool {
        false
    }

    /// Adds to the outcome of all tasks what follows from all their phases: a score.
    fn conclude(&self, joint: &[PhaseTotals], outcome: &mut Outcome) {
        let _ = (joint, outcome);
    }

    /// In containers it needs one more, with a server for all, which may use so much memory. That one is given the
    /// parameter `role = server`, the others `role = client`; both find the parameter `socket`, a path that they share.
    fn server_memory_bytes(&self) -> Option<u64> {
        None
    }

    /// Makes what the load needs beside the file system, once; cheap when it is there. `tell` hears what is done.
    ///
    /// # Errors
    /// [`AppError::Unavailable`] when this machine lacks something.
    fn provide(&self, home: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        let _ = (home, tell);
        Ok(())
    }

    /// Runs one phase, from 0.
    ///
    /// # Errors
    /// What failed; nothing measured counts then.
    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError>;
}
