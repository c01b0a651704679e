//! Records that wait to be written.
//!
//! They are kept in *chunks*, each of which becomes a frame. While records are *held*, nobody writes them of himself: what
//! becomes of their memtable may spare it (see [`Pending::replace`]). A chunk that is *ready* is held no longer.

use super::{BUFFER_BYTES, HEADER};
use crate::bytes::Bytes;
use crate::storage::round_up;
use std::collections::VecDeque;
use std::time::Instant;

/// Held records make chunks of so many bytes, so that no frame gets long.
const CHUNK_BYTES: usize = 4 * BUFFER_BYTES;

/// The record of a batch without changes.
const EMPTY: [u8; 2] = [0, 0];

/// Consecutive records as a frame has them, of which some parts lie elsewhere.
#[derive(Default)]
pub(super) struct Payload {
    /// What was copied, and how much of it comes before each of the parts in `shared`.
    copied: Vec<u8>,
    shared: Vec<(usize, Bytes)>,
    len: usize,
}

impl Payload {
    /// Adds what comes before a record of `len` bytes.
    fn begin_record(&mut self, len: usize) {
        self.put(&(len as u32).to_le_bytes());
    }

    /// Adds a copy of `bytes`.
    pub fn put(&mut self, bytes: &[u8]) {
        self.copied.extend_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Adds `bytes` where they are.
    pub fn share(&mut self, bytes: Bytes) {
        self.len += bytes.len();
        self.shared.push((self.copied.len(), bytes));
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that a frame of it takes in the ring.
    fn frame_bytes(&self) -> usize {
        round_up(HEADER + self.len)
    }

    /// Bytes of memory.
    fn memory(&self) -> usize {
        self.copied.capacity() + self.len - self.copied.len()
    }

    /// Everything, in order.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        let shared = self.shared.iter().flat_map(move |(before, bytes)| {
            let copied = &self.copied[at..*before];
            at = *before;
            [copied, bytes]
        });
        shared.chain([&self.copied[self.shared.last().map_or(0, |(before, _)| *before)..]])
    }

    /// Empties it; its memory stays.
    pub fn clear(&mut self) {
        self.copied.clear();
        self.shared.clear();
        self.len = 0;
    }
}

/// Consecutive records that become one frame.
#[derive(Default)]
pub(super) struct Chunk {
    /// Numbers of the first and the last record.
    pub first: u64,
    pub last: u64,
    pub payload: Payload,
    /// Some record refers to an extent that has not been flushed.
    pub binds: bool,
    /// Bytes of the batches in it, as they were written.
    pub stands_for: u64,
    /// When its first record came.
    since: Option<Instant>,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Pending {
    closed: VecDeque<Chunk>,
    /// So many of these are ready.
    ready: usize,
    /// What takes the next record.
    open: Chunk,
    /// Bytes of all.
    bytes: usize,
    /// Bytes that the closed ones take in the ring, where each begins a unit.
    closed_frames: usize,
    held: bool,
}

impl Pending {
    /// Adds the record of message `msn`, of `len` bytes, which `record` puts there.
    pub fn add(&mut self, msn: u64, len: usize, record: impl FnOnce(&mut Payload), binds: bool) {
        if self.open.payload.is_empty() {
            (self.open.first, self.open.since) = (msn, Some(Instant::now()));
        }
        let chunk = &mut self.open;
        chunk.payload.begin_record(len);
        record(&mut chunk.payload);
        chunk.binds |= binds;
        chunk.last = msn;
        chunk.stands_for += len as u64;
        self.bytes += len + 4;
        if self.held && chunk.payload.len() >= CHUNK_BYTES {
            self.close();
        }
    }

    /// No chunk has records of before and of after this moment.
    pub fn close(&mut self) {
        if !self.open.payload.is_empty() {
            self.closed_frames += self.open.payload.frame_bytes();
            self.closed.push_back(std::mem::take(&mut self.open));
        }
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that all take in the ring, with one more record of `len` bytes if there is one.
    pub fn frame_bytes(&self, len: Option<usize>) -> usize {
        let open = self.open.payload.len() + len.map_or(0, |len| len + 4);
        self.closed_frames + if open > 0 { round_up(HEADER + open) } else { 0 }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.open.payload.memory() + self.closed.iter().map(|c| c.payload.memory()).sum::<usize>()
    }

    /// True if nothing may be written as yet that is not ready.
    pub fn held(&self) -> bool {
        self.held
    }

    /// Holds what comes from now on.
    pub fn hold(&mut self) {
        if !self.held {
            self.close();
            self.ready = self.closed.len();
            self.held = true;
        }
    }

    /// Nothing is held any longer.
    pub fn release(&mut self) {
        if self.held {
            self.close();
            self.ready = self.closed.len();
            self.held = false;
        }
    }

    /// Since when the oldest record that is held waits.
    pub fn held_since(&self) -> Option<Instant> {
        self.held.then(|| self.closed.get(self.ready).unwrap_or(&self.open).since).flatten()
    }

    /// The last message that may be written now.
    pub fn last_ready(&self) -> Option<u64> {
        match self.ready.checked_sub(1) {
            _ if !self.held && !self.open.payload.is_empty() => Some(self.open.last),
            last => Some(self.closed.get(last?)?.last),
        }
    }

    /// True if somebody should write: something is ready that was held, or more than `ripe` bytes wait.
    pub fn is_ripe(&self, ripe: usize) -> bool {
        self.ready > 0 || !self.held && self.open.payload.len() >= ripe
    }

    /// True if all that waits makes one frame.
    pub fn is_one(&self) -> bool {
        self.closed.len() + usize::from(!self.open.payload.is_empty()) <= 1
    }

    /// Bytes that wait although they may be written.
    pub fn writable(&self) -> usize {
        if !self.held {
            return self.bytes;
        }
        self.closed.iter().take(self.ready).map(|c| c.payload.len()).sum()
    }

    /// Makes the oldest chunk that is held ready.
    pub fn free_oldest(&mut self) {
        self.ready = self.closed.len().min(self.ready + 1);
    }

    /// The held chunks that end with message `upto`, if they are there from the first of them on.
    fn held_upto(&self, upto: u64) -> Option<usize> {
        let n = self.closed.iter().skip(self.ready).take_while(|c| c.last <= upto).count();
        let last = self.closed.get((self.ready + n).checked_sub(1)?)?;
        (n > 0 && last.last == upto).then_some(n)
    }

    /// The number of the first record that [`Pending::replace`] would spare, and the bytes of all such records.
    pub fn replaceable(&self, upto: u64) -> Option<(u64, u64)> {
        let n = self.held_upto(upto)?;
        let chunks = || self.closed.iter().skip(self.ready).take(n);
        Some((chunks().next()?.first, chunks().map(|c| c.stands_for).sum()))
    }

    /// Puts one record in the place of all that are held up to message `upto`, and makes it ready; false if that was too late.
    ///
    /// It is the record of `upto`, and those of the messages before are empty: a recovery that begins between them applies it.
    pub fn replace(&mut self, upto: u64, record: &[u8]) -> bool {
        let Some(n) = self.held_upto(upto) else { return false };
        let replaced: Vec<Chunk> = self.closed.drain(self.ready..self.ready + n).collect();
        let first = replaced[0].first;
        let empty = (upto - first) as usize;
        let mut payload = Payload::default();
        for record in std::iter::repeat_n(&EMPTY[..], empty).chain([record]) {
            payload.begin_record(record.len());
            payload.put(record);
        }
        let sum = |bytes: fn(&Payload) -> usize| replaced.iter().map(|c| bytes(&c.payload)).sum::<usize>();
        self.bytes = self.bytes - sum(Payload::len) + payload.len();
        self.closed_frames = self.closed_frames - sum(Payload::frame_bytes) + payload.frame_bytes();
        let stands_for = replaced.iter().map(|c| c.stands_for).sum();
        let chunk = Chunk { first, last: upto, payload, binds: true, stands_for, since: replaced[0].since };
        self.closed.insert(self.ready, chunk);
        self.ready += 1;
        true
    }

    /// Makes ready what is held up to message `upto`.
    pub fn free(&mut self, upto: u64) {
        self.ready += self.closed.iter().skip(self.ready).take_while(|c| c.last <= upto).count();
    }

    /// Takes the next chunk to write.
    pub fn take(&mut self) -> Option<Chunk> {
        let chunk = if self.ready > 0 {
            self.ready -= 1;
            let chunk = self.closed.pop_front()?;
            self.closed_frames -= chunk.payload.frame_bytes();
            chunk
        } else if !self.held && !self.open.payload.is_empty() {
            std::mem::take(&mut self.open)
        } else {
            return None;
        };
        self.bytes -= chunk.payload.len();
        Some(chunk)
    }

    /// Gives back the memory of a chunk that has been written.
    pub fn give_back(&mut self, mut payload: Payload) {
        if self.open.payload.copied.capacity() == 0 && payload.copied.capacity() <= 2 * CHUNK_BYTES {
            payload.clear();
            self.open.payload = payload;
        }
    }
}
