//! Follows what a program touches of the files it has mapped.
//!
//! The hooks of mmap(2) and munmap(2) keep a table; a mapping whose pages are cached already is left alone. A thread of
//! the library then looks, for as long as the process has major faults, at which pages have entries in the page tables
//! (PAGEMAP_SCAN, Linux 6.7): new ones were touched since, in windows of 16 pages, which is what one fault maps. The
//! core sees them as reads. What it asks for is prefetched by madvise(2) on the mapping: no file is opened.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use prefetch::stream::Shape;
use prefetch::{FileState, Mode, PAGE, Read, Request};
use prefetch_os::sys;

use crate::cost::{self, Meter};
use crate::table::{self, BUDGET, EPOCH};
use crate::watch::{self, ON, RESTING, STATE};
use crate::{report, worker};

/// Mappings that are followed at a time; later ones are left alone.
const MAPPINGS: usize = 16;
/// Shorter mappings are left to the kernel, bytes.
const BYTES_MIN: usize = 1 << 20;
/// What one fault maps at most, bytes.
const GRANULE: usize = 64 << 10;
/// Granules of a mapping: 4 GiB. What lies behind is left alone.
const GRANULES: usize = 1 << 16;
/// New granules that are taken at one look.
const FRESH_MAX: usize = 256;
/// Pages of a new mapping that are looked at in the program's call.
const PROBES: usize = 8;
/// The longest pause between two looks at the fault counter, ns.
const PAUSE_NS_MAX: u64 = 250_000_000;
const PAUSE_NS_MIN: u64 = 1_000_000;

/// A mapping, with what is known of it.
struct Mapping {
    lock: AtomicU32,
    /// Where it begins; 0 when the place is free.
    start: AtomicUsize,
    len: AtomicUsize,
    /// It was unmapped while the library's thread was busy with it.
    gone: AtomicBool,
    /// The program said MADV_RANDOM.
    random: AtomicBool,
    known: UnsafeCell<Known>,
}

// SAFETY: `known` is only reached by whoever holds the lock.
unsafe impl Sync for Mapping {}

struct Known {
    file: FileState,
    /// Where in the file the mapping begins, bytes.
    offset: u64,
    device: u32,
    record: u32,
    touched: [u64; GRANULES / 64],
    /// What was asked for.
    asked: [u64; GRANULES / 64],
    /// The last page of a request that is being timed, when it was made, and how much was ahead then.
    probe: Option<(usize, u64, u64)>,
    /// Granules touched last, to tell in which order new ones were.
    heads: [u32; 8],
    heads_len: usize,
    looks: u32,
    fruitless: u32,
}

static MAPPING: [Mapping; MAPPINGS] = [const {
    Mapping {
        lock: AtomicU32::new(0),
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        gone: AtomicBool::new(false),
        random: AtomicBool::new(false),
        // SAFETY: zeroes are plain numbers and a `FileState` (see there).
        known: UnsafeCell::new(unsafe { core::mem::zeroed() }),
    }
}; MAPPINGS];

/// How many places are taken: most programs have none, and the hooks look no further.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The kernel does not tell what was touched.
static UNABLE: AtomicBool = AtomicBool::new(false);

impl Mapping {
    /// Never waits.
    fn with<T>(&self, work: impl FnOnce(&mut Known) -> T) -> Option<T> {
        let epoch = EPOCH.load(Relaxed);
        let held = self.lock.load(Relaxed);
        if held == epoch || self.lock.compare_exchange(held, epoch, Acquire, Relaxed).is_err() {
            return None;
        }
        // SAFETY: the lock is held; one that another thread held when the process forked counts as free.
        let done = work(unsafe { &mut *self.known.get() });
        self.lock.store(0, Release);
        Some(done)
    }

    fn overlaps(&self, start: usize, len: usize) -> bool {
        let own = self.start.load(Relaxed);
        own != 0 && own < start.saturating_add(len) && start < own.saturating_add(self.len.load(Relaxed))
    }

    /// Frees the place, or leaves that to the thread which is busy with it.
    fn bury(&self) {
        self.gone.store(true, Relaxed);
        self.with(|known| self.bury_locked(known));
    }

    fn bury_locked(&self, known: &mut Known) {
        if self.gone.swap(false, Relaxed) && self.start.swap(0, Relaxed) != 0 {
            let latest = known.file.latest();
            known.file.close(device(known), &BUDGET);
            report::record(known.record, &known.file, latest);
            COUNT.fetch_sub(1, Relaxed);
        }
    }
}

fn device(known: &Known) -> &'static prefetch::Device {
    table::DEVICE.get(known.device as usize).unwrap_or(&table::DEVICE[0])
}

/// The program mapped a file.
#[inline]
pub fn on_map(address: usize, len: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) {
    if address == usize::MAX {
        return;
    }
    if flags & libc::MAP_FIXED != 0 {
        on_unmap(address, len);
    }
    let odd = flags & (libc::MAP_ANONYMOUS | libc::MAP_POPULATE | libc::MAP_HUGETLB);
    if fd < 0 || len < BYTES_MIN || odd != 0 || protection & libc::PROT_EXEC != 0 {
        return;
    }
    let mode = table::tuning().mode;
    if STATE.load(Relaxed) == ON && matches!(mode, Mode::Auto | Mode::Predict) && !UNABLE.load(Relaxed) {
        watch::guarded(|| begin(address, len, fd, offset as u64));
    }
}

/// Part of the address space was unmapped, or is about to mean something else.
#[inline]
pub fn on_unmap(address: usize, len: usize) {
    if COUNT.load(Relaxed) == 0 {
        return;
    }
    for mapping in MAPPING.iter().filter(|mapping| mapping.overlaps(address, len)) {
        mapping.bury();
    }
}

/// The program gave a hint about memory.
#[inline]
pub fn on_advice(address: usize, len: usize, advice: c_int) {
    let random = match advice {
        libc::MADV_RANDOM => true,
        libc::MADV_NORMAL | libc::MADV_SEQUENTIAL => false,
        _ => return,
    };
    if COUNT.load(Relaxed) > 0 {
        for mapping in MAPPING.iter().filter(|mapping| mapping.overlaps(address, len)) {
            mapping.random.store(random, Relaxed);
        }
    }
}

/// Whether a page is in the page cache, or cannot be asked for.
fn is_cached(address: usize) -> bool {
    let mut byte = 0u8;
    // SAFETY: one page is asked for, one byte is written.
    let asked =
        unsafe { sys::call(libc::SYS_mincore, [address, PAGE as usize, (&raw mut byte) as usize, 0, 0, 0]) };
    asked.is_err() || byte & 1 != 0
}

/// Takes a place for a new mapping, unless what is looked at of it is cached.
fn begin(address: usize, len: usize, fd: c_int, offset: u64) {
    let pages = len / PAGE as usize;
    if (0..PROBES).all(|at| is_cached(address + pages * at / PROBES * PAGE as usize)) {
        return;
    }
    let Some(stat) = sys::fstat(fd).ok().filter(|stat| watch::is_worth(fd, stat)) else { return };
    let Some(mapping) = MAPPING.iter().find(|mapping| mapping.start.load(Relaxed) == 0) else { return };
    let taken = mapping.with(|known| {
        if mapping.start.load(Relaxed) != 0 {
            return false;
        }
        known.file = FileState::new(stat.st_size as u64);
        known.offset = offset;
        known.device = table::device_index(stat.st_dev);
        known.file.coarse = true;
        known.touched = [0; GRANULES / 64];
        known.asked = [0; GRANULES / 64];
        known.probe = None;
        known.heads_len = 0;
        known.looks = 0;
        known.fruitless = 0;
        table::learn_limits(device(known), stat.st_dev);
        known.record = report::take(fd, stat.st_dev, stat.st_ino);
        mapping.random.store(false, Relaxed);
        mapping.gone.store(false, Relaxed);
        mapping.len.store(len.min(GRANULES * GRANULE), Relaxed);
        mapping.start.store(address, Relaxed);
        COUNT.fetch_add(1, Relaxed);
        true
    });
    if taken == Some(true) {
        worker::rouse(worker::Role::Mapper);
    }
}

/// Whether any mapping is followed.
pub fn any() -> bool {
    COUNT.load(Relaxed) > 0
}

/// The process forked: the child's mappings are not followed.
pub fn forked() {
    for mapping in &MAPPING {
        mapping.start.store(0, Relaxed);
    }
    COUNT.store(0, Relaxed);
}

/// What the library's thread remembers between looks.
pub struct Looks {
    pagemap: i32,
    faults: u64,
    looked_ns: u64,
    pause_ns: u64,
    meter: Meter,
}

impl Looks {
    /// Opens what is needed; `None` where the kernel does not tell. The descriptors must be the thread's own.
    pub fn begin() -> Option<Looks> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        let looks = sys::openat(libc::AT_FDCWD, c"/proc/self/pagemap", flags, 0).ok().and_then(|pagemap| {
            let (mut regions, page) = ([Region::default(); 1], PAGE as usize);
            let stack = (&raw const regions) as usize / page * page;
            scan(pagemap, stack, stack + page, &mut regions)?;
            Some(Looks {
                pagemap,
                faults: 0,
                looked_ns: sys::now_ns(),
                pause_ns: PAUSE_NS_MIN,
                meter: Meter::begin(),
            })
        });
        if looks.is_none() {
            UNABLE.store(true, Relaxed);
        }
        looks
    }

    /// One round: looks at the mappings if there were faults, or if one is prefetched. How long to rest, ns; `None`:
    /// until there is a mapping.
    pub fn round(&mut self) -> Option<u64> {
        let begin_ns = sys::now_ns();
        match STATE.load(Relaxed) {
            RESTING => {
                cost::resume(begin_ns);
                return any().then_some(1_000_000_000);
            }
            ON if any() => cost::judge(begin_ns),
            _ => return None,
        }
        let faults = major_faults();
        let waited = Waited {
            count: faults.saturating_sub(self.faults),
            elapsed_ns: begin_ns.saturating_sub(self.looked_ns),
            now_ns: begin_ns,
        };
        // At the first look it is not known since when.
        let waited = if self.faults == 0 { Waited { count: waited.count.min(1), ..waited } } else { waited };
        self.faults = faults;
        self.looked_ns = begin_ns;
        let mut progress = false;
        for mapping in &MAPPING {
            if mapping.start.load(Relaxed) == 0 {
                continue;
            }
            mapping.with(|known| {
                mapping.bury_locked(known);
                if mapping.start.load(Relaxed) != 0 {
                    progress |= known.look(mapping, self.pagemap, &waited);
                }
            });
        }
        let cost_ns = self.meter.charge();
        self.pause_ns =
            if progress { PAUSE_NS_MIN } else { (self.pause_ns * 2).clamp(PAUSE_NS_MIN, PAUSE_NS_MAX) };
        // A look at much memory takes long: a tenth of a CPU at most, a half for what is prefetched.
        Some(self.pause_ns.max(cost_ns.saturating_mul(if progress { 1 } else { 9 })))
    }
}

/// How long the program's threads have waited for faults since the last look.
struct Waited {
    count: u64,
    elapsed_ns: u64,
    now_ns: u64,
}

fn major_faults() -> u64 {
    // SAFETY: zeroes are a valid `rusage`, and it is valid for writing.
    unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        let _ = sys::call(
            libc::SYS_getrusage,
            [libc::RUSAGE_SELF as usize, (&raw mut usage) as usize, 0, 0, 0, 0],
        );
        usage.ru_majflt as u64
    }
}

/// The kernel's `struct page_region`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// The ranges with pages in the page tables; how many, and where the walk ended (PAGEMAP_SCAN).
fn scan(pagemap: i32, start: usize, end: usize, regions: &mut [Region]) -> Option<(usize, usize)> {
    const SCAN: usize = 0xc060_6610;
    const PRESENT: u64 = 1 << 3;
    // struct pm_scan_arg: size, flags, start, end, walk_end, vec, vec_len, max_pages, and four masks.
    let mut argument = [
        96,
        0,
        start as u64,
        end as u64,
        0,
        regions.as_mut_ptr() as u64,
        regions.len() as u64,
        0,
        0,
        PRESENT,
        0,
        PRESENT,
    ];
    // SAFETY: the argument and the regions have the kernel's layout and live through the call.
    let count = unsafe {
        sys::call(libc::SYS_ioctl, [pagemap as usize, SCAN, argument.as_mut_ptr() as usize, 0, 0, 0])
    };
    Some((count.ok()?, argument[4] as usize))
}

fn is_set(bits: &[u64; GRANULES / 64], granule: usize) -> bool {
    bits.get(granule / 64).is_some_and(|word| word >> (granule % 64) & 1 != 0)
}

fn set(bits: &mut [u64; GRANULES / 64], granule: usize) {
    if let Some(word) = bits.get_mut(granule / 64) {
        *word |= 1 << (granule % 64);
    }
}

/// New granules, and to which of the last ones they are nearest.
struct Fresh {
    granule: [u32; FRESH_MAX],
    len: usize,
}

impl Known {
    /// Looks at what was touched, tells the core, and prefetches what it asks for. Whether there was anything new.
    fn look(&mut self, mapping: &Mapping, pagemap: i32, waited: &Waited) -> bool {
        let (_, _, active) = self.file.latest();
        self.time(device(self), 0);
        if waited.count == 0 && !active {
            return false;
        }
        self.looks = self.looks.wrapping_add(1);
        // Where faults are elsewhere, less and less often.
        if !active && self.fruitless > 8 && !self.looks.is_multiple_of(1 << (self.fruitless - 8).min(6)) {
            return false;
        }
        self.file.random_hint = mapping.random.load(Relaxed);
        let (start, len) = (mapping.start.load(Relaxed), mapping.len.load(Relaxed));
        let mut fresh = Fresh { granule: [0; FRESH_MAX], len: 0 };
        self.collect(start, len, pagemap, active, &mut fresh);
        if fresh.len == 0 {
            self.fruitless = self.fruitless.saturating_add(1);
            if self.fruitless == 32 && waited.count > 0 {
                // Faults, and none in what was not touched before: pages that were evicted are touched again.
                self.touched = [0; GRANULES / 64];
                self.collect_range(
                    start,
                    (0, GRANULES.min((start % GRANULE + len).div_ceil(GRANULE))),
                    pagemap,
                    None,
                );
            }
            if self.fruitless > 64 && active {
                // What is ahead of its streams is not coming to be read.
                let device = device(self);
                self.file.forget(device, &BUDGET);
            }
            return false;
        }
        self.fruitless = 0;
        self.order(&mut fresh);
        self.tell(start, len, &fresh, waited);
        self.issue(mapping, waited.now_ns);
        if self.looks.is_multiple_of(16) {
            report::record(self.record, &self.file, self.file.latest());
            report::process();
        }
        true
    }

    /// Finds the granules that were touched since the last look: near those touched last, and now and then all.
    fn collect(&mut self, start: usize, len: usize, pagemap: i32, active: bool, fresh: &mut Fresh) {
        const NEAR: usize = (16 << 20) / GRANULE;
        let last = (start % GRANULE + len).div_ceil(GRANULE);
        if active && !self.looks.is_multiple_of(16) {
            let heads = self.heads;
            for head in heads.into_iter().take(self.heads_len.min(4)) {
                let (from, to) = ((head as usize).saturating_sub(NEAR), (head as usize + NEAR).min(last));
                self.collect_range(start, (from, to), pagemap, Some(&mut *fresh));
            }
        } else {
            self.collect_range(start, (0, last), pagemap, Some(fresh));
        }
    }

    /// Marks what is in the page tables as touched, and notes what was not before.
    fn collect_range(
        &mut self,
        start: usize,
        (from, to): (usize, usize),
        pagemap: i32,
        mut fresh: Option<&mut Fresh>,
    ) {
        let base = start / GRANULE * GRANULE;
        let mut regions = [Region::default(); 128];
        let (mut at, end) = ((base + from * GRANULE).max(start), base + to * GRANULE);
        while at < end {
            let Some((count, walked)) = scan(pagemap, at, end, &mut regions) else { return };
            for region in regions.iter().take(count) {
                let first = (region.start as usize - base) / GRANULE;
                let last = (region.end as usize - base).div_ceil(GRANULE);
                for granule in first..last.min(GRANULES) {
                    if is_set(&self.touched, granule) {
                        continue;
                    }
                    if let Some(fresh) = &mut fresh {
                        let Some(place) = fresh.granule.get_mut(fresh.len) else { return };
                        *place = granule as u32;
                        fresh.len += 1;
                    }
                    set(&mut self.touched, granule);
                }
            }
            if walked <= at {
                return;
            }
            at = walked;
        }
    }

    /// Puts new granules into the order in which they were probably touched: away from those touched last.
    fn order(&mut self, fresh: &mut Fresh) {
        let heads = self.heads.get(..self.heads_len).unwrap_or_default();
        let nearest = |granule: u32| {
            let head = heads.iter().enumerate().min_by_key(|(_, head)| head.abs_diff(granule));
            head.map_or((0, granule), |(at, head)| (at, head.abs_diff(granule)))
        };
        if let Some(granules) = fresh.granule.get_mut(..fresh.len) {
            granules.sort_unstable_by_key(|granule| nearest(*granule));
        }
    }

    fn tell(&mut self, start: usize, len: usize, fresh: &Fresh, waited: &Waited) {
        let device = device(self);
        let tuning = prefetch::Tuning { mode: Mode::Predict, ..table::tuning() };
        let unknown = device.latency_ns() == 0;
        if waited.count > 0 && (unknown || self.looks.is_multiple_of(256)) {
            let measured = measure(device, start, len, fresh);
            if unknown && !measured {
                // Several threads may have waited at once: this is the least it can have been.
                device.learn_miss((waited.elapsed_ns / waited.count).max(20_000), 0);
            }
        }
        // How long a single fault took is not known: longer than copying, at least.
        let latency_ns = device.latency_ns().max(50_000) + GRANULE as u64;
        let mut misses = waited.count;
        for (at, granule) in fresh.granule.iter().take(fresh.len).enumerate() {
            let from = (*granule as usize * GRANULE).saturating_sub(start % GRANULE);
            let to = ((*granule as usize + 1) * GRANULE - start % GRANULE).min(len);
            let slow = if is_set(&self.asked, *granule as usize) {
                let more = fresh.granule.get(at + 1).filter(|_| at + 1 < fresh.len);
                more.is_none_or(|more| more.abs_diff(*granule) > 64) && self.is_late(start, *granule)
            } else {
                misses > 0
            };
            misses = misses.saturating_sub(u64::from(slow));
            let read = Read {
                offset: self.offset + from as u64,
                len: to.saturating_sub(from) as u64,
                elapsed_ns: Some(if slow { latency_ns } else { 1_000 }),
                now_ns: waited.now_ns,
            };
            let saved_ns = self.file.counters.saved_ns;
            self.file.on_read(&read, device, &BUDGET, &tuning);
            cost::gained(self.file.counters.saved_ns - saved_ns);
            if slow && self.file.random_hint && self.file.latest().2 {
                // The kernel reads single pages: the rest of what the program is in would be missed page by page.
                let _ = will_need(start + from, to.saturating_sub(from));
            }
            self.note_head(*granule);
        }
    }

    /// Whether the program is about to touch what was asked for and is not there yet.
    fn is_late(&self, start: usize, granule: u32) -> bool {
        let step = match self.file.latest().0 {
            Shape::Forward => GRANULE as i64,
            Shape::Backward => -(GRANULE as i64),
            Shape::Stride(stride) => stride,
            Shape::Unknown => return false,
        };
        let next = (i64::from(granule) + step / GRANULE as i64).max(0) as usize;
        is_set(&self.asked, next) && !is_cached((start / GRANULE * GRANULE + next * GRANULE).max(start))
    }

    /// Remembers a granule as the latest of its neighbourhood.
    fn note_head(&mut self, granule: u32) {
        const NEIGHBOURS: u32 = (4 << 20) / GRANULE as u32;
        let len = self.heads_len;
        let near = self.heads.iter().take(len).position(|head| head.abs_diff(granule) <= NEIGHBOURS);
        let at = near.unwrap_or(len.min(self.heads.len() - 1));
        self.heads_len = len.max(at + 1);
        if let Some(moved) = self.heads.get_mut(..=at) {
            moved.rotate_right(1);
            if let Some(first) = moved.first_mut() {
                *first = granule;
            }
        }
    }

    /// Prefetches what the core asks for.
    fn issue(&mut self, mapping: &Mapping, now_ns: u64) {
        let device = device(self);
        for _ in 0..256 {
            let Some(request) = self.file.claim_at(now_ns, device, &BUDGET) else { return };
            let (start, len) = (mapping.start.load(Relaxed), mapping.len.load(Relaxed));
            let Some((from, to)) = within(request, self.offset, len) else { continue };
            let mut at = from;
            while at < to && !mapping.gone.load(Relaxed) {
                let piece = (device.call_bytes() as usize).min(to - at);
                let _ = will_need(start + at, piece);
                at += piece;
            }
            let base = start % GRANULE;
            (((from + base) / GRANULE)..(to + base).div_ceil(GRANULE))
                .for_each(|at| set(&mut self.asked, at));
            let last = start + to - PAGE as usize;
            if self.probe.is_none() && self.looks.is_multiple_of(4) && !is_cached(last) {
                let ahead = self.file.ahead_range().map_or(request.len, |range| range.len);
                self.probe = Some((last, sys::now_ns(), ahead.saturating_mul(device.streams().max(1))));
                self.time(device, 20);
            }
        }
    }

    /// Looks whether the request that is being timed is there, for so many rounds of 50 us.
    fn time(&mut self, device: &prefetch::Device, rounds: u32) {
        let Some((address, since_ns, ahead)) = self.probe else { return };
        let mut left = rounds;
        while !is_cached(address) {
            if left == 0 {
                // Given up, or to be looked at again in the next round.
                if sys::now_ns().saturating_sub(since_ns) > 500_000_000 {
                    self.probe = None;
                }
                return;
            }
            left -= 1;
            sys::sleep_ns(20_000);
        }
        self.probe = None;
        device.learn_wait(sys::now_ns().saturating_sub(since_ns), ahead);
    }
}

fn will_need(address: usize, len: usize) -> sys::Answer {
    // SAFETY: MADV_WILLNEED changes nothing in memory, whatever lies there by now.
    unsafe { sys::call(libc::SYS_madvise, [address, len, libc::MADV_WILLNEED as usize, 0, 0, 0]) }
}

/// Measures how long a page takes that is not cached and lies near what was touched. `false` when there is none.
fn measure(device: &prefetch::Device, start: usize, len: usize, fresh: &Fresh) -> bool {
    let base = start / GRANULE * GRANULE;
    let near = fresh.granule.iter().take(fresh.len).flat_map(|granule| {
        [16isize, -16, 40, -40]
            .map(|step| base.wrapping_add_signed((*granule as isize + step) * GRANULE as isize))
    });
    let inside = |address: &usize| *address >= start && *address < start + len;
    let Some(cold) = near.take(64).filter(inside).find(|address| !is_cached(*address)) else { return false };
    let begin_ns = sys::now_ns();
    // SAFETY: MADV_WILLNEED changes nothing in memory.
    let asked =
        unsafe { sys::call(libc::SYS_madvise, [cold, PAGE as usize, libc::MADV_WILLNEED as usize, 0, 0, 0]) };
    if asked.is_err() {
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
