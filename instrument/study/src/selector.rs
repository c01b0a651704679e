//! Chooses cells of a study.

use serde::{Deserialize, Serialize};
use spec::StackSpec;

use super::field::Sweeps;
use crate::results::Parameter;

/// Chooses cells: what is left out matches every value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Selector {
    /// A workload's label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// A stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<StackSpec>,
    /// Values of swept parameters.
    #[serde(skip_serializing_if = "Sweeps::is_empty")]
    pub parameters: Sweeps,
}

impl Selector {
    /// Whether the cell of this workload, stack and parameters is chosen.
    pub fn matches(&self, workload: &str, stack: &str, parameters: &[Parameter]) -> bool {
        self.workload.as_deref().is_none_or(|wanted| wanted == workload)
            && self.stack.as_ref().is_none_or(|wanted| wanted.label() == stack)
            && self
                .parameters
                .iter()
                .all(|(name, values)| parameters.iter().any(|p| p.name == *name && values.contains(&p.value)))
    }
}
