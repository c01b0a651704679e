//! Scans.

use super::background::Prefetch;
use super::inner::{Frozen, Inner, View};
use super::run::SharedRead;
use crate::buffer::Buffer;
use crate::bytes::Bytes;
use crate::error::Result;
use crate::extent_cache::BorrowedBytes;
use crate::key::{End, Key, KeyRange};
use crate::message::{Base, ExtentSlice, Op, Value};
use crate::store::{CachePolicy, SLICE_GAP_MAX};
use std::collections::VecDeque;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Messages of the memtable that a scan copies; if there are more in its range, the memtable is frozen instead.
const COPY_MAX: usize = 1024;
/// Most bytes of an extent read at once for a scan.
const EXTENT_READ_MAX: u32 = 1 << 20;
/// Runs read ahead of the one in use.
const RUNS_AHEAD: usize = 3;

/// An iterator over the key-value pairs of a range, in key order; see [`super::Db::scan`]. Ends after an error.
pub struct Cursor {
    inner: Arc<Inner>,
    view: Arc<View>,
    active: Buffer,
    window: KeyRange,
    queue: VecDeque<(Key, Op)>,
    chunks: u64,
    leaf_end: Option<End>,
    prefetch: Option<Prefetch>,
    /// The part of an extent in use, and those that are read ahead.
    runs: VecDeque<Arc<SharedRead>>,
    failed: bool,
}

impl Cursor {
    pub(super) fn new(inner: &Arc<Inner>, range: &KeyRange, prefetch: Option<Prefetch>) -> Self {
        let (view, active) = loop {
            let front = inner.read_front();
            if let Some(active) = front.active.slice(range, COPY_MAX) {
                break (front.view.clone(), active);
            }
            drop(front);
            inner.freeze();
            inner.progress.notify_all();
        };
        Cursor {
            inner: inner.clone(),
            view,
            active,
            window: range.clone(),
            queue: VecDeque::new(),
            chunks: 0,
            leaf_end: None,
            prefetch,
            runs: VecDeque::new(),
            failed: false,
        }
    }

    /// Fills the queue with the next entries; false at the end of the range.
    fn refill(&mut self) -> Result<bool> {
        while self.queue.is_empty() {
            if self.window.is_empty() {
                return Ok(false);
            }
            // The first chunk may be all that is wanted; from the second on, read ahead.
            let ahead = self.chunks > 0;
            let chunk = self.inner.store.chunk(&self.view.root, &self.window, ahead)?;
            self.chunks += 1;
            if ahead && self.leaf_end.as_ref() != Some(&chunk.leaf_end) {
                self.read_ahead(&chunk.leaf_end);
                self.leaf_end = Some(chunk.leaf_end);
            }
            let covered = KeyRange { lo: self.window.lo.clone(), hi: chunk.upto.clone() };
            let mut entries = chunk.entries;
            let frozen = self.view.frozen.iter().map(Frozen::buffer);
            for layer in frozen.chain([&self.active]) {
                let pending = layer.slice(&covered);
                if !pending.is_empty() {
                    entries = pending.apply_to(&entries);
                }
            }
            self.queue = entries.into();
            match chunk.upto {
                End::At(next) => self.window.lo = next,
                End::Open => self.window.hi = End::At(self.window.lo.clone()),
            }
        }
        Ok(true)
    }

    /// Has the leaf that begins at `end` loaded in the background.
    fn read_ahead(&self, end: &End) {
        if let (Some(prefetch), End::At(lo)) = (&self.prefetch, end)
            && self.window.hi.is_after(lo)
        {
            prefetch.ask(&self.view.root, KeyRange { lo: lo.clone(), hi: self.window.hi.clone() });
        }
    }

    fn value(&mut self, op: &Op) -> Result<Option<FoundValue>> {
        let plain = op.edits.is_none() && op.older.is_none();
        let slice = match &op.base {
            Base::Value(Value::Inline(bytes)) if plain => return Ok(Some(FoundValue::There(bytes.clone()))),
            Base::Value(Value::Slice(slice)) => slice,
            _ => return Ok(self.inner.store.value_of(op, CachePolicy::Caller)?.map(FoundValue::Own)),
        };
        let bytes = self.slice(slice)?;
        if plain {
            return Ok(Some(FoundValue::Lent(bytes)));
        }
        let store = &self.inner.store;
        let edits = store
            .edits_of(op, |s| store.read_slice(s, CachePolicy::Caller).map(|lent| Bytes::from(&lent[..])))?;
        let bytes = Some(bytes.to_vec());
        let whole = match edits {
            Some(edits) => edits.apply(bytes),
            None => bytes,
        };
        Ok(whole.map(FoundValue::Own))
    }

    /// The bytes of a slice; what the queue needs of the same extent is read with it, and the next runs ahead of time.
    fn slice(&mut self, slice: &ExtentSlice) -> Result<BorrowedBytes> {
        let at = self.runs.iter().position(|run| run.covers(slice));
        match at {
            Some(i) => _ = self.runs.drain(..i),
            None => {
                self.runs.clear();
                let run = self.run_from(slice, 0).0;
                self.runs.push_back(Arc::new(SharedRead::new(run)));
            }
        }
        self.ask_for_runs();
        match self.runs.front() {
            Some(run) => run.bytes(&self.inner.store, slice),
            None => self.inner.store.read_slice(slice, CachePolicy::Caller),
        }
    }

    /// What is worth reading together with `slice`, given the queue from index `at` on; and the index behind it.
    fn run_from(&self, slice: &ExtentSlice, mut at: usize) -> (ExtentSlice, usize) {
        let (id, from) = (slice.extent.id(), slice.off);
        let mut upto = slice.off + slice.len;
        for (_, op) in self.queue.iter().skip(at) {
            if let Base::Value(Value::Slice(next)) = &op.base {
                let end = next.off + next.len;
                if next.extent.id() != id
                    || next.off < from
                    || next.off > upto + SLICE_GAP_MAX
                    || end - from > EXTENT_READ_MAX
                {
                    break;
                }
                upto = upto.max(end);
            }
            at += 1;
        }
        (ExtentSlice { extent: slice.extent.clone(), off: from, len: upto - from }, at)
    }

    /// Has the runs that follow the ones at hand read by other threads.
    fn ask_for_runs(&mut self) {
        let Some(prefetch) = &self.prefetch else { return };
        if self.runs.len() > 1 {
            return;
        }
        let mut at = 0;
        while self.runs.len() <= RUNS_AHEAD {
            let next = self.queue.iter().enumerate().skip(at).find_map(|(i, (_, op))| match &op.base {
                Base::Value(Value::Slice(s)) if !self.runs.iter().any(|run| run.covers(s)) => Some((i, s)),
                _ => None,
            });
            let Some((i, slice)) = next else { return };
            let (run, end) = self.run_from(slice, i);
            at = end;
            let run = match self.inner.store.at_hand(&run, CachePolicy::Caller) {
                Some(lent) => Arc::new(SharedRead::read(run, lent)),
                None => {
                    let run = Arc::new(SharedRead::new(run));
                    prefetch.ask_run(&run);
                    run
                }
            };
            self.runs.push_back(run);
        }
    }
}

impl Inner {
    /// The keys in `range`, or `None` if they have more than `bytes_max` bytes. The caller keeps writers away.
    pub(super) fn keys(&self, range: &KeyRange, bytes_max: usize) -> Result<Option<Vec<Key>>> {
        let (view, active) = {
            let front = self.read_front();
            (front.view.clone(), front.active.slice(range, usize::MAX).unwrap_or_default())
        };
        let mut window = range.clone();
        let (mut keys, mut bytes) = (Vec::new(), 0);
        while !window.is_empty() {
            let chunk = self.store.chunk(&view.root, &window, true)?;
            let covered = KeyRange { lo: window.lo.clone(), hi: chunk.upto.clone() };
            let frozen = view.frozen.iter().map(Frozen::buffer);
            let layers = frozen.chain([&active]).map(|layer| layer.slice(&covered));
            let entries = layers.fold(chunk.entries, |entries, layer| layer.apply_to(&entries));
            bytes += entries.iter().map(|(k, _)| k.len() + 8).sum::<usize>();
            if bytes > bytes_max {
                return Ok(None);
            }
            keys.extend(entries.into_iter().map(|(k, _)| k));
            match chunk.upto {
                End::At(next) => window.lo = next,
                End::Open => break,
            }
        }
        Ok(Some(keys))
    }
}

/// A value that was found, where it is.
enum FoundValue {
    There(Bytes),
    Lent(BorrowedBytes),
    Own(Vec<u8>),
}

impl Deref for FoundValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            FoundValue::There(bytes) => bytes,
            FoundValue::Lent(lent) => lent,
            FoundValue::Own(bytes) => bytes,
        }
    }
}

impl Cursor {
    /// Shows the next pair to `each`: what [`Iterator::next`] does, without a copy. `None` at the end and after an error.
    pub fn visit(&mut self, each: impl FnOnce(&[u8], &[u8])) -> Option<Result<()>> {
        Some(self.step()?.map(|(key, value)| each(&key, &value)))
    }

    /// The next key: what [`Iterator::next`] gives of it, without reading its value where that is in an extent.
    pub fn next_key(&mut self) -> Option<Result<Key>> {
        let pair = self.step_by(|cursor, op| match op.base {
            Base::Value(_) => Ok(Some(())),
            _ => Ok(cursor.value(op)?.map(|_| ())),
        });
        Some(pair?.map(|(key, ())| key))
    }

    fn step(&mut self) -> Option<Result<(Key, FoundValue)>> {
        self.step_by(|cursor, op| cursor.value(op))
    }

    /// The next key of which `show` shows something. A panic fails the store.
    fn step_by<T>(
        &mut self,
        show: impl FnMut(&mut Cursor, &Op) -> Result<Option<T>>,
    ) -> Option<Result<(Key, T)>> {
        let found = catch_unwind(AssertUnwindSafe(|| self.find_next(show)));
        found.unwrap_or_else(|panic| self.inner.guarded(|_| resume_unwind(panic)))
    }

    fn find_next<T>(
        &mut self,
        mut show: impl FnMut(&mut Cursor, &Op) -> Result<Option<T>>,
    ) -> Option<Result<(Key, T)>> {
        while !self.failed {
            match self.refill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => {
                    self.failed = true;
                    return Some(Err(e));
                }
            }
            let (key, op) = self.queue.pop_front()?;
            match show(self, &op) {
                Ok(Some(shown)) => return Some(Ok((key, shown))),
                Ok(None) => {}
                Err(e) => {
                    self.failed = true;
                    return Some(Err(e));
                }
            }
        }
        None
    }
}

impl Iterator for Cursor {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = |(key, value): (Key, FoundValue)| match value {
            FoundValue::Own(value) => (key.to_vec(), value),
            value => (key.to_vec(), value.to_vec()),
        };
        Some(self.step()?.map(pair))
    }
}
