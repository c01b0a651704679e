//! How near one load is to another: the recording of a program, and that of the personality which stands for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::profile::Profile;
use super::sizes::ratio;
use crate::call::Call;

/// Aim for the mix: points of a hundred.
pub const AIM_MIX_POINTS: f64 = 2.0;
/// Aim for median and p99 of sizes, and for the share of sequential transfers (in points): percent.
pub const AIM_SIZES_PERCENT: f64 = 10.0;
/// Aim for the number of syncs for each call: percent.
pub const AIM_SYNCS_PERCENT: f64 = 2.0;
/// Aim for calls a second: percent.
pub const AIM_THROUGHPUT_PERCENT: f64 = 15.0;
/// Kinds of calls with a smaller share in both loads have no row.
const ROW_SHARE: f64 = 0.005;

/// The figures by which loads are compared. What is not known is `None`, and not compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Calls by kind. Only shares are compared, those of kinds that a personality can say.
    pub calls: BTreeMap<Call, u64>,
    /// Median and p99 of reads, bytes.
    pub read_sizes: Option<(u64, u64)>,
    /// Median and p99 of writes, bytes.
    pub write_sizes: Option<(u64, u64)>,
    /// Share of reads that are sequential.
    pub sequential_reads: Option<f64>,
    /// Share of writes that are sequential or appends.
    pub sequential_writes: Option<f64>,
    /// Calls a second.
    pub calls_per_second: Option<f64>,
}

/// Kinds of calls that a personality can say.
const SAID: [Call; 11] = [
    Call::Open,
    Call::Close,
    Call::Read,
    Call::Write,
    Call::Fsync,
    Call::Fdatasync,
    Call::Unlink,
    Call::MakeDirectory,
    Call::RemoveDirectory,
    Call::Stat,
    Call::ReadDirectory,
];

impl From<&Profile> for Figures {
    fn from(profile: &Profile) -> Figures {
        let calls: BTreeMap<Call, u64> =
            SAID.iter().map(|call| (*call, profile.count(*call))).filter(|(_, count)| *count > 0).collect();
        let ends = |sizes: &super::sizes::Sizes| Some((sizes.quantile(0.5)?, sizes.quantile(0.99)?));
        let share = |part: u64, other: u64| (part + other > 0).then(|| ratio(part, part + other));
        let all: u64 = calls.values().sum();
        Figures {
            calls,
            read_sizes: ends(&profile.read_sizes),
            write_sizes: ends(&profile.write_sizes),
            sequential_reads: share(profile.sequential_reads, profile.random_reads),
            sequential_writes: share(profile.sequential_writes + profile.appends, profile.random_writes),
            calls_per_second: Some(all as f64 / profile.seconds()),
        }
    }
}

/// One figure of two loads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FitRow {
    /// What it is.
    pub what: String,
    /// That of the recording.
    pub recorded: f64,
    /// That of the personality.
    pub run: f64,
    /// How far they are apart, in `unit`.
    pub distance: f64,
    /// The largest distance that is aimed at.
    pub aim: f64,
    /// `points` or `%`.
    pub unit: &'static str,
}

impl FitRow {
    /// Whether the aim is reached.
    pub fn is_within(&self) -> bool {
        self.distance <= self.aim
    }
}

/// Distances of one load to another, with a verdict for each figure. Its display is a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Fit {
    /// The figures, in a fixed order.
    pub rows: Vec<FitRow>,
}

impl Fit {
    /// Compares a recording with a run of its personality.
    pub fn of(recorded: &Figures, run: &Figures) -> Fit {
        let mut fit = Fit::default();
        fit.mix(recorded, run);
        let sizes =
            [("read", recorded.read_sizes, run.read_sizes), ("write", recorded.write_sizes, run.write_sizes)];
        for (what, a, b) in sizes {
            let (Some(a), Some(b)) = (a, b) else { continue };
            fit.percent(format!("{what} size, median"), a.0 as f64, b.0 as f64, AIM_SIZES_PERCENT);
            fit.percent(format!("{what} size, p99"), a.1 as f64, b.1 as f64, AIM_SIZES_PERCENT);
        }
        let shares = [
            ("sequential reads", recorded.sequential_reads, run.sequential_reads),
            ("sequential writes", recorded.sequential_writes, run.sequential_writes),
        ];
        for (what, a, b) in shares {
            let (Some(a), Some(b)) = (a, b) else { continue };
            fit.points(what.into(), 100.0 * a, 100.0 * b, AIM_SIZES_PERCENT);
        }
        let syncs = |figures: &Figures| figures.share(Call::Fsync) + figures.share(Call::Fdatasync);
        if syncs(recorded) + syncs(run) > 0.0 {
            fit.percent(
                "syncs of 1000 calls".into(),
                1000.0 * syncs(recorded),
                1000.0 * syncs(run),
                AIM_SYNCS_PERCENT,
            );
        }
        if let (Some(a), Some(b)) = (recorded.calls_per_second, run.calls_per_second) {
            fit.percent("calls a second".into(), a, b, AIM_THROUGHPUT_PERCENT);
        }
        fit
    }

    /// Whether every aim is reached.
    pub fn is_within(&self) -> bool {
        self.rows.iter().all(FitRow::is_within)
    }

    fn mix(&mut self, recorded: &Figures, run: &Figures) {
        let kinds: BTreeSet<&Call> = recorded.calls.keys().chain(run.calls.keys()).collect();
        for call in kinds {
            let (a, b) = (recorded.share(*call), run.share(*call));
            if a.max(b) >= ROW_SHARE {
                self.points(format!("{} % of calls", call.name()), 100.0 * a, 100.0 * b, AIM_MIX_POINTS);
            }
        }
    }

    fn points(&mut self, what: String, recorded: f64, run: f64, aim: f64) {
        let distance = (recorded - run).abs();
        self.rows.push(FitRow { what, recorded, run, distance, aim, unit: "points" });
    }

    fn percent(&mut self, what: String, recorded: f64, run: f64, aim: f64) {
        let distance =
            if recorded == run { 0.0 } else { 100.0 * (run - recorded).abs() / recorded.max(1e-9) };
        self.rows.push(FitRow { what, recorded, run, distance, aim, unit: "%" });
    }
}

impl Figures {
    fn share(&self, call: Call) -> f64 {
        ratio(self.calls.get(&call).copied().unwrap_or(0), self.calls.values().sum())
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            to,
            "{:<22} {:>12} {:>12} {:>14}  verdict",
            "figure", "recording", "personality", "distance"
        )?;
        for row in &self.rows {
            let distance = format!("{:.1} {}", row.distance, row.unit);
            let verdict = if row.is_within() { "within" } else { "outside" };
            let FitRow { what, recorded, run, aim, unit, .. } = row;
            writeln!(to, "{what:<22} {recorded:>12.1} {run:>12.1} {distance:>14}  {verdict} {aim} {unit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_say_what_is_outside() {
        let calls = BTreeMap::from([(Call::Read, 50), (Call::Write, 40), (Call::Fsync, 10)]);
        let a = Figures {
            calls,
            read_sizes: Some((4096, 8192)),
            calls_per_second: Some(100.0),
            ..Figures::default()
        };
        assert!(Fit::of(&a, &a).is_within());
        let mut b = a.clone();
        b.calls.insert(Call::Read, 60);
        b.read_sizes = Some((4096, 16384));
        let fit = Fit::of(&a, &b);
        let outside: Vec<&str> =
            fit.rows.iter().filter(|row| !row.is_within()).map(|row| row.what.as_str()).collect();
        assert_eq!(outside, ["read % of calls", "write % of calls", "read size, p99", "syncs of 1000 calls"]);
        assert!(fit.to_string().contains("outside 2 points"), "{fit}");
    }
}
