//! The histogram against a sorted vector, and its encodings there and back.

use proptest::collection::vec;
use proptest::prelude::*;
use stats::Histogram;
use stats::histogram::HdrError;

/// Values of every magnitude, with the extremes and powers of two more often than chance has them.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (any::<u64>(), 0u32..64).prop_map(|(v, shift)| v >> shift),
        2 => 0u64..300,
        2 => (0u32..64, -1i64..=1).prop_map(|(bit, off)| (1u64 << bit).wrapping_add_signed(off)),
        1 => Just(u64::MAX),
    ]
}

fn within_one_percent(reported: u64, truth: u64) -> bool {
    u128::from(reported.abs_diff(truth)) * 100 <= u128::from(truth)
}

/// The smallest value that at least a share `q` of the sorted values does not exceed, the slow way.
fn reference_quantile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (percent * sorted.len()).div_ceil(100).max(1);
    sorted[rank - 1]
}

proptest! {
    #[test]
    fn summary_and_quantiles_match_a_sorted_vector(mut values in vec(value(), 1..400)) {
        let histogram: Histogram = values.iter().copied().collect();
        values.sort_unstable();
        let sum: u128 = values.iter().copied().map(u128::from).sum();
        prop_assert_eq!(histogram.count(), values.len() as u64);
        prop_assert_eq!(histogram.sum(), sum);
        prop_assert_eq!(histogram.min(), values.first().copied());
        prop_assert_eq!(histogram.max(), values.last().copied());
        for percent in 0..=100 {
            let truth = reference_quantile(&values, percent);
            let got = histogram.quantile(percent as f64 / 100.0).unwrap();
            prop_assert!(within_one_percent(got, truth), "p{percent}: {got} for {truth}");
        }
        prop_assert_eq!(histogram.quantile(-1.0), values.first().copied());
        prop_assert_eq!(histogram.quantile(7.0), values.last().copied());
        prop_assert_eq!(histogram.quantile(f64::NAN), None);
    }

    #[test]
    fn stddev_is_close(values in vec(1_000u64..1_000_000, 2..200)) {
        let histogram: Histogram = values.iter().copied().collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<u64>() as f64 / n;
        let truth = (values.iter().map(|v| (*v as f64 - mean).powi(2)).sum::<f64>() / n).sqrt();
        // Each value moves by at most 1 % of itself, hence the deviation by at most that in quadratic mean.
        let moved = 0.01 * (values.iter().map(|v| (*v as f64).powi(2)).sum::<f64>() / n).sqrt();
        prop_assert!((histogram.stddev().unwrap() - truth).abs() <= moved);
    }

    #[test]
    fn merge_equals_recording_everything(a in vec(value(), 0..200), b in vec(value(), 0..200)) {
        let mut merged: Histogram = a.iter().copied().collect();
        merged.merge(&b.iter().copied().collect());
        let all: Histogram = a.iter().chain(&b).copied().collect();
        prop_assert_eq!(merged, all);
    }

    #[test]
    fn record_n_equals_n_records(pairs in vec((value(), 0u64..20), 0..50)) {
        let mut by_n = Histogram::new();
        let mut one_by_one = Histogram::new();
        for &(v, n) in &pairs {
            by_n.record_n(v, n);
            (0..n).for_each(|_| one_by_one.record(v));
        }
        prop_assert_eq!(by_n, one_by_one);
    }

    #[test]
    fn cleared_is_as_good_as_new(before in vec(value(), 0..100), after in vec(value(), 0..100)) {
        let mut histogram: Histogram = before.into_iter().collect();
        histogram.clear();
        prop_assert_eq!(&histogram, &Histogram::new());
        histogram.extend(after.iter().copied());
        prop_assert_eq!(histogram, after.into_iter().collect::<Histogram>());
    }

    #[test]
    fn power_of_two_counts_are_exact(values in vec(value(), 0..300)) {
        let mut truth = [0u64; 64];
        for &v in &values {
            let bucket = (0..63).find(|i| u128::from(v) < 1u128 << i).unwrap_or(63);
            truth[bucket] += 1;
        }
        prop_assert_eq!(values.into_iter().collect::<Histogram>().power_of_two_counts(), truth);
    }

    #[test]
    fn cdf_points_are_exact_ascending_and_few(values in vec(value(), 1..300), limit in 1usize..80) {
        let histogram: Histogram = values.iter().copied().collect();
        let points = histogram.cdf_points(limit);
        prop_assert!(points.len() <= limit && !points.is_empty());
        prop_assert!(points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
        prop_assert_eq!(points.last().copied(), Some((histogram.max().unwrap(), 1.0)));
        for (v, share) in points {
            let below = values.iter().filter(|x| **x <= v).count();
            prop_assert_eq!(share, below as f64 / values.len() as f64);
        }
    }

    #[test]
    fn stored_form_is_lossless(values in vec(value(), 0..300)) {
        let histogram: Histogram = values.into_iter().collect();
        let text = serde_json::to_string(&histogram).unwrap();
        prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
    }

    #[test]
    fn hdr_keeps_every_bucket_and_three_digits(values in vec(value(), 0..300)) {
        let values: Vec<u64> = values.into_iter().map(|v| v >> 1).collect();
        let histogram: Histogram = values.iter().copied().collect();
        let back = Histogram::from_hdr_v2_base64(&histogram.to_hdr_v2_base64().unwrap()).unwrap();
        prop_assert!(back.iter().eq(histogram.iter()));
        for (a, b) in [(back.min(), histogram.min()), (back.max(), histogram.max())] {
            let (a, b) = (a.unwrap_or(0), b.unwrap_or(0));
            prop_assert!(a.abs_diff(b) <= b / 1000, "{a} for {b}");
        }
    }

    #[test]
    fn foreign_text_is_refused_without_a_panic(text in "[A-Za-z0-9+/]{0,80}") {
        let _ = Histogram::from_hdr_v2_base64(&text);
        let _ = serde_json::from_str::<Histogram>(&text);
    }
}

#[test]
fn an_empty_histogram_has_no_values() {
    let empty = Histogram::default();
    assert!(empty.is_empty());
    assert_eq!((empty.min(), empty.max(), empty.mean(), empty.stddev()), (None, None, None, None));
    assert_eq!(empty.quantile(0.5), None);
    assert_eq!(empty.iter().count(), 0);
    assert!(empty.cdf_points(10).is_empty());
    assert_eq!(empty.power_of_two_counts(), [0; 64]);
    assert_eq!(Histogram::from_hdr_v2_base64(&empty.to_hdr_v2_base64().unwrap()).unwrap(), empty);
    assert!(size_of::<Histogram>() < 1024);
}

#[test]
fn the_stored_form_is_stable() {
    let histogram: Histogram = [0, 5, 5, 127, 128, 1_000_000].into_iter().collect();
    let text = serde_json::to_string(&histogram).unwrap();
    assert_eq!(
        text,
        r#"{"min":0,"max":1000000,"sum":1000265,"buckets":[[0,1],[5,2],[127,1],[128,1],[954,1]]}"#
    );
    let large: Histogram = [u64::MAX, u64::MAX].into_iter().collect();
    assert!(serde_json::to_string(&large).unwrap().contains(r#""sum_carry":1"#));
}

#[test]
fn broken_stored_forms_are_refused() {
    for (text, why) in [
        (r#"{"min":1,"max":1,"sum":1,"buckets":[[60000,1]]}"#, "does not exist"),
        (r#"{"min":1,"max":2,"sum":3,"buckets":[[2,1],[1,1]]}"#, "out of order"),
        (r#"{"min":1,"max":1,"sum":2,"buckets":[[1,1],[1,1]]}"#, "out of order"),
        (r#"{"min":1,"max":1,"sum":0,"buckets":[[1,0]]}"#, "count of 0"),
        (r#"{"min":0,"max":1,"sum":1,"buckets":[[0,18446744073709551615],[1,1]]}"#, "more than"),
        (r#"{"min":3,"max":1,"sum":1,"buckets":[[1,1]]}"#, "outside the outermost"),
        (r#"{"min":9,"max":9,"sum":0,"buckets":[]}"#, "outside the outermost"),
        (r#"{"min":1,"max":1,"sum":7,"buckets":[[1,1]]}"#, "sum 7 is impossible"),
    ] {
        let error = serde_json::from_str::<Histogram>(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn counts_saturate() {
    let mut histogram = Histogram::new();
    histogram.record_n(7, u64::MAX);
    histogram.record(7);
    histogram.merge(&histogram.clone());
    assert_eq!((histogram.count(), histogram.quantile(0.5)), (u64::MAX, Some(7)));
}

#[test]
fn hdr_of_others_is_read_and_rubbish_is_named() {
    // Recorded by the reference implementation's algorithm: one value of 1 and two of 1,000.
    let mut hdr = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3).unwrap();
    hdr.record(1).unwrap();
    hdr.record_n(1_000, 2).unwrap();
    for compressed in [false, true] {
        use base64::Engine as _;
        use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
        let mut bytes = Vec::new();
        if compressed {
            V2DeflateSerializer::new().serialize(&hdr, &mut bytes).unwrap();
        } else {
            V2Serializer::new().serialize(&hdr, &mut bytes).unwrap();
        }
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        let read = Histogram::from_hdr_v2_base64(&text).unwrap();
        assert_eq!((read.count(), read.min(), read.max(), read.sum()), (3, Some(1), Some(1_000), 2_001));
    }
    assert!(matches!(Histogram::from_hdr_v2_base64("%%%"), Err(HdrError::Base64(_))));
    assert!(matches!(Histogram::from_hdr_v2_base64("AAAA"), Err(HdrError::Decode(_))));
}
