//! A beat for processors whose threads wait for one file.
//!
//! Threads that append to one file queue for the kernel's lock of its inode, which its holder keeps while a WRITE is on
//! its way. A lock given back is handed to the thread that has waited longest. That one is put on the processor of the
//! one before, which does not leave it: it goes on, comes to its own next write, and spins for the lock that is kept for
//! the thread behind it, until the next tick of the clock (4 ms with HZ=250). One processor is idle meanwhile. A thread
//! that wakes there often, with a high priority, has the scheduler look again: the spinning one then gives way.
//!
//! So: while threads take turns at writing to a file, such a thread runs on each processor from which they write.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use host::class::{self, Class};

use crate::small;

/// How often the thread wakes: a web server's threads come to their next append in some 0.1 ms; each wake-up costs some 5 us.
const PERIOD: Duration = Duration::from_micros(200);
/// So many turns on a processor start its beat. Less is over before it would help.
const TURNS_TO_START: u64 = 16;
/// A beat ends after so many of its periods without a turn: 50 ms.
const QUIET_PERIODS: u32 = 250;
/// Files whose last writer is known.
const FILES: usize = 64;

#[derive(Debug, Default)]
struct Cpu {
    /// Writes by another thread than the one before.
    turns: AtomicU64,
    beats: AtomicBool,
}

/// Finds threads that take turns, and keeps the beat for them.
#[derive(Debug)]
pub struct PreemptionTicker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Of each file of the same number modulo [`FILES`]: half of its inode's number, and who wrote last.
    last: [AtomicU64; FILES],
    cpus: Vec<Cpu>,
    stop: AtomicBool,
    /// The system gives no thread, or not the priority: nobody tries again.
    refused: AtomicBool,
}

impl PreemptionTicker {
    /// For processors 0 to `cpus` - 1.
    pub fn new(cpus: usize) -> PreemptionTicker {
        let cpus = (0..cpus).map(|_| Cpu::default()).collect();
        let last = [const { AtomicU64::new(0) }; FILES];
        let (stop, refused) = (AtomicBool::new(false), AtomicBool::new(false));
        PreemptionTicker { shared: Arc::new(Shared { last, cpus, stop, refused }) }
    }

    /// To be called for each write to `ino` by the thread `writer` of the kernel's, on the processor where it was made.
    pub fn wrote(&self, ino: u64, writer: u32) {
        if self.shared.is_turn(ino, writer) {
            self.turn(sched_getcpu());
        }
    }

    fn turn(&self, number: usize) {
        let Some(cpu) = self.shared.cpus.get(number) else { return };
        let turns = cpu.turns.fetch_add(1, Ordering::Relaxed) + 1;
        let starts = turns.is_multiple_of(TURNS_TO_START) && !self.shared.refused.load(Ordering::Relaxed);
        if starts && !cpu.beats.swap(true, Ordering::AcqRel) {
            let shared = self.shared.clone();
            if small::start(format!("fuse-beat{number}"), move || shared.beat(number)).is_err() {
                self.shared.refused.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Shared {
    /// Whether another thread than the last one writes to a file.
    fn is_turn(&self, ino: u64, writer: u32) -> bool {
        let file = &self.last[ino as usize % FILES];
        let now = ino << 32 | u64::from(writer);
        // Who appends many times on end changes nothing that others would have to fetch.
        let before = file.load(Ordering::Relaxed);
        if before == now {
            return false;
        }
        file.store(now, Ordering::Relaxed);
        before >> 32 == now >> 32
    }

    /// Beats until nobody takes turns on this processor.
    fn beat(&self, number: usize) {
        let cpu = &self.cpus[number];
        if prepare(number).is_err() {
            self.refused.store(true, Ordering::Relaxed);
        } else {
            let (mut seen, mut quiet) = (cpu.turns.load(Ordering::Relaxed), 0);
            while quiet < QUIET_PERIODS && !self.stop.load(Ordering::Relaxed) {
                std::thread::sleep(PERIOD);
                let turns = cpu.turns.load(Ordering::Relaxed);
                quiet = if turns == seen { quiet + 1 } else { 0 };
                seen = turns;
            }
        }
        cpu.beats.store(false, Ordering::Release);
    }
}

/// Puts this thread on a processor, before all that computes there.
fn prepare(number: usize) -> io::Result<()> {
    class::set(0, Class::RealTime)?;
    let mut here = CpuSet::new();
    here.set(number);
    Ok(sched_setaffinity(None, &here)?)
}

impl Drop for PreemptionTicker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(writes: &[(u64, u32)]) -> usize {
        let beat = PreemptionTicker::new(1);
        writes.iter().filter(|(ino, writer)| beat.shared.is_turn(*ino, *writer)).count()
    }

    #[test]
    fn only_threads_that_follow_each_other_at_a_file_take_turns() {
        assert_eq!(turns(&[(5, 1), (5, 1), (5, 1)]), 0, "one thread");
        assert_eq!(turns(&[(5, 1), (6, 2), (5, 1), (6, 2)]), 0, "a file each");
        assert_eq!(turns(&[(5, 1), (5, 2), (5, 2), (5, 1)]), 2);
        assert_eq!(turns(&[(5, 1), (5 + FILES as u64, 2), (5, 1)]), 0, "two files with one place");
    }

    fn beats(beat: &PreemptionTicker, cpu: usize) -> bool {
        beat.shared.cpus[cpu].beats.load(Ordering::Acquire)
    }

    #[test]
    fn a_beat_begins_with_turns_on_its_processor_and_ends_without() {
        let beat = PreemptionTicker::new(2);
        for _ in 1..TURNS_TO_START {
            beat.turn(1);
        }
        assert!(!beats(&beat, 1));
        beat.turn(1);
        assert!(!beats(&beat, 0), "nobody takes turns there");
        beat.turn(7);
        while beats(&beat, 1) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_mount_that_ends_ends_its_beats() {
        let beat = PreemptionTicker::new(1);
        let shared = beat.shared.clone();
        shared.cpus[0].beats.store(true, Ordering::Release);
        let running = {
            let shared = shared.clone();
            std::thread::spawn(move || shared.beat(0))
        };
        drop(beat);
        running.join().expect("a thread");
        assert!(!shared.cpus[0].beats.load(Ordering::Acquire));
    }
}
