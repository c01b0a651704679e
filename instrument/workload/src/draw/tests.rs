//! Samplers against theory.

use super::*;
use crate::model::TableRow;

fn draw(distribution: Distribution) -> Draw {
    Draw {
        name: "v".into(),
        seed: 0,
        distribution,
        round: 0,
        rounding: Rounding::Nearest,
        clamp_min: None,
        clamp_max: None,
    }
}

fn sampler(draw: &Draw, seed: u64) -> Sampler {
    let rng = StreamId::of_run(seed, Purpose::Other(9)).rng();
    Sampler::new(draw, rng).unwrap_or_else(|error| panic!("{error}"))
}

fn row(percent: f64, low: f64, high: f64) -> TableRow {
    TableRow { percent, low, high }
}

/// Distributions with their theoretical means and variances.
fn known() -> Vec<(Distribution, f64, f64)> {
    let table = vec![row(25.0, 0.0, 4.0), row(0.0, 1e9, 2e9), row(75.0, 10.0, 10.0)];
    // E = 0.25 * 2 + 0.75 * 10 = 8; E^2 = 0.25 * 16/3 + 0.75 * 100.
    let table_variance = 0.25 * 16.0 / 3.0 + 75.0 - 64.0;
    vec![
        (Distribution::Constant(7.0), 7.0, 0.0),
        (Distribution::Uniform { low: 10.0, high: 20.0 }, 15.0, 100.0 / 12.0),
        (Distribution::Uniform { low: -1.0, high: -1.0 }, -1.0, 0.0),
        (Distribution::Gamma { shift: 5.0, shape: 1.5, scale: 4.0 }, 11.0, 24.0),
        (Distribution::Gamma { shift: 0.0, shape: 0.5, scale: 4.0 }, 2.0, 8.0),
        (Distribution::Gamma { shift: 3.0, shape: 1.5, scale: 0.0 }, 3.0, 0.0),
        (Distribution::Table { rows: table, factor: 2.0, shift: 1.0 }, 17.0, 4.0 * table_variance),
        (Distribution::Normal { mean: -3.0, sigma: 2.0 }, -3.0, 4.0),
        (
            Distribution::LogNormal { log_mean: 1.0, log_sigma: 0.5 },
            1.125f64.exp(),
            (0.25f64.exp() - 1.0) * 2.25f64.exp(),
        ),
        (Distribution::Exponential { mean: 4.0 }, 4.0, 16.0),
        (Distribution::Exponential { mean: 0.0 }, 0.0, 0.0),
        (Distribution::Erlang { shape: 4, mean: 8.0 }, 8.0, 16.0),
        (
            Distribution::Weibull { shape: 2.0, scale: 2.0 },
            std::f64::consts::PI.sqrt(),
            4.0 - std::f64::consts::PI,
        ),
        (Distribution::Triangular { low: 0.0, high: 6.0, mode: 3.0 }, 3.0, 1.5),
        (Distribution::Triangular { low: 0.0, high: 3.0, mode: 0.0 }, 1.0, 0.5),
        (Distribution::Triangular { low: 2.0, high: 2.0, mode: 2.0 }, 2.0, 0.0),
    ]
}

#[test]
fn samples_have_the_theoretical_mean_and_variance() {
    for (distribution, mean, variance) in known() {
        let draw = draw(distribution);
        let count = 200_000;
        let mut sampler = sampler(&draw, 1);
        let values: Vec<f64> = (0..count).map(|_| sampler.next_f64()).collect();
        let sampled_mean = values.iter().sum::<f64>() / f64::from(count);
        let squares: f64 = values.iter().map(|value| (value - sampled_mean).powi(2)).sum();
        let sampled_variance = squares / f64::from(count);
        // Six standard errors of the mean; the variance to 5 %, which heavy tails keep too.
        let tolerance = 6.0 * (variance / f64::from(count)).sqrt() + 1e-9;
        assert!(
            (sampled_mean - mean).abs() < tolerance,
            "{:?}: {sampled_mean}, not {mean}",
            draw.distribution
        );
        let off = (sampled_variance - variance).abs();
        assert!(off <= 0.05 * variance + 1e-9, "{:?}: {sampled_variance}, not {variance}", draw.distribution);
        assert!(
            (draw.mean() - mean).abs() < 1e-9 * (1.0 + mean.abs()),
            "{:?}: {}",
            draw.distribution,
            draw.mean()
        );
    }
}

/// Share of the samples below a point, against the distribution function.
#[test]
fn samples_follow_the_distribution_functions() {
    let half_normal = 0.841_344_746;
    for (distribution, point, share) in [
        (Distribution::Uniform { low: 0.0, high: 10.0 }, 3.0, 0.3),
        (Distribution::Exponential { mean: 2.0 }, 2.0, 1.0 - (-1.0f64).exp()),
        (Distribution::Weibull { shape: 0.5, scale: 3.0 }, 12.0, 1.0 - (-2.0f64).exp()),
        (Distribution::Normal { mean: 1.0, sigma: 3.0 }, 4.0, half_normal),
        (Distribution::LogNormal { log_mean: 2.0, log_sigma: 3.0 }, 5.0f64.exp(), half_normal),
        (Distribution::Triangular { low: 0.0, high: 4.0, mode: 1.0 }, 1.0, 0.25),
        (Distribution::Erlang { shape: 2, mean: 2.0 }, 2.0, 1.0 - 3.0 * (-2.0f64).exp()),
        (Distribution::Gamma { shift: 1.0, shape: 1.0, scale: 2.0 }, 3.0, 1.0 - (-1.0f64).exp()),
    ] {
        let mut sampler = sampler(&draw(distribution.clone()), 2);
        let below = (0..100_000).filter(|_| sampler.next_f64() < point).count() as f64 / 1e5;
        assert!((below - share).abs() < 0.01, "{distribution:?}: {below}, not {share}");
    }
}

#[test]
fn the_upper_end_of_uniform_is_excluded() {
    // One representable number between the ends: half of the draws would round up to the excluded end.
    let low = 1e17;
    let high = f64::next_up(low);
    let mut sampler = sampler(&draw(Distribution::Uniform { low, high }), 0);
    assert!((0..1000).all(|_| sampler.next_f64() == low));
}

#[test]
fn values_are_rounded_then_clamped() {
    let rounded = |value: f64, round, rounding, clamp_min, clamp_max| {
        let constant = draw(Distribution::Constant(value));
        sampler(&Draw { round, rounding, clamp_min, clamp_max, ..constant }, 0).next_f64()
    };
    use Rounding::{Nearest, TruncatedNearest};
    for (value, round, rounding, expected) in [
        (1024.0, 4096, Nearest, 0.0),
        (2048.0, 4096, Nearest, 4096.0),
        (2048.0, 4096, TruncatedNearest, 0.0),
        (2049.0, 4096, TruncatedNearest, 4096.0),
        (2048.9, 4096, TruncatedNearest, 0.0),
        (10.4, 1, Nearest, 10.0),
        (10.9, 1, TruncatedNearest, 10.0),
        (3.7, 0, Nearest, 3.7),
    ] {
        assert_eq!(rounded(value, round, rounding, None, None), expected, "{value} to {round}");
    }
    assert_eq!(rounded(100.0, 4096, Nearest, Some(512.0), None), 512.0);
    assert_eq!(rounded(1e9, 4096, Nearest, None, Some(1000.0)), 1000.0);
}

#[test]
fn integers_are_truncated_and_saturate() {
    let integer = |value| sampler(&draw(Distribution::Constant(value)), 0).next_u64();
    assert_eq!([integer(3.99), integer(-0.5), integer(-7.0), integer(1e300)], [3, 0, 0, u64::MAX]);
}

#[test]
fn impossible_parameters_are_errors() {
    let nan = f64::NAN;
    for (distribution, message) in [
        (Distribution::Constant(nan), "value is NaN, but has to be a finite number"),
        (Distribution::Uniform { low: 2.0, high: 1.0 }, "the lower end 2 is above the upper end 1"),
        (Distribution::Uniform { low: nan, high: 1.0 }, "lower end is NaN, but has to be a finite number"),
        (
            Distribution::Uniform { low: -f64::MAX, high: f64::MAX },
            "span is inf, but has to be a finite number",
        ),
        (
            Distribution::Gamma { shift: 0.0, shape: 0.0, scale: 1.0 },
            "shape is 0, but has to be greater than 0",
        ),
        (Distribution::Gamma { shift: 0.0, shape: 1.0, scale: -1.0 }, "scale is -1, but has to be 0 or more"),
        (Distribution::Normal { mean: 0.0, sigma: -1.0 }, "sigma is -1, but has to be 0 or more"),
        (
            Distribution::LogNormal { log_mean: nan, log_sigma: 1.0 },
            "log_mean is NaN, but has to be a finite number",
        ),
        (Distribution::Exponential { mean: -2.0 }, "mean is -2, but has to be 0 or more"),
        (Distribution::Erlang { shape: 0, mean: 1.0 }, "shape is 0, but has to be greater than 0"),
        (Distribution::Weibull { shape: -1.0, scale: 1.0 }, "shape is -1, but has to be greater than 0"),
        (Distribution::Weibull { shape: 1.0, scale: 0.0 }, "scale is 0, but has to be greater than 0"),
        (
            Distribution::Triangular { low: 0.0, high: 1.0, mode: 2.0 },
            "the mode 2 is not between the ends 0 and 1",
        ),
        (
            Distribution::Table { rows: vec![], factor: 1.0, shift: 0.0 },
            "the table has no rows; give at least one, such as {100, 0, 4096}",
        ),
        (
            Distribution::Table {
                rows: vec![row(60.0, 0.0, 1.0), row(50.0, 0.0, 1.0)],
                factor: 1.0,
                shift: 0.0,
            },
            "the percents of the table add up to 110, but have to make 100",
        ),
        (
            Distribution::Table {
                rows: vec![row(-1.0, 0.0, 1.0), row(101.0, 0.0, 1.0)],
                factor: 1.0,
                shift: 0.0,
            },
            "percent is -1, but has to be 0 or more",
        ),
    ] {
        let draw = draw(distribution);
        let error = draw.check().map_err(|error| error.to_string());
        assert_eq!(error, Err(format!("random variable v: {message}")));
        let rng = StreamId::of_run(0, Purpose::Other(0)).rng();
        assert!(Sampler::new(&draw, rng).is_err());
    }
    let constant = draw(Distribution::Constant(1.0));
    let clamped = |clamp_min, clamp_max| Draw { clamp_min, clamp_max, ..constant.clone() }.check();
    assert!(clamped(Some(2.0), Some(1.0)).is_err());
    assert!(clamped(Some(nan), None).is_err());
    assert!(clamped(Some(f64::NEG_INFINITY), Some(f64::INFINITY)).is_ok());
    let anonymous = Draw { name: String::new(), ..draw(Distribution::Constant(nan)) };
    let text = anonymous.check().map_err(|error| error.to_string());
    assert_eq!(text, Err("random variable (anonymous): value is NaN, but has to be a finite number".into()));
}

#[test]
fn threads_and_variables_have_their_own_values() {
    let variable = draw(Distribution::Uniform { low: 0.0, high: 1e15 });
    let seeded = Draw { seed: 1, ..variable.clone() };
    let variables = [variable.clone(), variable, seeded];
    let values = |seed, process, thread| {
        let mut draws =
            Draws::new(&variables, seed, process, thread).unwrap_or_else(|error| panic!("{error}"));
        [0, 1, 2].map(|index| draws.eval(Value::Draw(index)))
    };
    let mut all = Vec::new();
    for (seed, process, thread) in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1)] {
        assert_eq!(values(seed, process, thread), values(seed, process, thread));
        all.extend(values(seed, process, thread));
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn fixed_values_and_unknown_variables_evaluate() {
    let mut draws = Draws::new(&[], 0, 0, 0).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(draws.eval(Value::Int(u64::MAX)), u64::MAX);
    assert_eq!(draws.eval(Value::Draw(0)), 0);
    assert_eq!(draws.eval_f64(Value::Int(2)), 2.0);
}
