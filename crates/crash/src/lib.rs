//! Crash checking: records a device's writes under a real file system, works out which images a power cut may
//! lawfully leave, brings each one up with that file system, and tests what is found.
//!
//! | module | change here |
//! |---|---|
//! | [`recording`] | the events and bytes of a device, from a known image on |
//! | [`history`] | which versions of each block a power cut may leave, by regime |
//! | [`states`] | which of these states are checked: all, or a sample by seed |
//! | [`workload`] | the operations, and carrying them out with marks |
//! | [`oracle`] | what must be found afterwards |

pub mod history;
pub mod oracle;
pub mod recording;
mod rng;
pub mod states;
pub mod workload;
