//! The ordering contract of a device: what a completed write, a flush, a barrier promise.

use serde::{Deserialize, Serialize};

/// What the translation layer guarantees across a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Regime {
    /// Nothing: flush and FUA are acknowledged at once (`barrier=0`, or a drive that lies). Any subset of
    /// the writes may survive.
    None,
    /// Today's NVMe: FLUSH covers every completed write, FUA the write itself; no other order.
    Flush,
    /// One queue; a barrier flag ends an epoch of the only stream (BarrierFS, FAST'18). Epochs persist in
    /// order.
    Barrier,
    /// Streams and epochs over many queues (OPIMQ, FAST'25): the persisted set is an order ideal.
    Streams,
}

impl Regime {
    /// All four, weakest first.
    pub const ALL: [Regime; 4] = [Regime::None, Regime::Flush, Regime::Barrier, Regime::Streams];

    /// Whether FLUSH and FUA mean anything.
    pub fn honours_flush(self) -> bool {
        self != Regime::None
    }

    /// Whether map updates are delayed to keep an order.
    pub fn is_ordered(self) -> bool {
        matches!(self, Regime::Barrier | Regime::Streams)
    }

    /// The name used in stack specifications (`ext4@980pro:flush`).
    pub fn name(self) -> &'static str {
        match self {
            Regime::None => "none",
            Regime::Flush => "flush",
            Regime::Barrier => "barrier",
            Regime::Streams => "streams",
        }
    }

    /// The regime of a name.
    pub fn parse(name: &str) -> Option<Regime> {
        Regime::ALL.into_iter().find(|r| r.name() == name)
    }
}
