//! Keys, half-open key ranges, and the exchange of one key prefix for another.

use crate::bytes::Bytes;

/// A key: any bytes, compared as `memcmp` does, a prefix before its extensions.
pub type Key = Bytes;

/// The exclusive end of a range. `At` orders before `Open`, so comparing ends compares ranges.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The range stops before this key.
    At(Key),
    /// The range has no end.
    Open,
}

impl End {
    /// True if `key` lies before the end.
    pub fn is_after(&self, key: &[u8]) -> bool {
        match self {
            End::At(hi) => key < &hi[..],
            End::Open => true,
        }
    }
}

/// The keys from `lo` (inclusive) to `hi` (exclusive).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First key of the range.
    pub lo: Key,
    /// Where the range stops.
    pub hi: End,
}

impl KeyRange {
    /// `[lo, hi)`.
    pub fn new(lo: &[u8], hi: &[u8]) -> Self {
        KeyRange { lo: lo.into(), hi: End::At(hi.into()) }
    }

    /// `[lo, infinity)`.
    pub fn from(lo: &[u8]) -> Self {
        KeyRange { lo: lo.into(), hi: End::Open }
    }

    /// Every key.
    pub fn all() -> Self {
        KeyRange::from(b"")
    }

    /// Every key that begins with `prefix`, the prefix itself included.
    pub fn prefix(prefix: &[u8]) -> Self {
        KeyRange { lo: prefix.into(), hi: prefix_end(prefix) }
    }

    /// Just `key`.
    pub fn one(key: &[u8]) -> Self {
        KeyRange { lo: key.into(), hi: End::At([key, &[0]].concat().into()) }
    }

    /// Where the range stops, or the empty key if it does not.
    pub fn upper(&self) -> Key {
        match &self.hi {
            End::At(hi) => hi.clone(),
            End::Open => Key::default(),
        }
    }

    /// True if no key can be inside.
    pub fn is_empty(&self) -> bool {
        !self.hi.is_after(&self.lo)
    }

    /// True if `key` is inside.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &self.lo[..] && self.hi.is_after(key)
    }

    /// True if every key of `other` is inside.
    pub fn covers(&self, other: &KeyRange) -> bool {
        self.lo <= other.lo && self.hi >= other.hi
    }

    /// True if some key may be in both.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        self.hi.is_after(&other.lo) && other.hi.is_after(&self.lo)
    }

    /// What is in both; possibly empty.
    pub fn intersect(&self, other: &KeyRange) -> KeyRange {
        KeyRange { lo: (&self.lo).max(&other.lo).clone(), hi: (&self.hi).min(&other.hi).clone() }
    }
}

/// The end of the range of all keys that begin with `prefix`.
pub fn prefix_end(prefix: &[u8]) -> End {
    match prefix.iter().rposition(|&b| b != 0xFF) {
        Some(last) => {
            let mut hi = prefix[..=last].to_vec();
            hi[last] += 1;
            End::At(hi.into())
        }
        None => End::Open,
    }
}

/// Length of the common prefix of two byte strings.
pub fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// An edge's change of key space: keys seen above it begin with `outer`, the same keys below it begin with
/// `inner` (Bε-DAG, FAST'20). Both directions preserve key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Prefix above the edge.
    pub outer: Key,
    /// Prefix below the edge.
    pub inner: Key,
}

impl Translation {
    /// The key below the edge. `key` must begin with the outer prefix.
    pub fn key_in(&self, key: &[u8]) -> Key {
        swap_prefix(key, &self.outer, &self.inner)
    }

    /// The key above the edge. `key` must begin with the inner prefix.
    pub fn key_out(&self, key: &[u8]) -> Key {
        swap_prefix(key, &self.inner, &self.outer)
    }

    /// The range below the edge. `range` must lie within the keys that begin with the outer prefix.
    pub fn range_in(&self, range: &KeyRange) -> KeyRange {
        swap_range(range, &self.outer, &self.inner)
    }

    /// The range above the edge. `range` must lie within the keys that begin with the inner prefix.
    pub fn range_out(&self, range: &KeyRange) -> KeyRange {
        swap_range(range, &self.inner, &self.outer)
    }

    /// One translation that does what `self`, then `below` on the way down do.
    ///
    /// Some key passes both, so `self.inner` and `below.outer` are prefixes one of the other.
    pub fn then(&self, below: &Translation) -> Translation {
        if below.outer.len() >= self.inner.len() {
            Translation { outer: self.key_out(&below.outer), inner: below.inner.clone() }
        } else {
            Translation { outer: self.outer.clone(), inner: below.key_in(&self.inner) }
        }
    }
}

fn swap_prefix(key: &[u8], from: &[u8], to: &[u8]) -> Key {
    debug_assert!(key.starts_with(from), "{key:?} outside prefix {from:?}");
    let mut out = Vec::with_capacity(to.len() + key.len() - from.len());
    out.extend_from_slice(to);
    out.extend_from_slice(&key[from.len()..]);
    out.into()
}

fn swap_range(range: &KeyRange, from: &[u8], to: &[u8]) -> KeyRange {
    let hi = match &range.hi {
        End::At(hi) if hi.starts_with(from) => End::At(swap_prefix(hi, from, to)),
        // The range lies within the prefix, so an end outside it can only be the prefix's own.
        _ => prefix_end(to),
    };
    KeyRange { lo: swap_prefix(&range.lo, from, to), hi }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_ranges_hold_just_the_prefixed_keys() {
        for prefix in [&b"a"[..], b"a\xFF", b"\xFF", b"\xFF\xFF", b"\x00"] {
            let range = KeyRange::prefix(prefix);
            for key in [
                &b""[..],
                b"a",
                b"a\xFE",
                b"a\xFF",
                b"a\xFF\xFF\x01",
                b"b",
                b"\xFF",
                b"\xFF\xFFz",
                b"\x00\x00",
            ] {
                assert_eq!(range.contains(key), key.starts_with(prefix), "{prefix:?} {key:?}");
            }
        }
    }

    #[test]
    fn ranges_compare_intersect_and_cover() {
        let (ab, bc, all) = (KeyRange::new(b"a", b"b"), KeyRange::new(b"b", b"c"), KeyRange::all());
        assert!(!ab.overlaps(&bc) && ab.intersect(&bc).is_empty());
        assert!(all.covers(&ab) && !ab.covers(&all) && all.overlaps(&bc));
        assert_eq!(all.intersect(&bc), bc);
        assert!(KeyRange::new(b"b", b"a").is_empty());
    }

    #[test]
    fn translation_goes_there_and_back_and_composes() {
        let t = Translation { outer: b"new/"[..].into(), inner: b"old/dir/"[..].into() };
        assert_eq!(&t.key_in(b"new/x")[..], b"old/dir/x");
        assert_eq!(&t.key_out(b"old/dir/x")[..], b"new/x");
        assert_eq!(t.range_in(&KeyRange::prefix(b"new/")), KeyRange::prefix(b"old/dir/"));
        assert_eq!(
            t.range_out(&t.range_in(&KeyRange::new(b"new/a", b"new/b"))),
            KeyRange::new(b"new/a", b"new/b")
        );
        let wide = Translation { outer: b"old/"[..].into(), inner: b"q"[..].into() };
        let deep = Translation { outer: b"old/dir/sub/"[..].into(), inner: b"z"[..].into() };
        assert_eq!(t.then(&wide).key_in(b"new/x"), wide.key_in(&t.key_in(b"new/x")));
        assert_eq!(t.then(&deep).key_in(b"new/sub/x"), deep.key_in(&t.key_in(b"new/sub/x")));
    }
}
