//! Do no harm, and gain where the kernel alone does badly: known patterns on known devices, in virtual time.
//!
//! The bounds are those that the policy keeps to today. They are no verdict: that is `loadline prefetch harm`, with one rule
//! for all cells, on sets drawn from a seed (`--held-out SEED`) that nobody has chosen constants by. No drawn set stands here.

use prefetch::Mode;
use prefetch::sim::{MachineOptions, Pattern, Trace, replay};

const SIZE: u64 = 256 << 20;

/// A device: name, latency (ns), bandwidth (bytes/s), the kernel's window (bytes).
type Named = (&'static str, u64, u64, u64);

const DEVICES: [Named; 8] = [
    ("fast, 18 us, 3.5 GB/s, 8 MiB", 18_000, 3_500_000_000, 8 << 20),
    ("0.1 ms, 3 GB/s, 128 KiB", 100_000, 3_000_000_000, 128 << 10),
    ("1 ms, 1 GB/s, 128 KiB", 1_000_000, 1_000_000_000, 128 << 10),
    ("1 ms, 1 GB/s, 4 MiB", 1_000_000, 1_000_000_000, 4 << 20),
    ("20 ms, 400 MB/s, 128 KiB", 20_000_000, 400_000_000, 128 << 10),
    ("1 ms, 250 MB/s, 128 KiB", 1_000_000, 250_000_000, 128 << 10),
    ("0.3 ms, 600 MB/s, 128 KiB", 300_000, 600_000_000, 128 << 10),
    ("5 ms, 200 MB/s, 128 KiB", 5_000_000, 200_000_000, 128 << 10),
];

fn options((_, latency_ns, bandwidth, readahead_bytes): Named, memory_percent: u64) -> MachineOptions {
    let memory_bytes = SIZE / 100 * memory_percent;
    MachineOptions {
        latency_ns,
        bandwidth,
        readahead_bytes,
        memory_bytes,
        request_bytes: 1 << 20,
        request_ns: 0,
    }
}

/// How many times as fast, and how many times as long the slowest hundredth of the reads takes.
fn gain_and_p99(trace: &Trace, options: &MachineOptions, mode: Mode) -> (f64, f64) {
    let (alone, helped) = (replay(trace, options, Mode::AppOnly), replay(trace, options, mode));
    (alone.elapsed_ns as f64 / helped.elapsed_ns as f64, helped.p99_ns as f64 / alone.p99_ns as f64)
}

/// The cells of patterns, devices, threads and memory that are harmed: over 3 % slower; or p99 over 1.1 times as long and no
/// tenth faster. And how many there are.
fn harmed(patterns: &[Pattern], mode: Mode) -> (Vec<String>, usize) {
    let (mut found, mut cells) = (Vec::new(), 0);
    for pattern in patterns {
        for device in DEVICES {
            for threads in [1, 4] {
                let trace = pattern.trace(SIZE, threads, false, 7);
                for memory in [1000, 50, 25] {
                    let (gain, p99) = gain_and_p99(&trace, &options(device, memory), mode);
                    cells += 1;
                    if gain < 0.97 || p99 > 1.1 && gain < 1.1 {
                        found.push(format!(
                            "{gain:.2}, p99 x {p99:.2}: {pattern:?} x{threads}, {}, {memory}%",
                            device.0
                        ));
                    }
                }
            }
        }
    }
    (found, cells)
}

#[test]
fn few_cells_are_harmed() {
    let (found, cells) = harmed(&Pattern::ALL, Mode::Auto);
    assert!(found.len() * 100 <= cells * 5, "{} of {cells}: {found:#?}", found.len());
    let (found, cells) = harmed(&Pattern::UNEVEN, Mode::Auto);
    assert!(found.len() * 100 <= cells * 10, "{} of {cells}: {found:#?}", found.len());
}

#[test]
fn observing_harms_nothing() {
    assert_eq!(harmed(&Pattern::ALL, Mode::Observe).0, Vec::<String>::new());
}

#[test]
fn orders_that_the_kernel_does_not_know_gain_on_a_far_device() {
    for (pattern, threads, least) in [
        (Pattern::Reverse, 1, 8.0),
        (Pattern::Reverse, 4, 3.5),
        (Pattern::Stride, 1, 8.0),
        (Pattern::Stride, 4, 3.4),
        (Pattern::SmallStride, 4, 3.5),
        (Pattern::Interleaved, 4, 3.5),
        (Pattern::Scattered, 1, 20.0),
        (Pattern::Scattered, 4, 4.0),
    ] {
        let (gain, _) =
            gain_and_p99(&pattern.trace(SIZE, threads, false, 7), &options(DEVICES[2], 1000), Mode::Auto);
        assert!(gain > least, "{pattern:?} by {threads}: {gain:.2}");
    }
}

#[test]
fn forward_reads_of_a_far_device_gain() {
    for threads in [1, 4] {
        let trace = Pattern::Sequential.trace(SIZE, threads, false, 7);
        let (gain, _) = gain_and_p99(&trace, &options(DEVICES[4], 1000), Mode::Auto);
        assert!(gain > 4.0, "{threads}: {gain:.2}");
    }
}

#[test]
fn a_device_that_the_program_keeps_busy_is_left_to_it() {
    let busy = ("1 ms, 100 MB/s", 1_000_000, 100_000_000, 128 << 10);
    for pattern in [Pattern::Reverse, Pattern::Stride, Pattern::Interleaved] {
        let trace = pattern.trace(SIZE, 4, false, 7);
        let helped = replay(&trace, &options(busy, 1000), Mode::Auto);
        assert!(helped.issued < SIZE / 8, "{pattern:?}: {} of {SIZE} prefetched", helped.issued);
    }
}

#[test]
fn observing_changes_nothing_and_foresees_the_gain() {
    let trace = Pattern::Reverse.trace(SIZE, 1, false, 7);
    let run = |mode| replay(&trace, &options(DEVICES[2], 1000), mode);
    let (alone, observed) = (run(Mode::AppOnly), run(Mode::Observe));
    assert_eq!(alone.device_bytes, observed.device_bytes);
    let real = alone.elapsed_ns - run(Mode::Auto).elapsed_ns;
    let foreseen = observed.saved_ns;
    assert!(foreseen > real / 2 && foreseen < real * 2, "foreseen {foreseen}, real {real}");
}

#[test]
fn reads_of_parts_of_a_page_gain_as_well() {
    for len in [128, 512, 1024] {
        let reads = (1..=(4 << 20) / len).map(|read| (SIZE - read * len, len)).collect();
        let trace = Trace { size: SIZE, threads: vec![reads], ..Trace::default() };
        let (gain, _) = gain_and_p99(&trace, &options(DEVICES[2], 1000), Mode::Auto);
        assert!(gain > 10.0, "{len} bytes backward: {gain:.2}");
    }
}
