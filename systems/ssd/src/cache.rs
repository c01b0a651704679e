//! The volatile write cache: versions on their way to flash.

use std::collections::VecDeque;

use crate::command::Token;
use crate::order::Resolved;

/// No entry, no command.
pub(crate) const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    /// In the buffer only.
    Dirty,
    /// Its program is under way.
    Issued,
    /// On flash, waiting for earlier epochs; no longer in the buffer.
    Waiting,
}

/// One version of one block (or one discarded range, which needs no flash).
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) state: State,
    /// Power-protected and in order: a power cut keeps it.
    pub(crate) committed: bool,
    pub(crate) is_trim: bool,
    pub(crate) lpn: u32,
    pub(crate) count: u32,
    pub(crate) token: Token,
    /// Arrival number: of two versions of a block the higher one is the newer.
    pub(crate) seq: u64,
    pub(crate) tags: Resolved,
    pub(crate) ticket: u64,
    /// In-flight command that completes when this is durable.
    pub(crate) fua: u32,
    /// Where it is, once programmed.
    pub(crate) slot: u32,
}

#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) entries: Vec<Entry>,
    free: Vec<u32>,
    dirty: VecDeque<u32>,
    urgent: VecDeque<u32>,
    /// Entries that occupy the buffer.
    pub(crate) used: u32,
    pub(crate) capacity: u32,
    /// Entries on flash that wait for earlier epochs.
    pub(crate) waiting: u32,
    /// Power-protected buffers whose turn has not come.
    pub(crate) uncommitted: u32,
}

impl Cache {
    pub(crate) fn new(capacity: u32) -> Cache {
        Cache {
            entries: Vec::new(),
            free: Vec::new(),
            dirty: VecDeque::new(),
            urgent: VecDeque::new(),
            used: 0,
            capacity,
            waiting: 0,
            uncommitted: 0,
        }
    }

    pub(crate) fn get(&self, id: u32) -> &Entry {
        &self.entries[id as usize]
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Entry {
        &mut self.entries[id as usize]
    }

    /// Adds an entry; data occupies a buffer, a trim does not.
    pub(crate) fn add(&mut self, entry: Entry) -> u32 {
        self.used += u32::from(!entry.is_trim);
        match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        }
    }

    pub(crate) fn release(&mut self, id: u32) {
        let e = &mut self.entries[id as usize];
        debug_assert!(e.state != State::Free);
        match e.state {
            State::Waiting => self.waiting -= 1,
            _ if !e.is_trim => self.used -= 1,
            _ => {}
        }
        e.state = State::Free;
        self.free.push(id);
    }

    /// The buffer of a programmed entry is free; the version waits on flash.
    pub(crate) fn suspend(&mut self, id: u32) {
        let e = &mut self.entries[id as usize];
        if !e.is_trim {
            self.used -= 1;
        }
        self.waiting += 1;
        e.state = State::Waiting;
    }

    pub(crate) fn push_dirty(&mut self, id: u32, urgent: bool) {
        if urgent { self.urgent.push_back(id) } else { self.dirty.push_back(id) }
    }

    pub(crate) fn urgent(&self) -> usize {
        self.urgent.len()
    }

    pub(crate) fn dirty(&self) -> usize {
        self.dirty.len() + self.urgent.len()
    }

    /// Ticket of the entry to be drained next.
    pub(crate) fn first_dirty(&self) -> Option<&Entry> {
        self.dirty.front().map(|id| self.get(*id))
    }

    /// Takes up to `n` dirty entries, urgent ones first.
    pub(crate) fn take(&mut self, n: u32, out: &mut Vec<u32>) {
        while out.len() < n as usize {
            let Some(id) = self.urgent.pop_front().or_else(|| self.dirty.pop_front()) else { break };
            self.entries[id as usize].state = State::Issued;
            out.push(id);
        }
    }

    /// Takes the entry nearest after `head` among the oldest `window`: a disk's elevator.
    pub(crate) fn take_nearest(&mut self, head: u64, window: usize, out: &mut Vec<u32>) {
        if !self.urgent.is_empty() {
            return self.take(1, out);
        }
        let best = self.dirty.iter().take(window).enumerate().min_by_key(|(_, id)| {
            let lpn = u64::from(self.get(**id).lpn);
            lpn.wrapping_sub(head)
        });
        if let Some(id) = best.map(|(i, _)| i).and_then(|i| self.dirty.remove(i)) {
            self.entries[id as usize].state = State::Issued;
            out.push(id);
        }
    }
}
