//! What the daemon is told, and what it says in the end.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use prefetch::Mode;
use prefetch_os::areas::DIRECTORY_VARIABLE;
use trace::TraceError;

use crate::target::{Target, TargetError};

/// What the daemon is to do.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whom to watch.
    pub target: Target,
    /// What the policy does at all.
    pub mode: Mode,
    /// The largest file that is fetched for reads without order, MiB.
    pub budget_mib: Option<u64>,
    /// Where statistics are kept; [`prefetch_os::areas::directory`] when `None`.
    pub directory: Option<PathBuf>,
}

/// Set by signal handlers.
#[derive(Debug, Default, Clone)]
pub struct Signals {
    /// End.
    pub stop: Arc<AtomicBool>,
    /// Close all files now (somebody wants to unmount), and go on.
    pub release: Arc<AtomicBool>,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// How the program ended, when one was started and was not outlived.
    pub status: Option<ExitStatus>,
    /// Events that were looked at.
    pub events: u64,
    /// Events that were lost.
    pub lost: u64,
    /// CPU time of the daemon, ns. What making the events costs is in the watched threads' time.
    pub cpu_ns: u64,
}

/// Why the daemon cannot run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Nobody to watch.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Tracepoints cannot be had.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The directory or file of the statistics cannot be made.
    #[error("no place for statistics: {0}; name a directory of yours in {DIRECTORY_VARIABLE}")]
    Directory(std::io::Error),
    /// The program cannot be started.
    #[error("cannot run {}: {source}", program.display())]
    Start {
        /// Its name.
        program: OsString,
        /// Why.
        source: std::io::Error,
    },
    /// Something the daemon needs of the system.
    #[error("the prefetch daemon needs what the system refuses: {0}")]
    System(#[from] std::io::Error),
}
