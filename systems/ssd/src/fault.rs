//! Commands that fail, told in advance: the third flush, each read of a block. A state machine that counts what arrives.
//!
//! Linux reports such an error once: the command ends with EIO, and the next one may succeed. What it leaves behind
//! is the business of whoever holds the bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::FaultError;

/// A kind of command that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultOp {
    /// A read.
    Read,
    /// A write; discards and zeroes are none.
    Write,
    /// A flush, whatever it stands for.
    Flush,
}

/// Which command of its kind fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultTrigger {
    /// The one of this number, counted from 1.
    Number(u64),
    /// The first that touches this block of 4096 bytes.
    Block(u64),
}

/// A command that fails. As text `flush:3`, `write:1000`, `read@4096`; with a `+` behind it each one from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fault {
    /// Its kind.
    pub op: FaultOp,
    /// Which one.
    pub trigger: FaultTrigger,
    /// From this one on each, or each that touches the block.
    pub repeats: bool,
}

impl FaultOp {
    const ALL: [FaultOp; 3] = [FaultOp::Read, FaultOp::Write, FaultOp::Flush];

    /// Its name, `read`, `write` or `flush`.
    pub fn name(self) -> &'static str {
        match self {
            FaultOp::Read => "read",
            FaultOp::Write => "write",
            FaultOp::Flush => "flush",
        }
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Fault, FaultError> {
        let fault = || {
            let (rest, repeats) = text.strip_suffix('+').map_or((text, false), |rest| (rest, true));
            let at = rest.find([':', '@'])?;
            let op = FaultOp::ALL.into_iter().find(|op| op.name() == &rest[..at])?;
            let number: u64 = rest[at + 1..].parse().ok()?;
            let trigger = match rest.as_bytes()[at] {
                b':' if number > 0 => FaultTrigger::Number(number),
                b'@' if op != FaultOp::Flush => FaultTrigger::Block(number),
                _ => return None,
            };
            Some(Fault { op, trigger, repeats })
        };
        fault().ok_or_else(|| FaultError { text: text.to_owned() })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plus = if self.repeats { "+" } else { "" };
        match self.trigger {
            FaultTrigger::Number(number) => write!(f, "{}:{number}{plus}", self.op.name()),
            FaultTrigger::Block(block) => write!(f, "{}@{block}{plus}", self.op.name()),
        }
    }
}

/// The faults of a device that have not yet happened, and how many commands of each kind have come.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    planned: Vec<Fault>,
    reads: u64,
    writes: u64,
    flushes: u64,
}

impl Faults {
    /// These, counted from now on.
    pub fn new(planned: Vec<Fault>) -> Faults {
        Faults { planned, ..Faults::default() }
    }

    /// A command has come for `blocks` blocks from `lba` on (0 for a flush): whether it fails.
    pub fn strikes(&mut self, op: FaultOp, lba: u64, blocks: u64) -> bool {
        let count = match op {
            FaultOp::Read => &mut self.reads,
            FaultOp::Write => &mut self.writes,
            FaultOp::Flush => &mut self.flushes,
        };
        *count += 1;
        let number = *count;
        let mut struck = false;
        self.planned.retain(|fault| {
            let hit = fault.op == op
                && match fault.trigger {
                    FaultTrigger::Number(first) => number == first || fault.repeats && number > first,
                    FaultTrigger::Block(block) => block.checked_sub(lba).is_some_and(|at| at < blocks),
                };
            struck |= hit;
            !hit || fault.repeats
        });
        struck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(words: &[&str]) -> Faults {
        Faults::new(words.iter().map(|word| word.parse().unwrap()).collect())
    }

    #[test]
    fn faults_are_read_and_written_and_wrong_ones_refused() {
        for text in ["flush:3", "write:1000", "read@0", "write@77+", "flush:1+"] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        for bad in
            ["", "flush", "flush:", "flush:0", "flush@7", "trim:1", "read:-1", "read:1++", "read:1 ", "+"]
        {
            let said = bad.parse::<Fault>().unwrap_err().to_string();
            assert!(said.contains("read, write or flush"), "{bad}: {said}");
        }
    }

    #[test]
    fn a_fault_happens_once_unless_it_repeats() {
        let mut f = faults(&["flush:3", "write:2+", "read@10", "read@20+"]);
        let flushes = [1, 2, 3, 4].map(|_| f.strikes(FaultOp::Flush, 0, 0));
        assert_eq!(flushes, [false, false, true, false]);
        assert_eq!([1, 2, 3].map(|_| f.strikes(FaultOp::Write, 10, 1)), [false, true, true]);
        let reads = [(9, 1), (11, 1), (8, 4), (10, 1), (18, 3), (20, 1), (21, u64::MAX)];
        let struck = reads.map(|(lba, blocks)| f.strikes(FaultOp::Read, lba, blocks));
        assert_eq!(struck, [false, false, true, false, true, true, false]);
    }
}
