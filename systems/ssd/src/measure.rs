//! Closed-loop measurements in virtual time: what a profile gives, beside what was published.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::command::{BLOCK_BYTES, Command, Nanos, Token};
use crate::device::{Config, Ssd};
use crate::error::ConfigError;
use crate::profile::Profile;

pub use crate::metric::Metric;

/// A device driven in virtual time with a fixed number of commands in flight.
#[derive(Debug)]
pub struct ClosedLoop {
    /// The device.
    pub ssd: Ssd,
    now: Nanos,
    next_id: u64,
}

/// Random positions on a preconditioned span this large.
const SPAN_BLOCKS: u64 = (256 << 20) / BLOCK_BYTES;

impl ClosedLoop {
    /// A loop on a new device.
    pub fn new(ssd: Ssd) -> ClosedLoop {
        ClosedLoop { ssd, now: 0, next_id: 0 }
    }

    /// Virtual time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Lets `ns` pass (host work between commands).
    pub fn wait(&mut self, ns: Nanos) {
        self.now += ns;
        let mut done = Vec::new();
        self.ssd.advance(self.now, &mut done);
    }

    /// Runs until nothing is left to do.
    pub fn quiesce(&mut self) {
        let mut done = Vec::new();
        while let Some(t) = self.ssd.next_event() {
            self.ssd.advance(t, &mut done);
            self.now = self.now.max(t);
        }
    }

    /// Issues one command and waits for it; its latency.
    pub fn once(&mut self, command: impl FnOnce(u64) -> Command) -> Nanos {
        let start = self.now;
        let mut command = Some(command);
        self.run(1, 1, |_, id| match command.take() {
            Some(make) => make(id),
            None => Command::flush(id),
        });
        self.now - start
    }

    /// Issues `count` commands with `depth` in flight; the virtual time it took. `make(i, id)` gives the
    /// i-th command; commands the device refuses end the run early.
    pub fn run(&mut self, count: u64, depth: u32, mut make: impl FnMut(u64, u64) -> Command) -> Nanos {
        let start = self.now;
        let (mut issued, mut ended) = (0u64, 0u64);
        let mut done = Vec::new();
        while ended < count {
            while issued < count && issued - ended < u64::from(depth) {
                self.next_id += 1;
                if self.ssd.submit(make(issued, self.next_id), self.now).is_err() {
                    return self.now - start;
                }
                issued += 1;
            }
            let Some(t) = self.ssd.next_event() else { break };
            self.now = self.now.max(t);
            self.ssd.advance(t, &mut done);
            ended += done.len() as u64;
            done.clear();
        }
        self.now - start
    }
}

/// Measures `metric` on a fresh device of `profile` (regime `flush`).
///
/// # Errors
/// [`ConfigError`] if the profile cannot be built.
pub fn measure(profile: &Profile, metric: Metric) -> Result<f64, ConfigError> {
    use Metric::*;
    let mut profile = profile.clone();
    if metric == WriteSeqNativeMbS {
        profile.media.slc_bytes = 0;
    }
    let rotating = profile.media.rotation.is_some();
    let capacity = match metric {
        SlcCliffGb => (profile.media.slc_bytes as f64 * 1.5 / 4096.0) as u64 * 4096,
        _ if rotating => 16 << 30,
        WriteSeqNativeMbS | WriteSeqMbS => 8 << 30,
        _ => 1 << 30,
    };
    let mut l = ClosedLoop::new(Ssd::new(Config::new(profile, capacity))?);
    let count = if rotating { 2_000 } else { 20_000 };
    Ok(match metric {
        Read4kQd1Us => random(&mut l, false, 1, count / 4, 1).0,
        Write4kQd1Us => random(&mut l, true, 1, count / 4, 1).0,
        Write36kQd1Us => random(&mut l, true, 9, count / 4, 1).0,
        Read4kQd1Iops => random(&mut l, false, 1, count / 4, 1).1,
        Write4kQd1Iops => random(&mut l, true, 1, count / 4, 1).1,
        Read4kQd16Iops => random(&mut l, false, 1, count, 16).1,
        Write4kQd16Iops => random(&mut l, true, 1, count, 16).1,
        Read4kQd32Iops => random(&mut l, false, 1, count, 32).1,
        Write4kQd32Iops => random(&mut l, true, 1, count, 32).1,
        Read4kMaxIops => random(&mut l, false, 1, count, 512).1,
        Write4kMaxIops => random(&mut l, true, 1, count, 512).1,
        ReadSeqMbS => {
            precondition(&mut l);
            sequential(&mut l, false, SPAN_BLOCKS / 256)
        }
        WriteSeqMbS if rotating => sequential(&mut l, true, 1024),
        WriteSeqMbS | WriteSeqNativeMbS => sequential(&mut l, true, 4096),
        SlcCliffGb => cliff(&mut l),
        FlushMs => {
            l.once(|id| Command::write(id, 5, 1, Token(1)));
            l.once(Command::flush) as f64 / 1e6
        }
        Fua4kMs => l.once(|id| Command::write_fua(id, 5, 1, Token(1))) as f64 / 1e6,
    })
}

fn precondition(l: &mut ClosedLoop) {
    if l.ssd.profile().media.rotation.is_none() {
        l.run(SPAN_BLOCKS / 256, 4, |i, id| Command::write(id, i * 256, 256, Token(1 + i * 256)));
        l.quiesce();
    } else {
        // Reads of a disk cost the same wherever data was written: touch a block here and there only,
        // but map the span that is read.
        let blocks = l.ssd.capacity_blocks();
        l.run(blocks / 4096, 4, |i, id| Command::write(id, i * 4096, 4096, Token(1 + i * 4096)));
        l.quiesce();
    }
}

/// Mean latency in us (at depth 1: of each command) and commands per second.
fn random(l: &mut ClosedLoop, write: bool, blocks: u32, count: u64, depth: u32) -> (f64, f64) {
    if !write {
        precondition(l);
    }
    let rotating = l.ssd.profile().media.rotation.is_some();
    let span = if rotating { l.ssd.capacity_blocks() } else { SPAN_BLOCKS };
    let queues = u64::from(l.ssd.queues()).min(16);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(42);
    let ns = l.run(count, depth, |i, id| {
        let lba = rng.random_range(0..span - u64::from(blocks));
        let c =
            if write { Command::write(id, lba, blocks, Token(id)) } else { Command::read(id, lba, blocks) };
        c.on_queue((i % queues) as u16)
    });
    let ns = ns.max(1) as f64;
    (ns / 1e3 / count as f64 * f64::from(depth), count as f64 * 1e9 / ns)
}

/// MB/s of 1 MiB commands at depth 8.
fn sequential(l: &mut ClosedLoop, write: bool, count: u64) -> f64 {
    let make = |i: u64, id| {
        let lba = i * 256;
        if write { Command::write(id, lba, 256, Token(id)) } else { Command::read(id, lba, 256) }
    };
    // A first part fills the write cache; the rate is that of the rest.
    let first = if write { count / 2 } else { 0 };
    l.run(first, 8, make);
    let ns = l.run(count - first, 8, |i, id| make(first + i, id));
    (count - first) as f64 * 1_048_576.0 / 1e6 / (ns.max(1) as f64 / 1e9)
}

/// GB written until a stretch of 128 MiB takes a tenth longer than the first.
fn cliff(l: &mut ClosedLoop) -> f64 {
    let stretches = l.ssd.capacity_blocks() / 256 / 128;
    let mut first = None;
    for s in 0..stretches {
        let ns = l.run(128, 8, |i, id| Command::write(id, (s * 128 + i) * 256, 256, Token(id)));
        let base = *first.get_or_insert(ns);
        if ns as f64 > base as f64 * 1.1 {
            return (s * 128 * 1_048_576) as f64 / 1e9;
        }
    }
    f64::INFINITY
}
