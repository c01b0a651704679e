//! Patterns of reads.

/// What the threads read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Size of the file, bytes.
    pub size: u64,
    /// Whether all threads use one descriptor.
    pub shared: bool,
    /// Time between two reads of a thread, ns.
    pub think_ns: u64,
    /// The first reads of each thread, which the policy is not told of: a descriptor is looked at from the second on.
    pub unseen: usize,
    /// What disturbs the program.
    pub noise: Noise,
    /// The reads of each thread: offset and length.
    pub threads: Vec<Vec<(u64, u64)>>,
    /// Computing before each of them, ns; where it is left out, none.
    pub pauses_ns: Vec<Vec<u64>>,
}

impl Trace {
    /// Computing of a thread before its read number `read`, ns.
    pub(super) fn pause_ns(&self, thread: usize, read: usize) -> u64 {
        self.pauses_ns.get(thread).and_then(|pauses| pauses.get(read)).copied().unwrap_or(0)
    }
}

/// What is late now and then because nobody ran it: a machine has fewer processors than threads. Zeroes are never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Noise {
    /// What is late is drawn from this.
    pub seed: u64,
    /// A reader that waited for the device.
    pub reader: Late,
    /// A request, and what is behind it: whoever serves the device had no processor.
    pub device: Late,
}

/// How often something is late, and by how much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Late {
    /// Once in so many; 0 is never.
    pub one_in: u64,
    /// The mean of an exponential law, ns.
    pub mean_ns: u64,
}

/// The patterns of the do-no-harm matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Upwards.
    Sequential,
    /// Downwards.
    Reverse,
    /// 64 KiB out of each 320 KiB.
    Stride,
    /// 16 KiB out of each 64 KiB.
    SmallStride,
    /// Each thread every n-th block.
    Interleaved,
    /// Every block once, in random order.
    Permutation,
    /// A few random blocks of a big file.
    Sparse,
    /// Random runs of 16 blocks.
    Runs,
    /// A small hot range again and again.
    Hot,
    /// Random 4 KiB.
    Random4k,
    /// Every page once, in random order: a scan of a table by an index.
    Scattered,
    /// Upwards; after each block 0 to 3 are left out.
    Gaps,
    /// In turns every third block of the first half and every fifth of the second.
    TwoStrides,
    /// 8 MiB upwards, the same downwards, the next 8 MiB.
    PingPong,
    /// A third upwards, a third in random order, a third downwards.
    Phases,
    /// Random 4 KiB of the whole file, for two seconds at a millisecond each: point queries of all threads.
    Points,
}

impl Pattern {
    /// Those of the matrix.
    pub const ALL: [Pattern; 10] = [
        Pattern::Sequential,
        Pattern::Reverse,
        Pattern::Stride,
        Pattern::SmallStride,
        Pattern::Interleaved,
        Pattern::Permutation,
        Pattern::Sparse,
        Pattern::Runs,
        Pattern::Hot,
        Pattern::Random4k,
    ];

    /// Orders that change or leave something out.
    pub const UNEVEN: [Pattern; 4] = [Pattern::Gaps, Pattern::TwoStrides, Pattern::PingPong, Pattern::Phases];

    /// The reads of `threads` threads on a file of `size` bytes, from a seed.
    pub fn trace(self, size: u64, threads: usize, shared: bool, seed: u64) -> Trace {
        let part = size / threads as u64;
        let mut random = Random(seed);
        let all =
            (0..threads as u64).map(|thread| self.reads(size, part, thread, threads as u64, &mut random));
        Trace { size, shared, threads: all.collect(), ..Trace::default() }
    }

    fn reads(self, size: u64, part: u64, thread: u64, threads: u64, random: &mut Random) -> Vec<(u64, u64)> {
        const BLOCK: u64 = 64 << 10;
        let base = part * thread;
        let blocks = part / BLOCK;
        let upwards =
            |step: u64, len: u64| (0..part / step).map(|i| (base + i * step, len)).collect::<Vec<_>>();
        match self {
            Pattern::Sequential => upwards(BLOCK, BLOCK),
            Pattern::Reverse => upwards(BLOCK, BLOCK).into_iter().rev().collect(),
            Pattern::Stride => upwards(5 * BLOCK, BLOCK),
            Pattern::SmallStride => upwards(BLOCK, BLOCK / 4),
            Pattern::Interleaved => (0..blocks).map(|i| ((i * threads + thread) * BLOCK, BLOCK)).collect(),
            Pattern::Permutation => random.shuffle(upwards(BLOCK, BLOCK)),
            Pattern::Scattered => random.shuffle(upwards(4096, 4096)),
            Pattern::Gaps => {
                let mut at = 0;
                let next = || {
                    let here = at;
                    at += 1 + random.below(4);
                    (here < blocks).then_some((base + here * BLOCK, BLOCK))
                };
                std::iter::from_fn(next).collect()
            }
            Pattern::TwoStrides => (0..blocks / 10)
                .flat_map(|i| [i * 3, blocks / 2 + i * 5])
                .map(|at| (base + at * BLOCK, BLOCK))
                .collect(),
            Pattern::PingPong => upwards(8 << 20, 8 << 20)
                .into_iter()
                .flat_map(|(start, run)| {
                    let blocks = (0..run / BLOCK).map(move |i| (start + i * BLOCK, BLOCK));
                    blocks.clone().chain(blocks.rev())
                })
                .collect(),
            Pattern::Phases => {
                let mut all = upwards(BLOCK, BLOCK);
                let third = all.len() / 3;
                let last = all.split_off(2 * third);
                let middle = random.shuffle(all.split_off(third));
                all.into_iter().chain(middle).chain(last.into_iter().rev()).collect()
            }
            Pattern::Sparse => (0..200).map(|_| (random.below(size / BLOCK) * BLOCK, BLOCK)).collect(),
            Pattern::Runs => (0..blocks / 16)
                .flat_map(|_| {
                    let start = random.below(blocks - 16);
                    (0..16).map(move |i| (base + (start + i) * BLOCK, BLOCK))
                })
                .collect(),
            Pattern::Hot => {
                (0..4000).map(|_| (base + random.below((8 << 20) / 4096) * 4096 % part, 4096)).collect()
            }
            Pattern::Points => (0..2000).map(|_| (random.below(size / 4096) * 4096, 4096)).collect(),
            Pattern::Random4k => (0..1000).map(|_| (base + random.below(part / 4096) * 4096, 4096)).collect(),
        }
    }
}

/// A small generator: the traces of a seed never change.
#[derive(Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }

    /// Fisher-Yates.
    fn shuffle<T>(&mut self, mut all: Vec<T>) -> Vec<T> {
        (1..all.len()).rev().for_each(|at| all.swap(at, self.below(at as u64 + 1) as usize));
        all
    }

    /// How late one is, ns.
    pub(super) fn late(&mut self, late: Late) -> u64 {
        if late.one_in == 0 || self.below(late.one_in) > 0 {
            return 0;
        }
        let share = (self.below(1 << 20) + 1) as f64 / f64::from(1 << 20);
        (-share.ln() * late.mean_ns as f64) as u64
    }
}
