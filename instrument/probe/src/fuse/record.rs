//! Traces the requests of a FUSE file system.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use analysis::fuse::Recording;

use super::event::{FuseEvent, FuseEventKind, selections};
use super::pair::{Paired, pair};
use crate::fsync::event::Dev;
use host::Unavailable;
use trace::{Options, TraceError, capture};

/// `f_type` of a FUSE file system in statfs(2) (include/uapi/linux/magic.h).
const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;
/// Requests that are made to see who answers.
const ASKED: usize = 8;

/// Why requests could not be traced.
#[derive(Debug, thiserror::Error)]
pub enum FuseError {
    /// The path cannot be looked at.
    #[error("{path}: {source}")]
    Path {
        /// The path.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is on another file system.
    #[error("{0} is on no FUSE file system: it sends no requests to a daemon")]
    NotFuse(String),
    /// Tracing failed; see [`FuseError::unavailable`].
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl FuseError {
    /// Reason and remedy, when this machine or user cannot trace at all.
    pub fn unavailable(&self) -> Option<&Unavailable> {
        match self {
            FuseError::Trace(TraceError::Unavailable(why)) => Some(why),
            _ => None,
        }
    }
}

/// The number by which tracepoints name the connection of the file system that holds `path`.
fn connection(path: &Path) -> Result<Dev, FuseError> {
    let failed = |source| FuseError::Path { path: path.display().to_string(), source };
    let kind = rustix::fs::statfs(path).map_err(|error| failed(error.into()))?.f_type;
    if kind as i64 != FUSE_SUPER_MAGIC {
        return Err(FuseError::NotFuse(path.display().to_string()));
    }
    let dev = std::fs::metadata(path).map_err(failed)?.dev();
    Ok(Dev::new(libc::major(dev), libc::minor(dev)))
}

/// The threads of the daemon that serves `dev`: those of the process that answers when something is asked.
fn daemon_threads(path: &Path, dev: Dev) -> Result<Vec<u32>, FuseError> {
    let ask = || (0..ASKED).for_each(|_| _ = rustix::fs::statfs(path));
    let (captured, ()) = capture(&Options::new(selections(dev, &[])), ask)?;
    let answered =
        |moment: FuseEvent| matches!(moment.what, FuseEventKind::Ended { .. }).then_some(moment.tid);
    let Some(tid) = captured.events.iter().filter_map(FuseEvent::of).find_map(answered) else {
        return Ok(Vec::new());
    };
    // A thread's number names its process's folder too.
    let tasks = std::fs::read_dir(format!("/proc/{tid}/task"));
    let number = |task: std::fs::DirEntry| task.file_name().to_str()?.parse().ok();
    Ok(tasks.map_or_else(|_| vec![tid], |tasks| tasks.flatten().filter_map(number).collect()))
}

/// Runs `work` while the requests of the FUSE file system that holds `path` are traced; at most `bytes_max` bytes of trace
/// are kept.
///
/// # Errors
/// When `path` is on no FUSE file system, or tracing fails: `work` has not run then, unless reading the buffers failed.
pub fn record<T>(path: &Path, bytes_max: u64, work: impl FnOnce() -> T) -> Result<(Recording, T), FuseError> {
    let dev = connection(path)?;
    let mut options = Options::new(selections(dev, &daemon_threads(path, dev)?));
    (options.bytes_max, options.end_when_full) = (bytes_max, true);
    options.buffer_kib_per_cpu = 16 << 10;
    let (captured, value) = capture(&options, work)?;
    let Paired { requests, halves } = pair(captured.events.iter().filter_map(FuseEvent::of));
    let ended_early = captured.full_at_ns.is_some();
    Ok((Recording { requests, halves, lost: captured.lost, ended_early }, value))
}
