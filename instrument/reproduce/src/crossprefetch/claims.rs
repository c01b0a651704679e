//! The published gains against what was measured: by ratio to APPonly, by wall time. The artifact's own timer stands
//! beside it.

use record::results::Answer;
use stats::verdict::MIN_TRIALS;
use stats::{Rules, Sense, compare};

use super::columns::Group;
use super::grid::Grid;
use super::published::{ABSTRACT, Basis, PUBLISHED, Published};
use crate::judged::{GAIN_SHARE, Judged};

/// The row that the claims are about.
pub const OURS: &str = "auto";
/// The row that they are gains over.
pub const BASE: &str = "app-only";
/// What loadline's own prefetcher may cost at most.
const HARMLESS: f64 = 0.97;

/// How many times one row's work is another's, with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Of the medians.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Trials of the side with fewer.
    pub trials: usize,
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

/// Work of `row` over that of APPonly in a column.
pub fn ratio(grid: &Grid, row: &str, column: &str, timed: bool, rules: &Rules) -> Option<Ratio> {
    let (ours, base) = (grid.cell(row, column)?, grid.cell(BASE, column)?);
    let of = |cell: &super::grid::Cell| if timed { cell.timed.clone() } else { cell.wall.clone() };
    let (ours, base) = (of(ours), of(base));
    let compared = compare(&base, &ours, Sense::HigherIsBetter, rules).ok()?;
    let interval = compared.ratio.interval;
    let trials = ours.len().min(base.len());
    Some(Ratio { value: compared.ratio.value, low: interval.low, high: interval.high, trials })
}

/// The remarks that the marks in the reasons stand for.
pub fn remarks(grid: &Grid) -> Vec<String> {
    let used = |basis: &Basis| {
        let mut columns = PUBLISHED.iter().filter(|one| one.basis == *basis);
        columns.any(|one| grid.columns.iter().any(|column| column.id == one.column))
    };
    let marked = Basis::MARKED.into_iter().filter(used);
    marked.map(|basis| format!("{}: {}", basis.mark(), basis.text())).collect()
}

/// Judges every claim of which a column was measured.
pub fn judge(grid: &Grid, rules: &Rules) -> Vec<Judged> {
    let mut judged = vec![up_to(grid, rules), at_least(grid, rules)];
    judged.extend(PUBLISHED.iter().filter_map(|one| published(grid, one, rules)));
    judged.push(harmless(grid, rules));
    judged
}

fn too_few(trials: usize) -> String {
    match trials {
        MIN_TRIALS.. => String::new(),
        1 => format!("; one trial, {MIN_TRIALS} are needed"),
        _ => format!("; {trials} trials, {MIN_TRIALS} are needed"),
    }
}

/// One line of the artifact's results.
fn published(grid: &Grid, one: &Published, rules: &Rules) -> Option<Judged> {
    let at = grid.columns.iter().position(|column| column.id == one.column)?;
    let claim = format!("{}: CrossP[+predict+opt] {:.2} x APPonly", grid.columns[at].id, one.gain());
    let judged = |answer, reason| Some(Judged { claim: claim.clone(), source: one.source, answer, reason });
    let Some(wall) = ratio(grid, OURS, one.column, false, rules) else {
        return judged(Answer::CannotTell, "one of the two has no result".into());
    };
    let need = 1.0 + GAIN_SHARE * (one.gain() - 1.0);
    let mut reason = format!("{} by wall time", wall.text());
    if let Some(timed) = ratio(grid, OURS, one.column, true, rules) {
        reason.push_str(&format!(", {:.2} x by the artifact's timer", timed.value));
    }
    reason.push_str(&format!(
        "; {need:.2} x is {:.0} % of the gain{}",
        GAIN_SHARE * 100.0,
        too_few(wall.trials)
    ));
    if one.basis == Basis::ReadInOpen
        && let (Some(wall), Some(timed)) = (
            ratio(grid, "cat-first", one.column, false, rules),
            ratio(grid, "cat-first", one.column, true, rules),
        )
    {
        reason.push_str(&format!(
            "; cat first: {:.2} x by that timer, {:.2} x by wall time",
            timed.value, wall.value
        ));
    }
    if one.basis != Basis::Plain {
        reason.push_str(&format!("; {}", one.basis.mark()));
    }
    judged(wall.reaches(need), reason)
}

/// Ratios of all columns that the paper has, with their words.
fn all(grid: &Grid, rules: &Rules) -> Vec<(&'static str, Ratio)> {
    let paper = grid.columns.iter().filter(|column| {
        let ours = ["stride", "reverse"].iter().any(|word| column.id.ends_with(word));
        // the other side of what the paper shows; the older table; RocksDB's readrandom
        !column.id.starts_with("readers-")
            && column.group != Group::Threads
            && column.id != "readrandom"
            && !(ours && column.group == Group::MultiRead)
    });
    paper.filter_map(|column| Some((column.id, ratio(grid, OURS, column.id, false, rules)?))).collect()
}

fn up_to(grid: &Grid, rules: &Rules) -> Judged {
    let ratios = all(grid, rules);
    let need = 1.0 + GAIN_SHARE * (ABSTRACT.1 - 1.0);
    let best = ratios.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let (answer, reason) = match best {
        None => (Answer::CannotTell, "nothing was measured".to_string()),
        Some((column, ratio)) => {
            let above = ratios.iter().filter(|(_, ratio)| ratio.value >= need).count();
            let reason = format!(
                "{column}: {} by wall time; {above} of {} columns reach {need:.2} x{}",
                ratio.text(),
                ratios.len(),
                too_few(ratio.trials)
            );
            (ratio.reaches(need), reason)
        }
    };
    Judged { claim: format!("I/O throughput up to {} x", ABSTRACT.1), source: "abstract", answer, reason }
}

fn at_least(grid: &Grid, rules: &Rules) -> Judged {
    let ratios = all(grid, rules);
    let need = 1.0 + GAIN_SHARE * (ABSTRACT.0 - 1.0);
    let answers: Vec<Answer> = ratios.iter().map(|(_, ratio)| ratio.reaches(need)).collect();
    let below: Vec<String> = ratios
        .iter()
        .filter(|(_, ratio)| ratio.value < need)
        .map(|(column, ratio)| format!("{column} {:.2}", ratio.value))
        .collect();
    let answer = if answers.contains(&Answer::NotReproduced) {
        Answer::NotReproduced
    } else if answers.is_empty() || answers.contains(&Answer::CannotTell) {
        Answer::CannotTell
    } else {
        Answer::Reproduced
    };
    let fewest = ratios.iter().map(|(_, ratio)| ratio.trials).min().unwrap_or(0);
    let reason = format!(
        "{} of {} columns are below {need:.2} x by wall time: {}{}",
        below.len(),
        ratios.len(),
        if below.is_empty() { "none".to_string() } else { below.join(", ") },
        too_few(fewest)
    );
    Judged { claim: format!("I/O throughput at least {} x", ABSTRACT.0), source: "abstract", answer, reason }
}

/// What the paper does not claim, and who wants to keep it switched on asks.
fn harmless(grid: &Grid, rules: &Rules) -> Judged {
    let ratios: Vec<(&str, Ratio)> = grid
        .columns
        .iter()
        .filter_map(|column| Some((column.id, ratio(grid, OURS, column.id, false, rules)?)))
        .collect();
    // Worse is what lies wholly below; trials too few to tell leave it open.
    let worse = |ratio: &Ratio| ratio.trials >= MIN_TRIALS && ratio.high < HARMLESS;
    let below: Vec<String> = ratios
        .iter()
        .filter(|(_, ratio)| ratio.value < HARMLESS)
        .map(|(column, ratio)| format!("{column} {}", ratio.text()))
        .collect();
    let answer = if ratios.iter().any(|(_, ratio)| worse(ratio)) {
        Answer::NotReproduced
    } else if !ratios.is_empty()
        && ratios.iter().all(|(_, ratio)| ratio.reaches(HARMLESS) == Answer::Reproduced)
    {
        Answer::Reproduced
    } else {
        Answer::CannotTell
    };
    let fewest = ratios.iter().map(|(_, ratio)| ratio.trials).min().unwrap_or(0);
    let below = if below.is_empty() { "no column".to_string() } else { below.join(", ") };
    Judged {
        claim: format!("never below {HARMLESS} x APPonly"),
        source: "docs/prefetch.md, not the paper",
        answer,
        reason: format!("below: {below}{}", too_few(fewest)),
    }
}
