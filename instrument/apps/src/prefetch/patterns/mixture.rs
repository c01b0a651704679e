//! Patterns drawn from a seed: phases of one walk or of two in turns, so that a reader can be made that nobody has seen.
//!
//! A mixture is its text: `mix@17w200/up3x400+down1.gaps4x300` are 400 reads of each thread forward by three blocks,
//! then 300, in turns one block backward and forward with up to four left out, 200 us of computing before each read.
//! After the last phase comes nothing; a walk that reaches an end of its range goes on at the other one. What a text
//! reads never changes, whatever is drawn from a seed by then.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::Duration;

use stats::rng::SplitMix;

use super::order::{Read, Shape};

/// What the names of mixtures begin with.
pub const PREFIX: &str = "mix@";
/// The most that a number of the text may be.
const NUMBER_MAX: u64 = 1 << 20;
/// Computing before a read that is drawn, us: at most.
const WORK_US_MAX: u64 = 500;
/// Reads of all threads together that are drawn: enough for a p99, few enough for a far device.
const READS: (u64, u64) = (1_000, 4_000);
/// Bytes that they may be, for slow devices.
const BYTES_MAX: u64 = 512 << 20;

/// A drawn pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mixture {
    /// Of what its walks draw.
    seed: u64,
    /// Computing before each read, us.
    work_us: u64,
    phases: Vec<Phase>,
}

/// Walks that take turns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Phase {
    walks: Vec<Walk>,
    /// Of each thread.
    reads: u64,
}

/// One order of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Walk {
    order: Order,
    /// What the order makes of it, in blocks.
    number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Forward by so many blocks.
    Up,
    /// Backward by so many.
    Down,
    /// Forward; after each block up to so many are left out.
    Gaps,
    /// Forward runs of up to so many blocks at random places.
    Runs,
    /// Forward in windows of so many blocks, each in random order.
    Shuffle,
    /// Any block of the range; the number says nothing.
    Random,
    /// Any of the so many blocks from the walk's start.
    Hot,
    /// Pieces of so many blocks, every n-th one of n threads; the range is the whole file.
    Lace,
}

/// The words, and from where to where the numbers are drawn.
const ORDERS: [(&str, Order, u64, u64); 8] = [
    ("up", Order::Up, 1, 12),
    ("down", Order::Down, 1, 12),
    ("gaps", Order::Gaps, 1, 8),
    ("runs", Order::Runs, 2, 48),
    ("shuffle", Order::Shuffle, 4, 256),
    ("random", Order::Random, 1, 1),
    ("hot", Order::Hot, 16, 512),
    ("lace", Order::Lace, 1, 4),
];

/// What is drawn of a reader: the mixture, and who reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drawn {
    pub(super) mixture: Mixture,
    pub(super) threads: u64,
    pub(super) block_kib: u64,
    pub(super) shared: bool,
}

/// From `low` to `high`, each power of two as likely as the next.
fn spread(random: &mut SplitMix, low: u64, high: u64) -> u64 {
    let share = random.below(1 << 20) as f64 / f64::from(1 << 20);
    let (low, high) = (low as f64, high as f64 + 1.0);
    (low * (high / low).powf(share)) as u64
}

fn one<T: Copy>(random: &mut SplitMix, of: &[T]) -> T {
    of[random.below(of.len())]
}

/// Draws a reader.
pub(super) fn draw(random: &mut SplitMix) -> Drawn {
    let threads = one(random, &[1, 1, 2, 2, 3, 4, 4, 6, 8]);
    let block_kib = one(random, &[4, 8, 16, 32, 64, 64, 128, 256]);
    let shared = threads > 1 && random.percent(25);
    let work_us = if random.percent(30) { spread(random, 10, WORK_US_MAX) } else { 0 };
    let all = spread(random, READS.0, READS.1).min(BYTES_MAX / (block_kib << 10));
    let number = one(random, &[1, 1, 2, 2, 3]);
    let walk = |random: &mut SplitMix| {
        let (_, order, low, high) = one(random, &ORDERS);
        Walk { order, number: spread(random, low, high) }
    };
    let phases = (0..number).map(|_| {
        let walks = (0..one(random, &[1, 1, 2])).map(|_| walk(random)).collect();
        Phase { walks, reads: (all / threads / number).max(1) }
    });
    let phases = phases.collect();
    let mixture = Mixture { seed: random.below(1 << 16) as u64, work_us, phases };
    Drawn { mixture, threads, block_kib, shared }
}

/// A walk on its way.
struct Walker {
    walk: Walk,
    /// Where it began, in blocks of its range.
    start: u64,
    /// Its next block.
    at: u64,
    /// Blocks that are left of a run, or of a window.
    left: Vec<u64>,
}

impl Walker {
    /// The next block of `blocks`; thread `thread` of `threads`.
    fn next(&mut self, blocks: u64, (thread, threads): (u64, u64), random: &mut SplitMix) -> u64 {
        let mut below = |limit: u64| random.below(limit as usize) as u64;
        let Walk { order, number } = self.walk;
        let here = self.at;
        match order {
            Order::Up => self.at = (here + number) % blocks,
            Order::Down => self.at = (here + blocks - number % blocks) % blocks,
            Order::Gaps => self.at = (here + 1 + below(number + 1)) % blocks,
            Order::Runs => {
                if self.left.is_empty() {
                    let (first, run) = (below(blocks), 1 + below(number));
                    self.left = (0..run).rev().map(|i| (first + i) % blocks).collect();
                }
                return self.left.pop().unwrap_or(here);
            }
            Order::Shuffle => {
                if self.left.is_empty() {
                    self.left = (0..number.min(blocks)).map(|i| (here + i) % blocks).collect();
                    random.shuffle(&mut self.left);
                    self.at = (here + number) % blocks;
                }
                return self.left.pop().unwrap_or(here);
            }
            Order::Random => return below(blocks),
            Order::Hot => return (self.start + below(number.min(blocks))) % blocks,
            Order::Lace => {
                self.at = here + 1;
                let piece = here / number * threads + thread;
                return (piece * number + here % number) % blocks;
            }
        }
        here
    }
}

impl Mixture {
    /// The reads of one thread of a file of `size` bytes. A thread has a part of the file to itself, but for `lace`.
    pub fn reads(&self, shape: Shape, size: u64, thread: u64) -> Vec<Read> {
        let Shape { threads, block } = shape;
        let (all, part) = ((size / block).max(1), (size / threads / block).max(1));
        let mut random = SplitMix::new(self.seed ^ thread.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let work = Duration::from_micros(self.work_us);
        let mut reads = Vec::new();
        for phase in &self.phases {
            let mut walkers: Vec<Walker> = Vec::new();
            for &walk in &phase.walks {
                let start = if walk.order == Order::Lace { 0 } else { random.below(part as usize) as u64 };
                walkers.push(Walker { walk, start, at: start, left: Vec::new() });
            }
            for read in 0..phase.reads as usize {
                let turn = read % phase.walks.len();
                let walker = &mut walkers[turn];
                let (first, blocks) =
                    if walker.walk.order == Order::Lace { (0, all) } else { (part * thread, part) };
                let at = first + walker.next(blocks, (thread, threads), &mut random);
                reads.push(Read { offset: at * block, len: block, work });
            }
        }
        reads
    }
}

impl Display for Mixture {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.seed)?;
        if self.work_us > 0 {
            write!(f, "w{}", self.work_us)?;
        }
        for (at, phase) in self.phases.iter().enumerate() {
            f.write_str(if at == 0 { "/" } else { "+" })?;
            for (at, walk) in phase.walks.iter().enumerate() {
                let word =
                    ORDERS.iter().find(|(_, order, ..)| *order == walk.order).map_or("", |found| found.0);
                write!(f, "{}{word}{}", if at == 0 { "" } else { "." }, walk.number)?;
            }
            write!(f, "x{}", phase.reads)?;
        }
        Ok(())
    }
}

/// A text that is no mixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MixtureParseError;

/// A number from 1, small enough to be worked with.
fn number(text: &str) -> Result<u64, MixtureParseError> {
    text.parse().ok().filter(|number| (1..=NUMBER_MAX).contains(number)).ok_or(MixtureParseError)
}

impl FromStr for Walk {
    type Err = MixtureParseError;

    fn from_str(text: &str) -> Result<Walk, MixtureParseError> {
        let digits = text.find(|c: char| c.is_ascii_digit()).ok_or(MixtureParseError)?;
        let (word, amount) = text.split_at(digits);
        let (_, order, ..) = ORDERS.iter().find(|(known, ..)| *known == word).ok_or(MixtureParseError)?;
        Ok(Walk { order: *order, number: number(amount)? })
    }
}

impl FromStr for Phase {
    type Err = MixtureParseError;

    fn from_str(text: &str) -> Result<Phase, MixtureParseError> {
        let (walks, reads) = text.rsplit_once('x').ok_or(MixtureParseError)?;
        let walks = walks.split('.').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Phase { walks, reads: number(reads)? })
    }
}

impl FromStr for Mixture {
    type Err = MixtureParseError;

    fn from_str(text: &str) -> Result<Mixture, MixtureParseError> {
        let (head, phases) =
            text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/')).ok_or(MixtureParseError)?;
        let (seed, work_us) = match head.split_once('w') {
            Some((seed, work)) => (seed, number(work)?),
            None => (head, 0),
        };
        let seed = seed.parse().map_err(|_| MixtureParseError)?;
        let phases = phases.split('+').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Mixture { seed, work_us, phases })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { threads: 2, block: 64 << 10 };

    fn blocks(text: &str, thread: u64) -> Vec<u64> {
        let mixture: Mixture = text.parse().expect("a mixture");
        mixture.reads(SHAPE, 64 << 20, thread).iter().map(|read| read.offset / SHAPE.block).collect()
    }

    #[test]
    fn a_text_is_read_as_the_mixture_that_wrote_it() {
        for text in ["mix@17w200/up3x400+down1.gaps4x300", "mix@0/lace2x9"] {
            assert_eq!(text.parse::<Mixture>().expect("a mixture").to_string(), text);
        }
        let mut random = SplitMix::new(5);
        for _ in 0..200 {
            let Drawn { mixture, threads, block_kib, .. } = draw(&mut random);
            assert_eq!(mixture.to_string().parse(), Ok(mixture.clone()));
            let shape = Shape { threads, block: block_kib << 10 };
            let reads: u64 = (0..threads).map(|t| mixture.reads(shape, 64 << 20, t).len() as u64).sum();
            assert!((900..=READS.1).contains(&reads), "{mixture}: {reads} reads");
        }
        for wrong in ["mix@/up1x1", "mix@1/", "mix@1/up0x1", "mix@1/up1", "mix@1/sideways1x1", "mix@1w/up1x1"]
        {
            assert_eq!(wrong.parse::<Mixture>(), Err(MixtureParseError), "{wrong}");
        }
        assert!("mix@1/up99999999x1".parse::<Mixture>().is_err(), "too large");
    }

    #[test]
    fn every_order_reads_what_it_says_within_its_range() {
        let steps = |text: &str| -> Vec<i64> {
            let all = blocks(text, 1);
            assert!(all.iter().all(|at| (512..1024).contains(at)), "{text}: the thread's own half");
            all.windows(2).map(|two| two[1] as i64 - two[0] as i64).collect()
        };
        assert!(steps("mix@1/up3x400").iter().all(|step| [3, 3 - 512].contains(step)));
        assert!(steps("mix@1/down2x400").iter().all(|step| [-2, 510].contains(step)));
        assert!(steps("mix@1/gaps4x400").iter().all(|step| (1..=5).contains(&step.rem_euclid(512))));
        assert!(steps("mix@1/runs9x400").iter().filter(|step| **step == 1).count() > 200);
        let mut shuffled = blocks("mix@1/shuffle64x512", 1);
        assert!(!shuffled.is_sorted());
        shuffled.sort_unstable();
        assert_eq!(shuffled, (512..1024).collect::<Vec<_>>());
        let mut hot = blocks("mix@1/hot16x400", 1);
        hot.sort_unstable();
        hot.dedup();
        assert_eq!(hot.len(), 16);
        assert_eq!(blocks("mix@1/lace2x4", 1), [2, 3, 6, 7]);
        let turns = blocks("mix@1/up1.down1x6", 0);
        assert_eq!((turns[2] - turns[0], turns[1] - turns[3]), (1, 1));
        assert_eq!(blocks("mix@1/up1x3+down1x4", 0).len(), 7);
    }
}
