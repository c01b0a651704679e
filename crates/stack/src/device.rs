//! What lies on a real block device, who uses it, and whether it may be formatted.
//!
//! loadline formats a device only when it is named twice: in the stack and in `--erase`. Even then it refuses
//! a device in use. `report` gathers what the user must see first, `signatures` asks blkid and wipefs.

mod refusal;
mod report;
mod signatures;

pub use refusal::{Blocker, EraseRefused};
pub use report::{DeviceReport, MountedPart, Partition};
pub use signatures::Signature;
