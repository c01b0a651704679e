//! Trials in guests: a stack with `+kernel:` is built, loaded and taken down within a guest, by this very program, which
//! sends back what a trial on this machine would have come to.
//!
//! | module | holds |
//! |---|---|
//! | `talk` | what is said between here and the guest |
//! | `means` | what a session has for its guests, and how long it waits for them |
//! | `outside` | guests of a session: booted, kept, given trials, ended |
//! | `errand` | one trial of a guest that serves; one boot of a deterministic one |
//! | `command` | a command of this program, carried out in a guest of its own |
//! | [`inside`] | the guest's side |

mod command;
mod errand;
pub mod inside;
pub(crate) mod means;
mod outside;
mod talk;

pub use command::{Commanded, Line, command};
pub use guest::{GuestError, KERNEL};
pub use outside::Guests;
