//! Which windows of a mapping were touched, and in which order.

use super::kernel::{self, Region};

/// What one fault maps at most, bytes.
pub const GRANULE: usize = 64 << 10;
/// Granules of a mapping: 4 GiB. What lies behind is left alone.
pub const GRANULES: usize = 1 << 16;
/// New granules that are taken at one look.
const FRESH_MAX: usize = 256;
/// Places where threads are, at most.
const HEADS: usize = 8;
/// So many of them, those that moved last, are looked at each time.
const HEADS_EACH: usize = 4;
/// What is looked at from one of them on, granules: a page table.
const REACH: usize = (2 << 20) / GRANULE;

/// Where a mapping lies.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Address of its first byte.
    pub start: usize,
    /// Bytes.
    pub len: usize,
}

impl Place {
    /// Granules, those at both ends that it has a part of included.
    pub fn granules(self) -> usize {
        GRANULES.min((self.start % GRANULE + self.len).div_ceil(GRANULE))
    }

    fn base(self) -> usize {
        self.start / GRANULE * GRANULE
    }

    /// The granule of an address.
    pub fn granule(self, address: usize) -> usize {
        address.saturating_sub(self.base()) / GRANULE
    }

    /// The first address of a granule.
    pub fn address(self, granule: usize) -> usize {
        (self.base() + granule * GRANULE).max(self.start)
    }

    /// The part of a granule that is mapped, as offsets from the mapping's beginning.
    pub fn part(self, granule: usize) -> (usize, usize) {
        let from = (granule * GRANULE).saturating_sub(self.start % GRANULE);
        (from, ((granule + 1) * GRANULE - self.start % GRANULE).min(self.len))
    }
}

/// A set of granules.
pub struct Granules([u64; GRANULES / 64]);

impl Granules {
    pub fn clear(&mut self) {
        self.0 = [0; GRANULES / 64];
    }

    pub fn has(&self, granule: usize) -> bool {
        self.0.get(granule / 64).is_some_and(|word| word >> (granule % 64) & 1 != 0)
    }

    pub fn add(&mut self, granule: usize) {
        if let Some(word) = self.0.get_mut(granule / 64) {
            *word |= 1 << (granule % 64);
        }
    }
}

/// New granules, in the order in which they were probably touched.
pub struct Fresh {
    granule: [u32; FRESH_MAX],
    len: usize,
}

impl Fresh {
    pub fn granules(&self) -> &[u32] {
        self.granule.get(..self.len).unwrap_or_default()
    }
}

/// What was touched of a mapping.
pub struct Touched {
    known: Granules,
    /// Granules touched last, each of a neighbourhood of its own, the latest first.
    heads: [u32; HEADS],
    heads_len: usize,
    turn: usize,
}

impl Touched {
    pub fn clear(&mut self) {
        self.known.clear();
        self.heads_len = 0;
    }

    /// All that was touched since the last look.
    pub fn anywhere(&mut self, place: Place, pagemap: i32) -> Fresh {
        let mut fresh = Fresh { granule: [0; FRESH_MAX], len: 0 };
        self.collect(place, (0, place.granules()), pagemap, Some(&mut fresh));
        self.order(&mut fresh);
        fresh
    }

    /// What was touched since the last look near what was touched last, by streams of so long a stride, bytes.
    pub fn nearby(&mut self, place: Place, stride: u64, pagemap: i32) -> Fresh {
        let mut fresh = Fresh { granule: [0; FRESH_MAX], len: 0 };
        let reach = REACH.max(2 * (stride as usize / GRANULE));
        let (last, heads, len) = (place.granules(), self.heads, self.heads_len);
        self.turn = self.turn.wrapping_add(1);
        let other = len.checked_sub(HEADS_EACH).filter(|others| *others > 0);
        let other = other.and_then(|others| heads.get(HEADS_EACH + self.turn % others));
        for head in heads.iter().take(len.min(HEADS_EACH)).chain(other) {
            let (mut at, mut found) = (*head as usize, true);
            while found && at < last {
                let to = (at + reach).min(last);
                found = self.collect(place, (at, to), pagemap, Some(&mut fresh));
                at = to;
            }
            (at, found) = (*head as usize, true);
            while found && at > 0 {
                let from = at.saturating_sub(reach);
                found = self.collect(place, (from, at), pagemap, Some(&mut fresh));
                at = from;
            }
        }
        self.order(&mut fresh);
        fresh
    }

    /// Pages that were evicted are touched again: all of what is in the page tables now is known, nothing else.
    pub fn again(&mut self, place: Place, pagemap: i32) {
        self.known.clear();
        self.collect(place, (0, place.granules()), pagemap, None);
    }

    /// Marks what is in the page tables as touched, and notes what was not before. Whether there was any.
    fn collect(
        &mut self,
        place: Place,
        (from, to): (usize, usize),
        pagemap: i32,
        mut fresh: Option<&mut Fresh>,
    ) -> bool {
        let mut regions = [Region::default(); 128];
        let (mut at, end) = (place.address(from), place.address(to).min(place.start + place.len));
        let mut found = false;
        while at < end {
            let Some((count, walked)) = kernel::scan(pagemap, at, end, &mut regions) else { return false };
            for region in regions.iter().take(count) {
                let first = place.granule(region.start as usize);
                let last = place.granule(region.end as usize - 1);
                for granule in first..=last.min(GRANULES - 1) {
                    if self.known.has(granule) {
                        continue;
                    }
                    if let Some(fresh) = &mut fresh {
                        // What finds no room is found at the next look.
                        let Some(place) = fresh.granule.get_mut(fresh.len) else { return false };
                        *place = granule as u32;
                        fresh.len += 1;
                    }
                    self.known.add(granule);
                    found = true;
                }
            }
            if walked <= at {
                break;
            }
            at = walked;
        }
        found
    }

    /// Puts new granules into the order in which they were probably touched: away from those touched last.
    fn order(&self, fresh: &mut Fresh) {
        let heads = self.heads.get(..self.heads_len).unwrap_or_default();
        let nearest = |granule: u32| {
            let head = heads.iter().enumerate().min_by_key(|(_, head)| head.abs_diff(granule));
            head.map_or((0, granule), |(at, head)| (at, head.abs_diff(granule)))
        };
        if let Some(granules) = fresh.granule.get_mut(..fresh.len) {
            granules.sort_unstable_by_key(|granule| nearest(*granule));
        }
    }

    /// Remembers a granule as the latest of its neighbourhood.
    pub fn note(&mut self, granule: u32) {
        const NEIGHBOURS: u32 = (4 << 20) / GRANULE as u32;
        let len = self.heads_len;
        let near = self.heads.iter().take(len).position(|head| head.abs_diff(granule) <= NEIGHBOURS);
        let at = near.unwrap_or(len.min(HEADS - 1));
        self.heads_len = len.max(at + 1);
        if let Some(moved) = self.heads.get_mut(..=at) {
            moved.rotate_right(1);
            if let Some(first) = moved.first_mut() {
                *first = granule;
            }
        }
    }
}
