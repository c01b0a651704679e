//! What a device was asked from a known image on: writes, flushes, completions, marks; bytes kept once.

use std::collections::{BTreeMap, HashMap};

use xxhash_rust::xxh3::xxh3_128;

/// Bytes of a block: the unit that a power cut keeps or loses whole (sectors within it never tear).
pub const BLOCK: usize = 4096;

/// The bytes of one block, by number. Equal bytes have equal numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(pub u32);

impl ContentId {
    /// A block of zeroes.
    pub const ZERO: ContentId = ContentId(0);
}

/// Every block of bytes that was seen, once.
#[derive(Clone, Debug)]
pub struct Contents {
    blocks: Vec<Box<[u8]>>,
    by_hash: HashMap<u128, ContentId>,
}

impl Default for Contents {
    fn default() -> Contents {
        let mut contents = Contents { blocks: Vec::new(), by_hash: HashMap::new() };
        contents.intern(&[0; BLOCK]);
        contents
    }
}

impl Contents {
    /// The number of these bytes: one block.
    pub fn intern(&mut self, block: &[u8]) -> ContentId {
        let next = ContentId(self.blocks.len() as u32);
        let id = *self.by_hash.entry(xxh3_128(block)).or_insert(next);
        if id == next {
            self.blocks.push(block.into());
        }
        id
    }

    /// The bytes.
    pub fn get(&self, id: ContentId) -> &[u8] {
        &self.blocks[id.0 as usize]
    }

    /// How many different blocks there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Never: the block of zeroes is always there.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

/// An order that a write keeps: (stream, epoch), major and minor.
pub type Epochs = [Option<(u64, u64)>; 2];

/// A write, discard or write of zeroes.
#[derive(Clone, Debug)]
pub struct Write {
    /// The device's number of the request.
    pub id: u64,
    /// First block.
    pub lba: u64,
    /// What each block holds afterwards.
    pub contents: Vec<ContentId>,
    /// Force unit access: durable when completed.
    pub fua: bool,
    /// Order; none on a conventional device.
    pub epochs: Epochs,
    /// Position of its submission among the events.
    pub submitted: usize,
    /// Position of its completion.
    pub completed: Option<usize>,
}

/// A flush.
#[derive(Clone, Debug)]
pub struct Flush {
    /// The device's number of the request.
    pub id: u64,
    /// With a stream: covers the earlier epochs of that stream, and writes without one.
    pub stream: Option<(u64, u64)>,
    /// Position of its submission.
    pub submitted: usize,
    /// Position of its completion.
    pub completed: Option<usize>,
}

/// What the workload did, as the driver marked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The operation of this number is about to begin.
    Begin(usize),
    /// It has returned; of a user's program, the mark of this number was passed.
    Return(usize),
}

/// One event; the numbers are indices into the recording's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A write was submitted.
    Write(u32),
    /// A write has completed.
    WriteDone(u32),
    /// A flush was submitted.
    Flush(u32),
    /// A flush has completed.
    FlushDone(u32),
    /// The workload's progress.
    Mark(Mark),
}

/// A base image and what happened after it.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Capacity in blocks.
    pub blocks: u64,
    /// The image before the first event: blocks that are not zeroes.
    pub base: BTreeMap<u64, ContentId>,
    /// Bytes.
    pub contents: Contents,
    /// Events in order.
    pub events: Vec<Event>,
    /// Writes in order of submission.
    pub writes: Vec<Write>,
    /// Flushes in order of submission.
    pub flushes: Vec<Flush>,
    /// How far the workload was before the first event.
    pub base_progress: Progress,
}

impl Recording {
    /// An empty recording of an empty device.
    pub fn new(blocks: u64) -> Recording {
        Recording { blocks, ..Recording::default() }
    }

    /// What the base image holds in a block.
    pub fn base_of(&self, lba: u64) -> ContentId {
        self.base.get(&lba).copied().unwrap_or_default()
    }

    /// A write is submitted; its index. Blocks beyond the end of the device are cut off.
    pub fn write(
        &mut self,
        id: u64,
        lba: u64,
        mut contents: Vec<ContentId>,
        fua: bool,
        epochs: Epochs,
    ) -> u32 {
        let index = self.writes.len() as u32;
        contents.truncate(usize::try_from(self.blocks.saturating_sub(lba)).unwrap_or(usize::MAX));
        let submitted = self.events.len();
        self.writes.push(Write { id, lba, contents, fua, epochs, submitted, completed: None });
        self.events.push(Event::Write(index));
        index
    }

    /// A write has completed.
    pub fn write_done(&mut self, index: u32) {
        self.writes[index as usize].completed = Some(self.events.len());
        self.events.push(Event::WriteDone(index));
    }

    /// A flush is submitted; its index.
    pub fn flush(&mut self, id: u64, stream: Option<(u64, u64)>) -> u32 {
        let index = self.flushes.len() as u32;
        let submitted = self.events.len();
        self.flushes.push(Flush { id, stream, submitted, completed: None });
        self.events.push(Event::Flush(index));
        index
    }

    /// A flush has completed.
    pub fn flush_done(&mut self, index: u32) {
        self.flushes[index as usize].completed = Some(self.events.len());
        self.events.push(Event::FlushDone(index));
    }

    /// The workload's progress.
    pub fn mark(&mut self, mark: Mark) {
        self.events.push(Event::Mark(mark));
    }

    /// How far the workload was when `events` events had happened: operations begun, operations returned.
    pub fn progress_at(&self, events: usize) -> Progress {
        let mut progress = self.base_progress;
        for event in &self.events[..events.min(self.events.len())] {
            match event {
                Event::Mark(Mark::Begin(op)) => progress.begun = progress.begun.max(op + 1),
                Event::Mark(Mark::Return(op)) => progress.returned = progress.returned.max(op + 1),
                _ => {}
            }
        }
        progress
    }
}

/// How far a workload was: one operation after the other, so at most one has begun and not returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Operations that had begun.
    pub begun: usize,
    /// Of these, operations that had returned.
    pub returned: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_have_one_number() {
        let mut contents = Contents::default();
        assert_eq!(contents.intern(&[0; BLOCK]), ContentId::ZERO);
        let a = contents.intern(&[1; BLOCK]);
        let b = contents.intern(&[2; BLOCK]);
        assert_eq!((contents.intern(&[1; BLOCK]), contents.len()), (a, 3));
        assert!(a != b && contents.get(b)[17] == 2);
    }

    #[test]
    fn progress_counts_marks_before_the_cut() {
        let mut r = Recording::new(4);
        for op in 0..2 {
            r.mark(Mark::Begin(op));
            let w = r.write(op as u64, 0, vec![ContentId(0)], false, [None; 2]);
            r.write_done(w);
            r.mark(Mark::Return(op));
        }
        let at = |events| {
            let p = r.progress_at(events);
            (p.begun, p.returned)
        };
        assert_eq!(
            [at(0), at(1), at(3), at(4), at(5), at(99)],
            [(0, 0), (1, 0), (1, 0), (1, 1), (2, 1), (2, 2)]
        );
        assert_eq!((r.writes[1].submitted, r.writes[1].completed), (5, Some(6)));
    }

    #[test]
    fn a_write_ends_with_the_device() {
        let mut r = Recording::new(4);
        r.write(1, 3, vec![ContentId(0); 3], false, [None; 2]);
        r.write(2, 9, vec![ContentId(0)], false, [None; 2]);
        assert_eq!((r.writes[0].contents.len(), r.writes[1].contents.len()), (1, 0));
    }
}
