//! A small load that is always the same: how fast the machine is just now, whatever stack is under test.
//!
//! Noise has structure from 10 ms to 5 s, so that pieces before and after a trial say more than one long piece. A round is
//! what storage loads do to a processor, without a device: a system call, a copy of 64 KiB, a read of 4 KiB from memory.
//! One thread for each processor.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Pieces on each side of a trial.
pub const PIECES: u32 = 5;
/// Length of a piece.
pub const PIECE: Duration = Duration::from_millis(10);
/// Threads at most.
const THREADS_MAX: usize = 64;
const COPY_BYTES: usize = 64 << 10;
const READ_BYTES: usize = 4 << 10;

/// Rounds and seconds of some pieces.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rounds {
    /// Rounds of all threads.
    pub rounds: u64,
    /// Seconds of all threads.
    pub seconds: f64,
}

impl Rounds {
    /// With some more.
    pub fn and(self, more: Rounds) -> Rounds {
        Rounds { rounds: self.rounds + more.rounds, seconds: self.seconds + more.seconds }
    }

    /// Rounds a second of a thread; `None` without any.
    pub fn per_second(self) -> Option<f64> {
        (self.rounds > 0 && self.seconds > 0.0).then(|| self.rounds as f64 / self.seconds)
    }
}

/// [`PIECES`] pieces now, on every processor that this process may use; nothing where the kernel gives no file in memory.
pub fn pieces() -> Rounds {
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX));
    let measure = || (0..PIECES).map(|_| piece()).try_fold(Rounds::default(), |sum, one| Some(sum.and(one?)));
    std::thread::scope(|scope| {
        // one that the kernel refuses (ulimit -u, -v) measures nothing
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, measure).ok();
        let started: Vec<_> = (0..threads).filter_map(spawn).collect();
        let done = started.into_iter().filter_map(|thread| thread.join().ok().flatten());
        done.fold(Rounds::default(), Rounds::and)
    })
}

fn piece() -> Option<Rounds> {
    let memory = rustix::fs::memfd_create("yardstick", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    let file = File::from(memory);
    file.set_len(READ_BYTES as u64).ok()?;
    let (from, mut to, mut read) = (vec![1_u8; COPY_BYTES], vec![0_u8; COPY_BYTES], [0_u8; READ_BYTES]);
    let begin = Instant::now();
    let mut rounds = 0;
    while begin.elapsed() < PIECE {
        black_box(rustix::process::getppid());
        to.copy_from_slice(black_box(&from));
        black_box(&to);
        file.read_exact_at(&mut read, 0).ok()?;
        black_box(&read);
        rounds += 1;
    }
    Some(Rounds { rounds, seconds: begin.elapsed().as_secs_f64() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_add_up_to_a_speed() {
        let one = pieces();
        let speed = one.per_second().unwrap();
        // a system call, a copy and a read take between 100 ns and 10 ms, also on a busy machine
        assert!((100.0..1e7).contains(&speed), "{speed}");
        assert_eq!(one.and(one).per_second(), Some(speed));
        assert_eq!(Rounds::default().per_second(), None);
    }
}
