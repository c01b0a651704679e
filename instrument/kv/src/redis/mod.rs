//! Redis and Redis Cluster, private or at an address.
//!
//! A record is a hash of its fields under its key, and its key is in a sorted set (`_indices`), with Java's hash of the key as
//! its score: as YCSB's Redis binding has them. Commands of one operation follow each other as there: each is sent when
//! the one before it was answered. A record that is one value (`record=value`) lies under its key (SET, GET), and only a
//! load with scans has the sorted set.
//!
//! | module | holds |
//! |---|---|
//! | [`resp`] | the protocol, addresses, a connection |
//! | [`slots`] | slots of a cluster |
//! | [`ring`] | all masters as one client sees them; redirections |
//! | [`server`] | private servers |
//! | `records` | the commands for records |
//! | `terminal` | a terminal: its operations, and what each reply means |
//! | [`mux`] | many terminals on few threads |
//! | [`fill`] | the load of the records, the reading of all of them |

pub mod fill;
pub mod mux;
mod records;
pub mod resp;
pub mod ring;
pub mod server;
pub mod slots;
mod terminal;

use std::time::Duration;

pub use server::{AppendPolicy, Servers};

/// The sorted set of all keys (YCSB's name).
pub const INDEX: &[u8] = b"_indices";
/// Time before a command that a changing cluster refused is sent again.
pub(crate) const LATER: Duration = Duration::from_millis(20);
/// How long a cluster may refuse a command, or send it around, before that is an error.
const LATER_PATIENCE: Duration = Duration::from_secs(60);
/// Times that such a command is sent again: as many as fit into [`LATER_PATIENCE`].
const LATER_TIMES: u32 = (LATER_PATIENCE.as_millis() / LATER.as_millis()) as u32;

/// A cluster that has not come to rest.
fn never_whole() -> crate::KvError {
    crate::KvError::Engine(format!(
        "the cluster refuses a command, or sends it around, for {} s: is it whole, is a master down?",
        LATER_PATIENCE.as_secs()
    ))
}
