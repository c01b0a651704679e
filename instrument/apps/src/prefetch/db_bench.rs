//! RocksDB's own benchmark program: its options, and what it prints.

use std::path::Path;

use crate::AppError;
use crate::programs::{Program, program};

/// Bytes of a key, as in the artifact.
pub const KEY_BYTES: u64 = 1000;
/// Bytes of a value, as in the artifact.
pub const VALUE_BYTES: u64 = 4096;

/// What db_bench printed of one benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct Printed {
    /// Its operations.
    pub ops: u64,
    /// Its seconds: without the opening of the database.
    pub seconds: f64,
    /// Its bytes.
    pub bytes: u64,
    /// Median in microseconds. The histogram is printed in rounded pieces only.
    pub p50_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
}

/// A run of db_bench on a database. `num` is the number of keys that it takes for granted.
pub(super) fn command(database: &Path, benchmark: &str, num: u64, seed: u64) -> Result<Program, AppError> {
    let mut words = vec![
        format!("--db={}", database.display()),
        format!("--benchmarks={benchmark}"),
        format!("--num={num}"),
        format!("--key_size={KEY_BYTES}"),
        format!("--value_size={VALUE_BYTES}"),
        "--compression_type=none".into(),
        format!("--write_buffer_size={}", 64 << 20),
        format!("--target_file_size_base={}", 32 << 20),
        "--num_levels=6".into(),
        "--mmap_read=0".into(),
        "--histogram=1".into(),
        format!("--seed={}", seed.max(1)),
    ];
    if benchmark != "fillseq" {
        words.push("--use_existing_db=1".into());
    }
    Ok(program("db_bench", "rocksdb-tools")?.args(words))
}

/// Reads what a benchmark printed.
///
/// # Errors
/// A line or a number that is not there.
pub(super) fn parse(benchmark: &str, text: &str) -> Result<Printed, AppError> {
    let missing = |what: &str| AppError::Protocol(format!("db_bench printed no {what} of {benchmark}"));
    let line = text.lines().find(|line| {
        line.split_once(':')
            .is_some_and(|(name, rest)| name.trim() == benchmark && rest.contains("micros/op"))
    });
    let words: Vec<&str> = line.ok_or_else(|| missing("line"))?.split_whitespace().collect();
    let before = |unit: &str| -> Option<f64> {
        let at = words.iter().position(|word| word.trim_end_matches(';') == unit)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    let seconds = before("seconds").ok_or_else(|| missing("seconds"))?;
    let ops = before("operations").ok_or_else(|| missing("operations"))? as u64;
    // without a rate it found nothing, or counts no bytes
    let bytes = before("MB/s")
        .map_or(ops as f64 * (KEY_BYTES + VALUE_BYTES) as f64, |rate| rate * f64::from(1 << 20) * seconds);
    let percentiles = text.lines().find_map(|line| line.trim().strip_prefix("Percentiles:"));
    let percentiles: Vec<&str> = percentiles.unwrap_or_default().split_whitespace().collect();
    let of = |name: &str| -> Option<f64> {
        let at = percentiles.iter().position(|word| *word == name)?;
        percentiles.get(at + 1)?.parse().ok()
    };
    Ok(Printed {
        ops,
        seconds,
        bytes: bytes as u64,
        p50_us: of("P50:").ok_or_else(|| missing("P50"))?,
        p99_us: of("P99:").ok_or_else(|| missing("P99"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
DB path: [/x/db]
readreverse  :       1.250 micros/op 2400000 ops/sec 0.500 seconds 6000 operations;   58.3 MB/s
Microseconds per read:
Count: 6000 Average: 4.9  StdDev: 30.54
Min: 0  Median: 1.1  Max: 1500
Percentiles: P50: 1.10 P75: 2.40 P99: 17.50 P99.9: 900.00 P99.99: 1500.00
------------------------------------------------------
";

    #[test]
    fn its_lines_are_read() {
        let read = parse("readreverse", TEXT).unwrap();
        assert_eq!((read.ops, read.seconds, read.p50_us, read.p99_us), (6000, 0.5, 1.1, 17.5));
        assert_eq!(read.bytes, (58.3 * 1048576.0 * 0.5) as u64);
        let found = TEXT.replace("6000 operations;   58.3 MB/s", "6000 operations; (100 of 6000 found)");
        assert_eq!(parse("readreverse", &found).unwrap().bytes, 6000 * 5096);
        assert!(parse("readseq", TEXT).unwrap_err().to_string().contains("readseq"));
    }
}
