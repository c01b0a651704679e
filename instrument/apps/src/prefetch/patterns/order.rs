//! The reads that a pattern consists of: the same in every run.

use std::time::Duration;

use stats::rng::SplitMix;

/// The patterns' names, separated by a comma and a blank.
pub const NAMES: &str = "seq, stride, small-stride, reverse, interleaved, permutation, windows, runs, random, hot, \
    variable, zipf, phases, gaps, two-strides, backward-stride, pingpong, btree, burst";

/// One read, and what the program computes before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Read {
    /// Where, bytes.
    pub offset: u64,
    /// How much, bytes.
    pub len: u64,
    /// Computing before it.
    pub work: Duration,
}

/// Who reads: `threads` threads in blocks of `block` bytes.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Number of threads.
    pub threads: u64,
    /// Bytes.
    pub block: u64,
}

/// Below `limit`.
fn below(random: &mut SplitMix, limit: u64) -> u64 {
    random.below(limit as usize) as u64
}

/// Shuffled within each part of `window`.
fn shuffled(mut all: Vec<u64>, window: usize, random: &mut SplitMix) -> Vec<u64> {
    all.chunks_mut(window).for_each(|part| random.shuffle(part));
    all
}

/// The reads of one thread of a file of `size` bytes; `None`: no such pattern. A thread has a part of the file to
/// itself, except in `interleaved`, `hot`, `zipf` and `btree`.
pub fn reads(pattern: &str, shape: Shape, size: u64, thread: u64) -> Option<Vec<Read>> {
    let Shape { threads, block } = shape;
    let part = size / threads / block * block;
    let base = part * thread;
    let every = |step: u64| (0..part / step).map(|i| base + i * step).collect::<Vec<_>>();
    // The same reads in every run.
    let mut random = SplitMix::new(0x9e37_79b9_7f4a_7c15u64 ^ thread);
    let starts = match pattern {
        "seq" => every(block),
        "stride" => every(5 * block),
        "small-stride" => every(4 * block),
        "reverse" => every(block).into_iter().rev().collect(),
        "interleaved" => (0..part / block).map(|i| (i * threads + thread) * block).collect(),
        "permutation" => shuffled(every(block), usize::MAX, &mut random),
        "windows" => shuffled(every(block), 64, &mut random),
        "runs" => (0..part / block / 16)
            .flat_map(|_| {
                let start = base + below(&mut random, part / block - 16) * block;
                (0..16).map(move |i| start + i * block)
            })
            .collect(),
        "random" => (0..2000).map(|_| base + below(&mut random, part / block) * block).collect(),
        "hot" => (0..200_000).map(|_| below(&mut random, (16 << 20) / block) * block).collect(),
        "variable" => {
            let mut reads = Vec::new();
            let mut at = base;
            while at < base + part {
                let len = (4096 * (1 + below(&mut random, block / 2048))).min(base + part - at);
                reads.push(Read { offset: at, len, work: Duration::ZERO });
                at += len;
            }
            return Some(reads);
        }
        "burst" => return Some(bursts(base, part, block, &mut random)),
        pattern => retired(pattern, size, (base, part), block, &mut random)?,
    };
    Some(starts.into_iter().map(|offset| Read { offset, len: block, work: Duration::ZERO }).collect())
}

/// Patterns that were once kept out of sight of those who chose the policy's constants.
fn retired(
    pattern: &str,
    size: u64,
    (base, part): (u64, u64),
    block: u64,
    random: &mut SplitMix,
) -> Option<Vec<u64>> {
    let blocks = part / block;
    Some(match pattern {
        // 4,000 blocks of the whole file by Zipf's law, theta 0.99 (that of YCSB), the popular ones scattered.
        "zipf" => {
            let mut sum = 0.0;
            let weight = |rank: u64| {
                sum += (rank as f64).powf(-0.99);
                sum
            };
            let cumulated: Vec<f64> = (1..=size / block).map(weight).collect();
            let pick = |_| {
                let at = below(random, 1 << 30) as f64 / f64::from(1 << 30) * sum;
                let rank = cumulated.partition_point(|below| *below <= at) as u64;
                // A prime: every rank has a block of its own.
                rank * 2_654_435_761 % (size / block) * block
            };
            (0..4000).map(pick).collect()
        }
        // A third forward, a third in random order, a third backward.
        "phases" => {
            let third = |which: u64| (0..blocks / 3).map(move |i| base + (which * (blocks / 3) + i) * block);
            let middle = shuffled(third(1).collect(), usize::MAX, random);
            third(0).chain(middle).chain(third(2).rev()).collect()
        }
        // Forward; after each block 0 to 3 are left out.
        "gaps" => {
            let mut at = 0;
            let next = || {
                let here = at;
                at += 1 + below(random, 4);
                (here < blocks).then_some(base + here * block)
            };
            std::iter::from_fn(next).collect()
        }
        // In turns with stride 3 in the first half and with stride 5 in the second.
        "two-strides" => {
            let half = blocks / 2;
            (0..half / 5).flat_map(|i| [i * 3, half + i * 5]).map(|at| base + at * block).collect()
        }
        "backward-stride" => (0..blocks / 3).rev().map(|i| base + i * 3 * block).collect(),
        // 8 MiB forward, the same backward, the next 8 MiB.
        "pingpong" => {
            let run = ((8 << 20) / block).max(1);
            let both = |first: u64| (first..first + run).chain((first..first + run).rev());
            (0..blocks / run).flat_map(|i| both(i * run)).map(|at| base + at * block).collect()
        }
        // 1,500 look-ups: root, one of the upper pages (256 leaves each), a leaf; every other leaf in order.
        "btree" => {
            let uppers = (size / block).div_ceil(257);
            let leaves = size / block - uppers - 1;
            let mut wanted: Vec<u64> = (0..1500).map(|_| below(random, leaves)).collect();
            let mut sorted: Vec<u64> = wanted.iter().copied().step_by(2).collect();
            sorted.sort_unstable();
            wanted.iter_mut().step_by(2).zip(sorted).for_each(|(leaf, next)| *leaf = next);
            let path = |leaf: u64| [0, 1 + leaf / 256, 1 + uppers + leaf];
            wanted.into_iter().flat_map(path).map(|page| page * block).collect()
        }
        _ => return None,
    })
}

/// Forward runs of 4 to 32 blocks at random places, 5 ms of computing before each. Retired as well.
fn bursts(base: u64, part: u64, block: u64, random: &mut SplitMix) -> Vec<Read> {
    let mut all = Vec::new();
    for _ in 0..part / block / 16 {
        let len = 4 + below(random, 29);
        let start = base + below(random, (part / block).saturating_sub(len)) * block;
        let work = |i: u64| if i == 0 { Duration::from_millis(5) } else { Duration::ZERO };
        all.extend((0..len).map(|i| Read { offset: start + i * block, len: block, work: work(i) }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str, threads: u64, block: u64, thread: u64) -> Vec<Read> {
        reads(pattern, Shape { threads, block }, 64 << 20, thread).expect("a known pattern")
    }

    #[test]
    fn every_read_is_in_the_file_and_every_run_makes_the_same_reads() {
        for pattern in NAMES.split(", ") {
            for (threads, block) in [(1, 64 << 10), (4, 4 << 10), (4, 64 << 10)] {
                for thread in 0..threads {
                    let reads = of(pattern, threads, block, thread);
                    assert!(reads.len() > 20, "{pattern}: {} reads", reads.len());
                    let inside = |read: &&Read| {
                        read.offset.is_multiple_of(4096)
                            && read.len <= 2 * block
                            && read.offset + read.len <= 64 << 20
                    };
                    assert_eq!(reads.iter().find(|read| !inside(read)), None, "{pattern} x{threads}");
                    assert_eq!(reads, of(pattern, threads, block, thread));
                }
            }
        }
    }

    #[test]
    fn zipf_prefers_one_block() {
        let reads = of("zipf", 1, 4 << 10, 0);
        // 16,384 blocks: the first one's share is 1 / sum(1 / k^0.99), which is a tenth.
        let first = reads.iter().filter(|read| read.offset == 0).count();
        assert!((300..500).contains(&first), "{first}");
        let mut blocks: Vec<u64> = reads.iter().map(|read| read.offset).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert!(blocks.len() > 1000, "{}", blocks.len());
    }

    #[test]
    fn every_other_leaf_of_the_tree_is_in_order() {
        let leaves: Vec<u64> =
            of("btree", 1, 4 << 10, 0).iter().skip(2).step_by(3).map(|r| r.offset).collect();
        let even: Vec<u64> = leaves.iter().copied().step_by(2).collect();
        let odd: Vec<u64> = leaves.iter().copied().skip(1).step_by(2).collect();
        assert!(even.is_sorted() && !odd.is_sorted());
    }
}
