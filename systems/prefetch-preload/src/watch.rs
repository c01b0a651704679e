//! What happens around a read: registration, timing, the core.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use prefetch::{FileState, PAGE, Read};
use prefetch_os::area::Head;
use prefetch_os::sys;

use crate::pass::{self, PASS_MAX};
use crate::table::{self, BUDGET, CLOCK, Meta, Slot};
use crate::{cost, report, series, worker};

/// Nothing is watched: before the constructor, after a panic, in denied programs.
pub const OFF: u8 = 0;
/// Reads are watched.
pub const ON: u8 = 1;
/// The program's hints are dropped, nothing else.
pub const HINTS: u8 = 2;
/// For a while nothing is watched, but that descriptors are closed: it had cost more than it gave.
pub const RESTING: u8 = 3;

/// What the hooks do.
pub static STATE: AtomicU8 = AtomicU8::new(OFF);

/// Reads after which a descriptor is looked at.
const READS_MIN: u32 = 2;
/// Reads after which one that is not worth watching is looked at again.
const READS_IGNORED: u32 = 1024;
/// Reads that are looked at before a file whose reads all hit is let alone for a while.
const AWAKE_MAX: u32 = 16;
/// Reads that are looked at after some took long that were let pass: mostly the program was interrupted.
const AWAKE_LATE: u32 = 4;
/// The longest such while, reads.
const SLEEP_MAX: u32 = 8192;
/// A read that took so long missed, ns.
const LONG_READ_NS: u64 = 100_000;
/// The position must be asked for: reads went by unseen.
const POSITION_UNKNOWN: u64 = u64::MAX;

/// What is carried from before a read to after it.
#[derive(Clone, Copy)]
pub struct Before {
    start_ns: u64,
    meta: Option<Meta>,
}

impl Before {
    /// Nothing is to be done after the read.
    pub const NOTHING: Before = Before { start_ns: 0, meta: None };

    /// Whether nothing is to be done.
    pub fn is_nothing(&self) -> bool {
        self.meta.is_none()
    }
}

/// Whether a descriptor is let alone now; its next reads then pass.
pub fn sleeps(fd: i32) -> bool {
    let state = STATE.load(Relaxed);
    if state != ON {
        if state == RESTING {
            cost::while_resting();
            pass::begin(fd, pass::ticks());
        }
        return true;
    }
    match table::meta(fd) {
        Some(Meta::Tracked(at)) => table::slot(at).is_none_or(|slot| stays_asleep(slot, fd)),
        Some(Meta::Ignored(left)) if left > 0 => {
            table::set_meta(fd, Meta::Ignored(left.saturating_sub(PASS_MAX + 1)));
            pass::begin(fd, pass::ticks());
            true
        }
        Some(_) => false,
        None => true,
    }
}

/// Counts down a file's sleep. How long the reads took that passed says whether they still hit: if not, watching goes
/// on at once.
fn stays_asleep(slot: &Slot, fd: i32) -> bool {
    let sleep = slot.sleep.load(Relaxed);
    if sleep == 0 {
        return false;
    }
    let now = pass::ticks();
    if let Some(taken) = pass::taken(fd, now) {
        let quickest = slot.quickest.load(Relaxed);
        let quick = pass::is_quick(taken, quickest);
        // A slow one is the measure until there is a quicker one: big reads that hit are slow too.
        if taken < quickest || !quick {
            slot.quickest.store(taken, Relaxed);
        }
        if !quick {
            slot.sleep.store(0, Relaxed);
            slot.awake.store(AWAKE_MAX - AWAKE_LATE, Relaxed);
            return false;
        }
    }
    slot.sleep.store(sleep.saturating_sub(PASS_MAX + 1), Relaxed);
    pass::begin(fd, now);
    true
}

/// Before a read of a descriptor. Touches a few words, nothing else; cannot panic.
#[inline]
pub fn before(fd: i32) -> Before {
    if pass::passes(fd) || sleeps(fd) {
        return Before::NOTHING;
    }
    let Some(meta) = table::meta(fd) else { return Before::NOTHING };
    let timed = match meta {
        Meta::Tracked(at) => table::slot(at).is_some_and(|slot| slot.timed.load(Relaxed)),
        Meta::Ignored(_) | Meta::Unknown(_) => false,
    };
    Before { start_ns: if timed { sys::now_ns() } else { 0 }, meta: Some(meta) }
}

/// After a read that returned `got`, at `offset` or, without one, at the descriptor's position.
#[inline]
pub fn after(before: Before, fd: i32, offset: Option<i64>, got: isize) {
    let Some(meta) = before.meta else { return };
    if got <= 0 {
        return;
    }
    guarded(|| cost::sampled(|| look(before.start_ns, meta, fd, offset, got as u64)));
}

/// After a call of stdio that may have read. `which` says what, given the descriptor's position, and the one before, as far as
/// it is known.
#[inline]
pub fn after_stdio(before: Before, fd: i32, which: impl Fn(u64, u64) -> Option<(u64, u64)>) {
    let Some(meta) = before.meta else { return };
    guarded(|| {
        cost::sampled(|| {
            let Meta::Tracked(at) = meta else { return look(0, meta, fd, None, 1) };
            let Some(slot) = table::slot(at) else { return };
            let Ok(position) = sys::position(fd) else { return };
            let known = slot.position.swap(position, Relaxed);
            if let Some((offset, len)) =
                which(position, known).filter(|(_, len)| (1..=64 << 20).contains(len))
            {
                tracked(slot, before.start_ns, fd, Some(offset as i64), len);
            }
        });
    });
}

/// Runs the core. A panic ends prefetching in this process and nothing else.
pub fn guarded(work: impl FnOnce()) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
        STATE.store(OFF, Relaxed);
        if let Some(area) = report::area() {
            area.add_head(Head::Panics, 1);
        }
    }
}

fn look(start_ns: u64, meta: Meta, fd: i32, offset: Option<i64>, got: u64) {
    match meta {
        Meta::Unknown(reads) if reads + 1 < READS_MIN => table::set_meta(fd, Meta::Unknown(reads + 1)),
        Meta::Unknown(_) | Meta::Ignored(_) => register(fd),
        Meta::Tracked(at) => {
            if let Some(slot) = table::slot(at) {
                tracked(slot, start_ns, fd, offset, got);
            }
        }
    }
}

/// Whether a file is worth watching: regular, big enough, readable, on a real file system, not direct.
pub fn is_worth(fd: i32, stat: &libc::stat) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    const HUGETLBFS: i64 = 0x9584_58f6;
    const PROC: i64 = 0x9fa0;
    const SYSFS: i64 = 0x6265_6572;
    if stat.st_mode & libc::S_IFMT != libc::S_IFREG || (stat.st_size as u64) < prefetch::Tuning::FILE_BYTES {
        return false;
    }
    let Ok(flags) = sys::file_flags(fd) else { return false };
    if flags & libc::O_DIRECT != 0 || flags & libc::O_ACCMODE == libc::O_WRONLY || flags & libc::O_PATH != 0 {
        return false;
    }
    let Ok(kind) = sys::fs_type(fd) else { return false };
    ![TMPFS, RAMFS, HUGETLBFS, PROC, SYSFS].contains(&(kind & 0xffff_ffff))
}

fn register(fd: i32) {
    let worth = sys::fstat(fd).ok().filter(|stat| is_worth(fd, stat));
    let Some(stat) = worth else {
        table::set_meta(fd, Meta::Ignored(READS_IGNORED));
        return;
    };
    let Some((at, slot, mut file)) = table::allot(fd) else { return };
    *file = FileState::new(stat.st_size as u64);
    slot.device.store(table::device_index(stat.st_dev), Relaxed);
    table::learn_limits(slot.device(), stat.st_dev);
    slot.position.store(sys::position(fd).unwrap_or(0), Relaxed);
    slot.timed.store(true, Relaxed);
    report::begin(slot, fd, stat.st_dev, stat.st_ino);
    table::set_meta(fd, Meta::Tracked(at));
}

fn elapsed_of(start_ns: u64, now_ns: u64) -> Option<u64> {
    (start_ns != 0).then(|| now_ns.saturating_sub(start_ns))
}

/// The state of a file, unless another thread looks at it. Threads that share a descriptor wait for the same pages
/// and come back at the same time: a read that took long is worth a few microseconds to be seen.
fn look_in(slot: &'static Slot, waited: bool) -> Option<table::Guard<'static>> {
    let tries = match (table::is_kept_awake(), waited) {
        (true, _) => u32::MAX,
        (_, true) => 64,
        _ => 1,
    };
    (0..tries).find_map(|turn| {
        if turn > 0 {
            core::hint::spin_loop();
        }
        slot.try_lock()
    })
}

fn tracked(slot: &'static Slot, start_ns: u64, fd: i32, offset: Option<i64>, got: u64) {
    let now_ns = if start_ns != 0 { sys::now_ns() } else { 0 };
    let by_position = offset.is_none();
    let offset = offset.map_or_else(|| advance(slot, fd, got), |offset| offset as u64);
    let waited = elapsed_of(start_ns, now_ns).is_some_and(|elapsed_ns| elapsed_ns > LONG_READ_NS);
    let Some(mut file) = look_in(slot, waited) else { return };
    if slot.fd.load(Relaxed) != fd {
        return;
    }
    inject_panic();
    slot.used.store(CLOCK.fetch_add(1, Relaxed), Relaxed);
    let elapsed_ns = elapsed_of(start_ns, now_ns);
    let read = Read { offset, len: got, elapsed_ns, now_ns: now_ns.max(start_ns) };
    let device = slot.device();
    let saved_ns = file.counters.saved_ns;
    let effect = file.on_read(&read, device, &BUDGET, table::mode());
    cost::gained(file.counters.saved_ns - saved_ns);
    slot.timed.store(true, Relaxed);
    if file.counters.reads.is_multiple_of(64) {
        report::file(slot, &file);
    }
    rest(slot, read.is_slow(), effect.wake, &file);
    if effect.wake && !slot.wake.load(Relaxed) {
        let trusted = !by_position || check_position(slot, fd, &mut file);
        drop(file);
        if trusted && !slot.wake.swap(true, Relaxed) {
            worker::wake();
        }
    }
}

/// The position before a read(2) of `got` bytes; the kernel is asked where it is not known.
fn advance(slot: &Slot, fd: i32, got: u64) -> u64 {
    let known = slot.position.load(Relaxed);
    let before = match known {
        POSITION_UNKNOWN => sys::position(fd).unwrap_or(got).saturating_sub(got),
        known => known,
    };
    slot.position.store(before + got, Relaxed);
    before
}

/// Whether descriptors are kept account of.
#[inline]
fn is_watching() -> bool {
    matches!(STATE.load(Relaxed), ON | RESTING)
}

/// Reads of a file will go by unseen.
pub fn lose(slot: &Slot) {
    slot.position.store(POSITION_UNKNOWN, Relaxed);
    slot.sleep.store(0, Relaxed);
}

/// Lets a file alone for a while whose reads all hit and that is not prefetched.
fn rest(slot: &Slot, slow: bool, woken: bool, file: &FileState) {
    if table::is_kept_awake() {
        return;
    }
    let (_, _, active) = file.latest();
    if slow || woken || active {
        slot.awake.store(0, Relaxed);
        // One slow read may have been interrupted only: that shortens the next sleep, and where they go on there is none.
        let length = if woken || active { 0 } else { slot.sleep_length.load(Relaxed) / 4 };
        slot.sleep_length.store(length, Relaxed);
        return;
    }
    let awake = slot.awake.load(Relaxed) + 1;
    slot.awake.store(awake, Relaxed);
    if awake >= AWAKE_MAX {
        let length = (slot.sleep_length.load(Relaxed) * 2).clamp(64, SLEEP_MAX);
        slot.sleep_length.store(length, Relaxed);
        slot.sleep.store(length, Relaxed);
        slot.position.store(POSITION_UNKNOWN, Relaxed);
        slot.awake.store(0, Relaxed);
        if let Some(area) = report::area() {
            area.add_head(Head::Sleeps, 1);
        }
    }
}

/// The position of a descriptor was set.
#[inline]
pub fn on_seek(fd: i32, position: i64) {
    if STATE.load(Relaxed) != ON || position < 0 {
        return;
    }
    if let Some(Meta::Tracked(at)) = table::meta(fd)
        && let Some(slot) = table::slot(at)
    {
        let asleep = slot.sleep.load(Relaxed) > 0;
        slot.position.store(if asleep { POSITION_UNKNOWN } else { position as u64 }, Relaxed);
    }
}

/// A descriptor was closed, or now means another file.
#[inline]
pub fn on_close(fd: i32) {
    if is_watching() {
        series::on_close(fd);
        forget(fd);
    }
}

/// A descriptor means another file now.
#[inline]
pub fn forget(fd: i32) {
    if is_watching() && matches!(table::meta(fd), Some(meta) if meta != Meta::Unknown(0)) {
        guarded(|| table::release(fd));
    }
}

/// The program gave a hint about a file.
pub fn on_advice(fd: i32, advice: i32) {
    if STATE.load(Relaxed) != ON {
        return;
    }
    let random = match advice {
        libc::POSIX_FADV_RANDOM => true,
        libc::POSIX_FADV_NORMAL | libc::POSIX_FADV_SEQUENTIAL => false,
        _ => return,
    };
    guarded(|| {
        if !matches!(table::meta(fd), Some(Meta::Tracked(_))) {
            register(fd);
        }
        if let Some(Meta::Tracked(at)) = table::meta(fd)
            && let Some(mut file) = table::slot(at).and_then(|slot| slot.try_lock())
        {
            file.random_hint = random;
        }
    });
}

/// Before a worker acts on a stream of read(2): whether the position is what was thought. `false` starts anew.
fn check_position(slot: &Slot, fd: i32, file: &mut FileState) -> bool {
    let known = slot.position.load(Relaxed);
    let Ok(position) = sys::position(fd) else { return false };
    if position != known && known / PAGE != position / PAGE {
        slot.position.store(position, Relaxed);
        file.forget(slot.device(), &BUDGET);
        return false;
    }
    true
}

/// Panics at the read whose number stands in `LOADLINE_PREFETCH_PANIC`: only in debug builds, for the tests.
#[cfg(debug_assertions)]
fn inject_panic() {
    let at = crate::start::PANIC_AT.load(Relaxed);
    assert!(at == 0 || CLOCK.load(Relaxed) < at, "injected");
}

#[cfg(not(debug_assertions))]
fn inject_panic() {}
