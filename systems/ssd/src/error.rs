//! Typed errors: what is wrong, where, what to do.

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No built-in profile of that name.
    #[error("no profile named `{name}`; there are {} and slow(1ms,1GB/s)", crate::built_in::NAMES.join(", "))]
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// Not TOML, or not the fields a profile has.
    #[error("profile `{name}`: {source}")]
    Syntax {
        /// Name or path of the profile.
        name: String,
        /// The TOML error, with line and column.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A value out of range.
    #[error("profile `{profile}`: {field} is {value}, but must be {must_be}")]
    Value {
        /// Profile name.
        profile: String,
        /// Dotted field name.
        field: &'static str,
        /// What it is.
        value: String,
        /// What it should be.
        must_be: &'static str,
    },
}

/// A fault that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "fault `{text}`: read, write or flush, then `:N` for the Nth one or `@BLOCK` for the first that touches this block \
     of 4096 bytes (a flush touches none), then `+` for each one from there on; such as flush:3, write:1000+, read@64"
)]
pub struct FaultError {
    /// As it was written.
    pub text: String,
}

/// A device that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Capacity of no or of too many blocks.
    #[error("capacity of {bytes} bytes: must be a positive multiple of 4096 and at most {max} bytes")]
    Capacity {
        /// Asked for.
        bytes: u64,
        /// Largest.
        max: u64,
    },
    /// The profile's own fault.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// A command the device does not take. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Beyond the last block.
    #[error("blocks {lba}..{end} are beyond the device's {capacity} blocks")]
    OutOfRange {
        /// First block.
        lba: u64,
        /// One past the last.
        end: u64,
        /// Blocks there are.
        capacity: u64,
    },
    /// A read, write or discard of nothing.
    #[error("a command of 0 blocks")]
    Empty,
    /// A queue the device has not.
    #[error("queue {queue}: the device has {queues}")]
    NoQueue {
        /// Asked for.
        queue: u16,
        /// There are.
        queues: u16,
    },
    /// The submission queue is full; reap completions first.
    #[error("submission queue {queue} already holds {depth} commands")]
    QueueFull {
        /// The queue.
        queue: u16,
        /// Its depth.
        depth: u32,
    },
    /// A minor tag without a major one, or both of the same stream.
    #[error("a minor tag needs a major tag of another stream")]
    BadTags,
    /// `CloseStream` without a major tag.
    #[error("closing a stream needs its major tag")]
    NoStream,
    /// The device is off after a power cut; call `recover`.
    #[error("the device has no power; recover it first")]
    PowerOff,
    /// Time ran backwards.
    #[error("time {now} ns is before the device's {at} ns")]
    TimeReversed {
        /// Given.
        now: u64,
        /// The device's.
        at: u64,
    },
}

/// Recovery found flash that does not match the map: data was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The device has power.
    #[error("the device has not lost power")]
    PowerOn,
    /// A mapped page does not hold the block the map says.
    #[error("block {lba}: the recovered map names flash slot {slot}, which holds {found}")]
    LostPage {
        /// The logical block.
        lba: u64,
        /// The flash slot.
        slot: u32,
        /// What is there.
        found: String,
    },
}
