//! The standard normal distribution.

use std::f64::consts::PI;

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

/// `P(Z <= x)`.
///
/// Taylor series near the middle (Marsaglia, "Evaluating the Normal Distribution", J. Statistical
/// Software 11(4), 2004), Laplace's continued fraction in the tails (Abramowitz & Stegun 26.2.14).
pub(crate) fn cdf(x: f64) -> f64 {
    if x.abs() > 4.0 {
        let t = x.abs();
        let tail = density(x) / (1..=60).rev().fold(t, |rest, k| t + f64::from(k) / rest);
        return if x > 0.0 { 1.0 - tail } else { tail };
    }
    let (mut term, mut sum, mut k) = (x, x, 1.0);
    while term.abs() > 1e-18 {
        k += 2.0;
        term *= x * x / k;
        sum += term;
    }
    0.5 + sum * density(x)
}

/// The `x` with `P(Z <= x) = p`, by bisection; `p` is clamped to what +-12 standard deviations span.
pub(crate) fn quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-12.0f64, 12.0f64);
    for _ in 0..64 {
        let middle = low.midpoint(high);
        if cdf(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.midpoint(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabulated_values() {
        // Abramowitz & Stegun, table 26.1 and 26.2.
        for (x, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (1.96, 0.975_002_104_851_780),
            (-2.0, 0.022_750_131_948_179),
            (-5.0, 2.866_515_719e-7),
        ] {
            assert!((cdf(x) - p).abs() < 1e-13_f64.max(p * 1e-9), "{x}: {}", cdf(x));
        }
        assert!((quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-12);
        assert!((cdf(4.0 + 1e-12) - cdf(4.0)).abs() < 1e-12, "series and fraction meet");
    }

    #[test]
    fn quantile_inverts_cdf() {
        for i in 1..1000 {
            let p = f64::from(i) / 1000.0;
            assert!((cdf(quantile(p)) - p).abs() < 1e-12, "{p}");
        }
    }
}
