//! Follows a program through numbered files: when it opens and reads one after another, the next ones are fetched
//! before it opens them.
//!
//! [`on_open`] and [`on_close`] run in the program's calls and only take notes; [`follow`] runs in the keeper, whose
//! descriptors are its own.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use prefetch::budget::Owed;
use prefetch::order::Order;
use prefetch::series::{Chase, Name, Opens, Pace, SERIES, Series};
use prefetch_os::area::Head;
use prefetch_os::memory::join;
use prefetch_os::sys;

use crate::table::{self, BUDGET, EPOCH, Meta};
use crate::walker::{PATH_MAX, absolute};
use crate::{cost, report, worker};

/// What is not opened for so long was fetched in vain, ns.
const PATIENCE_NS: u64 = 5_000_000_000;

/// How often an open tries to be noted while another thread notes one: a few microseconds.
const TRIES: u32 = 64;
/// The beginning of a file is evicted first: so many bytes of it are looked at.
const EVICTED_BYTES: u64 = 256 << 10;

/// What the hooks know: names, and the directory of each series.
struct Known {
    opens: Opens,
    order: Order,
    path: [[u8; PATH_MAX]; SERIES],
    /// Whether the keeper has something to do.
    wanted: [bool; SERIES],
    /// Whether that is to fetch more.
    fetch: bool,
}

struct Shared {
    lock: AtomicU32,
    known: UnsafeCell<Known>,
}

// SAFETY: `known` is only reached by whoever holds the lock.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    lock: AtomicU32::new(0),
    known: UnsafeCell::new(Known {
        opens: Opens::new(),
        order: Order::new(),
        path: [[0; PATH_MAX]; SERIES],
        wanted: [false; SERIES],
        fetch: false,
    }),
};

/// The descriptors of the files opened last, one for each series; -1 when it was left.
static OPEN: [AtomicI32; SERIES] = [const { AtomicI32::new(-1) }; SERIES];
/// No series wakes the keeper before it has gone on to this file.
static RESUME: [AtomicU32; SERIES] = [const { AtomicU32::new(0) }; SERIES];

/// Does something with what is known, unless another thread has it. Never waits.
fn with<T>(work: impl FnOnce(&mut Known) -> T) -> Option<T> {
    let epoch = EPOCH.load(Relaxed);
    let held = SHARED.lock.load(Relaxed);
    if held == epoch || SHARED.lock.compare_exchange(held, epoch, Acquire, Relaxed).is_err() {
        return None;
    }
    // SAFETY: the lock is held; one that another thread held when the process forked counts as free.
    let done = work(unsafe { &mut *SHARED.known.get() });
    SHARED.lock.store(0, Release);
    Some(done)
}

/// As [`with`], but tries for a moment: an open that is missed breaks its series.
fn patiently<T>(mut work: impl FnMut(&mut Known) -> T) -> Option<T> {
    (0..TRIES).find_map(|turn| {
        if turn > 0 {
            core::hint::spin_loop();
        }
        with(&mut work)
    })
}

/// The program opened a file for reading: `name` in the directory `parent` below `directory`. Whether it is the next
/// of a series.
pub fn on_open(key: u64, directory: c_int, parent: &[u8], name: &[u8], fd: c_int) -> bool {
    if !name.iter().any(u8::is_ascii_digit) {
        return false;
    }
    let told = patiently(|known| {
        let opened = known.opens.on_open(key, name)?;
        let open = OPEN.get(opened.at)?;
        let before = open.swap(fd, Relaxed);
        let now_ns = sys::now_ns();
        if before >= 0 && before != fd {
            left(known, opened.at, before, now_ns);
        }
        known.order.on_open(now_ns);
        if opened.fresh {
            RESUME.get(opened.at)?.store(0, Relaxed);
        }
        let series = known.opens.series(opened.at)?;
        if !opened.follows || !series.is_confirmed() {
            return Some((opened.follows, false));
        }
        if (series.index() as u32) < RESUME.get(opened.at)?.load(Relaxed) {
            return Some((true, false));
        }
        let rate = table::DEVICE.iter().map(prefetch::Device::full_rate).max().unwrap_or(0);
        known.fetch = known.order.wants(now_ns, known.opens.are_several(), rate);
        if !known.fetch && !known.order.is_settling() {
            return Some((true, false));
        }
        // Each time: the program may have changed its directory.
        absolute(directory, parent, known.path.get_mut(opened.at)?)?;
        *known.wanted.get_mut(opened.at)? = true;
        Some((true, true))
    });
    let Some(Some((follows, wanted))) = told else { return false };
    if wanted {
        worker::rouse(worker::Role::Keeper);
    }
    follows
}

/// A descriptor is about to be closed.
#[inline]
pub fn on_close(fd: c_int) {
    for (at, open) in OPEN.iter().enumerate() {
        if open.load(Relaxed) == fd && open.compare_exchange(fd, -1, Relaxed, Relaxed).is_ok() {
            with(|known| left(known, at, fd, sys::now_ns()));
        }
    }
}

/// Notes how much of a file was read: up to its position, or what its reads returned.
fn left(known: &mut Known, at: usize, fd: c_int, now_ns: u64) {
    let size = sys::fstat(fd)
        .map_or(0, |stat| if stat.st_mode & libc::S_IFMT == libc::S_IFREG { stat.st_size as u64 } else { 0 });
    let by_position = sys::position(fd).unwrap_or(0);
    let by_reads = match table::meta(fd) {
        Some(Meta::Tracked(at)) => {
            table::slot(at).and_then(table::Slot::try_lock).map_or(0, |f| f.counters.bytes)
        }
        _ => 0,
    };
    let read = by_position.max(by_reads);
    known.opens.on_left(at, read, size);
    known.order.on_left(read.min(size), now_ns);
}

/// What the keeper knows of one series.
struct Following {
    chase: Chase,
    key: u64,
    owed: Owed,
    used_ns: u64,
}

struct Follower(UnsafeCell<[Following; SERIES]>);

// SAFETY: only the keeper touches it, and, in a child without one, the fork handler.
unsafe impl Sync for Follower {}

static FOLLOWER: Follower = Follower(UnsafeCell::new(
    [const { Following { chase: Chase::new(), key: 0, owed: Owed::NOTHING, used_ns: 0 } }; SERIES],
));

/// Latency x bandwidth of the device that has most of it; 0 while none was measured.
pub fn bdp() -> u64 {
    table::DEVICE.iter().map(|device| device.model().bdp()).max().unwrap_or(0)
}

/// Bytes fetched ahead of the program. In the keeper.
pub fn ahead_bytes() -> u64 {
    // SAFETY: only the keeper calls this, and there is one.
    unsafe { &*FOLLOWER.0.get() }.iter().map(|one| one.chase.ahead_bytes()).sum()
}

/// One round of the keeper: fetches what is to come, beside so many bytes that are fetched ahead otherwise. Whether
/// something is fetched and not left yet.
pub fn follow(others: u64) -> bool {
    let mut all = ahead_bytes();
    // SAFETY: only the keeper calls this, and there is one.
    let following = unsafe { &mut *FOLLOWER.0.get() };
    let mut waits = false;
    for (at, one) in following.iter_mut().enumerate() {
        let (mut path, mut fetch) = ([0; PATH_MAX], false);
        let taken = with(|known| {
            core::mem::take(known.wanted.get_mut(at)?).then_some(())?;
            path = *known.path.get(at)?;
            fetch = known.fetch;
            known.opens.series(at).copied()
        });
        if let Some(Some(series)) = taken {
            let own = one.chase.ahead_bytes();
            let others = others + all.saturating_sub(own);
            one.go_on(at, &series, &path, fetch.then_some(others));
            all = all.saturating_sub(own) + one.chase.ahead_bytes();
        } else if one.owed.bytes() > 0 && sys::now_ns().saturating_sub(one.used_ns) > PATIENCE_NS {
            one.owed.give_all(&BUDGET);
            one.chase = Chase::new();
        }
        waits |= one.owed.bytes() > 0;
    }
    waits
}

impl Following {
    fn go_on(&mut self, at: usize, series: &Series, path: &[u8; PATH_MAX], others: Option<u64>) {
        let Ok(path) = CStr::from_bytes_until_nul(path) else { return };
        let key = prefetch::names::hash(0, path.to_bytes());
        if self.key != key {
            self.owed.give_all(&BUDGET);
            self.chase = Chase::new();
            self.key = key;
        }
        self.used_ns = sys::now_ns();
        let (files, bytes) = self.chase.catch_up(series);
        self.owed.give(bytes, &BUDGET);
        cost::opened(files);
        if let Some(area) = report::area().filter(|_| files > 0) {
            area.add_head(Head::WalkUsed, files);
        }
        let Some(others) = others else { return };
        if self.chase.is_ahead() && self.is_evicted(series, path) {
            BUDGET.evicted();
            self.chase.pause();
        }
        loop {
            match self.chase.pace(Chase::bytes_max(bdp()), others) {
                Pace::Wait => return,
                Pace::Pause => break,
                Pace::Go => {}
            }
            match self.fetch(path) {
                Some(true) => {}
                Some(false) => return,
                None => {
                    self.chase.pause();
                    break;
                }
            }
        }
        if let Some(resume) = RESUME.get(at) {
            resume.store(self.chase.resume() as u32, Relaxed);
        }
    }

    /// Whether what was fetched of the file that is to be opened next has been evicted.
    fn is_evicted(&self, series: &Series, path: &CStr) -> bool {
        let (before, last) = series.latest();
        let Some(fd) = last.next(&before).and_then(|name| open(path, &name)) else { return false };
        let seen = sys::cachestat(fd, 0, EVICTED_BYTES);
        sys::close(fd);
        seen.is_ok_and(|seen| seen.evicted > seen.cached)
    }

    /// Fetches the next file: whether there is room for it. `None` when there is no such file.
    fn fetch(&mut self, path: &CStr) -> Option<bool> {
        let name = self.chase.next()?;
        let fd = open(path, &name)?;
        let asked = ask(fd, &mut self.owed);
        sys::close(fd);
        let Some(bytes) = asked? else { return Some(false) };
        self.chase.on_fetched(name, bytes);
        if let Some(area) = report::area().filter(|_| bytes > 0) {
            area.add_head(Head::Walked, 1);
            area.add_head(Head::WalkBytes, bytes);
        }
        Some(true)
    }
}

/// Opens a regular file of a directory, whose path ends in a slash.
fn open(path: &CStr, name: &Name) -> Option<c_int> {
    let mut buffer = [0; PATH_MAX + 256];
    let whole = join(&[path.to_bytes(), name.bytes()], &mut buffer)?;
    if !is_regular(whole) {
        return None;
    }
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    sys::openat(libc::AT_FDCWD, whole, flags, 0).ok()
}

/// Asks for the beginning of a file, or all of it. Bytes that were asked for, 0 when all was cached, none where there is
/// no room; `None` when it cannot be asked for.
fn ask(fd: c_int, owed: &mut Owed) -> Option<Option<u64>> {
    let stat = sys::fstat(fd).ok()?;
    let device = table::DEVICE.get(table::device_index(stat.st_dev) as usize)?;
    table::learn_limits(device, stat.st_dev);
    let bytes = (stat.st_size as u64).min(Chase::bytes_max(device.model().bdp()));
    let pages = bytes.div_ceil(prefetch::PAGE);
    if bytes == 0 || sys::cachestat(fd, 0, bytes).is_ok_and(|stat| stat.cached >= pages) {
        return Some(Some(0));
    }
    if !owed.take(bytes, &BUDGET) {
        return Some(None);
    }
    let mut at = 0;
    while at < bytes {
        let len = device.limits.call_bytes().min(bytes - at);
        let _ = sys::readahead(fd, at, len);
        at += len;
    }
    Some(Some(bytes))
}

/// Whether a path is a regular file: opening another kind might do something.
fn is_regular(path: &CStr) -> bool {
    // SAFETY: zeroes are a valid `stat`, it is valid for writing, and the path is a C string.
    unsafe {
        let mut stat: libc::stat = core::mem::zeroed();
        let arguments = [
            libc::AT_FDCWD as isize as usize,
            path.as_ptr() as usize,
            (&raw mut stat) as usize,
            libc::AT_SYMLINK_NOFOLLOW as usize,
            0,
            0,
        ];
        sys::call(libc::SYS_newfstatat, arguments).is_ok() && stat.st_mode & libc::S_IFMT == libc::S_IFREG
    }
}

/// The process forked: nothing is followed in the child.
pub fn forked() {
    // SAFETY: there is no keeper in the child.
    for one in unsafe { &mut *FOLLOWER.0.get() } {
        one.owed.give_all(&BUDGET);
        one.chase = Chase::new();
    }
}
