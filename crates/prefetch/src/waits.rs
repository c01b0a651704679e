//! Waits taken eight at a time, sorted: a few of them may be a busy CPU's, or for what was on its way already.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Waits that are judged together.
pub const WAITS: usize = 8;

/// The waits since the last eight. All methods may race: a lost update costs a sample.
#[derive(Debug, Default)]
pub struct Waits {
    noted: [AtomicU64; WAITS],
    count: AtomicU64,
}

impl Waits {
    /// None yet.
    pub const fn new() -> Waits {
        Waits { noted: [const { AtomicU64::new(0) }; WAITS], count: AtomicU64::new(0) }
    }

    /// Notes a wait, ns; with every eighth the eight of them, the shortest first.
    pub fn note(&self, wait_ns: u64) -> Option<[u64; WAITS]> {
        let count = self.count.fetch_add(1, Relaxed) as usize;
        if let Some(slot) = self.noted.get(count % WAITS) {
            slot.store(wait_ns, Relaxed);
        }
        if count % WAITS < WAITS - 1 {
            return None;
        }
        let mut waits = [0; WAITS];
        waits.iter_mut().zip(&self.noted).for_each(|(wait, noted)| *wait = noted.load(Relaxed));
        waits.sort_unstable();
        Some(waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_eighth_wait_brings_the_eight_in_order() {
        let waits = Waits::new();
        let told: Vec<_> = (0..20).filter_map(|at| waits.note(100 - at)).collect();
        assert_eq!(told, [[93, 94, 95, 96, 97, 98, 99, 100], [85, 86, 87, 88, 89, 90, 91, 92]]);
    }
}
