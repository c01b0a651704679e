//! What a load finds within its container.

/// A directory that all containers share.
pub const SHARED: &str = "/shared";
/// A directory of its own, beside the stack.
pub const OWN: &str = "/own";
/// The directory on the stack under test.
pub const DATA: &str = "/data";
/// The program that made the container.
pub const PROGRAM: &str = "/program";
