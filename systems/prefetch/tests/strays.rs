//! A thread whose reads have an order beside threads whose reads have none: these gain nothing from what is prefetched for
//! it, and must not wait for it.

use prefetch::Mode;
use prefetch::sim::{MachineOptions, Outcome, Trace, replay};

const SIZE: u64 = 1 << 30;
const BLOCK: u64 = 64 << 10;
/// Of each thread: a hundredth of all is many more than the few that must have waited before anything is done about it.
const READS: u64 = 2_000;

/// A page somewhere, from a seed and a number.
fn page(seed: u64, at: u64) -> u64 {
    let mixed =
        (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    (mixed ^ mixed >> 29).wrapping_mul(0x94d0_49bb_1331_11eb) >> 20 & (SIZE / 4096 - 1)
}

/// Threads that go backward through a part of the file each, beside some that read pages without order.
fn trace(streams: u64, strays: u64, seed: u64, shared: bool) -> Trace {
    let part = SIZE / streams.max(1);
    let backward = |at: u64| (1..=READS).map(|read| ((at + 1) * part - read * BLOCK, BLOCK)).collect();
    let nowhere = |at: u64| (0..READS).map(|read| (page(seed + at, read) * 4096, 4096)).collect();
    let threads: Vec<Vec<(u64, u64)>> = (0..streams).map(backward).chain((0..strays).map(nowhere)).collect();
    Trace { size: SIZE, shared, threads, ..Trace::default() }
}

fn run(trace: &Trace, (latency_ns, bandwidth): (u64, u64), mode: Mode) -> Outcome {
    let options = MachineOptions {
        latency_ns,
        bandwidth,
        readahead_bytes: 128 << 10,
        memory_bytes: 4 * SIZE,
        request_bytes: 1 << 20,
        request_ns: 0,
    };
    replay(trace, &options, mode)
}

const DEVICES: [(u64, u64); 4] =
    [(1_000_000, 1_000_000_000), (1_000_000, 250_000_000), (5_000_000, 200_000_000), (300_000, 600_000_000)];

#[test]
fn reads_without_order_do_not_wait_for_streams_of_others() {
    let mut late = Vec::new();
    for device in DEVICES {
        for (streams, strays) in [(1, 1), (1, 3), (2, 2), (3, 1)] {
            for seed in [1, 2, 3] {
                let trace = trace(streams, strays, seed, false);
                let (alone, helped) =
                    (run(&trace, device, Mode::AppOnly), run(&trace, device, Mode::Predict));
                let (tail, gain) = (
                    helped.p99_ns as f64 / alone.p99_ns as f64,
                    alone.elapsed_ns as f64 / helped.elapsed_ns as f64,
                );
                println!("{device:?} {streams}+{strays} seed {seed}: p99 x {tail:.3}, gain {gain:.2}");
                // On the nearest one several pieces that end together are a large part of a latency.
                let most = if device.0 < 1_000_000 { 1.2 } else { 1.1 };
                if tail > most {
                    late.push(format!("{device:?} {streams}+{strays} seed {seed}: p99 x {tail:.3}"));
                }
            }
        }
    }
    assert!(late.is_empty(), "{late:#?}");
}
