//! Executes a script in order: variables get their values, entities are collected, and at the run (or at its
//! end) all is
//! resolved into the workload.
//!
//! | module | holds |
//! |---|---|
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

use crate::ast::{Attribute, Flowop, Script, Spanned};
use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use crate::syntax::Failed;
use crate::{Loaded, Program, Settings};
use eval::Datum;
use random::Random;
use std::collections::{BTreeMap, HashMap};
use workload::{EndMode, Step, Workload};

/// Arguments of the composite flowop that is being expanded.
type Scope = BTreeMap<String, Datum>;

/// A `define file` or `define fileset`, resolved at the latest moment.
struct FilesetSlot<'a> {
    single: bool,
    attributes: &'a [Attribute],
    span: Span,
    resolved: Option<workload::Fileset>,
}

/// A `define flowop`.
#[derive(Clone, Copy)]
struct Composite<'a> {
    attributes: &'a [Attribute],
    arguments: &'a [Attribute],
    body: &'a [Flowop],
}

/// A `define process`.
struct ProcessSlot<'a> {
    attributes: &'a [Attribute],
    threads: &'a [crate::ast::Thread],
    span: Span,
}

/// An interactive script between `create processes` and its end.
#[derive(Debug, Clone, Default)]
struct Interactive {
    /// Seconds slept between one `stats clear` and the next; the last is the present one.
    windows: Vec<u64>,
    /// The rate of events has been changed on the way.
    rate_changed: bool,
}

struct Lower<'a> {
    script: &'a Script,
    settings: &'a Settings,
    diagnostics: Diagnostics,
    variables: BTreeMap<String, Datum>,
    /// Variables whose `set` failed, which has been reported.
    broken: std::collections::HashSet<String>,
    overrides: HashMap<String, settings::Override>,
    randoms: Vec<Random>,
    filesets: Vec<FilesetSlot<'a>>,
    fileset_index: HashMap<String, usize>,
    /// A fileset could not be resolved, so that a missing name proves nothing.
    fileset_failed: bool,
    processes: Vec<ProcessSlot<'a>>,
    composite_slots: Vec<(Composite<'a>, Span)>,
    composites: HashMap<String, Composite<'a>>,
    end: EndMode,
    seed: Option<u64>,
    latency_counters: bool,
    eventgen: Option<&'a [Attribute]>,
    steps: Vec<Step>,
    programs: Vec<Program>,
    warmup: u64,
    interactive: Option<Interactive>,
    loads: Option<Spanned<String>>,
    /// Commands executed inside `foreach`.
    unrolled: usize,
    /// Flowops that composite ones were expanded to.
    expanded: usize,
    /// `indexed` variables brought to the range of a fileset: (variable, entries) to variable.
    scaled: HashMap<(usize, u64), usize>,
    pending: check::Pending,
}

/// Resolves a script.
pub(crate) fn lower(
    script: &Script,
    settings: &Settings,
    diagnostics: Diagnostics,
) -> Result<Loaded, Diagnostics> {
    let mut lower = Lower {
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
        pending: check::Pending::default(),
    };
    lower.predefine();
    lower.read_overrides();
    let _ = lower.execute(&script.commands);
    lower.apply_late_overrides();
    lower.finish()
}

impl Lower<'_> {
    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    fn fail<T>(&mut self, diagnostic: Diagnostic) -> Result<T, Failed> {
        self.report(diagnostic);
        Err(Failed)
    }

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
