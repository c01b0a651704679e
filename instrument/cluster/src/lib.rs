//! One load on many machines.
//!
//! A launcher (Open MPI, MPICH, Slurm) starts the same program many times. Each copy learns its number from the environment
//! ([`launch`]); no MPI library is needed. All copies connect to number 0 ([`rendezvous`]), which compares what they are about
//! to do. They start at one agreed moment of one clock ([`clock`]), are silent while they measure, and tell afterwards.
//!
//! | module | holds |
//! |---|---|
//! | [`launch`] | rank and size, as the launcher says them |
//! | [`rendezvous`] | how the ranks find rank 0: a file in a directory that all see |
//! | [`connection`] | a stream between two ranks |
//! | [`tunnel`] | such streams through MPI (feature `mpi`) |
//! | [`wire`] | frames on a connection, with limits |
//! | [`leader`] | rank 0's side of the star |
//! | [`member`] | the side of every rank, rank 0's own load included |
//! | [`clock`] | the offset between two monotonic clocks, its bound, its drift |
//! | [`balance`] | how equal the ranks were: imbalance, stragglers |
//! | [`host`] | the name and the addresses of this machine |
//! | `fuzzing` | for fuzz targets: what another rank says, read from bytes |

pub mod balance;
pub mod clock;
pub mod connection;
#[doc(hidden)]
pub mod fuzzing;
pub mod host;
pub mod launch;
pub mod leader;
pub mod member;
pub mod rendezvous;
pub mod tunnel;
pub mod wire;

mod error;

pub use clock::{Clock, Offset};
pub use connection::Connection;
pub use error::ClusterError;
pub use launch::Launch;
pub use leader::{Leader, RankEvent};
pub use member::Member;
pub use tunnel::Tunnel;
