//! Do no harm, and gain where the kernel alone does badly: every known pattern on every known device, in virtual time.
//!
//! The bounds are those that the policy keeps to today, cell by cell where it must be, so that a change that costs
//! something is seen. They are no verdict: that is `loadline prefetch harm`, with one rule for all cells, on sets drawn
//! from a seed (`--held-out SEED`) that nobody has chosen constants by. No drawn set stands here.

use prefetch::Mode;
use prefetch::sim::{self, MachineOptions, Pattern, replay};

const DEVICES: [(&str, u64, u64, u64); 8] = [
    ("fast, 18 us, 3.5 GB/s, 8 MiB", 18_000, 3_500_000_000, 8 << 20),
    ("0.1 ms, 3 GB/s, 128 KiB", 100_000, 3_000_000_000, 128 << 10),
    ("1 ms, 1 GB/s, 128 KiB", 1_000_000, 1_000_000_000, 128 << 10),
    ("1 ms, 1 GB/s, 4 MiB", 1_000_000, 1_000_000_000, 4 << 20),
    ("20 ms, 400 MB/s, 128 KiB", 20_000_000, 400_000_000, 128 << 10),
    ("1 ms, 250 MB/s, 128 KiB", 1_000_000, 250_000_000, 128 << 10),
    ("0.3 ms, 600 MB/s, 128 KiB", 300_000, 600_000_000, 128 << 10),
    ("5 ms, 200 MB/s, 128 KiB", 5_000_000, 200_000_000, 128 << 10),
];
/// Those of the matrix; the others were held out until the policy was changed by what they showed.
const MATRIX: usize = 6;
const SIZE: u64 = 256 << 20;

fn options(device: usize, memory_percent: u64) -> MachineOptions {
    let (_, latency_ns, bandwidth, readahead_bytes) = DEVICES[device];
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

fn gain(pattern: Pattern, device: usize, threads: usize, shared: bool, memory: u64, mode: Mode) -> f64 {
    gain_of(SIZE, pattern, device, threads, shared, memory, mode)
}

fn gain_of(
    size: u64,
    pattern: Pattern,
    device: usize,
    threads: usize,
    shared: bool,
    memory: u64,
    mode: Mode,
) -> f64 {
    gain_and_p99(size, pattern, device, (threads, shared), memory, mode).0
}

fn gain_and_p99(
    size: u64,
    pattern: Pattern,
    device: usize,
    (threads, shared): (usize, bool),
    memory: u64,
    mode: Mode,
) -> (f64, f64) {
    let trace = pattern.trace(size, threads, shared, 7);
    let alone = replay(&trace, &options(device, memory), Mode::AppOnly);
    let helped = replay(&trace, &options(device, memory), mode);
    // With 0.1 ms of grace, which the verdict does not have.
    let late = helped.p99_ns.saturating_sub(100_000).max(helped.p99_ns.min(alone.p99_ns));
    (alone.elapsed_ns as f64 / helped.elapsed_ns as f64, late as f64 / alone.p99_ns as f64)
}

#[test]
fn no_cell_is_slower() {
    let mut worst: Vec<(f64, String)> = Vec::new();
    let mut tails: Vec<(f64, String)> = Vec::new();
    for pattern in Pattern::ALL {
        for (device, (name, ..)) in DEVICES.into_iter().enumerate().take(MATRIX) {
            for (threads, shared) in [(1, false), (4, false), (4, true)] {
                for memory in [1000, 75, 50, 25] {
                    let (gain, p99) =
                        gain_and_p99(SIZE, pattern, device, (threads, shared), memory, Mode::Auto);
                    let cell = format!("{pattern:?} {} x{threads} shared={shared} {memory}%", name);
                    worst.push((gain, cell.clone()));
                    tails.push((p99, cell));
                }
            }
        }
    }
    worst.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (gain, cell) in worst.iter().take(30) {
        println!("{gain:.3} {cell}");
    }
    tails.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (p99, cell) in tails.iter().filter(|(p99, _)| *p99 > 1.1) {
        println!("p99 x {p99:.2} {cell}");
    }
    let bad: Vec<_> = worst.iter().filter(|(gain, cell)| *gain < floor(cell)).collect();
    assert!(bad.is_empty(), "{} of {} cells lose: {bad:#?}", bad.len(), worst.len());
    let losing = worst.iter().filter(|(gain, _)| *gain < 0.97).count();
    assert!(losing <= 3, "{losing} cells are below 0.97");
    let slow: Vec<_> = tails.iter().filter(|(p99, cell)| *p99 > ceiling(cell)).collect();
    assert!(slow.is_empty(), "single reads take longer: {slow:#?}");
}

/// What a cell may lose. Ski rental may pay for what is then not read, and the first of many short runs is taken for
/// a long one.
fn floor(cell: &str) -> f64 {
    match cell.split(' ').next().unwrap() {
        "Random4k" => 0.95,
        "Runs" => 0.94,
        _ => 0.97,
    }
}

/// How much longer the slowest hundredth of the reads may take, 0.1 ms aside. In these runs of a few hundred to four
/// thousand reads that includes those beside which prefetching begins.
fn ceiling(cell: &str) -> f64 {
    match cell {
        // Two of 200 reads are the slowest hundredth.
        _ if cell.starts_with("Sparse 1 ms, 250 MB/s") => 1.55,
        // Reads of 64 KiB: what of them is latency and what bandwidth is not known.
        _ if cell.starts_with("Permutation 1 ms, 250 MB/s") => 1.45,
        _ if cell.contains("250 MB/s") || cell.starts_with("Runs 1 ms, 1 GB/s, 4 MiB") => 1.3,
        _ if cell.contains("20 ms") => 1.23,
        _ => 1.15,
    }
}

#[test]
fn streams_that_take_turns_leave_no_read_behind() {
    for pattern in [Pattern::Reverse, Pattern::SmallStride, Pattern::Interleaved] {
        let (gain, p99) = gain_and_p99(SIZE, pattern, 2, (4, false), 1000, Mode::Auto);
        assert!(p99 <= 1.0, "{pattern:?}: {p99:.2}, gain {gain:.2}");
    }
}

#[test]
fn small_pieces_queue_no_more_than_long_ones_where_a_request_costs_more_than_its_bytes() {
    // 28 us a request: four threads keep three quarters of that busy, and there is hardly anything to gain.
    let busy = MachineOptions { latency_ns: 150_000, request_ns: 28_000, ..options(1, 1000) };
    // Here there is.
    let far = MachineOptions { latency_ns: 300_000, bandwidth: 600_000_000, request_ns: 10_000, ..busy };
    for (options, least) in [(busy, 0.99), (far, 2.0)] {
        for jitter_ns in [0, 50_000, 150_000, 400_000] {
            let trace = sim::Trace { jitter_ns, ..Pattern::SmallStride.trace(SIZE, 4, false, 7) };
            let alone = replay(&trace, &options, Mode::AppOnly);
            let helped = replay(&trace, &options, Mode::Auto);
            let gain = alone.elapsed_ns as f64 / helped.elapsed_ns as f64;
            let (usual, late) = (alone.p99_ns, helped.p99_ns);
            assert!(gain >= least && late <= usual + 150_000, "{jitter_ns}: {gain:.2}, {usual} to {late}");
        }
    }
}

#[test]
fn prefetching_begins_without_a_burst() {
    // 816 reads, on a device that the program keeps busy for the most part: eight late ones are too many.
    for (seed, jitter_ns) in [(7, 0), (8, 50_000), (9, 150_000), (10, 400_000)] {
        let trace = sim::Trace { jitter_ns, ..Pattern::Stride.trace(SIZE, 4, false, seed) };
        let alone = replay(&trace, &options(5, 1000), Mode::AppOnly);
        let helped = replay(&trace, &options(5, 1000), Mode::Auto);
        let gain = alone.elapsed_ns as f64 / helped.elapsed_ns as f64;
        let p99 = helped.p99_ns as f64 / alone.p99_ns as f64;
        assert!(gain >= 1.1 && p99 <= 1.25, "{jitter_ns}: {gain:.2}, p99 x {p99:.2}");
    }
}

#[test]
fn a_device_that_the_program_keeps_busy_is_left_to_it() {
    let options = MachineOptions {
        latency_ns: 1_000_000,
        bandwidth: 100_000_000,
        readahead_bytes: 128 << 10,
        memory_bytes: 10 * SIZE,
        request_bytes: 1 << 20,
        request_ns: 0,
    };
    for pattern in [Pattern::Reverse, Pattern::Stride, Pattern::Interleaved] {
        let trace = pattern.trace(SIZE, 4, false, 7);
        let alone = replay(&trace, &options, Mode::AppOnly);
        let helped = replay(&trace, &options, Mode::Auto);
        assert!(helped.issued < SIZE / 8, "{pattern:?}: {} of {SIZE} prefetched", helped.issued);
        assert!(helped.elapsed_ns as f64 <= alone.elapsed_ns as f64 * 1.02, "{pattern:?}");
    }
}

#[test]
fn threads_of_one_descriptor_gain_though_they_drift_apart() {
    // At some jitters they lose their order for good; which ones these are is chance.
    let gain = |step: u64| {
        let trace = sim::Trace { jitter_ns: step * 100_000, ..Pattern::Interleaved.trace(SIZE, 4, true, 7) };
        let alone = replay(&trace, &options(2, 1000), Mode::AppOnly);
        let helped = replay(&trace, &options(2, 1000), Mode::Auto);
        alone.elapsed_ns as f64 / helped.elapsed_ns as f64
    };
    let gains: Vec<f64> = (1..=40).map(gain).collect();
    let lost = gains.iter().filter(|gain| **gain < 3.5).count();
    assert!(lost <= 12, "{lost} of 40: {gains:.2?}");
}

#[test]
fn predicting_alone_never_loses_but_on_runs() {
    for pattern in Pattern::ALL.into_iter().filter(|pattern| *pattern != Pattern::Runs) {
        for (device, (name, ..)) in DEVICES.into_iter().enumerate().take(MATRIX) {
            for memory in [1000, 50, 25] {
                let gain = gain(pattern, device, 4, false, memory, Mode::Predict);
                assert!(gain >= 0.97, "{gain:.3} {pattern:?} {} {memory}%", name);
            }
        }
    }
}

/// Three of four gaps are the same by chance often enough: what is prefetched for that is bandwidth lost.
#[test]
fn a_forward_reader_that_leaves_blocks_out_has_no_stride() {
    for device in [5, 6, 7] {
        for seed in 1..=12 {
            let trace = Pattern::Gaps.trace(SIZE, 4, false, seed);
            let alone = replay(&trace, &options(device, 1000), Mode::AppOnly);
            let helped = replay(&trace, &options(device, 1000), Mode::Predict);
            let gain = alone.elapsed_ns as f64 / helped.elapsed_ns as f64;
            let p99 = helped.p99_ns as f64 / alone.p99_ns as f64;
            let issued = helped.issued as f64 / alone.device_bytes as f64;
            assert!(
                gain >= 0.98 && p99 <= 1.15 && issued <= 0.1,
                "{}, seed {seed}: {gain:.3}, p99 x {p99:.2}, prefetched {issued:.3} of what was read",
                DEVICES[device].0
            );
        }
    }
}

#[test]
fn orders_that_change_or_leave_something_out_lose_nothing() {
    for pattern in Pattern::UNEVEN {
        for (device, (name, ..)) in DEVICES.into_iter().enumerate() {
            for (threads, shared) in [(1, false), (4, false), (4, true)] {
                let (gain, p99) = gain_and_p99(SIZE, pattern, device, (threads, shared), 1000, Mode::Auto);
                let cell = format!("{pattern:?} {name} x{threads} shared={shared}");
                // Shared descriptors whose order changes: what is believed of the device then belongs to the order before.
                let least = match (pattern, shared) {
                    (Pattern::PingPong | Pattern::Phases, true) => 0.91,
                    _ => 0.96,
                };
                assert!(gain >= least, "{gain:.3} {cell}");
                // Two streams a thread, eight in all: on a device that is busy already reads wait for their pieces in
                // turns until the trial has ended it. Reads without order wait for what is fetched beside them.
                let most = match (pattern, threads) {
                    (Pattern::TwoStrides, 4) => 2.8,
                    (Pattern::Phases, 4) => 2.2,
                    // Where steps are paced, more of them run beside its reads.
                    (Pattern::Gaps, _) if name.starts_with("5 ms") => 1.4,
                    _ => 1.3,
                };
                assert!(p99 <= most, "p99 x {p99:.2} {cell}");
            }
        }
    }
}

#[test]
fn stride_reverse_and_interleaved_gain_on_a_far_device() {
    for pattern in [Pattern::Stride, Pattern::Reverse, Pattern::SmallStride] {
        let gain = gain_of(4 * SIZE, pattern, 2, 4, false, 4000, Mode::Auto);
        // Four threads alone reach a quarter of the device: 62 MB/s each.
        assert!(gain >= 3.8, "{pattern:?}: {gain:.2}");
        let one = gain_of(4 * SIZE, pattern, 2, 1, false, 4000, Mode::Auto);
        assert!(one >= 8.0, "{pattern:?}, one thread: {one:.2}");
    }
    for shared in [true, false] {
        let gain = gain_of(4 * SIZE, Pattern::Interleaved, 2, 4, shared, 4000, Mode::Auto);
        assert!(gain >= 3.8, "interleaved, shared {shared}: {gain:.2}");
    }
}

#[test]
fn twenty_milliseconds_gain_more() {
    let sequential = gain(Pattern::Sequential, 4, 1, false, 1000, Mode::Auto);
    assert!(sequential >= 5.0, "{sequential:.2}");
    let four = gain(Pattern::Sequential, 4, 4, false, 1000, Mode::Auto);
    assert!(four >= 5.0, "four threads: {four:.2}");
    let stride = gain(Pattern::Stride, 4, 4, false, 1000, Mode::Auto);
    assert!(stride >= 10.0, "{stride:.2}");
}

#[test]
fn the_rest_of_a_read_ahead_is_no_latency() {
    // The first read that is seen waits for the second half of what the kernel read ahead in the one before.
    let trace = sim::Trace { unseen: 2, ..Pattern::Sequential.trace(SIZE, 4, false, 7) };
    let options = MachineOptions { request_bytes: 64 << 10, ..options(4, 1000) };
    let alone = replay(&trace, &options, Mode::AppOnly);
    let helped = replay(&trace, &options, Mode::Auto);
    let gain = alone.elapsed_ns as f64 / helped.elapsed_ns as f64;
    assert!(gain >= 4.0, "{gain:.2}");
}

#[test]
fn a_permutation_is_fetched_whole_once_that_pays() {
    let gain = gain(Pattern::Permutation, 2, 1, false, 1000, Mode::Auto);
    assert!(gain >= 4.0, "{gain:.2}");
    let predict = self::gain(Pattern::Permutation, 2, 1, false, 1000, Mode::Predict);
    assert!((0.97..1.1).contains(&predict), "{predict:.2}");
}

#[test]
fn observing_changes_nothing_and_foresees_the_gain() {
    let trace = Pattern::Reverse.trace(SIZE, 1, false, 7);
    let alone = replay(&trace, &options(2, 1000), Mode::AppOnly);
    let observed = replay(&trace, &options(2, 1000), Mode::Observe);
    assert_eq!(alone.device_bytes, observed.device_bytes);
    assert!(observed.elapsed_ns <= alone.elapsed_ns + 200 * 2100);
    let helped = replay(&trace, &options(2, 1000), Mode::Auto);
    let real = alone.elapsed_ns - helped.elapsed_ns;
    let foreseen = observed.saved_ns;
    assert!(foreseen > real / 2 && foreseen < real * 2, "foreseen {foreseen}, real {real}");
}

#[test]
fn reads_of_parts_of_a_page_gain_as_well() {
    // Most of them lie in the page of the one before, which says nothing of whether the stream misses.
    for len in [128, 512, 1024] {
        let reads = (1..=(4 << 20) / len).map(|read| (SIZE - read * len, len)).collect();
        let trace = sim::Trace { size: SIZE, threads: vec![reads], ..sim::Trace::default() };
        let run = |mode| replay(&trace, &options(2, 1000), mode).elapsed_ns;
        let gain = run(Mode::AppOnly) as f64 / run(Mode::Auto) as f64;
        assert!(gain > 20.0, "{len} bytes backward: {gain:.2}");
    }
}
