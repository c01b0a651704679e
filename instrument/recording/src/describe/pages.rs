//! Pages that were touched, and how far apart the touches of one page are: sampled, in fixed memory.
//!
//! A page is followed when its hash lies below a limit, which falls as pages become too many (Waldspurger et al., "Efficient MRC
//! Construction with SHARDS", 2015). What the sample holds, divided by its rate, stands for all pages.

use super::sizes::Quantiles;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;
/// Pages that are followed at most: a count is off by about 3 %.
const FOLLOWED_MAX: usize = 1024;
/// Pages of one call that are looked at, so that no call takes long; a larger one is looked at in so many equal steps.
const PAGES_OF_CALL: u64 = 512;

/// The touched pages.
#[derive(Debug, Clone)]
pub(crate) struct Pages {
    /// Hashes of followed pages, the one touched last at the end.
    recent: Vec<u64>,
    limit: u64,
    /// Distances between touches of a page, in pages touched between.
    pub distances: Quantiles,
}

impl Default for Pages {
    fn default() -> Self {
        Pages { recent: Vec::new(), limit: u64::MAX, distances: Quantiles::default() }
    }
}

fn hash(file: u32, page: u64) -> u64 {
    // the finalizer of SplitMix64
    let mut x = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(file) << 40) ^ u64::from(file);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Pages {
    /// A call touched `bytes` of a file.
    pub fn touch(&mut self, file: u32, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let (first, last) = (offset / PAGE_BYTES, offset.saturating_add(bytes - 1) / PAGE_BYTES);
        let step = ((last - first) / PAGES_OF_CALL) as usize + 1;
        (first..=last).step_by(step).for_each(|page| self.touch_page(hash(file, page)));
    }

    fn touch_page(&mut self, page: u64) {
        if page > self.limit {
            return;
        }
        if let Some(at) = self.recent.iter().rposition(|known| *known == page) {
            let between = (self.recent.len() - 1 - at) as f64;
            self.distances.add((between / self.rate()) as u64);
            self.recent.remove(at);
        }
        self.recent.push(page);
        if self.recent.len() > FOLLOWED_MAX {
            let highest = self.recent.iter().copied().max().unwrap_or(self.limit);
            self.limit = highest.saturating_sub(1);
            self.recent.retain(|known| *known < highest);
        }
    }

    fn rate(&self) -> f64 {
        (self.limit as f64 / u64::MAX as f64).max(f64::MIN_POSITIVE)
    }

    /// About how many different pages were touched.
    pub fn distinct(&self) -> u64 {
        (self.recent.len() as f64 / self.rate()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_distances_are_about_right() {
        for pages in [100, 100_000] {
            let mut touched = Pages::default();
            for _ in 0..2 {
                (0..pages).for_each(|page| touched.touch(1, page * PAGE_BYTES, 1));
            }
            let near = |value: u64| (value as f64 / pages as f64 - 1.0).abs() < 0.12;
            assert!(near(touched.distinct()), "{}", touched.distinct());
            assert!(near(touched.distances.quantile(0.5).unwrap()), "{:?}", touched.distances);
        }
        let mut touched = Pages::default();
        touched.touch(0, u64::MAX, u64::MAX);
        touched.touch(0, 0, u64::MAX);
        assert!(touched.distinct() > 0);
    }
}
