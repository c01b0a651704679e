//! The one fetch of a whole file that a device bears at a time, and what it made others wait.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

use crate::tuning::T;

shared! {
    pub struct Fetching {
        runs: AtomicBool,
        /// Misses that may have begun before the latest fetch ended.
        left_over: AtomicU64,
        /// How much longer misses in other files took beside the fetch than without it, ns.
        beside_ns: AtomicI64,
    }
}

impl Fetching {
    /// Whether it may begin: no other runs.
    pub fn begin(&self) -> bool {
        let begins = !self.runs.swap(true, Relaxed);
        if begins {
            self.beside_ns.store(0, Relaxed);
        }
        begins
    }

    /// It is over; some misses may still have waited for it.
    pub fn end(&self) {
        self.runs.store(false, Relaxed);
        self.left_over.store(T::SAMPLE, Relaxed);
    }

    pub fn runs(&self) -> bool {
        self.runs.load(Relaxed)
    }

    /// Whether a miss that ends now may have waited for steps of a fetch that is over; each is told once.
    pub fn take_left_over(&self) -> bool {
        let took = |left: u64| left.checked_sub(1);
        self.left_over.fetch_update(Relaxed, Relaxed, took).is_ok()
    }

    pub fn charge(&self, ns: i64) {
        self.beside_ns.fetch_add(ns, Relaxed);
    }

    /// What was charged since this was last asked, ns.
    pub fn take_charged(&self) -> i64 {
        self.beside_ns.swap(0, Relaxed)
    }
}
