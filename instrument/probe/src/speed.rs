//! How fast the machine is: a chain of additions, each of which needs the one before, and copies in memory.

use std::hint::black_box;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

/// Additions of a piece: 0.01 to 0.1 ms at 3 GHz (each may pass through memory), well below a time slice, so that some piece
/// runs undisturbed, and a thousand times what reading the clock costs.
const PIECE: u32 = 25_000;
/// Pieces; the fastest counts. All of them cost 0.2 to 1.5 ms.
const PIECES: u32 = 15;

/// Additions a second of a dependent chain: the clock frequency, whatever else happens on the machine.
pub fn additions_per_second() -> f64 {
    let fastest = (0..PIECES).map(|_| piece()).min().unwrap_or(Duration::MAX);
    f64::from(PIECE) / fastest.as_secs_f64().max(1e-9)
}

/// Bytes that each thread copies: more than the caches of a processor's core hold.
const COPIED_BYTES: usize = 16 << 20;
/// Rounds of copies; the fastest counts. The first one meets memory that is not there yet.
const COPIES: u32 = 4;
/// Threads that copy at once, at most: some of them use up what the memory gives.
const COPIERS_MAX: usize = 16;

/// Bytes a second that all processors copy in memory, from one place to another. It takes some 50 ms once, and is the same for
/// the life of the process: a load that moves more was served by the processors' caches, or did not touch its bytes.
pub fn copied_bytes_per_second() -> u64 {
    static FOUND: OnceLock<u64> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(COPIERS_MAX);
        // as many as could be started: the kernel may refuse one (ulimit -u, -v)
        let started: OnceLock<Barrier> = OnceLock::new();
        let copy = || {
            let (from, mut to) = (vec![1_u8; COPIED_BYTES], vec![0_u8; COPIED_BYTES]);
            let mut fastest = Duration::MAX;
            let together = loop {
                if let Some(together) = started.get() {
                    break together;
                }
                std::thread::yield_now();
            };
            for _ in 0..COPIES {
                together.wait();
                let begin = Instant::now();
                to.copy_from_slice(black_box(&from));
                black_box(&mut to);
                fastest = fastest.min(begin.elapsed());
            }
            COPIED_BYTES as f64 / fastest.as_secs_f64().max(1e-9)
        };
        std::thread::scope(|scope| {
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, copy).ok();
            let copiers: Vec<_> = (0..threads).filter_map(spawn).collect();
            started.get_or_init(|| Barrier::new(copiers.len().max(1)));
            copiers.into_iter().filter_map(|one| one.join().ok()).sum::<f64>() as u64
        })
    })
}

fn piece() -> Duration {
    let begin = Instant::now();
    let mut sum = 0u64;
    for _ in 0..PIECE {
        // each addition passes through the black box, so that none is left out or taken together
        sum = black_box(sum + 1);
    }
    black_box(sum);
    begin.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_as_fast_as_some_memory() {
        let rate = copied_bytes_per_second();
        assert!((10 << 20..1 << 44).contains(&rate), "{rate}");
        assert_eq!(copied_bytes_per_second(), rate, "it is found once");
    }

    #[test]
    fn a_speed_is_one_that_processors_have() {
        // a tenth of a GHz to ten additions at 10 GHz
        let speed = additions_per_second();
        assert!((1e7..1e11).contains(&speed), "{speed}");
    }
}
