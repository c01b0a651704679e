//! Reads without order: ski rental by regions. A part of a file is fetched once its misses have cost eight times what fetching
//! it takes at the rate that is assumed or was seen, and those to come may bring as much again. As what was fetched is read,
//! the next is fetched sooner and in longer requests.

use crate::device::near_shortest;
use crate::tuning::{CHUNK, PRICE, QUEUE, REGIONS, SAMPLE};
use crate::{Device, PAGE, Pages, Read, Reason};

/// So many misses stand for a region that was fetched.
const FETCHED: u16 = u16::MAX;

/// The misses of one file. Zeroes are one without a miss.
#[derive(Debug, Clone, Copy)]
pub struct Rental {
    /// Misses in each region.
    misses: [u16; REGIONS],
    all: u32,
    last_ns: u64,
    /// How long a miss takes at least, and what it costs the program, ns: where several threads wait at a time,
    /// that counts once.
    alone_ns: u64,
    cost_ns: u64,
    /// Misses in what was fetched, less hits.
    lost: u32,
    /// What is being fetched: a region, and where in it.
    current: Option<u8>,
    next: u64,
    /// Hits in what was fetched; half of them are forgotten at each miss there.
    won: u32,
    given_up: bool,
}

impl Default for Rental {
    fn default() -> Rental {
        Rental {
            misses: [0; REGIONS],
            all: 0,
            last_ns: 0,
            alone_ns: 0,
            cost_ns: 0,
            lost: 0,
            current: None,
            next: 0,
            won: 0,
            given_up: false,
        }
    }
}

impl Rental {
    /// Whether something is being fetched.
    pub(crate) fn is_fetching(&self) -> bool {
        self.current.is_some()
    }

    fn region_bytes(size: u64) -> u64 {
        (size / REGIONS as u64 / PAGE + 1) * PAGE
    }

    /// A read that continues no stream. Whether it lies in what was fetched, the bytes asked for after it, and why. `whole`:
    /// all of the file is to be fetched at once.
    pub(crate) fn on_read(
        &mut self,
        size: u64,
        read: &Read,
        whole: bool,
        device: &Device,
        pages: &mut impl Pages,
    ) -> (bool, u64, Reason) {
        let slow = read.is_slow();
        let bytes = Rental::region_bytes(size);
        let region = ((read.offset / bytes) as usize).min(REGIONS - 1);
        let behind = self.current == Some(region as u8) && read.offset < self.next;
        let known = self.misses.get(region).copied().unwrap_or(FETCHED);
        let fetched = known == FETCHED;
        if fetched {
            self.won = if slow { self.won / 2 } else { (self.won + 1).min(64 * SAMPLE) };
            // What was fetched is gone again: there is no room for it.
            self.lost = if slow { self.lost + 4 } else { self.lost.saturating_sub(1) };
            self.given_up |= self.lost >= SAMPLE;
        } else if slow && !behind {
            self.miss(read, device);
            if let Some(misses) = self.misses.get_mut(region) {
                *misses = (known + 1).min(FETCHED - 1);
            }
        }
        if slow && self.current.is_none() && !self.given_up && (whole || self.all >= SAMPLE / 2) {
            // What fetching a region costs, in misses: less where what was fetched is read.
            let times = (PRICE / self.trust()).max(2);
            let price = if whole { 0 } else { times * device.time_of(bytes) / self.cost_ns.max(1) };
            if price * PRICE * read.len <= bytes {
                self.begin(region, price, bytes);
            }
        }
        let asked = self.fetch(size, device, pages);
        let reason = match (self.current, self.all) {
            _ if self.given_up => Reason::NoMemory,
            (Some(_), _) => Reason::Fetching,
            _ if fetched => Reason::Fetched,
            (None, 1..) => Reason::Paying,
            _ => Reason::NoPattern,
        };
        (behind || fetched, asked, reason)
    }

    /// How many times as much may be risked: grows with hits in what was fetched.
    fn trust(&self) -> u64 {
        1 + u64::from(self.won / SAMPLE)
    }

    fn miss(&mut self, read: &Read, device: &Device) {
        device.learn_miss(read.elapsed_ns);
        let cost_ns = read.elapsed_ns.min(read.now_ns.saturating_sub(self.last_ns));
        if self.all == 0 {
            self.cost_ns = cost_ns;
        }
        self.alone_ns = near_shortest(self.alone_ns, read.elapsed_ns);
        self.cost_ns = self.cost_ns - self.cost_ns / 16 + cost_ns / 16;
        self.last_ns = read.now_ns;
        self.all = self.all.saturating_add(1);
    }

    /// The first region from one on that was missed in often enough is fetched.
    fn begin(&mut self, from: usize, price: u64, bytes: u64) {
        let is_paid = |misses: u16| misses != FETCHED && u64::from(misses) >= price;
        let all = self.misses.iter().enumerate().cycle().skip(from).take(REGIONS);
        let found = all.into_iter().find(|(_, misses)| is_paid(**misses)).map(|(at, _)| at);
        self.current = found.map(|at| at as u8);
        self.next = found.unwrap_or(0) as u64 * bytes;
    }

    /// Asks for more of the region, if what was asked for has come: so little that a miss waits hardly longer for it.
    fn fetch(&mut self, size: u64, device: &Device, pages: &mut impl Pages) -> u64 {
        let Some(region) = self.current else { return 0 };
        let start = u64::from(region) * Rental::region_bytes(size);
        let end = (start + Rental::region_bytes(size)).min(size);
        if self.next > start && pages.is_ready(self.next - PAGE) == Some(false) {
            return 0;
        }
        if self.next >= end {
            if let Some(misses) = self.misses.get_mut(usize::from(region)) {
                *misses = FETCHED;
            }
            self.current = None;
            return 0;
        }
        // So little that a miss waits hardly longer, until what was fetched is read.
        let most = device.bytes_in(self.alone_ns / QUEUE) * self.trust();
        let most = (most / PAGE * PAGE).clamp(4 * PAGE, 4 * CHUNK);
        let mut asked = 0;
        while asked < most && self.next < end {
            let len = (most - asked).min(CHUNK).min(end - self.next);
            if !pages.ask(self.next, len) {
                break;
            }
            asked += len;
            self.next += len;
        }
        asked
    }
}
