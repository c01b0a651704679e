//! A simulated device, page cache and kernel read-ahead, to try policies on without a kernel.
//!
//! Virtual time only. The device serves requests in order over one bus (bandwidth) and answers each after its
//! latency; the page cache evicts the oldest pages; the kernel reads ahead on demand as Linux does: a window
//! that doubles up to its limit, the next one asked for when its first page is touched. What the core asks for is asked in
//! the reader's own thread, which it takes time from.

mod machine;
mod patterns;

pub use machine::{Machine, MachineOptions};
pub use patterns::{Late, Noise, Pattern, Trace};

use crate::{Counters, Device, File, Mode, Pages, Read, Rental};

/// What a replay gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Until the last thread had read everything, ns.
    pub elapsed_ns: u64,
    /// Bytes that the device delivered.
    pub device_bytes: u64,
    /// The 99th percentile of a read, ns.
    pub p99_ns: u64,
    /// How long each read took, ns: the shortest first.
    pub reads_ns: Vec<u64>,
    /// Bytes prefetched by the policy that were read.
    pub useful: u64,
    /// Bytes it issued.
    pub issued: u64,
    /// Time it claims to have saved, ns.
    pub saved_ns: u64,
}

impl Outcome {
    /// Nothing was read.
    const NOTHING: Outcome = Outcome {
        elapsed_ns: 0,
        device_bytes: 0,
        p99_ns: 0,
        reads_ns: Vec::new(),
        useful: 0,
        issued: 0,
        saved_ns: 0,
    };
}

/// What the hook costs a read, ns.
const HOOK_NS: u64 = 100;
/// What one request costs its thread, ns: a system call, pages of memory, and the way to the device.
const ASK_NS: u64 = 8_000;
/// Requests after one read at most, as in the library.
const REQUESTS: u32 = 16;

/// The machine as the core sees it after a read.
struct Asked<'a> {
    machine: &'a mut Machine,
    size: u64,
    now_ns: u64,
    observing: bool,
    requests: u32,
}

impl Pages for Asked<'_> {
    fn ask(&mut self, offset: u64, len: u64) -> bool {
        let len = len.min(self.size.saturating_sub(offset));
        if len == 0 || self.requests >= REQUESTS {
            return false;
        }
        self.requests += 1;
        if !self.observing {
            self.now_ns += ASK_NS;
            self.machine.prefetch(offset, len, self.now_ns);
        }
        true
    }

    fn is_cached(&mut self, offset: u64, len: u64) -> Option<bool> {
        let len = len.min(self.size.saturating_sub(offset));
        Some(self.machine.cached_bytes(offset, len) >= len)
    }

    fn is_ready(&mut self, offset: u64) -> Option<bool> {
        Some(self.machine.is_ready(offset, self.now_ns))
    }
}

/// Replays a trace; [`Mode::AppOnly`] is the kernel alone.
pub fn replay(trace: &Trace, options: &MachineOptions, mode: Mode) -> Outcome {
    let device = Device::new();
    let threads = trace.threads.len();
    let Noise { seed, reader, device: served } = trace.noise;
    let mut machine = Machine::new(options, trace.size, threads).with_late(served, !seed);
    let mut files = vec![File::new(trace.size); threads];
    // Each thread has a file of its own, or all have one.
    let mut rental = Rental::default();
    let mut naps = vec![0; threads];
    let mut next = vec![0; threads];
    let mut clocks: Vec<u64> = (0..threads).map(|thread| 1_000_000 + trace.pause_ns(thread, 0)).collect();
    // A thread is about to read, or its read, begun at a time, returns.
    let mut began: Vec<Option<u64>> = vec![None; threads];
    let mut noise = patterns::Random(seed);
    let (mut times, mut outcome) = (Vec::new(), Outcome::NOTHING);
    while let Some(thread) =
        (0..threads).filter(|at| next[*at] < trace.threads[*at].len()).min_by_key(|at| clocks[*at])
    {
        let (offset, len) = trace.threads[thread][next[thread]];
        let now_ns = clocks[thread];
        let Some(begin_ns) = began[thread].take() else {
            began[thread] = Some(now_ns);
            let there_ns = machine.read(thread, offset, len, now_ns);
            let waits = there_ns > now_ns + Machine::copy_ns(len);
            clocks[thread] = there_ns + if waits { noise.late(reader) } else { 0 };
            continue;
        };
        next[thread] += 1;
        times.push(now_ns - begin_ns);
        clocks[thread] = now_ns + trace.think_ns + trace.pause_ns(thread, next[thread]);
        if !mode.watches() || next[thread] <= trace.unseen.max(1) {
            continue;
        }
        if naps[thread] > 0 {
            naps[thread] -= 1;
            continue;
        }
        let read = Read { offset, len, elapsed_ns: now_ns - begin_ns, now_ns };
        let observing = mode == Mode::Observe;
        let mut asked = Asked { machine: &mut machine, size: trace.size, now_ns, observing, requests: 0 };
        let effect = files[thread].on_read(&read, &device, Some(&mut rental), mode, &mut asked);
        clocks[thread] += asked.now_ns - now_ns + HOOK_NS;
        naps[thread] = effect.nap;
        outcome.issued += effect.asked;
        let counters = Counters::of(&read, &effect, device.latency_ns(), mode);
        outcome.useful += counters.useful;
        outcome.saved_ns += counters.saved_ns;
    }
    times.sort_unstable();
    Outcome {
        elapsed_ns: clocks.iter().max().copied().unwrap_or(0),
        device_bytes: machine.device_bytes(),
        p99_ns: times.get(times.len() * 99 / 100).copied().unwrap_or(0),
        reads_ns: times,
        ..outcome
    }
}
