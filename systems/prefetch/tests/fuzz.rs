//! The policy under arbitrary reads, times and feedback: no panic, no request beyond the end of the file or of no
//! bytes, never more outstanding than the budget allows, and all of it given back at the end.

use prefetch::budget::Memory;
use prefetch::{Budget, Device, Fetched, FileState, Mode, PAGE, Read, Request};
use stats::rng::SplitMix;

struct Random(SplitMix);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Small and huge values alike, of a uniform number of bits: offsets and sizes of files.
    fn any_size(&mut self) -> u64 {
        self.bits(63)
    }

    /// A time up to a month, ns.
    fn any_time(&mut self) -> u64 {
        self.bits(51)
    }

    fn bits(&mut self, most: u64) -> u64 {
        let bits = 1 + self.below(most);
        self.next() >> (64 - bits)
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

struct World {
    random: Random,
    device: Device,
    budget: Budget,
    mode: Mode,
    file: FileState,
    now_ns: u64,
    /// The next offset of a program that goes on as before.
    at: u64,
    step: i64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(SplitMix::new(seed));
        let mode = Mode::ALL[random.below(6) as usize];
        let size = if random.chance(20) { random.any_size() } else { random.below(1 << 30) };
        let device = Device::new();
        if random.chance(2) {
            device.limits.set(random.any_size(), random.any_size());
        }
        World {
            device,
            budget: Budget::new(),
            mode,
            file: FileState::new(size),
            now_ns: random.any_time(),
            at: 0,
            step: 65536,
            random,
        }
    }

    fn read(&mut self) -> Read {
        let size = self.file.size;
        let len = match self.random.below(8) {
            // The most one read(2) returns.
            0 => self.random.any_size().min(0x7fff_f000),
            1 => 0,
            _ => 4096 * (1 + self.random.below(32)),
        };
        if self.random.chance(60) {
            self.step = self.random.any_size() as i64 >> self.random.below(40);
        }
        self.at = match self.random.below(40) {
            0 => self.random.any_size(),
            1 | 2 => self.random.below(size),
            _ => self.at.wrapping_add_signed(self.step) & (u64::MAX >> 1),
        };
        // A program gets nothing from beyond the end; a file may have grown.
        let grown = self.random.chance(200);
        let offset = if grown { self.at } else { self.at % size.max(1) };
        let len = if grown { len } else { len.min(size - offset.min(size)) };
        let elapsed_ns = match self.random.below(10) {
            0 => None,
            1 => Some(self.random.any_time()),
            2..5 => Some(1_500),
            _ => Some(800_000 + self.random.below(3_000_000)),
        };
        // Clocks of threads are compared without a lock: time may seem to go back a little.
        let back = self.random.below(2_000_000);
        self.now_ns = self.now_ns.saturating_add(elapsed_ns.unwrap_or(0).min(1 << 40));
        let now_ns = if self.random.chance(16) { self.now_ns.saturating_sub(back) } else { self.now_ns };
        Read { offset, len, elapsed_ns, now_ns }
    }

    fn check(&self, request: Request, seed: u64) {
        let end = self.file.size.div_ceil(PAGE).saturating_mul(PAGE);
        assert!(request.len > 0 && request.offset.is_multiple_of(PAGE), "seed {seed}: {request:?}");
        assert!(
            request.len.is_multiple_of(PAGE) || request.offset + request.len >= end,
            "seed {seed}: {request:?}"
        );
        let last = request.offset.checked_add(request.len);
        assert!(last.is_some_and(|last| last <= end), "seed {seed}: {request:?} of {}", self.file.size);
    }

    fn work(&mut self, seed: u64) {
        let before = self.budget.total();
        for _ in 0..self.random.below(20) {
            let Some(request) = self.file.claim_at(self.now_ns, &self.device, &self.budget) else { break };
            assert!(self.budget.outstanding() <= before, "seed {seed}: over the budget");
            self.check(request, seed);
            if self.random.chance(8) {
                let cached = self.random.below(request.len + 1);
                self.file.redundant(cached, &self.device, &self.budget);
            }
        }
        for _ in 0..self.random.below(6) {
            let Some(request) = self.file.claim_fetch(self.now_ns, &self.device, &self.budget) else { break };
            assert!(self.budget.outstanding() <= before, "seed {seed}: over the budget");
            self.check(request, seed);
            let step = Fetched {
                bytes: request.len,
                cached: self.random.below(request.len + 1),
                elapsed_ns: self.random.any_time(),
                taken_ns: if self.random.chance(2) { self.random.any_time() } else { 0 },
            };
            self.file.fetched(&step, &self.device, self.mode);
        }
    }

    fn disturb(&mut self) {
        match self.random.below(6) {
            0 => {
                let limit = self.random.chance(2).then(|| self.random.any_size());
                let memory = Memory {
                    available: self.random.any_size(),
                    limit,
                    pinned: self.random.any_size(),
                    pressure_centi: self.random.below(10_000),
                    ooms: self.random.below(4),
                };
                self.budget.tell(&memory);
            }
            1 => {
                let bytes = self.random.below(1 << 24);
                self.file.evicted(bytes, &self.budget);
            }
            2 => self.file.forget(&self.device, &self.budget),
            3 => {
                let random = self.random.chance(2);
                self.file.random_hint = random;
            }
            4 => self.device.delivery.learn_full(self.random.any_size()),
            _ => {
                if let Some(range) = self.file.ahead_range() {
                    assert!(range.len > 0);
                }
            }
        }
    }
}

fn run(seed: u64) -> u64 {
    let mut world = World::new(seed);
    let mut issued = 0;
    for _ in 0..600 {
        let read = world.read();
        let effect = world.file.on_read(&read, &world.device, &world.budget, world.mode);
        if effect.wake || world.random.chance(10) {
            world.work(seed);
        }
        if world.random.chance(30) {
            world.disturb();
        }
        issued = world.file.counters.issued;
    }
    world.file.close(&world.device, &world.budget);
    assert_eq!(world.budget.outstanding(), 0, "seed {seed}: not all was given back");
    assert_eq!(world.device.streams(), 0, "seed {seed}: a stream is left");
    assert!(!world.file.is_fetching(), "seed {seed}");
    issued
}

#[test]
fn arbitrary_reads_and_feedback() {
    let first = std::env::var("LOADLINE_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let count = std::env::var("LOADLINE_FUZZ_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(400);
    let issuing = (first..first + count).filter(|seed| run(*seed) > 0).count();
    eprintln!("seeds {first} to {}: {issuing} issued something", first + count - 1);
    assert!(
        count < 100 || issuing as u64 * 4 > count,
        "hardly anything was prefetched: {issuing} of {count}"
    );
}
