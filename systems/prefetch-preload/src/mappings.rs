//! Follows what a program touches of the files it has mapped.
//!
//! The hooks of mmap(2) and munmap(2) keep a table; a mapping whose pages are cached already is left alone. A thread of
//! the library then looks, for as long as the process has major faults, at which pages have entries in the page tables
//! (PAGEMAP_SCAN, Linux 6.7): new ones were touched since, in windows of 16 pages, which is what one fault maps. The
//! core sees them as reads. What it asks for is prefetched by madvise(2) on the mapping: no file is opened.

mod kernel;
mod look;
mod touched;

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use prefetch::{FileState, Mode, PAGE};
use prefetch_os::sys;

use self::kernel::is_cached;
use self::look::{Found, Known, Waited};
use self::touched::{GRANULE, GRANULES, Place};
use crate::cost::{self, Meter};
use crate::table::{self, BUDGET, EPOCH};
use crate::watch::{self, ON, RESTING, STATE};
use crate::{report, worker};

/// Mappings that are followed at a time; later ones are left alone.
const MAPPINGS: usize = 16;
/// Shorter mappings are left to the kernel, bytes.
const BYTES_MIN: usize = 1 << 20;
/// Pages of a new mapping that are looked at in the program's call.
const PROBES: usize = 8;
/// The longest pause between two looks at the fault counter, ns.
const PAUSE_NS_MAX: u64 = 250_000_000;
const PAUSE_NS_MIN: u64 = 1_000_000;
/// The pause while a stream is prefetched, ns.
const PAUSE_NS_STREAM: u64 = 100_000;

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
            known.file.close(known.device(), &BUDGET);
            report::record(known.record, &known.file, latest);
            COUNT.fetch_sub(1, Relaxed);
        }
    }
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
    let mode = table::mode();
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
        let file = FileState::new(stat.st_size as u64);
        known.begin(file, offset, table::device_index(stat.st_dev));
        table::learn_limits(known.device(), stat.st_dev);
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
    bytes: u64,
    looked_ns: u64,
    /// When the next look is due, ns.
    due_ns: u64,
    pause_ns: u64,
    /// Looks in a row that found touches and no stream.
    barren: u32,
    meter: Meter,
}

impl Looks {
    /// Opens what is needed; `None` where the kernel does not tell. The descriptors must be the thread's own.
    pub fn begin() -> Option<Looks> {
        let Some(pagemap) = kernel::open() else {
            UNABLE.store(true, Relaxed);
            return None;
        };
        Some(Looks {
            pagemap,
            faults: 0,
            bytes: 0,
            looked_ns: sys::now_ns(),
            due_ns: 0,
            pause_ns: PAUSE_NS_MIN,
            barren: 0,
            meter: Meter::begin(),
        })
    }

    /// One round: looks at the mappings if it is time and there were faults, or if one is prefetched; asks for what
    /// streams want whose turn it is. How long to rest, ns; `None`: until there is a mapping.
    ///
    /// Rule: Mappings.
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
        let waited = (begin_ns >= self.due_ns).then(|| self.waited(begin_ns));
        let mut found = Found::Nothing;
        let mut turn_ns = u64::MAX;
        for mapping in &MAPPING {
            if mapping.start.load(Relaxed) == 0 {
                continue;
            }
            mapping.with(|known| {
                mapping.bury_locked(known);
                let place = Place { start: mapping.start.load(Relaxed), len: mapping.len.load(Relaxed) };
                if place.start == 0 {
                    return;
                }
                known.time();
                if let Some(waited) = &waited {
                    let hinted = mapping.random.load(Relaxed);
                    found = found.max(known.look(place, hinted, self.pagemap, waited));
                }
                turn_ns = turn_ns.min(known.issue(place, &mapping.gone).unwrap_or(u64::MAX));
            });
        }
        let cost_ns = self.meter.charge();
        if waited.is_some() {
            self.due_ns = sys::now_ns() + self.pause(found, cost_ns);
        }
        Some(self.due_ns.min(turn_ns).saturating_sub(sys::now_ns()).max(PAUSE_NS_STREAM / 2))
    }

    fn waited(&mut self, now_ns: u64) -> Waited {
        let (faults, bytes) = kernel::waited();
        // At the first look it is not known since when.
        let first = self.faults == 0 && self.bytes == 0;
        let waited = Waited {
            count: if first { faults.min(1) } else { faults.saturating_sub(self.faults) },
            bytes: if first { bytes.min(1) } else { bytes.saturating_sub(self.bytes) },
            elapsed_ns: now_ns.saturating_sub(self.looked_ns),
            now_ns,
        };
        (self.faults, self.bytes, self.looked_ns) = (faults, bytes, now_ns);
        waited
    }

    /// How long to wait until the next look, ns, after one that took so much CPU time: a look at much memory takes long.
    fn pause(&mut self, found: Found, cost_ns: u64) -> u64 {
        self.barren = match found {
            Found::Stream(_) => 0,
            Found::Touches => self.barren.saturating_add(1),
            Found::Nothing => self.barren,
        };
        let (least_ns, share) = match (found, self.barren) {
            (Found::Stream(_), _) => (PAUSE_NS_STREAM, 1),
            (_, 0..64) => (PAUSE_NS_MIN, 19),
            (_, 64..256) => (2 * PAUSE_NS_MIN, 49),
            _ => (8 * PAUSE_NS_MIN, 99),
        };
        let most_ns = match found {
            Found::Nothing => PAUSE_NS_MAX,
            Found::Touches => least_ns,
            Found::Stream(most_ns) => most_ns.max(least_ns),
        };
        self.pause_ns = (self.pause_ns * 2).clamp(least_ns, most_ns);
        self.pause_ns.max(cost_ns.saturating_mul(share))
    }
}
