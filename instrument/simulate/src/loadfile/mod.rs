//! dbench's load files, such as Debian's `/usr/share/dbench/client.txt`: reading one, and a client that replays it.
//!
//! | module | holds |
//! |---|---|
//! | `parse` | lines: operations, names, handles, statuses; what is wrong with one, and where |
//! | `client` | the files that a client needs, and the client as a program of the simulation |

mod client;
mod parse;

pub use client::{client, layout, replay};
pub use parse::{Line, LoadFile, LoadFileError, is_load_file};
