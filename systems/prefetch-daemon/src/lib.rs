//! Prefetches for programs that cannot be preloaded: Go, static and musl programs, and readers of mappings.
//!
//! A root process watches the kernel's page cache tracepoints of other processes, feeds the same core as the
//! LD_PRELOAD library (crate `prefetch`), and prefetches through descriptors of its own. Events of misses are
//! always on; events of each read only for files that are followed, so programs that hit the cache pay next to
//! nothing.
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | what the daemon is told, how it went, why it cannot run |
//! | [`daemon`] | setting up, starting the program, the loop, ending |
//! | [`target`] | which processes are watched: a cgroup, processes, a program |
//! | [`source`] | the tracepoints: which are on, for whom, and reading them |
//! | [`moment`] | their records as plain data |
//! | [`assemble`] | what threads did, out of those: reads and touches with how long they waited |
//! | [`candidates`] | files that were missed in, until they are worth following |
//! | [`files`] | finds the file of an inode among those a process has open or mapped, and opens it |
//! | [`table`] | the files that are followed: streams, limits, whether one is worth its events, letting go |
//! | [`touch`] | what a fault-around window says about the pages that were touched |
//! | [`service`] | from events to requests, and what is looked at from time to time |
//! | [`page`] | the statistics, as the library's |
//!
//! `moment`, `assemble`, `candidates`, `touch` and `table` are pure: they are tested with made-up events.

pub mod assemble;
pub mod candidates;
pub mod daemon;
pub mod files;
pub mod moment;
pub mod page;
pub mod service;
pub mod settings;
pub mod source;
pub mod table;
pub mod target;
pub mod touch;

pub use daemon::run;
pub use settings::{DaemonError, Outcome, Settings, Signals};
pub use target::Target;
