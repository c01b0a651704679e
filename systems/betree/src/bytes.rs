//! Byte strings that share their memory: parts of chunks that are filled once and never change.
//!
//! A node has thousands of keys and values. One allocation for each would cost more than all that is done with them,
//! so those of a node, and of a memtable, lie in few chunks; a [`Bytes`] is a place in one and keeps it alive. Whoever
//! keeps a few of many for long must copy them ([`Bytes::detached`], [`Arena`]), or they keep the rest.

use crate::mapping::{MAPPED_MIN, Mapping};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex};

/// An [`Arena`] begins with a chunk of this many bytes; each further one is twice as large.
const CHUNK_MIN: usize = 1 << 10;
/// Up to this.
const CHUNK_MAX: usize = 256 << 10;

/// Bytes of such chunks that are kept for use again: those of a memtable.
const SPARE_BYTES_MAX: usize = 32 << 20;
/// A chunk used again may be larger than wanted by this part of it.
const SPARE_LOSS: usize = 8;

/// Memory that an [`Arena`] fills from its start on.
struct Chunk {
    start: NonNull<u8>,
    size: usize,
    mapped: Option<Mapping>,
}

/// Mappings that wait to be used again, the oldest first.
static SPARE: Mutex<VecDeque<Mapping>> = Mutex::new(VecDeque::new());

/// A mapping of `size` bytes or a little more. Chunks come and go by the hundred with each memtable.
fn mapping(size: usize) -> Option<Mapping> {
    {
        let mut spare = SPARE.lock().unwrap_or_else(|e| e.into_inner());
        let fits = |m: &Mapping| m.size() >= size && m.size() - size <= size / SPARE_LOSS;
        if let Some(at) = spare.iter().position(fits) {
            return spare.swap_remove_back(at);
        }
    }
    Mapping::new(size)
}

/// Keeps a mapping for use again; what is too much then goes, the oldest first.
fn give_back(mapping: Mapping) {
    let mut gone = Vec::new();
    let mut spare = SPARE.lock().unwrap_or_else(|e| e.into_inner());
    spare.push_back(mapping);
    let mut bytes: usize = spare.iter().map(Mapping::size).sum();
    while bytes > SPARE_BYTES_MAX {
        let Some(oldest) = spare.pop_front() else { break };
        bytes -= oldest.size();
        gone.push(oldest);
    }
    // The kernel takes its time: not under the lock.
    drop(spare);
    drop(gone);
}

// SAFETY: a chunk is plain memory. Only the arena that made it writes to it, and only where no `Bytes` reads (see
// `Arena::add`); `Bytes` read it, and whatever passes one to another thread orders the write before the read.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn new(size: usize) -> Chunk {
        if size >= MAPPED_MIN
            && let Some(mapping) = mapping(size)
        {
            return Chunk { start: mapping.start(), size, mapped: Some(mapping) };
        }
        let memory: Box<[MaybeUninit<u8>]> = Box::new_uninit_slice(size);
        let start = NonNull::from(Box::leak(memory)).cast();
        Chunk { start, size, mapped: None }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(mapping) = self.mapped.take() {
            return give_back(mapping);
        }
        let memory = ptr::slice_from_raw_parts_mut(self.start.as_ptr().cast::<MaybeUninit<u8>>(), self.size);
        // SAFETY: the memory is a leaked box of this size (of bytes that need no dropping), and nobody refers to it
        // any more.
        drop(unsafe { Box::from_raw(memory) });
    }
}

/// An immutable byte string, cheap to clone. Compares as `memcmp` does, a prefix before its extensions.
#[derive(Clone, Default)]
pub struct Bytes {
    /// None for the empty string.
    chunk: Option<Arc<Chunk>>,
    off: u32,
    len: u32,
}

impl Bytes {
    /// The same bytes in memory of their own.
    pub fn detached(&self) -> Bytes {
        Bytes::from(&self[..])
    }

    /// The place of `part`, a slice of this very string, which it shares. Panics if it is none.
    pub fn place_of(&self, part: &[u8]) -> Bytes {
        if part.is_empty() {
            return Bytes::default();
        }
        let at = (part.as_ptr() as usize).wrapping_sub(self.as_ptr() as usize);
        assert!(at <= self.len() && part.len() <= self.len() - at, "not a part of the string");
        Bytes { chunk: self.chunk.clone(), off: self.off + at as u32, len: part.len() as u32 }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let Some(chunk) = &self.chunk else { return &[] };
        // SAFETY: these bytes lie in the chunk and were written before this was made, by `Arena::add` or as a
        // vector; nothing writes to them afterwards (see `Arena::rewind`), and the chunk lives as long as `self`.
        unsafe { std::slice::from_raw_parts(chunk.start.as_ptr().add(self.off as usize), self.len as usize) }
    }
}

/// How far an [`Arena`] was filled.
pub(crate) struct Mark {
    chunk: *const Chunk,
    used: usize,
}

/// Makes [`Bytes`] that lie side by side.
#[derive(Default)]
pub struct Arena {
    chunk: Option<Arc<Chunk>>,
    /// Bytes of `chunk` that are taken.
    used: usize,
    /// Bytes of all chunks.
    memory: usize,
}

impl Arena {
    /// One chunk that takes `bytes` bytes without another.
    pub fn with_capacity(bytes: usize) -> Arena {
        let mut arena = Arena::default();
        if bytes > 0 {
            arena.grow(bytes.min(u32::MAX as usize));
        }
        arena
    }

    /// Bytes of all chunks made so far.
    pub fn memory(&self) -> usize {
        self.memory
    }

    fn grow(&mut self, size: usize) {
        self.chunk = Some(Arc::new(Chunk::new(size)));
        self.used = 0;
        self.memory += size;
    }

    /// What [`Arena::rewind`] goes back to.
    pub(crate) fn mark(&self) -> Mark {
        Mark { chunk: self.chunk.as_ref().map_or(ptr::null(), Arc::as_ptr), used: self.used }
    }

    /// Takes the space of everything added since `mark` back, unless a chunk was begun meanwhile.
    ///
    /// # Safety
    /// Every [`Bytes`] that this arena has made since must be gone.
    pub(crate) unsafe fn rewind(&mut self, mark: Mark) {
        if self.chunk.as_ref().is_some_and(|c| ptr::eq(Arc::as_ptr(c), mark.chunk)) {
            self.used = mark.used;
        }
    }

    /// The `parts`, one after the other, as one byte string. Panics if that has 4 GiB or more.
    pub fn add(&mut self, parts: &[&[u8]]) -> Bytes {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        assert!(len <= u32::MAX as usize, "byte string of {len} bytes");
        if len == 0 {
            return Bytes::default();
        }
        let size = self.chunk.as_ref().map_or(0, |c| c.size);
        if len > size - self.used {
            // A string that would take much of a chunk gets one of its own, so that little space is left over.
            if len > CHUNK_MAX / 8 {
                let mut own = Arena::with_capacity(len);
                self.memory += own.memory;
                return own.add(parts);
            }
            self.grow((2 * size).clamp(CHUNK_MIN.max(len), CHUNK_MAX));
        }
        let Some(chunk) = &self.chunk else { return Bytes::default() };
        let off = self.used;
        let mut at = off;
        for part in parts {
            assert!(part.len() <= chunk.size - at, "a chunk is full");
            // SAFETY: `at` and the bytes behind it lie in the chunk (checked above) and no `Bytes` covers them:
            // all of those end at or before `used`, which only grows and which this arena alone counts for this
            // chunk. `part` cannot overlap them for the same reason.
            unsafe { ptr::copy_nonoverlapping(part.as_ptr(), chunk.start.as_ptr().add(at), part.len()) };
            at += part.len();
        }
        self.used = at;
        Bytes { chunk: Some(chunk.clone()), off: off as u32, len: len as u32 }
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Arena::with_capacity(bytes.len()).add(&[bytes])
    }
}

impl From<Vec<u8>> for Bytes {
    /// Keeps the vector's memory, cut to its length. Panics if that is 4 GiB or more.
    fn from(bytes: Vec<u8>) -> Bytes {
        let len = bytes.len();
        assert!(len <= u32::MAX as usize, "byte string of {len} bytes");
        if len == 0 {
            return Bytes::default();
        }
        let start = NonNull::from(Box::leak(bytes.into_boxed_slice())).cast();
        Bytes { chunk: Some(Arc::new(Chunk { start, size: len, mapped: None })), off: 0, len: len as u32 }
    }
}

impl AsRef<[u8]> for Bytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Bytes {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

impl PartialEq for Bytes {
    #[inline]
    fn eq(&self, other: &Bytes) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    #[inline]
    fn partial_cmp(&self, other: &Bytes) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    #[inline]
    fn cmp(&self, other: &Bytes) -> Ordering {
        self[..].cmp(&other[..])
    }
}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self[..].hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_in_comes_out_whatever_follows(
            strings in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..3000), 0usize..4000), 0..80),
            capacity in 0usize..5000,
        ) {
            let mut arena = Arena::with_capacity(capacity);
            let added: Vec<Bytes> = strings.iter().map(|(s, cut)| {
                let (a, b) = s.split_at((*cut).min(s.len()));
                arena.add(&[a, b])
            }).collect();
            let total: usize = strings.iter().map(|(s, _)| s.len()).sum();
            prop_assert!(arena.memory() >= total && arena.memory() <= 4 * total + capacity + 4 * CHUNK_MIN);
            drop(arena);
            for (bytes, (s, _)) in added.iter().zip(&strings) {
                prop_assert_eq!(&bytes[..], &s[..]);
                prop_assert_eq!(bytes.detached(), bytes.clone());
            }
            for (a, b) in added.iter().zip(added.iter().skip(1)) {
                prop_assert_eq!(a.cmp(b), a[..].cmp(&b[..]));
            }
        }
    }

    #[test]
    fn space_is_taken_back_and_vectors_become_strings() {
        let mut arena = Arena::default();
        let kept = arena.add(&[b"kept"]);
        let mark = arena.mark();
        drop(arena.add(&[b"gone"]));
        // SAFETY: the string has just been dropped.
        unsafe { arena.rewind(mark) };
        let next = arena.add(&[b"next"]);
        assert_eq!((&kept[..], &next[..], next.off), (&b"kept"[..], &b"next"[..], 4));
        let mut vector = Vec::with_capacity(100);
        vector.extend_from_slice(b"a vector");
        let all = Bytes::from(vector);
        let part = all.place_of(&all[2..]);
        drop(all);
        assert_eq!(&part[..], b"vector");
        assert!(Bytes::from(Vec::new()).is_empty());
    }

    #[test]
    fn large_strings_do_not_end_a_chunk() {
        let mut arena = Arena::default();
        let small = arena.add(&[&[1; 600]]);
        let large = arena.add(&[&[2; 100_000]]);
        let next = arena.add(&[&[3; 400]]);
        assert_eq!((arena.memory(), large.len()), (CHUNK_MIN + 100_000, 100_000));
        assert!(small.iter().all(|b| *b == 1) && next.iter().all(|b| *b == 3));
    }

    #[test]
    fn strings_are_read_while_the_arena_grows() {
        let mut arena = Arena::default();
        std::thread::scope(|scope| {
            for i in 0..200u8 {
                let bytes = arena.add(&[&[i; 100]]);
                scope.spawn(move || assert!(bytes.iter().all(|b| *b == i)));
            }
        });
    }
}
