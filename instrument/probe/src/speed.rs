//! How fast the processor runs: a chain of additions, each of which needs the one before.

use std::hint::black_box;
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
    fn a_speed_is_one_that_processors_have() {
        // a tenth of a GHz to ten additions at 10 GHz
        let speed = additions_per_second();
        assert!((1e7..1e11).contains(&speed), "{speed}");
    }
}
