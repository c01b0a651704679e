//! A directory: names, each with a place that stays, so that a listing goes on where it stopped whatever was changed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Place of `.`; `..` has the next.
pub(crate) const SELF: u64 = 1;
pub(crate) const PARENT: u64 = 2;

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub ino: u64,
    /// As in `st_mode`; only the type counts.
    pub mode: u32,
}

/// A directory's names, without `.` and `..`.
#[derive(Debug)]
pub(crate) struct Names {
    /// Where `..` leads.
    pub parent: u64,
    places: HashMap<Arc<[u8]>, u64>,
    listed: BTreeMap<u64, (Arc<[u8]>, Target)>,
    last: u64,
}

/// Bytes of memory that a name is counted as: both tables and itself.
pub(crate) fn name_bytes(name: &[u8]) -> u64 {
    128 + name.len() as u64
}

impl Names {
    pub fn new(parent: u64) -> Names {
        Names { parent, places: HashMap::new(), listed: BTreeMap::new(), last: PARENT }
    }

    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    pub fn get(&self, name: &[u8]) -> Option<Target> {
        self.listed.get(self.places.get(name)?).map(|(_, target)| *target)
    }

    /// Adds a name, or has it lead elsewhere.
    pub fn put(&mut self, name: &[u8], target: Target) {
        if let Some(place) = self.places.get(name) {
            if let Some((_, old)) = self.listed.get_mut(place) {
                *old = target;
            }
            return;
        }
        self.last += 1;
        let name: Arc<[u8]> = name.into();
        self.places.insert(name.clone(), self.last);
        self.listed.insert(self.last, (name, target));
    }

    pub fn remove(&mut self, name: &[u8]) {
        if let Some(place) = self.places.remove(name) {
            self.listed.remove(&place);
        }
    }

    /// Place, name and target of those behind `place`.
    pub fn behind(&self, place: u64) -> impl Iterator<Item = (u64, &[u8], Target)> {
        let from = place.saturating_add(1);
        self.listed.range(from..).map(|(place, (name, target))| (*place, &name[..], *target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_goes_on_where_it_stopped() {
        let mut names = Names::new(1);
        let target = |ino| Target { ino, mode: libc::S_IFREG };
        for (ino, name) in [b"a", b"b", b"c"].into_iter().enumerate() {
            names.put(name, target(ino as u64));
        }
        let (stopped, ..) = names.behind(0).nth(1).expect("b");
        names.remove(b"b");
        names.put(b"b", target(7));
        names.put(b"c", target(8));
        let rest: Vec<_> =
            names.behind(stopped).map(|(_, name, target)| (name.to_vec(), target.ino)).collect();
        assert_eq!(rest, [(b"c".to_vec(), 8), (b"b".to_vec(), 7)]);
        assert_eq!((names.get(b"a"), names.get(b"z")), (Some(target(0)), None));
    }
}
