//! What an undo did.

use std::fmt;

use crate::Resource;

/// What became of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Taken away.
    Undone,
    /// Was not there any more (or never came to be).
    AlreadyGone,
    /// Will go away by itself when its last user lets go of it; says who or why.
    Deferred(String),
    /// Something else is found in its place, which is not ours and was not touched.
    LeftAlone(String),
    /// Could not be taken away; the entry stays in the journal.
    Failed(String),
}

impl Outcome {
    /// Whether the entry need not be tried again.
    pub fn is_final(&self) -> bool {
        !matches!(self, Outcome::Failed(_))
    }
}

/// One resource and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoStep {
    /// The resource.
    pub resource: Resource,
    /// What became of it.
    pub outcome: Outcome,
}

/// What an undo did, in the order in which it was done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UndoReport {
    /// One step for each resource.
    pub steps: Vec<UndoStep>,
}

impl UndoReport {
    pub(crate) fn push(&mut self, resource: Resource, outcome: Outcome) {
        tracing::debug!(%resource, ?outcome, "undo");
        self.steps.push(UndoStep { resource, outcome });
    }

    /// Whether everything is gone now: nothing failed and nothing is deferred.
    pub fn is_clean(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step.outcome, Outcome::Failed(_) | Outcome::Deferred(_)))
    }

    /// Whether anything could not be undone.
    pub fn has_failures(&self) -> bool {
        self.steps.iter().any(|step| !step.outcome.is_final())
    }
}

impl fmt::Display for UndoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, UndoStep { resource, outcome }) in self.steps.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            match outcome {
                Outcome::Undone => write!(f, "removed     {resource}")?,
                Outcome::AlreadyGone => write!(f, "gone before {resource}")?,
                Outcome::Deferred(why) => write!(f, "deferred    {resource}: {why}")?,
                Outcome::LeftAlone(why) => write!(f, "left alone  {resource}: {why}")?,
                Outcome::Failed(why) => write!(f, "FAILED      {resource}: {why}")?,
            }
        }
        Ok(())
    }
}
