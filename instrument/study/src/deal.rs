//! Deals the trials of a study out to shards.
//!
//! What is dealt out are blocks: one trial of each cell of a workload and parameter set, all stacks and rows. What is compared
//! within a block has then run on one machine. Block *b* of the plan's shuffled order, counted from 0, belongs to shard
//! *b* mod N + 1, so that shards differ by one block at most.

use std::collections::{BTreeMap, HashMap};

use crate::Study;
use crate::plan::{self, Slot};
use crate::shard::{Shard, ShardError};

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
    depends.into_iter().find(|(_, is_set)| *is_set).map_or(Ok(()), |(name, _)| Err(ShardError::Depends(name)))
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
        assert_eq!(admits(&study("")), Ok(()));
        assert_eq!(admits(&study("stop_early = 0.05")), Err(ShardError::Depends("stop_early")));
    }
}
