//! Loads of parallel file systems: the patterns of IOR and mdtest with their names for the options.
//!
//! Alone such a load is one task; under a launcher each rank is one. Tasks meet between phases. Each says when its part of a
//! phase began and ended by its own clock; rates are computed once, on one clock, over all tasks.
//!
//! | module | holds |
//! |---|---|
//! | `option_parser` | the text of options: `-F -t 1m` |
//! | `data` | buffers that say whose they are |
//! | `phase` | one timed phase of one task |
//! | `ior` | data: file per process, shared file, segmented, strided, random, read back by others |
//! | `mdtest` | metadata: create, stat, read and remove, in shared and private trees |
//! | `io500` | the phases of IO500 and their score |

mod data;
mod io500;
mod ior;
mod mdtest;
mod option_parser;
mod phase;

pub use io500::Io500;
pub use ior::Ior;
pub use mdtest::Mdtest;
pub use option_parser::OPTIONS;
