//! Who takes part in a load of many tasks.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::span::Span;

/// A task among all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankInfo {
    /// Its number, from 0.
    pub rank: u32,
    /// The host of each task.
    pub hosts: Vec<String>,
}

impl RankInfo {
    /// One task without others.
    pub fn single() -> RankInfo {
        RankInfo { rank: 0, hosts: vec![String::new()] }
    }

    /// How many tasks there are.
    pub fn size(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// Which one of the tasks on its host this is, from 0.
    pub fn among_neighbours(&self) -> usize {
        let own = self.hosts.get(self.rank as usize);
        self.hosts.iter().take(self.rank as usize).filter(|host| Some(*host) == own).count()
    }

    /// How many different hosts there are.
    pub fn hosts_number(&self) -> usize {
        let mut hosts: Vec<&String> = self.hosts.iter().collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts.len()
    }

    /// By how many ranks one must go to come to another host: tasks of rank 0's host where the launcher fills host after
    /// host; 1 on one host, or where it deals ranks out in turns.
    pub fn node_step(&self) -> u32 {
        let first = self.hosts.first();
        let filled = self.hosts.iter().take_while(|host| Some(*host) == first).count() as u32;
        if filled < self.size() { filled.max(1) } else { 1 }
    }

    /// How many tasks read what their own host has written, when each reads what `owner` says.
    pub fn own_host(&self, owner: impl Fn(u32) -> u32) -> u32 {
        let same = |rank: &u32| self.hosts.get(*rank as usize) == self.hosts.get(owner(*rank) as usize);
        (0..self.size()).filter(same).count() as u32
    }

    /// Whose file each task reads: a random order without a task that reads its own, and with as few as can be found that
    /// read their own host's.
    pub fn shuffled(&self, seed: u64) -> Vec<u32> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let size = self.size();
        let mut best: Option<(u32, Vec<u32>)> = None;
        for _ in 0..TRIES {
            // one cycle through all ranks: nobody is its own successor
            let mut cycle: Vec<u32> = (0..size).collect();
            cycle.shuffle(&mut rng);
            let shift = if size > 2 { rng.random_range(1..size) as usize } else { 1 };
            let mut owner = vec![0; size as usize];
            for at in 0..cycle.len() {
                owner[cycle[at] as usize] = cycle[(at + shift) % cycle.len()];
            }
            let own = self.own_host(|rank| owner[rank as usize]);
            if best.as_ref().is_none_or(|(least, _)| own < *least) {
                best = Some((own, owner));
            }
            if own == 0 || self.hosts_number() == 1 {
                break;
            }
        }
        best.map(|(_, owner)| owner).unwrap_or_default()
    }
}

/// How many orders are tried to find one in which every host reads what another has written.
const TRIES: u32 = 200;

/// The other tasks, as a task sees them.
pub trait Ranks {
    /// Which task this is.
    fn rank_info(&self) -> &RankInfo;

    /// Waits until all tasks have come, and gives what each has brought. `aligned`: then sleeps to one agreed moment of the
    /// corrected clocks; without it all go on at once.
    ///
    /// # Errors
    /// Another task failed, or the load is to end.
    fn all_gather(&self, value: u64, aligned: bool) -> Result<Vec<u64>, String>;

    /// Tells this task's part of a phase.
    fn report_span(&self, span: &Span);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roll(hosts: &[&str]) -> RankInfo {
        RankInfo { rank: 0, hosts: hosts.iter().map(|host| host.to_string()).collect() }
    }

    #[test]
    fn nobody_reads_its_own() {
        for size in 2..40_usize {
            for seed in 0..20 {
                let one_host = roll(&vec!["a"; size]);
                let mut owner = one_host.shuffled(seed);
                assert!(
                    (0..size as u32).all(|rank| owner[rank as usize] != rank),
                    "{size} {seed}: {owner:?}"
                );
                owner.sort_unstable();
                assert_eq!(owner, (0..size as u32).collect::<Vec<_>>(), "each file once");
            }
        }
        assert_eq!(roll(&["a"]).shuffled(1), [0]);
    }

    #[test]
    fn hosts_read_what_others_wrote() {
        let two = roll(&["a", "a", "b", "b"]);
        assert_eq!((two.node_step(), two.hosts_number()), (2, 2));
        assert_eq!(two.own_host(|rank| (rank + 2) % 4), 0);
        for seed in 0..20 {
            let owner = two.shuffled(seed);
            assert_eq!(two.own_host(|rank| owner[rank as usize]), 0, "seed {seed}: {owner:?}");
        }
        let third = RankInfo { rank: 2, ..roll(&["a", "b", "a", "b"]) };
        assert_eq!((third.node_step(), third.among_neighbours()), (1, 1));
        assert_eq!(roll(&["a", "a"]).node_step(), 1);
    }
}
