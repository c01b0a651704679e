//! A simulated device, page cache and kernel read-ahead, to try policies on without a kernel.
//!
//! Virtual time only. The device serves requests in order over one bus (bandwidth) and answers each after its
//! latency; the page cache evicts the oldest pages; the kernel reads ahead on demand as Linux does: a window
//! that doubles up to its limit, the next one asked for when its first page is touched.

mod machine;
mod patterns;

pub use machine::{Machine, MachineOptions};
pub use patterns::{Noise, Pattern, Trace};

use std::collections::VecDeque;

use crate::{Budget, Device, FileState, Mode, Read, Tuning, budget::Memory};

/// What a replay gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Until the last thread had read everything, ns.
    pub elapsed_ns: u64,
    /// Bytes that the device delivered.
    pub device_bytes: u64,
    /// The 99th percentile of a read, ns.
    pub p99_ns: u64,
    /// Bytes prefetched by the policy that were read.
    pub useful: u64,
    /// Bytes it issued.
    pub issued: u64,
    /// Time it claims to have saved, ns.
    pub saved_ns: u64,
}

/// What the hook costs a read, ns.
const HOOK_NS: u64 = 100;

/// Replays a trace with a policy; [`Mode::AppOnly`] is the kernel alone.
pub fn replay(trace: &Trace, options: &MachineOptions, mode: Mode) -> Outcome {
    let tuning = Tuning { mode, ..Tuning::default() };
    let device = Device::new();
    device.set_limits(options.readahead_bytes, options.readahead_bytes.max(128 << 10));
    let budget = Budget::new();
    let limit = options.memory_bytes;
    budget.tell(&Memory { available: 16 << 30, limit: Some(limit), ..Memory::default() });
    let mut machine = Machine::new(options, trace.size, trace.threads.len());
    let mut shells: Vec<Shell> = (0..if trace.shared { 1 } else { trace.threads.len() })
        .map(|at| Shell::new(trace, at as u64))
        .collect();
    // In the order of time: the device serves in the order in which it is asked. A thread is about to read, or its
    // read has returned.
    let mut clocks = vec![1_000_000u64; trace.threads.len()];
    let mut began = vec![None; trace.threads.len()];
    let mut next = vec![0usize; trace.threads.len()];
    let mut times = Vec::new();
    let mut random = patterns::Random(11);
    let mut noise = patterns::Random(trace.noise.seed);
    loop {
        let ready = (0..clocks.len()).filter(|thread| next[*thread] < trace.threads[*thread].len());
        let Some(thread) = ready.min_by_key(|thread| clocks[*thread]) else { break };
        let (offset, len) = trace.threads[thread][next[thread]];
        let now = clocks[thread];
        let turns = shells.iter().enumerate().filter_map(|(at, shell)| Some((shell.turn_ns?, at)));
        if let Some((turn_ns, at)) = turns.min().filter(|(turn_ns, _)| *turn_ns <= now) {
            shells[at].work(&mut machine, &device, &budget, turn_ns);
            continue;
        }
        for shell in &mut shells {
            shell.fetch(&mut machine, &device, &budget, mode, now);
        }
        let Some(begin) = began[thread].take() else {
            began[thread] = Some(now);
            let late = noise.late(trace.noise.read_one_in, trace.noise.read_ns);
            clocks[thread] = machine.read(thread, offset, len, now) + late;
            continue;
        };
        next[thread] += 1;
        times.push(now - begin);
        clocks[thread] = now + trace.think_ns;
        if trace.jitter_ns > 0 && random.below(16) == 0 {
            clocks[thread] += random.below(trace.jitter_ns);
        }
        if mode.watches() && next[thread] > trace.unseen {
            let shell = &mut shells[if trace.shared { 0 } else { thread }];
            let read = Read { offset, len, elapsed_ns: Some(now - begin), now_ns: now };
            let effect = shell.file.on_read(&read, &device, &budget, &tuning);
            clocks[thread] += HOOK_NS;
            if effect.wake {
                shell.work(&mut machine, &device, &budget, now + HOOK_NS);
            }
            if !trace.shared && next[thread] == trace.threads[thread].len() {
                shell.close(&device, &budget);
            }
        }
    }
    times.sort_unstable();
    let sum = |of: fn(&FileState) -> u64| shells.iter().map(|shell| of(&shell.file)).sum();
    Outcome {
        elapsed_ns: clocks.iter().max().copied().unwrap_or(0),
        device_bytes: machine.device_bytes(),
        p99_ns: times.get(times.len() * 99 / 100).copied().unwrap_or(0),
        useful: sum(|file| file.counters.useful),
        issued: sum(|file| file.counters.issued),
        saved_ns: sum(|file| file.counters.saved_ns),
    }
}

/// A file and what its worker is busy with.
struct Shell {
    file: FileState,
    /// Steps of fetching that are under way: bytes, cached ones of them, when asked for, when there.
    steps: VecDeque<(u64, u64, u64, u64)>,
    /// When a stream has its turn, ns.
    turn_ns: Option<u64>,
    noise: Noise,
    random: patterns::Random,
    /// When the thread that waits for steps was last woken, ns.
    woken_ns: u64,
}

impl Shell {
    fn new(trace: &Trace, at: u64) -> Shell {
        Shell {
            file: FileState::new(trace.size),
            steps: VecDeque::new(),
            turn_ns: None,
            noise: trace.noise,
            random: patterns::Random(trace.noise.seed + at + 1),
            woken_ns: 0,
        }
    }

    /// When the thread has noticed that a step is done, ns.
    fn noticed(&mut self, done_ns: u64) -> u64 {
        let late = self.random.late(self.noise.step_one_in, self.noise.step_ns);
        let wake = if done_ns > self.woken_ns { self.random.below(self.noise.wake_ns) } else { 0 };
        self.woken_ns = self.woken_ns.max(done_ns) + late + wake;
        self.woken_ns
    }

    fn close(&mut self, device: &Device, budget: &Budget) {
        self.file.close(device, budget);
        self.turn_ns = None;
        self.steps.clear();
    }

    fn work(&mut self, machine: &mut Machine, device: &Device, budget: &Budget, now_ns: u64) {
        while let Some(request) = self.file.claim_at(now_ns, device, budget) {
            machine.prefetch(request.offset, request.len, now_ns);
        }
        // Without memory there may be something to claim, and nothing to be done about it before the next read.
        self.turn_ns = self.file.next_claim_ns(device).filter(|turn_ns| *turn_ns > now_ns);
    }

    /// The steps of fetching that ended by now, and those that begin in their place.
    fn fetch(&mut self, machine: &mut Machine, device: &Device, budget: &Budget, mode: Mode, now_ns: u64) {
        let mut at_ns = now_ns;
        loop {
            while self.steps.len() < self.file.fetch_width() {
                let Some(request) = self.file.claim_fetch(device, budget) else { break };
                let cached = machine.cached_bytes(request.offset, request.len);
                let done = machine.prefetch(request.offset, request.len, at_ns).max(at_ns + 1_000);
                let done = self.noticed(done);
                self.steps.push_back((request.len, cached, at_ns, done));
            }
            let Some((bytes, cached, begin, done)) = self.steps.front().copied() else { return };
            if done > now_ns {
                return;
            }
            self.steps.pop_front();
            self.file.fetched(bytes, cached, done - begin, device, mode);
            at_ns = done;
        }
    }
}
