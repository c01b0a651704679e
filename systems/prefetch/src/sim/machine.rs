//! The simulated device, page cache and read-ahead.

use std::collections::VecDeque;

use super::patterns::{Late, Random};
use crate::PAGE;

/// What is simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineOptions {
    /// Latency of each request, ns.
    pub latency_ns: u64,
    /// Bandwidth, bytes/s.
    pub bandwidth: u64,
    /// The kernel's read-ahead window, bytes; also the most one call prefetches (at least 128 KiB).
    pub readahead_bytes: u64,
    /// The page cache, bytes.
    pub memory_bytes: u64,
    /// The longest request, bytes: its pages arrive together.
    pub request_bytes: u64,
    /// How long the device, or the processor that serves it, is busy with a request besides its bytes, ns.
    pub request_ns: u64,
}

/// The kernel's read-ahead of one open file.
#[derive(Debug, Clone, Copy, Default)]
struct Ahead {
    previous_end: u64,
    start: u64,
    pages: u64,
    marker: u64,
}

const ABSENT: u64 = u64::MAX;

/// One file on one device.
#[derive(Debug)]
pub struct Machine {
    options: MachineOptions,
    /// When each page is (was) ready, ns; `ABSENT` when it is not cached.
    ready: Vec<u64>,
    order: VecDeque<usize>,
    cached: u64,
    ahead: Vec<Ahead>,
    bus_free_ns: u64,
    device_bytes: u64,
    late: Late,
    random: Random,
}

impl Machine {
    /// A file of `size` bytes, nothing cached, read through `readers` descriptors.
    pub fn new(options: &MachineOptions, size: u64, readers: usize) -> Machine {
        Machine {
            options: *options,
            ready: vec![ABSENT; size.div_ceil(PAGE) as usize],
            order: VecDeque::new(),
            cached: 0,
            ahead: vec![Ahead::default(); readers],
            bus_free_ns: 0,
            device_bytes: 0,
            late: Late::default(),
            random: Random(0),
        }
    }

    /// Requests that are late now and then.
    pub(super) fn with_late(self, late: Late, seed: u64) -> Machine {
        Machine { late, random: Random(seed), ..self }
    }

    /// Bytes delivered so far.
    pub fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    /// Bytes of a range that are cached or on their way.
    pub fn cached_bytes(&self, offset: u64, len: u64) -> u64 {
        let end = ((offset + len).div_ceil(PAGE) as usize).min(self.ready.len());
        let start = ((offset / PAGE) as usize).min(end);
        self.ready[start..end].iter().filter(|ready| **ready != ABSENT).count() as u64 * PAGE
    }

    /// Whether the page at `offset` is there at a time.
    pub fn is_ready(&self, offset: u64, now_ns: u64) -> bool {
        self.ready.get((offset / PAGE) as usize).is_some_and(|ready| *ready <= now_ns)
    }

    /// Asks for the absent pages of a range; the time when the last page of the range is there, ns.
    pub fn prefetch(&mut self, offset: u64, len: u64, now_ns: u64) -> u64 {
        let end = ((offset + len).div_ceil(PAGE) as usize).min(self.ready.len());
        let mut page = (offset / PAGE) as usize;
        let mut last = now_ns;
        let longest = (self.options.request_bytes / PAGE).max(1) as usize;
        while page < end {
            if self.ready[page] != ABSENT {
                last = last.max(self.ready[page]);
                page += 1;
                continue;
            }
            let run = (page..end).take_while(|page| self.ready[*page] == ABSENT).count().min(longest);
            let bytes = run as u64 * PAGE;
            self.bus_free_ns = self.bus_free_ns.max(now_ns)
                + (u128::from(bytes) * 1_000_000_000 / u128::from(self.options.bandwidth)) as u64
                + self.options.request_ns
                + self.random.late(self.late);
            let ready = self.bus_free_ns + self.options.latency_ns;
            self.device_bytes += bytes;
            for each in page..page + run {
                self.insert(each, ready);
            }
            last = last.max(ready);
            page += run;
        }
        last
    }

    fn insert(&mut self, page: usize, ready: u64) {
        self.ready[page] = ready;
        self.order.push_back(page);
        self.cached += PAGE;
        while self.cached > self.options.memory_bytes {
            let Some(old) = self.order.pop_front() else { break };
            if self.ready[old] != ABSENT {
                self.ready[old] = ABSENT;
                self.cached -= PAGE;
            }
        }
    }

    /// A read of a thread; the time when it returns, ns.
    pub fn read(&mut self, reader: usize, offset: u64, len: u64, now_ns: u64) -> u64 {
        let first = offset / PAGE;
        let end = (offset + len).div_ceil(PAGE);
        let mut ahead = self.ahead[reader];
        let sequential = offset == ahead.previous_end || offset == 0;
        let missing = (first..end).find(|page| self.ready.get(*page as usize) == Some(&ABSENT));
        let limit = (self.options.readahead_bytes / PAGE).max(1);
        if let Some(missing) = missing {
            if sequential {
                let continues = ahead.pages > 0 && missing == ahead.start + ahead.pages;
                ahead.pages =
                    if continues { ahead.pages * 2 } else { (end - first) * 2 }.clamp(4, limit.max(4));
                ahead.start = missing;
                ahead.marker = ahead.start + ahead.pages.saturating_sub((end - missing).min(ahead.pages - 1));
                self.prefetch(missing * PAGE, ahead.pages.max(1) * PAGE, now_ns);
            }
        } else if sequential && ahead.pages > 0 && (first..end).contains(&ahead.marker) {
            ahead.start += ahead.pages;
            ahead.pages = (ahead.pages * 2).min(limit.max(4));
            ahead.marker = ahead.start;
            self.prefetch(ahead.start * PAGE, ahead.pages * PAGE, now_ns);
        }
        ahead.previous_end = offset + len;
        self.ahead[reader] = ahead;
        let ready = self.prefetch(offset, len, now_ns);
        ready.max(now_ns) + Machine::copy_ns(len)
    }

    /// What reading so many cached bytes takes, ns.
    pub fn copy_ns(len: u64) -> u64 {
        800 + len / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: MachineOptions = MachineOptions {
        latency_ns: 1_000_000,
        bandwidth: 1_000_000_000,
        readahead_bytes: 128 << 10,
        memory_bytes: 64 << 20,
        request_bytes: 1 << 20,
        request_ns: 0,
    };

    fn rate(readahead_bytes: u64, offsets: impl Iterator<Item = u64>) -> f64 {
        let mut machine = Machine::new(&MachineOptions { readahead_bytes, ..OPTIONS }, 32 << 20, 1);
        let (mut now, mut bytes) = (0, 0);
        for offset in offsets {
            now = machine.read(0, offset, 65536, now);
            bytes += 65536;
        }
        bytes as f64 / now as f64 * 1000.0
    }

    #[test]
    fn random_reads_wait_one_latency_each() {
        let mbs = rate(128 << 10, (0..100).map(|i| i * 7 % 100 * 131072 + 65536));
        assert!((50.0..62.0).contains(&mbs), "{mbs} MB/s");
    }

    #[test]
    fn the_kernel_reads_ahead_of_a_forward_reader() {
        let small = rate(128 << 10, (0..400).map(|i| i * 65536));
        let big = rate(4 << 20, (0..400).map(|i| i * 65536));
        assert!(small > 90.0, "{small} MB/s");
        assert!(big > 600.0, "{big} MB/s");
    }

    #[test]
    fn the_cache_is_bounded() {
        let mut machine = Machine::new(&MachineOptions { memory_bytes: 1 << 20, ..OPTIONS }, 32 << 20, 1);
        machine.prefetch(0, 8 << 20, 0);
        assert_eq!(machine.cached_bytes(0, 32 << 20), 1 << 20);
        assert_eq!(machine.cached_bytes(7 << 20, 1 << 20), 1 << 20);
    }
}
