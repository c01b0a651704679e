//! The statistics page: a shared file that other processes read.

mod shared;

use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use prefetch::{Counters, Effect};
use prefetch_os::area::{Area, BYTES, Head, MAGIC, RECORDS};
use prefetch_os::memory::{decimal, join};
use prefetch_os::sys;

use crate::table;

const NOT_MADE: u8 = 0;
const MADE: u8 = 1;
const REFUSED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(NOT_MADE);
static WORDS: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
static SEQUENCE: AtomicU32 = AtomicU32::new(0);
/// The directory, copied from the environment; its length.
static DIRECTORY: [AtomicU8; 256] = [const { AtomicU8::new(0) }; 256];
static DIRECTORY_LEN: AtomicU32 = AtomicU32::new(0);

/// Says where the page is to be made. A longer path than 200 bytes means no statistics.
pub fn set_directory(path: &[u8]) {
    if path.len() > 200 {
        return;
    }
    for (byte, to) in path.iter().zip(&DIRECTORY) {
        to.store(*byte, Relaxed);
    }
    DIRECTORY_LEN.store(path.len() as u32, Relaxed);
}

/// The process forked: the child makes its own page when it has something to say.
pub fn forked() {
    WORDS.store(core::ptr::null_mut(), Relaxed);
    if STATE.load(Relaxed) == MADE {
        STATE.store(NOT_MADE, Relaxed);
    }
}

/// The page, if there is one.
pub fn area() -> Option<Area<'static>> {
    let words = WORDS.load(Relaxed);
    if words.is_null() {
        return None;
    }
    // SAFETY: the mapping has this size and is never removed.
    Some(Area::new(unsafe { core::slice::from_raw_parts(words, BYTES / 8) }))
}

/// Makes the page. In the program's own thread: a descriptor is open for a moment.
pub fn make() {
    let length = DIRECTORY_LEN.load(Relaxed) as usize;
    if length == 0 || STATE.compare_exchange(NOT_MADE, REFUSED, Relaxed, Relaxed).is_err() {
        return;
    }
    let mut directory = [0; 256];
    for (byte, to) in DIRECTORY.iter().zip(&mut directory) {
        *to = byte.load(Relaxed);
    }
    let mut path = [0; 300];
    let directory = directory.get(..length).unwrap_or_default();
    let Some(directory) = join(&[directory], &mut path) else { return };
    let pid = sys::getpid();
    let Some(words) = shared::page(directory, pid) else { return };
    WORDS.store(words, Relaxed);
    STATE.store(MADE, Relaxed);
    let Some(area) = area() else { return };
    area.set_head(Head::Pid, u64::from(pid));
    area.set_head(Head::Mode, table::mode() as u64);
    area.set_head(Head::StartedNs, sys::now_ns());
    let mut link = [0; 256];
    if let Ok(name) = sys::readlink(c"/proc/self/exe", &mut link) {
        area.set_name(name.rsplit(|byte| *byte == b'/').next().unwrap_or(name));
    }
    area.set_head(Head::Magic, MAGIC);
}

/// Takes a record for a newly watched file and notes its path. Its number, from 1.
pub fn take(fd: i32, (device, inode): (u64, u64)) -> u32 {
    make();
    let sequence = SEQUENCE.fetch_add(1, Relaxed) + 1;
    let record = sequence % RECORDS as u32;
    let Some(area) = area() else { return record + 1 };
    let (mut name, mut path) = ([0; 64], [0; 256]);
    let mut digits = [0; 20];
    let link = join(&[b"/proc/self/fd/", decimal(fd as u64, &mut digits)], &mut name);
    let path = link.and_then(|link| sys::readlink(link, &mut path).ok()).unwrap_or_default();
    area.begin_file(record as usize, u64::from(sequence), device, inode, path);
    record + 1
}

/// Adds what a read says to the record of its file; now and then tells of the devices, too.
pub fn file(record: u32, size: u64, read: &Counters, effect: &Effect) {
    let Some(area) = area().filter(|_| record > 0) else { return };
    let (shape, depth) = effect.order;
    area.add_counters(record as usize - 1, read);
    area.set_decision(record as usize - 1, size, effect.reason, (shape, depth));
    if area.add_head(Head::HookCalls, 1).is_multiple_of(64) {
        for (at, number) in table::DEVICE_NUMBER.iter().enumerate() {
            let (number, device) = (number.load(Relaxed), table::DEVICE.get(at));
            if let Some(device) = device.filter(|_| number != 0) {
                area.set_device(at, number, device);
            }
        }
    }
}

/// Adds to a word of the header.
pub fn add(head: Head, value: u64) {
    if let Some(area) = area() {
        area.add_head(head, value);
    }
}

/// So long was spent on asking, ns.
pub fn spent(ns: u64) {
    add(Head::HookNs, ns);
}

/// The library failed.
pub fn panicked() {
    add(Head::Panics, 1);
}
