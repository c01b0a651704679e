//! Which images a power cut may leave: per block the versions written, and from when on an older one is gone.
//!
//! The rules are those of [`ssd::oracle`], worked out for every cut of a recording at once:
//!
//! - a block may hold any version between its *floor* and the newest one submitted before the cut, each block
//!   for itself: writes of several blocks tear between blocks;
//! - a completed flush raises the floor of every write that had completed when the flush was submitted, a
//!   completed FUA write that of its own blocks, power-loss protection that of every completed write;
//! - regime `none` raises nothing, ever;
//! - regimes `barrier` and `streams` also ask that the writes found be an order ideal: no epoch without all
//!   that came before it in its stream ([`History::settle`]).

use std::collections::HashMap;

use ssd::Regime;
use xxhash_rust::xxh3::xxh3_128;

use crate::recording::{ContentId, Event, Recording};

/// What the device promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The ordering regime.
    pub regime: Regime,
    /// Whether completed writes survive a power cut.
    pub plp: bool,
    /// Flushes only order, as cache barriers do: what completed before one was submitted persists before what
    /// is submitted after it has completed, but not because of it. Needs a regime with epochs.
    pub order_only: bool,
}

impl Contract {
    /// A contract in which a flush is a flush.
    pub fn new(regime: Regime, plp: bool) -> Contract {
        Contract { regime, plp, order_only: false }
    }

    /// Whether what a program has synced must be there after a power cut.
    pub fn promises_durability(&self) -> bool {
        self.flush_is_durable() || self.plp && !self.order_only
    }

    /// Whether a completed flush makes durable what it covers.
    pub fn flush_is_durable(&self) -> bool {
        self.regime.honours_flush() && !self.order_only
    }
}

impl Default for Contract {
    /// Today's drives: flushes, and a cache that loses its contents.
    fn default() -> Contract {
        Contract::new(Regime::Flush, false)
    }
}

/// A version of a block.
#[derive(Clone, Copy, Debug)]
struct Version {
    write: u32,
    content: ContentId,
    submitted: usize,
}

/// A block that may hold one of several versions; version 0 is the base image, n the n-th write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Number of the block among the touched ones.
    pub block: u32,
    /// The oldest version it may hold.
    pub floor: u32,
    /// The newest.
    pub newest: u32,
}

/// A lawful image: at this cut everything persisted but for some blocks, which hold an older version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Events that had happened.
    pub cut: usize,
    /// (block among the touched ones, version it holds), by block; only blocks that do not hold the newest.
    pub lost: Vec<(u32, u32)>,
}

/// The versions of every touched block.
#[derive(Debug)]
pub struct History<'a> {
    recording: &'a Recording,
    contract: Contract,
    /// Addresses of the touched blocks, ascending.
    lbas: Vec<u64>,
    versions: Vec<Vec<Version>>,
    /// Per touched block: from this cut on, this floor; ascending.
    raises: Vec<Vec<(usize, u32)>>,
    windows: Vec<usize>,
}

impl<'a> History<'a> {
    /// Works out a recording under a contract.
    pub fn new(recording: &'a Recording, contract: Contract) -> History<'a> {
        let mut lbas: Vec<u64> =
            recording.writes.iter().flat_map(|w| w.lba..w.lba + w.contents.len() as u64).collect();
        lbas.sort_unstable();
        lbas.dedup();
        let index: HashMap<u64, u32> = lbas.iter().zip(0..).map(|(lba, i)| (*lba, i)).collect();
        let mut versions: Vec<Vec<Version>> = vec![Vec::new(); lbas.len()];
        for (w, write) in recording.writes.iter().enumerate() {
            for (lba, content) in (write.lba..).zip(&write.contents) {
                let version = Version { write: w as u32, content: *content, submitted: write.submitted };
                versions[index[&lba] as usize].push(version);
            }
        }
        let raises = vec![Vec::new(); lbas.len()];
        let mut history = History { recording, contract, lbas, versions, raises, windows: Vec::new() };
        PersistenceTracker::new(&index).follow(&mut history);
        history
    }

    /// The recording.
    pub fn recording(&self) -> &'a Recording {
        self.recording
    }

    /// The contract.
    pub fn contract(&self) -> Contract {
        self.contract
    }

    /// The cuts that matter, ascending: each just before something becomes durable, and the end. Between two
    /// of them only possibilities are added, so the images of every other cut are among those of the next of
    /// these; and the later the cut, the more the workload had been promised.
    pub fn windows(&self) -> &[usize] {
        &self.windows
    }

    /// Address of a touched block.
    pub fn lba(&self, block: u32) -> u64 {
        self.lbas[block as usize]
    }

    /// The newest version of a block submitted before the cut.
    pub fn newest_at(&self, block: u32, cut: usize) -> u32 {
        self.versions[block as usize].partition_point(|v| v.submitted < cut) as u32
    }

    /// The oldest version it may hold.
    pub fn floor_at(&self, block: u32, cut: usize) -> u32 {
        let raises = &self.raises[block as usize];
        raises.partition_point(|(from, _)| *from <= cut).checked_sub(1).map_or(0, |i| raises[i].1)
    }

    /// What a version holds.
    pub fn content(&self, block: u32, version: u32) -> ContentId {
        match version.checked_sub(1) {
            None => self.recording.base_of(self.lbas[block as usize]),
            Some(i) => self.versions[block as usize][i as usize].content,
        }
    }

    /// The write that made a version; none for the base.
    pub fn write_of(&self, block: u32, version: u32) -> Option<u32> {
        version.checked_sub(1).map(|i| self.versions[block as usize][i as usize].write)
    }

    /// The version of a block that a write made, if it touched it.
    pub fn version_by(&self, block: u32, write: u32) -> Option<u32> {
        let found = self.versions[block as usize].binary_search_by_key(&write, |v| v.write);
        found.ok().map(|i| i as u32 + 1)
    }

    /// The touched block of an address.
    pub fn block_at(&self, lba: u64) -> Option<u32> {
        self.lbas.binary_search(&lba).ok().map(|i| i as u32)
    }

    /// The blocks whose contents are open at a cut.
    pub fn open_at(&self, cut: usize) -> Vec<Open> {
        (0..self.lbas.len() as u32)
            .map(|block| Open { block, floor: self.floor_at(block, cut), newest: self.newest_at(block, cut) })
            .filter(|open| open.floor < open.newest)
            .collect()
    }

    /// The state in which every touched block holds a version of `open`'s cut: `choice[i]` for `open[i]`.
    pub fn state(&self, cut: usize, open: &[Open], choice: &[u32]) -> State {
        let lost =
            open.iter().zip(choice).filter(|(o, v)| **v < o.newest).map(|(o, v)| (o.block, *v)).collect();
        State { cut, lost }
    }

    /// Whether a power cut may leave the state.
    pub fn is_lawful(&self, state: &State) -> bool {
        let in_range =
            |(b, v): &(u32, u32)| *v >= self.floor_at(*b, state.cut) && *v < self.newest_at(*b, state.cut);
        if !state.lost.iter().all(in_range) || !state.lost.is_sorted_by(|a, b| a.0 < b.0) {
            return false;
        }
        if !self.contract.regime.is_ordered() {
            return true;
        }
        let open = self.open_at(state.cut);
        let mut choice: Vec<u32> = open.iter().map(|o| version_in(state, o)).collect();
        let before = choice.clone();
        self.settle(state.cut, &open, &mut choice);
        before == choice
    }

    /// The same image at the latest of the windows at which it is lawful too: there the workload had been
    /// promised most. After a flush, an image that holds what was flushed and nothing newer is such a one.
    pub fn latest(&self, state: State) -> State {
        let later = self.windows.partition_point(|cut| *cut <= state.cut);
        let mut latest = state;
        for cut in &self.windows[later..] {
            let moved = self.at_cut(&latest, *cut);
            if !self.is_lawful(&moved) {
                break;
            }
            latest = moved;
        }
        latest
    }

    /// The cuts just before `marks` (positions among the events, ascending) at which the image is lawful too, and fewer of them had
    /// been passed than at its latest cut: its newest write had been submitted.
    pub(crate) fn earlier_cuts<'m>(&self, latest: &State, marks: &'m [usize]) -> &'m [usize] {
        let submitted = self.held(latest).filter_map(|(block, version)| {
            let version = self.versions[block as usize].get(version.checked_sub(1)? as usize)?;
            Some(version.submitted)
        });
        let first = submitted.max().map_or(0, |last| last + 1);
        let (from, to) = (marks.partition_point(|m| *m < first), marks.partition_point(|m| *m < latest.cut));
        &marks[from..to.max(from)]
    }

    /// The same image at another cut, at which all that it holds had been submitted.
    pub(crate) fn at_cut(&self, state: &State, cut: usize) -> State {
        let lost = self.held(state).filter(|(block, version)| *version < self.newest_at(*block, cut));
        State { cut, lost: lost.collect() }
    }

    /// The version that each block holds.
    fn held(&self, state: &State) -> impl Iterator<Item = (u32, u32)> {
        let mut lost = state.lost.iter().peekable();
        (0..self.lbas.len() as u32).map(move |block| match lost.next_if(|(b, _)| *b == block) {
            Some(kept) => *kept,
            None => (block, self.newest_at(block, state.cut)),
        })
    }

    /// Raises the versions chosen for `open` (all open blocks of the cut) until they are an order ideal:
    /// every epoch found has all that came before it. Nothing to do in regimes without epochs.
    pub fn settle(&self, cut: usize, open: &[Open], choice: &mut [u32]) {
        if !self.contract.regime.is_ordered() {
            return;
        }
        // A write is in play if it made an open version of some block; all others persisted or are not sent.
        let mut in_play: HashMap<u32, Vec<(usize, u32)>> = HashMap::new();
        for (i, o) in open.iter().enumerate() {
            for version in o.floor + 1..=o.newest {
                if let Some(write) = self.write_of(o.block, version) {
                    in_play.entry(write).or_default().push((i, version));
                }
            }
        }
        let mut need: HashMap<u64, u64> = HashMap::new();
        for block in 0..self.lbas.len() as u32 {
            // what is durable is found as well
            let newest = self.newest_at(block, cut);
            if newest > 0 && self.floor_at(block, cut) == newest {
                self.write_of(block, newest).map(|write| self.ask(&mut need, write));
            }
        }
        let mut found = Vec::new();
        loop {
            let chosen = open.iter().zip(choice.iter()).filter_map(|(o, v)| self.write_of(o.block, *v));
            found.clear();
            found.extend(chosen);
            let mut changed = false;
            for write in &found {
                changed |= self.ask(&mut need, *write);
            }
            for (write, places) in &in_play {
                let epochs = self.recording.writes[*write as usize].epochs;
                if !epochs.iter().flatten().any(|(s, e)| need.get(s).is_some_and(|n| e < n)) {
                    continue;
                }
                changed |= self.ask(&mut need, *write);
                for (i, version) in places {
                    changed |= choice[*i] < *version;
                    choice[*i] = choice[*i].max(*version);
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Notes that what comes before the write in its streams is needed.
    fn ask(&self, need: &mut HashMap<u64, u64>, write: u32) -> bool {
        let mut changed = false;
        for (stream, epoch) in self.recording.writes[write as usize].epochs.iter().flatten() {
            let needed = need.entry(*stream).or_default();
            changed |= epoch > needed;
            *needed = (*needed).max(*epoch);
        }
        changed
    }

    /// The blocks in which the state differs from the base image: address and contents.
    pub fn image(&self, state: &State) -> Vec<(u64, ContentId)> {
        let mut image = Vec::new();
        for (block, version) in self.held(state) {
            let content = self.content(block, version);
            let lba = self.lbas[block as usize];
            if version > 0 && content != self.recording.base_of(lba) {
                image.push((lba, content));
            }
        }
        image
    }

    /// A number that two states share if their images are equal.
    pub fn hash(&self, state: &State) -> u128 {
        let mut bytes = [0u8; 12];
        self.image(state).into_iter().fold(0, |hash, (lba, content)| {
            bytes[..8].copy_from_slice(&lba.to_le_bytes());
            bytes[8..].copy_from_slice(&content.0.to_le_bytes());
            hash ^ xxh3_128(&bytes)
        })
    }
}

/// The version an open block holds in a state.
pub(crate) fn version_in(state: &State, open: &Open) -> u32 {
    match state.lost.binary_search_by_key(&open.block, |(b, _)| *b) {
        Ok(i) => state.lost[i].1,
        Err(_) => open.newest,
    }
}

/// Follows the events and raises floors.
struct PersistenceTracker<'i> {
    index: &'i HashMap<u64, u32>,
    /// Completed writes that are not known to be durable.
    acked: Vec<u32>,
    /// Per flush under way: what had completed when it was submitted.
    covered: HashMap<u32, Vec<u32>>,
    /// Writes submitted so far.
    sent: u32,
}

impl<'i> PersistenceTracker<'i> {
    fn new(index: &'i HashMap<u64, u32>) -> PersistenceTracker<'i> {
        PersistenceTracker { index, acked: Vec::new(), covered: HashMap::new(), sent: 0 }
    }

    fn follow(mut self, history: &mut History<'_>) {
        let contract = history.contract;
        let recording = history.recording;
        for (at, event) in recording.events.iter().enumerate() {
            let raised = match *event {
                Event::Write(w) => {
                    self.sent = w + 1;
                    continue;
                }
                Event::WriteDone(w) => {
                    self.acked.push(w);
                    let write = &recording.writes[w as usize];
                    let durable =
                        write.fua && contract.flush_is_durable() || contract.plp && write.epochs[0].is_none();
                    if durable { vec![w] } else { continue }
                }
                Event::Flush(f) if contract.flush_is_durable() => {
                    self.covered.insert(f, self.acked.clone());
                    continue;
                }
                Event::FlushDone(f) => self.flushed(recording, f),
                _ => continue,
            };
            if self.raise(history, at + 1, &raised) {
                history.windows.push(at);
            }
        }
        history.windows.push(recording.events.len());
        history.windows.dedup();
    }

    fn flushed(&mut self, recording: &Recording, flush: u32) -> Vec<u32> {
        let Some(mut durable) = self.covered.remove(&flush) else { return Vec::new() };
        if let Some(stream) = recording.flushes[flush as usize].stream {
            durable.retain(|w| recording.writes[*w as usize].epochs[0].is_none());
            durable.extend(required(recording, self.sent, stream));
        }
        let gone: std::collections::HashSet<u32> = durable.iter().copied().collect();
        self.acked.retain(|w| !gone.contains(w));
        durable
    }

    /// Whether anything changed.
    fn raise(&self, history: &mut History<'_>, from: usize, writes: &[u32]) -> bool {
        let mut changed = false;
        for w in writes {
            let write = &history.recording.writes[*w as usize];
            for lba in write.lba..write.lba + write.contents.len() as u64 {
                let block = self.index[&lba];
                let Some(version) = history.version_by(block, *w) else { continue };
                let raises = &mut history.raises[block as usize];
                if raises.last().is_none_or(|(_, floor)| *floor < version) {
                    raises.push((from, version));
                    changed = true;
                }
            }
        }
        changed
    }
}

/// All of the first `sent` writes that must be durable if all before this epoch of this stream are:
/// transitive over writes with two streams.
fn required(recording: &Recording, sent: u32, top: (u64, u64)) -> Vec<u32> {
    let mut need = HashMap::from([top]);
    let mut taken = vec![false; sent as usize];
    loop {
        let mut more = false;
        for (w, taken) in taken.iter_mut().enumerate() {
            let epochs = recording.writes[w].epochs;
            let before = |(s, e): &(u64, u64)| need.get(s).is_some_and(|n| e < n);
            if *taken || !epochs.iter().flatten().any(before) {
                continue;
            }
            *taken = true;
            for (stream, epoch) in epochs.iter().flatten() {
                let needed = need.entry(*stream).or_default();
                more |= epoch > needed;
                *needed = (*needed).max(*epoch);
            }
        }
        if !more {
            return (0..sent).filter(|w| taken[*w as usize]).collect();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
