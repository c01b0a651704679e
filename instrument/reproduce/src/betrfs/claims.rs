//! The paper's claims against what was measured: by ratio, never by absolute value.

use record::results::Answer;
use stats::compleat::{BAD, Compleat, GOOD};
use stats::verdict::MIN_TRIALS;
use stats::{Rules, compare};

use super::columns::{COLUMNS, Group};
use super::grid::Grid;
use crate::judged::{GAIN_SHARE, Judged};

/// The row that the claims are about.
const OURS: &str = "betrfs";

/// A published gain over the best of the other file systems.
struct Gain {
    claim: &'static str,
    columns: &'static [&'static str],
    times: f64,
}

const GAINS: [Gain; 3] = [
    Gain {
        claim: "random writes: up to 6 x the fastest other file system",
        columns: &["rand-write-4096", "rand-write-4"],
        times: 6.0,
    },
    Gain { claim: "Dovecot IMAP: 1.13 x the other file systems", columns: &["mailserver"], times: 1.13 },
    Gain { claim: "rsync: 1.8 x the other file systems", columns: &["rsync", "rsync-inplace"], times: 1.8 },
];

const SOURCE: &str = "EuroSys 2022, abstract";

/// Judges every claim.
pub fn judge(grid: &Grid, rules: &Rules) -> Vec<Judged> {
    let mut judged: Vec<Judged> = GAINS.iter().map(|gain| self::gain(grid, gain, rules)).collect();
    judged.push(none_bad(grid));
    judged.push(most_good(grid));
    judged.push(no_rival(grid));
    judged
}

/// The claim says "up to": the best of its columns counts.
fn gain(grid: &Grid, gain: &Gain, rules: &Rules) -> Judged {
    let need = 1.0 + GAIN_SHARE * (gain.times - 1.0);
    let judged = |answer, reason: String| Judged { claim: gain.claim.into(), source: SOURCE, answer, reason };
    let mut seen: Vec<(Answer, String)> = Vec::new();
    for id in gain.columns {
        let Some(at) = grid.columns.iter().position(|column| column.id == *id) else { continue };
        let Some(ours) = grid.cell(OURS, id).filter(|cell| cell.median.is_some()) else { continue };
        let rivals = (0..grid.rows.len()).filter(|row| grid.rows[*row].is_rival());
        let share = |row: &usize| grid.cells[*row][at].share.unwrap_or(-1.0);
        let best = rivals.max_by(|a, b| share(a).total_cmp(&share(b))).filter(|row| share(row) >= 0.0);
        let Some(best) = best else { continue };
        let theirs = &grid.cells[best][at];
        let name = format!("{}: {} x {}", grid.columns[at].title, "{}", grid.rows[best].title);
        let Ok(compared) = compare(&theirs.values, &ours.values, grid.columns[at].sense, rules) else {
            continue;
        };
        let (value, low, high) =
            (compared.ratio.value, compared.ratio.interval.low, compared.ratio.interval.high);
        let shown = name.replace("{}", &format!("{value:.2} ({low:.2} to {high:.2})"));
        let fewest = ours.values.len().min(theirs.values.len());
        seen.push(if fewest < MIN_TRIALS {
            (Answer::CannotTell, format!("{shown}; {fewest} trials, {MIN_TRIALS} are needed"))
        } else if low >= need {
            (Answer::Reproduced, shown)
        } else if high < need {
            (Answer::NotReproduced, shown)
        } else {
            (Answer::CannotTell, shown)
        });
    }
    if seen.is_empty() {
        return judged(Answer::CannotTell, "betrfs or the others have no result in these columns".into());
    }
    let of = |answer| seen.iter().any(|(one, _)| *one == answer);
    let answer = match (of(Answer::Reproduced), of(Answer::CannotTell) || seen.len() < gain.columns.len()) {
        (true, _) => Answer::Reproduced,
        (false, true) => Answer::CannotTell,
        (false, false) => Answer::NotReproduced,
    };
    let shown: Vec<&str> = seen.iter().map(|(_, shown)| shown.as_str()).collect();
    judged(
        answer,
        format!("{}; {need:.2} x is {:.0} % of the published gain", shown.join(", "), GAIN_SHARE * 100.0),
    )
}

/// Our shares in the columns of Table 3 and Figure 2, with titles.
fn ours(grid: &Grid) -> Vec<(&'static str, Option<f64>)> {
    let Some(row) = grid.rows.iter().position(|row| row.id == OURS) else { return Vec::new() };
    let columns = COLUMNS.iter().filter(|column| column.group != Group::Corrected);
    columns.map(|column| column.title).zip(grid.shares(row)).collect()
}

fn none_bad(grid: &Grid) -> Judged {
    let shares = ours(grid);
    let bad: Vec<String> = shares
        .iter()
        .filter_map(|(title, share)| {
            share.filter(|share| *share < BAD).map(|share| format!("{title} {share:.2}"))
        })
        .collect();
    let missing = shares.iter().filter(|(_, share)| share.is_none()).count();
    let (answer, reason) = if !bad.is_empty() {
        (Answer::NotReproduced, format!("below {BAD:.2}: {}", bad.join(", ")))
    } else if shares.is_empty() || missing > 0 {
        (Answer::CannotTell, format!("{missing} of {} columns have no result", shares.len()))
    } else {
        (Answer::Reproduced, format!("none of {} columns is below {BAD:.2}", shares.len()))
    };
    Judged {
        claim: "v0.6: no workload below 30 % of the best file system".into(),
        source: SOURCE,
        answer,
        reason,
    }
}

fn most_good(grid: &Grid) -> Judged {
    let shares = ours(grid);
    let good = shares.iter().filter(|(_, share)| share.is_some_and(|share| share >= GOOD)).count();
    let missing = shares.iter().filter(|(_, share)| share.is_none()).count();
    let answer = if 2 * good > shares.len() {
        Answer::Reproduced
    } else if 2 * (good + missing) > shares.len() || shares.is_empty() {
        Answer::CannotTell
    } else {
        Answer::NotReproduced
    };
    let reason =
        format!("{good} of {} columns at {GOOD:.2} or more, {missing} without a result", shares.len());
    Judged {
        claim: "v0.6: most workloads at 85 % of the best or more".into(),
        source: SOURCE,
        answer,
        reason,
    }
}

fn no_rival(grid: &Grid) -> Judged {
    let rivals: Vec<usize> = (0..grid.rows.len()).filter(|row| grid.rows[*row].is_rival()).collect();
    let is = |wanted: Compleat| -> Vec<&str> {
        rivals.iter().filter(|row| grid.compleat(**row) == wanted).map(|row| grid.rows[*row].title).collect()
    };
    let (yes, unknown) = (is(Compleat::Yes), is(Compleat::Unknown));
    let (answer, reason) = if !yes.is_empty() {
        (Answer::NotReproduced, format!("compleat: {}", yes.join(", ")))
    } else if !unknown.is_empty() {
        let no = is(Compleat::No).join(", ");
        let no = if no.is_empty() { "none" } else { &no };
        (Answer::CannotTell, format!("results are missing for {}; not compleat: {no}", unknown.join(", ")))
    } else {
        (Answer::Reproduced, "each has a workload below 30 %, or half of them below 85 %".into())
    };
    Judged { claim: "no other file system is compleat".into(), source: SOURCE, answer, reason }
}
