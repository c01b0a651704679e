//! Random variables at work: a [`Sampler`] is a [`Draw`] compiled for the hot path and bound to a stream.

mod check;
mod mean;
#[cfg(test)]
mod tests;

pub use check::{DrawError, InvalidDistribution};

use rand::distr::Distribution as _;
use rand_distr::{Exp1, Gamma, StandardNormal};

use crate::model::{Distribution, Draw, Rounding, Value};
use crate::rng::{Purpose, Rng, StreamId};

/// Draws the values of one random variable.
#[derive(Debug, Clone)]
pub struct Sampler {
    rng: Rng,
    shape: Shape,
    post: Option<Post>,
}

/// A distribution with everything computed that can be computed once.
#[derive(Debug, Clone)]
enum Shape {
    Uniform { low: f64, span: f64, last: f64 },
    Constant(f64),
    Gamma { shift: f64, gamma: Gamma<f64> },
    Table(Box<Table>),
    Normal { mean: f64, sigma: f64 },
    LogNormal { mean: f64, sigma: f64 },
    Exponential { mean: f64 },
    Weibull { inverse_shape: f64, scale: f64 },
    Triangular { low: f64, high: f64, mode: f64 },
}

#[derive(Debug, Clone)]
struct Table {
    /// (upper end of the cumulated percents, low, span); rows of 0 % are left out.
    rows: Vec<(f64, f64, f64)>,
    factor: f64,
    shift: f64,
}

/// Rounding and clamping.
#[derive(Debug, Clone, Copy)]
struct Post {
    round: f64,
    rounding: Rounding,
    min: f64,
    max: f64,
}

impl Sampler {
    /// A sampler on the given stream; an error if [`Draw::check`] finds one.
    pub fn new(draw: &Draw, rng: Rng) -> Result<Self, DrawError> {
        draw.check()?;
        let impossible = |reason| DrawError { name: draw.name.clone(), reason };
        let shape = Shape::new(&draw.distribution).map_err(impossible)?;
        let plain = draw.round == 0 && draw.clamp_min.is_none() && draw.clamp_max.is_none();
        let post = (!plain).then(|| Post {
            round: draw.round as f64,
            rounding: draw.rounding,
            min: draw.clamp_min.unwrap_or(f64::NEG_INFINITY),
            max: draw.clamp_max.unwrap_or(f64::INFINITY),
        });
        Ok(Sampler { rng, shape, post })
    }

    /// The next value, rounded and clamped.
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        let raw = match self.shape {
            Shape::Uniform { low, span, last } => (low + span * self.rng.unit()).min(last),
            _ => self.shape.draw(&mut self.rng),
        };
        match self.post {
            None => raw,
            Some(post) => post.apply(raw),
        }
    }

    /// The next value truncated towards 0; negative ones give 0, too large ones `u64::MAX`.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.next_f64() as u64
    }
}

impl Shape {
    fn new(distribution: &Distribution) -> Result<Self, InvalidDistribution> {
        Ok(match *distribution {
            Distribution::Constant(value) => Shape::Constant(value),
            Distribution::Uniform { low, high } if low == high => Shape::Constant(low),
            Distribution::Uniform { low, high } => {
                Shape::Uniform { low, span: high - low, last: high.next_down() }
            }
            Distribution::Gamma { shift, shape, scale } => Shape::gamma(shift, shape, scale)?,
            Distribution::Table { ref rows, factor, shift } => {
                let mut below = 0.0;
                let rows = rows.iter().filter(|row| row.percent > 0.0).map(|row| {
                    below += row.percent;
                    (below, row.low, row.high - row.low)
                });
                Shape::Table(Box::new(Table { rows: rows.collect(), factor, shift }))
            }
            Distribution::Normal { mean, sigma } => Shape::Normal { mean, sigma },
            Distribution::LogNormal { log_mean, log_sigma } => {
                Shape::LogNormal { mean: log_mean, sigma: log_sigma }
            }
            Distribution::Exponential { mean } => Shape::Exponential { mean },
            Distribution::Erlang { shape, mean } => Shape::gamma(0.0, shape as f64, mean / shape as f64)?,
            Distribution::Weibull { shape, scale } => Shape::Weibull { inverse_shape: 1.0 / shape, scale },
            Distribution::Triangular { low, high, mode } => Shape::Triangular { low, high, mode },
        })
    }

    /// A scale of 0 (a mean equal to the shift) is the constant `shift`, as in Filebench.
    fn gamma(shift: f64, shape: f64, scale: f64) -> Result<Self, InvalidDistribution> {
        if scale == 0.0 {
            return Ok(Shape::Constant(shift));
        }
        let gamma = Gamma::new(shape, scale)
            .map_err(|_| InvalidDistribution::NotPositive { what: "shape", value: shape })?;
        Ok(Shape::Gamma { shift, gamma })
    }

    fn draw(&self, rng: &mut Rng) -> f64 {
        match *self {
            Shape::Uniform { low, span, last } => (low + span * rng.unit()).min(last),
            Shape::Constant(value) => value,
            Shape::Gamma { shift, gamma } => shift + gamma.sample(rng),
            Shape::Table(ref table) => table.draw(rng),
            Shape::Normal { mean, sigma } => mean + sigma * normal(rng),
            Shape::LogNormal { mean, sigma } => (mean + sigma * normal(rng)).exp(),
            Shape::Exponential { mean } => mean * exponential(rng),
            Shape::Weibull { inverse_shape, scale } => scale * exponential(rng).powf(inverse_shape),
            Shape::Triangular { low, high, mode } => triangular(low, high, mode, rng.unit()),
        }
    }
}

fn normal(rng: &mut Rng) -> f64 {
    StandardNormal.sample(rng)
}

fn exponential(rng: &mut Rng) -> f64 {
    Exp1.sample(rng)
}

/// Inverse of the distribution function at `unit`.
fn triangular(low: f64, high: f64, mode: f64, unit: f64) -> f64 {
    let span = high - low;
    if span == 0.0 {
        return low;
    }
    if unit * span < mode - low {
        low + (unit * span * (mode - low)).sqrt()
    } else {
        high - ((1.0 - unit) * span * (high - mode)).sqrt()
    }
}

impl Table {
    fn draw(&self, rng: &mut Rng) -> f64 {
        let point = rng.unit() * 100.0;
        let row = self.rows.iter().find(|row| point < row.0).or(self.rows.last());
        let value = row.map_or(0.0, |&(_, low, span)| low + span * rng.unit());
        value * self.factor + self.shift
    }
}

impl Post {
    fn apply(self, raw: f64) -> f64 {
        let rounded = if self.round == 0.0 {
            raw
        } else {
            match self.rounding {
                Rounding::Nearest => (raw / self.round + 0.5).floor() * self.round,
                Rounding::TruncatedNearest => (raw.trunc() / self.round - 0.5).ceil() * self.round,
            }
        };
        rounded.max(self.min).min(self.max)
    }
}

/// All random variables of a workload, bound to the streams of one thread.
#[derive(Debug, Clone)]
pub struct Draws {
    samplers: Vec<Sampler>,
}

impl Draws {
    /// A sampler for each variable; the streams depend on all four arguments, and on each variable's own seed.
    ///
    /// `process` and `thread` count instances, see [`StreamId`].
    pub fn new(draws: &[Draw], seed: u64, process: u32, thread: u32) -> Result<Self, DrawError> {
        let bind = |(index, draw): (usize, &Draw)| {
            let purpose = Purpose::Draw { index: index as u32, seed: draw.seed };
            Sampler::new(draw, StreamId { seed, process, thread, purpose }.rng())
        };
        Ok(Draws { samplers: draws.iter().enumerate().map(bind).collect::<Result<_, _>>()? })
    }

    /// The fixed value, or the next one of its variable. A variable that does not exist counts as 0; whoever
    /// builds a workload sees to it that there is none.
    #[inline]
    pub fn eval(&mut self, value: Value) -> u64 {
        match value {
            Value::Int(fixed) => fixed,
            Value::Draw(index) => self.samplers.get_mut(index).map_or(0, Sampler::next_u64),
        }
    }

    /// As [`Draws::eval`], without truncation.
    #[inline]
    pub fn eval_f64(&mut self, value: Value) -> f64 {
        match value {
            Value::Int(fixed) => fixed as f64,
            Value::Draw(index) => self.samplers.get_mut(index).map_or(0.0, Sampler::next_f64),
        }
    }
}
