//! Keeps CPUs from sleeping while the device is in use.
//!
//! A request changes hands half a dozen times between program, loop worker and daemon, and at each of these the CPU
//! of the one who waits has gone idle. Waking it from a deep state, or a virtual CPU from a halt that the hypervisor
//! has to end, takes 20 to 50 us: more than a fast drive needs for a write. The kernel's PM QoS interface
//! (Documentation/power/pm_qos_interface.rst) lets an idle CPU poll instead, as long as somebody holds
//! `/dev/cpu_dma_latency` open with a limit of 0 us in it.

use std::fs::File;
use std::io::Write;

const DEVICE: &str = "/dev/cpu_dma_latency";
/// Microseconds: no sleep at all, and no limit.
const AWAKE: i32 = 0;
const ANY: i32 = 2_000_000_000;
/// A device without requests for so long lets the CPUs sleep.
const PATIENCE_NS: u64 = 1_000_000_000;

/// The request to stay awake; it ends with the process at the latest.
#[derive(Debug)]
pub(crate) struct WakeLock<W = File> {
    to: W,
    held: bool,
    last_ns: u64,
}

impl WakeLock {
    /// Does not ask for anything yet.
    pub(crate) fn open() -> Result<WakeLock, String> {
        let fine = File::options().write(true).open(DEVICE).and_then(|mut to| {
            // a descriptor just opened asks for what the kernel takes for the default
            to.write_all(&ANY.to_ne_bytes())?;
            Ok(WakeLock { to, held: false, last_ns: 0 })
        });
        fine.map_err(|error| format!("idle CPUs may sleep, which adds to every latency: {DEVICE}: {error}"))
    }
}

impl<W: Write> WakeLock<W> {
    /// A request has come. `now_ns` is a monotonic time.
    pub(crate) fn touch(&mut self, now_ns: u64) {
        self.last_ns = now_ns;
        if !self.held {
            self.held = self.to.write_all(&AWAKE.to_ne_bytes()).is_ok();
        }
    }

    /// Lets the CPUs sleep if no request has come for a second.
    pub(crate) fn rest(&mut self, now_ns: u64) {
        if self.held && now_ns.saturating_sub(self.last_ns) >= PATIENCE_NS {
            self.held = self.to.write_all(&ANY.to_ne_bytes()).is_err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_stay_awake_while_requests_come() {
        let mut wakeful = WakeLock { to: Vec::new(), held: false, last_ns: 0 };
        wakeful.rest(9_000_000_000);
        assert!(wakeful.to.is_empty());
        for now_ns in [10_000_000_000, 10_500_000_000, 11_400_000_000] {
            wakeful.touch(now_ns);
            wakeful.rest(now_ns + 900_000_000);
        }
        assert_eq!(wakeful.to, AWAKE.to_ne_bytes(), "asked once");
        wakeful.rest(12_400_000_000);
        wakeful.rest(13_400_000_000);
        wakeful.touch(14_000_000_000);
        assert_eq!(wakeful.to, [AWAKE, ANY, AWAKE].map(i32::to_ne_bytes).concat());
    }
}
