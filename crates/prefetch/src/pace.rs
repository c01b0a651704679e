//! What fetching costs on a device, and how much of it may be under way.
//!
//! The price of bytes is the time that the device is busy with them, not the time until they are there: nobody waits for
//! that. Two figures are no less than it: what a step took, divided by all bytes that were under way with it (Little's
//! law), and what it took beyond a latency, divided by its own. The first is close while the device is busy, the second
//! while it is not. What others did meanwhile only adds to both, so that the low ones of the latest count.

use crate::waits::Recent;

/// Prices before which the assumed one counts.
const PRICES_MIN: usize = 3;
/// How late the thread that waits for a step is woken at least, ns, or a quarter of a latency.
const WAKE_NS: u64 = 30_000;

/// What was learned from steps of fetching. All methods may race: a lost update costs a sample.
#[derive(Debug, Default)]
pub struct Pace {
    /// Of a MiB, ns.
    prices: Recent<16>,
}

impl Pace {
    /// Nothing was fetched yet.
    pub const fn new() -> Pace {
        Pace { prices: Recent::new() }
    }

    /// Learns that a step, of `own` bytes, took so long while `under_way` bytes were, its own among them.
    pub fn learn(&self, under_way: u64, own: u64, elapsed_ns: u64, latency_ns: u64) {
        let price = |ns: u64, bytes: u64| u128::from(ns) * (1 << 20) / u128::from(bytes.max(1));
        // On a busy device the latency that was learned may be longer than this step's.
        let transfer_ns = elapsed_ns.saturating_sub(latency_ns).saturating_sub(WAKE_NS.min(latency_ns / 4));
        let transfer_ns = transfer_ns.max(elapsed_ns / 16).max(1_000);
        let price = price(elapsed_ns, under_way).min(price(transfer_ns, own));
        self.prices.note(u64::try_from(price).unwrap_or(u64::MAX).max(1));
    }

    /// The price of a MiB, ns: an eighth of the latest steps was cheaper. `None` while it is not known.
    pub fn price_ns(&self) -> Option<u64> {
        (self.prices.len() >= PRICES_MIN).then(|| self.prices.eighth())
    }

    /// What a MiB costs while the program's reads are in the way, ns: half of the latest steps were cheaper. Steps are as
    /// long as this says. `None` while it is not known.
    pub fn usual_ns(&self) -> Option<u64> {
        (self.prices.len() >= PRICES_MIN).then(|| self.prices.median())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const MIB: u64 = 1 << 20;

    /// The price of a MiB at 1 GB/s, ns.
    const AT_1_GB: u64 = 1_048_576;

    #[test]
    fn a_busy_device_and_an_idle_one_have_the_same_price() {
        let (busy, idle) = (Pace::new(), Pace::new());
        for _ in 0..16 {
            busy.learn(4 * MIB, MIB / 8, 4 * AT_1_GB, MS);
            idle.learn(MIB / 8, MIB / 8, MS + AT_1_GB / 8 + WAKE_NS, MS);
        }
        assert_eq!((busy.price_ns(), idle.price_ns()), (Some(AT_1_GB), Some(AT_1_GB)));
    }

    #[test]
    fn slow_steps_do_not_decide_and_a_slow_device_does() {
        let pace = Pace::new();
        pace.learn(MIB, MIB, 80 * MS, MS);
        assert_eq!(pace.price_ns(), None);
        for step in 0..64 {
            pace.learn(MIB, MIB, if step % 8 < 5 { MS + AT_1_GB } else { 80 * MS }, MS);
            assert!(step == 0 || pace.price_ns().is_some_and(|price| price <= AT_1_GB), "step {step}");
        }
        assert!(pace.usual_ns().is_some_and(|price| price <= AT_1_GB));
        (0..16).for_each(|_| pace.learn(MIB, MIB, 80 * MS, MS));
        assert_eq!(pace.price_ns(), Some(79 * MS - WAKE_NS));
        pace.learn(0, 0, 0, u64::MAX);
        pace.learn(u64::MAX, 1, u64::MAX, 0);
    }
}
