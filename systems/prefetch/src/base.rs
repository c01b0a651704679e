//! The rate of a stream's reads before it is prefetched.

use crate::model::rate;

/// The rate of a stream's reads without prefetching. Zeroes are nothing measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct Base {
    /// When the stream began, ns.
    begun_ns: u64,
    /// Its rate before it was prefetched, bytes/s.
    rate: u64,
    /// Bytes of the run when the measurement began, or when it was first prefetched.
    bytes: u64,
    /// The time of that, ns.
    ns: u64,
}

impl Base {
    /// Of a stream that began at a time.
    pub fn begin(begun_ns: u64) -> Base {
        Base { begun_ns, ..Base::default() }
    }

    /// The rate before prefetching began, bytes/s.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Prefetching begins after so many bytes of the run.
    pub fn settle(&mut self, run_bytes: u64, now_ns: u64) {
        self.rate = self.alone(run_bytes, now_ns);
        (self.bytes, self.ns) = (run_bytes, now_ns);
    }

    /// Its rate without prefetching, bytes/s.
    pub fn alone(&self, run_bytes: u64, now_ns: u64) -> u64 {
        let since_ns = if self.ns == 0 { self.begun_ns } else { self.ns };
        rate(run_bytes - self.bytes, now_ns.saturating_sub(since_ns))
    }

    /// Whether the rate of a forward stream is known that is not prefetched: over `window` bytes and `least_ns`, after
    /// as many bytes in which the kernel's read-ahead grew.
    pub fn is_known(&mut self, run_bytes: u64, window: u64, least_ns: u64, now_ns: u64) -> bool {
        if self.ns == 0 && run_bytes >= window {
            self.bytes = run_bytes;
            self.ns = now_ns;
        }
        let long = now_ns.saturating_sub(self.ns) >= least_ns;
        self.ns != 0 && long && run_bytes - self.bytes >= window
    }
}
