//! Whether prefetching pays, by trial: the program's own reads without it and with it, in turns.
//!
//! The first reads of a device, before anything is prefetched, are compared with the first ones after. Where those
//! are twice as fast, nothing else is asked for a long time. Elsewhere (a device that the program keeps busy by
//! itself, a fast disk) prefetching is held back for some reads, and what they took is compared with the reads
//! after them: it goes on if it brings bytes faster and single reads do not take longer. Otherwise it rests, each time
//! twice as long. A comparison costs some two hundred reads at the worse of both speeds.

use crate::experiment::{Experiment, Terms};
use crate::model::rate;
use crate::tuning::T;
use crate::waits::Recent;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use Ordering::{Acquire, Relaxed, Release};

/// Prefetching that brings so many times the bytes is good without a trial.
const PLAIN: u64 = 2;

/// What the reads of the device are counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was prefetched yet.
    First = 0,
    /// Prefetching, not counted yet.
    Ramp = 1,
    /// Prefetching, counted.
    With = 2,
    /// Held back, not counted yet.
    Drain = 3,
    /// Held back, counted.
    Alone = 4,
    /// Found good.
    Good = 5,
    /// Found bad.
    Bad = 6,
}

impl Phase {
    fn of(number: u32) -> Phase {
        [Phase::First, Phase::Ramp, Phase::With, Phase::Drain, Phase::Alone, Phase::Good, Phase::Bad]
            .into_iter()
            .find(|phase| *phase as u32 == number)
            .unwrap_or(Phase::First)
    }
}

/// One read.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// When it ended, ns.
    pub now_ns: u64,
    /// How long it took, ns.
    pub elapsed_ns: u64,
    /// Bytes.
    pub bytes: u64,
    /// The least that it would have taken where the kernel does not read ahead either, ns; 0 where it may.
    pub alone_ns: u64,
}

shared! {
    /// Reads that were counted.
    struct Reads {
        count: AtomicU32,
        bytes: AtomicU64,
        begin_ns: AtomicU64,
        end_ns: AtomicU64,
        /// What they took, and would have taken at least without prefetching, ns.
        spent_ns: AtomicU64,
        alone_ns: AtomicU64,
        /// What the latest of them took, ns.
        times: Recent<128>,
    }
}

impl Reads {
    fn clear(&self) {
        let sums = [&self.bytes, &self.begin_ns, &self.end_ns, &self.spent_ns, &self.alone_ns];
        sums.iter().for_each(|number| number.store(0, Relaxed));
        self.count.store(0, Relaxed);
        self.times.clear();
    }

    fn add(&self, read: &Sample) {
        self.count.store(self.count.load(Relaxed).saturating_add(1), Relaxed);
        let sums =
            [(&self.bytes, read.bytes), (&self.spent_ns, read.elapsed_ns), (&self.alone_ns, read.alone_ns)];
        sums.iter().for_each(|(sum, more)| sum.store(sum.load(Relaxed).saturating_add(*more), Relaxed));
        let start = read.now_ns.saturating_sub(read.elapsed_ns);
        let begin = self.begin_ns.load(Relaxed);
        if begin == 0 || start < begin {
            self.begin_ns.store(start.max(1), Relaxed);
        }
        self.end_ns.store(self.end_ns.load(Relaxed).max(read.now_ns), Relaxed);
        self.times.note(read.elapsed_ns);
    }

    /// Bytes/s.
    fn rate(&self) -> u64 {
        let elapsed_ns = self.end_ns.load(Relaxed).saturating_sub(self.begin_ns.load(Relaxed));
        rate(self.bytes.load(Relaxed), elapsed_ns)
    }

    /// Whether they took a small part of what they would have taken, whatever was read before.
    fn is_plainly_faster(&self) -> bool {
        let spent_ns = self.spent_ns.load(Relaxed);
        spent_ns > 0 && spent_ns.saturating_mul(PLAIN.pow(2)) <= self.alone_ns.load(Relaxed)
    }
}

shared! {
    /// The trial of a device.
    pub struct Trial {
        busy: AtomicBool,
        phase: AtomicU32,
        /// Reads of this phase.
        reads: AtomicU32,
        /// When its first one ended, ns.
        begun_ns: AtomicU64,
        round: AtomicU32,
        /// Found good or bad, it rests for some reads until it is looked at again.
        rests: Experiment = Experiment::new(Terms {
            losses: 1,
            least: T::REST_READS as u64,
            most: 256 * T::REST_READS as u64,
        }),
        alone: Reads,
        with: Reads,
    }
}

impl Trial {
    fn phase(&self) -> Phase {
        Phase::of(self.phase.load(Relaxed))
    }

    /// Whether nothing is to be asked for at present.
    pub fn holds(&self) -> bool {
        matches!(self.phase(), Phase::Drain | Phase::Alone | Phase::Bad)
    }

    /// Whether streams are not even to be begun.
    pub fn is_bad(&self) -> bool {
        self.phase() == Phase::Bad
    }

    /// Counts a read of a stream that misses or is prefetched (`active`: some are), of a device of so much latency.
    /// Reads that come while another one is counted are left out.
    pub fn count(&self, read: &Sample, active: bool, latency_ns: u64) {
        if self.busy.swap(true, Acquire) {
            return;
        }
        let reads = self.reads.load(Relaxed).saturating_add(1);
        self.reads.store(reads, Relaxed);
        if reads == 1 {
            self.begun_ns.store(read.now_ns, Relaxed);
        }
        let lasted_ns = read.now_ns.saturating_sub(self.begun_ns.load(Relaxed));
        let long = lasted_ns >= latency_ns.saturating_mul(8);
        match self.phase() {
            Phase::First if active => self.enter(Phase::Ramp),
            Phase::First => {
                if self.alone.count.load(Relaxed) >= 4 * T::TRIAL_READS {
                    self.alone.clear();
                }
                self.alone.add(read);
            }
            Phase::Ramp if reads >= T::TRIAL_READS / 2 && long => self.enter(Phase::With),
            Phase::With => {
                self.with.add(read);
                if reads >= T::TRIAL_READS && long {
                    self.compare();
                }
            }
            Phase::Drain if reads >= T::TRIAL_READS / 2 => self.enter(Phase::Alone),
            Phase::Alone => {
                self.alone.add(read);
                if reads >= T::TRIAL_READS {
                    self.enter(Phase::Ramp);
                }
            }
            Phase::Good | Phase::Bad if !self.rests.rests(u64::from(reads)) => {
                // What was good is measured again before anything is held back, what was bad has been held back.
                let good = self.phase() == Phase::Good;
                self.round.store(u32::from(!good), Relaxed);
                self.with.clear();
                if !good {
                    self.alone.clear();
                }
                self.enter(if good { Phase::With } else { Phase::Alone });
            }
            Phase::Ramp | Phase::Drain | Phase::Good | Phase::Bad => {}
        }
        self.busy.store(false, Release);
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u32, Relaxed);
        self.reads.store(0, Relaxed);
    }

    /// It is found good or bad, for so many reads.
    fn end(&self, phase: Phase) {
        self.rests.rest(0);
        self.enter(phase);
    }

    /// Enough was counted with prefetching.
    ///
    /// Rule: Trial.
    fn compare(&self) {
        let (with, alone) = (self.with.rate(), self.alone.rate());
        let gains = self.alone.count.load(Relaxed) >= 3 && with >= alone.saturating_mul(PLAIN);
        if gains || self.with.is_plainly_faster() {
            return self.end(Phase::Good);
        }
        // What a twentieth of them took: less than a seventh longer is chance, and what a busy CPU adds is less than 50 us.
        let (late, usual) = (self.with.times.rank(19, 20), self.alone.times.rank(19, 20));
        let later = late > usual.saturating_add((usual / 7).max(T::WAKE_NS));
        if self.round.load(Relaxed) == 0 {
            self.alone.clear();
            self.with.clear();
            self.round.store(1, Relaxed);
            return self.enter(Phase::Drain);
        }
        let slower = with < alone - alone / 50;
        self.end(if later || slower { Phase::Bad } else { Phase::Good });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A program whose reads take so long without and with prefetching, the fiftieth of them `tail` times that.
    struct Program {
        trial: Trial,
        now_ns: u64,
        alone_ns: u64,
        with_ns: u64,
        tail: u64,
        /// Bytes of its first reads.
        first_bytes: u64,
        /// Whether the kernel does not read ahead.
        backward: bool,
    }

    impl Program {
        fn new(alone_ns: u64, with_ns: u64, tail: u64) -> Program {
            Program {
                trial: Trial::new(),
                now_ns: MS,
                alone_ns,
                with_ns,
                tail,
                first_bytes: 65536,
                backward: false,
            }
        }

        /// How many of the reads were held back.
        fn run(&mut self, reads: usize) -> usize {
            let mut held = 0;
            for read in 0..reads {
                let first = self.trial.phase() == Phase::First && read < 16;
                let holds = self.trial.holds();
                held += usize::from(holds);
                let usual = if holds || first { self.alone_ns } else { self.with_ns };
                let late = !holds && !first && read % 12 == 0;
                let elapsed_ns = if late { usual * self.tail } else { usual };
                self.now_ns += elapsed_ns;
                let bytes = if first { self.first_bytes } else { 65536 };
                let alone_ns = if self.backward { self.alone_ns } else { 0 };
                let sample = Sample { now_ns: self.now_ns, elapsed_ns, bytes, alone_ns };
                self.trial.count(&sample, !first, MS / 2);
            }
            held
        }
    }

    #[test]
    fn a_plain_gain_is_never_held_back() {
        assert_eq!(Program::new(MS, MS / 4, 1).run(100_000), 0);
    }

    #[test]
    fn long_reads_at_first_decide_nothing() {
        let mut program = Program::new(MS, MS / 20, 8);
        program.first_bytes = 100 * 65536;
        let held = program.run(100_000);
        // Some are left out of the comparison, then as many as each side has are held back.
        assert!((1..=144).contains(&held), "{held}");
        assert!(!program.trial.is_bad());
    }

    #[test]
    fn what_the_kernel_cannot_do_is_plain_whatever_was_read_first() {
        let mut program = Program::new(MS, MS / 20, 8);
        (program.first_bytes, program.backward) = (100 * 65536, true);
        assert_eq!(program.run(100_000), 0);
    }

    #[test]
    fn a_small_gain_goes_on_after_a_trial() {
        let mut program = Program::new(MS, MS * 8 / 10, 1);
        let held = program.run(4_000);
        assert!((1..=400).contains(&held), "{held}");
        assert!(!program.trial.is_bad());
        assert!(program.run(1_000_000) < 10_000);
    }

    #[test]
    fn a_loss_ends_and_is_tried_again_ever_more_rarely() {
        let mut program = Program::new(MS, MS * 11 / 10, 1);
        program.run(1_000);
        assert!(program.trial.is_bad());
        let helped = 100_000 - program.run(100_000);
        assert!((200..4_000).contains(&helped), "{helped}");
    }

    #[test]
    fn a_small_gain_with_a_long_tail_ends() {
        let mut program = Program::new(MS, MS * 6 / 10, 3);
        program.run(1_000);
        assert!(program.trial.is_bad());
    }

    #[test]
    fn what_turns_good_is_found() {
        let mut program = Program::new(MS, MS * 11 / 10, 1);
        program.run(1_000);
        assert!(program.trial.is_bad());
        program.with_ns = MS / 3;
        program.run(10_000);
        assert!(!program.trial.holds());
    }
}
