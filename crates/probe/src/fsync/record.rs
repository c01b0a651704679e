//! Traces a workload and explains its fsyncs.

use std::path::Path;

use super::breakdown::{Analysis, Breakdown, analyse};
use super::chain::{Chain, ChainError};
use super::moment::{Moment, selections};
use crate::trace::{Options, TraceError, Unavailable, capture};

/// A traced workload.
#[derive(Debug, Clone)]
pub struct Recording {
    /// What the levels are.
    pub chain: Chain,
    /// What happened, in order of time.
    pub moments: Vec<Moment>,
    /// Every fsync explained, and the requests of the first level's disks.
    pub analysis: Analysis,
    /// Events the kernel lost. If not 0, breakdowns may lack I/O that took place.
    pub lost: u64,
    /// Tracepoints this kernel does not have, as `system/name`.
    pub missing: Vec<String>,
    /// The recording ended before the work: only the fsyncs before are here.
    pub ended_early: bool,
}

impl Recording {
    /// Every fsync, in order of return.
    pub fn breakdowns(&self) -> &[Breakdown] {
        &self.analysis.fsyncs
    }
}

/// Why a workload could not be traced.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The path's devices cannot be told.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// Tracing failed; see [`RecordError::unavailable`].
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file system is on no block device.
    #[error("{0} is on no block device: there are no device times to explain")]
    NoDevice(String),
}

impl RecordError {
    /// Reason and remedy, when this machine or user cannot trace at all.
    pub fn unavailable(&self) -> Option<&Unavailable> {
        match self {
            RecordError::Trace(TraceError::Unavailable(why)) => Some(why),
            _ => None,
        }
    }
}

/// Runs `work` while the file system that holds `path` and everything below it is traced. All fsyncs on that
/// file system are explained, whoever calls them.
///
/// # Errors
/// When `path` has no chain of devices, or tracing fails; unless reading the buffers failed, `work` has not
/// run then.
pub fn record<T>(path: &Path, work: impl FnOnce() -> T) -> Result<(Recording, T), RecordError> {
    record_within(path, None, work)
}

/// As [`record`], but the recording ends when it has taken `bytes_max` bytes of trace; an fsync takes some 2 to
/// 10 kB. The work goes on.
///
/// # Errors
/// As [`record`].
pub fn record_within<T>(
    path: &Path,
    bytes_max: Option<u64>,
    work: impl FnOnce() -> T,
) -> Result<(Recording, T), RecordError> {
    let chain = Chain::of(path)?;
    let disks = chain.disk_devs();
    if chain.levels.first().is_none_or(|level| level.disks.is_empty()) {
        return Err(RecordError::NoDevice(
            chain.levels.first().map_or_else(String::new, |l| l.fs_type.clone()),
        ));
    }
    let mut options = Options::new(selections(&chain.fs_devs(), &disks));
    if let Some(bytes_max) = bytes_max {
        (options.bytes_max, options.end_when_full) = (bytes_max, true);
    }
    let (captured, value) = capture(&options, work)?;
    let moments: Vec<Moment> = captured.events.iter().filter_map(Moment::of).collect();
    let analysis = analyse(&moments, &chain);
    let ended_early = captured.full_at_ns.is_some();
    let recording =
        Recording { chain, moments, analysis, lost: captured.lost, missing: captured.missing, ended_early };
    Ok((recording, value))
}
