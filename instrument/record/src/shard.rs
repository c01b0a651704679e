//! Shards: the parts of a plan that many machines, or the tasks of a batch system's job array, run each by itself.
//!
//! What is dealt out are blocks: one trial of each cell of a workload and parameter set, all stacks and rows. What is compared
//! within a block has then run on one machine. Block *b* of the plan's shuffled order, counted from 0, belongs to shard
//! *b* mod N + 1, so that shards differ by one block at most.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::plan::{self, Slot};
use crate::study::Study;

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
pub struct Part {
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

    /// Whether a study can be split at all.
    ///
    /// # Errors
    /// [`ShardError::Depends`] for comparisons in turns, swept rates and early stopping.
    pub fn admits(study: &Study) -> Result<(), ShardError> {
        let settings = &study.study;
        let depends = [
            ("turns", settings.turns.is_some()),
            ("offered", !settings.offered.is_empty()),
            ("stop_early", settings.stop_early.is_some()),
        ];
        depends
            .into_iter()
            .find(|(_, is_set)| *is_set)
            .map_or(Ok(()), |(name, _)| Err(ShardError::Depends(name)))
    }

    /// The shard that a block belongs to, counted from 0 in the plan's order.
    fn owns(self, block: usize) -> bool {
        block % self.of as usize == self.number as usize - 1
    }
}

/// The trials of a study that a shard runs, in the planned order; all of them without one.
pub fn order(study: &Study, shard: Option<Shard>) -> Vec<Slot> {
    let Some(shard) = shard else { return plan::order(study) };
    blocks(study).into_iter().filter(|(_, block)| shard.owns(*block)).map(|(slot, _)| slot).collect()
}

/// Trials of the plan that `is_done` denies, by the shard of `of` that they belong to; only shards with such trials.
pub fn holes(study: &Study, of: u32, is_done: impl Fn(&Slot) -> bool) -> BTreeMap<u32, u64> {
    let mut holes = BTreeMap::new();
    for (_, block) in blocks(study).into_iter().filter(|(slot, _)| !is_done(slot)) {
        *holes.entry(block as u32 % of.max(1) + 1).or_default() += 1;
    }
    holes
}

/// The planned trials with the number of their block.
fn blocks(study: &Study) -> Vec<(Slot, usize)> {
    let mut group_of = HashMap::new();
    for (number, group) in plan::groups(study, &plan::cells(study)).into_iter().enumerate() {
        group.into_iter().for_each(|cell| {
            group_of.insert(cell, number);
        });
    }
    let mut blocks = HashMap::new();
    let mut numbered = |slot: Slot| {
        let next = blocks.len();
        (slot, *blocks.entry((slot.index, group_of.get(&slot.cell).copied())).or_insert(next))
    };
    plan::order(study).into_iter().map(&mut numbered).collect()
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

    fn study(more: &str) -> Study {
        let text = format!(
            "stacks = ['ext4', 'xfs']\n[study]\ntrials = 3\n{more}\n[[workload]]\nname = 'a'\ntext = 'run'\n\
             parameters = {{ n = [1, 2, 3, 4, 5, 6, 7] }}\n"
        );
        Study::from_stored(&text).unwrap()
    }

    #[test]
    fn shards_are_written_as_they_are_read() {
        assert_eq!("3/40".parse::<Shard>().unwrap().to_string(), "3/40");
        for bad in ["", "3", "0/4", "5/4", "-1/4", "1/0", "1/4/2", "a/b", "1/5000000"] {
            assert_eq!(bad.parse::<Shard>(), Err(ShardError::Form(bad.into())), "{bad}");
        }
    }

    #[test]
    fn every_trial_is_in_one_shard_and_blocks_stay_whole() {
        let study = study("");
        let whole = order(&study, None);
        for of in [1, 2, 4, 21, 30] {
            let shards: Vec<Vec<Slot>> =
                (1..=of).map(|number| order(&study, Some(Shard::new(number, of).unwrap()))).collect();
            let mut all: Vec<Slot> = shards.iter().flatten().copied().collect();
            all.sort_by_key(|slot| slot.order);
            assert_eq!(all, whole, "{of} shards");
            let sizes = shards.iter().map(Vec::len);
            // a block is one trial on each of the two stacks
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 2);
            for shard in &shards {
                for slot in shard {
                    let partner = slot.cell ^ 1;
                    assert!(shard.iter().any(|other| (other.cell, other.index) == (partner, slot.index)));
                }
            }
        }
    }

    #[test]
    fn what_depends_on_results_is_not_split() {
        assert_eq!(Shard::admits(&study("")), Ok(()));
        assert_eq!(Shard::admits(&study("stop_early = 0.05")), Err(ShardError::Depends("stop_early")));
    }
}
