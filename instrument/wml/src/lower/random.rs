//! `randvar(...)` and `cvar(...)`: from their attributes to distributions in final units.

use super::distribution::{Randvar, Shape, name_seed, scaled};
use super::fields::Fields;
use super::state::{Lowering, Random, Scope};
use crate::ast::{Attribute, Expr, Spanned};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::{Failed, shorten};
use crate::{suggest, tables};
use workload::{Draw, Rounding, TableRow};

/// Rows of one `randtable`.
const MAX_ROWS: usize = 1000;

/// Random variables of one script.
const MAX_RANDOMS: usize = 4096;

impl Lowering<'_> {
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
        // Variables that never get a name differ by their number.
        random.name = format!("#{}", self.randoms.len());
        if let Err(problem) = random.draw() {
            return self.fail(Diagnostic::error(span, problem));
        }
        self.new_random(Random::Randvar(random), span)
    }

    fn new_random(&mut self, random: Random, span: Span) -> Result<usize, Failed> {
        if self.randoms.len() >= MAX_RANDOMS {
            let message = format!("more than {MAX_RANDOMS} random variables");
            return self.fail(Diagnostic::error(span, message));
        }
        self.randoms.push(random);
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
        if rows.len() > MAX_ROWS {
            return self.fail(Diagnostic::error(span, format!("a table has {MAX_ROWS} rows at most")));
        }
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
            name: format!("#{}", self.randoms.len()),
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
        if let Err(problem) = draw.check() {
            return self.fail(Diagnostic::error(span, problem.reason.to_string()));
        }
        self.new_random(Random::Cvar(draw), span)
    }

    /// A seed for a variable without a name and a seed.
    fn next_seed(&self) -> u64 {
        name_seed(&format!("#{}", self.randoms.len()))
    }

    /// A variable got its name: it is shown with it, and its stream depends on it.
    pub(super) fn name_random(&mut self, index: usize, name: &str) {
        let number = format!("#{index}");
        match &mut self.randoms[index] {
            Random::Randvar(random) if random.name == number => random.name = name.to_owned(),
            Random::Cvar(draw) if draw.name == number => {
                draw.name = name.to_owned();
                if draw.seed == name_seed(&number) {
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

    fn draw(&self, index: usize) -> Result<Draw, String> {
        match &self.randoms[index] {
            Random::Cvar(draw) => Ok(draw.clone()),
            Random::Randvar(random) => random.draw(),
        }
    }

    /// The mean before rounding.
    pub(super) fn raw_mean(&self, index: usize) -> f64 {
        self.draw(index).map_or(0.0, |draw| draw.mean())
    }

    /// The mean, as a number that stands for the variable where one is needed before the run.
    pub(super) fn random_mean(&self, index: usize) -> u64 {
        let Ok(draw) = self.draw(index) else { return 0 };
        let mean = draw.mean() as u64;
        match mean.checked_rem(draw.round) {
            None => mean,
            Some(rest) if rest >= draw.round - rest => (mean - rest).saturating_add(draw.round),
            Some(rest) => mean - rest,
        }
    }

    /// All random variables in their final form.
    pub(super) fn draws(&mut self) -> Vec<Draw> {
        let mut draws = Vec::with_capacity(self.randoms.len());
        for index in 0..self.randoms.len() {
            match self.draw(index) {
                Ok(mut draw) => {
                    if draw.name.starts_with('#') {
                        draw.name.clear();
                    }
                    draws.push(draw);
                }
                Err(problem) => {
                    let span = match &self.randoms[index] {
                        Random::Randvar(random) => random.span,
                        Random::Cvar(_) => Span::default(),
                    };
                    self.report(Diagnostic::error(span, problem));
                }
            }
        }
        draws
    }

    /// A random variable `by` times another, for `indexed`.
    pub(super) fn scaled_random(&mut self, index: usize, by: f64) -> Option<usize> {
        let draw = self.draw(index).ok()?;
        let scaled = Draw {
            distribution: scaled(&draw.distribution, by),
            round: 0,
            clamp_min: draw.clamp_min.map(|low| low * by),
            clamp_max: draw.clamp_max.map(|high| high * by),
            ..draw
        };
        scaled.check().ok()?;
        self.randoms.push(Random::Cvar(scaled));
        Some(self.randoms.len() - 1)
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
            name: format!("#{}", self.randoms.len()),
            span,
            ..Randvar::default()
        }));
        self.randoms.len() - 1
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
