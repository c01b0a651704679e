//! What the cuts have shown, for people.

use std::fmt;
use std::time::Duration;

use sql::tpcc::{Condition, Loss};

use super::options::DatabaseOptions;

/// What a chain of power cuts has shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cuts {
    /// The stack as written.
    pub stack: String,
    /// The engine, and what it was told of commits (`innodb_flush_log_at_trx_commit` and its like).
    pub engine: String,
    /// Seed of it all.
    pub seed: u64,
    /// Cuts asked for.
    pub asked: u32,
    /// Cuts made.
    pub cuts: u32,
    /// Of these, brought up and judged.
    pub judged: u32,
    /// Commits that were acknowledged before a cut.
    pub acknowledged: usize,
    /// Of these, not found.
    pub lost: usize,
    /// Cuts after which some were not found.
    pub cuts_with_loss: u32,
    /// Commits under way at a cut.
    pub unknown: usize,
    /// Of these, found.
    pub unknown_found: usize,
    /// Rows that nobody wrote, or that were there after an earlier cut and are gone.
    pub foreign: usize,
    /// Cuts after which a consistency condition was violated.
    pub inconsistent: u32,
    /// One of what is wrong.
    pub example: Option<String>,
    /// Why the database did not come up again.
    pub broken: Option<String>,
    recoveries: Vec<Duration>,
}

impl Cuts {
    /// None yet, of those that are asked for.
    pub fn new(options: &DatabaseOptions) -> Cuts {
        Cuts {
            asked: options.cuts,
            stack: options.spec.to_string(),
            engine: format!("{}, flush={}", options.engine, options.flush.number()),
            seed: options.seed,
            ..Cuts::default()
        }
    }

    pub(super) fn recovered(&mut self, took: Duration) {
        self.recoveries.push(took);
    }

    pub(super) fn judged(&mut self, violated: &[Condition], loss: &Loss) {
        self.judged += 1;
        self.acknowledged += loss.acknowledged;
        self.lost += loss.lost;
        self.cuts_with_loss += u32::from(loss.lost > 0);
        self.unknown += loss.unknown;
        self.unknown_found += loss.unknown_found;
        self.foreign += loss.foreign + loss.unsettled;
        self.inconsistent += u32::from(!violated.is_empty());
        if self.example.is_none() {
            let condition = violated.first().map(|one| {
                format!("condition {} ({}) is violated {} times", one.number, one.rule, one.violations)
            });
            self.example = condition.or_else(|| loss.example.clone());
        }
    }

    /// Whether nothing acknowledged was lost, nothing is inconsistent, nothing appeared from nowhere.
    pub fn is_clean(&self) -> bool {
        self.broken.is_none() && self.inconsistent == 0 && self.lost + self.foreign == 0
    }

    pub(super) fn short(&self) -> String {
        format!("{} commits acknowledged, {} lost", self.acknowledged, self.lost)
    }
}

impl fmt::Display for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.cuts < self.asked { format!(" of {}", self.asked) } else { String::new() };
        writeln!(f, "{} on {}: {}{of} power cuts (seed {})", self.engine, self.stack, self.cuts, self.seed)?;
        writeln!(f, "  acknowledged before a cut   {} commits", self.acknowledged)?;
        writeln!(f, "  of these lost               {} (after {} cuts)", self.lost, self.cuts_with_loss)?;
        writeln!(
            f,
            "  under way at a cut          {} commits, of which {} are there",
            self.unknown, self.unknown_found
        )?;
        writeln!(f, "  rows that nobody wrote      {}", self.foreign)?;
        writeln!(f, "  consistency violated        after {} of {} cuts", self.inconsistent, self.judged)?;
        let mut recoveries = self.recoveries.clone();
        recoveries.sort_unstable();
        if let (Some(median), Some(longest)) = (recoveries.get(recoveries.len() / 2), recoveries.last()) {
            let (median, longest) = (median.as_secs_f64(), longest.as_secs_f64());
            writeln!(f, "  power-on to first answer    {median:.2} s (median), {longest:.2} s (longest)")?;
        }
        if let Some(broken) = &self.broken {
            writeln!(f, "  DOES NOT COME UP AGAIN      {broken}")?;
        }
        if let Some(example) = &self.example {
            writeln!(f, "  for example                 {example}")?;
        }
        let verdict = match (self.is_clean(), self.judged) {
            (false, _) => "VIOLATED",
            (true, 0) => "no cut was judged: nothing can be said",
            (true, _) => "nothing acknowledged was lost",
        };
        write!(f, "  {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_said_with_an_example() {
        let mut cuts = Cuts {
            stack: "ext4@980pro".into(),
            engine: "innodb, flush=0".into(),
            asked: 9,
            cuts: 2,
            ..Cuts::default()
        };
        assert!(cuts.to_string().ends_with("no cut was judged: nothing can be said"), "{cuts}");
        assert!(cuts.to_string().starts_with("innodb, flush=0 on ext4@980pro: 2 of 9 power cuts"), "{cuts}");
        cuts.judged(&[], &Loss { acknowledged: 50, unknown: 3, unknown_found: 1, ..Loss::default() });
        assert!(cuts.is_clean() && cuts.to_string().ends_with("nothing acknowledged was lost"), "{cuts}");
        let lost = Loss { acknowledged: 50, lost: 7, example: Some("this one".into()), ..Loss::default() };
        cuts.judged(&[], &lost);
        let text = cuts.to_string();
        assert!(!cuts.is_clean() && text.contains("7 (after 1 cuts)") && text.contains("this one"), "{text}");
        assert!(text.contains("100 commits") && text.ends_with("VIOLATED"), "{text}");
    }
}
