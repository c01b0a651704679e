//! Modes, and the constants of the policy.

numbered! {
    /// What the prefetcher does.
    enum Mode,
    /// The word that [`Mode::parse`] reads.
    name: {
        /// Streams, fetching whole files when that pays, other files in order.
        #[default]
        Auto = "auto",
        /// Nothing, and the program's own hints are dropped: the kernel alone.
        OsOnly = "os-only",
        /// Nothing: the program and its hints as they are.
        AppOnly = "app-only",
        /// Streams only.
        Predict = "predict",
        /// Whole files from their first reads on, within the memory budget.
        FetchAll = "fetch-all",
        /// Decide and count, but issue nothing.
        Observe = "observe",
    }
}

impl Mode {
    /// Reads `auto`, `os-only`, `app-only`, `predict`, `fetch-all` or `observe`.
    pub fn parse(text: &[u8]) -> Option<Mode> {
        Mode::ALL.iter().copied().find(|mode| mode.name().as_bytes() == text)
    }

    /// Whether reads are looked at.
    pub fn watches(self) -> bool {
        !matches!(self, Mode::OsOnly | Mode::AppOnly)
    }

    /// Whether streams are prefetched.
    pub fn predicts(self) -> bool {
        matches!(self, Mode::Auto | Mode::Predict | Mode::Observe)
    }

    /// Whether a file is fetched whole once its misses have cost as much.
    pub fn rents(self) -> bool {
        matches!(self, Mode::Auto | Mode::Observe)
    }
}

/// The constants of the policy, all of them: what it is not told and does not measure. Lengths of tables are not among
/// them, nor are plain fractions of what stands here or was measured.
///
/// What each one moved when it was halved and doubled is in the notebook.
pub struct Tuning;

/// The policy's.
pub(crate) use Tuning as T;

impl Tuning {
    /// How long a thread takes to be woken, ns (10,000 to 200,000): waits that differ by less are alike, and turns are no
    /// shorter. Two context switches and the way through the scheduler of a busy processor.
    pub const WAKE_NS: u64 = 50_000;
    /// The least that must be gained, percent of the time (1 to 30): what differs by less cannot be told from chance.
    pub const GAIN_PERCENT: u64 = 10;
    /// A read of somebody else may wait for one request of ours, a part of what it takes anyway: one in so many (2 to
    /// 50). 1.1 times is the limit of harm; a request that is met is half done on average, and some are met in twos.
    pub const DELAY_PART: u64 = 12;
    /// Bandwidth assumed until one was seen, bytes/s (10^8 to 10^10): a flash device's.
    pub const BANDWIDTH: u64 = 1_000_000_000;
    /// The smallest request of a stream that reads alone, bytes (16 KiB to 1 MiB): a call costs about 2 us.
    pub const REQUEST_BYTES: u64 = 64 << 10;
    /// The first prefetch of a stream, bytes (32 KiB to 1 MiB): Linux's own read-ahead, which it replaces.
    pub const RAMP_BYTES: u64 = 128 << 10;
    /// The farthest a stream, or a fetch that nobody reads, is ever ahead, bytes (4 to 256 MiB): 12 ms at 3 GB/s.
    pub const DEPTH_BYTES: u64 = 32 << 20;
    /// Smaller files are left to the kernel, bytes (64 KiB to 4 MiB): four read-aheads, of which two confirm a stream.
    pub const FILE_BYTES: u64 = 256 << 10;
    /// The shortest time over which a rate is taken, ns (1 to 10 ms): dozens of reads of a near device.
    pub const RATE_NS: u64 = 2_000_000;
    /// Streams count as live while they are read at least once in so long, ns (5 to 100 ms): a time slice and more.
    pub const LIVE_NS: u64 = 20_000_000;
    /// How many of the latest observations a belief is of (4 to 64): of 16 the third and the fifteenth are no accidents.
    pub const SAMPLE: u64 = 16;
    /// What stands out of noise: a part of what is measured, one in so many (8 to 256).
    pub const RESOLUTION: u64 = 64;
    /// Pieces of a stride that were missed elsewhere, less half of those that were met, with which it is given up (1 to 20).
    pub const MISFITS: u8 = 5;
    /// Times what was lost by misses that fetching may cost (1 to 4): 1 is ski rental; half of it is read by others.
    pub const PRICE: u64 = 2;
    /// Of what misses cost, one part in so many may be spent on making them slower (16 to 1,000).
    pub const STAKE: u64 = 64;
    /// Misses before a file is fetched (4 to 256).
    pub const MISSES: u32 = 32;
    /// Reads of each side of a comparison (32 to 1,000): a twentieth of them must be several.
    pub const TRIAL_READS: u32 = 96;
    /// Reads until what was tried is tried again, doubled each time (512 to 65,536): trials cost a fiftieth at most.
    pub const REST_READS: u32 = 4_096;
    /// Waits shorter than this, ns, are not weighed one by one: that takes a microsecond.
    pub const BRIEF_NS: u64 = 10 * T::WAKE_NS;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_names_and_numbers() {
        for mode in Mode::ALL.iter().copied() {
            assert_eq!(Mode::parse(mode.name().as_bytes()), Some(mode));
            assert_eq!(Mode::from_number(mode as u64), mode);
        }
        assert_eq!(Mode::parse(b"fetchall"), None);
        assert_eq!(Mode::from_number(6), Mode::Auto);
    }
}
