//! Latency over time, as a heat map.

use std::collections::BTreeMap;

use stats::OverTime;

use super::charts::{HALF, short_duration};
use super::text::pretty;
use crate::format;
use crate::ink::Ink;
use crate::plot::{Anchor, Drawing, Quantity, Scale};
use crate::view::View;

/// Columns of a map; longer trials are shown in longer steps.
const COLUMNS_MAX: usize = 64;
/// Shades of a map.
const SHADES: f64 = 8.0;

/// How many operations took how long, step by step from the beginning of the measured interval, all trials of a stack
/// together: a map for each stack of a load that has it stored, by row. All have the same axes. Shades are by the logarithm of
/// the count, so that a single stall is seen beside thousands of quick ones.
pub fn heat_maps(view: &View<'_>, column: usize, inks: &[Ink]) -> Vec<(usize, String)> {
    let kept = |row: usize| {
        let each = view.point(row, column).results().filter_map(|(_, outcome)| outcome.io_over_time());
        each.reduce(|mut all, one| {
            all.merge(&one);
            all
        })
    };
    let all: Vec<(usize, OverTime)> =
        view.measured(column).filter_map(|(row, ..)| Some((row, kept(row)?))).collect();
    let Some(extent) = Extent::of(&all) else { return Vec::new() };
    let drawn =
        |(row, own): &(usize, OverTime)| (*row, heat_map(view, (*row, column), own, &extent, inks[*row]));
    all.iter().map(drawn).collect()
}

/// From where to where the axes of a load go.
struct Extent {
    low_ns: f64,
    high_ns: f64,
    seconds: f64,
}

impl Extent {
    /// `None` when nothing was counted.
    fn of(all: &[(usize, OverTime)]) -> Option<Extent> {
        let steps = || all.iter().flat_map(|(_, one)| one.steps());
        let length = |one: &OverTime| one.steps().len() * one.step_seconds() as usize;
        Some(Extent {
            low_ns: steps().flat_map(|step| step.buckets()).map(|(low, ..)| low).min()?.max(1) as f64,
            high_ns: steps().flat_map(|step| step.buckets()).map(|(_, high, _)| high).max()? as f64,
            seconds: all.iter().map(|(_, one)| length(one)).max()? as f64,
        })
    }
}

fn heat_map(
    view: &View<'_>,
    (row, column): (usize, usize),
    own: &OverTime,
    extent: &Extent,
    ink: Ink,
) -> String {
    let map = Map::of(own);
    let (left, right, top, bottom) = (62.0, HALF - 12.0, 8.0, 182.0);
    let x = Scale::linear(0.0, extent.seconds, left, right);
    let y = Scale::log(extent.low_ns, extent.high_ns, bottom, top);
    let mut d = Drawing::new(HALF, bottom + 36.0);
    d.across(&x, Quantity::Seconds);
    d.up(&y, Quantity::Nanoseconds);
    d.datum(&[&"stack", &"from_seconds", &"to_seconds", &"low_ns", &"high_ns", &"operations"]);
    for tick in y.ticks(6) {
        d.line("grid", (left, y.position(tick)), (right, y.position(tick)));
        d.text("tick", (left - 8.0, y.position(tick) + 4.0), Anchor::End, &pretty(&short_duration(tick)));
    }
    for tick in x.ticks(6).into_iter().filter(|tick| tick.fract() == 0.0) {
        d.text("tick", (x.position(tick), bottom + 15.0), Anchor::Middle, &format!("{tick:.0} s"));
    }
    let name = &view.stacks[row].name;
    for ((step, low, high), count) in &map.counts {
        let (from, to) = (step * map.step_seconds, (step + 1) * map.step_seconds);
        let (x1, x2) = (x.position(from as f64), x.position(to as f64));
        let (y1, y2) = (y.position(*high as f64), y.position((*low).max(1) as f64));
        let class = format!("heat {} h{}", ink.class(), map.shade(*count));
        d.heat(&class, (x1, y1), (x2 - x1, y2 - y1), *count);
        d.datum(&[name, &from, &to, low, high, count]);
    }
    d.text(
        "axis",
        ((left + right) / 2.0, bottom + 31.0),
        Anchor::Middle,
        &format!("time; the darkest: {} operations in {} s", format::count(map.most), map.step_seconds),
    );
    d.finish(&format!("Latency over time of {} on {name}", view.loads[column].label))
}

/// Counts by step and bucket.
struct Map {
    step_seconds: usize,
    counts: BTreeMap<(usize, u64, u64), u64>,
    most: u64,
}

impl Map {
    fn of(over_time: &OverTime) -> Map {
        let join = over_time.steps().len().div_ceil(COLUMNS_MAX).max(1);
        let mut counts = BTreeMap::new();
        for (at, step) in over_time.steps().iter().enumerate() {
            for (low, high, count) in step.buckets() {
                let sum: &mut u64 = counts.entry((at / join, low, high)).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        let most = counts.values().copied().max().unwrap_or(1);
        Map { step_seconds: join * over_time.step_seconds() as usize, counts, most }
    }

    /// From 1, a single one, to 8, the most.
    fn shade(&self, count: u64) -> u32 {
        let share = (count as f64).ln_1p() / (self.most as f64).ln_1p();
        (share * SHADES).ceil().clamp(1.0, SHADES) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_joined_and_counts_kept() {
        let mut follower = stats::over_time::Follower::default();
        let mut so_far = stats::Histogram::new();
        for second in 1..=100 {
            so_far.record_n(1_000, 10);
            so_far.record(5_000_000);
            follower.close(second, &so_far);
        }
        let map = Map::of(&follower.finish().unwrap());
        assert_eq!((map.step_seconds, map.most, map.counts.len()), (2, 20, 100));
        assert_eq!(map.counts.values().sum::<u64>(), 1_100);
        assert_eq!((map.shade(20), map.shade(1)), (8, 2));
    }
}
