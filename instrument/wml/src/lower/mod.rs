//! Executes a script in order: variables get their values, entities are collected, and at the run (or at its
//! end) all is
//! resolved into the workload.
//!
//! | module | holds |
//! |---|---|
//! | `state` | what is known on the way: variables, entities, what is still to be checked |
//! | `script` | the commands: what each does, what ends the script |
//! | `settings` | values from outside (`--set`), predefined variables |
//! | `eval` | variables, expressions, interpolation |
//! | `fields` | attributes as numbers, booleans, text |
//! | `random`, `cvar` | random variables and their attributes |
//! | `distribution` | parameters of a `randvar` to a distribution, means, scaling |
//! | `fileset` | `define file`, `define fileset` |
//! | `process` | processes and threads |
//! | `flowop` | flowops, composite ones, their attributes |
//! | `check` | what concerns several flowops: targets, slots |

mod check;
mod cvar;
mod distribution;
mod eval;
mod fields;
mod fileset;
mod flowop;
mod process;
mod random;
mod script;
mod settings;
mod state;

use crate::ast::Script;
use crate::diagnostic::Diagnostics;
use crate::loaded::{Loaded, Settings};
use state::{Lowering, Pending, Scope};
use std::collections::{BTreeMap, HashMap};
use workload::{EndMode, Workload};

/// Resolves a script.
pub(crate) fn lower(
    script: &Script,
    settings: &Settings,
    diagnostics: Diagnostics,
) -> Result<Loaded, Diagnostics> {
    let mut lower = Lowering {
        script,
        settings,
        diagnostics,
        variables: BTreeMap::new(),
        broken: Default::default(),
        overrides: HashMap::new(),
        randoms: Vec::new(),
        filesets: Vec::new(),
        fileset_index: HashMap::new(),
        fileset_failed: false,
        processes: Vec::new(),
        composite_slots: Vec::new(),
        composites: HashMap::new(),
        end: EndMode::Timeout,
        seed: None,
        latency_counters: false,
        eventgen: None,
        steps: Vec::new(),
        programs: Vec::new(),
        warmup: 0,
        interactive: None,
        loads: None,
        unrolled: 0,
        expanded: 0,
        scaled: HashMap::new(),
        pending: Pending::default(),
    };
    lower.predefine();
    lower.read_overrides();
    let _ = lower.execute(&script.commands);
    lower.apply_late_overrides();
    lower.finish()
}

impl Lowering<'_> {
    /// The run has begun: everything is resolved with the variables as they are now.
    fn finish(mut self) -> Result<Loaded, Diagnostics> {
        self.resolve_filesets();
        self.name_composites();
        let processes = self.resolve_processes();
        let events_per_second = self.event_rate();
        let mut workload = Workload {
            name: self.settings.name.clone(),
            filesets: std::mem::take(&mut self.filesets)
                .into_iter()
                .filter_map(|slot| slot.resolved)
                .collect(),
            processes,
            draws: Vec::new(),
            end: self.end,
            script: std::mem::take(&mut self.steps),
            events_per_second,
            latency_counters: self.latency_counters,
            seed: self.seed,
        };
        self.check_targets(&mut workload.processes);
        let variables = self.shown_variables();
        workload.draws = self.draws();
        if workload.processes.is_empty() && !self.diagnostics.has_errors() {
            self.no_process();
        }
        self.diagnostics.0.sort_by_key(|found| found.span.map(|span| span.start));
        if self.diagnostics.has_errors() {
            return Err(self.diagnostics);
        }
        Ok(Loaded { workload, warnings: self.diagnostics, variables, programs: self.programs })
    }

    fn event_rate(&mut self) -> Option<workload::Value> {
        let attributes = self.eventgen?;
        let fields = self.fields(attributes, crate::tables::EVENTGEN, "eventgen");
        if !fields.has("rate") {
            return None;
        }
        self.dynamic(&fields, "rate", 0, &Scope::default()).ok()
    }

    /// The variables for the report: all that the script sets, and what it uses of the predefined ones.
    fn shown_variables(&self) -> Vec<(String, String)> {
        self.variables
            .iter()
            .filter(|(name, _)| self.script.mentioned.contains(*name))
            .map(|(name, value)| (name.clone(), self.display(value)))
            .collect()
    }
}
