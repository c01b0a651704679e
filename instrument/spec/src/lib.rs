//! A stack as the user writes it: `FS[,option...]@DEVICE[:REGIME][+kernel:NAME][+deterministic]`. No I/O: crate `stack` builds it.
//!
//! | module | holds |
//! |---|---|
//! | `stack` | [`StackSpec`] and its label, which parses to an equal value |
//! | `parse`, `lex` | reads one stack |
//! | `list` | reads what follows `--on` |
//! | `fs` | the file systems that loadline knows by name |
//! | `guest` | the kernel that a stack is built under, when it is not this machine's |
//! | `network` | the network file system between a load and the stack |
//! | `size` | sizes in bytes with binary units |
//! | `error` | what is wrong, where, and what would be right |

mod error;
mod fs;
mod guest;
mod lex;
mod list;
mod network;
mod parse;
mod size;
mod stack;

pub use error::{ParseError, ParseErrorKind};
pub use fs::FsKind;
pub use guest::Guest;
pub use network::{Client, Network};
pub use size::Size;
pub use stack::{Device, ImageOptions, Regime, StackSpec};
