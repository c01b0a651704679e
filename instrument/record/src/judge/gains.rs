//! Claims about the rows of an evaluation: gains, shares of the best row, compleat rivals.

use stats::compleat::Compleat;
use stats::effect::FEWEST as MIN_TRIALS;
use stats::many::{intersection_union, partial_conjunction};
use stats::{Effect, Sense, Thresholds};

use crate::blocks;
use crate::grid::{Grid, Place};
use crate::results::{Answer, Judgement};
use crate::study::Claim;
use crate::study::claim::{Across, ColumnsRule, GAIN_SHARE, GainRule, GainSize, Rule};

/// Judges a claim; one that speaks of each column by itself gives several judgements.
pub(super) fn judge(grid: &Grid, claim: &Claim, thresholds: &Thresholds) -> Vec<Judgement> {
    match &claim.rule {
        Rule::Ratio(_) => Vec::new(),
        Rule::Gain(rule) if rule.across == Across::Each => {
            each(grid, rule, thresholds).into_iter().map(|(text, told)| told.of(claim, text)).collect()
        }
        Rule::Gain(rule) => {
            let text = format!("{} over {}", rule.row, rule.over.as_deref().unwrap_or("the best rival"));
            vec![across(grid, rule, thresholds).of(claim, text)]
        }
        Rule::Columns(rule) => {
            let text = format!("{}: {} over {}", rule.row, rule.column, rule.over);
            vec![between(grid, rule, thresholds).of(claim, text)]
        }
        Rule::NoneBelow { row, share } => {
            vec![
                none_below(grid, row, *share, thresholds.alpha)
                    .of(claim, format!("{row}: no column below {share}")),
            ]
        }
        Rule::MostAt { row, share } => {
            vec![
                most_at(grid, row, *share, thresholds.alpha)
                    .of(claim, format!("{row}: most columns at {share}")),
            ]
        }
        Rule::NoRivalCompleat => vec![no_rival(grid).of(claim, "no rival is compleat".into())],
    }
}

/// An answer with its reason.
struct Told {
    answer: Answer,
    reason: String,
    ratio: Option<Ratio>,
}

impl Told {
    fn new(answer: Answer, reason: impl Into<String>) -> Told {
        Told { answer, reason: reason.into(), ratio: None }
    }

    fn of(self, claim: &Claim, text: String) -> Judgement {
        let text = match &claim.rule {
            Rule::Gain(rule) if rule.across == Across::Each => text,
            _ => claim.text.clone().unwrap_or(text),
        };
        Judgement {
            measured: self.ratio.map(|ratio| ratio.value),
            interval: self.ratio.map(|ratio| (ratio.low, ratio.high)),
            answer: self.answer,
            reason: self.reason,
            ..Judgement::open(text, claim.source.clone())
        }
    }
}

/// How many times one row's figure is another's, with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ratio {
    value: f64,
    low: f64,
    high: f64,
    /// Trials of the side with fewer.
    trials: usize,
}

impl Ratio {
    fn text(&self) -> String {
        if self.trials > 1 {
            format!("{:.2} x ({:.2} to {:.2})", self.value, self.low, self.high)
        } else {
            format!("{:.2} x", self.value)
        }
    }

    /// Whether it is `need` or more.
    fn reaches(&self, need: f64) -> Answer {
        if self.trials < MIN_TRIALS {
            Answer::CannotTell
        } else if self.low >= need {
            Answer::Reproduced
        } else if self.high < need {
            Answer::NotReproduced
        } else {
            Answer::CannotTell
        }
    }
}

fn too_few(trials: usize) -> String {
    match trials {
        MIN_TRIALS.. => String::new(),
        1 => format!("; one trial, {MIN_TRIALS} are needed"),
        _ => format!("; {trials} trials, {MIN_TRIALS} are needed"),
    }
}

/// The ratio of two places; more than 1 is better.
fn ratio(ours: &Place, theirs: &Place, second: bool, sense: Sense, thresholds: &Thresholds) -> Option<Ratio> {
    let of = |place: &Place| if second { place.second.clone() } else { place.trials.clone() };
    let (ours, theirs) = (of(ours), of(theirs));
    let effect = blocks::gain(&theirs, &ours, sense).ok()?;
    let found = stats::judge::judge(&effect, Sense::HigherIsBetter, thresholds);
    let trials = ours.len().min(theirs.len()).min(found.n);
    Some(Ratio { value: found.ratio, low: found.interval.low, high: found.interval.high, trials })
}

/// A gain in one column.
struct Gain {
    column: usize,
    /// The row that it is over.
    over: usize,
    ratio: Ratio,
}

/// The gain in a column; `None` when one of the rows has no result.
fn gain(grid: &Grid, rule: &GainRule, column: usize, second: bool, thresholds: &Thresholds) -> Option<Gain> {
    let row = grid.row(&rule.row)?;
    let over = match &rule.over {
        Some(over) => grid.row(over)?,
        None => best_rival(grid, column)?,
    };
    let sense = grid.study.columns[column].better.sense();
    let ratio = ratio(grid.at(row, column), grid.at(over, column), second, sense, thresholds)?;
    Some(Gain { column, over, ratio })
}

fn best_rival(grid: &Grid, column: usize) -> Option<usize> {
    let rivals = (0..grid.study.rows.len()).filter(|row| grid.study.rows[*row].rival);
    let share = |row: &usize| grid.at(*row, column).share;
    let with_share = rivals.filter_map(|row| Some((row, share(&row)?)));
    with_share.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(row, _)| row)
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
fn between(grid: &Grid, rule: &ColumnsRule, thresholds: &Thresholds) -> Told {
    let (Some(column), Some(over)) = (grid.column(&rule.column), grid.column(&rule.over)) else {
        return Told::new(Answer::CannotTell, "the study has no such columns");
    };
    let sense = grid.study.columns[column].better.sense();
    let places = grid.row(&rule.row).map(|row| (grid.at(row, column), grid.at(row, over)));
    let found = places.and_then(|(ours, theirs)| ratio(ours, theirs, false, sense, thresholds));
    let Some(found) = found else {
        return Told::new(Answer::CannotTell, "one of the two columns has no result");
    };
    let title = |at: usize| grid.study.columns[at].title();
    let reason = format!(
        "{} over {}: {}; {:.2} x is needed{}",
        title(column),
        title(over),
        found.text(),
        rule.at_least,
        too_few(found.trials)
    );
    Told { ratio: Some(found), ..Told::new(found.reaches(rule.at_least), reason) }
}

/// Columns of a rule that have results for both rows, taken together.
fn across(grid: &Grid, rule: &GainRule, thresholds: &Thresholds) -> Told {
    let columns = columns(grid, rule);
    let gains: Vec<Gain> = columns.iter().filter_map(|at| gain(grid, rule, *at, false, thresholds)).collect();
    let (need, is_share) = match rule.size {
        GainSize::Published(gain) => (GainSize::need(gain), true),
        GainSize::AtLeast(least) => (least, false),
        GainSize::OfColumn => (1.0, false),
    };
    if gains.is_empty() {
        return Told::new(Answer::CannotTell, "one of the two has no result in these columns");
    }
    match rule.across {
        Across::Any => any(grid, &gains, columns.len(), need, is_share),
        Across::Best => best(grid, &gains, need),
        Across::All | Across::Each => all(grid, &gains, need),
    }
}

fn any(grid: &Grid, gains: &[Gain], columns: usize, need: f64, is_share: bool) -> Told {
    let answers: Vec<Answer> = gains.iter().map(|gain| gain.ratio.reaches(need)).collect();
    let open = answers.contains(&Answer::CannotTell) || gains.len() < columns;
    let answer = match (answers.contains(&Answer::Reproduced), open) {
        (true, _) => Answer::Reproduced,
        (false, true) => Answer::CannotTell,
        (false, false) => Answer::NotReproduced,
    };
    let shown = |gain: &Gain| {
        let (column, over) = (&grid.study.columns[gain.column], &grid.study.rows[gain.over]);
        let few = too_few(gain.ratio.trials);
        format!("{}: {} {}{few}", column.title(), gain.ratio.text(), over.title())
    };
    let shown: Vec<String> = gains.iter().map(shown).collect();
    let need = need_text(need, is_share);
    let largest = gains.iter().max_by(|a, b| a.ratio.value.total_cmp(&b.ratio.value));
    Told { ratio: largest.map(|gain| gain.ratio), ..Told::new(answer, format!("{}{need}", shown.join(", "))) }
}

fn need_text(need: f64, is_share: bool) -> String {
    if is_share {
        format!("; {need:.2} x is {:.0} % of the published gain", GAIN_SHARE * 100.0)
    } else {
        String::new()
    }
}

fn best(grid: &Grid, gains: &[Gain], need: f64) -> Told {
    let Some(best) = gains.iter().max_by(|a, b| a.ratio.value.total_cmp(&b.ratio.value)) else {
        return Told::new(Answer::CannotTell, "nothing was measured");
    };
    let above = gains.iter().filter(|gain| gain.ratio.value >= need).count();
    let reason = format!(
        "{}: {}; {above} of {} columns reach {need:.2} x{}",
        grid.study.columns[best.column].title(),
        best.ratio.text(),
        gains.len(),
        too_few(best.ratio.trials)
    );
    Told { ratio: Some(best.ratio), ..Told::new(best.ratio.reaches(need), reason) }
}

/// So many columns are shown with their gains, whatever they are; of more, those that fall short.
const COLUMNS_SHOWN: usize = 3;

fn all(grid: &Grid, gains: &[Gain], need: f64) -> Told {
    let answers: Vec<Answer> = gains.iter().map(|gain| gain.ratio.reaches(need)).collect();
    let answer = if answers.contains(&Answer::NotReproduced) {
        Answer::NotReproduced
    } else if answers.contains(&Answer::CannotTell) {
        Answer::CannotTell
    } else {
        Answer::Reproduced
    };
    let few = gains.len() <= COLUMNS_SHOWN;
    let below = gains.iter().filter(|gain| gain.ratio.value < need).count();
    let shown = gains.iter().filter(|gain| few || gain.ratio.value < need);
    let shown: Vec<String> =
        shown.map(|gain| format!("{} {}", name_among(grid, gain, gains), gain.ratio.text())).collect();
    let fewest = gains.iter().map(|gain| gain.ratio.trials).min().unwrap_or(0);
    if let [gain] = gains {
        let title = grid.study.columns[gain.column].title();
        let reason = format!("{title} {}; {need:.2} x is needed{}", gain.ratio.text(), too_few(fewest));
        return Told::new(answer, reason);
    }
    let reason = format!(
        "below {need:.2} x in {below} of {} columns{}{}{}",
        gains.len(),
        if shown.is_empty() { "" } else { ": " },
        shown.join(", "),
        too_few(fewest)
    );
    Told::new(answer, reason)
}

/// The heading of a gain's column; before it the word of its table, where columns of several tables have the same heading.
fn name_among(grid: &Grid, gain: &Gain, all: &[Gain]) -> String {
    let columns = &grid.study.columns;
    let (column, title) = (&columns[gain.column], columns[gain.column].title());
    let other =
        |one: &Gain| columns[one.column].title() == title && columns[one.column].table != column.table;
    if all.iter().any(other) { format!("{} {title}", column.table) } else { title.to_string() }
}

/// A judgement for each column that was measured and of which values were published.
fn each(grid: &Grid, rule: &GainRule, thresholds: &Thresholds) -> Vec<(String, Told)> {
    let measured = columns(grid, rule).into_iter().filter(|at| grid.is_measured(*at));
    measured.filter_map(|at| one(grid, rule, at, thresholds)).collect()
}

fn one(grid: &Grid, rule: &GainRule, at: usize, thresholds: &Thresholds) -> Option<(String, Told)> {
    let published = grid.published(at)?;
    let over = rule.over.as_ref()?;
    let times = published.values.get(&rule.row)? / published.values.get(over)?;
    let title = |id: &String| grid.row(id).map_or(id.clone(), |row| grid.study.rows[row].title().to_string());
    let column = grid.study.columns[at].title();
    let text = format!("{column}: {} {times:.2} x {} ({})", title(&rule.row), title(over), published.source);
    let Some(gained) = gain(grid, rule, at, false, thresholds) else {
        return Some((text, Told::new(Answer::CannotTell, "one of the two has no result")));
    };
    let need = GainSize::need(times);
    let mut reason = gained.ratio.text();
    if let (Some(second), Some(table)) = (gain(grid, rule, at, true, thresholds), grid.table_of(at))
        && let Some(told) = &table.second
    {
        reason.push_str(&format!(", {:.2} x {}", second.ratio.value, told.title));
    }
    let share = GAIN_SHARE * 100.0;
    reason.push_str(&format!("; {need:.2} x is {share:.0} % of the gain{}", too_few(gained.ratio.trials)));
    if let Some(remark) = &published.remark {
        reason.push_str(&format!("; remark {remark}"));
    }
    Some((text, Told { ratio: Some(gained.ratio), ..Told::new(gained.ratio.reaches(need), reason) }))
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
            self.told().map_or(Vec::new(), |all| all.iter().map(|e| e.p_above(share.ln())).collect());
        if each.is_empty() { 1.0 } else { intersection_union(&each) }
    }

    /// p-value of "less than this share of the best": some other row shows it.
    fn p_below(&self, share: f64) -> f64 {
        let each: Vec<f64> =
            self.told().map_or(Vec::new(), |all| all.iter().map(|e| e.p_below(share.ln())).collect());
        if each.is_empty() { 1.0 } else { partial_conjunction(&each, 1) }
    }

    /// The effects, when each rests on enough blocks.
    fn told(&self) -> Option<&[Effect]> {
        self.effects.iter().all(|effect| effect.n() >= MIN_TRIALS).then_some(&self.effects)
    }
}

fn against(grid: &Grid, row: &str) -> Vec<Against> {
    let Some(row) = grid.row(row) else { return Vec::new() };
    let of = |at: usize| Against {
        title: grid.study.columns[at].title().to_string(),
        share: grid.at(row, at).share,
        effects: grid.effects(row, at),
    };
    grid.counted().map(of).collect()
}

fn none_below(grid: &Grid, row: &str, bound: f64, alpha: f64) -> Told {
    let columns = against(grid, row);
    let low = |one: &Against| {
        one.share.filter(|share| *share < bound).map(|share| format!("{} {share:.2}", one.title))
    };
    let low: Vec<String> = columns.iter().filter_map(low).collect();
    let missing = columns.iter().filter(|one| one.share.is_none()).count();
    let open = columns.iter().filter(|one| one.told().is_none_or(<[Effect]>::is_empty)).count();
    let holds = intersection_union(&columns.iter().map(|one| one.p_at(bound)).collect::<Vec<_>>());
    let fails = partial_conjunction(&columns.iter().map(|one| one.p_below(bound)).collect::<Vec<_>>(), 1);
    let low = if low.is_empty() { "none".to_string() } else { low.join(", ") };
    let total = columns.len();
    let reason = format!(
        "below {bound:.2}: {low}; of {total} columns {missing} have no result, {} too few trials",
        open - missing
    );
    Told::new(answer(columns.is_empty(), holds, fails, alpha), reason)
}

fn most_at(grid: &Grid, row: &str, bound: f64, alpha: f64) -> Told {
    let columns = against(grid, row);
    let high = columns.iter().filter(|one| one.share.is_some_and(|share| share >= bound)).count();
    let missing = columns.iter().filter(|one| one.share.is_none()).count();
    let total = columns.len();
    let most = total / 2 + 1;
    let at: Vec<f64> = columns.iter().map(|one| one.p_at(bound)).collect();
    let below: Vec<f64> = columns.iter().map(|one| one.p_below(bound)).collect();
    let holds = partial_conjunction(&at, most);
    let fails = partial_conjunction(&below, (total + 1).saturating_sub(most));
    let shown = at.iter().filter(|p| **p <= alpha).count();
    let reason = format!(
        "{high} of {total} columns at {bound:.2} or more, {shown} of them beyond chance, {missing} without a result"
    );
    Told::new(answer(columns.is_empty(), holds, fails, alpha), reason)
}

fn answer(nothing: bool, holds: f64, fails: f64, alpha: f64) -> Answer {
    match nothing {
        false if holds <= alpha => Answer::Reproduced,
        false if fails <= alpha => Answer::NotReproduced,
        _ => Answer::CannotTell,
    }
}

fn no_rival(grid: &Grid) -> Told {
    let rows = &grid.study.rows;
    let is = |wanted: Compleat| -> Vec<&str> {
        let rivals = (0..rows.len()).filter(|row| rows[*row].rival && grid.compleat(*row) == wanted);
        rivals.map(|row| rows[row].title()).collect()
    };
    let (yes, unknown) = (is(Compleat::Yes), is(Compleat::Unknown));
    if !yes.is_empty() {
        Told::new(Answer::NotReproduced, format!("compleat: {}", yes.join(", ")))
    } else if !unknown.is_empty() {
        let no = is(Compleat::No).join(", ");
        let no = if no.is_empty() { "none" } else { &no };
        let unknown = unknown.join(", ");
        Told::new(Answer::CannotTell, format!("results are missing for {unknown}; not compleat: {no}"))
    } else {
        Told::new(Answer::Reproduced, "each has a workload below 30 %, or half of them below 85 %")
    }
}
