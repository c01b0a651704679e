//! Real containers for loads: made together, taken away together.
//!
//! | module | holds |
//! |---|---|
//! | [`crowd`] | containers that belong together: made, started, taken down. Start here |
//! | [`runtime`] | who makes one: runc, or plain namespaces where that is missing |
//! | [`config`] | a container as OCI describes it: what runc reads, and [`init`] |
//! | [`init`] | the container's first process where there is no runc |
//! | [`inside`] | what a load finds within its container |
//! | [`root`] | the tiny directory that lies below every container's root |
//! | `group` | control groups of all containers, in the journal |
//! | [`error`] | what can go wrong |
//!
//! A container has namespaces for mounts, processes, IPC and its host name; a root of its own, an overlay whose upper layer is
//! on the stack under test; a memory limit; and a directory on the stack, which the load works in past the overlay. Nothing of
//! the host is written to by it but that directory.
//!
//! What is made is in the journal before it is made, in this order: the directory of bundles, the overlays, the
//! control groups. It is undone the other way round: the groups first, with every process in them, so that nothing holds
//! an overlay any more. Every process of a container, and runc itself, is in one of the groups from its first moment.

pub mod config;
pub mod crowd;
pub mod error;
mod group;
pub mod init;
pub mod inside;
pub mod root;
pub mod runtime;

pub use crowd::{ContainerSpec, Crowd, SharedSettings};
pub use error::ContainerError;
pub use runtime::Runtime;
