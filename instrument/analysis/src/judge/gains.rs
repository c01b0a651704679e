//! Claims about the rows of an evaluation: gains, shares of the best row, compleat rivals. Each becomes an [`PendingClaim`] judgement,
//! with two p-values; [`super::claims`] judges all claims of a run together.
//!
//! | claim | holds | fails |
//! |---|---|---|
//! | one column | p of "at least" | p of "less" |
//! | in all columns | intersection-union: the largest | Bonferroni: any column can show it |
//! | in any column; in the best one | Bonferroni | intersection-union |
//! | over the best rival | over *each* rival: intersection-union | Bonferroni over the rivals |
//!
//! Neither the best column nor the best rival is chosen by what was measured and then judged by the same: the luckiest of equals
//! would be.

use stats::effect::FEWEST as MIN_TRIALS;
use stats::many::{intersection_union, partial_conjunction};
use stats::shares::{self, StackResult};
use stats::{Effect, Sense, Thresholds};

use super::evidence::{Evidence, PendingClaim};
use crate::blocks;
use crate::grid::{AbsentReason, Grid, GridCell};
use crate::tail::ShortTail;
use study::Claim;
use study::claim::{Across, ColumnsRule, GAIN_SHARE, GainRule, GainSize, Rule};
use study::results::Judgement;

/// What is known of a claim; one that speaks of each column by itself becomes several.
pub(super) fn open(grid: &Grid, claim: &Claim, thresholds: &Thresholds) -> Vec<PendingClaim> {
    let alone = |told: Rationale, text: String| vec![told.of(claim, claim.text.clone().unwrap_or(text))];
    match &claim.rule {
        Rule::Ratio(_) => Vec::new(),
        Rule::Gain(rule) if rule.across == Across::Each => judge_each_column(grid, rule, thresholds)
            .into_iter()
            .map(|(text, told)| told.of(claim, text))
            .collect(),
        Rule::Gain(rule) => {
            let text = format!("{} over {}", rule.row, rule.over.as_deref().unwrap_or("the best rival"));
            alone(across(grid, rule, thresholds), text)
        }
        Rule::Columns(rule) => {
            let text = format!("{}: {} over {}", rule.row, rule.column, rule.over);
            alone(between(grid, rule, thresholds), text)
        }
        Rule::NoneBelow { row, share } => {
            alone(none_below(grid, row, *share), format!("{row}: no column below {share}"))
        }
        Rule::MostAt { row, share } => {
            alone(most_at(grid, row, *share, thresholds.alpha), format!("{row}: most columns at {share}"))
        }
        Rule::NoRivalCompleat => alone(no_rival(grid), "no rival is compleat".into()),
    }
}

/// What a claim rests on, in words.
struct Rationale {
    evidence: Option<Evidence>,
    reason: String,
    ratio: Option<Ratio>,
}

impl Rationale {
    fn new(evidence: Option<Evidence>, reason: impl Into<String>) -> Rationale {
        Rationale { evidence, reason: reason.into(), ratio: None }
    }

    fn of(self, claim: &Claim, text: String) -> PendingClaim {
        let judgement = Judgement {
            measured: self.ratio.map(|ratio| ratio.value),
            interval: self.ratio.map(|ratio| (ratio.low, ratio.high)),
            reason: self.reason,
            ..Judgement::open(text, claim.source.clone())
        };
        PendingClaim { judgement, evidence: self.evidence }
    }
}

/// How many times one row's figure is another's, with its interval: below each end lies the truth with [`Thresholds::alpha`].
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ratio {
    value: f64,
    low: f64,
    high: f64,
    /// Trials of the side with fewer.
    trials: usize,
    /// The figures are quantiles beyond which too little lies.
    short_tail: Option<ShortTail>,
}

impl Ratio {
    fn text(&self) -> String {
        if self.trials > 1 {
            format!("{:.2} x ({:.2} to {:.2})", self.value, self.low, self.high)
        } else {
            format!("{:.2} x", self.value)
        }
    }
}

/// What there is too little of to conclude anything.
fn too_few(ratios: &[Ratio]) -> String {
    if let Some(short) = ratios.iter().filter_map(|ratio| ratio.short_tail).min() {
        return format!("; {short}");
    }
    match ratios.iter().map(|ratio| ratio.trials).min().unwrap_or(0) {
        MIN_TRIALS.. => String::new(),
        1 => format!("; one trial, {MIN_TRIALS} are needed"),
        trials => format!("; {trials} trials, {MIN_TRIALS} are needed"),
    }
}

/// A row's figure over one of others, or over the best of several: more than 1 is better.
struct Gain {
    column: usize,
    /// Over each of them; one that nothing was measured of is left out. Never empty.
    over: Vec<(usize, Effect, usize)>,
    /// Of those that it is to be over, the number that failed.
    failed: usize,
    /// The figures are quantiles beyond which too little lies: nothing is shown.
    short_tail: Option<ShortTail>,
}

impl Gain {
    /// Of two places.
    fn of(ours: &GridCell, theirs: &GridCell, second: bool, sense: Sense) -> Option<(Effect, usize)> {
        let of = |place: &GridCell| if second { place.second.clone() } else { place.trials.clone() };
        let (ours, theirs) = (of(ours), of(theirs));
        let effect = blocks::gain(&theirs, &ours, sense).ok()?;
        let trials = ours.len().min(theirs.len()).min(effect.n());
        Some((effect, trials))
    }

    /// The row that it is least over, by the estimates.
    fn nearest(&self) -> &(usize, Effect, usize) {
        let least = self.over.iter().min_by(|a, b| a.1.estimate().total_cmp(&b.1.estimate()));
        least.unwrap_or(&self.over[0])
    }

    /// The ratio to the best of them. What it lies above with `alpha` is the least of the lower ends; what it lies below, the least
    /// of the upper ends, each at its part of `alpha`, since any one may be the least by chance.
    fn ratio(&self, alpha: f64) -> Ratio {
        let share = alpha / self.over.len() as f64;
        let least = |end: &dyn Fn(&Effect) -> f64| {
            self.over.iter().map(|(_, effect, _)| end(effect)).fold(f64::INFINITY, f64::min)
        };
        Ratio {
            value: exp(self.nearest().1.estimate()),
            low: exp(least(&|effect| effect.interval(1.0 - 2.0 * alpha).low)),
            high: exp(least(&|effect| effect.interval(1.0 - 2.0 * share).high)),
            trials: self.over.iter().map(|one| one.2).min().unwrap_or(0),
            short_tail: self.short_tail,
        }
    }

    /// Whether it is `need` or more over each of them; `None` on too few trials or too short a tail. One that failed shows nothing: p is 1.
    fn evidence(&self, need: f64) -> Option<Evidence> {
        let told = self.over.iter().all(|(_, effect, trials)| effect.n().min(*trials) >= MIN_TRIALS);
        let each = |p: &dyn Fn(&Effect) -> f64| -> Vec<f64> {
            self.over.iter().map(|one| p(&one.1)).chain(std::iter::repeat_n(1.0, self.failed)).collect()
        };
        (told && self.short_tail.is_none()).then(|| Evidence {
            holds: intersection_union(&each(&|effect| effect.p_above(need.ln()))),
            fails: partial_conjunction(&each(&|effect| effect.p_below(need.ln())), 1),
        })
    }
}

/// `exp`, kept finite: results are stored as JSON, which knows no infinity.
fn exp(log: f64) -> f64 {
    log.clamp(-700.0, 700.0).exp()
}

/// The gain in a column; `None` when the row has no result there, or none of those that it is over.
fn gain(grid: &Grid, rule: &GainRule, column: usize, second: bool) -> Option<Gain> {
    let row = grid.row(&rule.row)?;
    let over = over(grid, rule);
    let failed = over.iter().filter(|other| has_failed(grid, **other, column)).count();
    let sense = grid.study.columns[column].better.sense();
    let of = |other: usize| {
        let (effect, trials) = Gain::of(grid.cell(row, column), grid.cell(other, column), second, sense)?;
        Some((other, effect, trials))
    };
    let over: Vec<_> = over.into_iter().filter_map(of).collect();
    let rows = over.iter().map(|one| one.0).chain([row]);
    let short_tail = rows.filter_map(|row| grid.cell(row, column).short_tail).min();
    (!over.is_empty()).then_some(Gain { column, over, failed, short_tail })
}

/// The rows that a rule's row is to be over.
fn over(grid: &Grid, rule: &GainRule) -> Vec<usize> {
    let is = |at: &usize| {
        let row = &grid.study.rows[*at];
        rule.over.as_ref().map_or(row.rival && row.id != rule.row, |over| row.id == *over)
    };
    (0..grid.study.rows.len()).filter(is).collect()
}

/// Whether a row was tried in a column and has no result. One that cannot run here, or that the run leaves out, has not failed.
fn has_failed(grid: &Grid, row: usize, column: usize) -> bool {
    matches!(grid.cell(row, column).absent, Some(AbsentReason::Failed(_)))
}

/// Whether there is no gain in a column because a row failed.
fn gain_failed(grid: &Grid, rule: &GainRule, column: usize) -> bool {
    over(grid, rule).into_iter().chain(grid.row(&rule.row)).any(|row| has_failed(grid, row, column))
}

fn failed_text(failed: usize, what: &str) -> String {
    match failed {
        0 => String::new(),
        1 => format!("; 1 {what} failed"),
        _ => format!("; {failed} {what}s failed"),
    }
}

/// The columns of a rule.
fn columns(grid: &Grid, rule: &GainRule) -> Vec<usize> {
    let named = |at: usize, words: &[String]| {
        let column = &grid.study.columns[at];
        words.iter().any(|word| *word == column.id || *word == column.table)
    };
    let wanted = |at: &usize| {
        (if rule.columns.is_empty() { grid.counts(*at) } else { named(*at, &rule.columns) })
            && !named(*at, &rule.except)
    };
    (0..grid.study.columns.len()).filter(wanted).collect()
}

/// Two columns of one row.
fn between(grid: &Grid, rule: &ColumnsRule, thresholds: &Thresholds) -> Rationale {
    let (Some(column), Some(over)) = (grid.column(&rule.column), grid.column(&rule.over)) else {
        return Rationale::new(None, "the study has no such columns");
    };
    let sense = grid.study.columns[column].better.sense();
    let found = grid.row(&rule.row).and_then(|row| {
        let (ours, theirs) = (grid.cell(row, column), grid.cell(row, over));
        let (effect, trials) = Gain::of(ours, theirs, false, sense)?;
        let short_tail = [ours, theirs].into_iter().filter_map(|place| place.short_tail).min();
        Some(Gain { column, over: vec![(row, effect, trials)], failed: 0, short_tail })
    });
    let Some(found) = found else {
        return Rationale::new(None, "one of the two columns has no result");
    };
    let title = |at: usize| grid.study.columns[at].title();
    let ratio = found.ratio(thresholds.alpha);
    let reason = format!(
        "{} over {}: {}; {:.2} x is needed{}",
        title(column),
        title(over),
        ratio.text(),
        rule.at_least,
        too_few(&[ratio])
    );
    Rationale { ratio: Some(ratio), ..Rationale::new(found.evidence(rule.at_least), reason) }
}

/// The columns of a rule, taken together.
fn across(grid: &Grid, rule: &GainRule, thresholds: &Thresholds) -> Rationale {
    let columns = columns(grid, rule);
    let found: Vec<Option<Gain>> = columns.iter().map(|at| gain(grid, rule, *at, false)).collect();
    let without = columns.iter().zip(&found).filter(|(_, found)| found.is_none());
    let failed = without.filter(|(at, _)| gain_failed(grid, rule, **at)).count();
    let gains: Vec<Gain> = found.into_iter().flatten().collect();
    let (need, is_share) = match rule.size {
        GainSize::Published(gain) => (GainSize::need(gain), true),
        GainSize::AtLeast(least) => (least, false),
        GainSize::OfColumn => (1.0, false),
    };
    if gains.is_empty() {
        return Rationale::new(None, "one of the two has no result in these columns");
    }
    let each: Vec<Option<Evidence>> = gains.iter().map(|gain| gain.evidence(need)).collect();
    let judged = JudgedColumns { grid, gains: &gains, each: &each, need, alpha: thresholds.alpha };
    // of "in all" those are meant that this run measures and that can run here; one that failed is such a one
    let missing = columns.len() - gains.len();
    let mut told = match rule.across {
        Across::Any => judged.any(missing, is_share),
        Across::Best => judged.best(missing),
        Across::All | Across::Each => judged.all(failed),
    };
    told.reason.push_str(&failed_text(failed, "column"));
    told.reason.push_str(&failed_text(gains.iter().map(|gain| gain.failed).sum(), "rival"));
    told
}

/// The columns of a claim.
struct JudgedColumns<'a> {
    grid: &'a Grid,
    gains: &'a [Gain],
    /// Of each whether it reaches `need`.
    each: &'a [Option<Evidence>],
    need: f64,
    alpha: f64,
}

impl JudgedColumns<'_> {
    /// p-values of the columns; 1 where nothing is known.
    fn p(&self, of: fn(&Evidence) -> f64) -> Vec<f64> {
        self.each.iter().map(|one| one.as_ref().map_or(1.0, of)).collect()
    }

    /// "In at least one": Bonferroni; it fails when each column does, those without a result too.
    fn in_any(&self, missing: usize) -> Option<Evidence> {
        let mut fails = self.p(|one| one.fails);
        fails.extend(std::iter::repeat_n(1.0, missing));
        self.each.iter().any(Option::is_some).then(|| Evidence {
            holds: partial_conjunction(&self.p(|one| one.holds), 1),
            fails: intersection_union(&fails),
        })
    }

    /// "In all": intersection-union; it fails when any column does. A column that failed shows nothing: p is 1.
    fn in_all(&self, failed: usize) -> Option<Evidence> {
        let p = |of: fn(&Evidence) -> f64| {
            let mut each = self.p(of);
            each.extend(std::iter::repeat_n(1.0, failed));
            each
        };
        self.each.iter().any(Option::is_some).then(|| Evidence {
            holds: intersection_union(&p(|one| one.holds)),
            fails: partial_conjunction(&p(|one| one.fails), 1),
        })
    }

    /// The column with the largest gain, by the estimates: shown, not judged by.
    fn largest(&self) -> Option<&Gain> {
        self.gains.iter().max_by(|a, b| a.nearest().1.estimate().total_cmp(&b.nearest().1.estimate()))
    }

    fn any(&self, missing: usize, is_share: bool) -> Rationale {
        let shown = |gain: &Gain| {
            let (column, over) =
                (&self.grid.study.columns[gain.column], &self.grid.study.rows[gain.nearest().0]);
            let ratio = gain.ratio(self.alpha);
            format!("{}: {} {}{}", column.title(), ratio.text(), over.title(), too_few(&[ratio]))
        };
        let shown: Vec<String> = self.gains.iter().map(shown).collect();
        let reason = format!("{}{}", shown.join(", "), need_text(self.need, is_share));
        let ratio = self.largest().map(|gain| gain.ratio(self.alpha));
        Rationale { ratio, ..Rationale::new(self.in_any(missing), reason) }
    }

    fn best(&self, missing: usize) -> Rationale {
        let Some(best) = self.largest() else { return Rationale::new(None, "nothing was measured") };
        let ratio = best.ratio(self.alpha);
        let above = self.gains.iter().filter(|gain| exp(gain.nearest().1.estimate()) >= self.need).count();
        let reason = format!(
            "{}: {}; {above} of {} columns reach {:.2} x{}",
            self.grid.study.columns[best.column].title(),
            ratio.text(),
            self.gains.len(),
            self.need,
            too_few(&[ratio])
        );
        Rationale { ratio: Some(ratio), ..Rationale::new(self.in_any(missing), reason) }
    }

    fn all(&self, failed: usize) -> Rationale {
        let ratios: Vec<Ratio> = self.gains.iter().map(|gain| gain.ratio(self.alpha)).collect();
        let few = self.gains.len() <= COLUMNS_SHOWN;
        let below = ratios.iter().filter(|ratio| ratio.value < self.need).count();
        let shown = self.gains.iter().zip(&ratios).filter(|(_, ratio)| few || ratio.value < self.need);
        let shown: Vec<String> = shown
            .map(|(gain, ratio)| format!("{} {}", name_among(self.grid, gain, self.gains), ratio.text()))
            .collect();
        if let ([gain], [ratio]) = (self.gains, &ratios[..]) {
            let title = self.grid.study.columns[gain.column].title();
            let reason =
                format!("{title} {}; {:.2} x is needed{}", ratio.text(), self.need, too_few(&ratios));
            return Rationale::new(self.in_all(failed), reason);
        }
        let reason = format!(
            "below {:.2} x in {below} of {} columns{}{}{}",
            self.need,
            self.gains.len(),
            if shown.is_empty() { "" } else { ": " },
            shown.join(", "),
            too_few(&ratios)
        );
        Rationale::new(self.in_all(failed), reason)
    }
}

fn need_text(need: f64, is_share: bool) -> String {
    if is_share {
        format!("; {need:.2} x is {:.0} % of the published gain", GAIN_SHARE * 100.0)
    } else {
        String::new()
    }
}

/// So many columns are shown with their gains, whatever they are; of more, those that fall short.
const COLUMNS_SHOWN: usize = 3;

/// The heading of a gain's column; before it the word of its table, where columns of several tables have the same heading.
fn name_among(grid: &Grid, gain: &Gain, all: &[Gain]) -> String {
    let columns = &grid.study.columns;
    let (column, title) = (&columns[gain.column], columns[gain.column].title());
    let other =
        |one: &Gain| columns[one.column].title() == title && columns[one.column].table != column.table;
    if all.iter().any(other) { format!("{} {title}", column.table) } else { title.to_string() }
}

/// A judgement for each column that was measured and of which values were published.
fn judge_each_column(grid: &Grid, rule: &GainRule, thresholds: &Thresholds) -> Vec<(String, Rationale)> {
    let measured = columns(grid, rule).into_iter().filter(|at| grid.is_measured(*at));
    measured.filter_map(|at| judge_column(grid, rule, at, thresholds)).collect()
}

fn judge_column(
    grid: &Grid,
    rule: &GainRule,
    at: usize,
    thresholds: &Thresholds,
) -> Option<(String, Rationale)> {
    let published = grid.published(at)?;
    let over = rule.over.as_ref()?;
    let times = published.values.get(&rule.row)? / published.values.get(over)?;
    let title = |id: &String| grid.row(id).map_or(id.clone(), |row| grid.study.rows[row].title().to_string());
    let column = grid.study.columns[at].title();
    let text = format!("{column}: {} {times:.2} x {} ({})", title(&rule.row), title(over), published.source);
    let Some(gained) = gain(grid, rule, at, false) else {
        return Some((text, Rationale::new(None, "one of the two has no result")));
    };
    let (need, ratio) = (GainSize::need(times), gained.ratio(thresholds.alpha));
    let mut reason = ratio.text();
    if let (Some(second), Some(table)) = (gain(grid, rule, at, true), grid.table_of(at))
        && let Some(told) = &table.second
    {
        reason.push_str(&format!(", {:.2} x {}", exp(second.nearest().1.estimate()), told.title));
    }
    let share = GAIN_SHARE * 100.0;
    reason.push_str(&format!("; {need:.2} x is {share:.0} % of the gain{}", too_few(&[ratio])));
    if let Some(remark) = &published.remark {
        reason.push_str(&format!("; remark {remark}"));
    }
    Some((text, Rationale { ratio: Some(ratio), ..Rationale::new(gained.evidence(need), reason) }))
}

/// A column that counts, with a row's effects against every other row there: none when something has no result.
struct Against {
    title: String,
    share: Option<f64>,
    effects: Vec<Effect>,
}

impl Against {
    /// p-value of "this share of the best or more": it is at that share of each.
    fn p_at(&self, share: f64) -> f64 {
        let each: Vec<f64> =
            self.effects().map_or(Vec::new(), |all| all.iter().map(|e| e.p_above(share.ln())).collect());
        if each.is_empty() { 1.0 } else { intersection_union(&each) }
    }

    /// p-value of "less than this share of the best": some other row shows it.
    fn p_below(&self, share: f64) -> f64 {
        let each: Vec<f64> =
            self.effects().map_or(Vec::new(), |all| all.iter().map(|e| e.p_below(share.ln())).collect());
        if each.is_empty() { 1.0 } else { partial_conjunction(&each, 1) }
    }

    /// The effects, when each rests on enough blocks.
    fn effects(&self) -> Option<&[Effect]> {
        self.effects.iter().all(|effect| effect.n() >= MIN_TRIALS).then_some(&self.effects)
    }
}

fn against(grid: &Grid, row: &str) -> Vec<Against> {
    let Some(row) = grid.row(row) else { return Vec::new() };
    let of = |at: usize| Against {
        title: grid.study.columns[at].title().to_string(),
        share: grid.cell(row, at).share,
        effects: grid.effects(row, at),
    };
    grid.counted().map(of).collect()
}

fn none_below(grid: &Grid, row: &str, bound: f64) -> Rationale {
    let columns = against(grid, row);
    let low = |one: &Against| {
        one.share.filter(|share| *share < bound).map(|share| format!("{} {share:.2}", one.title))
    };
    let low: Vec<String> = columns.iter().filter_map(low).collect();
    let missing = columns.iter().filter(|one| one.share.is_none()).count();
    let open = columns.iter().filter(|one| one.effects().is_none_or(<[Effect]>::is_empty)).count();
    let evidence = (open < columns.len()).then(|| Evidence {
        holds: intersection_union(&columns.iter().map(|one| one.p_at(bound)).collect::<Vec<_>>()),
        fails: partial_conjunction(&columns.iter().map(|one| one.p_below(bound)).collect::<Vec<_>>(), 1),
    });
    let low = if low.is_empty() { "none".to_string() } else { low.join(", ") };
    let total = columns.len();
    let reason = format!(
        "below {bound:.2}: {low}; of {total} columns {missing} have no result, {} too few trials or too short a tail",
        open - missing
    );
    Rationale::new(evidence, reason)
}

fn most_at(grid: &Grid, row: &str, bound: f64, alpha: f64) -> Rationale {
    let columns = against(grid, row);
    let high = columns.iter().filter(|one| one.share.is_some_and(|share| share >= bound)).count();
    let missing = columns.iter().filter(|one| one.share.is_none()).count();
    let total = columns.len();
    let most = total / 2 + 1;
    let at: Vec<f64> = columns.iter().map(|one| one.p_at(bound)).collect();
    let below: Vec<f64> = columns.iter().map(|one| one.p_below(bound)).collect();
    let is_open = columns.iter().all(|one| one.effects().is_none_or(<[Effect]>::is_empty));
    let evidence = (!is_open).then(|| Evidence {
        holds: partial_conjunction(&at, most),
        fails: partial_conjunction(&below, (total + 1).saturating_sub(most)),
    });
    let shown = at.iter().filter(|p| **p <= alpha).count();
    let reason = format!(
        "{high} of {total} columns at {bound:.2} or more, {shown} of them beyond chance, {missing} without a result"
    );
    Rationale::new(evidence, reason)
}

/// Each rival must fall short; any one can show that the claim fails.
fn no_rival(grid: &Grid) -> Rationale {
    let rows = &grid.study.rows;
    let rivals: Vec<(&str, shares::Claim)> = (0..rows.len())
        .filter(|row| rows[*row].rival)
        .map(|row| {
            let standings: Vec<StackResult> = grid.row_results(row);
            (rows[row].title(), shares::compleat_claim(&standings))
        })
        .collect();
    let each = |p: fn(&shares::Claim) -> f64| rivals.iter().map(|one| p(&one.1)).collect::<Vec<_>>();
    let evidence = rivals.iter().any(|(_, claim)| claim.p_holds < 1.0 || claim.p_fails < 1.0);
    let evidence = evidence.then(|| Evidence {
        holds: intersection_union(&each(|claim| claim.p_fails)),
        fails: partial_conjunction(&each(|claim| claim.p_holds), 1),
    });
    let shown = |(title, claim): &(&str, shares::Claim)| {
        format!("{title} is compleat: p {:.3}, is not: p {:.3}", claim.p_holds, claim.p_fails)
    };
    Rationale::new(evidence, rivals.iter().map(shown).collect::<Vec<_>>().join("; "))
}
