//! Which parameters of a random variable are impossible.

use thiserror::Error;

use crate::model::{Distribution, Draw, TableRow};

/// A random variable that cannot be drawn from.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("random variable {}: {reason}", if .name.is_empty() { "(anonymous)" } else { .name.as_str() })]
pub struct DrawError {
    /// The variable's name without `$`; empty for an anonymous one.
    pub name: String,
    /// What is wrong.
    pub reason: InvalidDistribution,
}

/// What is wrong with a random variable.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum InvalidDistribution {
    #[error("{what} is {value}, but has to be a finite number")]
    NotFinite { what: &'static str, value: f64 },
    #[error("{what} is {value}, but has to be greater than 0")]
    NotPositive { what: &'static str, value: f64 },
    #[error("{what} is {value}, but has to be 0 or more")]
    Negative { what: &'static str, value: f64 },
    #[error("the lower end {low} is above the upper end {high}")]
    LowAboveHigh { low: f64, high: f64 },
    #[error("the mode {mode} is not between the ends {low} and {high}")]
    ModeOutside { low: f64, high: f64, mode: f64 },
    #[error("the table has no rows; give at least one, such as {{100, 0, 4096}}")]
    EmptyTable,
    #[error("the percents of the table add up to {sum}, but have to make 100")]
    PercentSum { sum: f64 },
}

/// The percents may miss 100 by this much, because they may have been computed.
const PERCENT_TOLERANCE: f64 = 1e-6;

impl Draw {
    /// Whether values can be drawn: shapes positive, ends in order, percents adding up to 100, no NaN.
    pub fn check(&self) -> Result<(), DrawError> {
        self.distribution
            .check()
            .and_then(|()| self.check_clamps())
            .map_err(|reason| DrawError { name: self.name.clone(), reason })
    }

    fn check_clamps(&self) -> Result<(), InvalidDistribution> {
        let low = self.clamp_min.unwrap_or(f64::NEG_INFINITY);
        let high = self.clamp_max.unwrap_or(f64::INFINITY);
        // Infinite clamps are no clamps; only NaN is impossible.
        if low.is_nan() || high.is_nan() {
            return Err(InvalidDistribution::NotFinite { what: "clamp", value: f64::NAN });
        }
        if low > high { Err(InvalidDistribution::LowAboveHigh { low, high }) } else { Ok(()) }
    }
}

impl Distribution {
    fn check(&self) -> Result<(), InvalidDistribution> {
        match *self {
            Distribution::Constant(value) => finite("value", value),
            Distribution::Uniform { low, high } => ends(low, high),
            Distribution::Gamma { shift, shape, scale } => {
                finite("shift", shift)?;
                positive("shape", shape)?;
                not_negative("scale", scale)
            }
            Distribution::Table { ref rows, factor, shift } => {
                finite("factor", factor)?;
                finite("shift", shift)?;
                check_rows(rows)
            }
            Distribution::Normal { mean, sigma } => {
                finite("mean", mean)?;
                not_negative("sigma", sigma)
            }
            Distribution::LogNormal { log_mean, log_sigma } => {
                finite("log_mean", log_mean)?;
                not_negative("log_sigma", log_sigma)
            }
            Distribution::Exponential { mean } => not_negative("mean", mean),
            Distribution::Erlang { shape, mean } => {
                positive("shape", shape as f64)?;
                not_negative("mean", mean)
            }
            Distribution::Weibull { shape, scale } => {
                positive("shape", shape)?;
                positive("scale", scale)
            }
            Distribution::Triangular { low, high, mode } => {
                ends(low, high)?;
                finite("mode", mode)?;
                let inside = (low..=high).contains(&mode);
                if inside { Ok(()) } else { Err(InvalidDistribution::ModeOutside { low, high, mode }) }
            }
        }
    }
}

fn check_rows(rows: &[TableRow]) -> Result<(), InvalidDistribution> {
    if rows.is_empty() {
        return Err(InvalidDistribution::EmptyTable);
    }
    for row in rows {
        not_negative("percent", row.percent)?;
        ends(row.low, row.high)?;
    }
    let sum: f64 = rows.iter().map(|row| row.percent).sum();
    if (sum - 100.0).abs() <= PERCENT_TOLERANCE {
        Ok(())
    } else {
        Err(InvalidDistribution::PercentSum { sum })
    }
}

fn finite(what: &'static str, value: f64) -> Result<(), InvalidDistribution> {
    if value.is_finite() { Ok(()) } else { Err(InvalidDistribution::NotFinite { what, value }) }
}

fn positive(what: &'static str, value: f64) -> Result<(), InvalidDistribution> {
    finite(what, value)?;
    if value > 0.0 { Ok(()) } else { Err(InvalidDistribution::NotPositive { what, value }) }
}

fn not_negative(what: &'static str, value: f64) -> Result<(), InvalidDistribution> {
    finite(what, value)?;
    if value >= 0.0 { Ok(()) } else { Err(InvalidDistribution::Negative { what, value }) }
}

fn ends(low: f64, high: f64) -> Result<(), InvalidDistribution> {
    finite("lower end", low)?;
    finite("upper end", high)?;
    if low > high {
        return Err(InvalidDistribution::LowAboveHigh { low, high });
    }
    finite("span", high - low)
}
