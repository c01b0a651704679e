//! How reads and writes are issued.

use serde::{Deserialize, Serialize};

/// How reads and writes are issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "engine")]
pub enum IoMode {
    /// One blocking system call at a time in each thread.
    Psync,
    /// io_uring; each WML thread runs `depth` lanes of its program over one ring.
    Uring {
        /// Operations in flight for each WML thread, 1-4096.
        depth: u32,
    },
}
