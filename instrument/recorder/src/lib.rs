//! Records the file system calls of running programs: a program in the kernel (BPF) reports each call of the chosen threads at its
//! end, with paths; nothing of the data is copied, and other threads pay for one look at a map.
//!
//! | module | holds |
//! |---|---|
//! | [`session`] | a recording from its begin to its end |
//! | `processes` | what /proc says when something is seen for the first time |
//! | [`capture`] | system calls of chosen threads as the kernel ends them |
//! | `assembler`, `program` | instructions of BPF; the programs made of them |
//! | `kernel`, `ring` | the system call `bpf`; the ring buffer that the programs fill |

mod assembler;
pub mod capture;
mod kernel;
mod processes;
mod program;
mod ring;
pub mod session;

pub use capture::Capture;
pub use session::{Progress, RecordOptions, Recorded, Subject, record, record_work};

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
    /// There is no working directory.
    #[error("cannot tell the working directory: {0}")]
    Directory(std::io::Error),
    /// The command cannot be started.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// A process cannot be recorded.
    #[error("cannot record process {pid}: {source}")]
    Process {
        /// The process.
        pid: u32,
        /// Why.
        source: std::io::Error,
    },
    /// Its paths are not ours.
    #[error(
        "process {pid} has other mounts or another root (a container?), so that its paths name other files here; record it from \
         inside: nsenter --target {pid} --mount loadline record --pid {pid} ..."
    )]
    OtherFiles {
        /// The process.
        pid: u32,
    },
    /// A thread cannot be recorded: there are too many.
    #[error("cannot record a thread: {0}")]
    Thread(std::io::Error),
    /// No random number to hash names with.
    #[error("cannot draw a key for --anonymous: {0}")]
    Secret(std::io::Error),
    /// A thread of the recorder's, or what it was to record, panicked.
    #[error("what was to be recorded panicked")]
    Panicked,
    /// The end of the command cannot be awaited.
    #[error("cannot wait for the command: {0}")]
    Wait(std::io::Error),
    /// What the kernel has recorded cannot be read.
    #[error("cannot read what was recorded: {0}")]
    Read(std::io::Error),
    /// The recording cannot be written.
    #[error("cannot write the recording: {0}")]
    Write(std::io::Error),
}
