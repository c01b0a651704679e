//! Known bugs that can be planted, to show that the checks would catch them.

/// One planted bug. The first group are the bugs of the released OPFTL firmware and of its host side;
/// the second are neighbours of our own two-map design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// OPFTL: the map lives in DRAM and starts empty at boot.
    NoRecovery,
    /// OPFTL: FLUSH ignores its stream and answers before the suspension lists are searched.
    FlushBeforeSuspended,
    /// OPFTL: pages are mapped when their program is issued, not when it ends.
    MapAtIssue,
    /// OPFTL: garbage collection looks at installed mappings only and erases suspended pages.
    GcIgnoresSuspended,
    /// OPFTL: a suspended page whose buffer was recycled is not found by reads.
    ReadIgnoresSuspended,
    /// OPFTL: a buffer look-up finds the oldest copy of a block first.
    OldestBufferFirst,
    /// OPFTL: the epoch slot is computed with the stream mask (mod 128 in place of 256).
    EpochSlotMod128,
    /// OPFTL: a full suspension ring forces the stream's epoch forward.
    RingFullForcesEpoch,
    /// OPFTL: stream slot = id mod 128 without collision handling.
    StreamSlotCollision,
    /// OPFTL: 16-bit epochs compared without wrap-around arithmetic.
    EpochWrap16,
    /// OPIMQ host: the barrier bit never reaches the device.
    BarrierBitDropped,
    /// OPIMQ host: the FLUSH command carries no ids, so it covers completed commands only.
    FlushWithoutIds,
    /// Ours: the second stream of a dual-stream write is forgotten.
    MinorIgnored,
    /// Ours: the cache overwrites a tagged version in place across epochs.
    CacheOverwritesEpoch,
    /// Ours: a block is erased before the map that left it is on flash.
    EraseBeforeJournal,
    /// Ours: a flush answers before the map journal is on flash.
    FlushBeforeJournal,
    /// Ours: a map segment is checkpointed ahead of the journal.
    SegmentAheadOfJournal,
    /// Ours: an older version that ends its program late replaces the newer one.
    LateProgramWins,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 18] = [
        Mutation::NoRecovery,
        Mutation::FlushBeforeSuspended,
        Mutation::MapAtIssue,
        Mutation::GcIgnoresSuspended,
        Mutation::ReadIgnoresSuspended,
        Mutation::OldestBufferFirst,
        Mutation::EpochSlotMod128,
        Mutation::RingFullForcesEpoch,
        Mutation::StreamSlotCollision,
        Mutation::EpochWrap16,
        Mutation::BarrierBitDropped,
        Mutation::FlushWithoutIds,
        Mutation::MinorIgnored,
        Mutation::CacheOverwritesEpoch,
        Mutation::EraseBeforeJournal,
        Mutation::FlushBeforeJournal,
        Mutation::SegmentAheadOfJournal,
        Mutation::LateProgramWins,
    ];
}
