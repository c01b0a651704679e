//! Bare loops: threads that make system calls and count, and nothing else.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Runs `threads` loops for `seconds`; `make` gives each thread its loop body, which returns the operations that it made.
/// Returns operations per second, all threads together.
pub fn run<B: FnMut() -> u64>(threads: usize, seconds: f64, make: impl Fn(usize) -> B + Sync) -> f64 {
    let (stop, gate) = (AtomicBool::new(false), Barrier::new(threads + 1));
    let work = |thread: usize| {
        let mut body = make(thread);
        gate.wait();
        let start = Instant::now();
        let mut ops = 0;
        while !stop.load(Relaxed) {
            ops += body();
        }
        ops as f64 / start.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        // A file table of their own, as the engine's processes have.
        let leader = scope.spawn(|| {
            // SAFETY: the thread gets a copy of the file table; no memory is affected.
            let _ = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FILES) };
            std::thread::scope(|inner| {
                let others: Vec<_> = (1..threads).map(|thread| inner.spawn(move || work(thread))).collect();
                let own = work(0);
                own + others
                    .into_iter()
                    .map(|thread| thread.join().expect("a bare loop does not panic"))
                    .sum::<f64>()
            })
        });
        gate.wait();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Relaxed);
        leader.join().expect("a bare loop does not panic")
    })
}
