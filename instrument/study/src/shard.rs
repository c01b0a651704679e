//! Shards: the parts of a plan that many machines, or the tasks of a batch system's job array, run each by itself. What they
//! are; `deal` says which trials are theirs.

use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Most shards of a study: more than a batch system's array has tasks (Slurm's MaxArraySize is 4,000,001 at most).
pub const SHARDS_MAX: u32 = 4_000_001;

/// Part K of N of a study, written `K/N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    /// From 1 to [`Shard::of`].
    number: u32,
    of: u32,
}

/// What shards a merged run was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardOrigin {
    /// The run's id in its own store.
    pub id: String,
    /// Which shard it was.
    pub shard: Shard,
    /// When it began (UTC).
    pub started: Timestamp,
    /// When it was completed; `None`: some of its trials have not run.
    pub finished: Option<Timestamp>,
    /// The command that began it, program name first.
    pub command_line: Vec<String>,
}

/// Why there is no such shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// Not K/N, or out of range.
    #[error(
        "`{0}` is no shard; it is written K/N with K from 1 to N, such as 3/40, and N is {SHARDS_MAX} at most"
    )]
    Form(String),
    /// What runs next depends on what came before.
    #[error("a study with `{0}` cannot be split: what runs next depends on the results so far; run it whole")]
    Depends(&'static str),
}

impl Shard {
    /// Shard `number` of `of`, counted from 1.
    ///
    /// # Errors
    /// [`ShardError::Form`] when it is out of range.
    pub fn new(number: u32, of: u32) -> Result<Shard, ShardError> {
        if number == 0 || number > of || of > SHARDS_MAX {
            return Err(ShardError::Form(format!("{number}/{of}")));
        }
        Ok(Shard { number, of })
    }

    /// Which one, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Of how many.
    pub fn of(self) -> u32 {
        self.of
    }

    /// The shard that a block belongs to, counted from 0 in the plan's order.
    pub(crate) fn owns(self, block: usize) -> bool {
        block % self.of as usize == self.number as usize - 1
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Shard, ShardError> {
        let bad = || ShardError::Form(text.to_string());
        let (number, of) = text.split_once('/').ok_or_else(bad)?;
        let read = |part: &str| part.parse::<u32>().map_err(|_| bad());
        Shard::new(read(number)?, read(of)?).map_err(|_| bad())
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl TryFrom<String> for Shard {
    type Error = ShardError;

    fn try_from(text: String) -> Result<Shard, ShardError> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> String {
        shard.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_written_as_they_are_read() {
        assert_eq!("3/40".parse::<Shard>().unwrap().to_string(), "3/40");
        for bad in ["", "3", "0/4", "5/4", "-1/4", "1/0", "1/4/2", "a/b", "1/5000000"] {
            assert_eq!(bad.parse::<Shard>(), Err(ShardError::Form(bad.into())), "{bad}");
        }
    }
}
