//! Types of custom variables and their `key:value;key:value` parameters.

use super::state::Lowering;
use crate::ast::Spanned;
use crate::diagnostic::Diagnostic;
use crate::suggest;
use crate::syntax::{Failed, shorten};
use workload::Distribution;

/// A type: name without the prefix `cvar-`, and its parameters with their defaults.
type Kind = (&'static str, &'static [(&'static str, f64)]);

const KINDS: &[Kind] = &[
    ("uniform", &[("lower", 0.0), ("upper", 1.0)]),
    ("normal", &[("mean", 0.0), ("sigma", 1.0)]),
    ("lognormal", &[("shape", 1.0), ("scale", 1.0)]),
    ("exponential", &[("mean", 1.0)]),
    ("erlang", &[("shape", 1.0), ("rate", 1.0)]),
    ("weibull", &[("shape", 1.0), ("scale", 1.0)]),
    ("triangular", &[("lower", 0.0), ("upper", 1.0), ("mode", 0.5)]),
    ("gamma", &[("mean", 4096.0), ("gamma", 1.5)]),
];

/// The distribution of a type with its parameters.
pub(super) fn distribution(
    lower: &mut Lowering<'_>,
    kind: &Spanned<String>,
    parameters: Option<&Spanned<String>>,
) -> Result<Distribution, Failed> {
    let wanted = kind.node.strip_prefix("cvar-").unwrap_or(&kind.node);
    let Some(&(name, known)) = KINDS.iter().find(|(name, _)| *name == wanted) else {
        return unknown_type(lower, kind, wanted);
    };
    let values = match parameters {
        Some(parameters) => values(lower, name, known, parameters)?,
        None => known.iter().map(|&(_, default)| default).collect(),
    };
    let get = |index: usize| values.get(index).copied().unwrap_or(0.0);
    let (first, second) = (get(0), get(1));
    let (result, valid, rule) = match name {
        "uniform" if first == second => (Distribution::Constant(first), true, ""),
        "uniform" => {
            let range = Distribution::Uniform { low: first, high: second };
            (range, first <= second, "`lower` must not be above `upper`")
        }
        "normal" => {
            let normal = Distribution::Normal { mean: first, sigma: second };
            (normal, second >= 0.0, "`sigma` must not be negative")
        }
        "lognormal" => {
            let log_normal = Distribution::LogNormal { log_mean: second, log_sigma: first };
            (
                log_normal,
                (0.0..100.0).contains(&first) && second < 100.0,
                "`shape` must be from 0 to 100, `scale` below 100",
            )
        }
        "exponential" => (Distribution::Exponential { mean: first.max(0.0) }, true, ""),
        "erlang" => {
            let erlang = Distribution::Erlang { shape: first as u64, mean: second };
            (
                erlang,
                (1.0..=1e6).contains(&first) && first.fract() == 0.0 && second >= 0.0,
                "`shape` must be a whole number from 1 to 1000000, and `rate` (the mean) not negative",
            )
        }
        "weibull" => {
            let weibull = Distribution::Weibull { shape: first, scale: second };
            (weibull, first > 0.0 && second > 0.0, "`shape` and `scale` must be positive")
        }
        "triangular" => {
            let triangular = Distribution::Triangular { low: first, high: second, mode: get(2) };
            let ordered = first <= get(2) && get(2) <= second && first < second;
            (triangular, ordered, "`lower` <= `mode` <= `upper` must hold, and `lower` < `upper`")
        }
        _ => {
            let gamma = Distribution::Gamma { shift: 0.0, shape: second, scale: first / second };
            (gamma, first > 0.0 && second > 0.0, "`mean` and `gamma` must be positive")
        }
    };
    if valid {
        return Ok(result);
    }
    let span = parameters.map_or(kind.span, |parameters| parameters.span);
    lower.fail(Diagnostic::error(span, format!("cvar-{name}: {rule}")).label("not possible"))
}

fn unknown_type<T>(lower: &mut Lowering<'_>, kind: &Spanned<String>, wanted: &str) -> Result<T, Failed> {
    let full: Vec<String> = KINDS.iter().map(|(name, _)| format!("cvar-{name}")).collect();
    let all = suggest::list(full.iter().map(String::as_str));
    let help = match suggest::did_you_mean(wanted, KINDS.iter().map(|(name, _)| *name), "cvar-") {
        Some(near) => format!("{near} types are {all}"),
        None => format!("types are {all}"),
    };
    let message = format!("there is no type `{}` of cvar", shorten(&kind.node));
    lower.fail(Diagnostic::error(kind.span, message).label("unknown type").help(help))
}

fn values(
    lower: &mut Lowering<'_>,
    name: &str,
    known: &[(&'static str, f64)],
    parameters: &Spanned<String>,
) -> Result<Vec<f64>, Failed> {
    let mut values: Vec<f64> = known.iter().map(|&(_, default)| default).collect();
    for pair in parameters.node.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once(':') else {
            let message = format!("`{}` is no `key:value`", shorten(pair));
            return lower.fail(
                Diagnostic::error(parameters.span, message)
                    .help("parameters are written key:value;key:value"),
            );
        };
        let (key, value) = (key.trim(), value.trim());
        let Some(index) = known.iter().position(|(known, _)| *known == key) else {
            let message = format!("cvar-{name} has no parameter `{}`", shorten(key));
            let names = || known.iter().map(|(name, _)| *name);
            let help = format!("its parameters are {}", suggest::list(names()));
            return lower.fail(Diagnostic::error(parameters.span, message).help(help));
        };
        let Some(value) = number(value) else {
            let message = format!("`{}` is no number", shorten(value));
            return lower.fail(Diagnostic::error(parameters.span, message));
        };
        values[index] = value;
    }
    Ok(values)
}

/// A decimal number, or a whole one with a unit; finite, so that nothing downstream meets NaN or infinity.
fn number(text: &str) -> Option<f64> {
    let split = text.find(|byte: char| byte.is_ascii_alphabetic()).unwrap_or(text.len());
    let direct = text.parse::<f64>().ok();
    let with_unit = || {
        let factor = crate::tables::unit(&text[split..])?;
        Some(text[..split].parse::<f64>().ok()? * factor as f64)
    };
    direct.or_else(with_unit).filter(|value| value.is_finite() && value.abs() < 1e300)
}
