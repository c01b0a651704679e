//! The block layer's letters for an operation and its flags, as tracepoints write them (`blk_fill_rwbs` of
//! the kernel's kernel/trace/blktrace.c): `[F]` preflush, the operation, `[F]` FUA, `A` read-ahead, `S` sync,
//! `M` metadata, `U` atomic.

use std::fmt;

use study::fsync::Operation;

/// An operation with its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rwbs {
    /// What it does.
    pub operation: Operation,
    /// The cache is flushed before (REQ_PREFLUSH).
    pub preflush: bool,
    /// The write goes past the cache (REQ_FUA).
    pub fua: bool,
    /// Somebody waits for it (REQ_SYNC).
    pub sync: bool,
    /// File-system metadata (REQ_META).
    pub meta: bool,
}

impl Rwbs {
    /// Reads the letters; those that are not known are passed over.
    pub fn parse(text: &str) -> Self {
        let mut letters = text.chars().peekable();
        let starts_flush = text.len() > 1 && text.starts_with('F');
        let preflush = starts_flush && letters.next().is_some();
        let operation = match letters.next() {
            Some('R') => Operation::Read,
            Some('W') => Operation::Write,
            Some('F') => Operation::Flush,
            Some('D') => Operation::Discard,
            _ => Operation::Other,
        };
        let fua = letters.next_if_eq(&'F').is_some();
        let rest: Vec<char> = letters.collect();
        Rwbs { operation, preflush, fua, sync: rest.contains(&'S'), meta: rest.contains(&'M') }
    }
}

impl fmt::Display for Rwbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = match self.operation {
            Operation::Read => 'R',
            Operation::Write => 'W',
            Operation::Flush => 'F',
            Operation::Discard => 'D',
            Operation::Other => 'N',
        };
        let mut text = String::new();
        let mut put = |set: bool, letter: char| {
            if set {
                text.push(letter)
            }
        };
        put(self.preflush, 'F');
        put(true, operation);
        put(self.fua, 'F');
        put(self.sync, 'S');
        put(self.meta, 'M');
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_mean_what_the_kernel_means() {
        let read = |text: &str| {
            let r = Rwbs::parse(text);
            (r.operation, r.preflush, r.fua, r.sync, r.meta)
        };
        assert_eq!(read("WS"), (Operation::Write, false, false, true, false));
        assert_eq!(read("WSM"), (Operation::Write, false, false, true, true));
        assert_eq!(read("FWFSM"), (Operation::Write, true, true, true, true));
        assert_eq!(read("WFSM"), (Operation::Write, false, true, true, true));
        assert_eq!(read("FWS"), (Operation::Write, true, false, true, false));
        assert_eq!(read("FF"), (Operation::Flush, true, false, false, false));
        assert_eq!(read("RAM"), (Operation::Read, false, false, false, true));
        assert_eq!(read("DS"), (Operation::Discard, false, false, true, false));
        assert_eq!(read("F"), (Operation::Flush, false, false, false, false));
        assert_eq!(read(""), (Operation::Other, false, false, false, false));
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["R", "WS", "WSM", "FWFSM", "WFSM", "FF", "DS", "N", "FWS"] {
            assert_eq!(Rwbs::parse(text).to_string(), text);
        }
    }
}
