//! Modes, and the constants of the policy.

/// What the prefetcher does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Mode {
    /// Streams, fetching whole files when that pays, other files in order.
    #[default]
    Auto = 0,
    /// Nothing, and the program's own hints are dropped: the kernel alone.
    OsOnly = 1,
    /// Nothing: the program and its hints as they are.
    AppOnly = 2,
    /// Streams only.
    Predict = 3,
    /// Whole files from their first reads on, within the memory budget.
    FetchAll = 4,
    /// Decide and count, but issue nothing.
    Observe = 5,
}

impl Mode {
    /// All modes, in the order of their numbers.
    pub const ALL: [Mode; 6] =
        [Mode::Auto, Mode::OsOnly, Mode::AppOnly, Mode::Predict, Mode::FetchAll, Mode::Observe];

    /// Reads `auto`, `os-only`, `app-only`, `predict`, `fetch-all` or `observe`.
    pub fn parse(text: &[u8]) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name().as_bytes() == text)
    }

    /// The word that [`Mode::parse`] reads.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Auto => "auto",
            Mode::OsOnly => "os-only",
            Mode::AppOnly => "app-only",
            Mode::Predict => "predict",
            Mode::FetchAll => "fetch-all",
            Mode::Observe => "observe",
        }
    }

    /// From its number.
    pub fn from_number(number: u8) -> Option<Mode> {
        Mode::ALL.get(usize::from(number)).copied()
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// How long a thread takes to be woken, ns (10,000 to 200,000): waits that differ by less are alike, and turns are no
    /// shorter. Two context switches and the way through the scheduler of a busy processor.
    pub wake_ns: u64,
    /// The least that must be gained, percent of the time (1 to 30): what differs by less cannot be told from chance.
    pub gain_percent: u64,
    /// A read of somebody else may wait for one request of ours, a part of what it takes anyway: one in so many (2 to
    /// 50). 1.1 times is the limit of harm; a request that is met is half done on average, and some are met in twos.
    pub delay_part: u64,
    /// Bandwidth assumed until one was seen, bytes/s (10^8 to 10^10): a flash device's.
    pub bandwidth: u64,
    /// The smallest request of a stream that reads alone, bytes (16 KiB to 1 MiB): a call costs about 2 us.
    pub request_bytes: u64,
    /// The first prefetch of a stream, bytes (32 KiB to 1 MiB): Linux's own read-ahead, which it replaces.
    pub ramp_bytes: u64,
    /// The farthest a stream, or a fetch that nobody reads, is ever ahead, bytes (4 to 256 MiB): 12 ms at 3 GB/s.
    pub depth_bytes: u64,
    /// Smaller files are left to the kernel, bytes (64 KiB to 4 MiB): four read-aheads, of which two confirm a stream.
    pub file_bytes: u64,
    /// The shortest time over which a rate is taken, ns (1 to 10 ms): dozens of reads of a near device.
    pub rate_ns: u64,
    /// Streams count as live while they are read at least once in so long, ns (5 to 100 ms): a time slice and more.
    pub live_ns: u64,
    /// How many of the latest observations a belief is of (4 to 64): of 16 the third and the fifteenth are no accidents.
    pub sample: u64,
    /// What stands out of noise: a part of what is measured, one in so many (8 to 256).
    pub resolution: u64,
    /// Pieces of a stride that were missed elsewhere, less half of those that were met, with which it is given up (1 to 20).
    pub misfits: u8,
    /// Times what was lost by misses that fetching may cost (1 to 4): 1 is ski rental; half of it is read by others.
    pub price: u64,
    /// Of what misses cost, one part in so many may be spent on making them slower (16 to 1,000).
    pub stake: u64,
    /// Misses before a file is fetched (4 to 256).
    pub misses: u32,
    /// Reads of each side of a comparison (32 to 1,000): a twentieth of them must be several.
    pub trial_reads: u32,
    /// Reads until what was tried is tried again, doubled each time (512 to 65,536): trials cost a fiftieth at most.
    pub rest_reads: u32,
}

/// The policy's.
pub(crate) const T: Tuning = Tuning::STANDARD;

impl Tuning {
    /// Waits shorter than this, ns, are not weighed one by one: that takes a microsecond.
    pub const fn brief_ns(&self) -> u64 {
        10 * self.wake_ns
    }

    /// The policy's.
    pub const STANDARD: Tuning = Tuning {
        wake_ns: 50_000,
        gain_percent: 10,
        delay_part: 12,
        bandwidth: 1_000_000_000,
        request_bytes: 64 << 10,
        ramp_bytes: 128 << 10,
        depth_bytes: 32 << 20,
        file_bytes: 256 << 10,
        rate_ns: 2_000_000,
        live_ns: 20_000_000,
        sample: 16,
        resolution: 64,
        misfits: 5,
        price: 2,
        stake: 64,
        misses: 32,
        trial_reads: 96,
        rest_reads: 4_096,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_names_and_numbers() {
        for mode in Mode::ALL {
            assert_eq!(Mode::parse(mode.name().as_bytes()), Some(mode));
            assert_eq!(Mode::from_number(mode as u8), Some(mode));
        }
        assert_eq!(Mode::parse(b"fetchall"), None);
        assert_eq!(Mode::from_number(6), None);
    }
}
