//! Time on the resources of the device: controller, link, channels, dies, planes, arm.
//!
//! Each resource is a time at which it is free again; an operation adds arithmetic, not events. A pipe
//! (link, channel) reserves its share from the moment of issue, so that a slow operation ahead does not
//! block transfers that are ready earlier, while the rate limit holds.

use crate::command::{BLOCK_BYTES, Nanos};
use crate::geometry::Geometry;
use crate::profile::{MediaKind, Profile, Rotation};

/// A rate-limited connection.
#[derive(Clone, Copy, Debug, Default)]
struct Pipe {
    free: Nanos,
}

impl Pipe {
    fn reserve(&mut self, now: Nanos, ns: Nanos) -> Nanos {
        self.free = self.free.max(now) + ns;
        self.free
    }
}

/// Time for `bytes` at `rate` bytes per second, rounded up.
pub(crate) fn transfer_ns(bytes: u64, rate: u64) -> Nanos {
    (bytes * 1_000_000_000).div_ceil(rate)
}

#[derive(Debug)]
struct Arm {
    rotation: Rotation,
    track_blocks: u64,
    blocks: u64,
    /// Block after the last access.
    head: u64,
}

#[derive(Debug)]
pub(crate) struct Timelines {
    to_host: Pipe,
    from_host: Pipe,
    channels: Vec<Pipe>,
    /// End of the last program or erase.
    dies: Vec<Nanos>,
    /// End of the last page read.
    planes: Vec<Nanos>,
    planes_per_die: u32,
    arm: Option<Arm>,
    read_rate: u64,
    write_rate: u64,
    channel_rate: u64,
    read_ns: Nanos,
    suspend_ns: Nanos,
}

impl Timelines {
    pub(crate) fn new(p: &Profile, geo: &Geometry) -> Timelines {
        let m = &p.media;
        let arm = m.rotation.as_ref().filter(|_| m.kind == MediaKind::Rotating).map(|r| Arm {
            rotation: r.clone(),
            track_blocks: (r.revolution_ns as u128 * u128::from(m.channel_bytes_per_s)
                / 1_000_000_000
                / u128::from(BLOCK_BYTES)) as u64,
            blocks: u64::from(geo.logical),
            head: 0,
        });
        Timelines {
            to_host: Pipe::default(),
            from_host: Pipe::default(),
            channels: vec![Pipe::default(); geo.channels as usize],
            dies: vec![0; geo.dies as usize],
            planes: vec![0; (geo.dies * geo.planes) as usize],
            planes_per_die: geo.planes,
            arm,
            read_rate: p.host.read_bytes_per_s,
            write_rate: p.host.write_bytes_per_s,
            channel_rate: m.channel_bytes_per_s,
            read_ns: m.read_ns,
            suspend_ns: m.suspend_ns,
        }
    }

    /// Data of a write is with the device.
    pub(crate) fn receive(&mut self, now: Nanos, bytes: u64) -> Nanos {
        self.from_host.reserve(now, transfer_ns(bytes, self.write_rate))
    }

    /// Data that is ready at `ready` is with the host.
    pub(crate) fn send(&mut self, now: Nanos, ready: Nanos, bytes: u64) -> Nanos {
        let ns = transfer_ns(bytes, self.read_rate);
        self.to_host.reserve(now, ns).max(ready + ns)
    }

    /// One page has been read and moved to the controller. A program or erase in the way is suspended.
    pub(crate) fn read_page(&mut self, die: u32, plane: u32, now: Nanos, bytes: u64) -> Nanos {
        let p = (die * self.planes_per_die + plane) as usize;
        let busy = self.dies[die as usize];
        let mut start = now.max(self.planes[p]);
        if busy > start {
            start = busy.min(start + self.suspend_ns);
            self.dies[die as usize] += self.read_ns.min(busy - start);
        }
        let sensed = start + self.read_ns;
        self.planes[p] = sensed;
        let channel = die as usize % self.channels.len();
        let ns = transfer_ns(bytes, self.channel_rate);
        self.channels[channel].reserve(now, ns).max(sensed + ns)
    }

    /// A unit has been moved to `die` and programmed.
    pub(crate) fn program(&mut self, die: u32, now: Nanos, bytes: u64, program_ns: Nanos) -> Nanos {
        let channel = die as usize % self.channels.len();
        let there = self.channels[channel].reserve(now, transfer_ns(bytes, self.channel_rate));
        let d = &mut self.dies[die as usize];
        *d = there.max(*d) + program_ns;
        *d
    }

    pub(crate) fn erase(&mut self, die: u32, now: Nanos, erase_ns: Nanos) -> Nanos {
        let d = &mut self.dies[die as usize];
        *d = now.max(*d) + erase_ns;
        *d
    }

    /// Where the arm stands.
    pub(crate) fn head(&self) -> u64 {
        self.arm.as_ref().map_or(0, |a| a.head)
    }

    /// The arm has read or written `blocks` from `lba` on. None if there is no arm.
    ///
    /// Seek time grows with the square root of the distance; the constant is chosen so that its mean over
    /// random pairs (8/15 of the full-stroke root) is the profile's. The platter turns with time.
    pub(crate) fn access(&mut self, now: Nanos, lba: u64, blocks: u64) -> Option<Nanos> {
        let arm = self.arm.as_mut()?;
        let start = now.max(self.dies[0]);
        let transfer = transfer_ns(blocks * BLOCK_BYTES, self.channel_rate);
        let end = if lba == arm.head {
            start + transfer
        } else {
            let r = &arm.rotation;
            let part = lba.abs_diff(arm.head) as f64 / arm.blocks as f64;
            let spread = (r.seek_mean_ns - r.seek_min_ns) as f64 * 15.0 / 8.0;
            let seek = r.seek_min_ns + (spread * part.sqrt()) as u64;
            let target = (lba % arm.track_blocks) * r.revolution_ns / arm.track_blocks;
            let arrived = (start + seek) % r.revolution_ns;
            let wait = (target + r.revolution_ns - arrived) % r.revolution_ns;
            start + seek + wait + transfer
        };
        arm.head = lba + blocks;
        self.dies[0] = end;
        Some(end)
    }

    /// All operations are gone.
    pub(crate) fn reset(&mut self, now: Nanos) {
        self.to_host.free = now;
        self.from_host.free = now;
        self.channels.fill(Pipe { free: now });
        self.dies.fill(now);
        self.planes.fill(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str) -> Timelines {
        let p = Profile::named(name).unwrap();
        let geo = Geometry::new(&p, 1 << 30).unwrap();
        Timelines::new(&p, &geo)
    }

    #[test]
    fn a_read_suspends_a_program_and_lengthens_it() {
        let mut t = lines("980pro");
        let end = t.program(3, 0, 65_536, 1_000_000);
        let read = t.read_page(3, 0, end - 500_000, 4096);
        assert!(read < end, "suspended, not waited for");
        assert!(t.dies[3] > end);
        let other = t.read_page(4, 0, end - 500_000, 4096);
        assert!(other < read, "an idle die answers sooner");
    }

    #[test]
    fn a_pipe_keeps_its_rate_without_head_of_line_blocking() {
        let mut t = lines("980pro");
        let slow = t.send(0, 1_000_000, 4096);
        let fast = t.send(0, 0, 4096);
        assert!(slow > 1_000_000 && fast < 10_000);
        let mut last = 0;
        for _ in 0..1000 {
            last = t.send(0, 0, 1 << 20);
        }
        let rate = (1000u64 << 20) as f64 / (last as f64 / 1e9);
        assert!((rate / 7.0e9 - 1.0).abs() < 0.1, "{rate}");
    }

    #[test]
    fn the_arm_streams_and_seeks() {
        let mut t = lines("hdd");
        let first = t.access(0, 1000, 8).unwrap();
        let next = t.access(first, 1008, 8).unwrap();
        assert_eq!(next - first, transfer_ns(8 * 4096, t.channel_rate));
        let far = t.access(next, 200_000, 1).unwrap();
        assert!(far - next > 4_000_000);
    }
}
