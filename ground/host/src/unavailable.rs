//! What a machine cannot do, as an answer.

use serde::Serialize;
use thiserror::Error;

/// Why something cannot be had here, and what would change that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Error)]
#[error("{reason}; {remedy}")]
pub struct Unavailable {
    /// The fact that stands in the way.
    pub reason: String,
    /// What the user can do.
    pub remedy: String,
}

impl Unavailable {
    /// A reason and a remedy.
    pub fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: remedy.into() }
    }
}
