//! Where the time of commits goes.

use ssd::Nanos;

/// What the journal thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No commit is asked for.
    Idle,
    /// Starts, makes room in the journal.
    Start,
    /// Waits until no handle of the transaction is open.
    Handles,
    /// Lays out and submits descriptors and metadata.
    Log,
    /// Waits for data of the transaction.
    Data,
    /// Waits for the transfer of the log.
    Transfer,
    /// The flush before the commit record, or the only one.
    Flush,
    /// The commit record, with the flush behind it where there is no FUA.
    Record,
    /// Files the transaction's blocks.
    File,
    /// Wakes callers that must sleep again: they wait for the next transaction.
    Spurious,
    /// Wakes those that are done.
    Wake,
}

impl Phase {
    /// All of them, in the order of a commit.
    pub const ALL: [Phase; 11] = [
        Phase::Idle,
        Phase::Start,
        Phase::Handles,
        Phase::Log,
        Phase::Data,
        Phase::Transfer,
        Phase::Flush,
        Phase::Record,
        Phase::File,
        Phase::Spurious,
        Phase::Wake,
    ];
}

/// Time of the journal thread in each phase (EXT4 and OPEXT4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    spent: [Nanos; Phase::ALL.len()],
    since: Nanos,
}

impl Phases {
    /// What came since the last call was this.
    pub(crate) fn was(&mut self, phase: Phase, now: Nanos) {
        self.spent[phase as usize] += now - std::mem::replace(&mut self.since, now);
    }

    /// All time in a phase, ns.
    pub fn ns(&self, phase: Phase) -> Nanos {
        self.spent[phase as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_is_in_one_phase() {
        let mut phases = Phases::default();
        for (phase, at) in [(Phase::Idle, 10), (Phase::Flush, 30), (Phase::Idle, 35)] {
            phases.was(phase, at);
        }
        assert_eq!((phases.ns(Phase::Idle), phases.ns(Phase::Flush)), (15, 20));
        assert_eq!(Phase::ALL.iter().map(|p| phases.ns(*p)).sum::<Nanos>(), 35);
    }
}
