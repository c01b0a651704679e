//! What is known of descriptors, files and devices: static memory, locks that nobody waits for.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use prefetch::{Device, File, Mode, Rental};
use prefetch_os::area::DEVICES;

/// Descriptors that are watched at a time, each in each of its threads.
const READERS: usize = 1024;
/// Files that are watched at a time.
const FILES: usize = 256;
/// Where one may stand: the least recently used of so many makes room.
const WAYS: usize = 4;

/// Counts forks: what another thread had locked when the process forked is free in the child.
static EPOCH: AtomicU32 = AtomicU32::new(1);
/// Looks at the tables.
static CLOCK: AtomicU32 = AtomicU32::new(1);
static MODE: AtomicU32 = AtomicU32::new(0);
/// The largest file that is fetched, bytes.
static BUDGET: AtomicU64 = AtomicU64::new(u64::MAX);

/// Panics at this read: for the tests.
#[cfg(debug_assertions)]
pub static PANIC_AT: AtomicU64 = AtomicU64::new(0);
/// Whether no read is let pass: for the tests that count.
#[cfg(debug_assertions)]
pub static AWAKE: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

/// Something that one thread has at a time; the others do without.
pub struct Slot<T> {
    lock: AtomicU32,
    key: AtomicUsize,
    used: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through a `Guard`, of which there is one at a time.
unsafe impl<T: Send> Sync for Slot<T> {}

/// What a slot holds, locked.
pub struct Guard<'a, T>(&'a Slot<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only one.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the only one.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.lock.store(0, Ordering::Release);
    }
}

impl<T> Slot<T> {
    /// One that holds a value, for no key.
    pub const fn new(value: T) -> Slot<T> {
        Slot {
            lock: AtomicU32::new(0),
            key: AtomicUsize::new(0),
            used: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// What it holds, unless another thread has it.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let epoch = EPOCH.load(Ordering::Relaxed);
        let held = self.lock.load(Ordering::Relaxed);
        if held == epoch {
            return None;
        }
        let taken = self.lock.compare_exchange(held, epoch, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then_some(Guard(self))
    }
}

/// The slots where a key may be.
fn ways<T>(table: &[Slot<T>], key: usize) -> &[Slot<T>] {
    let set = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let set = set % (table.len() / WAYS) * WAYS;
    table.get(set..set + WAYS).unwrap_or_default()
}

/// The slot of a key, in a table whose first part a key chooses; a new one holds `fresh`.
fn find<T>(table: &[Slot<T>], key: usize, fresh: T) -> Option<Guard<'_, T>> {
    let ways = ways(table, key);
    let slot = ways.iter().find(|slot| slot.key.load(Ordering::Relaxed) == key);
    let now = CLOCK.fetch_add(1, Ordering::Relaxed);
    if let Some(slot) = slot {
        slot.used.store(now, Ordering::Relaxed);
        return slot.try_lock().filter(|_| slot.key.load(Ordering::Relaxed) == key);
    }
    let oldest = ways.iter().max_by_key(|slot| now.wrapping_sub(slot.used.load(Ordering::Relaxed)))?;
    let mut guard = oldest.try_lock()?;
    oldest.key.store(key, Ordering::Relaxed);
    oldest.used.store(now, Ordering::Relaxed);
    *guard = fresh;
    Some(guard)
}

/// A descriptor as one thread reads it.
#[derive(Clone, Copy)]
pub struct Reader {
    /// Device and inode; nothing is known while both are 0.
    pub identity: (u64, u64),
    /// Its device, an index.
    pub device: usize,
    /// Its reads.
    pub file: File,
    /// Where its last read through stdio ended.
    pub position: u64,
    /// Reads since it was last looked whether the descriptor is still the same.
    pub trusted: u32,
    /// When the latest nap began, ns, and for how many reads.
    pub nap: (u64, u32),
}

impl Reader {
    /// Nothing known.
    pub const NOTHING: Reader = Reader {
        identity: (0, 0),
        device: 0,
        // SAFETY: zeroes are a `File` without a read: plain numbers.
        file: unsafe { core::mem::zeroed() },
        position: u64::MAX,
        trusted: 0,
        nap: (0, 0),
    };
}

/// A file, whoever reads it.
#[derive(Clone, Copy)]
pub struct Known {
    /// Its record in the statistics, from 1; 0 is none.
    pub record: u32,
    /// Its misses without order.
    pub rental: Rental,
}

static READER: [Slot<Reader>; READERS] = [const { Slot::new(Reader::NOTHING) }; READERS];
/// SAFETY (of the zeroes): a `Known` is plain numbers.
static FILE: [Slot<Known>; FILES] = [const { Slot::new(UNKNOWN) }; FILES];
const UNKNOWN: Known = Known {
    record: 0,
    // SAFETY: zeroes are a `Rental` without a miss: plain numbers, and a `None`.
    rental: unsafe { core::mem::zeroed() },
};

/// Devices seen.
pub static DEVICE: [Device; DEVICES] = [const { Device::new() }; DEVICES];
/// Their numbers; 0 is free.
pub static DEVICE_NUMBER: [AtomicU64; DEVICES] = [const { AtomicU64::new(0) }; DEVICES];

/// A descriptor in this thread. The thread's control block tells threads apart; a later one of the same address only
/// finds what does not fit.
fn reader_key(fd: i32) -> usize {
    // SAFETY: no arguments; it is the address of the thread's own block.
    unsafe { (libc::pthread_self() as usize).wrapping_mul(31) ^ (fd as usize + 1) }
}

/// A descriptor as this thread reads it, unless a signal handler met the thread there.
pub fn reader(fd: i32) -> Option<Guard<'static, Reader>> {
    find(&READER, reader_key(fd), Reader::NOTHING)
}

/// Forgets what this thread knows of a descriptor.
pub fn forget(fd: i32) {
    let key = reader_key(fd);
    let slot = ways(&READER, key).iter().find(|slot| slot.key.load(Ordering::Relaxed) == key);
    if let Some(mut reader) = slot.and_then(Slot::try_lock) {
        *reader = Reader::NOTHING;
    }
}

/// A file by device and inode, unless another thread looks at it.
pub fn file(identity: (u64, u64)) -> Option<Guard<'static, Known>> {
    find(&FILE, (identity.1 ^ identity.0.rotate_left(32)) as usize | 1, UNKNOWN)
}

/// The index of a device, a free one for a new device, the last one when there are too many.
pub fn device_index(number: u64) -> usize {
    for (at, known) in DEVICE_NUMBER.iter().enumerate() {
        let now = known.load(Ordering::Relaxed);
        let taken =
            now == 0 && known.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if now == number || taken {
            return at;
        }
    }
    DEVICES - 1
}

/// What is done in this process.
pub fn mode() -> Mode {
    Mode::from_number(u64::from(MODE.load(Ordering::Relaxed)))
}

/// Sets the mode.
pub fn set_mode(mode: Mode) {
    MODE.store(mode as u32, Ordering::Relaxed);
}

/// Sets the largest file that is fetched, bytes.
pub fn set_budget(bytes: u64) {
    BUDGET.store(bytes, Ordering::Relaxed);
}

/// The largest file that is fetched, bytes.
pub fn budget() -> u64 {
    BUDGET.load(Ordering::Relaxed)
}

/// In the child of a fork no other thread has anything locked.
pub fn forked() {
    EPOCH.fetch_add(1, Ordering::SeqCst);
}
