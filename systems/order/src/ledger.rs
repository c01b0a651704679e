//! What recovery must find: the host's own book of transactions and acknowledgements, held against crash images.
//!
//! A device may keep every promise (the oracle's P1-P10) and the file system still be lost, because the protocol asked
//! for too little. So each image is also recovered: the journal is replayed from its tail as far as commit records are
//! found, and what results is compared with what was acknowledged.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use ssd::Token;

use crate::files::{FileId, Tid};
use crate::journal::Ordered;

/// What is wrong with a recovered image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// A commit record is there, log blocks of its transaction are not: recovery replays rubbish.
    LogTorn,
    /// A commit record is there, data that ordered mode writes before it is not: stale blocks show.
    DataStale,
    /// A transaction that an fsync acknowledged is not recovered.
    CommitLost,
    /// Data that an fsync or fdatasync acknowledged is not there.
    DataLost,
    /// A home block is newer than the recovered journal: it was written before its commit was safe.
    HomeAhead,
    /// The tail has passed a transaction whose home blocks are not there.
    HomeBehind,
    /// Data written after an fbarrier is there, data written before it is not.
    BarrierBroken,
}

/// No more findings of an image are listed.
const FINDINGS_MAX: usize = 32;

/// One loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Of what kind.
    pub loss: Loss,
    /// Where.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.loss, self.detail)
    }
}

/// How recovery decides that a transaction counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Its commit record is in the journal; stop at the first that is not.
    Record,
    /// The ordering log in device memory names its blocks, all are there; stop at the first that is not complete.
    Prefix,
    /// The same, each transaction by itself.
    Each,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) journal: usize,
    pub(crate) tid: Tid,
    /// (block, token) of the log.
    pub(crate) log: Vec<(u64, u64)>,
    /// (home block, token) of the metadata in it.
    pub(crate) homes: Vec<(u64, u64)>,
    pub(crate) commit: Option<(u64, u64)>,
    pub(crate) data: Vec<Ordered>,
    pub(crate) acked: bool,
}

/// A tail update that is on its way or done.
#[derive(Clone, Debug)]
struct Tail {
    token: u64,
    tid: Tid,
    /// Homes that must be there once the tail is, and transactions that must be replayed.
    homes: Vec<(u64, u64)>,
    needs: Tid,
}

/// The data writes of a file and the sync calls between them.
#[derive(Debug, Default)]
struct Chain {
    /// (number of the write, block, token).
    writes: Vec<(u32, u64, u64)>,
    /// Sync calls that have returned: writes below the first number come before those from the second one on.
    syncs: Vec<(u32, u32)>,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    rule: Rule,
    entries: VecDeque<Entry>,
    /// First token of each transaction's log, ascending, with journal and tid.
    owners: Vec<(u64, usize, Tid)>,
    tails: Vec<Tail>,
    home_floor: BTreeMap<u64, u64>,
    data_floor: BTreeMap<u64, u64>,
    /// Per file, if that is asked for.
    chains: BTreeMap<FileId, Chain>,
    chained: bool,
}

impl Ledger {
    pub(crate) fn new(rule: Rule, chained: bool) -> Ledger {
        Ledger {
            rule,
            entries: VecDeque::new(),
            owners: Vec::new(),
            tails: Vec::new(),
            home_floor: BTreeMap::new(),
            data_floor: BTreeMap::new(),
            chains: BTreeMap::new(),
            chained,
        }
    }

    /// A transaction is about to be written.
    pub(crate) fn begin(&mut self, entry: Entry) {
        let first = entry.log.iter().map(|l| l.1).min();
        if let Some(first) = first {
            self.owners.push((first, entry.journal, entry.tid));
        }
        self.entries.push_back(entry);
    }

    /// Its commit record.
    pub(crate) fn commit(&mut self, journal: usize, tid: Tid, lba: u64, token: u64) {
        if let Some(e) = self.entry(journal, tid) {
            e.commit = Some((lba, token));
        }
    }

    fn entry(&mut self, journal: usize, tid: Tid) -> Option<&mut Entry> {
        self.entries.iter_mut().rev().find(|e| e.journal == journal && e.tid == tid)
    }

    /// An fsync that needs it has returned.
    pub(crate) fn acked(&mut self, journal: usize, tid: Tid) {
        if let Some(e) = self.entry(journal, tid) {
            e.acked = true;
        }
    }

    /// A sync call that makes data durable has returned.
    pub(crate) fn data_acked(&mut self, data: &[Ordered]) {
        for (lba, token, blocks) in data {
            for i in 0..u64::from(*blocks) {
                let floor = self.data_floor.entry(lba + i).or_default();
                *floor = (*floor).max(token + i);
            }
        }
    }

    /// A sync call of a file has returned: it covers the writes below `covered`, those from `now` on come later.
    pub(crate) fn synced(&mut self, file: FileId, covered: u32, now: u32, durable: bool) {
        let Some(chain) = self.chains.get_mut(&file) else { return };
        chain.syncs.push((covered, now));
        if durable {
            for (_, lba, token) in chain.writes.iter().filter(|w| w.0 < covered) {
                let floor = self.data_floor.entry(*lba).or_default();
                *floor = (*floor).max(*token);
            }
        }
    }

    /// Data write `generation` of a file is on its way.
    pub(crate) fn chain(&mut self, file: FileId, generation: u32, data: &[Ordered]) {
        if self.chained {
            let chain = self.chains.entry(file).or_default();
            for (lba, token, blocks) in data {
                chain.writes.extend((0..u64::from(*blocks)).map(|i| (generation, lba + i, token + i)));
            }
        }
    }

    /// The journal's tail is being moved to `tid` by a superblock with contents `token`.
    pub(crate) fn move_tail(&mut self, token: u64, tid: Tid, homes: Vec<(u64, u64)>, needs: Tid) {
        self.tails.push(Tail { token, tid, homes, needs });
    }

    /// The last tail update is durable: what is before it need not be found in the journal.
    pub(crate) fn tail_moved(&mut self) {
        let Some(tail) = self.tails.pop() else { return };
        for (lba, token) in &tail.homes {
            self.raise_home(*lba, *token);
        }
        self.entries.retain(|e| e.tid >= tail.tid);
        self.tails = vec![Tail { homes: Vec::new(), ..tail }];
    }

    fn raise_home(&mut self, lba: u64, token: u64) {
        let floor = self.home_floor.entry(lba).or_default();
        *floor = (*floor).max(token);
    }

    /// MQFS: these transactions of a journal are on their home blocks; device memory forgets them at once.
    pub(crate) fn retire(&mut self, journal: usize, before: Tid, homes: &[(u64, u64)]) {
        for (lba, token) in homes {
            self.raise_home(*lba, *token);
        }
        self.entries.retain(|e| e.journal != journal || e.tid >= before);
    }

    fn owner(&self, token: u64) -> Option<(usize, Tid)> {
        let i = self.owners.partition_point(|o| o.0 <= token);
        self.owners.get(i.checked_sub(1)?).map(|o| (o.1, o.2))
    }

    /// Recovers the image and compares. `metas` lists the home blocks of metadata.
    pub(crate) fn check(
        &self,
        image: &[Token],
        superblock: u64,
        metas: impl Iterator<Item = u64>,
    ) -> Vec<Finding> {
        let mut out = Vec::new();
        let at = |lba: u64| image[lba as usize].0;
        let tail = self.tails.iter().find(|t| t.token == at(superblock));
        let from = tail.map_or(1, |t| t.tid);
        let mut replayed = from - 1;
        let mut taken: Vec<(usize, Tid)> = Vec::new();
        let mut homes: BTreeMap<u64, u64> = BTreeMap::new();
        for e in self.entries.iter().filter(|e| e.tid >= from || self.rule == Rule::Each) {
            if !self.counts(e, &at, &mut out) {
                if self.rule == Rule::Each {
                    continue;
                }
                break;
            }
            replayed = e.tid;
            taken.push((e.journal, e.tid));
            for (lba, token) in &e.homes {
                let newest = homes.entry(*lba).or_default();
                *newest = (*newest).max(*token);
            }
        }
        let mut find = |loss, detail| out.push(Finding { loss, detail });
        for e in self.entries.iter().filter(|e| e.acked && e.tid >= from) {
            if !taken.contains(&(e.journal, e.tid)) {
                find(Loss::CommitLost, format!("transaction {} of journal {}", e.tid, e.journal));
            }
        }
        for (lba, floor) in &self.data_floor {
            if at(*lba) < *floor {
                find(Loss::DataLost, format!("block {lba} holds {}, {floor} was acknowledged", at(*lba)));
            }
        }
        for lba in metas.filter(|_| self.rule != Rule::Each) {
            if let Some((_, tid)) = self.owner(at(lba))
                && tid > replayed
            {
                find(
                    Loss::HomeAhead,
                    format!("block {lba} is of transaction {tid}, recovered is {replayed}"),
                );
            }
        }
        let due = tail.into_iter().flat_map(|t| t.homes.iter().map(|(l, t)| (l, t)));
        for (lba, floor) in self.home_floor.iter().chain(due) {
            if at(*lba).max(homes.get(lba).copied().unwrap_or(0)) < *floor {
                find(Loss::HomeBehind, format!("block {lba} holds {}, due is {floor}", at(*lba)));
            }
        }
        if let Some(t) = tail.filter(|t| t.needs > replayed) {
            find(
                Loss::HomeBehind,
                format!("the tail relies on transaction {}, recovered is {replayed}", t.needs),
            );
        }
        self.check_chains(&at, &mut out);
        out.truncate(FINDINGS_MAX);
        out
    }

    /// Whether recovery takes the transaction; with a commit record it must be whole.
    fn counts(&self, e: &Entry, at: &impl Fn(u64) -> u64, out: &mut Vec<Finding>) -> bool {
        let torn = e.log.iter().find(|(lba, token)| at(*lba) != *token);
        let stale = e.data.iter().find_map(|(lba, token, blocks)| {
            (0..u64::from(*blocks)).map(|i| (lba + i, token + i)).find(|(l, t)| at(*l) < *t)
        });
        if self.rule != Rule::Record {
            return torn.is_none() && stale.is_none() && e.commit.is_none_or(|(l, t)| at(l) == t);
        }
        if e.commit.is_none_or(|(lba, token)| at(lba) != token) {
            return false;
        }
        if let Some((lba, _)) = torn {
            let detail = format!("transaction {}: log block {lba} holds {}", e.tid, at(*lba));
            out.push(Finding { loss: Loss::LogTorn, detail });
        }
        if let Some((lba, due)) = stale {
            let detail = format!("transaction {}: data block {lba} holds {}, due {due}", e.tid, at(lba));
            out.push(Finding { loss: Loss::DataStale, detail });
        }
        true
    }

    fn check_chains(&self, at: &impl Fn(u64) -> u64, out: &mut Vec<Finding>) {
        for (file, chain) in &self.chains {
            // A later version of the block stands for this one; it proves nothing about its own generation.
            let writes = &chain.writes;
            let newest = writes.iter().filter(|(_, lba, token)| at(*lba) == *token).map(|c| c.0).max();
            let Some(newest) = newest else { continue };
            let due = chain.syncs.iter().filter(|s| s.1 <= newest).map(|s| s.0).max().unwrap_or(0);
            let missing = writes.iter().find(|(g, lba, token)| *g < due && at(*lba) < *token);
            if let Some((g, lba, _)) = missing {
                let detail =
                    format!("file {}: block {lba} of write {g} is missing, write {newest} is there", file.0);
                out.push(Finding { loss: Loss::BarrierBroken, detail });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPERBLOCK: u64 = 0;

    /// Transaction `tid`: log at 10 x tid, commit record behind it, home block 100, ordered data at 200 + tid.
    fn commit(ledger: &mut Ledger, tid: Tid) {
        let (base, token) = (10 * u64::from(tid), 1000 * u64::from(tid));
        ledger.begin(Entry {
            journal: 0,
            tid,
            log: vec![(base, token), (base + 1, token + 1)],
            homes: vec![(100, token + 1)],
            commit: None,
            data: vec![(200 + u64::from(tid), token + 5, 1)],
            acked: false,
        });
        ledger.commit(0, tid, base + 2, token + 2);
    }

    /// All that transaction `tid` writes but its home block.
    fn written(tid: u64) -> Vec<(u64, u64)> {
        let (base, token) = (10 * tid, 1000 * tid);
        vec![(base, token), (base + 1, token + 1), (base + 2, token + 2), (200 + tid, token + 5)]
    }

    fn losses(ledger: &Ledger, blocks: &[(u64, u64)]) -> Vec<Loss> {
        let mut image = vec![Token::ZERO; 300];
        for (lba, token) in blocks {
            image[*lba as usize] = Token(*token);
        }
        ledger.check(&image, SUPERBLOCK, [100].into_iter()).into_iter().map(|f| f.loss).collect()
    }

    #[test]
    fn a_commit_record_needs_its_log_and_its_data() {
        let mut ledger = Ledger::new(Rule::Record, false);
        commit(&mut ledger, 1);
        assert_eq!(losses(&ledger, &[]), [], "nothing was acknowledged");
        let all = written(1);
        assert_eq!(losses(&ledger, &all), []);
        assert_eq!(losses(&ledger, &all[1..]), [Loss::LogTorn]);
        assert_eq!(losses(&ledger, &all[..3]), [Loss::DataStale]);
        ledger.acked(0, 1);
        assert_eq!(losses(&ledger, &all[..2]), [Loss::CommitLost]);
    }

    #[test]
    fn an_ordering_log_ignores_what_is_not_complete() {
        for (rule, found) in [(Rule::Prefix, vec![Loss::CommitLost]), (Rule::Each, vec![])] {
            let mut ledger = Ledger::new(rule, false);
            commit(&mut ledger, 1);
            commit(&mut ledger, 2);
            ledger.acked(0, 2);
            assert_eq!(losses(&ledger, &written(2)), found, "{rule:?}");
        }
    }

    #[test]
    fn home_blocks_are_neither_ahead_of_the_journal_nor_behind_its_tail() {
        let mut ledger = Ledger::new(Rule::Record, false);
        commit(&mut ledger, 1);
        assert_eq!(losses(&ledger, &[(100, 1001)]), [Loss::HomeAhead]);
        ledger.acked(0, 1);
        ledger.move_tail(77, 2, vec![(100, 1001)], 0);
        let tail = (SUPERBLOCK, 77);
        assert_eq!(losses(&ledger, &written(1)), [], "the tail update is still on its way");
        assert_eq!(losses(&ledger, &[tail]), [Loss::HomeBehind]);
        ledger.tail_moved();
        assert_eq!(losses(&ledger, &[tail, (100, 1001)]), []);
        assert_eq!(losses(&ledger, &[tail]), [Loss::HomeBehind]);
        // A later transaction in the journal holds the block as well.
        commit(&mut ledger, 2);
        let mut blocks = written(2);
        blocks.push(tail);
        assert_eq!(losses(&ledger, &blocks), []);
    }

    #[test]
    fn writes_after_a_barrier_need_those_before() {
        let mut ledger = Ledger::new(Rule::Record, true);
        let file = FileId(3);
        ledger.chain(file, 0, &[(210, 1, 2)]);
        ledger.chain(file, 1, &[(220, 3, 1)]);
        assert_eq!(losses(&ledger, &[(220, 3)]), [], "no barrier between them");
        ledger.synced(file, 1, 1, false);
        assert_eq!(losses(&ledger, &[(220, 3), (210, 1)]), [Loss::BarrierBroken]);
        assert_eq!(losses(&ledger, &[(220, 3), (210, 1), (211, 9)]), [], "a newer version will do");
        assert_eq!(losses(&ledger, &[(210, 1)]), []);
        ledger.synced(file, 2, 2, true);
        assert_eq!(losses(&ledger, &[(210, 1), (211, 2)]), [Loss::DataLost]);
    }
}
