//! What is known beside the result and explains part of its noise.
//!
//! `D' = D - beta (x_B - x_A)`; the variance falls to `1 - rho^2` of itself if `beta` is right (Cochran, "Sampling
//! Techniques", 1977, chapter 7; Deng et al., "CUPED", WSDM 2013). A wrong `beta` adds noise, hence the rules here. Only for
//! what the stack itself cannot change, between runs, and never inside blocks, where the pair has already taken it out.

use crate::effect::moments;

/// Squares of the covariate's usual deviation that are added as if seen without effect.
const SHRINK: f64 = 3.0;

/// `ln` of the CPU that others left to the load, all in cores: the first covariate to use, since a load on the CPU follows
/// it one to one. `None` when nothing is left, or a figure is not finite.
///
/// `others` must not hold what works for the load (flushers, loop and FUSE threads, a daemon), or a stack that works in
/// kernel threads gets its own cost forgiven.
pub fn cpu_left(cores: f64, others: f64, steal: f64) -> Option<f64> {
    let left = cores - others.max(0.0) - steal.max(0.0);
    (left.is_finite() && left > 0.0).then(|| left.ln())
}

/// Slope for [`cpu_left`]: the share of the CPU left that the load used, at most 1. Near 0 for a load that waits for
/// its device, which does not care. Both in cores; 0 where nothing is known.
pub fn cpu_slope(used: f64, left: f64) -> f64 {
    let share = used / left;
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

/// Slope of the result on a covariate from past runs `(x, y)`, both logarithms, shrunk towards `supposed` (0 for the
/// yardstick): `beta0 + S_x(y - beta0 x) / (S_xx + 3 sd^2)`, with `sd` the covariate's usual deviation between runs on this
/// machine, over all its workloads. Ridge regression (Hoerl & Kennard, Technometrics 12(1), 1970).
///
/// With few runs it does nearly nothing; least squares with four runs would *add* a third to the error. `supposed` for
/// fewer than two runs or a `sd` that is not above 0.
pub fn slope(past: &[(f64, f64)], supposed: f64, sd: f64) -> f64 {
    if past.len() < 2 || sd.is_nan() || sd <= 0.0 {
        return supposed;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| moments(&past.iter().map(of).collect::<Vec<_>>()).0;
    let (x0, y0) = (mean(|p| p.0), mean(|p| p.1));
    let squares: f64 = past.iter().map(|(x, _)| (x - x0).powi(2)).sum();
    let product: f64 = past.iter().map(|(x, y)| (x - x0) * ((y - y0) - supposed * (x - x0))).sum();
    let found = supposed + product / (squares + SHRINK * sd * sd);
    if found.is_finite() { found } else { supposed }
}

/// The logarithm of a result as it would have been at the covariate's value `usual`.
pub fn adjusted(log_result: f64, covariate: f64, usual: f64, slope: f64) -> f64 {
    log_result - slope * (covariate - usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_left_to_the_load() {
        assert_eq!(cpu_left(2.0, 0.5, 0.5), Some(0.0));
        assert_eq!((cpu_left(2.0, 2.0, 0.1), cpu_left(f64::NAN, 0.0, 0.0)), (None, None));
        assert_eq!(cpu_left(1.0, -0.1, 0.0), Some(0.0), "counters may overlap a little");
        assert_eq!((cpu_slope(0.5, 2.0), cpu_slope(3.0, 2.0), cpu_slope(0.0, 0.0)), (0.25, 1.0, 0.0));
    }

    #[test]
    fn slope_by_hand() {
        // S_xx = 2, S_xy = 4: least squares 2, with 3 added 4/5.
        let past = [(-1.0, -2.0), (0.0, 0.0), (1.0, 2.0)];
        assert!((slope(&past, 0.0, 1.0) - 0.8).abs() < 1e-12);
        assert!((slope(&past, 1.0, 1.0) - 1.4).abs() < 1e-12);
        assert_eq!((slope(&past[..1], 1.0, 1.0), slope(&past, 0.5, 0.0)), (1.0, 0.5));
        assert_eq!(slope(&[(0.0, f64::NAN); 3], 0.5, 1.0), 0.5);
        assert!((adjusted(1.0, 0.3, 0.1, 0.5) - 0.9).abs() < 1e-12);
    }
}
