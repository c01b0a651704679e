//! What can go wrong between ranks.

use std::path::PathBuf;
use std::time::Duration;

/// Why ranks do not come together, or do not stay so.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The environment or an option contradicts itself.
    #[error("{0}")]
    Launch(String),
    /// The directory of the rendezvous cannot be used.
    #[error(
        "the ranks meet in {path}, which must be the same directory for all of them (--rendezvous DIR): {source}"
    )]
    Folder {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Rank 0 cannot listen.
    #[error("rank 0 cannot listen for the others: {0}")]
    Listen(std::io::Error),
    /// Some ranks have not come.
    #[error(
        "{count} of {size} ranks did not come within {} s: {missing}; they must see {path} and reach this host",
        .patience.as_secs()
    )]
    Missing {
        /// How many there should be.
        size: u32,
        /// How many are missing.
        count: usize,
        /// Which ones.
        missing: String,
        /// The rendezvous file.
        path: String,
        /// How long they were awaited.
        patience: Duration,
    },
    /// Rank 0 was not found or not reached.
    #[error("rank {rank} on host {host} did not reach rank 0 within {} s: {why}", .patience.as_secs())]
    NoLeader {
        /// The rank that looked.
        rank: u32,
        /// Its host.
        host: String,
        /// How long it tried.
        patience: Duration,
        /// What stood in the way last.
        why: String,
    },
    /// This program cannot speak MPI.
    #[error(
        "this loadline was built without MPI: leave --transport out (TCP is used then), or build it with \
         `cargo build --release -p loadline --features mpi`, which needs mpicc and libclang (libopenmpi-dev, libclang-dev)"
    )]
    NoMpi,
    /// Two ranks are about to do different things.
    #[error("{0}")]
    Disagree(String),
    /// A rank is gone or does not speak as it should.
    #[error("{name} {why}")]
    Lost {
        /// The rank with its host.
        name: String,
        /// What was seen.
        why: String,
    },
}
