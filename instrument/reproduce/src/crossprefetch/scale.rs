//! Sizes: everything hangs on the memory that the load may use.

use crate::Scale;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Bytes of a record of db_bench (key and value), of YCSB.
const DB_RECORD: u64 = 5096;
const YCSB_RECORD: u64 = 4116;

/// Sizes of every load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// The scale they belong to.
    pub scale: Scale,
    /// Memory that a load may use (cgroup).
    pub memory_bytes: u64,
    /// Size of an emulated device.
    pub device_bytes: u64,
    /// All files of a load.
    pub bytes: u64,
    /// Threads of the readers.
    pub threads: u64,
    /// Keys of db_bench.
    pub keys: u64,
    /// Random reads of each of db_bench's threads; sequential ones are ten times as many.
    pub reads: u64,
    /// Records of YCSB.
    pub records: u64,
    /// Milliseconds of what runs for a time.
    pub milliseconds: u64,
    /// Bytes of a file to compress.
    pub file_bytes: u64,
    /// Trials of the two rows that claims are about.
    pub trials: u32,
    /// Trials of the other rows.
    pub other_trials: u32,
}

impl Sizes {
    /// The sizes of a scale on a machine of so much memory. An emulated device takes its bytes from the same memory.
    pub fn new(scale: Scale, machine_bytes: u64, emulated: bool) -> Sizes {
        let wanted = match scale {
            Scale::Quick => GIB / 2,
            Scale::Default => GIB,
            Scale::Paper => 256 * GIB,
        };
        let share = if emulated { machine_bytes / 8 } else { machine_bytes / 5 * 4 };
        Sizes::with_memory(scale, wanted.min(share).max(GIB / 4) / MIB * MIB)
    }

    /// The sizes of a run that was planned.
    pub fn of_study(study: &record::Study) -> Option<Sizes> {
        Some(Sizes::with_memory(Scale::of_title(&study.study.title)?, study.study.memory?.0))
    }

    fn with_memory(scale: Scale, memory: u64) -> Sizes {
        let [threads, reads, milliseconds, file, trials, other_trials] = match scale {
            Scale::Quick => [4, 400, 600, 4 * MIB, 3, 1],
            Scale::Default => [4, 1000, 2000, 4 * MIB, 5, 3],
            Scale::Paper => [16, 100_000, 30_000, 140 * MIB, 5, 5],
        };
        Sizes {
            scale,
            memory_bytes: memory,
            device_bytes: 4 * memory,
            bytes: memory / 2 / MIB * MIB,
            threads,
            keys: memory / 7 * 4 / DB_RECORD,
            reads,
            records: memory / 2 / YCSB_RECORD,
            milliseconds,
            file_bytes: file.min(memory / 64),
            trials: trials as u32,
            other_trials: other_trials as u32,
        }
    }

    /// What was kept of the paper's sizes, one line each.
    pub fn lines(&self) -> Vec<String> {
        let mib = |bytes: u64| format!("{} MiB", bytes / MIB);
        vec![
            format!("memory of the load: {} (paper: 256 GB), by a cgroup", mib(self.memory_bytes)),
            format!(
                "files: {} = half of it, {} threads (paper: private 200 GB, shared 12 to 16 GB, 16 threads; mmap 64 GB, 32)",
                mib(self.bytes),
                self.threads
            ),
            format!(
                "db_bench: {} keys of 1,000 B with values of 4,096 B, {} random reads a thread, ten times as many \
                 sequential, {} threads (paper: 30,000,000 keys, 4,000,000 reads, 32 threads)",
                self.keys, self.reads, self.threads
            ),
            format!(
                "YCSB: {} records of 4,096 B, {} s, {} threads (paper: 50,000,000, 30 s, 16 threads)",
                self.records,
                self.milliseconds as f64 / 1e3,
                self.threads
            ),
            format!(
                "compression: files of {}, a folder a thread, {} threads (paper: 100 files of 140 MB in 32 folders)",
                mib(self.file_bytes),
                self.threads
            ),
            format!(
                "writers and readers: {} s (paper: 3,100,000 operations each)",
                self.milliseconds as f64 / 1e3
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_stay_on_any_machine() {
        for scale in [Scale::Quick, Scale::Default, Scale::Paper] {
            for gib in [1, 24, 512] {
                for emulated in [false, true] {
                    let sizes = Sizes::new(scale, gib * GIB, emulated);
                    assert!(sizes.bytes * 2 <= sizes.memory_bytes + MIB, "{sizes:?}");
                    assert!(sizes.keys * DB_RECORD < sizes.memory_bytes && sizes.reads * 10 > 0);
                    assert!(sizes.device_bytes >= 3 * sizes.keys * DB_RECORD, "compaction needs room");
                    assert!(sizes.bytes / sizes.threads >= sizes.file_bytes, "each folder has a file");
                }
            }
        }
        assert_eq!(Sizes::new(Scale::Quick, 24 * GIB, true).memory_bytes, GIB / 2);
    }
}
