//! Traces a workload and explains its fsyncs.

use std::path::Path;

use study::fsync::{Breakdown, DeviceCommand, FsyncSplit};

use super::bio::Request;
use super::breakdown::{Analysis, analyse};
use super::chain::{Chain, ChainError, Disk};
use super::event::{TraceEvent, selections};
use host::Unavailable;
use trace::{Options, TraceError, capture};

/// A traced workload.
#[derive(Debug, Clone)]
pub struct Recording {
    /// What the levels are.
    pub chain: Chain,
    /// What happened, in order of time.
    pub moments: Vec<TraceEvent>,
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

    /// What is stored of it.
    pub fn split(&self) -> FsyncSplit {
        FsyncSplit::of(self.breakdowns(), self.lost, self.ended_early)
    }

    /// Every command that the first level's disks were given, in order of issue: fsync or not.
    pub fn commands(&self) -> Vec<DeviceCommand> {
        commands(&self.analysis.requests, &self.chain)
    }
}

/// `requests` of the first level's disks of `chain` as plain commands.
pub fn commands(requests: &[Request], chain: &Chain) -> Vec<DeviceCommand> {
    let disks = chain.levels.first().map_or(&[][..], |level| &level.disks);
    let command = |request: &Request| DeviceCommand {
        issued_ns: request.issued_ns,
        pid: request.pid,
        comm: request.comm.clone(),
        queue: request.nvme_queue.unwrap_or_else(|| queue_of(request, disks)),
        operation: request.rwbs.operation,
    };
    requests.iter().map(command).collect()
}

/// Without the NVMe driver's own word: the hardware queue that serves the CPU; 0 when it is not known.
fn queue_of(request: &Request, disks: &[Disk]) -> u16 {
    let disk = disks.iter().find(|disk| disk.dev == request.disk.0);
    disk.and_then(|disk| disk.queue_of_cpu.get(usize::from(request.cpu)).copied()).unwrap_or(0)
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

/// As [`record`](fn@record), but the recording ends when it has taken `bytes_max` bytes of trace; an fsync takes some 2 to
/// 10 kB. The work goes on.
///
/// # Errors
/// As [`record`](fn@record).
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
    let moments: Vec<TraceEvent> = captured.events.iter().filter_map(TraceEvent::of).collect();
    let analysis = analyse(&moments, &chain);
    let ended_early = captured.full_at_ns.is_some();
    let recording =
        Recording { chain, moments, analysis, lost: captured.lost, missing: captured.missing, ended_early };
    Ok((recording, value))
}
