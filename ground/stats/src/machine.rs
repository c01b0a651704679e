//! Was the machine another? Asked before two runs are compared.
//!
//! Steal, pressure and load averages *before* a run told nothing of it where this was tried; what is compared is therefore
//! measured *over* the run: differences of counters, and a small fixed load (the yardstick). Facts that were not measured
//! are `None` and judge nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

/// CPU left to the load, as a share of the cores, below which a run is disturbed.
pub const CPU_LEFT_MIN: f64 = 0.90;
/// Share of the CPU that the hypervisor took, above which a run is disturbed.
pub const STEAL_MAX: f64 = 0.01;
/// Relative difference of the speed of a dependent chain of additions.
pub const FREQUENCY_MAX: f64 = 0.03;
/// Share of the time in which tasks waited for memory.
pub const MEMORY_PRESSURE_MAX: f64 = 0.01;
/// Relative difference of the yardstick, unless its history is wider.
pub const YARDSTICK_MAX: f64 = 0.10;
/// Standard deviations of the yardstick's history that are no difference.
pub const YARDSTICK_DEVIATIONS: f64 = 3.0;

/// What a run says of its machine: medians over its trials.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Cores that the load may use.
    pub cores: Option<f64>,
    /// CPU that others took, in cores. What works *for* the load (flushers, loop and FUSE threads, a daemon) is not others.
    pub others: Option<f64>,
    /// CPU that the hypervisor took, in cores: of a load that may use some of the machine's, an even share of it.
    pub steal: Option<f64>,
    /// Additions a second of a dependent chain: the frequency.
    pub additions: Option<f64>,
    /// Share of the time in which tasks waited for memory, 0..=1.
    pub memory_pressure: Option<f64>,
    /// `ln` of the yardstick's speed ([`yardstick`]).
    pub yardstick: Option<f64>,
    /// The boot.
    pub boot: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// CPU model and number, memory, device: what makes it that machine.
    pub hardware: Option<String>,
    /// The stacks of a block stood side by side and took turns: a load shares caches and memory with the others then.
    pub in_turns: bool,
}

/// In what two runs' machines differ. Shares of the CPU are 0..=1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Reason {
    /// Other hardware: only an anchor can compare, and says nothing of the machine itself.
    Hardware {
        /// Before.
        before: String,
        /// After.
        after: String,
    },
    /// Another kernel.
    Kernel {
        /// Before.
        before: String,
        /// After.
        after: String,
    },
    /// Another boot, and no history of what that changes.
    Boot,
    /// Others took CPU from a run.
    Others {
        /// Their share before.
        before: f64,
        /// Their share after.
        after: f64,
    },
    /// The hypervisor took CPU from a run.
    Steal {
        /// Its share before.
        before: f64,
        /// Its share after.
        after: f64,
    },
    /// The processor was faster or slower.
    Frequency {
        /// Speed after over speed before.
        ratio: f64,
    },
    /// Memory was short in one of the runs.
    Memory {
        /// Whether it was the one before.
        before: bool,
    },
    /// The small fixed load was faster or slower.
    Yardstick {
        /// Speed after over speed before.
        ratio: f64,
    },
    /// Trials of one run took turns.
    Turns {
        /// Whether it was the one before.
        before: bool,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: &f64| share * 100.0;
        match self {
            Reason::Hardware { before, after } => write!(f, "the hardware is {after}, before {before}"),
            Reason::Kernel { before, after } => write!(f, "the kernel is {after}, before {before}"),
            Reason::Boot => write!(f, "the machine was started anew in between"),
            Reason::Others { before, after } => {
                write!(f, "others took {:.0} % of the CPU, before {:.0} %", percent(after), percent(before))
            }
            Reason::Steal { before, after } => {
                write!(
                    f,
                    "the hypervisor took {:.1} % of the CPU, before {:.1} %",
                    percent(after),
                    percent(before)
                )
            }
            Reason::Frequency { ratio } => {
                write!(f, "the processor ran at {:.0} % of its speed", percent(ratio))
            }
            Reason::Memory { before } => {
                write!(f, "memory was short in the run {}", if *before { "before" } else { "after" })
            }
            Reason::Turns { before } => {
                let which = if *before { "before" } else { "after" };
                write!(f, "trials of the run {which} took turns, beside other loads")
            }
            Reason::Yardstick { ratio } => {
                write!(f, "a fixed small load ran at {:.0} % of its speed", percent(ratio))
            }
        }
    }
}

/// What the machine's past says of differences that need not matter.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineHistory {
    /// Standard deviation of `ln` of the yardstick over past runs.
    pub yardstick_sd: Option<f64>,
    /// Whether the spread between runs was learned across boots.
    pub other_boots: bool,
}

/// Whether a run was disturbed by itself: others or the hypervisor took CPU, or memory was short. Such a run is left out of
/// the history.
pub fn disturbed(run: &Conditions) -> bool {
    let share = |cpu: Option<f64>| cpu.zip(run.cores).map_or(0.0, |(cpu, cores)| cpu / cores.max(1e-9));
    let left = 1.0 - share(run.others) - share(run.steal);
    left < CPU_LEFT_MIN || share(run.steal) > STEAL_MAX || short_of_memory(run)
}

/// Whether two runs are known to be of different machines: of other hardware, or another kernel.
pub fn is_other(one: &Conditions, two: &Conditions) -> bool {
    let differ = |field: fn(&Conditions) -> &Option<String>| {
        field(one).as_ref().zip(field(two).as_ref()).is_some_and(|(x, y)| x != y)
    };
    differ(|run| &run.hardware) || differ(|run| &run.kernel)
}

/// In what the machine of run `after` differs from that of run `before`; empty if in nothing that is known of both.
/// A run that lost CPU is a difference also if both did: what others took is never twice the same.
pub fn gate(before: &Conditions, after: &Conditions, known: &MachineHistory) -> Vec<Reason> {
    let mut found = identity(before, after, known);
    let shares = |field: fn(&Conditions) -> Option<f64>| {
        let share = |run: &Conditions| Some(field(run)? / run.cores?.max(1e-9));
        share(before).zip(share(after))
    };
    if let Some((x, y)) = shares(|run| run.others).filter(|(x, y)| x.max(*y) > 1.0 - CPU_LEFT_MIN) {
        found.push(Reason::Others { before: x, after: y });
    }
    if let Some((x, y)) = shares(|run| run.steal).filter(|(x, y)| x.max(*y) > STEAL_MAX) {
        found.push(Reason::Steal { before: x, after: y });
    }
    if let Some((x, y)) = before.additions.zip(after.additions) {
        let ratio = y / x;
        if ratio.ln().abs() > FREQUENCY_MAX.ln_1p() {
            found.push(Reason::Frequency { ratio });
        }
    }
    if short_of_memory(before) != short_of_memory(after) {
        found.push(Reason::Memory { before: short_of_memory(before) });
    }
    if let Some((x, y)) = before.yardstick.zip(after.yardstick) {
        let usual = YARDSTICK_DEVIATIONS * known.yardstick_sd.unwrap_or(0.0);
        if (y - x).abs() > usual.max(YARDSTICK_MAX.ln_1p()) {
            found.push(Reason::Yardstick { ratio: (y - x).exp() });
        }
    }
    if before.in_turns != after.in_turns {
        found.push(Reason::Turns { before: before.in_turns });
    }
    found
}

/// Hardware, kernel, boot: the first that differs, since it brings the others with it.
fn identity(before: &Conditions, after: &Conditions, known: &MachineHistory) -> Vec<Reason> {
    let changed = |field: fn(&Conditions) -> &Option<String>| match (field(before), field(after)) {
        (Some(x), Some(y)) if x != y => Some((x.clone(), y.clone())),
        _ => None,
    };
    if let Some((before, after)) = changed(|run| &run.hardware) {
        return vec![Reason::Hardware { before, after }];
    }
    if let Some((before, after)) = changed(|run| &run.kernel) {
        return vec![Reason::Kernel { before, after }];
    }
    let boot = changed(|run| &run.boot).filter(|_| !known.other_boots);
    boot.into_iter().map(|_| Reason::Boot).collect()
}

fn short_of_memory(run: &Conditions) -> bool {
    run.memory_pressure.is_some_and(|share| share > MEMORY_PRESSURE_MAX)
}

/// `ln` of the speed of the yardstick around one trial, from pieces of (work done, seconds): ten pieces of 10 ms, five
/// before and five after. Noise has structure from 10 ms to 5 s, so that one piece of 100 ms is a smaller sample than ten of
/// 10 ms. Sums, not a mean of logarithms: a short piece that was stalled would outweigh the others. `None` without work.
pub fn yardstick(pieces: &[(f64, f64)]) -> Option<f64> {
    let sum = |part: fn(&(f64, f64)) -> f64| pieces.iter().map(part).sum::<f64>();
    let speed = (sum(|p| p.0) / sum(|p| p.1)).ln();
    speed.is_finite().then_some(speed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> Conditions {
        Conditions {
            cores: Some(2.0),
            others: Some(0.1),
            steal: Some(0.0),
            additions: Some(1e9),
            memory_pressure: Some(0.0),
            yardstick: Some(0.0),
            boot: Some("one".into()),
            kernel: Some("6.1".into()),
            hardware: Some("cpu".into()),
            in_turns: false,
        }
    }

    fn one(after: Conditions) -> String {
        let found = gate(&quiet(), &after, &MachineHistory::default());
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].to_string()
    }

    #[test]
    fn a_quiet_machine_is_the_same() {
        assert!(gate(&quiet(), &quiet(), &MachineHistory::default()).is_empty());
        assert!(!disturbed(&quiet()) && !disturbed(&Conditions::default()));
        assert!(
            gate(&quiet(), &Conditions::default(), &MachineHistory::default()).is_empty(),
            "unknown is no reason"
        );
    }

    #[test]
    fn each_difference_is_named_with_both_figures() {
        let busy = Conditions { others: Some(0.82), ..quiet() };
        assert!(disturbed(&busy));
        assert_eq!(one(busy), "others took 41 % of the CPU, before 5 %");
        let stolen = Conditions { steal: Some(0.04), ..quiet() };
        assert_eq!(one(stolen), "the hypervisor took 2.0 % of the CPU, before 0.0 %");
        let slow = Conditions { additions: Some(0.9e9), ..quiet() };
        assert_eq!(one(slow), "the processor ran at 90 % of its speed");
        let full = Conditions { memory_pressure: Some(0.02), ..quiet() };
        assert_eq!(one(full), "memory was short in the run after");
        let in_turns = Conditions { in_turns: true, ..quiet() };
        assert_eq!(one(in_turns), "trials of the run after took turns, beside other loads");
        let off = Conditions { yardstick: Some(0.8f64.ln()), ..quiet() };
        assert_eq!(one(off), "a fixed small load ran at 80 % of its speed");
        let kernel = Conditions { kernel: Some("6.2".into()), boot: Some("two".into()), ..quiet() };
        assert_eq!(one(kernel), "the kernel is 6.2, before 6.1");
    }

    #[test]
    fn history_excuses_boots_and_a_wide_yardstick() {
        let later = Conditions { boot: Some("two".into()), yardstick: Some(-0.2), ..quiet() };
        assert_eq!(gate(&quiet(), &later, &MachineHistory::default()).len(), 2);
        let known = MachineHistory { yardstick_sd: Some(0.08), other_boots: true };
        assert!(gate(&quiet(), &later, &known).is_empty());
    }

    #[test]
    fn two_busy_runs_differ_and_two_short_ones_do_not() {
        let busy = Conditions { others: Some(0.5), memory_pressure: Some(0.5), ..quiet() };
        assert!(matches!(gate(&busy, &busy, &MachineHistory::default())[..], [Reason::Others { .. }]));
    }

    #[test]
    fn the_yardstick_sums_its_pieces() {
        let pieces = [(10.0, 0.01), (1.0, 0.01), (10.0, 0.01)];
        assert!((yardstick(&pieces).unwrap() - 700f64.ln()).abs() < 1e-12);
        assert_eq!((yardstick(&[]), yardstick(&[(0.0, 1.0)])), (None, None));
    }
}
