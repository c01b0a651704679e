//! The LD_PRELOAD library: watches the reads of any dynamically linked program and prefetches for it.
//!
//! It has no threads: what a program will read is asked for in the thread that reads it. So nothing of it outlives a
//! change of credentials, no signal finds it elsewhere, and nothing is late because a processor is busy.
//!
//! Rules of its part in the program's calls: no allocation, no lock that waits, no libc function that may allocate, lock or
//! set errno, nothing that unwinds. The program's files are never closed or duplicated in its table of descriptors.
//!
//! | module | holds |
//! |---|---|
//! | `calls` | the hooked functions of libc |
//! | `stdio` | those of its streams |
//! | `original` | the functions behind them, resolved once |
//! | `gate` | whether the library may make system calls of its own |
//! | `watch` | what happens around a read: registration, timing, the core |
//! | `pass` | reads that are let pass without a look: counters of each thread |
//! | `table` | descriptors, files and devices that are watched: static memory, try-locks |
//! | `opens` | numbered files and directories: what the program will open next |
//! | `start` | the constructor: environment, deny list, kill switch, fork |
//! | `report` | the statistics page, and the file behind it |

#[macro_use]
mod original;

mod calls;
mod gate;
mod opens;
mod pass;
mod report;
mod start;
mod stdio;
mod table;
mod watch;
