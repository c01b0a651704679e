//! What happens around a read: it is timed, told to the core, and what the core asks for is asked of the kernel at once.

use prefetch::{Counters, FILE_BYTES, File, Mode, Pages, Read};
use prefetch_os::{Kernel, sys};

use crate::gate::{self, ON};
use crate::table::{self, Guard, Reader};
use crate::{pass, report};

/// Reads that pass before a descriptor that is not worth watching is looked at again.
const READS_IGNORED: u32 = 63;
/// Reads after which it is looked whether a descriptor is still the same file.
const READS_TRUSTED: u32 = 64;
/// A read that hits takes about so long, ns, with what its program does between two of them.
const HIT_NS: u64 = 20_000;

/// What is carried from before a read to after it: when it began, ns; 0: it is not looked at.
#[derive(Clone, Copy)]
pub struct Before(u64);

impl Before {
    /// Nothing is to be done after the read.
    pub const NOTHING: Before = Before(0);

    /// Whether nothing is to be done.
    pub fn is_nothing(self) -> bool {
        self.0 == 0
    }
}

/// Before a read of a descriptor: makes no system call.
#[inline]
pub fn before(fd: i32) -> Before {
    if fd < 0 || pass::passes(fd) {
        return Before::NOTHING;
    }
    match gate::state() {
        // Files are often read once: the second read is the first to be looked at.
        ON if pass::is_known(fd) => Before(sys::now_ns()),
        ON => Before::NOTHING,
        // There is no way back.
        _ => {
            pass::let_pass(fd, pass::PASS_MAX);
            Before::NOTHING
        }
    }
}

/// After a read that returned `got`, at `offset` or, without one, at the descriptor's position.
#[inline]
pub fn after(before: Before, fd: i32, offset: Option<i64>, got: isize) {
    if before.is_nothing() || got <= 0 {
        return;
    }
    gate::pass_through(|| {
        let Some(mut reader) = registered(fd) else { return };
        let offset = match offset {
            Some(offset) => offset as u64,
            None => sys::position(fd).unwrap_or(0).saturating_sub(got as u64),
        };
        look(before, &mut reader, fd, offset, got as u64);
    });
}

/// After a call of stdio that may have read. `which` says what, given the descriptor's position, and the one before, as far as
/// it is known.
#[inline]
pub fn after_stdio(before: Before, fd: i32, which: impl Fn(u64, u64) -> Option<(u64, u64)>) {
    if before.is_nothing() {
        return;
    }
    gate::pass_through(|| {
        let Some(mut reader) = registered(fd) else { return };
        let Ok(position) = sys::position(fd) else { return };
        let known = core::mem::replace(&mut reader.position, position);
        let seen = which(position, known).filter(|(_, len)| (1..=64 << 20).contains(len));
        if let Some((offset, len)) = seen {
            look(before, &mut reader, fd, offset, len);
        }
    });
}

/// A descriptor may mean another file now.
pub fn renew(fd: i32) {
    if fd >= 0 && gate::state() == ON {
        pass::forget(fd);
        table::forget(fd);
    }
}

/// Device, inode and size of a file that is worth watching: regular, big enough, readable, on a real file system, not direct.
fn worth(fd: i32) -> Option<((u64, u64), u64)> {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    const HUGETLBFS: i64 = 0x9584_58f6;
    const PROC: i64 = 0x9fa0;
    const SYSFS: i64 = 0x6265_6572;
    let (identity, size) = identify(fd)?;
    let kind = sys::fs_type(fd).ok()? & 0xffff_ffff;
    let real = ![TMPFS, RAMFS, HUGETLBFS, PROC, SYSFS].contains(&kind);
    (size >= FILE_BYTES && real).then_some((identity, size))
}

/// Device, inode and size of a regular file that reads go through the page cache for.
fn identify(fd: i32) -> Option<((u64, u64), u64)> {
    let flags = sys::file_flags(fd).ok()?;
    let odd = libc::O_DIRECT | libc::O_PATH;
    let stat = sys::fstat(fd).ok()?;
    let regular = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    let cached = flags & odd == 0 && flags & libc::O_ACCMODE != libc::O_WRONLY;
    (regular && cached).then_some(((stat.st_dev, stat.st_ino), stat.st_size as u64))
}

/// What is known of a descriptor; `None`: it is not worth a look for a while.
fn registered(fd: i32) -> Option<Guard<'static, Reader>> {
    let mut reader = table::reader(fd)?;
    if reader.identity != (0, 0) {
        reader.trusted += 1;
        let same = reader.trusted < READS_TRUSTED || is_same(&mut reader, fd);
        if same {
            return Some(reader);
        }
    }
    *reader = Reader::NOTHING;
    let Some((identity, size)) = worth(fd) else {
        pass::let_pass(fd, READS_IGNORED);
        return None;
    };
    reader.identity = identity;
    reader.device = table::device_index(identity.0);
    reader.file = File::new(size);
    if let Some(mut known) = table::file(identity).filter(|known| known.record == 0) {
        known.record = report::take(fd, identity);
    }
    Some(reader)
}

/// Whether a descriptor still means the file it did, to be read through the page cache. Closing and duplicating is not
/// followed: a child of vfork does so with what its parent goes on to read.
fn is_same(reader: &mut Reader, fd: i32) -> bool {
    let found = identify(fd).filter(|(identity, _)| *identity == reader.identity);
    if let Some((_, size)) = found {
        reader.trusted = 0;
        reader.file.size = size;
    }
    found.is_some()
}

/// What the core asks of the kernel, of the file that was read: before a request the descriptor is looked at.
struct Asking {
    kernel: Kernel,
    identity: (u64, u64),
    /// It is another file.
    stale: bool,
}

impl Pages for Asking {
    fn ask(&mut self, offset: u64, len: u64) -> bool {
        if self.kernel.requests == 0 && !self.kernel.observing {
            self.stale = identify(self.kernel.fd).is_none_or(|(identity, _)| identity != self.identity);
        }
        !self.stale && self.kernel.ask(offset, len)
    }

    fn is_cached(&mut self, offset: u64, len: u64) -> Option<bool> {
        self.kernel.is_cached(offset, len)
    }

    fn is_ready(&mut self, offset: u64) -> Option<bool> {
        self.kernel.is_ready(offset)
    }
}

fn look(before: Before, reader: &mut Reader, fd: i32, offset: u64, len: u64) {
    inject_panic();
    let now_ns = sys::now_ns();
    let read = Read { offset, len, elapsed_ns: now_ns.saturating_sub(before.0), now_ns };
    let (nap_ns, naps) = core::mem::take(&mut reader.nap);
    if naps > 0 && now_ns.saturating_sub(nap_ns) > u64::from(naps) * (HIT_NS + len / 4) {
        reader.file.waken();
    }
    let mode = table::mode();
    let Some(device) = table::DEVICE.get(reader.device) else { return };
    let kernel = Kernel::new(fd, reader.file.size, mode == Mode::Observe);
    let mut asking = Asking { kernel, identity: reader.identity, stale: false };
    let mut known = table::file(reader.identity);
    let affordable = reader.file.size <= table::budget();
    let rental = known.as_mut().filter(|_| affordable).map(|known| &mut known.rental);
    let effect = reader.file.on_read(&read, device, rental, mode, &mut asking);
    if effect.nap > 0 && !is_kept_awake() {
        reader.nap = (now_ns, effect.nap);
        pass::let_pass(fd, effect.nap);
    }
    if let Some(known) = known {
        let counters = Counters::of(&read, &effect, device.latency_ns(), mode);
        report::file(known.record, reader.file.size, &counters, &effect);
    }
    if asking.stale {
        *reader = Reader::NOTHING;
    }
    if asking.kernel.requests > 0 {
        report::spent(sys::now_ns().saturating_sub(now_ns));
    }
}

/// Whether no read is let pass: only in debug builds, for the tests.
fn is_kept_awake() -> bool {
    #[cfg(debug_assertions)]
    return table::AWAKE.load(core::sync::atomic::Ordering::Relaxed);
    #[cfg(not(debug_assertions))]
    false
}

/// Panics at the read whose number stands in `LOADLINE_PREFETCH_PANIC`: only in debug builds, for the tests.
#[cfg(debug_assertions)]
fn inject_panic() {
    use core::sync::atomic::Ordering::Relaxed;
    let at = &table::PANIC_AT;
    let left = at.load(Relaxed);
    assert!(left == 0 || at.fetch_sub(1, Relaxed) != 1, "injected");
}

#[cfg(not(debug_assertions))]
fn inject_panic() {}
