//! What fetching costs on a device.
//!
//! The price of bytes is the time that the device is busy with them, not the time until they are there: nobody waits for
//! that. What a step took beyond a latency, divided by its bytes, is no less than it. What others did meanwhile only adds
//! to that, so that the low ones of the latest count.

use crate::model::scale;
use crate::tuning::T;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Steps that are remembered.
const STEPS: usize = 16;

shared! {
    /// What is known of one step.
    struct Step {
        bytes: AtomicU64,
        elapsed_ns: AtomicU64,
        /// What its own bytes take on a device as fast as was assumed, ns.
        assumed_ns: AtomicU64,
        /// What was believed of the latency then, ns.
        latency_ns: AtomicU64,
    }
}

impl Step {
    /// The most that a MiB cost, ns. `None` where that cannot be told.
    fn price_ns(&self, latency_ns: u64) -> Option<u64> {
        // Hits of an opening passed for misses: then the step told nothing.
        let told = self.latency_ns.load(Relaxed) >= latency_ns / 2;
        if !told && self.assumed_ns.load(Relaxed) < latency_ns / (T::RESOLUTION / 2) {
            return None;
        }
        let elapsed_ns = self.elapsed_ns.load(Relaxed);
        // On a busy device the latency that was learned may be longer than this step's.
        let beyond_ns = elapsed_ns.saturating_sub(latency_ns);
        let transfer_ns = beyond_ns - (T::WAKE_NS / 2).min(latency_ns / 4).min(beyond_ns / 4);
        // A sixteenth of what it took is noise; of a short step that would be a device slower than any, and steps
        // shorter still.
        let noise_ns = (elapsed_ns / 16).min(self.assumed_ns.load(Relaxed));
        let transfer_ns = transfer_ns.max(noise_ns).max(1_000);
        Some(scale(transfer_ns, 1 << 20, self.bytes.load(Relaxed)).max(1))
    }
}

shared! {
    /// What was learned from steps of fetching.
    pub struct Pace {
        /// The latest ones. The latency may be learned after them, so that the price is not kept.
        steps: [Step; STEPS],
        count: AtomicU64,
    }
}

impl Pace {
    /// Learns that a step of so many bytes took so long, which on a device that is as fast as is assumed take `assumed_ns`. Where
    /// that is nothing beside the latency it tells nothing of a fast device, and is forgotten unless the device is believed to
    /// be somewhat slower: steps are the shorter for it, and what a busy machine told would be believed for ever. One that is
    /// believed to be several times slower was seen to be, in longer steps.
    pub fn learn(&self, bytes: u64, elapsed_ns: u64, assumed_ns: u64, latency_ns: u64) {
        let believed_ns = self.price_ns(latency_ns).map_or(0, |price| scale(bytes, price, 1 << 20));
        let told_ns = if believed_ns / 4 <= assumed_ns { assumed_ns.max(believed_ns) } else { assumed_ns };
        if told_ns < latency_ns / (T::RESOLUTION / 2) {
            return;
        }
        let count = self.count.fetch_add(1, Relaxed) as usize;
        if let Some(step) = self.steps.get(count % STEPS) {
            step.bytes.store(bytes, Relaxed);
            step.elapsed_ns.store(elapsed_ns, Relaxed);
            step.assumed_ns.store(assumed_ns, Relaxed);
            step.latency_ns.store(latency_ns, Relaxed);
        }
    }

    /// The price of a MiB on a device of so much latency, ns: an eighth of the latest steps was cheaper, since what others
    /// did meanwhile only adds. `None` while it is not known.
    pub fn price_ns(&self, latency_ns: u64) -> Option<u64> {
        let noted = (self.count.load(Relaxed) as usize).min(STEPS);
        let mut prices = [0; STEPS];
        let told = self.steps.iter().take(noted).filter_map(|step| step.price_ns(latency_ns));
        let count = prices.iter_mut().zip(told).map(|(price, told)| *price = told).count();
        let known = prices.get_mut(..count).filter(|known| known.len() >= 3)?;
        known.sort_unstable();
        known.get(count / 8).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const MIB: u64 = 1 << 20;

    /// The price of a MiB at 1 GB/s, ns.
    const AT_1_GB: u64 = 1_048_576;

    fn learn(pace: &Pace, bytes: u64, elapsed_ns: u64) {
        pace.learn(bytes, elapsed_ns, u64::MAX, MS);
    }

    #[test]
    fn a_step_that_is_all_latency_tells_nothing() {
        let pace = Pace::new();
        let short = MIB / 64;
        (0..64).for_each(|_| pace.learn(short, MS + 100_000, AT_1_GB / 64, MS));
        assert_eq!(pace.price_ns(MS), None);
        // The latency was not known yet.
        (0..16).for_each(|_| pace.learn(short, MS + 100_000, AT_1_GB / 64, 4_000));
        assert_eq!(pace.price_ns(MS), None);
        (0..8).for_each(|_| pace.learn(MIB / 8, MS + AT_1_GB / 2, AT_1_GB / 8, MS));
        assert!(pace.price_ns(MS).is_some_and(|price| price > 3 * AT_1_GB));
    }

    #[test]
    fn what_a_busy_machine_told_is_unlearned_by_short_steps() {
        let pace = Pace::new();
        (0..16).for_each(|_| learn(&pace, MIB / 16, MS + AT_1_GB / 4));
        let slow_ns = pace.price_ns(MS).expect("steps told it");
        assert!((3 * AT_1_GB..4 * AT_1_GB).contains(&slow_ns), "{slow_ns}");
        // So that steps are short: on a fast device they are all latency.
        (0..32).for_each(|_| pace.learn(MIB / 64, MS + AT_1_GB / 64, AT_1_GB / 64, MS));
        let price_ns = pace.price_ns(MS).expect("it is still known");
        assert!(price_ns <= AT_1_GB, "{price_ns}");
    }

    #[test]
    fn slow_steps_do_not_decide_and_a_slow_device_does() {
        let pace = Pace::new();
        learn(&pace, MIB, 80 * MS);
        assert_eq!(pace.price_ns(MS), None);
        for step in 0..64 {
            learn(&pace, MIB, if step % 8 < 5 { MS + AT_1_GB } else { 80 * MS });
            assert!(step == 0 || pace.price_ns(MS).is_some_and(|price| price <= AT_1_GB), "step {step}");
        }
        (0..16).for_each(|_| learn(&pace, MIB, 80 * MS));
        assert_eq!(pace.price_ns(MS), Some(79 * MS - (T::WAKE_NS / 2)));
        pace.learn(0, 0, 0, 0);
        pace.learn(1, u64::MAX, u64::MAX, u64::MAX);
        assert!(pace.price_ns(u64::MAX).is_some() && pace.price_ns(0).is_some());
    }

    #[test]
    fn a_latency_learned_later_corrects_the_price() {
        let pace = Pace::new();
        (0..16).for_each(|_| learn(&pace, MIB / 8, MS + AT_1_GB / 8 + (T::WAKE_NS / 2)));
        assert!(
            pace.price_ns(4_000).is_some_and(|price| price > 8 * AT_1_GB),
            "hits of the opening passed for misses"
        );
        assert_eq!(pace.price_ns(MS), Some(AT_1_GB));
    }
}
