//! The environment of a run: what all trials share, and what differs.

use analysis::diff::{self, Importance, Setting};
use study::environment::Environment;
use study::results::{Run, Trial};

/// Stands for a setting that an environment lacks.
pub const UNKNOWN: &str = "not known";

/// The environments of a run's trials.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts {
    /// Settings that are equal in all trials: path and value.
    pub common: Vec<(String, String)>,
    /// Settings that are not. What differs in every trial anyway (free memory, the number of a loop device) is
    /// left out.
    pub varying: Vec<Varying>,
}

/// A setting that is not the same in all trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Varying {
    /// Its path, e.g. `devices.0.scheduler`.
    pub name: String,
    /// Each value with the stacks that have it.
    pub values: Vec<(String, Vec<String>)>,
    /// Whether every stack has a single value. Then it belongs to the stack; otherwise something changed while
    /// the study ran.
    pub by_stack: bool,
    /// Whether it says that the machine or its load changed.
    pub fundamental: bool,
}

/// Collects the environments of all trials that have one.
pub fn facts(run: &Run) -> Facts {
    let known: Vec<(&str, &Environment)> = run
        .trials
        .iter()
        .filter_map(|trial| Some((stack_of(run, trial), trial.environment.as_ref()?)))
        .collect();
    let Some((_, first)) = known.first() else { return Facts::default() };
    let mut weights: Vec<(String, Importance)> = Vec::new();
    for (_, other) in &known {
        for difference in analysis::diff::diff(first, other) {
            match weights.iter_mut().find(|(name, _)| *name == difference.name) {
                Some((_, weight)) => *weight = (*weight).max(difference.weight),
                None => weights.push((difference.name, difference.weight)),
            }
        }
    }
    let all: Vec<(&str, Vec<Setting>)> =
        known.iter().map(|(stack, one)| (*stack, diff::facts(one))).collect();
    let differs = |name: &str| weights.iter().any(|(known, _)| known == name);
    let common = all[0].1.iter().filter(|fact| !differs(&fact.name));
    let telling = weights.iter().filter(|(_, weight)| *weight > Importance::Incidental);
    let mut varying: Vec<Varying> = telling.map(|(name, weight)| varying(name, *weight, &all)).collect();
    varying.sort_by_key(|one| (one.by_stack, !one.fundamental));
    Facts { common: common.map(|fact| (fact.name.clone(), fact.value.clone())).collect(), varying }
}

fn stack_of<'a>(run: &'a Run, trial: &Trial) -> &'a str {
    run.cell(trial.cell).map_or("", |cell| cell.stack.as_str())
}

fn varying(name: &str, weight: Importance, all: &[(&str, Vec<Setting>)]) -> Varying {
    let mut values: Vec<(String, Vec<String>)> = Vec::new();
    for (stack, facts) in all {
        let value = facts.iter().find(|fact| fact.name == name).map_or(UNKNOWN, |fact| &fact.value);
        let at = values.iter().position(|(known, _)| known == value).unwrap_or_else(|| {
            values.push((value.to_string(), Vec::new()));
            values.len() - 1
        });
        if !values[at].1.iter().any(|known| known == stack) {
            values[at].1.push((*stack).to_string());
        }
    }
    let mut stacks: Vec<&String> = values.iter().flat_map(|(_, stacks)| stacks).collect();
    let listed = stacks.len();
    stacks.sort_unstable();
    stacks.dedup();
    let by_stack = stacks.len() == listed;
    Varying { name: name.into(), values, by_stack, fundamental: weight == Importance::Fundamental }
}
