//! Map persistence: a journal of map changes and checkpointed map segments, both on flash.
//!
//! Changes gather in DRAM; a journal page takes all of them at once and is programmed whole or not at
//! all, so that the recovered map is always a prefix of the installation order. When the journal is long,
//! segments of the map are copied out *as of the page being written* and programmed after it; once every
//! segment that a journal page touches has a newer image, the page is dropped.

use std::collections::VecDeque;

use crate::mutation::Mutation;

/// Map entries of one segment page (16 KiB of 4-byte entries).
pub(crate) const SEGMENT_ENTRIES: u32 = 4096;

/// `count` blocks from `lpn` on now map to `slot` (0 = unmapped, else slot + 1; count 1 unless 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) lpn: u32,
    pub(crate) count: u32,
    pub(crate) slot: u32,
}

/// A journal page: changes `first .. first + deltas.len()`.
#[derive(Debug, Default)]
struct Page {
    first: u64,
    deltas: Vec<Delta>,
}

#[derive(Debug, Clone)]
struct Image {
    /// Changes up to here (exclusive) are in it.
    upto: u64,
    entries: Box<[u32]>,
}

/// A segment copy on its way to flash.
#[derive(Debug)]
pub(crate) struct Snapshot {
    segment: u32,
    image: Image,
}

/// The metadata on flash.
#[derive(Debug, Default)]
struct Meta {
    pages: VecDeque<Page>,
    images: Vec<Option<Image>>,
}

#[derive(Debug)]
pub(crate) struct Journal {
    meta: Meta,
    /// Not yet in a page.
    open: Vec<Delta>,
    /// Number of the next change.
    next: u64,
    /// Changes below this are on flash.
    persisted: u64,
    writing: Option<Page>,
    snapshots: VecDeque<Snapshot>,
    segment_writing: bool,
    page_entries: usize,
    pages_max: usize,
    spare: Vec<Vec<Delta>>,
    pub(crate) mutation: Option<Mutation>,
    pub(crate) pages_written: u64,
    pub(crate) segments_written: u64,
}

impl Journal {
    pub(crate) fn new(logical: u32, page_entries: u32, pages_max: u32) -> Journal {
        let segments = logical.div_ceil(SEGMENT_ENTRIES) as usize;
        Journal {
            meta: Meta { pages: VecDeque::new(), images: vec![None; segments] },
            open: Vec::new(),
            next: 0,
            persisted: 0,
            writing: None,
            snapshots: VecDeque::new(),
            segment_writing: false,
            page_entries: page_entries as usize,
            pages_max: pages_max as usize,
            spare: Vec::new(),
            mutation: None,
            pages_written: 0,
            segments_written: 0,
        }
    }

    pub(crate) fn record(&mut self, delta: Delta) {
        self.open.push(delta);
        self.next += 1;
    }

    /// Number of the next change: a waiter for everything so far waits for `persisted() >= next()`.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn persisted(&self) -> u64 {
        self.persisted
    }

    /// Whether a page should be written now: none under way, and a full one or `forced` by a waiter.
    pub(crate) fn wants_page(&self, forced: bool) -> bool {
        self.writing.is_none() && !self.open.is_empty() && (forced || self.open.len() >= self.page_entries)
    }

    /// Begins a page with every open change; `dur` is the installed map as of now. Returns the number of
    /// page programs it takes. (More changes than one page holds still go out together: the model
    /// treats them as one atomic multi-page program, which takes as long as its pages in a row.)
    pub(crate) fn begin_page(&mut self, dur: &[u32]) -> u64 {
        let fresh = self.spare.pop().unwrap_or_default();
        let deltas = std::mem::replace(&mut self.open, fresh);
        let programs = deltas.len().div_ceil(self.page_entries) as u64;
        self.pages_written += programs;
        let first = self.next - deltas.len() as u64;
        if self.meta.pages.len() >= self.pages_max && self.snapshots.is_empty() && !self.segment_writing {
            self.take_snapshots(&deltas, dur);
        }
        self.writing = Some(Page { first, deltas });
        if self.mutation == Some(Mutation::SegmentAheadOfJournal) {
            self.apply_ahead();
        }
        programs
    }

    fn take_snapshots(&mut self, writing: &[Delta], dur: &[u32]) {
        let mut touched = vec![false; self.meta.images.len()];
        let old = self.meta.pages.iter().flat_map(|p| &p.deltas);
        for d in old.chain(writing) {
            let to = (d.lpn + d.count - 1) / SEGMENT_ENTRIES;
            touched[(d.lpn / SEGMENT_ENTRIES) as usize..=to as usize].fill(true);
        }
        for (segment, _) in touched.iter().enumerate().filter(|(_, t)| **t) {
            let from = segment * SEGMENT_ENTRIES as usize;
            let to = dur.len().min(from + SEGMENT_ENTRIES as usize);
            let image = Image { upto: self.next, entries: dur[from..to].into() };
            self.snapshots.push_back(Snapshot { segment: segment as u32, image });
        }
    }

    /// The planted bug: the first snapshot reaches flash before its journal page.
    fn apply_ahead(&mut self) {
        if let Some(s) = self.snapshots.pop_front() {
            self.finish_segment(s);
        }
    }

    pub(crate) fn finish_page(&mut self) {
        if let Some(page) = self.writing.take() {
            self.persisted = page.first + page.deltas.len() as u64;
            self.meta.pages.push_back(page);
        }
    }

    /// The next segment to program, once the page it goes with is on flash.
    pub(crate) fn begin_segment(&mut self) -> Option<Snapshot> {
        let next = self.snapshots.front()?;
        if self.segment_writing || next.image.upto > self.persisted {
            return None;
        }
        self.segment_writing = true;
        self.segments_written += 1;
        self.snapshots.pop_front()
    }

    pub(crate) fn finish_segment(&mut self, s: Snapshot) {
        self.segment_writing = false;
        self.meta.images[s.segment as usize] = Some(s.image);
        if self.snapshots.is_empty() {
            self.trim();
        }
    }

    /// Drops journal pages whose every change is in a segment image.
    fn trim(&mut self) {
        while let Some(page) = self.meta.pages.front() {
            let end = page.first + page.deltas.len() as u64;
            let covered = page.deltas.iter().all(|d| {
                let to = (d.lpn + d.count - 1) / SEGMENT_ENTRIES;
                (d.lpn / SEGMENT_ENTRIES..=to)
                    .all(|s| self.meta.images[s as usize].as_ref().is_some_and(|i| i.upto >= end))
            });
            if !covered {
                return;
            }
            if let Some(mut page) = self.meta.pages.pop_front() {
                page.deltas.clear();
                if self.spare.len() < 4 {
                    self.spare.push(page.deltas);
                }
            }
        }
    }

    /// Power-loss protection: all changes reach flash.
    pub(crate) fn persist_all(&mut self) {
        self.finish_page();
        let deltas = std::mem::take(&mut self.open);
        if !deltas.is_empty() {
            self.meta.pages.push_back(Page { first: self.next - deltas.len() as u64, deltas });
        }
        self.persisted = self.next;
    }

    /// Power is gone: what is not on flash is forgotten. `page_made_it` = the page under way is whole.
    pub(crate) fn power_loss(&mut self, page_made_it: bool) {
        if page_made_it {
            self.finish_page();
        }
        self.writing = None;
        self.open.clear();
        self.snapshots.clear();
        self.segment_writing = false;
        self.next = self.persisted;
    }

    /// The map on flash: images, then the journal over them. Also the number of flash pages read.
    pub(crate) fn replay(&self, logical: u32) -> (Vec<u32>, u64) {
        let mut dur = vec![0u32; logical as usize];
        let mut reads = 0;
        if self.mutation == Some(Mutation::NoRecovery) {
            return (dur, reads);
        }
        for (segment, image) in self.meta.images.iter().enumerate() {
            if let Some(image) = image {
                let from = segment * SEGMENT_ENTRIES as usize;
                dur[from..from + image.entries.len()].copy_from_slice(&image.entries);
                reads += 1;
            }
        }
        for page in &self.meta.pages {
            reads += page.deltas.len().div_ceil(self.page_entries) as u64;
            for (i, d) in page.deltas.iter().enumerate() {
                let number = page.first + i as u64;
                for lpn in d.lpn..d.lpn + d.count {
                    let image = &self.meta.images[(lpn / SEGMENT_ENTRIES) as usize];
                    if image.as_ref().is_none_or(|im| number >= im.upto) {
                        dur[lpn as usize] = d.slot;
                    }
                }
            }
        }
        (dur, reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    /// Random changes with power cuts at every step: the replayed map is the map as it was when the last
    /// whole page began.
    #[test]
    fn replay_is_the_map_of_the_last_whole_page() {
        for seed in 0..40 {
            let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
            let logical = 3 * SEGMENT_ENTRIES + 17;
            let mut j = Journal::new(logical, 8, 3);
            let mut dur = vec![0u32; logical as usize];
            let mut persisted = dur.clone();
            let mut page_map = dur.clone();
            let mut segment = None;
            for _ in 0..600 {
                match rng.random_range(0..10) {
                    0..=4 => {
                        let lpn = rng.random_range(0..logical);
                        let (count, slot) = if rng.random_bool(0.1) {
                            (rng.random_range(1..=(logical - lpn).min(6000)), 0)
                        } else {
                            (1, rng.random_range(1..1000))
                        };
                        dur[lpn as usize..(lpn + count) as usize].fill(slot);
                        j.record(Delta { lpn, count, slot });
                    }
                    5 if j.wants_page(rng.random_bool(0.5)) => {
                        j.begin_page(&dur);
                        page_map.clone_from(&dur);
                    }
                    6 if j.writing.is_some() => {
                        j.finish_page();
                        persisted.clone_from(&page_map);
                    }
                    7 if segment.is_none() => segment = j.begin_segment(),
                    8 => {
                        if let Some(s) = segment.take() {
                            j.finish_segment(s);
                        }
                    }
                    9 if rng.random_bool(0.1) => {
                        let whole = j.writing.is_some() && rng.random_bool(0.5);
                        if whole {
                            persisted.clone_from(&page_map);
                        }
                        j.power_loss(whole);
                        segment = None;
                        dur = j.replay(logical).0;
                        assert!(dur == persisted, "seed {seed}");
                    }
                    _ => {}
                }
            }
            assert!(j.replay(logical).0 == persisted, "seed {seed}");
            assert!(j.meta.pages.len() < 60, "seed {seed}: the journal is trimmed");
        }
    }
}
