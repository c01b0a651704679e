//! Runs: parts of extents that a scan reads with one request each, some of them ahead of time.

use crate::error::{Error, Result};
use crate::extent_cache::BorrowedBytes;
use crate::message::ExtentSlice;
use crate::store::{CachePolicy, Store};
use std::sync::{Condvar, Mutex};

enum State {
    /// Nobody has begun to read.
    Wanted,
    Reading,
    Read(std::result::Result<BorrowedBytes, Error>),
}

/// Part of an extent, read once by whoever comes first: a prefetching thread or the scan.
pub(super) struct SharedRead {
    /// What is read.
    pub slice: ExtentSlice,
    state: Mutex<State>,
    ready: Condvar,
}

impl SharedRead {
    pub fn new(slice: ExtentSlice) -> Self {
        SharedRead { slice, state: Mutex::new(State::Wanted), ready: Condvar::new() }
    }

    /// A run that is in memory.
    pub fn read(slice: ExtentSlice, lent: BorrowedBytes) -> Self {
        SharedRead { slice, state: Mutex::new(State::Read(Ok(lent))), ready: Condvar::new() }
    }

    /// True if the run holds all of `slice`.
    pub fn covers(&self, slice: &ExtentSlice) -> bool {
        self.slice.extent.id() == slice.extent.id()
            && self.slice.off <= slice.off
            && slice.off + slice.len <= self.slice.off + self.slice.len
    }

    /// Reads the run unless somebody else has begun to.
    pub fn fetch(&self, store: &Store) {
        {
            let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
            if !matches!(*state, State::Wanted) {
                return;
            }
            *state = State::Reading;
        }
        // Should that panic, whoever waits reads by himself.
        let reading = Reading(self);
        let read = store.read_slice(&self.slice, CachePolicy::Caller);
        std::mem::forget(reading);
        self.end(State::Read(read));
    }

    fn end(&self, state: State) {
        *self.state.lock().unwrap_or_else(|e| e.into_inner()) = state;
        self.ready.notify_all();
    }

    /// The bytes of `slice`, which the run covers; an error is reported once and met again by reading again.
    pub fn bytes(&self, store: &Store, slice: &ExtentSlice) -> Result<BorrowedBytes> {
        self.fetch(store);
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        while matches!(*state, State::Reading) {
            state = self.ready.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        let there = match &*state {
            State::Read(Ok(bytes)) => bytes.part((slice.off - self.slice.off) as usize, slice.len as usize),
            _ => None,
        };
        drop(state);
        // Damage elsewhere in the run does not concern this slice.
        there.map_or_else(|| store.read_slice(slice, CachePolicy::Caller), Ok)
    }
}

/// Held by the thread that reads a run.
struct Reading<'a>(&'a SharedRead);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.end(State::Wanted);
    }
}
