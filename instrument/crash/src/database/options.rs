//! What is asked of a check of a database.

use blockdev::Launcher;
use camino::Utf8PathBuf;
use sql::{Engine, Flush};

/// Size of the device when the stack gives none.
pub(super) const DEVICE_BYTES: u64 = 1 << 30;

/// What is asked.
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    /// The stack: a file system on an emulated SSD.
    pub spec: spec::StackSpec,
    /// What stores the rows.
    pub engine: Engine,
    /// When a commit is on the device, as the server is told.
    pub flush: Flush,
    /// Power cuts.
    pub cuts: u32,
    /// Terminals.
    pub terminals: u32,
    /// Seed of the database, the transactions and the moments.
    pub seed: u64,
    /// loadline's home directory: devices.
    pub home: Utf8PathBuf,
    /// The program that becomes the emulated SSD's daemon.
    pub launcher: Launcher,
    /// Directory for images; without one /dev/shm, or the home if that is no tmpfs.
    pub work_dir: Option<Utf8PathBuf>,
}
