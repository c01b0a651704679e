//! p-values of many cells: which survive, and claims about all, any or most of them. [`crate::family`] judges with them.
//!
//! | question | rule |
//! |---|---|
//! | which of these cells differ | Benjamini-Hochberg on `p_value`; which are the same: on `p_same`, a family of its own |
//! | is every cell so (all the same, none below 30 %) | intersection-union: each at its own level, no adjustment |
//! | is at least one so (any worse, any below 30 %) | Holm, whose first step is Bonferroni |
//! | are at least `u` of `m` so (most at 85 %) | partial conjunction |

/// p-values adjusted for being many (one per cell of a report), in the given order: calling significant what is at most
/// `alpha` afterwards keeps the expected share of false ones among them below `alpha`, also where all cells share a baseline
/// (positive dependence).
///
/// Benjamini & Hochberg, "Controlling the False Discovery Rate", J. Royal Statistical Society B 57(1), 1995; Benjamini &
/// Yekutieli, "The Control of the False Discovery Rate in Multiple Testing under Dependency", Annals of Statistics
/// 29(4), 2001.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_unstable_by(|x, y| p_values[*y].total_cmp(&p_values[*x]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 1.0f64;
    for (from_top, &i) in order.iter().enumerate() {
        let rank = p_values.len() - from_top;
        least = least.min(p_values[i] * p_values.len() as f64 / rank as f64);
        adjusted[i] = least;
    }
    adjusted
}

/// p-values adjusted so that the chance of *any* false one is below `alpha`, whatever their dependence. Holm, "A Simple
/// Sequentially Rejective Multiple Test Procedure", Scandinavian J. of Statistics 6(2), 1979.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_unstable_by(|x, y| p_values[*x].total_cmp(&p_values[*y]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut most = 0.0f64;
    for (before, &i) in order.iter().enumerate() {
        most = most.max((p_values[i] * (p_values.len() - before) as f64).min(1.0));
        adjusted[i] = most;
    }
    adjusted
}

/// p-value of the claim "it holds for all": the largest, without adjustment. 1 for none. Berger, "Multiparameter Hypothesis
/// Testing and Acceptance Sampling", Technometrics 24(4), 1982.
pub fn intersection_union(p_values: &[f64]) -> f64 {
    p_values.iter().copied().reduce(f64::max).unwrap_or(1.0)
}

/// p-value of the claim "it holds for at least `u` of them": `(m - u + 1) p_(u)`, ascending. `u` = 1 is Bonferroni, `u` =
/// m the largest. Valid for any dependence. 0 for `u` = 0, 1 where there are fewer than `u`. Benjamini & Heller,
/// "Screening for Partial Conjunction Hypotheses", Biometrics 64(4), 2008.
pub fn partial_conjunction(p_values: &[f64], u: usize) -> f64 {
    let mut sorted = p_values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match u {
        0 => 0.0,
        _ if u > sorted.len() => 1.0,
        _ => (sorted[u - 1] * (sorted.len() - u + 1) as f64).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: &[f64], b: &[f64]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-12)
    }

    #[test]
    fn published_example_of_benjamini_and_hochberg() {
        // Their 15 p-values: four are significant at 5 %.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0,
        ];
        assert_eq!(benjamini_hochberg(&p).iter().filter(|p| **p <= 0.05).count(), 4);
        assert_eq!(holm(&p).iter().filter(|p| **p <= 0.05).count(), 3);
    }

    #[test]
    fn rules_by_hand() {
        let p = [0.01, 0.04, 0.03];
        assert!(close(&holm(&p), &[0.03, 0.06, 0.06]));
        assert!(close(&benjamini_hochberg(&p), &[0.03, 0.04, 0.04]));
        assert_eq!(intersection_union(&p), 0.04);
        let at_least: Vec<f64> = (0..5).map(|u| partial_conjunction(&p, u)).collect();
        assert!(close(&at_least, &[0.0, 0.03, 0.06, 0.04, 1.0]));
        assert_eq!((intersection_union(&[]), holm(&[]).len()), (1.0, 0));
    }
}
