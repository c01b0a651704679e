//! Settings of two systems in turns; what their trials say is [`crate::turns`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stats::sequential::BLOCKS_MAX;
use stats::spending::FIRST_LOOK;

use super::{Seconds, Share};
use crate::results::MetricName;

/// What a slice lasts at least, as a share of the length asked for: the machine may be faster later.
const SLICE_SHARE: f64 = 0.25;
/// No trial costs less.
const MOST_SHORT_SECONDS: f64 = 0.01;
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
    /// Both stacks are kept, and each trial is a slice of about this length; without it each trial has a fresh stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<Seconds>,
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
        // slices of the slower stack set the pace, those of the faster one are shorter than was asked for
        let load_seconds = self.slices.map_or(load_seconds, |slice| SLICE_SHARE * slice.0);
        let block = 2.0 * f64::from(TRIALS_OF_BLOCK) * load_seconds.max(MOST_SHORT_SECONDS);
        let blocks = ((self.budget.0 / block).ceil() as usize).clamp(FIRST_LOOK, BLOCKS_MAX);
        TRIALS_OF_BLOCK * blocks as u32
    }
}
