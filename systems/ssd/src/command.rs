//! What a host sends and what it gets back: commands, stream and epoch tags, completions.

/// Virtual or real time in nanoseconds since an origin the caller chooses.
pub type Nanos = u64;

/// Bytes of one logical block; the unit of every address and length of this crate.
pub const BLOCK_BYTES: u64 = 4096;

/// Stands for the contents of one block. The model moves tokens, never bytes; a store next to it
/// keeps the bytes a token stands for. `Token::ZERO` is a block of zeroes (never written, discarded).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl Token {
    /// A block of zeroes.
    pub const ZERO: Token = Token(0);
}

/// One (stream, epoch) pair of an order-preserving command (OPIMQ, FAST'25 section 4; stream 0 of the
/// paper, "no order wanted", is the absence of a tag here). Epochs start at 0, wrap at 2^32 and are
/// compared by serial-number arithmetic (RFC 1982).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamTag {
    /// The stream, any value.
    pub stream: u32,
    /// The epoch in it.
    pub epoch: u32,
    /// Commands of this epoch, told by the command that closes it (`barrier`); 0 = not told, then the
    /// device takes the barrier to be the last of its epoch to arrive. Dual-stream epochs gather members
    /// from several queues and need the count: the one field the published interface lacks.
    pub members: u32,
}

impl StreamTag {
    /// A tag without a member count.
    pub const fn new(stream: u32, epoch: u32) -> StreamTag {
        StreamTag { stream, epoch, members: 0 }
    }
}

/// The order a command asks for. Empty on a conventional command. Only the `streams` regime reads the
/// tags; `barrier` reads the flag alone; the others ignore both, as today's drives do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// The stream of the submitter.
    pub major: Option<StreamTag>,
    /// The second stream of a dual-stream write.
    pub minor: Option<StreamTag>,
    /// The command ends its epoch, in both streams.
    pub barrier: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read; with `want_tokens` the completion carries the token of each block.
    Read {
        /// Whether the completion carries tokens (costs an allocation).
        want_tokens: bool,
    },
    /// Write; block `i` gets `Token(token.0 + i)`.
    Write {
        /// Contents of the first block.
        token: Token,
        /// Force unit access: completes when durable.
        fua: bool,
    },
    /// Completes when every write completed before it (and, tagged, every earlier epoch of the stream)
    /// is durable.
    Flush,
    /// A flush in place of the FUA flag of a write submitted at `since` and completed by now, as a driver
    /// without FUA sends it: covers what a flush covers, and ends when the FUA write would have ended.
    FlushForFua {
        /// When the write was submitted.
        since: Nanos,
    },
    /// A cache barrier by itself, for hosts that learn of an order only after the write: ends the epoch
    /// and completes at once. Where it could mean nothing (regimes `none` and `flush`, or untagged in
    /// `streams`) it is a `Flush`.
    Barrier,
    /// Deallocate: the blocks read as zeroes afterwards.
    Discard,
    /// Zero the blocks.
    WriteZeroes {
        /// Force unit access: completes when durable.
        fua: bool,
    },
    /// Ends every open epoch of the major stream and forgets the stream when it is durable: what a host
    /// sends when a thread exits without a barrier.
    CloseStream,
}

/// One command in a submission queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Chosen by the caller, comes back in the completion.
    pub id: u64,
    /// Submission queue, from 0.
    pub queue: u16,
    /// What to do.
    pub op: Op,
    /// First block.
    pub lba: u64,
    /// Number of blocks; 0 for flushes, `Barrier` and `CloseStream`.
    pub blocks: u32,
    /// Ordering.
    pub tags: Tags,
}

impl Command {
    fn new(id: u64, op: Op, lba: u64, blocks: u32) -> Command {
        Command { id, queue: 0, op, lba, blocks, tags: Tags::default() }
    }

    /// A read without tokens.
    pub fn read(id: u64, lba: u64, blocks: u32) -> Command {
        Command::new(id, Op::Read { want_tokens: false }, lba, blocks)
    }

    /// A read whose completion carries tokens.
    pub fn read_tokens(id: u64, lba: u64, blocks: u32) -> Command {
        Command::new(id, Op::Read { want_tokens: true }, lba, blocks)
    }

    /// A write that completes in the cache.
    pub fn write(id: u64, lba: u64, blocks: u32, token: Token) -> Command {
        Command::new(id, Op::Write { token, fua: false }, lba, blocks)
    }

    /// A write that completes when durable.
    pub fn write_fua(id: u64, lba: u64, blocks: u32, token: Token) -> Command {
        Command::new(id, Op::Write { token, fua: true }, lba, blocks)
    }

    /// A flush.
    pub fn flush(id: u64) -> Command {
        Command::new(id, Op::Flush, 0, 0)
    }

    /// A flush in place of the FUA flag of a write submitted at `since`.
    pub fn flush_for_fua(id: u64, since: Nanos) -> Command {
        Command::new(id, Op::FlushForFua { since }, 0, 0)
    }

    /// A cache barrier.
    pub fn barrier(id: u64) -> Command {
        Command::new(id, Op::Barrier, 0, 0)
    }

    /// A discard.
    pub fn discard(id: u64, lba: u64, blocks: u32) -> Command {
        Command::new(id, Op::Discard, lba, blocks)
    }

    /// The same command on another submission queue.
    pub fn on_queue(mut self, queue: u16) -> Command {
        self.queue = queue;
        self
    }

    /// The same command with tags.
    pub fn tagged(mut self, tags: Tags) -> Command {
        self.tags = tags;
        self
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok,
    /// A block could not be read back. On a healthy model this never happens.
    MediaError {
        /// The block.
        lba: u64,
    },
    /// The tag names an epoch that is already complete, or one further ahead than the device can hold.
    EpochOutOfWindow {
        /// The stream of the tag.
        stream: u32,
    },
    /// Too many blocks already wait for earlier epochs (`ftl.suspended_blocks_max` of the profile), and
    /// this command could not be installed at once. Send the missing epochs, or write less ahead.
    SuspensionFull {
        /// The limit.
        limit: u32,
    },
}

/// The end of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The command.
    pub id: u64,
    /// When it ended, <= the `now` of the `advance` that returned it.
    pub at: Nanos,
    /// How.
    pub status: Status,
    /// For `Op::Read { want_tokens: true }`: one per block.
    pub tokens: Option<Box<[Token]>>,
}
