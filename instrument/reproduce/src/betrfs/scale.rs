//! Sizes: everything hangs on the memory that the load may use, by the paper's ratios.

use apps::source::Subset;

use crate::Scale;

const GIB: u64 = 1 << 30;
/// Memory of the paper's machine.
pub const PAPER_MEMORY: u64 = 32 * GIB;
/// The paper's device.
pub const PAPER_DEVICE: u64 = 250_000_000_000;
/// Largest part of a device that the large file takes.
const DEVICE_SHARE_MAX: f64 = 0.7;

/// What the machine offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// Size of the real device under test; `None` for an emulated one, whose bytes lie in memory.
    pub device_bytes: Option<u64>,
}

/// Sizes of every load.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// The scale they belong to.
    pub scale: Scale,
    /// Memory that the load may use (cgroup).
    pub memory_bytes: u64,
    /// Size of an emulated device.
    pub device_bytes: u64,
    /// The large file: 2.5 times the memory (paper: 80 GiB of 32 GiB).
    pub large_file_bytes: u64,
    /// The file of the random writes: 0.31 times the memory (paper: 10 GiB).
    pub random_file_bytes: u64,
    /// Random writes: one for each tenth page of the file (paper: 262,144 on 10 GiB).
    pub random_writes: u64,
    /// Buffers of 40 KiB that are written round-robin (paper: 2,000), at least 64.
    pub buffers: u64,
    /// Files of TokuBench (paper: 3,000,000).
    pub tokubench_files: u64,
    /// The source tree (paper: linux-3.11.10).
    pub subset: Subset,
    /// Messages in each mailbox (paper: 2,500).
    pub imap_messages: u64,
    /// Operations of each of 8 clients (paper: 10,000).
    pub imap_ops: u64,
    /// Files of Filebench's personalities are the artifact's over this.
    pub filebench_divisor: u64,
    /// Measured seconds of a personality (paper: 60).
    pub filebench_seconds: u64,
    /// Trials of a micro load.
    pub micro_trials: u32,
    /// Trials of an application; IMAP and rsync have those of a micro load if that is more, since claims rest on them.
    pub application_trials: u32,
}

impl Sizes {
    /// The sizes of a scale on a machine.
    pub fn new(scale: Scale, machine: Machine) -> Sizes {
        let wanted = match scale {
            Scale::Quick => GIB / 2,
            Scale::Default => GIB,
            Scale::Paper => PAPER_MEMORY,
        };
        // An emulated device takes its bytes from the same memory: load, device and the rest get a share each.
        let by_memory = match machine.device_bytes {
            None => (machine.memory_bytes as f64 / 5.0) as u64,
            Some(_) => machine.memory_bytes,
        };
        let by_device =
            machine.device_bytes.map_or(u64::MAX, |bytes| (bytes as f64 * DEVICE_SHARE_MAX / 2.5) as u64);
        let memory = wanted.min(by_memory).min(by_device).max(GIB / 8) >> 20 << 20;
        Sizes::with_memory(scale, memory)
    }

    /// The sizes of a run that was planned: its title names the scale.
    pub fn of_study(study: &record::Study) -> Option<Sizes> {
        let scale = Scale::of_title(&study.study.title)?;
        Some(Sizes::with_memory(scale, study.study.memory?.0))
    }

    fn with_memory(scale: Scale, memory: u64) -> Sizes {
        let part = memory as f64 / PAPER_MEMORY as f64;
        let random_file_bytes = memory / 32 * 10;
        let of = |full: u64, least: u64| ((full as f64 * part) as u64).clamp(least.min(full), full);
        let [messages, ops, divisor, seconds, micro, application] = match scale {
            Scale::Quick => [500, 250, 8, 5, 3, 1],
            Scale::Default => [1000, 1000, 4, 15, 5, 3],
            Scale::Paper => [2500, 10_000, 1, 60, 5, 3],
        };
        Sizes {
            scale,
            memory_bytes: memory,
            device_bytes: (PAPER_DEVICE as f64 * part) as u64 >> 20 << 20,
            large_file_bytes: memory / 2 * 5,
            random_file_bytes,
            random_writes: (262_144.0 * random_file_bytes as f64 / (10 * GIB) as f64) as u64,
            buffers: of(2_000, 64),
            tokubench_files: of(3_000_000, 10_000),
            subset: match scale {
                Scale::Quick => Subset::Small,
                Scale::Default => Subset::Medium,
                Scale::Paper => Subset::Full,
            },
            imap_messages: messages,
            imap_ops: ops,
            filebench_divisor: divisor,
            filebench_seconds: seconds,
            micro_trials: micro as u32,
            application_trials: application as u32,
        }
    }

    /// What was kept of the paper's sizes, one line each.
    pub fn lines(&self) -> Vec<String> {
        let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
        vec![
            format!("memory of the load: {} (paper: 32 GiB), by a cgroup", mib(self.memory_bytes)),
            format!("large file: {} = 2.5 x memory (paper: 80 GiB = 2.5 x)", mib(self.large_file_bytes)),
            format!(
                "random writes: {} on {} = 0.31 x memory (paper: 262,144 on 10 GiB = 0.31 x)",
                self.random_writes,
                mib(self.random_file_bytes)
            ),
            format!("TokuBench: {} files of 200 B, 4 threads (paper: 3,000,000)", self.tokubench_files),
            format!(
                "source tree: {} subset, {} files (paper: 44,600)",
                self.subset.word(),
                self.subset.files_guess()
            ),
            format!(
                "IMAP: 10 x {} messages, 8 x {} operations (paper: 10 x 2,500, 8 x 10,000)",
                self.imap_messages, self.imap_ops
            ),
            format!(
                "Filebench: the artifact's files / {}, {} s (paper: / 1, 60 s)",
                self.filebench_divisor, self.filebench_seconds
            ),
            "the drive's 12 GB fast write area is not scaled: only the paper's 80 GiB file leaves it"
                .to_string(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Machine = Machine { memory_bytes: 64 * GIB, device_bytes: Some(PAPER_DEVICE) };

    #[test]
    fn the_papers_sizes_on_the_papers_machine() {
        let sizes = Sizes::new(Scale::Paper, LARGE);
        assert_eq!((sizes.large_file_bytes, sizes.random_file_bytes), (80 * GIB, 10 * GIB));
        assert_eq!((sizes.random_writes, sizes.tokubench_files, sizes.buffers), (262_144, 3_000_000, 2_000));
        assert_eq!(sizes.device_bytes >> 20, PAPER_DEVICE >> 20);
        assert_eq!((sizes.imap_messages, sizes.imap_ops, sizes.filebench_divisor), (2_500, 10_000, 1));
    }

    #[test]
    fn ratios_stay_on_smaller_machines_and_the_file_fits() {
        for scale in [Scale::Quick, Scale::Default, Scale::Paper] {
            for gib in [1, 4, 24, 64] {
                for device_bytes in [None, Some(2 * GIB), Some(PAPER_DEVICE)] {
                    let sizes = Sizes::new(scale, Machine { memory_bytes: gib * GIB, device_bytes });
                    let ratio = sizes.large_file_bytes as f64 / sizes.memory_bytes as f64;
                    assert!((ratio - 2.5).abs() < 0.01, "{sizes:?}");
                    assert!(sizes.random_writes * 40_000 < sizes.random_file_bytes * 12, "{sizes:?}");
                    let device = device_bytes.unwrap_or(sizes.device_bytes);
                    assert!(sizes.large_file_bytes <= device / 10 * 8, "{sizes:?} on {device}");
                    assert!(!sizes.lines().is_empty());
                }
            }
        }
    }
}
