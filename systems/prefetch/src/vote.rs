//! The deltas of a stream and their majority.

/// Deltas that are remembered.
pub const WINDOW: usize = 8;

/// The last deltas between the starts of a stream's pieces, bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Deltas {
    ring: [i64; WINDOW],
    len: u8,
    at: u8,
}

impl Deltas {
    /// Adds one, forgetting the oldest.
    pub fn push(&mut self, delta: i64) {
        if let Some(slot) = self.ring.get_mut(usize::from(self.at)) {
            *slot = delta;
        }
        self.at = (self.at + 1) % WINDOW as u8;
        self.len = (self.len + 1).min(WINDOW as u8);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Deltas::default();
    }

    /// How many there are, at most [`WINDOW`].
    fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there are [`WINDOW`].
    pub fn is_full(&self) -> bool {
        self.len() == WINDOW
    }

    /// The latest ones first.
    fn latest(&self) -> impl Iterator<Item = i64> + '_ {
        let at = usize::from(self.at) + WINDOW;
        (1..=self.len()).map(move |back| self.ring.get((at - back) % WINDOW).copied().unwrap_or(0))
    }

    /// The delta that more than half of the latest 4, or else of the latest 8, have within `tolerance` bytes,
    /// and at least 3. A Boyer-Moore vote over a small window first, as Leap does (USENIX ATC'20, section 4.1). With
    /// `agreeing` so many of the latest 8 must.
    pub fn majority(&self, tolerance: u64, agreeing: Option<usize>) -> Option<i64> {
        let (windows, least): (&[usize], usize) =
            agreeing.map_or((&[4, WINDOW], 3), |least| (&[WINDOW], least));
        windows.iter().copied().find_map(|window| {
            let mut candidate = 0i64;
            let mut votes = 0u32;
            for delta in self.latest().take(window) {
                if votes == 0 {
                    candidate = delta;
                    votes = 1;
                } else if delta.abs_diff(candidate) <= tolerance {
                    votes += 1;
                } else {
                    votes -= 1;
                }
            }
            let seen = self.len().min(window);
            let agree =
                self.latest().take(window).filter(|delta| delta.abs_diff(candidate) <= tolerance).count();
            (candidate != 0 && agree >= least && agree * 2 > seen).then_some(candidate)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(deltas: &[i64]) -> Deltas {
        let mut all = Deltas::default();
        deltas.iter().for_each(|delta| all.push(*delta));
        all
    }

    #[test]
    fn three_alike_are_a_majority_and_two_are_not() {
        assert_eq!(of(&[64, 64]).majority(0, None), None);
        assert_eq!(of(&[64, 64, 64]).majority(0, None), Some(64));
        assert_eq!(of(&[64, 9, 64, 64]).majority(0, None), Some(64));
        assert_eq!(of(&[1, 2, 3, 4, 5, 6, 7, 8]).majority(0, None), None);
    }

    #[test]
    fn who_was_wrong_before_wants_more_of_eight() {
        let five = of(&[64, 9, 64, 64, 1, 64, 3, 64]);
        assert_eq!((five.majority(0, None), five.majority(0, Some(6))), (Some(64), None));
        assert_eq!(of(&[64, 9, 64, 64, 64, 64, 3, 64]).majority(0, Some(6)), Some(64));
        assert_eq!(of(&[64; 7]).majority(0, Some(8)), None);
        assert_eq!(of(&[64; 8]).majority(0, Some(8)), Some(64));
    }

    #[test]
    fn old_deltas_are_outvoted_by_the_latest() {
        assert_eq!(of(&[7, 7, 7, 7, -3, -3, -3]).majority(0, None), Some(-3));
        assert_eq!(of(&[7, 7, 7, 7, 7, 1, 2, 7]).majority(0, None), Some(7));
    }

    #[test]
    fn variable_blocks_agree_within_the_tolerance() {
        assert!(of(&[100, 110, 105, 95]).majority(16, None).is_some());
    }

    #[test]
    fn a_repeated_read_has_no_stride() {
        assert_eq!(of(&[0, 0, 0, 0]).majority(0, None), None);
    }
}
