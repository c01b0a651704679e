//! A device, the page cache of many files on it and the kernel's reading ahead of each open one, in virtual time.
//! As `prefetch::sim::Machine`, which has a single file.

use std::collections::VecDeque;

use prefetch::PAGE;
use prefetch::sim::Machine;

/// What is simulated.
#[derive(Debug, Clone, Copy)]
pub struct DiskOptions {
    pub latency_ns: u64,
    /// Bytes/s.
    pub bandwidth: u64,
    /// The kernel's window, bytes.
    pub readahead_bytes: u64,
    /// The page cache, bytes.
    pub memory_bytes: u64,
}

/// The kernel's reading ahead of an open file; all in pages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ahead {
    previous_end: u64,
    start: u64,
    pages: u64,
    marker: u64,
}

/// The longest request, pages: its pages arrive together.
const REQUEST_PAGES: usize = (1 << 20) / PAGE as usize;
const ABSENT: u64 = u64::MAX;
const EVICTED: u64 = u64::MAX - 1;

fn is_there(ready_ns: u64) -> bool {
    ready_ns < EVICTED
}

pub struct Disk {
    pub options: DiskOptions,
    /// When each page of each file is there, ns.
    ready: Vec<Vec<u64>>,
    order: VecDeque<(usize, usize)>,
    bus_free_ns: u64,
    pub device_bytes: u64,
}

impl Disk {
    /// Files of so many bytes, nothing cached.
    pub fn new(options: &DiskOptions, sizes: impl Iterator<Item = u64>) -> Disk {
        Disk {
            options: *options,
            ready: sizes.map(|size| vec![ABSENT; size.div_ceil(PAGE) as usize]).collect(),
            order: VecDeque::new(),
            bus_free_ns: 0,
            device_bytes: 0,
        }
    }

    /// All of a file is in the cache from now on.
    pub fn warm(&mut self, file: usize) {
        (0..self.ready[file].len()).for_each(|page| self.insert(file, page, 0));
    }

    /// Whether all of the first bytes of a file are cached or on their way.
    pub fn has(&self, file: usize, bytes: u64) -> bool {
        let pages = (bytes.div_ceil(PAGE) as usize).min(self.ready[file].len());
        self.ready[file][..pages].iter().all(|ready| is_there(*ready))
    }

    /// Whether of the first bytes more have been evicted than are there.
    pub fn is_evicted(&self, file: usize, bytes: u64) -> bool {
        let pages = (bytes.div_ceil(PAGE) as usize).min(self.ready[file].len());
        let count =
            |of: fn(u64) -> bool| self.ready[file][..pages].iter().filter(|ready| of(**ready)).count();
        count(|ready| ready == EVICTED) > count(is_there)
    }

    /// Asks for what is absent of some pages; when the last of them is there, ns.
    fn ask_pages(&mut self, file: usize, from: u64, to: u64, now_ns: u64) -> u64 {
        let to = (to as usize).min(self.ready[file].len());
        let (mut page, mut last_ns) = (from as usize, now_ns);
        while page < to {
            let ready_ns = self.ready[file][page];
            if is_there(ready_ns) {
                last_ns = last_ns.max(ready_ns);
                page += 1;
                continue;
            }
            let absent = self.ready[file][page..to].iter().take_while(|ready| !is_there(**ready)).count();
            let run = absent.min(REQUEST_PAGES);
            let bytes = run as u64 * PAGE;
            self.bus_free_ns = self.bus_free_ns.max(now_ns) + bytes * 1_000_000_000 / self.options.bandwidth;
            let ready_ns = self.bus_free_ns + self.options.latency_ns;
            self.device_bytes += bytes;
            (page..page + run).for_each(|each| self.insert(file, each, ready_ns));
            last_ns = last_ns.max(ready_ns);
            page += run;
        }
        last_ns
    }

    /// Asks for a range without waiting for it; when the last page of it is there, ns.
    pub fn ask(&mut self, file: usize, offset: u64, len: u64, now_ns: u64) -> u64 {
        self.ask_pages(file, offset / PAGE, (offset + len).div_ceil(PAGE), now_ns)
    }

    fn insert(&mut self, file: usize, page: usize, ready_ns: u64) {
        self.ready[file][page] = ready_ns;
        self.order.push_back((file, page));
        if self.order.len() as u64 * PAGE > self.options.memory_bytes
            && let Some((file, page)) = self.order.pop_front()
        {
            self.ready[file][page] = EVICTED;
        }
    }

    /// A read; when it returns, ns.
    pub fn read(&mut self, ahead: &mut Ahead, file: usize, offset: u64, len: u64, now_ns: u64) -> u64 {
        let (first, end) = (offset / PAGE, (offset + len).div_ceil(PAGE));
        let sequential = first == ahead.previous_end;
        let limit = self.options.readahead_bytes / PAGE;
        let missing = (first..end).find(|page| !is_there(self.ready[file][*page as usize]));
        if let Some(missing) = missing.filter(|_| sequential) {
            let continues = ahead.pages > 0 && missing == ahead.start + ahead.pages;
            let pages = if continues { ahead.pages * 2 } else { (end - first) * 2 }.clamp(4, limit);
            let marker = missing + pages.saturating_sub((end - missing).min(pages - 1));
            *ahead = Ahead { previous_end: end, start: missing, pages, marker };
            self.ask_pages(file, missing, missing + pages, now_ns);
        } else if missing.is_none() && sequential && (first..end).contains(&ahead.marker) && ahead.pages > 0 {
            let (start, pages) = (ahead.start + ahead.pages, (ahead.pages * 2).min(limit));
            *ahead = Ahead { previous_end: end, start, pages, marker: start };
            self.ask_pages(file, start, start + pages, now_ns);
        }
        ahead.previous_end = end;
        self.ask_pages(file, first, end, now_ns).max(now_ns) + Machine::copy_ns(len)
    }
}
