//! Many fsyncs: quantiles and means of the parts.

use serde::{Deserialize, Serialize};

use super::breakdown::{Breakdown, LevelBreakdown};
use super::interval::Part;

/// The distribution of one time over all fsyncs, those in which it is 0 included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Arithmetic mean: the only figure whose parts sum up to the total's.
    pub mean_ns: f64,
    /// Median, by nearest rank as all quantiles here.
    pub p50_ns: u64,
    /// 90 %.
    pub p90_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Times {
    fn of(values: impl Iterator<Item = u64>) -> Self {
        let mut sorted: Vec<u64> = values.collect();
        sorted.sort_unstable();
        let Some(max_ns) = sorted.last().copied() else { return Times::default() };
        let sum: u128 = sorted.iter().map(|value| u128::from(*value)).sum();
        let rank = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1];
        let mean_ns = sum as f64 / sorted.len() as f64;
        Times { mean_ns, p50_ns: rank(50), p90_ns: rank(90), p99_ns: rank(99), max_ns }
    }
}

/// One level over all fsyncs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelSummary {
    /// Its name, e.g. `ext4 on loop3`.
    pub name: String,
    /// The time it explains: the call at the top, the device time of the level above below it.
    pub whole: Times,
    /// Each part.
    pub parts: Vec<(Part, Times)>,
    /// Writes per fsync.
    pub writes_mean: f64,
    /// Bytes written per fsync.
    pub written_bytes_mean: f64,
    /// Flushes per fsync.
    pub flushes_mean: f64,
    /// Syncs of the backing file per fsync.
    pub syncs_mean: f64,
}

/// All fsyncs of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many.
    pub fsyncs: u64,
    /// Level by level.
    pub levels: Vec<LevelSummary>,
}

impl Summary {
    /// Sums up; without fsyncs there are no levels.
    pub fn of(fsyncs: &[Breakdown]) -> Self {
        let depth = fsyncs.iter().map(|fsync| fsync.levels.len()).max().unwrap_or(0);
        Summary { fsyncs: fsyncs.len() as u64, levels: (0..depth).map(|at| level(fsyncs, at)).collect() }
    }
}

fn level(fsyncs: &[Breakdown], depth: usize) -> LevelSummary {
    let levels: Vec<&LevelBreakdown> = fsyncs.iter().filter_map(|fsync| fsync.levels.get(depth)).collect();
    let mean = |value: fn(&LevelBreakdown) -> u64| {
        levels.iter().map(|level| value(level) as f64).sum::<f64>() / levels.len().max(1) as f64
    };
    let part = |part: Part| (part, Times::of(levels.iter().map(|level| level.parts.get(part))));
    LevelSummary {
        name: levels.first().map(|level| level.name.clone()).unwrap_or_default(),
        whole: Times::of(levels.iter().map(|level| level.windows_ns)),
        parts: Part::ALL.into_iter().map(part).collect(),
        writes_mean: mean(|level| level.writes),
        written_bytes_mean: mean(|level| level.written_bytes),
        flushes_mean: mean(|level| level.flushes),
        syncs_mean: mean(|level| level.syncs),
    }
}

/// The fsync to show when one stands for all: the one with the median total.
pub fn typical(fsyncs: &[Breakdown]) -> Option<&Breakdown> {
    let mut sorted: Vec<&Breakdown> = fsyncs.iter().collect();
    sorted.sort_by_key(|fsync| fsync.total_ns);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_by_nearest_rank() {
        let times = Times::of((1..=200).rev());
        assert_eq!((times.p50_ns, times.p90_ns, times.p99_ns, times.max_ns), (100, 180, 198, 200));
        assert!((times.mean_ns - 100.5).abs() < 1e-9);
        let one = Times::of(std::iter::once(7));
        assert_eq!((one.p50_ns, one.p99_ns), (7, 7));
        assert_eq!(Times::of(std::iter::empty()), Times::default());
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(Summary::of(&[]), Summary { fsyncs: 0, levels: Vec::new() });
        assert!(typical(&[]).is_none());
    }
}
