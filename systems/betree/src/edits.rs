//! Edits of a value's bytes that need not know the value: patches and changes of length.

use crate::bytes::Bytes;
use std::ops::Deref;

/// The bytes of a patch.
#[derive(Clone, Debug)]
pub enum PatchBytes {
    /// In memory of their own.
    Own(Vec<u8>),
    /// In memory that they share, a memtable's.
    Shared(Bytes),
}

impl Deref for PatchBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            PatchBytes::Own(bytes) => bytes,
            PatchBytes::Shared(bytes) => bytes,
        }
    }
}

impl PartialEq for PatchBytes {
    fn eq(&self, other: &PatchBytes) -> bool {
        self[..] == other[..]
    }
}

impl Eq for PatchBytes {}

impl PatchBytes {
    /// The bytes, to be changed.
    fn to_mut(&mut self) -> &mut Vec<u8> {
        if let PatchBytes::Shared(bytes) = self {
            *self = PatchBytes::Own(bytes.to_vec());
        }
        match self {
            PatchBytes::Own(bytes) => bytes,
            PatchBytes::Shared(_) => unreachable!("made its own"),
        }
    }
}

/// A sequence of patches and truncations in canonical form, so that its size is bounded by the bytes it
/// touches and never by the number of operations.
///
/// Its effect on a value: cut it to `cut` bytes; make it exist if `create`; extend it with zeros to `grow`
/// bytes and to the end of every run; then lay the runs over it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    pub(crate) cut: Option<u32>,
    pub(crate) create: bool,
    pub(crate) grow: u32,
    /// Disjoint, not touching, sorted by offset.
    pub(crate) runs: Vec<(u32, PatchBytes)>,
}

impl Edits {
    /// One patch whose bytes stay where they are.
    pub fn shared(off: u32, bytes: Bytes) -> Edits {
        let runs = if bytes.is_empty() { Vec::new() } else { vec![(off, PatchBytes::Shared(bytes))] };
        Edits { create: true, runs, ..Edits::default() }
    }

    /// True if a patch keeps memory of others.
    pub fn is_shared(&self) -> bool {
        self.runs.iter().any(|(_, run)| matches!(run, PatchBytes::Shared(_)))
    }

    /// Copies what is shared.
    pub fn detach(&mut self) {
        self.runs.iter_mut().for_each(|(_, run)| _ = run.to_mut());
    }

    /// Adds: write `bytes` at `off`, creating and zero-extending as needed.
    pub fn patch(&mut self, off: u32, bytes: &[u8]) {
        self.create = true;
        if bytes.is_empty() {
            return;
        }
        let end = off + bytes.len() as u32;
        let first = self.runs.partition_point(|(o, b)| o + (b.len() as u32) < off);
        let last = self.runs.partition_point(|(o, _)| *o <= end);
        if first == last {
            self.runs.insert(first, (off, PatchBytes::Own(bytes.to_vec())));
            return;
        }
        if last == first + 1 {
            let (run_off, run) = &mut self.runs[first];
            if *run_off <= off {
                let at = (off - *run_off) as usize;
                let run = run.to_mut();
                if run.len() < at + bytes.len() {
                    run.resize(at + bytes.len(), 0);
                }
                run[at..at + bytes.len()].copy_from_slice(bytes);
                return;
            }
        }
        let lo = off.min(self.runs[first].0);
        let tail = &self.runs[last - 1];
        let hi = end.max(tail.0 + tail.1.len() as u32);
        let mut merged = vec![0; (hi - lo) as usize];
        for (o, b) in self.runs.drain(first..last) {
            merged[(o - lo) as usize..][..b.len()].copy_from_slice(&b);
        }
        merged[(off - lo) as usize..][..bytes.len()].copy_from_slice(bytes);
        self.runs.insert(first, (lo, PatchBytes::Own(merged)));
    }

    /// Adds: shorten to `len` bytes if longer. A missing value stays missing.
    pub fn truncate(&mut self, len: u32) {
        self.grow = self.grow.max(self.runs_end()).min(len);
        self.cut = Some(self.cut.map_or(len, |c| c.min(len)));
        self.runs.retain(|(off, _)| *off < len);
        if let Some((off, bytes)) = self.runs.last_mut() {
            bytes.to_mut().truncate((len - *off) as usize);
        }
    }

    /// Adds: make the value exist with exactly `len` bytes, zero-extended.
    pub fn set_len(&mut self, len: u32) {
        self.truncate(len);
        self.create = true;
        self.grow = len;
    }

    /// Adds everything that `newer` does.
    pub fn then(&mut self, newer: &Edits) {
        if let Some(len) = newer.cut {
            self.truncate(len);
        }
        self.create |= newer.create;
        self.grow = self.grow.max(newer.grow);
        newer.runs.iter().for_each(|(off, bytes)| self.patch(*off, bytes));
    }

    /// The value after the edits; `None` is a missing value.
    pub fn apply(&self, value: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let mut value = match value {
            Some(v) => v,
            None if self.create => Vec::new(),
            None => return None,
        };
        if let Some(cut) = self.cut {
            value.truncate(cut as usize);
        }
        let len = self.len_after(value.len() as u32);
        value.resize(len as usize, 0);
        for (off, bytes) in &self.runs {
            value[*off as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        Some(value)
    }

    /// Length in bytes of an existing value of `len` bytes after the edits.
    pub fn len_after(&self, len: u32) -> u32 {
        len.min(self.cut.unwrap_or(u32::MAX)).max(self.grow).max(self.runs_end())
    }

    /// True if nothing is left of a value of `len` bytes.
    pub fn cover(&self, len: u32) -> bool {
        matches!(&self.runs[..], [(0, bytes)] if bytes.len() >= len as usize)
    }

    /// Bytes of memory and log the edits take, about.
    pub fn weight(&self) -> usize {
        24 + self.runs.iter().map(|(_, b)| b.len() + 12).sum::<usize>()
    }

    fn runs_end(&self) -> u32 {
        self.runs.last().map_or(0, |(off, b)| off + b.len() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Patch(u32, Vec<u8>),
        Truncate(u32),
        SetLen(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u32..40, prop::collection::vec(1u8.., 0..12)).prop_map(|(o, b)| Step::Patch(o, b)),
            1 => (0u32..50).prop_map(Step::Truncate),
            1 => (0u32..50).prop_map(Step::SetLen),
        ]
    }

    fn add(edits: &mut Edits, step: &Step) {
        match step {
            Step::Patch(off, bytes) => edits.patch(*off, bytes),
            Step::Truncate(len) => edits.truncate(*len),
            Step::SetLen(len) => edits.set_len(*len),
        }
    }

    fn naive(value: &mut Option<Vec<u8>>, step: &Step) {
        match step {
            Step::Patch(off, bytes) => {
                let v = value.get_or_insert_default();
                if !bytes.is_empty() {
                    let end = *off as usize + bytes.len();
                    v.resize(v.len().max(end), 0);
                    v[*off as usize..end].copy_from_slice(bytes);
                }
            }
            Step::Truncate(len) => {
                if let Some(v) = value {
                    v.truncate(*len as usize);
                }
            }
            Step::SetLen(len) => value.get_or_insert_default().resize(*len as usize, 0),
        }
    }

    proptest! {
        #[test]
        fn canonical_edits_do_what_the_steps_do(
            base in prop::option::of(prop::collection::vec(any::<u8>(), 0..50)),
            steps in prop::collection::vec(step(), 0..12),
            split in 0usize..12,
        ) {
            let mut expected = base.clone();
            steps.iter().for_each(|s| naive(&mut expected, s));
            let (mut older, mut newer) = (Edits::default(), Edits::default());
            let split = split.min(steps.len());
            steps[..split].iter().for_each(|s| add(&mut older, s));
            steps[split..].iter().for_each(|s| add(&mut newer, s));
            prop_assert_eq!(newer.apply(older.apply(base.clone())), expected.clone(), "one after the other");
            older.then(&newer);
            prop_assert_eq!(older.apply(base.clone()), expected.clone(), "composed");
            prop_assert!(older.runs.windows(2).all(|w| w[0].0 + (w[0].1.len() as u32) < w[1].0), "not canonical");
            if let Some(b) = base.as_ref().filter(|b| older.cover(b.len() as u32)) {
                prop_assert_eq!(older.apply(Some(vec![0xEE; b.len()])), expected.clone(), "nothing shines through");
            }
            if let (Some(b), Some(e)) = (&base, &expected) {
                prop_assert_eq!(older.len_after(b.len() as u32) as usize, e.len());
            }
        }
    }
}
