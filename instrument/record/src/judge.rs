//! Judges the claims of a study against what was measured: by ratio, never by absolute time. Claims about the rows of an
//! evaluation are in `gains`.

mod gains;

use stats::Thresholds;
use stats::effect::FEWEST;
use stats::judge::judge as find;

use crate::blocks;
use crate::compare::sense;
use crate::grid::Grid;
use crate::plan;
use crate::results::{Answer, Cell, Judgement, MetricName, Run};
use crate::study::claim::{RatioRule, Rule};
use crate::study::{Claim, Selector, Study, StudyError};

/// Tolerance of `expect` when a claim gives none.
const TOLERANCE: f64 = 0.2;

/// Judges every claim of the run's study, in the study's order.
///
/// # Errors
/// The stored study cannot be read.
pub fn claims(run: &Run, thresholds: &Thresholds) -> Result<Vec<Judgement>, StudyError> {
    if let Some(grid) = Grid::of(run) {
        let claims: Vec<Claim> = grid.study.claims.iter().map(|claim| claim.as_ref().clone()).collect();
        return Ok(claims.iter().flat_map(|claim| judge(run, Some(&grid), claim, thresholds)).collect());
    }
    let study = Study::from_stored(&run.study)?;
    Ok(study.claims.iter().flat_map(|claim| judge(run, None, claim.as_ref(), thresholds)).collect())
}

fn judge(run: &Run, grid: Option<&Grid>, claim: &Claim, thresholds: &Thresholds) -> Vec<Judgement> {
    match (&claim.rule, grid) {
        (Rule::Ratio(rule), _) => vec![ratio(run, claim, rule, thresholds)],
        (_, Some(grid)) => gains::judge(grid, claim, thresholds),
        (_, None) => vec![Judgement {
            reason: "the study has no rows and columns".into(),
            ..Judgement::open(claim.text.clone().unwrap_or_default(), claim.source.clone())
        }],
    }
}

/// Exit code for a set of judgements: 0 all reproduced, 1 some not, 4 of some it cannot be told.
pub fn exit_code(judgements: &[Judgement]) -> u8 {
    let some = |answer| judgements.iter().any(|judgement| judgement.answer == answer);
    if some(Answer::NotReproduced) {
        1
    } else if some(Answer::CannotTell) {
        4
    } else {
        0
    }
}

/// The ratios that a claim allows.
struct Range {
    low: f64,
    high: f64,
}

fn range_of(claim: &RatioRule) -> Range {
    let tolerance = claim.tolerance.map_or(TOLERANCE, |share| share.0);
    match (claim.expect, claim.at_least, claim.at_most) {
        (Some(expect), ..) => Range { low: expect * (1.0 - tolerance), high: expect * (1.0 + tolerance) },
        (_, Some(least), _) => Range { low: least, high: f64::INFINITY },
        (.., most) => Range { low: 0.0, high: most.unwrap_or(f64::INFINITY) },
    }
}

fn ratio(run: &Run, claim: &Claim, rule: &RatioRule, thresholds: &Thresholds) -> Judgement {
    let text = claim.text.clone().unwrap_or_else(|| describe(run, rule));
    let blank = Judgement::open(text, claim.source.clone());
    let (Some(of), Some(to)) = (only(run, &rule.ratio.of), only(run, &rule.ratio.to)) else {
        return Judgement { reason: "the claim does not choose two cells of this run".into(), ..blank };
    };
    let trials = |cell: &Cell| blocks::of_cell(run, cell.id, |outcome| rule.metric.of(outcome));
    for cell in [of, to] {
        if trials(cell).is_empty() {
            return Judgement {
                reason: format!("{} has no result{}", cell.label(), why_none(run, cell)),
                ..blank
            };
        }
    }
    let effect = match stats::blocked::effect(&trials(to), &trials(of)) {
        Ok(effect) => effect,
        Err(error) => return Judgement { reason: error.to_string(), ..blank },
    };
    let found = find(&effect, sense(rule.metric), thresholds);
    let (value, interval) = (found.ratio, found.interval);
    let (answer, reason) = match found.n {
        have if have < FEWEST => {
            (Answer::CannotTell, format!("{have} trials; {FEWEST} on each side are needed"))
        }
        _ => within(&range_of(rule), value, interval.low, interval.high),
    };
    Judgement {
        measured: Some(value),
        interval: (interval.reached() && found.n >= FEWEST).then_some((interval.low, interval.high)),
        answer,
        reason,
        ..blank
    }
}

/// Reproduced when the whole interval is allowed, not when none of it is.
fn within(range: &Range, value: f64, low: f64, high: f64) -> (Answer, String) {
    let shown = format!("{value:.3} ({low:.3} to {high:.3})");
    if range.low <= low && high <= range.high {
        (Answer::Reproduced, format!("{shown} is within {}", range.shown()))
    } else if high < range.low || range.high < low {
        (Answer::NotReproduced, format!("{shown} is outside of {}", range.shown()))
    } else {
        (
            Answer::CannotTell,
            format!("{shown} is partly within {}: more trials would narrow it", range.shown()),
        )
    }
}

impl Range {
    fn shown(&self) -> String {
        match (self.low > 0.0, self.high.is_finite()) {
            (true, true) => format!("{:.3} to {:.3}", self.low, self.high),
            (true, false) => format!("{:.3} or more", self.low),
            _ => format!("{:.3} or less", self.high),
        }
    }
}

fn only<'a>(run: &'a Run, selector: &Selector) -> Option<&'a Cell> {
    match plan::choose(&run.cells, selector).as_slice() {
        [one] => Some(one),
        _ => None,
    }
}

/// Why a cell has no result, from its last trial.
fn why_none(run: &Run, cell: &Cell) -> String {
    use crate::results::Status;
    match run.trials_of(cell.id).last().map(|trial| &trial.status) {
        None => ": it has not run".into(),
        Some(Status::Unavailable { reason, .. }) => format!(": {reason}"),
        Some(Status::Failed { message }) => format!(": {message}"),
        Some(Status::TimedOut { after_seconds }) => format!(": it took longer than {after_seconds} s"),
        Some(Status::Interrupted) => ": it was interrupted".into(),
        Some(Status::Done) => ": nothing was measured".into(),
    }
}

fn describe(run: &Run, claim: &RatioRule) -> String {
    let name = |selector| only(run, selector).map_or("?".to_string(), Cell::label);
    let metric = match claim.metric {
        MetricName::Throughput => "throughput",
        MetricName::Bandwidth => "bandwidth",
        MetricName::LatencyP50 => "median latency",
        MetricName::LatencyP99 => "99th percentile of latency",
        MetricName::LatencyMean => "mean latency",
        MetricName::Seconds => "time",
    };
    let bound = match (claim.expect, claim.at_least, claim.at_most) {
        (Some(expect), ..) => {
            let percent = claim.tolerance.map_or(TOLERANCE, |share| share.0) * 100.0;
            format!("is {expect} (within {percent:.0} %)")
        }
        (_, Some(least), _) => format!("is at least {least}"),
        (.., most) => format!("is at most {}", most.unwrap_or(f64::INFINITY)),
    };
    format!("{metric} of {} to {} {bound}", name(&claim.ratio.of), name(&claim.ratio.to))
}
