//! Modes and limits.

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

/// Limits of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// What is done at all.
    pub mode: Mode,
    /// Smaller files are left to the kernel, bytes.
    pub file_bytes_min: u64,
    /// The first prefetch of a stream, bytes.
    pub ramp_bytes: u64,
    /// The farthest a stream is ever prefetched ahead, bytes.
    pub depth_bytes_max: u64,
    /// Misses before a file may be fetched whole.
    pub fetch_misses_min: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            mode: Mode::Auto,
            file_bytes_min: 256 << 10,
            ramp_bytes: 128 << 10,
            depth_bytes_max: 32 << 20,
            fetch_misses_min: 32,
        }
    }
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
