//! Differences of two environments: what may explain that two results differ.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use study::environment::Environment;

/// One setting, by its path, e.g. `cpu.governor`, `devices.0.scheduler`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its path; the last part carries the unit.
    pub name: String,
    /// Its value as text.
    pub value: String,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Its path.
    pub name: String,
    /// Its value in the first environment; `None`: not known there.
    pub left: Option<String>,
    /// Its value in the second.
    pub right: Option<String>,
    /// How much it matters.
    pub weight: Importance,
}

/// How much a difference matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Importance {
    /// Differs in every trial (free memory, number of a loop device); shown only on request.
    Incidental,
    /// A setting that may explain a different result.
    Setting,
    /// The machine, the kernel or its load differs: results are of different things.
    Fundamental,
}

/// Every known setting of an environment, in order of definition. Unknown ones are left out.
pub fn facts(environment: &Environment) -> Vec<Setting> {
    let mut facts = Vec::new();
    // A struct of plain fields always serialises.
    flatten("", &serde_json::to_value(environment).unwrap_or(Value::Null), &mut facts);
    facts
}

/// What differs between two environments, the weightiest first.
pub fn diff(left: &Environment, right: &Environment) -> Vec<Difference> {
    let (left_facts, right_facts) = (facts(left), facts(right));
    let value_in = |facts: &[Setting], name: &str| {
        facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone())
    };
    let mut names: Vec<&String> = left_facts.iter().map(|fact| &fact.name).collect();
    for fact in &right_facts {
        if !names.contains(&&fact.name) {
            names.push(&fact.name);
        }
    }
    let mut differences: Vec<Difference> = names
        .into_iter()
        .map(|name| (name, value_in(&left_facts, name), value_in(&right_facts, name)))
        .filter(|(name, left, right)| {
            let online = |facts: &[Setting]| value_in(facts, "cpu.cores_online");
            // older programs did not tell of it, and most loads are bound to none
            let is_told_once = match (left, right) {
                (Some(told), None) => Some(told) == online(&left_facts).as_ref(),
                (None, Some(told)) => Some(told) == online(&right_facts).as_ref(),
                _ => false,
            };
            left != right && !(*name == "cpu.cores_allowed" && is_told_once)
        })
        .map(|(name, left, right)| Difference { name: name.clone(), weight: weight_of(name), left, right })
        .collect();
    for name in busier(left, right) {
        let marked = differences.iter_mut().find(|difference| difference.name == name);
        marked.into_iter().for_each(|difference| difference.weight = Importance::Fundamental);
    }
    differences.sort_by_key(|difference| std::cmp::Reverse(difference.weight));
    differences
}

/// Signs that one of the two ran while the machine was clearly busier: a load average that differs by more
/// than half its cores, or runnable threads that differ by more than its cores.
fn busier(left: &Environment, right: &Environment) -> Vec<&'static str> {
    let cores = f64::from(left.cpu.cores_online.or(right.cpu.cores_online).unwrap_or(1));
    let apart = |one: Option<f64>, other: Option<f64>, most: f64| {
        one.zip(other).is_some_and(|(one, other)| (one - other).abs() > most)
    };
    let average = |environment: &Environment| environment.load.average.map(|average| average[0]);
    let runnable = |environment: &Environment| environment.load.runnable.map(|runnable| runnable as f64);
    let mut signs = Vec::new();
    if apart(average(left), average(right), (cores / 2.0).max(1.0)) {
        signs.push("load.average");
    }
    if apart(runnable(left), runnable(right), cores) {
        signs.push("load.runnable");
    }
    signs
}

fn weight_of(name: &str) -> Importance {
    let last = name.rsplit('.').next().unwrap_or(name);
    match name.split('.').next().unwrap_or(name) {
        "load" => Importance::Incidental,
        "target" if matches!(last, "source" | "free_bytes") => Importance::Incidental,
        "devices" if last == "name" => Importance::Incidental,
        // counted back from a clock that is set now and then; the boot's id says the same
        "kernel" if last == "booted" => Importance::Incidental,
        "kernel" => Importance::Fundamental,
        "cpu" if matches!(last, "model" | "cores_online" | "cores_allowed" | "virtualisation") => {
            Importance::Fundamental
        }
        "memory" if last == "total_bytes" => Importance::Fundamental,
        _ => Importance::Setting,
    }
}

fn flatten(path: &str, value: &Value, facts: &mut Vec<Setting>) {
    let below = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
    match value {
        Value::Null => {}
        Value::Array(items) if items.is_empty() => {}
        Value::Object(fields) => {
            // A program and its version read better as one fact.
            if let (Some(Value::String(name)), Some(Value::String(version)), 2) =
                (fields.get("name"), fields.get("version"), fields.len())
            {
                facts.push(Setting { name: format!("tools.{name}"), value: version.clone() });
                return;
            }
            fields.iter().for_each(|(name, value)| flatten(&below(name), value, facts));
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().enumerate().for_each(|(at, item)| flatten(&below(&at.to_string()), item, facts));
        }
        Value::Array(items) => {
            let words: Vec<String> = items.iter().map(plain).collect();
            facts.push(Setting { name: path.to_string(), value: words.join(" ") });
        }
        single => facts.push(Setting { name: path.to_string(), value: plain(single) }),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_of_before_is_not_told_to_be_bound() {
        let of = |cores_allowed| {
            let mut environment = Environment::default();
            (environment.cpu.cores_online, environment.cpu.cores_allowed) = (Some(8), cores_allowed);
            environment
        };
        assert_eq!(diff(&of(None), &of(Some(8))), []);
        assert_eq!(diff(&of(Some(8)), &of(None)), []);
        for bound in [diff(&of(None), &of(Some(1))), diff(&of(Some(8)), &of(Some(1)))] {
            assert_eq!((bound.len(), bound[0].name.as_str()), (1, "cpu.cores_allowed"));
        }
    }
}
