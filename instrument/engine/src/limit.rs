//! Limiters: a schedule of due times that all threads take places in.
//!
//! One schedule for each limiter definition, and one for the whole run when a rate is offered from outside. A place
//! costs one atomic addition, waiting is fair (first come, first due), and places are never dropped: after a stall the
//! late ones follow at once, each with its lateness counted (no coordinated omission; Tene, "How NOT to Measure
//! Latency", 2015).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A schedule at a constant rate.
#[derive(Debug)]
pub struct Schedule {
    per_second: f64,
    taken: AtomicU64,
}

impl Schedule {
    /// A schedule of `per_second` places a second; `None` when the rate is zero or no number (no limit).
    pub fn new(per_second: f64) -> Option<Schedule> {
        (per_second.is_finite() && per_second > 0.0)
            .then(|| Schedule { per_second, taken: AtomicU64::new(0) })
    }

    /// Takes `places`; returns when the first of them is due, in nanoseconds since the schedule's start.
    pub fn take(&self, places: u64) -> u64 {
        self.due_ns(self.taken.fetch_add(places, Relaxed))
    }

    /// When place number `place` is due, in nanoseconds since the start.
    fn due_ns(&self, place: u64) -> u64 {
        (place as f64 * 1e9 / self.per_second) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_due_at_the_rate() {
        let schedule = Schedule::new(1000.0).unwrap();
        assert_eq!(schedule.take(1), 0);
        assert_eq!(schedule.take(2), 1_000_000);
        assert_eq!(schedule.take(1), 3_000_000);
    }

    #[test]
    fn no_rate_is_no_schedule() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Schedule::new(rate).is_none(), "{rate}");
        }
    }

    /// Threads share the places: together they get each of them once.
    #[test]
    fn threads_share_the_places() {
        let schedule = Schedule::new(1e9).unwrap();
        let mut due: Vec<u64> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..1000).map(|_| schedule.take(1)).collect::<Vec<_>>()))
                .collect();
            handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
        });
        due.sort_unstable();
        assert_eq!(due, (0..4000).collect::<Vec<u64>>());
    }
}
