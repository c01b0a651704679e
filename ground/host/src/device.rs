//! What lies on a real block device or in a file that is to become one, who uses it, and whether it may be
//! overwritten.
//!
//! Every way of loadline to somebody's bytes goes through [`may_overwrite`], and a way that writes through
//! [`Permit::take`], which holds the thing exclusively while it looks. Only what is named with `--erase` is
//! overwritten, and nothing that is in use.
//!
//! | module | what it holds |
//! |---|---|
//! | `subject` | which device or file a path means |
//! | `hold` | keeping everybody else from it |
//! | `holder` | who does so |
//! | `signatures`, `blank` | what lies there |
//! | `usage` | who uses it: mounts, swap, devices built on it, loop devices |
//! | `loops` | loop devices, and what shows the same bytes by way of them |
//! | `report`, `inspect` | all of that, as the user sees it; how it is found out |
//! | `decision` | may it be overwritten; the permit |
//! | `blocker`, `refusal` | why not |

mod blank;
mod blocker;
mod decision;
mod hold;
mod holder;
mod inspect;
mod loops;
mod refusal;
mod report;
mod signatures;
mod subject;
mod usage;

pub use blocker::{Blocker, MountedPart};
pub use decision::{Consent, Permit, may_overwrite};
pub use hold::{Hold, InUse, hold, hold_to_write};
pub use holder::{Holder, ServedMount, fuse_connections};
pub use refusal::EraseRefused;
pub use report::{DeviceReport, Partition};
pub use signatures::Signature;
pub use subject::reopen_path;
pub use usage::uses;
