//! Follows a program through its directories: after three files opened in one directory, reads that directory
//! and those that come after it in the same order, and fetches their files a window ahead of the program.
//!
//! [`on_open`] runs in the program's calls and only counts; [`walk`] runs in the keeper, whose descriptors are
//! its own.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use prefetch::Mode;
use prefetch::names::hash;
use prefetch::series::Chase;
use prefetch::walk::{BYTES_MAX, CONFIRM, FILE_BYTES_MAX, Pace, Walk};
use prefetch_os::area::Head;
use prefetch_os::memory::{decimal, join};
use prefetch_os::sys;

use crate::table::BUDGET;
use crate::watch::{self, ON, STATE};
use crate::{cost, report, series, table, worker};

/// Longest path of a directory that is followed, bytes.
pub const PATH_MAX: usize = 1024;
/// Directories below each other that are followed.
const DEPTH_MAX: usize = 16;
/// A walk without use for so long ends, ns.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Files fetched and not yet opened, by 16 bits of their name's hash.
static EXPECTED: [AtomicU8; 1 << 16] = [const { AtomicU8::new(0) }; 1 << 16];
/// Names are looked for there until the program has opened so many files since the last was fetched: the table is seldom
/// in the processor's cache.
const FETCHED_OPENS: u32 = 4096;
static FETCHED_UNTIL: AtomicU32 = AtomicU32::new(0);
/// Fetched files that the program opened.
static USED: AtomicU32 = AtomicU32::new(0);
/// Files the program opened for reading.
static OPENS: AtomicU32 = AtomicU32::new(0);
/// The directory of the latest opens, and how many there were in a row.
static DIRECTORY: AtomicU64 = AtomicU64::new(0);
static IN_ROW: AtomicU32 = AtomicU32::new(0);
/// Hash of the name opened last.
static BEFORE: AtomicU64 = AtomicU64::new(0);
/// No walk begins before the program has opened so many files.
static BLOCKED_UNTIL: AtomicU32 = AtomicU32::new(0);
static BLOCKED_LENGTH: AtomicU32 = AtomicU32::new(0);

const EMPTY: u8 = 0;
const FILLING: u8 = 1;
const FULL: u8 = 2;
const WALKING: u8 = 3;

/// Where a walk is to begin: a directory, and the name of the file opened last in it.
struct Mailbox {
    state: AtomicU8,
    path: UnsafeCell<[u8; PATH_MAX]>,
    name: UnsafeCell<[u8; 256]>,
    /// Hash of the name before, if the two are numbered: they may be in the order of their numbers only, which is
    /// [`series`]'s. 0 else.
    before: AtomicU64,
}

// SAFETY: `path` and `name` belong to whoever moved `state` to FILLING, and after FULL to the keeper.
unsafe impl Sync for Mailbox {}

static MAILBOX: Mailbox = Mailbox {
    state: AtomicU8::new(EMPTY),
    path: UnsafeCell::new([0; PATH_MAX]),
    name: UnsafeCell::new([0; 256]),
    before: AtomicU64::new(0),
};

fn bit(hash: u64) -> &'static AtomicU8 {
    &EXPECTED[((hash >> 32) ^ hash) as usize & 0xffff]
}

/// The program opened a file: `path` below `directory` is now `fd`.
#[inline]
pub fn on_open(directory: c_int, path: *const c_char, flags: c_int, fd: c_int) {
    if fd < 0 || path.is_null() {
        return;
    }
    // Whatever this number meant before was closed in a way that was not seen.
    watch::forget(fd);
    if STATE.load(Relaxed) != ON {
        return;
    }
    let odd = libc::O_CREAT | libc::O_PATH | libc::O_DIRECT | libc::O_ACCMODE;
    if flags & odd != libc::O_RDONLY || table::mode() != Mode::Auto {
        return;
    }
    if flags & libc::O_DIRECTORY != 0 {
        IN_ROW.store(0, Relaxed);
        return;
    }
    // SAFETY: the open succeeded, so the path is a C string.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    opened(directory, path, fd);
}

fn opened(directory: c_int, path: &[u8], fd: c_int) {
    let cut = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (parent, name) = path.split_at_checked(cut).unwrap_or_default();
    if name.is_empty() {
        return;
    }
    let opens = OPENS.fetch_add(1, Relaxed) + 1;
    let own = hash(0, name);
    if FETCHED_UNTIL.load(Relaxed).wrapping_sub(opens) <= FETCHED_OPENS {
        let bit = bit(own);
        let expected = bit.load(Relaxed);
        if expected > 0 {
            bit.store(expected - 1, Relaxed);
            USED.fetch_add(1, Relaxed);
        }
    }
    let key = hash(directory as u64, parent) | 1;
    let numbered = series::on_open(key, directory, parent, name, fd);
    let before = BEFORE.swap(own | 1, Relaxed);
    if DIRECTORY.swap(key, Relaxed) != key {
        IN_ROW.store(1, Relaxed);
        return;
    }
    if before == own | 1 {
        // Threads that open one file each for themselves go through no directory.
        return;
    }
    let row = IN_ROW.fetch_add(1, Relaxed) + 1;
    let blocked = BLOCKED_UNTIL.load(Relaxed) > opens;
    if row == CONFIRM && !blocked && MAILBOX.state.compare_exchange(EMPTY, FILLING, Acquire, Relaxed).is_ok()
    {
        let filled = fill(directory, parent, name).is_some();
        MAILBOX.before.store(if numbered { before } else { 0 }, Relaxed);
        MAILBOX.state.store(if filled { FULL } else { EMPTY }, Release);
        if filled {
            worker::rouse(worker::Role::Keeper);
        }
    }
}

/// Writes the absolute path of the directory into the mailbox.
fn fill(directory: c_int, parent: &[u8], name: &[u8]) -> Option<()> {
    // SAFETY: the state is FILLING, set by this thread.
    let (path, last) = unsafe { (&mut *MAILBOX.path.get(), &mut *MAILBOX.name.get()) };
    absolute(directory, parent, path)?;
    join(&[name], last)?;
    Some(())
}

/// Writes the absolute path of `parent`, a part of a path that ends in a slash or is empty, below `directory`.
pub fn absolute(directory: c_int, parent: &[u8], path: &mut [u8; PATH_MAX]) -> Option<()> {
    let mut base = [0; PATH_MAX];
    let base: &[u8] = if parent.first() == Some(&b'/') {
        b""
    } else if directory == libc::AT_FDCWD {
        sys::readlink(c"/proc/self/cwd", &mut base).ok()?
    } else {
        let mut link = [0; 64];
        let mut digits = [0; 20];
        let link = join(&[b"/proc/self/fd/", decimal(directory as u64, &mut digits)], &mut link)?;
        sys::readlink(link, &mut base).ok()?
    };
    let separator: &[u8] = if base.is_empty() { b"" } else { b"/" };
    join(&[base, separator, parent], path)?;
    Some(())
}

/// One directory that is being read.
#[repr(C, align(8))]
struct Level {
    fd: i32,
    len: usize,
    at: usize,
    entries: [u8; 8192],
}

struct State {
    walk: Walk,
    depth: usize,
    used_seen: u32,
    bytes: u64,
    used_ns: u64,
    level: [Level; DEPTH_MAX],
}

struct Walker(UnsafeCell<State>);

// SAFETY: only the keeper touches it.
unsafe impl Sync for Walker {}

static WALKER: Walker = Walker(UnsafeCell::new(State {
    // SAFETY: a `Walk` is plain numbers.
    walk: unsafe { core::mem::zeroed() },
    depth: 0,
    used_seen: 0,
    bytes: 0,
    used_ns: 0,
    level: [const { Level { fd: -1, len: 0, at: 0, entries: [0; 8192] } }; DEPTH_MAX],
}));

/// Bytes fetched ahead of the program. In the keeper.
pub fn ahead_bytes() -> u64 {
    // SAFETY: only the keeper calls this, and there is one.
    unsafe { &*WALKER.0.get() }.walk.ahead_bytes()
}

/// One round of the walker, in the keeper, beside so many bytes that are fetched ahead otherwise. Whether it has more
/// to do.
pub fn walk(others: u64) -> bool {
    // SAFETY: only the keeper calls this, and there is one.
    let state = unsafe { &mut *WALKER.0.get() };
    if MAILBOX.state.compare_exchange(FULL, WALKING, Acquire, Relaxed).is_ok() {
        state.begin();
    }
    if state.depth == 0 {
        return false;
    }
    state.note_use();
    let bytes_max = match series::bdp() {
        // Small files are not watched: often nothing was measured.
        0 => BYTES_MAX,
        bdp => Chase::bytes_max(bdp),
    };
    loop {
        match state.walk.pace(bytes_max, others, &BUDGET) {
            Pace::Go => {
                if !state.step() {
                    state.end();
                    return false;
                }
            }
            Pace::Wait if sys::now_ns().saturating_sub(state.used_ns) < PATIENCE_NS => return true,
            Pace::Cached | Pace::Useless | Pace::Wait => {
                let length = (BLOCKED_LENGTH.load(Relaxed) * 2).clamp(256, 1 << 16);
                BLOCKED_LENGTH.store(length, Relaxed);
                BLOCKED_UNTIL.store(OPENS.load(Relaxed).saturating_add(length), Relaxed);
                state.end();
                return false;
            }
        }
        if state.walk.counts().0.is_multiple_of(8) {
            state.note_use();
        }
    }
}

/// Name and kind of a directory's entry.
struct Entry {
    at: usize,
    len: usize,
    kind: u8,
}

impl State {
    /// Opens the directory of the mailbox and the one above it, and goes to where the program is.
    fn begin(&mut self) {
        self.walk = Walk::begin();
        self.bytes = 0;
        self.used_seen = USED.load(Relaxed);
        self.used_ns = sys::now_ns();
        // SAFETY: the state is WALKING: the mailbox is the keeper's.
        let (path, last) = unsafe { (&*MAILBOX.path.get(), &*MAILBOX.name.get()) };
        let Ok(path) = CStr::from_bytes_until_nul(path) else { return self.end() };
        let Ok(last) = CStr::from_bytes_until_nul(last) else { return self.end() };
        let mut trimmed = path.to_bytes();
        while trimmed.len() > 1 && trimmed.last() == Some(&b'/') {
            trimmed = trimmed.get(..trimmed.len() - 1).unwrap_or_default();
        }
        let cut = trimmed.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let (above, own) = trimmed.split_at_checked(cut).unwrap_or_default();
        let own = own.get(1..).unwrap_or_default();
        let mut buffer = [0; PATH_MAX];
        let above = join(&[if above.is_empty() { b"/" } else { above }], &mut buffer);
        if let Some(above) = above.filter(|_| !own.is_empty())
            && self.push(libc::AT_FDCWD, above)
            && !self.find(own)
        {
            self.pop();
        }
        let before = MAILBOX.before.load(Relaxed);
        let own_is_open = self.push(libc::AT_FDCWD, path);
        let found = own_is_open.then(|| self.find_after(last.to_bytes())).flatten();
        // Numbered files that do not lie in this order in the directory are followed by their numbers.
        if found.is_none_or(|after| before != 0 && before != after) {
            self.end();
        }
    }

    fn push(&mut self, directory: i32, path: &CStr) -> bool {
        let Some(level) = self.level.get_mut(self.depth) else { return false };
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let Ok(fd) = sys::openat(directory, path, flags, 0) else { return false };
        level.fd = fd;
        level.len = 0;
        level.at = 0;
        self.depth += 1;
        true
    }

    fn pop(&mut self) {
        if self.depth == 0 {
            return;
        }
        self.depth -= 1;
        if let Some(level) = self.level.get_mut(self.depth) {
            sys::close(level.fd);
            level.fd = -1;
        }
    }

    fn end(&mut self) {
        while self.depth > 0 {
            self.pop();
        }
        self.walk.end(&BUDGET);
        MAILBOX.state.store(EMPTY, Release);
    }

    /// Moves the deepest directory behind an entry. `false` when there is none of this name.
    fn find(&mut self, name: &[u8]) -> bool {
        self.find_after(name).is_some()
    }

    /// Moves the deepest directory behind an entry: the hash of the name before it.
    fn find_after(&mut self, name: &[u8]) -> Option<u64> {
        let mut before = 0;
        while let Some(entry) = self.next() {
            if self.name(&entry) == name {
                return Some(before);
            }
            before = hash(0, self.name(&entry)) | 1;
        }
        None
    }

    fn name(&self, entry: &Entry) -> &[u8] {
        let level = self.depth.checked_sub(1).and_then(|at| self.level.get(at));
        level.and_then(|level| level.entries.get(entry.at..entry.at + entry.len)).unwrap_or_default()
    }

    /// The next entry of the deepest directory.
    fn next(&mut self) -> Option<Entry> {
        let level = self.level.get_mut(self.depth.checked_sub(1)?)?;
        if level.at >= level.len {
            let buffer = level.entries.as_mut_ptr() as usize;
            // SAFETY: the buffer is valid for its length.
            let read = unsafe {
                sys::call(libc::SYS_getdents64, [level.fd as usize, buffer, level.entries.len(), 0, 0, 0])
            };
            level.at = 0;
            level.len = read.unwrap_or(0);
            if level.len == 0 {
                return None;
            }
        }
        // linux_dirent64: inode (8), offset (8), length of the record (2), kind (1), name.
        let record = level.entries.get(level.at..level.len)?;
        let length = usize::from(u16::from_ne_bytes([*record.get(16)?, *record.get(17)?]));
        let kind = *record.get(18)?;
        let len = record.get(19..length)?.iter().position(|byte| *byte == 0)?;
        let entry = Entry { at: level.at + 19, len, kind };
        level.at += length.max(24);
        Some(entry)
    }

    /// Goes to the next file in order and fetches it. `false` at the end.
    fn step(&mut self) -> bool {
        loop {
            let Some(entry) = self.next() else {
                self.pop();
                if self.depth == 0 {
                    return false;
                }
                continue;
            };
            let mut buffer = [0; 260];
            let Some(name) = join(&[self.name(&entry)], &mut buffer) else { continue };
            let directory = self.depth.checked_sub(1).and_then(|at| self.level.get(at)).map_or(-1, |l| l.fd);
            match entry.kind {
                libc::DT_DIR if !matches!(name.to_bytes(), b"." | b"..") => {
                    self.push(directory, name);
                }
                libc::DT_REG => {
                    self.fetch(directory, name);
                    return true;
                }
                _ => {}
            }
        }
    }

    fn fetch(&mut self, directory: i32, name: &CStr) {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let Ok(fd) = sys::openat(directory, name, flags, 0) else {
            return self.walk.on_fetched(false);
        };
        let bytes = sys::fstat(fd).map_or(0, |stat| stat.st_size as u64).min(FILE_BYTES_MAX);
        let pages = bytes.div_ceil(prefetch::PAGE);
        let cached = sys::cachestat(fd, 0, bytes).is_ok_and(|stat| stat.cached >= pages) && bytes > 0;
        let room = cached || self.walk.take(bytes, &BUDGET);
        if room && !cached {
            let mut at = 0;
            while at < bytes {
                // Without a look at the device: 128 KiB is what any kernel does in one call.
                let _ = sys::readahead(fd, at, (128 << 10).min(bytes - at));
                at += 128 << 10;
            }
        }
        sys::close(fd);
        if !room {
            return self.walk.on_fetched(false);
        }
        FETCHED_UNTIL.store(OPENS.load(Relaxed).wrapping_add(FETCHED_OPENS), Relaxed);
        let bit = bit(hash(0, name.to_bytes()));
        bit.store(bit.load(Relaxed).saturating_add(1), Relaxed);
        if !cached {
            self.bytes += bytes;
        }
        self.walk.on_fetched(cached);
        if let Some(area) = report::area() {
            area.add_head(Head::Walked, 1);
            area.add_head(Head::WalkBytes, bytes);
        }
    }

    /// Takes over what the program has opened since the last look.
    fn note_use(&mut self) {
        let used = USED.load(Relaxed);
        let fresh = used.wrapping_sub(self.used_seen);
        self.used_seen = used;
        if fresh == 0 {
            return;
        }
        self.used_ns = sys::now_ns();
        let mean = self.bytes / u64::from(self.walk.counts().0.max(1));
        (0..fresh).for_each(|_| self.walk.on_used(mean, &BUDGET));
        cost::opened(u64::from(fresh));
        if let Some(area) = report::area() {
            area.add_head(Head::WalkUsed, u64::from(fresh));
        }
    }
}

/// The process forked: nothing walks in the child.
pub fn forked() {
    MAILBOX.state.store(EMPTY, Relaxed);
    // SAFETY: there is no keeper in the child; the descriptors were the keeper's own.
    let state = unsafe { &mut *WALKER.0.get() };
    state.depth = 0;
    state.walk.end(&BUDGET);
}
