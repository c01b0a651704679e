//! What must be found after a power cut, whatever image was left: what was synced, atomically renamed, and
//! nothing that was never written.
//!
//! `timeline` works out a script: names, sizes and contents after each operation, and what each sync covers.
//! `tree` is what is found in a mounted file system; [`check`](fn@check) compares the two, and `breach` is what it finds
//! wrong.
//!
//! `prefix` holds the states between operations, for a file system that promises one of them.
//!
//! Promises that are demanded (fsync(2), and what ext4, xfs and btrfs keep beyond it):
//!
//! - fsync of a file: its bytes, its size, the names it has, and the directories they lie in;
//! - fdatasync: bytes and size, but no name; syncfs: everything;
//! - fsync of a directory: the names in it, also that removed ones are gone;
//! - after the last sync any mixture of later operations may be there, per name and per sector, but a file
//!   that was synced keeps a name unless a later operation took its last one, and a rename never shows both
//!   names.
//!
//! betrfs promises more ([`Timeline::in_order`]): every sync covers all that came before it, and what is found is the
//! state after some operation, with all before it and none after.

mod breach;
mod check;
mod prefix;
mod timeline;
mod tree;

pub use breach::{Breach, Kind, Weakness, Window};
pub use check::check;
pub use timeline::Timeline;
pub use tree::{Node, Tree, observe, unreadable};

#[cfg(test)]
mod tests;
