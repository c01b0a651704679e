//! One execution: what a trial's workers are, who executes them, and who supervises them.
//!
//! | module | holds |
//! |---|---|
//! | [`supervisor`] | one gate, one stop, one end for all that follow. Start here |
//! | [`executor`] | the seam: spawns, hears, releases and stops workers, and collects what they measured |
//! | [`process`] | a worker as a child of this process |
//! | `containers` | workers in containers |
//! | `ranks` | workers of a launcher's ranks, on other machines too |
//! | `peer` | a worker's process on this machine, and the pipes to it |
//! | `share` | the share of a container or a rank in a number of operations |
//! | [`machine`] | the machine around the load, sampled outside of it |

pub(crate) mod containers;
pub mod executor;
pub mod machine;
mod peer;
pub mod process;
pub(crate) mod ranks;
pub(crate) mod share;
pub mod supervisor;
