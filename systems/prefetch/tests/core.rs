//! The small core on the simulated machine: what it gains, and what it leaves alone.

use prefetch::Mode;
use prefetch::numbered::{Numbered, parse, rename};
use prefetch::sim::{MachineOptions, Pattern, Trace, replay};
use proptest::prelude::*;

const FAR: MachineOptions = MachineOptions {
    latency_ns: 1_000_000,
    bandwidth: 1_000_000_000,
    readahead_bytes: 128 << 10,
    memory_bytes: 10 << 30,
    request_bytes: 1 << 20,
    request_ns: 0,
};

/// How many times as fast it is with the core.
fn gain(trace: &Trace, options: &MachineOptions) -> f64 {
    let alone = replay(trace, options, Mode::AppOnly).elapsed_ns;
    alone as f64 / replay(trace, options, Mode::Auto).elapsed_ns as f64
}

#[test]
fn what_the_kernel_does_and_what_is_cached_costs_nothing() {
    for pattern in [Pattern::Sequential, Pattern::Hot] {
        let trace = pattern.trace(64 << 20, 1, false, 1);
        let found = gain(&trace, &FAR);
        assert!(found > 0.99, "{pattern:?}: {found}");
    }
}

#[test]
fn points_of_a_big_file_are_not_paid_for_by_fetching_it() {
    for threads in [1, 4] {
        let trace = Pattern::Random4k.trace(1 << 30, threads, false, 3);
        let (alone, with) = (replay(&trace, &FAR, Mode::AppOnly), replay(&trace, &FAR, Mode::Auto));
        assert!(
            with.elapsed_ns < alone.elapsed_ns * 103 / 100,
            "{threads}: {} {}",
            with.elapsed_ns,
            alone.elapsed_ns
        );
    }
}

#[test]
fn a_slow_device_is_no_slower_for_it_and_its_queue_has_a_limit() {
    let slow = MachineOptions { bandwidth: 50_000_000, ..FAR };
    let mut trace = Pattern::Reverse.trace(64 << 20, 2, false, 1);
    // Somebody else reads single pages beside.
    let points = Pattern::Random4k.trace(64 << 20, 1, false, 9).threads.remove(0);
    trace.threads.push(points.into_iter().take(100).collect());
    let (alone, with) = (replay(&trace, &slow, Mode::AppOnly), replay(&trace, &slow, Mode::Auto));
    // Its rate is not known at first: what is asked for in the first epochs queues.
    assert!(with.p99_ns < 30 * alone.p99_ns, "{} {}", with.p99_ns, alone.p99_ns);
    assert!(with.elapsed_ns < alone.elapsed_ns * 103 / 100, "{} {}", with.elapsed_ns, alone.elapsed_ns);
}

#[test]
fn observing_asks_for_nothing() {
    let trace = Pattern::Reverse.trace(64 << 20, 1, false, 1);
    let (alone, seen) = (replay(&trace, &FAR, Mode::AppOnly), replay(&trace, &FAR, Mode::Observe));
    assert_eq!(alone.device_bytes, seen.device_bytes);
    assert!(seen.issued > 0);
}

/// What is fetched when files of these numbers are opened.
fn fetched(numbers: &[u64]) -> Vec<u64> {
    let mut series = Numbered::default();
    numbers.iter().flat_map(|number| series.on_open(7, *number)).collect()
}

#[test]
fn numbers_are_followed_by_several_threads_too() {
    assert_eq!(fetched(&[5, 6]), []);
    assert_eq!(fetched(&[5, 6, 7]), [8]);
    assert_eq!(fetched(&[5, 6, 7, 8, 9, 10]), [8, 9, 10, 11, 12, 13, 14]);
    // Overtaken by one another.
    assert_eq!(fetched(&[6, 5, 8, 7, 9]), [9, 10, 11, 12]);
    assert_eq!(fetched(&[1, 100, 3, 200]), []);
    assert_eq!(fetched(&[4, 4, 4, 4, 4]), []);
}

proptest! {
    #[test]
    fn a_name_gets_its_number_back(prefix in "[a-z.]{0,9}", number in 0u64..1_000_000, suffix in "[a-z.]{0,9}") {
        let name = format!("{prefix}{number:05}{suffix}");
        let (found, _) = parse(1, name.as_bytes()).unwrap();
        prop_assert_eq!(found, number);
        let mut to = [0; 256];
        let len = rename(name.as_bytes(), number, &mut to).unwrap();
        prop_assert_eq!(&to[..len], name.as_bytes());
    }

    #[test]
    fn any_name_is_taken(name in prop::collection::vec(any::<u8>(), 0..300), number in any::<u64>()) {
        let mut to = [0; 256];
        let _ = (parse(1, &name), rename(&name, number, &mut to));
    }

    #[test]
    fn any_trace_is_read_to_its_end(reads in prop::collection::vec((0u64..(64 << 20), 1u64..(2 << 20)), 1..200)) {
        let reads: Vec<_> = reads.into_iter().map(|(offset, len)| (offset, len.min((64 << 20) - offset))).collect();
        let trace = Trace { size: 64 << 20, threads: vec![reads], ..Trace::default() };
        for mode in [Mode::Auto, Mode::Predict, Mode::FetchAll, Mode::Observe] {
            let seen = replay(&trace, &FAR, mode);
            prop_assert!(seen.elapsed_ns > 0);
        }
    }
}

#[test]
fn a_stream_in_what_is_cached_is_let_alone_again() {
    // Read backwards once, then again and again.
    let once = Pattern::Reverse.trace(64 << 20, 1, false, 1).threads.remove(0);
    let again: Vec<_> = (0..8).flat_map(|_| once.iter().copied()).collect();
    let trace = Trace { size: 64 << 20, threads: vec![again], ..Trace::default() };
    let alone = replay(&trace, &MachineOptions { latency_ns: 0, bandwidth: 1 << 40, ..FAR }, Mode::AppOnly);
    let with = replay(&trace, &FAR, Mode::Auto);
    assert!(with.issued <= 65 << 20, "{}", with.issued);
    assert!(with.elapsed_ns < alone.elapsed_ns * 2 + 200_000_000, "{} {}", with.elapsed_ns, alone.elapsed_ns);
}
