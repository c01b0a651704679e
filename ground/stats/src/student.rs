//! Student's t distribution, for any degrees of freedom above 0, whole or not.

use std::f64::consts::PI;

use crate::normal;

/// From here on the normal distribution differs by less than 1e-7.
const NORMAL_FROM: f64 = 1e7;

/// `P(T > t)` with `df` degrees of freedom: half of `I_x(df/2, 1/2)` at `x = df / (df + t^2)` (Abramowitz & Stegun
/// 26.7.1 and 26.5.27). NaN for a `t` that is not a number.
pub(crate) fn upper_tail(t: f64, df: f64) -> f64 {
    if df >= NORMAL_FROM || t.is_infinite() {
        return normal::cdf(-t.clamp(-1e9, 1e9));
    }
    let tail = 0.5 * incomplete_beta(df / (df + t * t), 0.5 * df, 0.5);
    if t < 0.0 { 1.0 - tail } else { tail }
}

/// The `t` with `P(T <= t) = p`; `p` is clamped to 1e-12 from 0 and 1.
///
/// Newton's iteration from the normal quantile. In the upper tail the distribution function is concave and the normal
/// quantile lies below the wanted `t`, so the iteration climbs and never overshoots.
pub(crate) fn quantile(p: f64, df: f64) -> f64 {
    let p = p.clamp(1e-12, 1.0 - 1e-12);
    if p < 0.5 {
        return -quantile(1.0 - p, df);
    }
    let mut t = normal::quantile(p);
    if df >= NORMAL_FROM {
        return t;
    }
    let log_scale = ln_gamma(0.5 * (df + 1.0)) - ln_gamma(0.5 * df) - 0.5 * (df * PI).ln();
    for _ in 0..200 {
        let density = (log_scale - 0.5 * (df + 1.0) * (t * t / df).ln_1p()).exp();
        let step = (upper_tail(t, df) - (1.0 - p)) / density;
        t += step;
        if step.abs() <= 1e-13 * t.abs().max(1.0) {
            break;
        }
    }
    t
}

/// `ln Gamma(x)` for `x > 0`: Stirling's series (Abramowitz & Stegun 6.1.41), after the recurrence has moved `x`
/// above 10, where four terms give 13 digits.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut moved) = (x, 0.0);
    while x < 10.0 {
        moved += x.ln();
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    let series = (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r * (1.0 / 1680.0 - r / 1188.0)))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series - moved
}

/// The regularised incomplete beta function `I_x(a, b)`: the continued fraction of Abramowitz & Stegun 26.5.8, on the
/// side of its symmetry where it converges quickly.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let log_beta = ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
    let front = (a * x.ln() + b * (-x).ln_1p() - log_beta).exp() / a;
    front / fraction(x, a, b)
}

/// The denominator `1 + d1/(1 + d2/(1 + ...))`, from the left (Lentz's method): ratios of successive numerators and
/// denominators are multiplied until they stop changing the product.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let off_zero = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let (mut value, mut above, mut below) = (1.0f64, 1.0f64, 0.0f64);
    for k in 1..10_000u32 {
        let m = f64::from(k / 2);
        let d = if k % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        below = 1.0 / off_zero(1.0 + d * below);
        above = off_zero(1.0 + d / above);
        let change = above * below;
        value *= change;
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabulated_quantiles() {
        // Abramowitz & Stegun, table 26.10 (two-sided 95 %, 90 %, 99 %).
        for (df, p, t) in [
            (1.0, 0.975, 12.706_204_736),
            (2.0, 0.975, 4.302_652_730),
            (4.0, 0.95, 2.131_846_786),
            (5.0, 0.975, 2.570_581_836),
            (30.0, 0.995, 2.749_995_654),
        ] {
            assert!((quantile(p, df) - t).abs() < 1e-8, "{df} {p}: {}", quantile(p, df));
        }
        assert!((quantile(0.975, 1e9) - 1.959_963_985).abs() < 1e-6);
    }

    #[test]
    fn closed_forms_for_one_and_two_degrees() {
        for t in [-5.0f64, -0.3, 0.0, 0.7, 3.0, 40.0] {
            let cauchy = 0.5 - t.atan() / PI;
            assert!((upper_tail(t, 1.0) - cauchy).abs() < 1e-12, "{t}");
            let two = 0.5 - t / (2.0 * (2.0 + t * t).sqrt());
            assert!((upper_tail(t, 2.0) - two).abs() < 1e-12, "{t}");
        }
    }

    #[test]
    fn quantile_inverts_the_tail_also_between_whole_degrees() {
        for df in [0.7, 1.0, 2.5, 7.3, 55.5, 4_000.0] {
            for i in 1..200 {
                let p = f64::from(i) / 200.0;
                assert!((1.0 - upper_tail(quantile(p, df), df) - p).abs() < 1e-10, "{df} {p}");
            }
        }
    }
}
