//! Claims about the rows of an evaluation: gains, shares of the best row, compleat rivals.

use stats::compleat::Compleat;
use stats::verdict::MIN_TRIALS;
use stats::{Rules, Sense, compare};

use crate::grid::{Grid, Place};
use crate::results::{Answer, Judgement};
use crate::study::Claim;
use crate::study::claim::{Across, GAIN_SHARE, GainRule, GainSize, Rule};

/// Judges a claim; one that speaks of each column by itself gives several judgements.
pub(super) fn judge(grid: &Grid, claim: &Claim, rules: &Rules) -> Vec<Judgement> {
    match &claim.rule {
        Rule::Ratio(_) => Vec::new(),
        Rule::Gain(rule) if rule.across == Across::Each => {
            each(grid, rule, rules).into_iter().map(|(text, told)| told.of(claim, text)).collect()
        }
        Rule::Gain(rule) => {
            let text = format!("{} over {}", rule.row, rule.over.as_deref().unwrap_or("the best rival"));
            vec![across(grid, rule, rules).of(claim, text)]
        }
        Rule::NoneBelow { row, share } => {
            vec![none_below(grid, row, *share).of(claim, format!("{row}: no column below {share}"))]
        }
        Rule::MostAt { row, share } => {
            vec![most_at(grid, row, *share).of(claim, format!("{row}: most columns at {share}"))]
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
fn ratio(ours: &Place, theirs: &Place, second: bool, sense: Sense, rules: &Rules) -> Option<Ratio> {
    let of = |place: &Place| if second { place.second.clone() } else { place.values.clone() };
    let (ours, theirs) = (of(ours), of(theirs));
    let compared = compare(&theirs, &ours, sense, rules).ok()?;
    let interval = compared.ratio.interval;
    let trials = ours.len().min(theirs.len());
    Some(Ratio { value: compared.ratio.value, low: interval.low, high: interval.high, trials })
}

/// A gain in one column.
struct Gain {
    column: usize,
    /// The row that it is over.
    over: usize,
    ratio: Ratio,
}

/// The gain in a column; `None` when one of the rows has no result.
fn gain(grid: &Grid, rule: &GainRule, column: usize, second: bool, rules: &Rules) -> Option<Gain> {
    let row = grid.row(&rule.row)?;
    let over = match &rule.over {
        Some(over) => grid.row(over)?,
        None => best_rival(grid, column)?,
    };
    let sense = grid.study.columns[column].better.sense();
    let ratio = ratio(grid.at(row, column), grid.at(over, column), second, sense, rules)?;
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

/// Columns of a rule that have results for both rows, taken together.
fn across(grid: &Grid, rule: &GainRule, rules: &Rules) -> Told {
    let columns = columns(grid, rule);
    let gains: Vec<Gain> = columns.iter().filter_map(|at| gain(grid, rule, *at, false, rules)).collect();
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
    let shown: Vec<String> = shown
        .map(|gain| format!("{} {}", grid.study.columns[gain.column].title(), gain.ratio.text()))
        .collect();
    let fewest = gains.iter().map(|gain| gain.ratio.trials).min().unwrap_or(0);
    let reason = format!(
        "{below} of {} columns are below {need:.2} x{}{}{}",
        gains.len(),
        if shown.is_empty() { "" } else { ": " },
        shown.join(", "),
        too_few(fewest)
    );
    Told::new(answer, reason)
}

/// A judgement for each column that was measured and of which values were published.
fn each(grid: &Grid, rule: &GainRule, rules: &Rules) -> Vec<(String, Told)> {
    let measured = columns(grid, rule).into_iter().filter(|at| grid.is_measured(*at));
    measured.filter_map(|at| one(grid, rule, at, rules)).collect()
}

fn one(grid: &Grid, rule: &GainRule, at: usize, rules: &Rules) -> Option<(String, Told)> {
    let published = grid.published(at)?;
    let over = rule.over.as_ref()?;
    let times = published.values.get(&rule.row)? / published.values.get(over)?;
    let title = |id: &String| grid.row(id).map_or(id.clone(), |row| grid.study.rows[row].title().to_string());
    let column = grid.study.columns[at].title();
    let text = format!("{column}: {} {times:.2} x {} ({})", title(&rule.row), title(over), published.source);
    let Some(gained) = gain(grid, rule, at, false, rules) else {
        return Some((text, Told::new(Answer::CannotTell, "one of the two has no result")));
    };
    let need = GainSize::need(times);
    let mut reason = gained.ratio.text();
    if let (Some(second), Some(table)) = (gain(grid, rule, at, true, rules), grid.table_of(at))
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

/// Titles and shares of a row in all columns that count.
fn shares(grid: &Grid, row: &str) -> Vec<(String, Option<f64>)> {
    let Some(row) = grid.row(row) else { return Vec::new() };
    let titles = grid.counted().map(|at| grid.study.columns[at].title().to_string());
    titles.zip(grid.shares(row)).collect()
}

fn none_below(grid: &Grid, row: &str, bound: f64) -> Told {
    let shares = shares(grid, row);
    let low = |(title, share): &(String, Option<f64>)| {
        share.filter(|share| *share < bound).map(|share| format!("{title} {share:.2}"))
    };
    let low: Vec<String> = shares.iter().filter_map(low).collect();
    let missing = shares.iter().filter(|(_, share)| share.is_none()).count();
    if !low.is_empty() {
        Told::new(Answer::NotReproduced, format!("below {bound:.2}: {}", low.join(", ")))
    } else if shares.is_empty() || missing > 0 {
        Told::new(Answer::CannotTell, format!("{missing} of {} columns have no result", shares.len()))
    } else {
        Told::new(Answer::Reproduced, format!("none of {} columns is below {bound:.2}", shares.len()))
    }
}

fn most_at(grid: &Grid, row: &str, bound: f64) -> Told {
    let shares = shares(grid, row);
    let high = shares.iter().filter(|(_, share)| share.is_some_and(|share| share >= bound)).count();
    let missing = shares.iter().filter(|(_, share)| share.is_none()).count();
    let answer = if 2 * high > shares.len() {
        Answer::Reproduced
    } else if 2 * (high + missing) > shares.len() || shares.is_empty() {
        Answer::CannotTell
    } else {
        Answer::NotReproduced
    };
    let total = shares.len();
    Told::new(answer, format!("{high} of {total} columns at {bound:.2} or more, {missing} without a result"))
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
