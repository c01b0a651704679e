//! The kernel's side of prefetching on stock Linux, and starting programs under the prefetcher.
//!
//! | module | holds |
//! |---|---|
//! | [`sys`] | system calls without libc: no errno, no thread-local storage, no cancellation, no hooks |
//! | [`kernel`] | what the core asks of the kernel: readahead, cachestat, preadv2 |
//! | [`memory`] | small files of the kernel, read and put together without allocation |
//! | [`launch`] | finds the library and starts a program under it |
//! | [`area`] | the statistics page that other processes read |
//! | [`areas`] | finds and reads the statistics of running and ended programs |
//! | [`show`] | these statistics as text |
//!
//! `sys`, `kernel` and `memory` allocate nothing: the LD_PRELOAD library uses them in other programs.

pub mod area;
pub mod areas;
pub mod kernel;
pub mod launch;
pub mod memory;
pub mod show;
pub mod sys;

pub use kernel::Kernel;
