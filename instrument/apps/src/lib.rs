//! Loads that are not WML: micro patterns with fixed sizes, and real programs on a directory.
//!
//! They are the workloads of "BetrFS: A Compleat File System for Commodity SSDs" (Jiao et al., EuroSys 2022) that
//! Filebench's language does not express, and those of "CrossPrefetch" (ASPLOS 2024). A load has a name and
//! [`Parameters`]. It runs in *phases*; whoever runs it makes the file system cold between them.
//!
//! | module | holds |
//! |---|---|
//! | [`parameters`] | a load's parameters with their checks |
//! | [`load`] | what a load is, and where it runs |
//! | [`app`] | the loads by name; the outcomes of phases joined |
//! | [`bench`](mod@bench) | timing: sections, operations, results |
//! | [`micro`] | large file, random writes, TokuBench, find / grep / rm |
//! | [`programs`] | git, tar, rsync, dbench; running a program |
//! | [`prefetch`](mod@prefetch) | readers, RocksDB, compression, each under a configuration of who reads ahead |
//! | [`databases`] | SQL loads of crate `sql` on private servers |
//! | [`key_values`] | YCSB's core workloads and db_bench's patterns of crate `kv` |
//! | `served` | what SQL and key-value loads share |
//! | [`ranks`] | who takes part in a load of many tasks, where they meet |
//! | [`span`] | parts of a phase, and what all tasks did together |
//! | [`parallel`] | IOR's and mdtest's patterns, by many tasks |
//! | [`imap`] | clients against a private Dovecot |
//! | [`recorded`] | replay of what a program did to its files |
//! | [`source`] | the source tree, its archive and its history, made once and kept |
//! | [`error`] | what can go wrong |

pub mod app;
pub mod bench;
pub mod databases;
pub mod error;
pub mod imap;
pub mod key_values;
pub mod load;
pub mod micro;
pub mod parallel;
pub mod parameters;
pub mod prefetch;
pub mod programs;
pub mod ranks;
pub mod recorded;
mod served;
pub mod source;
pub mod span;

pub use app::{App, join};
pub use bench::{Bench, Hooks};
pub use error::AppError;
pub use load::{Load, LoadPacing, LoadSite};
pub use parameters::Parameters;
pub use serve::process::full_disk;
