//! Settings of two systems in turns; what their trials say: `analysis::turns`.

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
/// Builds of both stacks that the budget of a comparison in slices is planned for: half more than the fewest that decide anything
/// (8). What making a stack costs is paid once a build, so that more builds leave less of the budget to measure.
const BUILDS: f64 = 12.0;
/// Share of a build's time that is measured; the rest is for making both stacks and for taking them down.
const MEASURED_SHARE: f64 = 0.5;
/// Trials of each side in a block.
pub const TRIALS_OF_BLOCK: u32 = 2;
/// How two systems are compared in turns: a part of a study's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterleavedDesign {
    /// Time for all trials; at least 8 blocks are made, however long they take.
    pub budget: Seconds,
    /// A difference smaller than this is the same.
    pub target: Share,
    /// By what it is decided.
    #[serde(default)]
    pub metric: MetricName,
    /// Look once, when the budget is used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_look: bool,
    /// Both stacks are kept, and each trial is a slice of about this length; without it each trial has a fresh stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<Seconds>,
    /// Of slices: after so many blocks both stacks are built anew. Two builds of one stack differ (where its blocks lie,
    /// how its journal is filled), so that a build, not a block, is what slices are judged by. None in runs of
    /// before this was known: one build, of which nothing follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_blocks: Option<u32>,
    /// Variables of the workload for A alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub a: BTreeMap<String, String>,
    /// Variables of the workload for B alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub b: BTreeMap<String, String>,
}

impl InterleavedDesign {
    /// With as many blocks in a build as the budget gives to each of twelve: [`InterleavedDesign::kept_blocks`].
    pub fn in_builds(self) -> InterleavedDesign {
        let of = |slice: Seconds| {
            let block = 2.0 * f64::from(TRIALS_OF_BLOCK) * slice.0.max(MOST_SHORT_SECONDS);
            ((self.budget.0 * MEASURED_SHARE / BUILDS / block) as u32).max(1)
        };
        InterleavedDesign { kept_blocks: self.slices.map(of), ..self }
    }

    /// Which build of both stacks a trial belongs to, by its [`Slot::index`](crate::plan::Slot::index).
    pub fn build_of(&self, index: u32) -> u32 {
        self.kept_blocks.map_or(0, |blocks| index / TRIALS_OF_BLOCK / blocks.max(1))
    }

    /// Trials of each side that are planned: more than the budget allows, as long as what a trial costs is not known.
    pub fn trials_max(&self, load_seconds: f64) -> u32 {
        // slices of the slower stack set the pace, those of the faster one are shorter than was asked for
        let load_seconds = self.slices.map_or(load_seconds, |slice| SLICE_SHARE * slice.0);
        let block = 2.0 * f64::from(TRIALS_OF_BLOCK) * load_seconds.max(MOST_SHORT_SECONDS);
        let blocks = ((self.budget.0 / block).ceil() as usize).clamp(FIRST_LOOK, BLOCKS_MAX);
        // builds are decided by, and eight of them must fit
        let least = self.kept_blocks.map_or(0, |kept| kept.saturating_mul(FIRST_LOOK as u32));
        TRIALS_OF_BLOCK * (blocks as u32).max(least)
    }
}
