//! Records the file system calls of running programs: a program in the kernel (BPF) reports each call of the chosen threads at its
//! end, with paths; nothing of the data is copied, and other threads pay for one look at a map.
//!
//! | module | holds |
//! |---|---|
//! | [`capture`] | system calls of chosen threads as the kernel ends them |
//! | `assembler`, `program` | instructions of BPF; the programs made of them |
//! | `kernel`, `ring` | the system call `bpf`; the ring buffer that the programs fill |

mod assembler;
pub mod capture;
mod kernel;
mod program;
mod ring;

pub use capture::Capture;

/// Why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// This machine or this user cannot.
    #[error(transparent)]
    Unavailable(host::Unavailable),
    /// Tracepoints cannot be found.
    #[error(transparent)]
    Trace(#[from] trace::TraceError),
    /// The kernel refused a part.
    #[error("the kernel refused {what}: {source}")]
    Kernel {
        /// What was refused.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
}
