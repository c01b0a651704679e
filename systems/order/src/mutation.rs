//! Known bugs of the host's side that can be planted, to show that the checks would catch them. The firmware's are
//! `ssd::mutation`.

/// One planted bug. The first group are bugs of the released OPIMQ host code (or hazards that its design leaves
/// open), the second are neighbours of our own rules and of the classic protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// OPIMQ: the barrier bit is never set in the command.
    BarrierBitNotSent,
    /// OPIMQ: the FLUSH command carries no ids.
    FlushWithoutIds,
    /// OPIMQ: stream ids are cut to 16 bits.
    StreamId16,
    /// OPIMQ: epochs are cut to 16 bits (here 4, so that they wrap soon).
    EpochShort,
    /// OPIMQ: contiguous requests merge whatever their streams and epochs. (The sender does not wait for the dispatch
    /// then; with that wait there is never anything to merge.)
    MergeAcrossEpochs,
    /// OPIMQ: a request from the plug's cache takes the queue of the present core instead of the pinned one.
    CachedRequestSkipsPin,
    /// OPIMQ: the clones of a split request lose the ids.
    SplitDropsIds,
    /// OPIMQ: `fbarrier` returns when the commit has ended, not when it is dispatched.
    FbarrierWaits,
    /// OPIMQ: commits without a flush are checkpointed without one.
    CheckpointWithoutFlush,
    /// OPIMQ: the journal's tail moves without a flush of the untagged checkpoint writes.
    TailWithoutFlush,
    /// OPIMQ: a thread exits and leaves its last epoch open.
    ExitLeavesEpochOpen,
    /// Ours: a requeued request takes new ids.
    RequeueTakesNewIds,
    /// Ours: a barrier that is sent before a requeued member of its epoch does not announce it.
    BarrierWithoutMembers,
    /// Ours: when the plug list was sent early and nothing is left, the barrier is forgotten.
    BarrierLostWithPlug,
    /// Ours: the first fragment of a split request carries the barrier.
    SplitBarrierFirst,
    /// Ours: D is not ordered in the journal's stream.
    DataWithoutMinor,
    /// Ours: JD does not end its epoch.
    DescriptorWithoutBarrier,
    /// Ours: the caller goes on before its requests have their ids.
    DispatchNotAwaited,
    /// Ours: of a dual write, the second stream's epoch is read before the journal thread's next write takes it.
    MinorReadEarly,
    /// Classic: JC is sent before JD has completed, on a device without order.
    CommitBeforeDescriptor,
    /// Classic: JC is sent without the flush before it.
    CommitWithoutFlush,
    /// Classic: fsync does not wait for D.
    DataNotWaited,
    /// Classic: journal space is used again before the checkpoint.
    WrapWithoutCheckpoint,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 23] = [
        Mutation::BarrierBitNotSent,
        Mutation::FlushWithoutIds,
        Mutation::StreamId16,
        Mutation::EpochShort,
        Mutation::MergeAcrossEpochs,
        Mutation::CachedRequestSkipsPin,
        Mutation::SplitDropsIds,
        Mutation::FbarrierWaits,
        Mutation::CheckpointWithoutFlush,
        Mutation::TailWithoutFlush,
        Mutation::ExitLeavesEpochOpen,
        Mutation::RequeueTakesNewIds,
        Mutation::BarrierWithoutMembers,
        Mutation::BarrierLostWithPlug,
        Mutation::SplitBarrierFirst,
        Mutation::DataWithoutMinor,
        Mutation::DescriptorWithoutBarrier,
        Mutation::DispatchNotAwaited,
        Mutation::MinorReadEarly,
        Mutation::CommitBeforeDescriptor,
        Mutation::CommitWithoutFlush,
        Mutation::DataNotWaited,
        Mutation::WrapWithoutCheckpoint,
    ];
}
