//! What the prefetcher does, and why it did something.

/// An enum whose values have the numbers from 0 on, and texts.
macro_rules! numbered {
    ($(#[$about:meta])* enum $name:ident, $(#[$said:meta])* $text:ident: {
        $($(#[$each:meta])* $value:ident = $words:literal,)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[repr(u8)]
        pub enum $name { $($(#[$each])* $value,)* }

        impl $name {
            /// All, in the order of their numbers.
            pub const ALL: &[$name] = &[$($name::$value,)*];

            /// From its number; the first one for unknown numbers.
            pub fn from_number(number: u64) -> $name {
                usize::try_from(number).ok().and_then(|at| $name::ALL.get(at)).copied().unwrap_or_default()
            }

            $(#[$said])*
            pub fn $text(self) -> &'static str {
                match self { $($name::$value => $words,)* }
            }
        }
    };
}

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
}

numbered! {
    /// The latest decision about a file.
    enum Reason,
    /// One clause for `explain`.
    text: {
        /// Too few reads, or no order in them.
        #[default]
        NoPattern = "no pattern in the reads",
        /// A stream is prefetched.
        Prefetching = "prefetching ahead of a confirmed stream",
        /// Parts of the file are being fetched: their misses had paid for it.
        Fetching = "fetching the parts it misses in: misses have paid for it",
        /// This part of the file was fetched.
        Fetched = "fetched the parts it missed in: misses had paid for it",
        /// Forward, and the kernel's own read-ahead covers latency x bandwidth.
        KernelHasIt = "forward, and the kernel's read-ahead suffices",
        /// The reads hit the page cache.
        Cached = "reads hit the page cache",
        /// More would only queue before the device.
        Saturated = "the device is busy enough already",
        /// Misses have not paid enough yet.
        Paying = "misses without a pattern, not yet as dear as fetching",
        /// What was fetched was gone when it was read.
        NoMemory = "what was fetched was evicted before it was read",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_reasons_have_names_and_numbers() {
        for mode in Mode::ALL.iter().copied() {
            assert_eq!(Mode::parse(mode.name().as_bytes()), Some(mode));
            assert_eq!(Mode::from_number(mode as u64), mode);
        }
        assert_eq!(Mode::parse(b"fetchall"), None);
        assert_eq!(Mode::from_number(6), Mode::Auto);
        for (number, reason) in Reason::ALL.iter().copied().enumerate() {
            assert_eq!(reason as usize, number);
            assert_eq!(Reason::from_number(number as u64), reason);
            assert!(Reason::ALL.iter().all(|other| *other == reason || other.text() != reason.text()));
        }
    }
}
