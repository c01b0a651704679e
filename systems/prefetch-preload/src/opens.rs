//! Files that come next when a program opens one after another: in the order of their numbers, or in that of their
//! directory. They are asked for in the program's own `open`, and closed before it returns.
//!
//! Closing any descriptor of a file drops the process's POSIX locks on it: a program that takes such locks is left alone, see
//! [`locks`].

mod locks;

use core::ffi::{CStr, c_char, c_int};
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use prefetch::numbered::{self, Numbered, hash};
use prefetch::{CHUNK, Mode, PAGE};
use prefetch_os::area::Head;
use prefetch_os::memory::join;
use prefetch_os::sys;

use crate::gate::{self, ON};
use crate::table::{self, Slot};
use crate::{report, watch};

/// Series of numbers that are followed at a time.
const SERIES: usize = 8;
/// Files in the order of their directory before the next ones are fetched.
const CONFIRM: u32 = 3;
/// Files ahead in a directory at most.
const AHEAD_MAX: usize = 32;
/// Bytes ahead at most, and of one file: enough for a far device to be busy while its first reads go on.
const AHEAD_BYTES: u64 = 8 << 20;
/// Pieces of a directory that are looked through at a time for a file: the program's `open` waits.
const PIECES: usize = 64;
/// After so many files that were cached, or were not opened, nothing is fetched for a while.
const VAIN: u32 = 16;
/// The bit of a name's hash that says that the file was fetched: one that was cached has not, and its open is no gain.
const ASKED: u64 = 1;
/// The longest path that is made here, bytes.
const PATH_MAX: usize = 1024;

/// Files the program opened for reading.
static OPENS: AtomicU32 = AtomicU32::new(0);
/// Nothing is fetched before so many of them.
static RESUME: AtomicU32 = AtomicU32::new(0);

/// The program is about to lock a part of a file: no descriptor of ours may drop that.
pub fn forbid() {
    // Who fetches has the order of the opens meanwhile.
    locks::forbid(|| ORDER.try_lock().is_some());
}

/// A directory that is gone through.
#[repr(C, align(8))]
struct Walk {
    /// The directory of the latest opens; files in a row there; the hash of the latest name.
    key: u64,
    row: u32,
    latest: u64,
    /// Whether its order was followed with success: the next one is, too, from its first file on.
    trusted: bool,
    /// Whether what follows is known: entries, where the next one is, and where the kernel goes on.
    going: bool,
    entries: [u8; 8192],
    len: usize,
    at: usize,
    cookie: u64,
    /// What comes next and was looked at, and is not opened yet: the hash of its name, with [`ASKED`] when it was fetched.
    ahead: [u64; AHEAD_MAX],
    count: usize,
    bytes: u64,
}

/// What is known of the program's opens.
struct Order {
    series: [Numbered; SERIES],
    replaced: usize,
    walk: Walk,
    /// Files fetched in vain, less those that were not; the length of the next pause.
    vain: u32,
    pause: u32,
}

static ORDER: Slot<Order> = Slot::new(Order {
    // SAFETY: zeroes are no series: plain numbers.
    series: unsafe { core::mem::zeroed() },
    replaced: 0,
    walk: Walk {
        key: 0,
        row: 0,
        latest: 0,
        trusted: false,
        going: false,
        entries: [0; 8192],
        len: 0,
        at: 0,
        cookie: 0,
        ahead: [0; AHEAD_MAX],
        count: 0,
        bytes: 0,
    },
    vain: 0,
    pause: 0,
});

/// The program opened a file: `path` below `directory` is now `fd`.
#[inline]
pub fn on_open(directory: c_int, path: *const c_char, flags: c_int, fd: c_int) {
    if fd < 0 {
        return;
    }
    watch::renew(fd);
    let odd = libc::O_CREAT | libc::O_PATH | libc::O_DIRECT | libc::O_DIRECTORY | libc::O_ACCMODE;
    let plain = flags & odd == libc::O_RDONLY && !path.is_null() && !locks::are_known();
    if !plain || gate::state() != ON || table::mode() != Mode::Auto {
        return;
    }
    let opens = OPENS.fetch_add(1, Relaxed);
    if opens < RESUME.load(Relaxed) {
        return;
    }
    // SAFETY: the open succeeded, so the path is a C string.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let cut = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (parent, name) = path.split_at_checked(cut).unwrap_or_default();
    // What the system keeps there is no data.
    let system = [b"/proc/".as_slice(), b"/sys/", b"/dev/"].iter().any(|place| path.starts_with(place));
    if name.is_empty() || system {
        return;
    }
    gate::pass_through(|| {
        // Threads that open at a time wait for each other for a moment: a file that is missed breaks its order.
        let order = (0..64).find_map(|_| {
            core::hint::spin_loop();
            ORDER.try_lock()
        });
        if let Some(mut order) = order {
            order.on_open(directory, parent, name);
            order.pause(opens);
        }
    });
}

/// What became of a file that was to be fetched.
enum Fetched {
    /// So many bytes of it were asked for.
    Asked(u64),
    /// It is in the page cache.
    Cached,
    /// There is no such file, or it cannot be read.
    Missing,
}

impl Order {
    fn on_open(&mut self, directory: c_int, parent: &[u8], name: &[u8]) {
        let key = hash(directory as u64, parent) | 1;
        if let Some((number, series)) = numbered::parse(key, name) {
            let range = self.numbers(series, number);
            if !range.is_empty() {
                self.fetch_numbers(directory, parent, name, series, range);
                return;
            }
        }
        self.walk(directory, parent, name, key);
    }

    /// The numbers to be fetched after one was opened.
    fn numbers(&mut self, series: u64, number: u64) -> Range<u64> {
        let known = self.series.iter().position(|one| one.is(series));
        let at = known.unwrap_or_else(|| {
            self.replaced = (self.replaced + 1) % SERIES;
            self.replaced
        });
        let Some(one) = self.series.get_mut(at) else { return 0..0 };
        if one.is(series) && one.was_asked(number) {
            report::add(Head::WalkUsed, 1);
        }
        one.on_open(series, number)
    }

    fn fetch_numbers(&mut self, directory: c_int, parent: &[u8], name: &[u8], key: u64, range: Range<u64>) {
        let mut buffer = [0; 256];
        for number in range {
            let Some(len) = numbered::rename(name, number, &mut buffer) else { return };
            let next = buffer.get(..len).unwrap_or_default();
            let fetched = fetch(directory, parent, next);
            let asked = matches!(fetched, Fetched::Asked(_));
            if let Some(one) = self.series.iter_mut().find(|one| one.is(key)) {
                one.fetched(number, asked);
            }
            match fetched {
                Fetched::Missing => {
                    if let Some(one) = self.series.iter_mut().find(|one| one.is(key)) {
                        one.end();
                    }
                    return;
                }
                Fetched::Cached => self.vain += 1,
                Fetched::Asked(_) => self.vain = 0,
            }
        }
    }

    /// After many files that need not have been fetched, nothing is for a while.
    fn pause(&mut self, opens: u32) {
        if self.vain >= VAIN {
            self.vain = 0;
            self.pause = (self.pause * 2).clamp(64, 1 << 16);
            self.walk.going = false;
            self.walk.trusted = false;
            RESUME.store(opens.saturating_add(self.pause), Relaxed);
        }
    }

    /// A file was opened: fetches what comes after it in its directory, once three were in that order.
    fn walk(&mut self, directory: c_int, parent: &[u8], name: &[u8], key: u64) {
        let own = hash(0, name) | ASKED;
        let walk = &mut self.walk;
        if walk.key != key {
            // What was fetched elsewhere may still be opened, after another directory.
            (walk.key, walk.row, walk.going, walk.count, walk.bytes) = (key, 0, false, 0, 0);
        }
        let before = core::mem::replace(&mut walk.latest, own);
        walk.row = walk.row.saturating_add(1);
        let ahead = walk.ahead.iter().take(walk.count).position(|mark| mark | ASKED == own);
        if let Some(at) = ahead {
            let asked = walk.ahead.get(at).is_some_and(|mark| mark & ASKED != 0);
            // Those before it were passed by, or opened where nobody looked.
            walk.ahead.copy_within(at + 1.., 0);
            walk.bytes -= walk.bytes / walk.count as u64 * (at as u64 + 1);
            walk.count -= at + 1;
            walk.trusted = true;
            report::add(Head::WalkUsed, u64::from(asked));
            self.vain = self.vain.saturating_sub(1);
        } else if walk.going {
            // Elsewhere, or in another directory of the same number: it is looked for anew.
            (walk.going, walk.count, walk.bytes) = (false, 0, 0);
            self.vain += 1;
        }
        if !walk.going {
            let confirmed = walk.row >= CONFIRM || walk.trusted;
            if !confirmed {
                return;
            }
            walk.going = walk.find(directory, parent, name, (!walk.trusted).then_some(before));
            if !walk.going {
                walk.trusted = false;
                walk.row = 0;
                self.vain += 1;
                return;
            }
        }
        self.fetch_next(directory, parent);
    }

    fn fetch_next(&mut self, directory: c_int, parent: &[u8]) {
        while self.walk.count < AHEAD_MAX && self.walk.bytes < AHEAD_BYTES {
            let Some((at, len)) = self.walk.next_file(directory, parent) else {
                self.vain += u32::from(!self.walk.going);
                return;
            };
            let name = self.walk.entries.get(at..at + len).unwrap_or_default();
            let hash = hash(0, name) & !ASKED;
            let mark = match fetch(directory, parent, name) {
                Fetched::Missing => continue,
                Fetched::Cached => {
                    self.vain += 1;
                    if self.vain >= VAIN {
                        return;
                    }
                    hash
                }
                Fetched::Asked(bytes) => {
                    self.walk.bytes += bytes;
                    self.vain = 0;
                    hash | ASKED
                }
            };
            if let Some(to) = self.walk.ahead.get_mut(self.walk.count) {
                *to = mark;
                self.walk.count += 1;
            }
        }
    }
}

impl Walk {
    /// Goes to behind a file in its directory. With the hash of a name, that must be the file before it.
    fn find(&mut self, directory: c_int, parent: &[u8], name: &[u8], before: Option<u64>) -> bool {
        (self.len, self.at, self.cookie) = (0, 0, 0);
        let mut previous = 0;
        for _ in 0..PIECES {
            while let Some((at, len)) = self.entry() {
                let entry = self.entries.get(at..at + len).unwrap_or_default();
                if entry == name {
                    return before.is_none_or(|before| before == previous);
                }
                previous = hash(0, entry) | ASKED;
            }
            if !self.refill(directory, parent) {
                return false;
            }
        }
        false
    }

    /// The next file, reading on in the directory where that is needed. The directory is given up if that goes on for too long.
    fn next_file(&mut self, directory: c_int, parent: &[u8]) -> Option<(usize, usize)> {
        for _ in 0..PIECES {
            if let Some(entry) = self.entry() {
                return Some(entry);
            }
            if !self.refill(directory, parent) {
                return None;
            }
        }
        (self.going, self.trusted, self.row) = (false, false, 0);
        None
    }

    /// Place and length of the next regular file's name among the entries that were read.
    fn entry(&mut self) -> Option<(usize, usize)> {
        // linux_dirent64: inode (8), offset (8), length of the record (2), kind (1), name.
        while self.at < self.len {
            let record = self.entries.get(self.at..self.len)?;
            let length = usize::from(u16::from_ne_bytes([*record.get(16)?, *record.get(17)?]));
            self.cookie = u64::from_ne_bytes(record.get(8..16)?.try_into().ok()?);
            let kind = *record.get(18)?;
            let len = record.get(19..length)?.iter().position(|byte| *byte == 0)?;
            let at = self.at + 19;
            self.at += length.max(24);
            if kind == libc::DT_REG {
                return Some((at, len));
            }
        }
        None
    }

    fn refill(&mut self, directory: c_int, parent: &[u8]) -> bool {
        if !locks::may_open() {
            return false;
        }
        let mut buffer = [0; PATH_MAX];
        let here = if parent.is_empty() { b"." } else { parent };
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let opened = join(&[here], &mut buffer).and_then(|path| sys::openat(directory, path, flags, 0).ok());
        let Some(fd) = opened else { return false };
        let (at, to) = (self.cookie as usize, self.entries.as_mut_ptr() as usize);
        // SAFETY: the buffer is valid for its length.
        let read = unsafe {
            sys::call(libc::SYS_lseek, [fd as usize, at, libc::SEEK_SET as usize, 0, 0, 0])
                .and_then(|_| sys::call(libc::SYS_getdents64, [fd as usize, to, self.entries.len(), 0, 0, 0]))
        };
        locks::close(fd);
        self.at = 0;
        self.len = read.unwrap_or(0);
        self.len > 0
    }
}

/// Asks for a file, or its beginning.
fn fetch(directory: c_int, parent: &[u8], name: &[u8]) -> Fetched {
    let mut buffer = [0; PATH_MAX];
    let Some(path) = join(&[parent, name], &mut buffer) else { return Fetched::Missing };
    // Opening another kind of file might do something.
    let regular = |stat: &libc::stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    let Some(stat) = sys::stat_at(directory, path).ok().filter(regular) else { return Fetched::Missing };
    let bytes = (stat.st_size as u64).min(AHEAD_BYTES / 2);
    if bytes == 0 {
        return Fetched::Cached;
    }
    if !locks::may_open() {
        return Fetched::Missing;
    }
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let Ok(fd) = sys::openat(directory, path, flags, 0) else { return Fetched::Missing };
    let last = (bytes - 1) / PAGE * PAGE;
    let cached = sys::pread_byte(fd, last, libc::RWF_NOWAIT) == Ok(1);
    if !cached {
        (0..bytes.div_ceil(CHUNK)).for_each(|at| {
            let _ = sys::readahead(fd, at * CHUNK, CHUNK.min(bytes - at * CHUNK));
        });
        report::add(Head::Walked, 1);
        report::add(Head::WalkBytes, bytes);
    }
    #[cfg(debug_assertions)]
    locks::hold();
    locks::close(fd);
    if cached { Fetched::Cached } else { Fetched::Asked(bytes) }
}
