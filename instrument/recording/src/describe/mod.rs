//! What a recording says about a load: its figures, a personality of WML that does the same, and how near two recordings are.
//!
//! | module | holds |
//! |---|---|
//! | [`profile`] | a recording in figures |
//! | [`text`] | the personality, as text |
//! | [`fit`] | distances between two profiles |
//! | [`sizes`] | distributions in bounded memory |
//! | `observe`, `seen` | the pass over the items, and what it has seen |
//! | `step` | what a thread does as one act |
//! | `group`, `sets` | files that are used alike, and the filesets of them |
//! | `roles`, `loops` | threads that do the same, and what they repeat |
//! | `pages` | pages that were touched |

pub mod fit;
mod group;
mod loops;
mod observe;
mod pages;
pub mod profile;
mod roles;
mod seen;
mod sets;
pub mod sizes;
mod step;
pub mod text;

pub use fit::{Figures, Fit};
pub use profile::Profile;
pub use roles::RoleSummary;
pub use text::describe;

#[cfg(test)]
mod tests;
