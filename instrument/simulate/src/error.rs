//! Why a simulation could not be made.

use crate::disk::DiskFull;
use crate::job::JobError;

/// Why a simulation could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// What is asked for is wrong.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The script cannot run.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// The device refuses.
    #[error("the simulated device: {0}")]
    Device(#[from] ssd::error::ConfigError),
    /// The files do not fit.
    #[error(transparent)]
    Full(#[from] DiskFull),
}
