//! Sets of patterns, devices and sizes of memory drawn from a seed.
//!
//! Whoever chose the policy's constants cannot have seen a set whose seed was chosen later. Nobody should choose a
//! constant by what a set shows: from then on it is as known as the matrix, and only another seed can judge.

use apps::prefetch::patterns::{self, Pattern};
use stats::rng::SplitMix;

use super::plan::Device;

/// Patterns of a set.
const PATTERNS: usize = 6;
/// Its devices.
const DEVICES: usize = 3;
/// Latency of a device, us: that of a near flash device to that of a disk or a network.
const LATENCY_US: (f64, f64) = (30.0, 12_000.0);
/// Bandwidth, MB/s.
const BANDWIDTH_MB: (f64, f64) = (80.0, 3_000.0);
/// Read-ahead windows, KiB: what distributions and storage servers set. 128 is Linux's own.
const READAHEAD_KIB: [u64; 6] = [128, 128, 128, 256, 512, 2048];
/// Sizes of the file: 32 blocks of 256 KiB for each of eight threads at least.
const MIB: [u64; 5] = [64, 96, 128, 192, 256];
/// Memory, percent of the file.
const MEMORY_PERCENT: [u64; 6] = [20, 30, 40, 50, 60, 80];
/// The devices' numbers have nothing to do with those of the patterns.
const DEVICES_SEED: u64 = 0x6465_7669_6365;

/// What was drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldOutSet {
    /// From this.
    pub seed: u64,
    /// The patterns.
    pub patterns: Vec<Pattern>,
    /// The devices.
    pub devices: Vec<Device>,
    /// Sizes of memory: none, and one of the file's.
    pub memory: Vec<Option<u64>>,
}

/// The set of a seed: the same for ever.
pub fn set(seed: u64) -> HeldOutSet {
    let mut random = SplitMix::new(seed ^ DEVICES_SEED);
    let devices = (0..DEVICES).map(|_| device(&mut random)).collect();
    let percent = random.pick(&MEMORY_PERCENT).copied();
    HeldOutSet { seed, patterns: patterns::drawn(seed, PATTERNS), devices, memory: vec![None, percent] }
}

fn device(random: &mut SplitMix) -> Device {
    let (latency, bandwidth) = (spread(random, LATENCY_US), spread(random, BANDWIDTH_MB));
    let name = format!("slow({latency}us,{bandwidth}MB/s)");
    let mib = random.pick(&MIB).copied().unwrap_or(64);
    Device { name, mib, readahead_kib: random.pick(&READAHEAD_KIB).copied().unwrap_or(128) }
}

/// A whole number, each power of two as likely as the next.
fn spread(random: &mut SplitMix, (low, high): (f64, f64)) -> u64 {
    let share = random.below(1 << 20) as f64 / f64::from(1 << 20);
    (low * (high / low).powf(share)).round() as u64
}

impl HeldOutSet {
    /// What was drawn, in words.
    pub fn words(&self) -> String {
        let mut text = format!("Held out, drawn from seed {}:\n", self.seed);
        for Device { name, mib, readahead_kib } in &self.devices {
            text += &format!("- device {name}, a file of {mib} MiB, read-ahead {readahead_kib} KiB\n");
        }
        for pattern in &self.patterns {
            text += &format!("- pattern {}\n", pattern.title());
        }
        let memory: Vec<String> = self
            .memory
            .iter()
            .map(|percent| percent.map_or("no limit".into(), |percent| format!("{percent} % of the file")))
            .collect();
        text + &format!("- memory: {}\n", memory.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_set_for_ever_and_another_one_another() {
        assert_eq!(set(1), set(1));
        assert_ne!(set(1).devices, set(2).devices);
        assert_ne!(set(1).patterns, set(2).patterns);
        insta::assert_snapshot!(set(1).words(), @r"
        Held out, drawn from seed 1:
        - device slow(4452us,208MB/s), a file of 192 MiB, read-ahead 512 KiB
        - device slow(39us,754MB/s), a file of 256 MiB, read-ahead 128 KiB
        - device slow(32us,488MB/s), a file of 256 MiB, read-ahead 128 KiB
        - pattern mix@28571/shuffle13.hot64x231+runs10x231
        - pattern mix@65388/up3x857+gaps1x857+random1x857, 1 thread
        - pattern mix@56944/random1x177+hot186.down5x177
        - pattern mix@25799/gaps7x590, 6 threads, 16 KiB, one descriptor
        - pattern mix@7865w425/hot101x1683+gaps1.up4x1683, 1 thread
        - pattern mix@58141/shuffle143x1303+up5.down2x1303, 1 thread, 128 KiB
        - memory: no limit, 60 % of the file
        ");
    }

    #[test]
    fn what_is_drawn_can_be_run() {
        for seed in 0..200 {
            let HeldOutSet { patterns, devices, memory, .. } = set(seed);
            assert_eq!((patterns.len(), devices.len(), memory.len()), (PATTERNS, DEVICES, 2));
            for Device { name, mib, .. } in &devices {
                assert!(ssd::Profile::named(name).is_ok(), "{name}");
                for pattern in &patterns {
                    let room = pattern.threads * (pattern.block_kib << 10) * 32;
                    assert!(room <= mib << 20, "{pattern:?} on {mib} MiB");
                    assert!(
                        pattern.reads(mib << 20, 0).is_some_and(|reads| !reads.is_empty()),
                        "{pattern:?}"
                    );
                }
            }
        }
    }
}
