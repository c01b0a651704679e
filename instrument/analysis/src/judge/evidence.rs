//! What is known of a claim, and the answers to all claims of a run together.

use stats::many::benjamini_hochberg;

use study::results::{Answer, Judgement};

/// What the trials say of a claim: small p-values where it holds, and where it fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Evidence {
    /// Against "it fails".
    pub(super) holds: f64,
    /// Against "it holds".
    pub(super) fails: f64,
}

/// A claim with what is known of it, before it is judged among the others.
pub(super) struct PendingClaim {
    pub(super) judgement: Judgement,
    /// `None`: nothing could be concluded from the trials that there are.
    pub(super) evidence: Option<Evidence>,
}

/// The answers: what is called reproduced is a family, and what is not is another.
pub(super) fn judge_together(open: Vec<PendingClaim>, alpha: f64) -> Vec<Judgement> {
    let known: Vec<Evidence> = open.iter().filter_map(|one| one.evidence).collect();
    let adjusted = |p: fn(&Evidence) -> f64| benjamini_hochberg(&known.iter().map(p).collect::<Vec<_>>());
    let number = known.len();
    let (holds, fails) = (adjusted(|one| one.holds), adjusted(|one| one.fails));
    let mut among = holds.into_iter().zip(fails);
    let judged = |PendingClaim { mut judgement, evidence }: PendingClaim| {
        let Some((evidence, (holds, fails))) = evidence.and_then(|known| Some((known, among.next()?))) else {
            return judgement;
        };
        judgement.answer = if holds <= alpha {
            Answer::Reproduced
        } else if fails <= alpha {
            Answer::NotReproduced
        } else {
            Answer::CannotTell
        };
        let alone = evidence.holds.min(evidence.fails);
        if judgement.answer == Answer::CannotTell && alone <= alpha {
            let p = holds.min(fails);
            judgement.reason.push_str(&format!("; p {alone:.3}, among {number} claims {p:.3}"));
        }
        judgement
    };
    open.into_iter().map(judged).collect()
}
