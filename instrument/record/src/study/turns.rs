//! Settings of two systems in turns; what their trials say is [`crate::turns`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stats::sequential::BLOCKS_MAX;
use stats::spending::FIRST_LOOK;

use super::{Seconds, Share};
use crate::results::MetricName;

/// Trials of each side in a block.
pub const TRIALS_OF_BLOCK: u32 = 2;
/// How two systems are compared in turns: a part of a study's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turns {
    /// Time for all trials; at least 8 blocks are made, however long they take.
    pub budget: Seconds,
    /// A difference smaller than this is the same.
    pub target: Share,
    /// By what it is decided.
    #[serde(default)]
    pub metric: MetricName,
    /// Variables of the workload for A alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub a: BTreeMap<String, String>,
    /// Variables of the workload for B alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub b: BTreeMap<String, String>,
}

impl Turns {
    /// Trials of each side that are planned: more than the budget allows, as long as what a trial costs is not known.
    pub fn trials_max(&self, load_seconds: f64) -> u32 {
        let block = 2.0 * f64::from(TRIALS_OF_BLOCK) * load_seconds.max(0.01);
        let blocks = ((self.budget.0 / block).ceil() as usize).clamp(FIRST_LOOK, BLOCKS_MAX);
        TRIALS_OF_BLOCK * blocks as u32
    }
}
