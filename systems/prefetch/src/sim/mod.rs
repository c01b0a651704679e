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

use crate::{Budget, Device, Fetched, FileState, Mode, Read, budget::Memory};

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
    let device = Device::new();
    device.limits.set(options.readahead_bytes, options.readahead_bytes.max(128 << 10));
    let budget = Budget::new();
    let limit = options.memory_bytes;
    budget.tell(&Memory { available: 16 << 30, limit: Some(limit), ..Memory::default() });
    let mut machine = Machine::new(options, trace.size, trace.threads.len());
    let mut shells: Vec<Shell> = (0..if trace.shared { 1 } else { trace.threads.len() })
        .map(|at| Shell::new(trace, at as u64))
        .collect();
    // In the order of time: the device serves in the order in which it is asked. A thread is about to read, or its
    // read has returned.
    let begin = |thread| 1_000_000 + trace.pause_ns(thread, 0);
    let mut clocks: Vec<u64> = (0..trace.threads.len()).map(begin).collect();
    let mut began = vec![None; trace.threads.len()];
    let mut next = vec![0usize; trace.threads.len()];
    let mut times = Vec::new();
    // The latest event.
    let mut clock = 0;
    let mut random = patterns::Random(11);
    let mut noise = patterns::Random(trace.noise.seed);
    loop {
        let ready = (0..clocks.len()).filter(|thread| next[*thread] < trace.threads[*thread].len());
        let Some(thread) = ready.min_by_key(|thread| clocks[*thread]) else { break };
        let (offset, len) = trace.threads[thread][next[thread]];
        let now = clocks[thread];
        let turns = shells.iter().enumerate().filter_map(|(at, shell)| Some((shell.turn_ns?, at)));
        if let Some((turn_ns, at)) = turns.min().filter(|(turn_ns, _)| *turn_ns <= now) {
            clock = clock.max(turn_ns);
            shells[at].work(&mut machine, &device, &budget, turn_ns);
            continue;
        }
        let fetches =
            shells.iter().enumerate().filter_map(|(at, shell)| Some((shell.fetch_ns(&device)?, at)));
        if let Some((fetch_ns, at)) = fetches.min().filter(|(fetch_ns, _)| *fetch_ns <= now) {
            clock = clock.max(fetch_ns);
            shells[at].fetch(&mut machine, &device, &budget, mode, clock);
            continue;
        }
        clock = clock.max(now);
        let Some(begin) = began[thread].take() else {
            began[thread] = Some(now);
            let late = noise.late(trace.noise.read_one_in, trace.noise.read_ns);
            let there = machine.read(thread, offset, len, now);
            let waits = there > now + Machine::copy_ns(len);
            clocks[thread] = there + late + if waits { noise.below(trace.noise.run_ns) } else { 0 };
            continue;
        };
        next[thread] += 1;
        times.push(now - begin);
        clocks[thread] = now + trace.think_ns + trace.pause_ns(thread, next[thread]);
        if trace.jitter_ns > 0 && random.below(16) == 0 {
            clocks[thread] += random.below(trace.jitter_ns);
        }
        if mode.watches() && next[thread] > trace.unseen {
            let shell = &mut shells[if trace.shared { 0 } else { thread }];
            let read = Read { offset, len, elapsed_ns: Some(now - begin), now_ns: now };
            let effect = shell.file.on_read(&read, &device, &budget, mode);
            clocks[thread] += HOOK_NS;
            if effect.wake {
                shell.rouse(now + HOOK_NS);
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
    /// When the thread that serves streams comes to this file, ns.
    turn_ns: Option<u64>,
    /// Whether that was woken: it sleeps no more.
    roused: bool,
    noise: Noise,
    random: patterns::Random,
    /// When the thread that waits for steps was last woken, ns.
    woken_ns: u64,
    /// When the latest step was asked for, ns, and how late the thread is for the next.
    asked_ns: u64,
    asks_late_ns: u64,
}

impl Shell {
    fn new(trace: &Trace, at: u64) -> Shell {
        Shell {
            file: FileState::new(trace.size),
            steps: VecDeque::new(),
            turn_ns: None,
            roused: false,
            noise: trace.noise,
            random: patterns::Random(trace.noise.seed + at + 1),
            woken_ns: 0,
            asked_ns: 0,
            asks_late_ns: 0,
        }
    }

    /// When the thread has noticed that a step is done, ns.
    fn noticed(&mut self, done_ns: u64) -> u64 {
        let late = self.random.late(self.noise.late_one_in, self.noise.late_ns);
        let wake = if done_ns > self.woken_ns { self.random.below(self.noise.wake_ns) } else { 0 };
        self.woken_ns = self.woken_ns.max(done_ns) + late + wake;
        self.woken_ns
    }

    fn close(&mut self, device: &Device, budget: &Budget) {
        self.file.close(device, budget);
        self.turn_ns = None;
        self.steps.clear();
    }

    /// A read wakes the thread that serves streams.
    fn rouse(&mut self, now_ns: u64) {
        if !self.roused {
            let woken_ns = now_ns + self.random.woken(&self.noise);
            self.turn_ns = Some(self.turn_ns.map_or(woken_ns, |turn_ns| turn_ns.min(woken_ns)));
            self.roused = true;
        }
    }

    fn work(&mut self, machine: &mut Machine, device: &Device, budget: &Budget, now_ns: u64) {
        while let Some(request) = self.file.claim_at(now_ns, device, budget) {
            machine.prefetch(request.offset, request.len, now_ns);
        }
        // Without memory there may be something to claim, and nothing to be done about it before the next read.
        let turn_ns = self.file.next_claim_ns(device).filter(|turn_ns| *turn_ns > now_ns);
        self.turn_ns = turn_ns.map(|turn_ns| turn_ns + self.random.woken(&self.noise));
        self.roused = false;
    }

    /// When the thread that fetches has something to do, ns: it asks for the next step when that is due, and waits for the
    /// oldest one while there are enough.
    fn fetch_ns(&self, device: &Device) -> Option<u64> {
        if self.file.is_fetching() && self.steps.len() < self.file.fetch_width() {
            return Some(self.file.next_fetch_ns(self.asked_ns, device) + self.asks_late_ns);
        }
        self.steps.front().map(|(.., done_ns)| *done_ns)
    }

    /// Ends the oldest step of fetching, or begins one.
    fn fetch(&mut self, machine: &mut Machine, device: &Device, budget: &Budget, mode: Mode, now_ns: u64) {
        if !self.file.is_fetching() || self.steps.len() >= self.file.fetch_width() {
            if let Some((bytes, cached, begin_ns, _)) = self.steps.pop_front() {
                let step = Fetched { bytes, cached, elapsed_ns: now_ns - begin_ns, taken_ns: 0 };
                self.file.fetched(&step, device, mode);
            }
            return;
        }
        let Some(request) = self.file.claim_fetch(now_ns, device, budget) else { return };
        let cached = machine.cached_bytes(request.offset, request.len);
        let done_ns = machine.prefetch(request.offset, request.len, now_ns).max(now_ns + 1_000);
        let done_ns = self.noticed(done_ns);
        self.asked_ns = now_ns;
        // What comes seldom and late came when it noticed the step before.
        self.asks_late_ns = self.random.below(self.noise.run_ns);
        self.steps.push_back((request.len, cached, now_ns, done_ns));
    }
}
