//! `randvar(...)` and `cvar(...)`: from their attributes to distributions in final units.

use super::fields::Fields;
use super::{Lower, Scope};
use crate::ast::{Attribute, Expr, Spanned};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::{Failed, shorten};
use crate::{suggest, tables};
use workload::{Distribution, Draw, Rounding, TableRow};

/// A random variable as the script describes it; `set $v.mean=...` of old may still change it.
#[derive(Debug, Clone)]
pub(super) enum Random {
    Randvar(Randvar),
    Cvar(Draw),
}

/// Parameters of a `randvar`, in the language's units.
#[derive(Debug, Clone, Default)]
pub(super) struct Randvar {
    pub(super) name: String,
    kind: Option<Shape>,
    seed: Option<u64>,
    min: Option<u64>,
    max: Option<u64>,
    mean: Option<u64>,
    /// Shape x 1000.
    gamma: Option<u64>,
    round: u64,
    table: Vec<TableRow>,
    span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Uniform,
    Gamma,
    Tabular,
}

impl Random {
    /// As `echo` prints it.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Random::Cvar(_) => "custom variable",
            Random::Randvar(random) => match random.shape() {
                Shape::Uniform => "uniform random var",
                Shape::Gamma => "gamma random var",
                Shape::Tabular => "tabular random var",
            },
        }
    }
}

impl Randvar {
    fn shape(&self) -> Shape {
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

    /// A table keeps its own values; only a given `mean` re-scales it: `(x - low)(mean - min)/(own mean - low) + min`.
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
fn name_seed(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Mean of a distribution.
pub(super) fn mean(distribution: &Distribution) -> f64 {
    match distribution {
        Distribution::Constant(value) => *value,
        Distribution::Uniform { low, high } => (low + high) / 2.0,
        Distribution::Gamma { shift, shape, scale } => shift + shape * scale,
        Distribution::Table { rows, factor, shift } => {
            let own: f64 = rows.iter().map(|row| row.percent / 100.0 * (row.low + row.high) / 2.0).sum();
            own * factor + shift
        }
        Distribution::Normal { mean, .. }
        | Distribution::Exponential { mean }
        | Distribution::Erlang { mean, .. } => *mean,
        Distribution::LogNormal { log_mean, log_sigma } => (log_mean + log_sigma * log_sigma / 2.0).exp(),
        Distribution::Weibull { shape, scale } => scale * gamma_function(1.0 + 1.0 / shape),
        Distribution::Triangular { low, high, mode } => (low + high + mode) / 3.0,
    }
}

/// Gamma function for x >= 1 (Lanczos, g = 7, n = 9; Numerical Recipes section 6.1 has the method).
fn gamma_function(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let series = COEFFICIENTS
        .iter()
        .enumerate()
        .fold(0.999_999_999_999_809_9, |sum, (i, c)| sum + c / (x + i as f64 + 1.0));
    let t = x + 7.5;
    (2.0 * std::f64::consts::PI).sqrt() * t.powf(x + 0.5) * (-t).exp() * series
}

/// The distribution of `factor` times the values.
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

impl Lower<'_> {
    /// A new `randvar`.
    pub(super) fn randvar(
        &mut self,
        attributes: &[Attribute],
        span: Span,
        scope: &Scope,
    ) -> Result<usize, Failed> {
        let fields = self.fields(attributes, tables::RANDVAR, "randvar");
        let mut random = Randvar { span, ..Randvar::default() };
        for name in ["seed", "min", "max", "mean", "gamma", "round"] {
            if let Some(value) = self.fixed_if_given(&fields, name, scope)? {
                random.set(name, value);
            }
        }
        if let Some(kind) = self.text(&fields, "type", scope)? {
            random.kind = Some(self.shape(&kind)?);
        }
        if let Some(table) = fields.get("randtable") {
            random.table = self.table_rows(table, scope)?;
            if random.kind.is_some_and(|kind| kind != Shape::Tabular) {
                let message = "`randtable` makes the type tabular";
                self.report(Diagnostic::warning(table.span(), message));
            }
            random.kind = Some(Shape::Tabular);
        }
        if let Err(problem) = random.distribution() {
            return self.fail(Diagnostic::error(span, problem));
        }
        self.randoms.push(Random::Randvar(random));
        Ok(self.randoms.len() - 1)
    }

    fn shape(&mut self, kind: &Spanned<String>) -> Result<Shape, Failed> {
        match kind.node.as_str() {
            "uniform" => Ok(Shape::Uniform),
            "gamma" => Ok(Shape::Gamma),
            "tabular" => Ok(Shape::Tabular),
            other => {
                let message = format!("there is no type `{}` of randvar", shorten(other));
                self.fail(
                    Diagnostic::error(kind.span, message)
                        .label("unknown type")
                        .help("types are uniform, gamma and tabular; cvar(...) has more"),
                )
            }
        }
    }

    fn table_rows(&mut self, attribute: &Attribute, scope: &Scope) -> Result<Vec<TableRow>, Failed> {
        let span = attribute.span();
        let Some(Spanned { node: Expr::Table(rows), .. }) = &attribute.value else {
            return self.fail(
                Diagnostic::error(span, "`randtable` needs a table")
                    .help("as in randtable={{80, 1k, 4k}, {20, 4k, 64k}}"),
            );
        };
        let mut result = Vec::with_capacity(rows.len());
        for row in rows {
            let mut numbers = [0.0; 3];
            for (number, cell) in numbers.iter_mut().zip(row) {
                let value = self.eval(cell, scope)?;
                let value = self.freeze(value, cell.span, "randtable");
                *number = self.unsigned(value, cell.span, "randtable")? as f64;
            }
            let [percent, low, high] = numbers;
            if high < low {
                let place = row[1].span.to(row[2].span);
                return self.fail(Diagnostic::error(place, "the segment ends before it begins"));
            }
            result.push(TableRow { percent, low, high });
        }
        let total: f64 = result.iter().map(|row| row.percent).sum();
        if total <= 0.0 {
            return self.fail(Diagnostic::error(span, "the percents add up to 0, they must add up to 100"));
        }
        if total != 100.0 {
            let message = format!("the percents add up to {total}, not 100");
            self.report(Diagnostic::warning(span, message).label("scaled to 100"));
        }
        Ok(result)
    }

    /// A new `cvar`.
    pub(super) fn cvar(
        &mut self,
        attributes: &[Attribute],
        span: Span,
        scope: &Scope,
    ) -> Result<usize, Failed> {
        let fields = self.fields(attributes, tables::CVAR, "cvar");
        let kind = self.required(&fields, "type", "this cvar", span, scope)?;
        let parameters = self.text(&fields, "parameters", scope)?;
        let distribution = super::cvar::distribution(self, &kind, parameters.as_ref())?;
        let clamp = |value: Option<u64>| value.map(|value| value as f64);
        let draw = Draw {
            name: String::new(),
            seed: self.fixed_if_given(&fields, "seed", scope)?.unwrap_or_else(|| self.next_seed()),
            distribution,
            round: self.fixed(&fields, "round", 0, scope)?,
            rounding: Rounding::TruncatedNearest,
            clamp_min: clamp(self.fixed_if_given(&fields, "min", scope)?).or(Some(f64::MIN_POSITIVE)),
            clamp_max: clamp(self.fixed_if_given(&fields, "max", scope)?),
        };
        if let (Some(low), Some(high)) = (draw.clamp_min, draw.clamp_max)
            && high < low
        {
            let place = fields.span("max", span);
            return self.fail(Diagnostic::error(place, "`max` is below `min`"));
        }
        self.randoms.push(Random::Cvar(draw));
        Ok(self.randoms.len() - 1)
    }

    /// A seed for a variable without a name and a seed.
    fn next_seed(&self) -> u64 {
        name_seed(&format!("#{}", self.randoms.len()))
    }

    /// A variable got its name: it is shown with it, and its stream depends on it.
    pub(super) fn name_random(&mut self, index: usize, name: &str) {
        let unnamed_seed = name_seed(&format!("#{index}"));
        match &mut self.randoms[index] {
            Random::Randvar(random) if random.name.is_empty() => random.name = name.to_owned(),
            Random::Cvar(draw) if draw.name.is_empty() => {
                draw.name = name.to_owned();
                if draw.seed == unnamed_seed {
                    draw.seed = name_seed(name);
                }
            }
            _ => {}
        }
    }

    /// `set $variable.field = value` of dialects before 1.5.
    pub(super) fn set_field(
        &mut self,
        index: usize,
        field: &Spanned<String>,
        value: &Spanned<Expr>,
    ) -> Result<(), Failed> {
        if !tables::FIELDS.contains(&field.node.as_str()) {
            let message = format!("random variables have no field `{}`", shorten(&field.node));
            let help = format!("fields are {}", suggest::list(tables::FIELDS.iter().copied()));
            return self.fail(Diagnostic::error(field.span, message).help(help));
        }
        let Random::Randvar(_) = self.randoms[index] else {
            return self.fail(Diagnostic::error(field.span, "only a randvar has fields that can be set"));
        };
        match field.node.as_str() {
            "randsrc" => return Ok(()),
            "type" => {
                let word = self.eval(value, &Scope::default())?;
                let word = Spanned { node: self.display(&word), span: value.span };
                let shape = self.shape(&word)?;
                if let Random::Randvar(random) = &mut self.randoms[index] {
                    random.kind = Some(shape);
                }
            }
            name => {
                let number = self.fixed_value(value, name)?;
                if let Random::Randvar(random) = &mut self.randoms[index] {
                    random.set(name, number);
                }
            }
        }
        Ok(())
    }

    /// The mean, as a number that stands for the variable where one is needed before the run.
    pub(super) fn random_mean(&self, index: usize) -> u64 {
        let (mean, round) = match &self.randoms[index] {
            Random::Cvar(draw) => {
                let mean = mean(&draw.distribution).max(draw.clamp_min.unwrap_or(0.0));
                (mean.min(draw.clamp_max.unwrap_or(f64::MAX)), draw.round)
            }
            Random::Randvar(random) => (random.distribution().map_or(0.0, |(d, ..)| mean(&d)), random.round),
        };
        let mean = mean as u64;
        match mean.checked_rem(round) {
            None => mean,
            Some(rest) if rest >= round - rest => (mean - rest).saturating_add(round),
            Some(rest) => mean - rest,
        }
    }

    /// All random variables in their final form.
    pub(super) fn draws(&mut self) -> Vec<Draw> {
        let randoms = std::mem::take(&mut self.randoms);
        let mut draws = Vec::with_capacity(randoms.len());
        for (index, random) in randoms.into_iter().enumerate() {
            match random {
                Random::Cvar(draw) => draws.push(draw),
                Random::Randvar(random) => {
                    let (distribution, clamp_min, clamp_max) = match random.distribution() {
                        Ok(found) => found,
                        Err(problem) => {
                            self.report(Diagnostic::error(random.span, problem));
                            continue;
                        }
                    };
                    let seed = random.seed.unwrap_or_else(|| match random.name.as_str() {
                        "" => name_seed(&format!("#{index}")),
                        name => name_seed(name),
                    });
                    draws.push(Draw {
                        name: random.name,
                        seed,
                        distribution,
                        round: random.round,
                        rounding: Rounding::Nearest,
                        clamp_min,
                        clamp_max,
                    });
                }
            }
        }
        draws
    }

    /// A random variable `factor` times another, for `indexed`.
    pub(super) fn scaled_random(&mut self, index: usize, by: f64) -> Option<usize> {
        let draw = match &self.randoms[index] {
            Random::Cvar(draw) => draw.clone(),
            Random::Randvar(random) => Draw {
                name: random.name.clone(),
                seed: random.seed.unwrap_or_else(|| name_seed(&random.name)),
                distribution: random.distribution().ok()?.0,
                round: 0,
                rounding: Rounding::Nearest,
                clamp_min: None,
                clamp_max: None,
            },
        };
        let distribution = scaled(&draw.distribution, by);
        self.randoms.push(Random::Cvar(Draw {
            distribution,
            round: 0,
            clamp_min: draw.clamp_min.map(|low| low * by),
            clamp_max: draw.clamp_max.map(|high| high * by),
            ..draw
        }));
        Some(self.randoms.len() - 1)
    }

    /// Mean before rounding.
    pub(super) fn raw_mean(&self, index: usize) -> f64 {
        match &self.randoms[index] {
            Random::Cvar(draw) => mean(&draw.distribution),
            Random::Randvar(random) => random.distribution().map_or(0.0, |(d, ..)| mean(&d)),
        }
    }

    /// Is this variable a `randvar` (and not a `cvar`)?
    pub(super) fn is_randvar(&self, index: usize) -> bool {
        matches!(self.randoms[index], Random::Randvar(_))
    }

    /// A gamma variable that stands for `size` with `filesizegamma` of dialects before 1.5.
    pub(super) fn gamma_size(&mut self, mean: u64, gamma: u64, span: Span) -> usize {
        self.randoms.push(Random::Randvar(Randvar {
            kind: Some(Shape::Gamma),
            mean: Some(mean),
            gamma: Some(gamma),
            span,
            ..Randvar::default()
        }));
        self.randoms.len() - 1
    }
}

impl Randvar {
    fn set(&mut self, name: &str, value: u64) {
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

/// Does an entity of old carry its random variable's name as `name=$v`?
pub(super) fn named_variable(fields: &Fields<'_>) -> Option<Spanned<String>> {
    match &fields.get("name")?.value {
        Some(Spanned { node: Expr::Variable(name) | Expr::Word(name), span }) => {
            Some(Spanned { node: name.clone(), span: *span })
        }
        _ => None,
    }
}
