//! Private servers as processes that are in the journal, and the terminals that drive them or an engine in the process.
//!
//! | module | holds |
//! |---|---|
//! | [`process`] | the processes of a server: found, started, ended, killed, what is left of them |
//! | [`drive`] | terminals: closed and open loop, counts and latencies |
//! | [`place`] | where a load runs, and who hears of it; what a server used |
//! | [`error`] | what can go wrong |

pub mod drive;
pub mod error;
pub mod place;
pub mod process;

pub use drive::Moment;
pub use error::ServeError;
pub use place::{LoadSite, UsedSeconds};
