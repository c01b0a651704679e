//! What a run's programs did: operations, and the latencies of sync calls.

use ssd::Nanos;
use stats::Histogram;

use crate::protocol::Sync;

/// Counts of the programs.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Operations that programs counted.
    pub counted: u64,
    /// Latencies of durable sync calls, ns.
    pub durable: Histogram,
    /// Latencies of barriers, ns.
    pub barriers: Histogram,
    /// Begin and end of the last sync call that has ended.
    pub last: Option<(Nanos, Nanos)>,
}

impl Tally {
    pub(crate) fn sync(&mut self, kind: Sync, begun: Nanos, ended: Nanos) {
        let into = if kind.is_durable() { &mut self.durable } else { &mut self.barriers };
        into.record(ended - begun);
        self.last = Some((begun, ended));
    }
}
