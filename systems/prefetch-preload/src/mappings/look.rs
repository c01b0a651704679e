//! What is known of one mapping: its touches are told to the core, what that asks for is prefetched.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use prefetch::course::Shape;
use prefetch::device::Wait;
use prefetch::{Device, FileState, Mode, PAGE, Read, Request};
use prefetch_os::sys;

use super::kernel::{is_cached, will_need};
use super::touched::{Fresh, GRANULE, Granules, Place, Touched};
use crate::table::{self, BUDGET};
use crate::{cost, report};

/// Requests that are timed at a time.
const PROBES: usize = 4;
/// A full look comes after so many near what was touched last.
const NEARBY: u32 = 64;
/// The longest pause beside a stream that nobody has touched since, ns.
const PAUSE_NS_STREAM_MAX: u64 = 10_000_000;
/// Latency of a device that was not measured, ns: longer than copying, at least.
const LATENCY_NS_MIN: u64 = 50_000;

/// A request that is being timed.
#[derive(Clone, Copy)]
struct Probe {
    /// Its last page.
    address: usize,
    since_ns: u64,
    /// When it was last looked at, and not there, ns.
    seen_ns: u64,
    /// Bytes that were ahead of all streams when it was made.
    ahead: u64,
}

/// How long the program's threads have waited for faults since the last look.
pub struct Waited {
    /// Major faults.
    pub count: u64,
    /// Bytes that the program has read, or the kernel for it.
    pub bytes: u64,
    pub elapsed_ns: u64,
    pub now_ns: u64,
}

/// What a look has found.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// Nothing new.
    #[default]
    Nothing,
    /// Touches, and no stream that is prefetched.
    Touches,
    /// A stream that is prefetched: the longest pause until the next look, ns.
    Stream(u64),
}

/// A mapping. Plain data: zeroes are one that was not begun.
pub struct Known {
    pub file: FileState,
    /// Where in the file the mapping begins, bytes.
    pub offset: u64,
    pub device: u32,
    pub record: u32,
    touched: Touched,
    /// What was asked for.
    asked: Granules,
    probes: [Option<Probe>; PROBES],
    looks: u32,
    fruitless: u32,
}

impl Known {
    /// Begins with a file.
    pub fn begin(&mut self, file: FileState, offset: u64, device: u32) {
        self.file = file;
        self.file.coarse = true;
        self.offset = offset;
        self.device = device;
        self.touched.clear();
        self.asked.clear();
        self.probes = [None; PROBES];
        self.looks = 0;
        self.fruitless = 0;
    }

    /// Where it lies.
    pub fn device(&self) -> &'static Device {
        table::DEVICE.get(self.device as usize).unwrap_or(&table::DEVICE[0])
    }

    /// Whether a stream is prefetched.
    pub fn is_active(&self) -> bool {
        self.file.latest().2
    }

    /// Looks at what was touched and tells the core; `hinted` by MADV_RANDOM.
    pub fn look(&mut self, place: Place, hinted: bool, pagemap: i32, waited: &Waited) -> Found {
        let active = self.is_active();
        if waited.count == 0 && waited.bytes == 0 && !active {
            return Found::Nothing;
        }
        self.looks = self.looks.wrapping_add(1);
        // Where faults are elsewhere, less and less often.
        if !active && self.fruitless > 8 && !self.looks.is_multiple_of(1 << (self.fruitless - 8).min(6)) {
            return Found::Nothing;
        }
        let device = self.device();
        // What the kernel reads ahead of a mapping is a window or two: on far devices next to nothing.
        let far = device.model().bdp() > 4 * device.limits.readahead_bytes();
        self.file.random_hint = hinted || far;
        let fresh = if active && !self.looks.is_multiple_of(NEARBY) {
            let stride = match self.file.latest().0 {
                Shape::Stride(stride) => stride.unsigned_abs(),
                _ => 0,
            };
            self.touched.nearby(place, stride, pagemap)
        } else {
            self.touched.anywhere(place, pagemap)
        };
        if fresh.granules().is_empty() {
            self.fruitless = self.fruitless.saturating_add(1);
            if self.fruitless == 32 && waited.count > 0 {
                // Faults, and none in what was not touched before.
                self.touched.again(place, pagemap);
            }
            if active && self.fruitless > 64 {
                // What is ahead of its streams is not coming to be read.
                self.file.forget(device, &BUDGET);
            }
            let pause_ns = (device.latency_ns() / 8).min(PAUSE_NS_STREAM_MAX);
            return if active && self.fruitless < 32 { Found::Stream(pause_ns) } else { Found::Nothing };
        }
        self.fruitless = 0;
        // There, what a fault finds is still on its way, so that it does not count as a major one.
        let windows = if far { waited.bytes / device.limits.readahead_bytes() } else { 0 };
        self.tell(place, hinted, &fresh, &Waited { count: waited.count.max(windows), ..*waited });
        if self.looks.is_multiple_of(16) {
            report::record(self.record, &self.file, self.file.latest());
            report::process();
        }
        if self.is_active() { Found::Stream(0) } else { Found::Touches }
    }

    fn tell(&mut self, place: Place, hinted: bool, fresh: &Fresh, waited: &Waited) {
        let device = self.device();
        let unknown = device.latency_ns() == 0;
        if waited.count > 0 && (unknown || self.looks.is_multiple_of(256) && device.streams() == 0) {
            let measured = measure(device, place, fresh);
            if unknown && !measured {
                // Several threads may have waited at once: this is the least it can have been.
                device.learn_miss((waited.elapsed_ns / waited.count).max(20_000), 0);
            }
        }
        // How long a single fault took is not known.
        let latency_ns = device.latency_ns().max(LATENCY_NS_MIN) + GRANULE as u64;
        let granules = fresh.granules();
        let asked = granules.iter().filter(|granule| self.asked.has(**granule as usize)).count();
        // Which ones were missed is not known either.
        let (mut missed, unasked) = (0, (granules.len() - asked) as u64);
        let before_ns = waited.now_ns.saturating_sub(waited.elapsed_ns);
        for (at, granule) in granules.iter().enumerate() {
            // Nor when: evenly spread, a look is no burst.
            let now_ns = before_ns + waited.elapsed_ns * (at as u64 + 1) / granules.len() as u64;
            let (from, to) = place.part(*granule as usize);
            let slow = if self.asked.has(*granule as usize) {
                let more = granules.get(at + 1);
                more.is_none_or(|more| more.abs_diff(*granule) > 64) && self.is_late(place, *granule)
            } else {
                missed += waited.count.min(unasked);
                let slow = missed >= unasked;
                missed -= if slow { unasked } else { 0 };
                slow
            };
            let read = Read {
                offset: self.offset + from as u64,
                len: to.saturating_sub(from) as u64,
                elapsed_ns: Some(if slow { latency_ns } else { 1_000 }),
                now_ns,
            };
            let saved_ns = self.file.counters.saved_ns;
            self.file.on_read(&read, device, &BUDGET, Mode::Predict);
            cost::gained(self.file.counters.saved_ns - saved_ns);
            if slow && hinted && self.is_active() {
                // The kernel reads single pages: the rest of what the program is in would be missed page by page.
                let _ = will_need(place.start + from, to.saturating_sub(from));
            }
            self.touched.note(*granule);
        }
    }

    /// Whether the program is about to touch what was asked for and is not there yet.
    fn is_late(&self, place: Place, granule: u32) -> bool {
        let step = match self.file.latest().0 {
            Shape::Forward => GRANULE as i64,
            Shape::Backward => -(GRANULE as i64),
            Shape::Stride(stride) => stride,
            Shape::Unknown => return false,
        };
        let next = (i64::from(granule) + step / GRANULE as i64).max(0) as usize;
        self.asked.has(next) && !is_cached(place.address(next))
    }

    /// Prefetches what the core asks for, unless the mapping is `gone`. When there is more to ask for, ns.
    pub fn issue(&mut self, place: Place, gone: &AtomicBool) -> Option<u64> {
        let device = self.device();
        for _ in 0..256 {
            let now_ns = sys::now_ns();
            let Some(request) = self.file.claim_at(now_ns, device, &BUDGET) else { break };
            let Some((from, to)) = within(request, self.offset, place.len) else { continue };
            let mut at = from;
            while at < to && !gone.load(Relaxed) {
                let piece = (device.limits.call_bytes() as usize).min(to - at);
                let _ = will_need(place.start + at, piece);
                at += piece;
            }
            let last = place.start + to - 1;
            (place.granule(place.start + from)..=place.granule(last)).for_each(|at| self.asked.add(at));
            self.start_timing(last / PAGE as usize * PAGE as usize, now_ns);
        }
        self.file.next_claim_ns(device)
    }

    fn start_timing(&mut self, address: usize, now_ns: u64) {
        if let Some(probe) = self.probes.iter_mut().find(|probe| probe.is_none())
            && !is_cached(address)
        {
            *probe = Some(Probe { address, since_ns: now_ns, seen_ns: now_ns, ahead: BUDGET.outstanding() });
        }
    }

    /// Looks whether the requests that are being timed are there.
    pub fn time(&mut self) {
        let device = self.device();
        for probe in &mut self.probes {
            let Some(Probe { address, since_ns, seen_ns, ahead }) = *probe else { continue };
            let now_ns = sys::now_ns();
            if is_cached(address) {
                *probe = None;
                // It came since it was last looked at: of no use when that is long ago.
                let unsure_ns = now_ns.saturating_sub(seen_ns);
                if unsure_ns < 200_000 + device.latency_ns() / 8 {
                    let elapsed_ns = (now_ns - unsure_ns / 2).saturating_sub(since_ns);
                    device.learn_wait(&Wait { elapsed_ns, ahead, request: u64::MAX });
                }
            } else if now_ns.saturating_sub(since_ns) > 500_000_000 {
                *probe = None;
            } else if let Some(probe) = probe {
                probe.seen_ns = now_ns;
            }
        }
    }
}

/// Measures how long a page takes that is not cached and lies near what was touched. `false` when there is none.
fn measure(device: &Device, place: Place, fresh: &Fresh) -> bool {
    let near = fresh.granules().iter().flat_map(|granule| {
        [16i64, -16, 40, -40].map(|step| usize::try_from(i64::from(*granule) + step).unwrap_or(usize::MAX))
    });
    let inside = near.take(64).filter(|granule| *granule < place.granules());
    let Some(cold) = inside.map(|granule| place.address(granule)).find(|address| !is_cached(*address)) else {
        return false;
    };
    let begin_ns = sys::now_ns();
    if will_need(cold, PAGE as usize).is_err() {
        return false;
    }
    wait(cold);
    device.learn_miss(sys::now_ns().saturating_sub(begin_ns), PAGE);
    true
}

/// The part of a request that is mapped, as offsets from the mapping's beginning, in whole pages.
fn within(request: Request, offset: u64, len: usize) -> Option<(usize, usize)> {
    let from = request.offset.saturating_sub(offset) as usize;
    let to = request.offset.saturating_add(request.len).saturating_sub(offset) as usize;
    let to = to.min(len.next_multiple_of(PAGE as usize));
    (from < to).then_some((from, to))
}

/// Waits until a page is there, at most 50 ms.
fn wait(address: usize) {
    for _ in 0..500 {
        if is_cached(address) {
            return;
        }
        sys::sleep_ns(50_000);
    }
}
