//! A claim with its answer.

use record::results::Answer;

/// Share of a published gain that must be there for a claim to count as reproduced.
pub const GAIN_SHARE: f64 = 0.8;

/// A claim with its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The claim, as published.
    pub claim: String,
    /// Where it stands.
    pub source: &'static str,
    /// The answer.
    pub answer: Answer,
    /// Why.
    pub reason: String,
}

/// The answer in words.
pub fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::Reproduced => "reproduced",
        Answer::NotReproduced => "not reproduced",
        Answer::CannotTell => "cannot tell",
    }
}
