//! IO500's score: the geometric means of bandwidths and of rates, and the geometric mean of both.

use stats::{Metric, Outcome};

use crate::span::PhaseTotals;

/// Phases whose GiB/s count.
const BANDWIDTH: [&str; 4] = ["ior-easy-write", "ior-hard-write", "ior-easy-read", "ior-hard-read"];
/// Phases whose kIOPS count.
const METADATA: [&str; 8] = [
    "mdtest-easy-write",
    "mdtest-hard-write",
    "find",
    "mdtest-easy-stat",
    "mdtest-hard-stat",
    "mdtest-easy-delete",
    "mdtest-hard-read",
    "mdtest-hard-delete",
];
const MIB_IN_GIB: f64 = 1024.0;
const OPS_IN_KIOPS: f64 = 1000.0;

/// The geometric mean; `None` when a value is missing or not positive.
fn mean(values: &[Option<f64>]) -> Option<f64> {
    let mut sum = 0.0;
    for value in values {
        sum += value.filter(|value| *value > 0.0)?.ln();
    }
    Some((sum / values.len() as f64).exp())
}

/// Bandwidth in GiB/s and rate in kIOPS of all phases that count. IO500 leaves a phase without a rate out of the mean, which
/// lifts the score; here there is none then.
fn scores(bandwidth: &[Option<f64>], metadata: &[Option<f64>]) -> Option<(f64, f64, f64)> {
    let (bandwidth, metadata) = (mean(bandwidth)?, mean(metadata)?);
    Some((bandwidth, metadata, (bandwidth * metadata).sqrt()))
}

/// Adds each phase's value and the score.
pub(super) fn put(joint: &[PhaseTotals], outcome: &mut Outcome) {
    let of = |name: &&str| joint.iter().find(|one| one.phase == **name);
    let bandwidth = BANDWIDTH.each_ref().map(|name| Some(of(name)?.mib_per_second()? / MIB_IN_GIB));
    // as mdtest's result for IO500: items of all over the time of all
    let metadata =
        METADATA.each_ref().map(|name| of(name).map(|one| one.ops as f64 / one.seconds / OPS_IN_KIOPS));
    let mut put = |name: String, unit: &str, value: f64| {
        outcome.metrics.push(Metric::rate(name, unit, value));
    };
    for (names, unit, values) in
        [(&BANDWIDTH[..], "GiB/s", &bandwidth[..]), (&METADATA[..], "kIOPS", &metadata[..])]
    {
        for (name, value) in names.iter().zip(values) {
            if let Some(value) = value {
                put(format!("io500/{name}"), unit, *value);
            }
        }
    }
    match scores(&bandwidth, &metadata) {
        Some((bandwidth, metadata, score)) => {
            put("io500/bandwidth".into(), "GiB/s", bandwidth);
            put("io500/metadata".into(), "kIOPS", metadata);
            put("io500/score".into(), "1", score);
        }
        None => outcome.notes.push("no score: a phase that counts has no rate".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bandwidths and their mean as a run of the benchmark itself printed them.
    #[test]
    fn the_means_are_those_of_io500() {
        let bandwidth = [0.767_747, 0.440_269, 1.525_461, 1.803_469].map(Some);
        let (mean, metadata, score) = scores(&bandwidth, &[Some(108.37)]).unwrap();
        assert!((mean - 0.982).abs() < 0.001, "{mean}");
        assert!((metadata - 108.37).abs() < 1e-9);
        assert!((score - 10.316).abs() < 0.005, "{score}");
    }

    #[test]
    fn a_phase_without_a_rate_leaves_no_score() {
        assert_eq!(scores(&[Some(1.0), None], &[Some(1.0)]), None);
        assert_eq!(scores(&[Some(1.0)], &[Some(0.0)]), None);
    }
}
