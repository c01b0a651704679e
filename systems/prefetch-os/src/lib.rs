//! The kernel's side of prefetching on stock Linux, and starting programs under the prefetcher.
//!
//! | module | holds |
//! |---|---|
//! | [`sys`] | system calls without libc: no errno, no thread-local storage, no cancellation, no hooks |
//! | [`ask`] | what the shells ask of the kernel, as a trait, and how they ask for a range |
//! | [`kernel`] | [`ask::Os`] on the real kernel: cachestat, readahead, preadv2 |
//! | [`memory`] | what memory is left: meminfo, cgroups of both versions, PSI |
//! | [`processor`] | how full the processors are: PSI |
//! | [`limits`] | read-ahead window and request size of a device, from sysfs |
//! | [`launch`] | finds the library and starts a program under it |
//! | [`area`] | the statistics page that other processes read |
//! | [`areas`] | finds and reads the statistics of running and ended programs |
//! | [`show`] | these statistics as text |
//!
//! `sys`, `kernel`, `memory`, `processor` and `limits` allocate nothing: the LD_PRELOAD library uses them in other programs.

pub mod area;
pub mod areas;
pub mod ask;
pub mod kernel;
pub mod launch;
pub mod limits;
pub mod memory;
pub mod processor;
pub mod show;
pub mod sys;

pub use kernel::Kernel;
