//! Judges the claims of a study against what was measured: by ratio, never by absolute time. Claims about the rows of an
//! evaluation are in `gains`.

mod evidence;
mod gains;

use stats::effect::FEWEST;
use stats::many::{intersection_union, partial_conjunction};
use stats::{Effect, Thresholds};

use self::evidence::{Evidence, PendingClaim, judge_together};
use crate::blocks;
use crate::grid::Grid;
use crate::tail::ShortTail;
use study::claim::{RatioRule, Rule};
use study::plan;
use study::results::{Answer, Cell, Judgement, MetricName, Run};
use study::{Claim, Selector, Study, StudyError};

/// Tolerance of `expect` when a claim gives none.
const TOLERANCE: f64 = 0.2;

/// Judges every claim of the run's study, in the study's order, and all together: those that are called reproduced are a family, and
/// those that are not are another ([`stats::many::benjamini_hochberg`]). So a claim alone is wrongly called either way in at most `alpha` of
/// cases, and of all that are called so at most that share is wrong on average.
///
/// # Errors
/// The stored study cannot be read.
pub fn claims(run: &Run, thresholds: &Thresholds) -> Result<Vec<Judgement>, StudyError> {
    let open: Vec<PendingClaim> = match Grid::of(run) {
        Some(grid) => grid
            .study
            .claims
            .iter()
            .flat_map(|claim| open(run, Some(&grid), claim.as_ref(), thresholds))
            .collect(),
        None => {
            let study = Study::from_stored(&run.study)?;
            study.claims.iter().flat_map(|claim| open(run, None, claim.as_ref(), thresholds)).collect()
        }
    };
    Ok(judge_together(open, thresholds.alpha))
}

fn open(run: &Run, grid: Option<&Grid>, claim: &Claim, thresholds: &Thresholds) -> Vec<PendingClaim> {
    match (&claim.rule, grid) {
        (Rule::Ratio(rule), _) => vec![ratio(run, claim, rule, thresholds)],
        (_, Some(grid)) => gains::open(grid, claim, thresholds),
        (_, None) => vec![PendingClaim {
            judgement: Judgement {
                reason: "the study has no rows and columns".into(),
                ..Judgement::open(claim.text.clone().unwrap_or_default(), claim.source.clone())
            },
            evidence: None,
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

fn ratio(run: &Run, claim: &Claim, rule: &RatioRule, thresholds: &Thresholds) -> PendingClaim {
    let text = claim.text.clone().unwrap_or_else(|| describe(run, rule));
    let blank = Judgement::open(text, claim.source.clone());
    let unknown = |reason: String, blank: Judgement| PendingClaim {
        judgement: Judgement { reason, ..blank },
        evidence: None,
    };
    let (Some(of), Some(to)) = (only(run, &rule.ratio.of), only(run, &rule.ratio.to)) else {
        return unknown("the claim does not choose two cells of this run".into(), blank);
    };
    let trials = |cell: &Cell| blocks::of_cell(run, cell.id, |outcome| rule.metric.of(outcome));
    for cell in [of, to] {
        if trials(cell).is_empty() {
            return unknown(
                format!("{} has no result{}", cell.label(), missing_value_reason(run, cell)),
                blank,
            );
        }
    }
    let effect = match stats::blocked::effect(&trials(to), &trials(of)) {
        Ok(effect) => effect,
        Err(error) => return unknown(error.to_string(), blank),
    };
    // what lies beyond either end has a chance of alpha
    let interval = effect.interval(1.0 - 2.0 * thresholds.alpha);
    let (value, low, high) = (effect.estimate().exp(), interval.low.exp(), interval.high.exp());
    let n = effect.n();
    if n < FEWEST {
        let reason = format!("{n} trials; {FEWEST} on each side are needed");
        return unknown(reason, Judgement { measured: Some(value), ..blank });
    }
    if let Some(short) = ShortTail::of_cells(rule.metric, [(run, of.id), (run, to.id)]) {
        return unknown(short.to_string(), Judgement { measured: Some(value), ..blank });
    }
    let range = range_of(rule);
    let judgement = Judgement {
        measured: Some(value),
        interval: interval.reached().then_some((low, high)),
        reason: range.compared(value, low, high),
        ..blank
    };
    PendingClaim { judgement, evidence: Some(range.evidence(&effect)) }
}

impl Range {
    /// Reproduced when it lies within both ends, not when it is shown to lie outside of one.
    fn evidence(&self, effect: &Effect) -> Evidence {
        let ends = [
            (self.low > 0.0).then(|| (effect.p_above(self.low.ln()), effect.p_below(self.low.ln()))),
            self.high.is_finite().then(|| (effect.p_below(self.high.ln()), effect.p_above(self.high.ln()))),
        ];
        let (holds, fails): (Vec<f64>, Vec<f64>) = ends.into_iter().flatten().unzip();
        Evidence { holds: intersection_union(&holds), fails: partial_conjunction(&fails, 1) }
    }

    fn compared(&self, value: f64, low: f64, high: f64) -> String {
        let shown = format!("{value:.3} ({low:.3} to {high:.3})");
        if self.low <= low && high <= self.high {
            format!("{shown} is within {}", self.shown())
        } else if high < self.low || self.high < low {
            format!("{shown} is outside of {}", self.shown())
        } else {
            format!("{shown} is partly within {}: more trials would narrow it", self.shown())
        }
    }

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
fn missing_value_reason(run: &Run, cell: &Cell) -> String {
    use study::results::Status;
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
        MetricName::LatencyP999 => "99.9th percentile of latency",
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
