//! Random schedules of every protocol. `LOADLINE_ORDER_SCHEDULES` sets their number for each (default 400).

use order::Protocol;
use order::soak::{Schedule, soak};

fn count() -> u64 {
    std::env::var("LOADLINE_ORDER_SCHEDULES").ok().and_then(|s| s.parse().ok()).unwrap_or(400)
}

#[test]
fn random_schedules_break_nothing() {
    for protocol in Protocol::ALL {
        for seed in 0..count() {
            if let Err(failure) = soak(&Schedule::new(protocol, seed)) {
                panic!("{failure}");
            }
        }
    }
}
