//! Parameters of random variables to distributions: means, tables, scaling.

use crate::diagnostic::Span;
use workload::{Distribution, Draw, Rounding, TableRow};

/// Parameters of a `randvar`, in the language's units.
#[derive(Debug, Clone, Default)]
pub(super) struct Randvar {
    pub(super) name: String,
    pub(super) kind: Option<Shape>,
    pub(super) seed: Option<u64>,
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
    pub(super) mean: Option<u64>,
    /// Shape x 1000.
    pub(super) gamma: Option<u64>,
    pub(super) round: u64,
    pub(super) table: Vec<TableRow>,
    pub(super) span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Uniform,
    Gamma,
    Tabular,
}

impl Randvar {
    pub(super) fn shape(&self) -> Shape {
        self.kind.unwrap_or(if self.table.is_empty() { Shape::Gamma } else { Shape::Tabular })
    }

    /// Distribution and upper and lower clamp, or what is wrong.
    fn distribution(&self) -> Result<(Distribution, Option<f64>, Option<f64>), String> {
        let min = self.min.unwrap_or(0) as f64;
        let max = self.max.map(|max| max as f64);
        match self.shape() {
            Shape::Uniform => {
                let high = match (self.mean, max) {
                    (Some(mean), _) => 2.0 * mean as f64 - min,
                    (None, Some(max)) => max,
                    (None, None) => return Err("a uniform random variable needs `mean` (or `max`)".into()),
                };
                if high < min {
                    return Err(format!("the mean must not be below `min`, which is {min}"));
                }
                let clamp = if self.mean.is_some() { max } else { None };
                Ok((uniform(min, high), None, clamp))
            }
            Shape::Gamma => {
                let shape = self.gamma.unwrap_or(1500) as f64 / 1000.0;
                let mean = self.mean.map_or(shape, |mean| mean as f64);
                if shape <= 0.0 {
                    return Err("`gamma` (the shape x 1000) must be at least 1".into());
                }
                if mean < min {
                    return Err(format!("the mean must not be below `min`, which is {min}"));
                }
                Ok((gamma(min, shape, (mean - min) / shape), None, max))
            }
            Shape::Tabular => self.tabular(min).map(|(distribution, low)| (distribution, low, max)),
        }
    }

    /// A table keeps its own values; only a given `mean` re-scales it: `(x - low)(mean - min)/(own mean -
    /// low) + min`.
    fn tabular(&self, min: f64) -> Result<(Distribution, Option<f64>), String> {
        if self.table.is_empty() {
            return Err("a tabular random variable needs `randtable`".into());
        }
        let total: f64 = self.table.iter().map(|row| row.percent).sum();
        let rows: Vec<TableRow> = self
            .table
            .iter()
            .filter(|row| row.percent > 0.0)
            .map(|row| TableRow { percent: row.percent * 100.0 / total, ..*row })
            .collect();
        let Some(mean) = self.mean.map(|mean| mean as f64) else {
            return Ok((Distribution::Table { rows, factor: 1.0, shift: 0.0 }, self.min.map(|_| min)));
        };
        let own_mean: f64 = rows.iter().map(|row| row.percent / 100.0 * (row.low + row.high) / 2.0).sum();
        let low = rows.iter().map(|row| row.low).fold(f64::INFINITY, f64::min);
        if mean < min {
            return Err(format!("the mean must not be below `min`, which is {min}"));
        }
        if own_mean <= low {
            return Ok((Distribution::Constant(mean), None));
        }
        let factor = (mean - min) / (own_mean - low);
        Ok((Distribution::Table { rows, factor, shift: min - low * factor }, None))
    }
}

fn uniform(low: f64, high: f64) -> Distribution {
    if high > low { Distribution::Uniform { low, high } } else { Distribution::Constant(low) }
}

fn gamma(shift: f64, shape: f64, scale: f64) -> Distribution {
    if scale > 0.0 { Distribution::Gamma { shift, shape, scale } } else { Distribution::Constant(shift) }
}

/// FNV-1a of a name: variables without a seed get different streams, the same in every run.
pub(super) fn name_seed(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The distribution of `by` times the values.
pub(super) fn scaled(distribution: &Distribution, by: f64) -> Distribution {
    match distribution {
        Distribution::Constant(value) => Distribution::Constant(value * by),
        Distribution::Uniform { low, high } => Distribution::Uniform { low: low * by, high: high * by },
        Distribution::Gamma { shift, shape, scale } => {
            Distribution::Gamma { shift: shift * by, shape: *shape, scale: scale * by }
        }
        Distribution::Table { rows, factor, shift } => {
            Distribution::Table { rows: rows.clone(), factor: factor * by, shift: shift * by }
        }
        Distribution::Normal { mean, sigma } => Distribution::Normal { mean: mean * by, sigma: sigma * by },
        Distribution::LogNormal { log_mean, log_sigma } => {
            Distribution::LogNormal { log_mean: log_mean + by.ln(), log_sigma: *log_sigma }
        }
        Distribution::Exponential { mean } => Distribution::Exponential { mean: mean * by },
        Distribution::Erlang { shape, mean } => Distribution::Erlang { shape: *shape, mean: mean * by },
        Distribution::Weibull { shape, scale } => Distribution::Weibull { shape: *shape, scale: scale * by },
        Distribution::Triangular { low, high, mode } => {
            Distribution::Triangular { low: low * by, high: high * by, mode: mode * by }
        }
    }
}

impl Randvar {
    /// The random variable in its final form, or what is wrong with its parameters.
    pub(super) fn draw(&self) -> Result<Draw, String> {
        let (distribution, clamp_min, clamp_max) = self.distribution()?;
        let draw = self.as_draw(distribution, clamp_min, clamp_max);
        draw.check().map_err(|error| error.reason.to_string())?;
        Ok(draw)
    }

    fn as_draw(&self, distribution: Distribution, clamp_min: Option<f64>, clamp_max: Option<f64>) -> Draw {
        Draw {
            name: self.name.clone(),
            seed: self.seed.unwrap_or_else(|| name_seed(&self.name)),
            distribution,
            round: self.round,
            rounding: Rounding::Nearest,
            clamp_min,
            clamp_max,
        }
    }

    /// Sets one of the numeric parameters.
    pub(super) fn set(&mut self, name: &str, value: u64) {
        match name {
            "seed" => self.seed = Some(value),
            "min" => self.min = Some(value),
            "max" => self.max = Some(value),
            "mean" => self.mean = Some(value),
            "gamma" => self.gamma = Some(value),
            "round" => self.round = value,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(percent: f64, low: f64, high: f64) -> TableRow {
        TableRow { percent, low, high }
    }

    fn mean(distribution: &Distribution) -> f64 {
        Randvar::default().as_draw(distribution.clone(), None, None).mean()
    }

    #[test]
    fn scaling_scales_the_mean_of_every_distribution() {
        let all = [
            Distribution::Constant(3.0),
            Distribution::Uniform { low: 1.0, high: 5.0 },
            Distribution::Gamma { shift: 1.0, shape: 1.5, scale: 2.0 },
            Distribution::Table {
                rows: vec![row(40.0, 0.0, 2.0), row(60.0, 4.0, 8.0)],
                factor: 2.0,
                shift: 1.0,
            },
            Distribution::Normal { mean: 4.0, sigma: 1.0 },
            Distribution::LogNormal { log_mean: 1.0, log_sigma: 0.5 },
            Distribution::Exponential { mean: 2.0 },
            Distribution::Erlang { shape: 3, mean: 6.0 },
            Distribution::Weibull { shape: 1.5, scale: 2.0 },
            Distribution::Triangular { low: 0.0, high: 6.0, mode: 3.0 },
        ];
        for distribution in all {
            let (before, after) = (mean(&distribution), mean(&scaled(&distribution, 5.0)));
            assert!((after / before - 5.0).abs() < 1e-9, "{distribution:?}: {before} to {after}");
        }
    }

    #[test]
    fn a_table_is_only_rescaled_when_a_mean_is_given() {
        let table = vec![row(50.0, 10.0, 20.0), row(50.0, 20.0, 30.0)];
        let mut random = Randvar { table, min: Some(12), ..Randvar::default() };
        let (distribution, clamp, _) = random.distribution().unwrap();
        assert_eq!(mean(&distribution), 20.0);
        assert_eq!(clamp, Some(12.0));
        random.mean = Some(42);
        let (distribution, clamp, _) = random.distribution().unwrap();
        let Distribution::Table { factor, shift, .. } = &distribution else { panic!("{distribution:?}") };
        assert_eq!(clamp, None);
        assert!((mean(&distribution) - 42.0).abs() < 1e-9);
        // The smallest value becomes `min`.
        assert!((10.0 * factor + shift - 12.0).abs() < 1e-9);
    }

    #[test]
    fn percents_are_brought_to_a_hundred_and_empty_rows_left_out() {
        let table = vec![row(0.0, 1.0, 2.0), row(30.0, 2.0, 3.0), row(30.0, 3.0, 4.0)];
        let random = Randvar { table, ..Randvar::default() };
        let (Distribution::Table { rows, .. }, ..) = random.distribution().unwrap() else { panic!() };
        assert_eq!(rows, [row(50.0, 2.0, 3.0), row(50.0, 3.0, 4.0)]);
    }
}
