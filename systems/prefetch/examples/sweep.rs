//! What each constant of the policy moves: halved and doubled, one at a time, on known patterns and devices in virtual
//! time.
//!
//!     cargo run --release -p loadline-prefetch --example sweep            # all of them, some minutes
//!     cargo run --release -p loadline-prefetch --example sweep wake_ns    # one
//!
//! A cell fails as `loadline prefetch harm` has it: slower by more than 3 %, or a p99 of more than 1.1 times. What moves
//! nothing has no place among the constants.

use std::thread;

use prefetch::sim::{MachineOptions, Pattern, replay_with};
use prefetch::{Mode, Tuning};

/// Latency, ns; bandwidth, bytes/s; read-ahead, bytes.
const DEVICES: [(u64, u64, u64); 8] = [
    (18_000, 3_500_000_000, 8 << 20),
    (100_000, 3_000_000_000, 128 << 10),
    (1_000_000, 1_000_000_000, 128 << 10),
    (1_000_000, 250_000_000, 128 << 10),
    (300_000, 600_000_000, 128 << 10),
    (5_000_000, 200_000_000, 512 << 10),
    (20_000_000, 400_000_000, 128 << 10),
    (100_000, 150_000_000, 256 << 10),
];
const SIZE: u64 = 64 << 20;

/// Gain and p99, both relative to the kernel alone.
type Cell = (f64, f64);

fn cell(
    pattern: Pattern,
    device: (u64, u64, u64),
    threads: usize,
    memory: u64,
    tuning: &'static Tuning,
) -> Cell {
    let (latency_ns, bandwidth, readahead_bytes) = device;
    let options = MachineOptions {
        latency_ns,
        bandwidth,
        readahead_bytes,
        memory_bytes: SIZE / 100 * memory,
        request_bytes: 1 << 20,
        request_ns: 0,
    };
    let trace = pattern.trace(SIZE, threads, false, 7);
    let run = |mode| replay_with(&trace, &options, mode, tuning);
    let (alone, helped) = (run(Mode::AppOnly), run(Mode::Auto));
    (alone.elapsed_ns as f64 / helped.elapsed_ns as f64, helped.p99_ns as f64 / alone.p99_ns as f64)
}

fn cells(tuning: Tuning) -> Vec<Cell> {
    // It lives as long as the process: a few hundred bytes for each try.
    let tuning: &'static Tuning = Box::leak(Box::new(tuning));
    let patterns: Vec<Pattern> = Pattern::ALL.into_iter().chain(Pattern::UNEVEN).collect();
    let of = |devices: &'static [(u64, u64, u64)]| {
        let patterns = patterns.clone();
        move || {
            let mut cells = Vec::new();
            for pattern in patterns {
                for device in devices {
                    for (threads, memory) in [(1, 1000), (4, 1000), (4, 50)] {
                        cells.push(cell(pattern, *device, threads, memory, tuning));
                    }
                }
            }
            cells
        }
    };
    let (near, far) = DEVICES.split_at(4);
    let other = thread::spawn(of(near));
    let mut all = of(far)();
    all.extend(other.join().expect("a replay does not panic"));
    all
}

fn fails(cells: &[Cell]) -> usize {
    cells.iter().filter(|(gain, p99)| *gain < 0.97 || *p99 > 1.1).count()
}

fn row(base: &[Cell], cells: &[Cell]) -> String {
    let pairs = || base.iter().zip(cells);
    let moved = pairs().filter(|(before, after)| before != after).count();
    let gain =
        (pairs().map(|(before, after)| (after.0 / before.0).ln()).sum::<f64>() / base.len() as f64).exp();
    let low = pairs().filter(|(before, after)| after.0 < 0.9 * before.0).count();
    format!("{moved} moved, {} fail, gain {gain:.3}, {low} under 0.9", fails(cells))
}

fn main() {
    let only = std::env::args().nth(1);
    let base = cells(Tuning::STANDARD);
    println!("{} cells, {} fail", base.len(), fails(&base));
    macro_rules! sweep {
        ($($name:ident),* $(,)?) => {$(
            if only.as_deref().is_none_or(|only| only == stringify!($name)) {
                let [half, double] = [1, 4].map(|halves| {
                    let value = Tuning::STANDARD.$name * halves / 2;
                    row(&base, &cells(Tuning { $name: value, ..Tuning::STANDARD }))
                });
                println!("| `{}` | {half} | {double} |", stringify!($name));
            }
        )*};
    }
    sweep!(
        wake_ns,
        gain_percent,
        delay_part,
        bandwidth,
        request_bytes,
        ramp_bytes,
        depth_bytes,
        rate_ns,
        live_ns,
        sample,
        resolution,
        misfits,
        price,
        stake,
        misses,
        trial_reads,
        rest_reads,
    );
}
