//! What a crash check is asked: the stack, the workload, and how much of it is checked.

use std::fmt;
use std::time::Duration;

use blockdev::Launcher;
use camino::{Utf8Path, Utf8PathBuf};
use spec::StackSpec;

use crate::program::Program;
use crate::workload::Script;

/// What a crash check is asked.
#[derive(Clone, Debug)]
pub struct CrashOptions {
    /// The stack: ext4, xfs, btrfs or betrfs on an emulated SSD.
    pub spec: StackSpec,
    /// loadline's home directory: journal, devices.
    pub home: Utf8PathBuf,
    /// The program that becomes the emulated SSD's daemon.
    pub launcher: Launcher,
    /// The program `loadline`, which formats, mounts and checks betrfs; without it that is unavailable.
    pub program: Option<Utf8PathBuf>,
    /// Directory for images and the recording; without one /dev/shm, or the home if that is no tmpfs.
    pub work_dir: Option<Utf8PathBuf>,
    /// Distinct states to check, at most.
    pub states: usize,
    /// Seed of the sample.
    pub seed: u64,
    /// Workers; 0 = as many as there are processors.
    pub jobs: usize,
    /// Time for checking; without one as long as it takes.
    pub budget: Option<Duration>,
    /// Take flushes for cache barriers: they order, and make nothing durable. Needs regime barrier or
    /// streams. Then synced data may be lost, but never a sync whose successor's data is seen.
    pub order_only: bool,
    /// Count known weaknesses of the file system ([`crate::oracle::Weakness`]) as violations too.
    pub strict: bool,
    /// Where the smallest failing case is kept: a directory, made if missing.
    pub keep: Option<Utf8PathBuf>,
}

impl CrashOptions {
    /// A thousand states of `spec`, kept nowhere.
    pub fn new(spec: StackSpec, home: impl Into<Utf8PathBuf>, launcher: Launcher) -> CrashOptions {
        CrashOptions {
            spec,
            home: home.into(),
            launcher,
            program: None,
            work_dir: None,
            states: 1000,
            seed: 1,
            jobs: 0,
            budget: None,
            order_only: false,
            strict: false,
            keep: None,
        }
    }
}

/// Carries out a workload in a directory; the error is for people.
pub type Custom = Box<dyn FnMut(&Utf8Path) -> Result<(), String>>;

/// What is done while the device is recorded.
pub enum Load {
    /// A script: every oracle applies.
    Script(Script),
    /// Anything: what was synced is not known, so only the file system's own consistency is checked.
    Custom {
        /// What it is called.
        name: String,
        /// What comes before the recording: files that are there already.
        prepare: Custom,
        /// Carries it out.
        run: Custom,
    },
    /// A user's program: he says himself, by marks and a checker, what must be there.
    Program(Program),
}

impl Load {
    pub(crate) fn name(&self) -> String {
        match self {
            Load::Script(script) => script.name.clone(),
            Load::Custom { name, .. } => name.clone(),
            Load::Program(program) => program.name(),
        }
    }
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Load").field(&self.name()).finish()
    }
}

/// A word that no other check uses, also not one of a killed process.
pub(crate) fn unique() -> String {
    use std::hash::{BuildHasher, Hasher};
    // each RandomState is keyed from the system's entropy and differs from the one before
    let word = std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("{:010x}", word >> 24)
}
