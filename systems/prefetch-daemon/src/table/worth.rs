//! Whether following a file is worth what its events cost.

use prefetch::Counters;

/// Accesses after which a file is let go that was only read forward and never prefetched: the kernel reads ahead.
pub(super) const FORWARD_MAX: u32 = 512;
/// Accesses after which it is weighed whether following a file is worth what its events cost.
pub(super) const WINDOW: u32 = 2048;
/// A file that waited less than this part of such a window's time, and read less than this part of its bytes out of
/// what was prefetched, is let go.
const GAIN_PART: u64 = 16;
/// Windows with waiting but without gain after which a file is let go.
pub(super) const BARREN_MAX: u32 = 16;

/// What following a file has brought lately.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Worth {
    accesses: u32,
    since_ns: u64,
    blocked_ns: u64,
    useful: u64,
    bytes: u64,
    barren: u32,
    quiet: bool,
    /// Accesses that went on where the thread's one before ended.
    contiguous: u32,
    issued: u64,
}

impl Worth {
    /// Followed from now on.
    pub(super) fn new(now_ns: u64) -> Worth {
        Worth { since_ns: now_ns, ..Worth::default() }
    }

    /// Notes whether an access went on where the one before ended.
    pub(super) fn note(&mut self, contiguous: bool) {
        self.contiguous += u32::from(contiguous);
    }

    /// Whether the last window was worth nothing.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether the file's events cost more than they bring: neither does the program wait, nor does it read what was
    /// prefetched; or it waits, and nothing has helped for a long time.
    pub(super) fn weigh(&mut self, c: &Counters, now_ns: u64) -> bool {
        self.accesses += 1;
        let before = *self;
        if before.accesses == FORWARD_MAX {
            // Whether prefetching gains is tried within a few MiB; what was not prefetched by now is the kernel's.
            let forward = before.contiguous >= FORWARD_MAX - FORWARD_MAX / 8;
            self.quiet = forward && c.issued == before.issued;
            return self.quiet;
        }
        if before.accesses < WINDOW {
            return false;
        }
        let gain = (c.useful - before.useful).saturating_mul(GAIN_PART) >= c.bytes - before.bytes;
        let waited = (c.blocked_ns - before.blocked_ns).saturating_mul(GAIN_PART);
        let barren = if gain { 0 } else { before.barren + 1 };
        let waits = waited >= now_ns.saturating_sub(before.since_ns);
        let quiet = !gain && (!waits || barren >= BARREN_MAX);
        let (blocked_ns, useful, bytes) = (c.blocked_ns, c.useful, c.bytes);
        let issued = c.issued;
        let (accesses, contiguous, since_ns) = (0, 0, now_ns);
        *self = Worth { accesses, contiguous, since_ns, blocked_ns, useful, bytes, issued, barren, quiet };
        quiet
    }
}
