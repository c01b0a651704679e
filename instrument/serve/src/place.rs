//! Where a load runs, and who hears of it.

use std::sync::Arc;

use camino::Utf8Path;
use journal::Journal;

/// Where a load runs, and who hears of it.
pub struct LoadSite<'a> {
    /// Directory on the stack under test.
    pub root: &'a Utf8Path,
    /// Directory for sockets and logs of private servers, elsewhere.
    pub temporary: &'a Utf8Path,
    /// Where servers are recorded.
    pub journal: &'a Arc<Journal>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Whether to end.
    pub stopped: &'a (dyn Fn() -> bool + Sync),
    /// Hears what happens, in a line.
    pub tell: &'a dyn Fn(&str),
    /// Hears when the transactions begin and when they have ended: nothing else happens in between.
    pub moment: &'a dyn Fn(Moment),
}

/// A moment of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The first transaction is about to begin.
    Begin,
    /// The last one has ended.
    End,
}
