//! What a fault-around window says about the pages that were touched. Pure.
//!
//! A fault that finds its page ready maps the aligned window of 16 pages around it, and only the window is told. The
//! touched page is one that was prefetched, if there are such in the window, or else one that this thread has not
//! touched before.

use prefetch::PAGE;

/// Requests that are remembered for each file.
const ISSUED: usize = 512;
/// Threads whose latest touches are remembered for each file.
const THREADS: usize = 16;

/// A range of pages, the end exclusive.
pub type Pages = (u64, u64);

/// What was prefetched of a file lately, and what its threads touched last.
#[derive(Debug, Clone)]
pub struct Touches {
    issued: Vec<Pages>,
    next: usize,
    latest: [(i32, Pages); THREADS],
    next_thread: usize,
}

impl Default for Touches {
    fn default() -> Touches {
        Touches { issued: Vec::new(), next: 0, latest: [(0, (0, 0)); THREADS], next_thread: 0 }
    }
}

impl Touches {
    /// Notes what is asked of the kernel.
    pub fn issued(&mut self, offset: u64, len: u64) {
        let pages = (offset / PAGE, offset.saturating_add(len).div_ceil(PAGE));
        if let Some(slot) = self.issued.get_mut(self.next) {
            *slot = pages;
        } else {
            self.issued.push(pages);
        }
        self.next = (self.next + 1) % ISSUED;
    }

    /// Notes a page whose touch was seen exactly.
    pub fn exact(&mut self, tid: i32, pages: Pages) {
        let known = self.latest.iter().position(|(thread, _)| *thread == tid);
        let at = known.unwrap_or_else(|| {
            self.next_thread = (self.next_thread + 1) % THREADS;
            self.next_thread
        });
        if let Some(slot) = self.latest.get_mut(at) {
            *slot = (tid, pages);
        }
    }

    /// Whether a thread's latest touch included these pages.
    pub fn is_touched(&self, tid: i32, (start, end): Pages) -> bool {
        self.latest.iter().any(|(thread, (from, to))| *thread == tid && *from <= start && end <= *to)
    }

    /// What of a window was touched; `None` when all of it had been before.
    pub fn window(&mut self, tid: i32, window: Pages) -> Option<Pages> {
        let touched = self.prefetched(window).or_else(|| {
            let before = self.latest.iter().find(|(thread, _)| *thread == tid).map(|(_, pages)| *pages);
            before.map_or(Some(window), |before| rest(window, before))
        })?;
        // The whole window is mapped now: there will be no fault in it again.
        self.exact(tid, window);
        Some(touched)
    }

    /// What of the window of a fault that was tried again was touched, beside the page that it waited for: what was
    /// prefetched with it, whose touches will not be seen.
    pub fn again(&mut self, tid: i32, window: Pages) -> Option<Pages> {
        let touched = self.prefetched(window).filter(|pages| !self.is_touched(tid, *pages))?;
        self.exact(tid, touched);
        Some(touched)
    }

    /// The hull of what was prefetched of a window.
    fn prefetched(&self, (start, end): Pages) -> Option<Pages> {
        let inside = self.issued.iter().filter(|(from, to)| *from < end && *to > start);
        inside.fold(None, |hull: Option<Pages>, (from, to)| {
            let part = ((*from).max(start), (*to).min(end));
            Some(hull.map_or(part, |hull| (hull.0.min(part.0), hull.1.max(part.1))))
        })
    }
}

/// The larger side of a window that lies outside of what was touched before.
fn rest((start, end): Pages, (from, to): Pages) -> Option<Pages> {
    if to <= start || from >= end {
        return Some((start, end));
    }
    let (below, above) = (from.saturating_sub(start), end.saturating_sub(to));
    match (below, above) {
        (0, 0) => None,
        _ if above >= below => Some((to, end)),
        _ => Some((start, from)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_after_a_fault_is_its_rest() {
        let mut touches = Touches::default();
        touches.exact(1, (16, 17));
        assert_eq!(touches.window(1, (16, 32)), Some((17, 32)));
        assert_eq!(touches.window(1, (32, 48)), Some((32, 48)));
        assert_eq!(touches.window(1, (32, 48)), None);
        assert!(touches.is_touched(1, (40, 41)) && !touches.is_touched(2, (40, 41)));
        assert!(!touches.is_touched(1, (31, 33)));
        // Downwards.
        touches.exact(2, (31, 32));
        assert_eq!(touches.window(2, (16, 32)), Some((16, 31)));
    }

    #[test]
    fn what_was_prefetched_of_a_window_was_touched() {
        let mut touches = Touches::default();
        touches.issued(20 * PAGE, PAGE);
        touches.issued(100 * PAGE, 40 * PAGE);
        assert_eq!(touches.window(1, (16, 32)), Some((20, 21)));
        assert_eq!(touches.window(1, (96, 112)), Some((100, 112)));
        assert_eq!(touches.window(1, (112, 128)), Some((112, 128)));
        assert_eq!(touches.window(1, (144, 160)), Some((144, 160)));
    }

    #[test]
    fn a_fault_tried_again_touched_what_was_prefetched_with_its_page() {
        let mut touches = Touches::default();
        touches.exact(1, (16, 17));
        assert_eq!(touches.again(1, (16, 32)), None);
        touches.issued(16 * PAGE, PAGE);
        assert_eq!(touches.again(1, (16, 32)), None);
        touches.issued(16 * PAGE, 8 * PAGE);
        assert_eq!(touches.again(1, (16, 32)), Some((16, 24)));
        assert_eq!(touches.again(1, (16, 32)), None);
    }

    #[test]
    fn old_requests_and_threads_are_forgotten() {
        let mut touches = Touches::default();
        touches.issued(0, PAGE);
        for page in 1..=ISSUED as u64 {
            touches.issued(page * 100 * PAGE, PAGE);
        }
        assert_eq!(touches.window(1, (0, 16)), Some((0, 16)));
        assert_eq!(touches.issued.len(), ISSUED);
        (2..100).for_each(|tid| touches.exact(tid, (0, 16)));
        assert_eq!(touches.window(1, (0, 16)), Some((0, 16)));
    }

    proptest::proptest! {
        #[test]
        fn what_was_touched_lies_in_the_window(events in proptest::collection::vec((0u8..3, 0u64..64, 1u64..32, 0i32..3), 0..200)) {
            let mut touches = Touches::default();
            for (kind, start, len, tid) in events {
                match kind {
                    0 => touches.issued(start * PAGE, len * PAGE),
                    1 => touches.exact(tid, (start, start + len)),
                    _ => if let Some((from, to)) = touches.window(tid, (start, start + len)) {
                        proptest::prop_assert!(start <= from && from < to && to <= start + len);
                    }
                }
            }
        }
    }
}
