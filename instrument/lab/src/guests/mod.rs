//! Trials in guests: a stack with `+kernel:` is built, loaded and taken down within a guest, by this very program, which
//! sends back what a trial on this machine would have come to.
//!
//! | module | holds |
//! |---|---|
//! | `context` | what a session has for its guests, and how long it waits for them |
//! | `executor` | a guest as the worker of a trial's supervisor |
//! | `pool` | guests of a session: booted, kept, given trials, ended |
//! | `errand` | one trial of a guest that serves; one boot of a deterministic one |
//! | `command` | a command of this program, carried out in a guest of its own |
//! | [`inside`] | the guest's side |

mod command;
pub(crate) mod context;
mod errand;
mod executor;
pub mod inside;
mod pool;

pub use command::{CommandOutcome, Line, command};
pub use guest::{GuestError, KERNEL};
pub use pool::Guests;
