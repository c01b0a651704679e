//! What others published, and what a study is to show.
//!
//! `[[published]]` is a value of one cell, or values of a column by row. `[[claim]]` is the ratio of two cells, the gain of
//! one row over another or over the best rival, shares of the best row, or that no rival is compleat. Which one it is,
//! its keys tell.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::evaluation::PublishedColumn;
use super::field::Share;
use super::selector::Selector;
use crate::results::MetricName;

/// Something published (`[[published]]`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawPublished", into = "RawPublished")]
pub enum Published {
    /// A value of one cell.
    Cell(PublishedCell),
    /// Values of a column.
    Column(PublishedColumn),
}

/// A published value; it must choose exactly one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedCell {
    /// The cell.
    pub cell: Selector,
    /// What was measured.
    pub metric: MetricName,
    /// The value.
    pub value: f64,
    /// Its unit as published.
    pub unit: String,
    /// Publication, table or figure.
    pub source: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPublished {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cell: Option<Selector>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metric: Option<MetricName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    column: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remark: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<String, f64>,
}

impl TryFrom<RawPublished> for Published {
    type Error = &'static str;

    fn try_from(raw: RawPublished) -> Result<Published, &'static str> {
        const WRONG: &str =
            "a published value has `value` and `unit` (of one `cell`), or `column` and `values` (by row)";
        match (raw.column, raw.value) {
            (Some(column), None) if raw.cell.is_none() && raw.metric.is_none() && !raw.values.is_empty() => {
                let (values, source, remark) = (raw.values, raw.source, raw.remark);
                Ok(Published::Column(PublishedColumn { column, values, source, remark }))
            }
            (None, Some(value)) if raw.values.is_empty() && raw.remark.is_none() => {
                Ok(Published::Cell(PublishedCell {
                    cell: raw.cell.unwrap_or_default(),
                    metric: raw.metric.unwrap_or_default(),
                    value,
                    unit: raw.unit.ok_or("a published value needs its `unit`")?,
                    source: raw.source,
                }))
            }
            _ => Err(WRONG),
        }
    }
}

impl From<Published> for RawPublished {
    fn from(published: Published) -> RawPublished {
        match published {
            Published::Cell(one) => RawPublished {
                cell: Some(one.cell),
                metric: Some(one.metric),
                value: Some(one.value),
                unit: Some(one.unit),
                source: one.source,
                ..RawPublished::default()
            },
            Published::Column(column) => RawPublished {
                column: Some(column.column),
                values: column.values,
                source: column.source,
                remark: column.remark,
                ..RawPublished::default()
            },
        }
    }
}

/// What a study is to show (`[[claim]]`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawClaim", into = "RawClaim")]
pub struct Claim {
    /// The claim in words; without it they are made up.
    pub text: Option<String>,
    /// Publication, table or figure.
    pub source: Option<String>,
    /// What must hold.
    pub rule: Rule,
}

/// What must hold for a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    /// A ratio of two cells.
    Ratio(Box<RatioRule>),
    /// A row's figures are so many times another's.
    Gain(GainRule),
    /// A row's figure in one column is so many times its figure in another.
    Columns(ColumnsRule),
    /// No column of the row is below this share of the best row.
    NoneBelow {
        /// The row's word.
        row: String,
        /// The share, 0 to 1.
        share: f64,
    },
    /// In more than half of the columns the row has this share of the best row, or more.
    MostAt {
        /// The row's word.
        row: String,
        /// The share, 0 to 1.
        share: f64,
    },
    /// None of the rows that are rivals is compleat.
    NoRivalCompleat,
}

/// The ratio of two cells. Exactly one of the bounds is given.
#[derive(Debug, Clone, PartialEq)]
pub struct RatioRule {
    /// What is compared.
    pub metric: MetricName,
    /// The two cells.
    pub ratio: Ratio,
    /// The ratio is this, within `tolerance`.
    pub expect: Option<f64>,
    /// Relative: 0.2 lets the ratio be 20 % off. Belongs to `expect`; 0.2 when left out.
    pub tolerance: Option<Share>,
    /// The ratio is this or more.
    pub at_least: Option<f64>,
    /// The ratio is this or less.
    pub at_most: Option<f64>,
}

/// Two cells: the value of `of` divided by the value of `to`. Each must choose exactly one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// Numerator.
    pub of: Selector,
    /// Denominator.
    pub to: Selector,
}

/// Gains of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct GainRule {
    /// The row that gains.
    pub row: String,
    /// The row that it is over; `None`: in each column the best of the rivals.
    pub over: Option<String>,
    /// Columns, and tables that stand for theirs; none: every column that counts.
    pub columns: Vec<String>,
    /// Columns that are left out.
    pub except: Vec<String>,
    /// How large.
    pub size: GainSize,
    /// How the columns count.
    pub across: Across,
}

/// Two columns of a row: more threads, larger blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnsRule {
    /// The row.
    pub row: String,
    /// The column that is better; both have its unit.
    pub column: String,
    /// The column that it is over.
    pub over: String,
    /// The ratio that must be reached; above 1 is better.
    pub at_least: f64,
}

/// How large a gain must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GainSize {
    /// [`GAIN_SHARE`] of this published gain.
    Published(f64),
    /// [`GAIN_SHARE`] of the gain of the column's published values.
    OfColumn,
    /// This, as it stands.
    AtLeast(f64),
}

/// Share of a published gain that must be there for a claim to count as reproduced.
pub const GAIN_SHARE: f64 = 0.8;

impl GainSize {
    /// The ratio that must be reached for a published gain of `gain`.
    pub fn need(gain: f64) -> f64 {
        1.0 + GAIN_SHARE * (gain - 1.0)
    }
}

/// How the columns of a claim count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Across {
    /// One of them is enough.
    Any,
    /// The column with the largest gain decides.
    Best,
    /// All of them.
    All,
    /// Each is a claim of its own.
    Each,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClaim {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metric: Option<MetricName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expect: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tolerance: Option<Share>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    column: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over_column: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    columns: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    except: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gain: Option<RawGain>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    across: Option<Across>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    none_below: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    most_at: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rivals_compleat: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ratio: Option<Ratio>,
}

/// A number, or the word `published`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum RawGain {
    Number(f64),
    Word(String),
}

/// The word for the best of the rivals.
const BEST_RIVAL: &str = "best rival";

const KINDS: &str = "a claim is one of: `ratio` with `expect`, `at_least` or `at_most`; `row`, `over` and `gain` or \
     `at_least`; `row`, `column`, `over_column` and `at_least`; `row` and `none_below`; `row` and `most_at`; `rivals_compleat = false`";

impl TryFrom<RawClaim> for Claim {
    type Error = String;

    fn try_from(mut raw: RawClaim) -> Result<Claim, String> {
        let (text, source) = (raw.text.take(), raw.source.take());
        let rule = match (raw.ratio.take(), raw.row.take(), raw.rivals_compleat.take()) {
            (Some(ratio), None, None) => Rule::Ratio(Box::new(ratio_rule(&mut raw, ratio)?)),
            (None, None, Some(false)) => Rule::NoRivalCompleat,
            (None, Some(row), None) => row_rule(&mut raw, row)?,
            _ => return Err(KINDS.into()),
        };
        // what is left over does not belong to a claim of this kind
        let left = toml::to_string(&raw).unwrap_or_default();
        match left.split_once('=') {
            Some((key, _)) => Err(format!("`{}` does not belong here; {KINDS}", key.trim())),
            None => Ok(Claim { text, source, rule }),
        }
    }
}

fn ratio_rule(raw: &mut RawClaim, ratio: Ratio) -> Result<RatioRule, String> {
    let bounds = [raw.expect, raw.at_least, raw.at_most];
    if bounds.iter().flatten().count() != 1 {
        return Err("a claim has exactly one of `expect`, `at_least` and `at_most`".into());
    }
    if raw.tolerance.is_some() && raw.expect.is_none() {
        return Err("`tolerance` belongs to `expect`".into());
    }
    above_zero(&bounds)?;
    let (expect, at_least, at_most) = (raw.expect.take(), raw.at_least.take(), raw.at_most.take());
    let (metric, tolerance) = (raw.metric.take().unwrap_or_default(), raw.tolerance.take());
    Ok(RatioRule { metric, ratio, expect, tolerance, at_least, at_most })
}

fn above_zero(bounds: &[Option<f64>]) -> Result<(), String> {
    match bounds.iter().flatten().any(|bound| !(bound.is_finite() && *bound > 0.0)) {
        true => Err("the ratio that a claim speaks of is above 0".into()),
        false => Ok(()),
    }
}

fn row_rule(raw: &mut RawClaim, row: String) -> Result<Rule, String> {
    if let Some(column) = raw.column.take() {
        let (Some(over), Some(at_least)) = (raw.over_column.take(), raw.at_least.take()) else {
            return Err(KINDS.into());
        };
        above_zero(&[Some(at_least)])?;
        return Ok(Rule::Columns(ColumnsRule { row, column, over, at_least }));
    }
    match (raw.none_below.take(), raw.most_at.take(), raw.over.take()) {
        (Some(share), None, None) => share_of(share).map(|share| Rule::NoneBelow { row, share }),
        (None, Some(share), None) => share_of(share).map(|share| Rule::MostAt { row, share }),
        (None, None, Some(over)) => {
            let size = match (raw.gain.take(), raw.at_least.take()) {
                (Some(RawGain::Number(gain)), None) => GainSize::Published(gain),
                (Some(RawGain::Word(word)), None) if word == "published" => GainSize::OfColumn,
                (None, Some(least)) => GainSize::AtLeast(least),
                _ => {
                    return Err("a gain has `gain = 1.8`, `gain = \"published\"` or `at_least = 0.97`".into());
                }
            };
            let number = match size {
                GainSize::Published(number) | GainSize::AtLeast(number) => Some(number),
                GainSize::OfColumn => None,
            };
            above_zero(&[number])?;
            let default = if size == GainSize::OfColumn { Across::Each } else { Across::All };
            Ok(Rule::Gain(GainRule {
                row,
                over: (over != BEST_RIVAL).then_some(over),
                columns: std::mem::take(&mut raw.columns),
                except: std::mem::take(&mut raw.except),
                size,
                across: raw.across.take().unwrap_or(default),
            }))
        }
        _ => Err(KINDS.into()),
    }
}

fn share_of(share: f64) -> Result<f64, String> {
    match share > 0.0 && share <= 1.0 {
        true => Ok(share),
        false => Err(format!("{share} is no share of the best row; it lies between 0 and 1")),
    }
}

impl From<Claim> for RawClaim {
    fn from(claim: Claim) -> RawClaim {
        let raw = RawClaim { text: claim.text, source: claim.source, ..RawClaim::default() };
        match claim.rule {
            Rule::Ratio(rule) => RawClaim {
                metric: Some(rule.metric),
                expect: rule.expect,
                tolerance: rule.tolerance,
                at_least: rule.at_least,
                at_most: rule.at_most,
                ratio: Some(rule.ratio),
                ..raw
            },
            Rule::Gain(rule) => {
                let (gain, at_least) = match rule.size {
                    GainSize::Published(gain) => (Some(RawGain::Number(gain)), None),
                    GainSize::OfColumn => (Some(RawGain::Word("published".into())), None),
                    GainSize::AtLeast(least) => (None, Some(least)),
                };
                RawClaim {
                    row: Some(rule.row),
                    over: Some(rule.over.unwrap_or_else(|| BEST_RIVAL.into())),
                    columns: rule.columns,
                    except: rule.except,
                    across: Some(rule.across),
                    gain,
                    at_least,
                    ..raw
                }
            }
            Rule::Columns(rule) => RawClaim {
                row: Some(rule.row),
                column: Some(rule.column),
                over_column: Some(rule.over),
                at_least: Some(rule.at_least),
                ..raw
            },
            Rule::NoneBelow { row, share } => RawClaim { row: Some(row), none_below: Some(share), ..raw },
            Rule::MostAt { row, share } => RawClaim { row: Some(row), most_at: Some(share), ..raw },
            Rule::NoRivalCompleat => RawClaim { rivals_compleat: Some(false), ..raw },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Claim, String> {
        toml::from_str(text).map_err(|error| error.message().to_string())
    }

    #[test]
    fn every_kind_is_written_as_it_is_read() {
        for text in [
            "at_least = 1.5\nratio = { of = { stack = 'xfs' }, to = { stack = 'ext4' } }",
            "expect = 2.0\ntolerance = 0.1\nratio = { of = {}, to = {} }\nsource = 'x'",
            "row = 'betrfs'\nover = 'best rival'\ngain = 6\ncolumns = ['a', 'b']\nacross = 'any'",
            "row = 'ext4'\ncolumn = 'b'\nover_column = 'a'\nat_least = 2.0",
            "row = 'auto'\nover = 'app-only'\ngain = 'published'",
            "row = 'auto'\nover = 'app-only'\nat_least = 0.97\nexcept = ['a']",
            "row = 'betrfs'\nnone_below = 0.3",
            "row = 'betrfs'\nmost_at = 0.85\ntext = 'most'",
            "rivals_compleat = false",
        ] {
            let claim = read(text).unwrap();
            let again = read(&toml::to_string(&claim).unwrap()).unwrap();
            assert_eq!(again, claim, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("text = 'x'", "a claim is one of"),
            ("row = 'x'", "a claim is one of"),
            ("ratio = { of = {}, to = {} }", "exactly one"),
            ("at_least = 1\nat_most = 2\nratio = { of = {}, to = {} }", "exactly one"),
            ("at_least = -1\nratio = { of = {}, to = {} }", "above 0"),
            ("at_least = 1\ntolerance = 0.1\nratio = { of = {}, to = {} }", "belongs to `expect`"),
            ("row = 'x'\nnone_below = 0.3\ncolumns = ['a']", "`columns` does not belong"),
            ("row = 'x'\nnone_below = 30", "between 0 and 1"),
            ("row = 'x'\nover = 'y'", "`gain = 1.8`"),
            ("rivals_compleat = true", "a claim is one of"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn published_values_are_of_a_cell_or_a_column() {
        for text in [
            "value = 5\nunit = 'ops/s'\nsource = 's'\ncell = { workload = 'a' }",
            "column = 'c'\nsource = 's'\nremark = 'A'\nvalues = { a = 1.5, b = 2.0 }",
        ] {
            let one: Published = toml::from_str(text).unwrap();
            let again: Published = toml::from_str(&toml::to_string(&one).unwrap()).unwrap();
            assert_eq!(again, one, "{text}");
        }
        assert!(toml::from_str::<Published>("source = 's'\nvalue = 5").is_err());
        assert!(toml::from_str::<Published>("source = 's'\ncolumn = 'c'").is_err());
    }
}
