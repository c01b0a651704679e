//! How full the processors are: PSI. Opens a file: only where that is harmless.

use crate::memory::{number, slurp};

/// All of the time, as a share.
pub const FULL: u64 = 1024;
/// The shortest time that is looked at, ns: the kernel counts its ticks and switches of context.
const LOOK_NS: u64 = 10_000_000;

/// What of the latest time somebody waited for a processor.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pressure {
    waited_us: u64,
    looked_ns: u64,
    share: u64,
}

impl Pressure {
    /// Nothing known yet.
    pub const fn new() -> Pressure {
        Pressure { waited_us: 0, looked_ns: 0, share: 0 }
    }

    /// The share of the time since the latest look, of [`FULL`], in which something that could run waited for a processor:
    /// `some` of `/proc/pressure/cpu`, mean of all processors that were not idle. 0 where the kernel does not tell, and
    /// after the first look.
    pub fn look(&mut self, now_ns: u64) -> u64 {
        if now_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
            let mut buffer = [0; 256];
            self.take(total_us(slurp(c"/proc/pressure/cpu", &mut buffer)), now_ns);
        }
        self.share
    }

    fn take(&mut self, waited_us: u64, now_ns: u64) {
        let elapsed_us = now_ns.saturating_sub(self.looked_ns) / 1_000;
        let waited = waited_us.saturating_sub(self.waited_us);
        self.share = match self.waited_us {
            0 => 0,
            _ => (waited.saturating_mul(FULL) / elapsed_us.max(1)).min(FULL),
        };
        (self.waited_us, self.looked_ns) = (waited_us, now_ns);
    }
}

/// The time of the first line, `some ... total=123`, us; 0 without one.
fn total_us(text: &[u8]) -> u64 {
    let key = b"total=";
    let at = text.windows(key.len()).position(|window| window == key);
    at.and_then(|at| number(text.get(at + key.len()..)?)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_read() {
        let text = b"some avg10=1.21 avg60=2.34 avg300=1.78 total=52207\nfull avg10=0.00 total=7\n";
        assert_eq!(total_us(text), 52_207);
        assert_eq!(total_us(b""), 0);
        assert_eq!(total_us(b"some avg10=1.21"), 0);
    }

    #[test]
    fn the_share_is_that_of_the_time_between_looks() {
        let mut pressure = Pressure::new();
        pressure.take(1_000_000, 50_000_000_000);
        assert_eq!(pressure.share, 0, "nothing to compare with");
        pressure.take(1_005_000, 50_010_000_000);
        assert_eq!(pressure.share, FULL / 2);
        pressure.take(1_065_000, 50_020_000_000);
        assert_eq!(pressure.share, FULL);
        pressure.take(0, 50_030_000_000);
        assert_eq!(pressure.share, 0, "the file is there no more");
    }
}
