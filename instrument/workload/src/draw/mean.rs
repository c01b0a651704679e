//! Theoretical means.

use std::f64::consts::TAU;

use crate::draw::Sampler;
use crate::model::{Distribution, Draw};
use crate::rng::{Purpose, StreamId};

/// Values from which [`Draw::mean_count`] learns what rounding does: without clamps its mean is then off by less than 0.01.
const VALUES: u32 = 1 << 14;

impl Draw {
    /// The mean of the distribution, clamped as the values are; the (small) effects of rounding, and of clamping
    /// on the two tails, are left out, as in Filebench. May be infinite for extreme parameters; NaN only if
    /// [`Draw::check`] fails.
    pub fn mean(&self) -> f64 {
        let raw = match self.distribution {
            Distribution::Constant(value) => value,
            Distribution::Uniform { low, high } => low + (high - low) / 2.0,
            Distribution::Gamma { shift, shape, scale } => shift + shape * scale,
            Distribution::Table { ref rows, factor, shift } => {
                let share =
                    |row: &crate::model::TableRow| row.percent / 100.0 * (row.low / 2.0 + row.high / 2.0);
                rows.iter().map(share).sum::<f64>() * factor + shift
            }
            Distribution::Normal { mean, .. } => mean,
            Distribution::LogNormal { log_mean, log_sigma } => (log_mean + log_sigma * log_sigma / 2.0).exp(),
            Distribution::Exponential { mean } | Distribution::Erlang { mean, .. } => mean,
            Distribution::Weibull { shape, scale } => scale * ln_gamma(1.0 + 1.0 / shape).exp(),
            Distribution::Triangular { low, high, mode } => low / 3.0 + high / 3.0 + mode / 3.0,
        };
        let floored = self.clamp_min.map_or(raw, |min| raw.max(min));
        self.clamp_max.map_or(floored, |max| floored.min(max))
    }

    /// The mean of the whole numbers that counts are drawn as ([`crate::Draws::eval`]). Unlike [`Draw::mean`] it holds the
    /// effects of truncation, rounding and clamping, which are a large part of a small count. 0 if [`Draw::check`] fails.
    pub fn mean_count(&self) -> f64 {
        let raw = Draw { round: 0, clamp_min: None, clamp_max: None, ..self.clone() };
        let rng = StreamId::of_run(0, Purpose::Draw { index: 0, seed: 0 }).rng();
        let (Ok(mut raws), Ok(mut counts)) = (Sampler::new(&raw, rng.clone()), Sampler::new(self, rng))
        else {
            return 0.0;
        };
        // the same values on both sides: what differs is small and needs few of them, also where the tail is long
        let (mut values, mut changes) = (0.0, 0.0);
        for _ in 0..VALUES {
            let (raw, count) = (raws.next_f64(), counts.next_u64() as f64);
            values += count;
            changes += count - raw;
        }
        let mean = raw.mean() + changes / f64::from(VALUES);
        if mean.is_finite() { mean.max(0.0) } else { values / f64::from(VALUES) }
    }
}

/// Logarithm of the gamma function for `x > 0`, to about 12 digits: Stirling's series (Abramowitz and Stegun
/// 6.1.41) above 10, the recurrence (6.1.15) below.
fn ln_gamma(mut x: f64) -> f64 {
    // Far below 0 the recurrence would not get anywhere.
    if x.is_nan() || x <= 0.0 {
        return f64::NAN;
    }
    if x.is_infinite() {
        return x;
    }
    let mut product = 1.0;
    while x < 10.0 {
        product *= x;
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    (x - 0.5) * x.ln() - x + TAU.ln() / 2.0 + series - f64::ln(product)
}

#[cfg(test)]
mod tests {
    use super::ln_gamma;
    use crate::model::{Distribution, Draw, Rounding};

    #[test]
    fn the_mean_of_an_impossible_variable_is_nan_and_no_endless_loop() {
        assert!(ln_gamma(-1e300).is_nan());
        assert!(ln_gamma(0.0).is_nan());
        assert!(ln_gamma(f64::NAN).is_nan());
    }

    /// 1 to 19 is 10 in the mean, and 9.5 once it is truncated to a whole number.
    #[test]
    fn counts_are_whole_numbers() {
        let uniform = Draw {
            name: "v".into(),
            seed: 0,
            distribution: Distribution::Uniform { low: 1.0, high: 19.0 },
            round: 0,
            rounding: Rounding::Nearest,
            clamp_min: None,
            clamp_max: None,
        };
        let near = |draw: &Draw, mean: f64| {
            let found = draw.mean_count();
            assert!((found - mean).abs() < 0.02, "{draw:?}: {found}, not {mean}");
        };
        near(&uniform, 9.5);
        near(&Draw { round: 1, ..uniform.clone() }, 10.0);
        let clamped = Draw { clamp_min: Some(19.0), ..uniform.clone() }.mean_count();
        assert!((clamped - 19.0).abs() < 0.2, "{clamped}");
        // exponential values of mean 1 truncated: 1 / (e - 1); negative ones are no repetitions
        near(&Draw { distribution: Distribution::Exponential { mean: 1.0 }, ..uniform.clone() }, 0.582);
        near(&Draw { distribution: Distribution::Uniform { low: -9.0, high: -1.0 }, ..uniform }, 0.0);
    }

    #[test]
    fn ln_gamma_gives_factorials_and_the_root_of_pi() {
        let mut factorial: f64 = 1.0;
        for n in 1..30 {
            assert!((ln_gamma(f64::from(n)) - factorial.ln()).abs() < 1e-11, "{n}");
            factorial *= f64::from(n);
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-11);
    }
}
