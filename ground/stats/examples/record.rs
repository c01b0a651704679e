//! Nanoseconds per `Histogram::record`: `cargo run --release -p loadline-stats --example record`.

use std::hint::black_box;
use std::time::Instant;

use stats::Histogram;

const VALUES: usize = 1 << 12;
const ROUNDS: usize = 5_000;

fn main() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let narrow: Vec<u64> = (0..VALUES).map(|_| 8_000 + next() % 4_000).collect();
    let wide: Vec<u64> = (0..VALUES).map(|_| 1_000 + ((next() % 100_000_000) >> (next() % 17))).collect();
    for (name, values) in [("within one octave", &narrow), ("1 us to 100 ms", &wide)] {
        let mut histogram = Histogram::new();
        histogram.extend(values.iter().copied());
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                for value in values {
                    histogram.record(black_box(*value));
                }
                black_box(&mut histogram);
            }
            best = best.min(start.elapsed().as_nanos() as f64 / (VALUES * ROUNDS) as f64);
        }
        println!("{name}: {best:.2} ns per record (best of 5), p99 {:?} ns", histogram.quantile(0.99));
    }
}
