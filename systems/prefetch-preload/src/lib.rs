//! The LD_PRELOAD library: watches the reads of any dynamically linked program and prefetches for it.
//!
//! Rules of the path inside the program's calls: no allocation, no lock that waits, no libc function that may
//! allocate, lock or set errno, no input or output, nothing that unwinds. The program's files are never opened,
//! duplicated or closed in its table of descriptors. Threads begin only when there is something to prefetch.
//!
//! | module | holds |
//! |---|---|
//! | `calls` | the hooked functions of libc |
//! | `stdio` | those of its streams |
//! | `original` | the functions behind them, resolved once |
//! | `watch` | what happens around a read: registration, timing, the core |
//! | `pass` | reads that are let pass without a look: counters of each thread |
//! | `table` | descriptors and files that are watched: static memory, try-locks |
//! | `worker` | threads without libc: for streams, for fetching files, for what needs files opened, for mappings |
//! | `mappings` | follows what a program touches of files it has mapped |
//! | `walker` | follows a program through its directories |
//! | `series` | follows a program through numbered files |
//! | `cost` | what the library costs and gives; rests when that is not worth it |
//! | `start` | the constructor: environment, deny list, kill switch, fork |
//! | `report` | the statistics page, and the file behind it |

#[macro_use]
mod original;

mod calls;
mod cost;
mod mappings;
mod pass;
mod report;
mod series;
mod start;
mod stdio;
mod table;
mod walker;
mod watch;
mod worker;
