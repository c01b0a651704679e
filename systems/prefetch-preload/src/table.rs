//! Descriptors and files that are watched: static memory, try-locks.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use prefetch::{Budget, Device, FileState, Mode};
use prefetch_os::area::DEVICES;

use crate::pass;

/// Descriptors that are looked at; higher ones are left alone.
pub const DESCRIPTORS: usize = 16_384;
/// Files that are watched at a time; the least recently used makes room.
pub const SLOTS: usize = 512;

const KIND: u32 = 0xc000_0000;
const UNKNOWN: u32 = 0;
const IGNORED: u32 = 0x4000_0000;
const TRACKED: u32 = 0x8000_0000;
const VALUE: u32 = !KIND;

/// What is known of a descriptor, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meta {
    /// So many reads were seen.
    Unknown(u32),
    /// Not worth watching; looked at again after so many reads.
    Ignored(u32),
    /// Watched in a slot.
    Tracked(usize),
}

static META: [AtomicU32; DESCRIPTORS] = [const { AtomicU32::new(0) }; DESCRIPTORS];

/// What is known of a descriptor.
#[inline]
pub fn meta(fd: i32) -> Option<Meta> {
    let word = META.get(fd as usize)?.load(Ordering::Relaxed);
    Some(match word & KIND {
        TRACKED => Meta::Tracked((word & VALUE) as usize),
        IGNORED => Meta::Ignored(word & VALUE),
        _ => Meta::Unknown(word & VALUE),
    })
}

/// Notes what is known of a descriptor.
#[inline]
pub fn set_meta(fd: i32, meta: Meta) {
    let word = match meta {
        Meta::Unknown(reads) => UNKNOWN | reads & VALUE,
        Meta::Ignored(reads) => IGNORED | reads & VALUE,
        Meta::Tracked(slot) => TRACKED | slot as u32 & VALUE,
    };
    if let Some(at) = META.get(fd as usize) {
        pass::end(fd);
        at.store(word, Ordering::Relaxed);
    }
}

/// Whether a descriptor still belongs to a slot.
pub fn belongs(fd: i32, slot: usize) -> bool {
    meta(fd) == Some(Meta::Tracked(slot))
}

/// Counts forks: a lock that another thread held when the process forked is free in the child.
pub static EPOCH: AtomicU32 = AtomicU32::new(1);

/// One watched file.
pub struct Slot {
    lock: AtomicU32,
    /// The descriptor, or -1 when the slot is free.
    pub fd: AtomicI32,
    /// Its device, an index into [`DEVICE`].
    pub device: AtomicU32,
    /// Its record in the statistics.
    pub record: AtomicU32,
    /// When it was last used: reads of all files.
    pub used: AtomicU64,
    /// Reads to let pass without looking.
    pub sleep: AtomicU32,
    /// The quickest pass of its sleeps, ticks.
    pub quickest: AtomicU32,
    /// How many the next sleep lasts.
    pub sleep_length: AtomicU32,
    /// Reads looked at since the last sleep.
    pub awake: AtomicU32,
    /// Whether the next read is timed.
    pub timed: AtomicBool,
    /// Position of the next read(2).
    pub position: AtomicU64,
    /// There is something for a worker.
    pub wake: AtomicBool,
    /// Closed while a worker was busy with it: to be freed by whoever gets the lock.
    pub dead: AtomicBool,
    file: UnsafeCell<FileState>,
}

// SAFETY: `file` is only reached through a `Guard`, of which there is one at a time.
unsafe impl Sync for Slot {}

/// The file of a slot, locked.
pub struct Guard<'a> {
    slot: &'a Slot,
}

impl core::ops::Deref for Guard<'_> {
    type Target = FileState;
    fn deref(&self) -> &FileState {
        // SAFETY: the guard is the only one.
        unsafe { &*self.slot.file.get() }
    }
}

impl core::ops::DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut FileState {
        // SAFETY: the guard is the only one.
        unsafe { &mut *self.slot.file.get() }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.slot.lock.store(0, Ordering::Release);
    }
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            lock: AtomicU32::new(0),
            fd: AtomicI32::new(-1),
            device: AtomicU32::new(0),
            record: AtomicU32::new(0),
            used: AtomicU64::new(0),
            sleep: AtomicU32::new(0),
            quickest: AtomicU32::new(u32::MAX),
            sleep_length: AtomicU32::new(0),
            awake: AtomicU32::new(0),
            timed: AtomicBool::new(false),
            position: AtomicU64::new(0),
            wake: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            // SAFETY: zeroes are a `FileState` (see its documentation): no pointers, every enum has a variant 0.
            file: UnsafeCell::new(unsafe { core::mem::zeroed() }),
        }
    }

    /// The file, unless another thread has it. Never waits.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        let epoch = EPOCH.load(Ordering::Relaxed);
        let held = self.lock.load(Ordering::Relaxed);
        if held == epoch {
            return None;
        }
        let taken = self.lock.compare_exchange(held, epoch, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then_some(Guard { slot: self })
    }

    /// The device of the file.
    pub fn device(&self) -> &'static Device {
        DEVICE.get(self.device.load(Ordering::Relaxed) as usize).unwrap_or(&DEVICE[0])
    }
}

static SLOT: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];

/// Devices seen.
pub static DEVICE: [Device; DEVICES] = [const { Device::new() }; DEVICES];
/// Their numbers; 0 is free.
pub static DEVICE_NUMBER: [AtomicU64; DEVICES] = [const { AtomicU64::new(0) }; DEVICES];
/// The memory budget of the process.
pub static BUDGET: Budget = Budget::new();
/// Slots below this number have been used.
pub static HIGH: AtomicU32 = AtomicU32::new(0);
/// Reads looked at, of all files.
pub static CLOCK: AtomicU64 = AtomicU64::new(1);

static MODE: AtomicU32 = AtomicU32::new(0);

/// What is done in this process.
pub fn mode() -> Mode {
    Mode::from_number(u64::from(MODE.load(Ordering::Relaxed)))
}

/// Sets the mode.
pub fn set_mode(mode: Mode) {
    MODE.store(mode as u32, Ordering::Relaxed);
}

/// Every read is looked at, whatever it costs, however long another thread has its file: only in debug builds, for
/// tests that count.
#[cfg(debug_assertions)]
pub static KEPT_AWAKE: AtomicBool = AtomicBool::new(false);

#[cfg(debug_assertions)]
pub fn is_kept_awake() -> bool {
    KEPT_AWAKE.load(Ordering::Relaxed)
}

#[cfg(not(debug_assertions))]
pub fn is_kept_awake() -> bool {
    false
}

/// A slot.
#[inline]
pub fn slot(at: usize) -> Option<&'static Slot> {
    SLOT.get(at)
}

/// The index of a device, a free one for a new device, the last one when there are too many.
pub fn device_index(number: u64) -> u32 {
    for (at, known) in DEVICE_NUMBER.iter().enumerate() {
        let now = known.load(Ordering::Relaxed);
        let taken =
            now == 0 && known.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if now == number || taken {
            return at as u32;
        }
    }
    DEVICES as u32 - 1
}

/// Asks once for the kernel's limits for a device.
pub fn learn_limits(device: &Device, number: u64) {
    if !device.limits.are_told() {
        let limits = prefetch_os::limits::look(number);
        device.limits.set(limits.readahead_bytes, limits.call_bytes);
    }
}

/// Takes a slot for a descriptor: a free one, or the least recently used of a few. Its number and its file.
pub fn allot(fd: i32) -> Option<(usize, &'static Slot, Guard<'static>)> {
    let high = HIGH.load(Ordering::Relaxed) as usize;
    let free = SLOT.iter().take((high + 1).min(SLOTS)).position(|slot| slot.fd.load(Ordering::Relaxed) < 0);
    let at = match free {
        Some(at) => at,
        None => {
            let now = CLOCK.load(Ordering::Relaxed) as usize;
            (0..16)
                .map(|step| now.wrapping_mul(31).wrapping_add(step * 37) % SLOTS)
                .min_by_key(|at| SLOT[*at].used.load(Ordering::Relaxed))?
        }
    };
    let slot = &SLOT[at];
    let mut guard = slot.try_lock()?;
    let before = slot.fd.load(Ordering::Relaxed);
    if before >= 0 {
        guard.close(slot.device(), &BUDGET);
        if belongs(before, at) {
            set_meta(before, Meta::Unknown(0));
        }
    }
    HIGH.fetch_max(at as u32 + 1, Ordering::Relaxed);
    slot.fd.store(fd, Ordering::Relaxed);
    slot.dead.store(false, Ordering::Relaxed);
    slot.wake.store(false, Ordering::Relaxed);
    slot.sleep.store(0, Ordering::Relaxed);
    slot.sleep_length.store(0, Ordering::Relaxed);
    slot.quickest.store(u32::MAX, Ordering::Relaxed);
    slot.awake.store(0, Ordering::Relaxed);
    Some((at, slot, guard))
}

/// The descriptor is closed or means another file now.
pub fn release(fd: i32) {
    let Some(Meta::Tracked(at)) = meta(fd) else {
        set_meta(fd, Meta::Unknown(0));
        return;
    };
    set_meta(fd, Meta::Unknown(0));
    if let Some(slot) = slot(at) {
        slot.dead.store(true, Ordering::Relaxed);
        bury(slot);
    }
}

/// Frees a slot whose descriptor was closed, if nobody is busy with it.
pub fn bury(slot: &Slot) {
    let tries = if is_kept_awake() { u32::MAX } else { 1 };
    let Some(mut guard) = (0..tries).find_map(|_| slot.try_lock()) else { return };
    if slot.dead.swap(false, Ordering::Relaxed) && slot.fd.load(Ordering::Relaxed) >= 0 {
        let latest = guard.latest();
        guard.close(slot.device(), &BUDGET);
        crate::report::last(slot, &guard, latest);
        crate::report::process();
        slot.fd.store(-1, Ordering::Relaxed);
    }
}
