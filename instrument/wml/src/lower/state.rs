//! What is known while a script is executed: its variables and entities so far.

use super::distribution::{Randvar, Shape};
use crate::ast::{Attribute, Expr, Flowop, Script, Spanned, Thread};
use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use crate::loaded::{Program, Settings};
use crate::syntax::{Failed, shorten};
use std::collections::{BTreeMap, HashMap, VecDeque};
use workload::{Draw, EndMode, Kind, Step};

/// A value of a variable.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Datum {
    Int(i128),
    Bool(bool),
    Text(String),
    /// Index into the random variables.
    Random(usize),
}

impl Datum {
    /// How an error message calls it.
    pub(super) fn describe(&self) -> String {
        match self {
            Datum::Int(value) => format!("the number {value}"),
            Datum::Bool(value) => format!("the boolean {value}"),
            Datum::Text(text) => format!("the text `{}`", shorten(text)),
            Datum::Random(_) => "a random variable".into(),
        }
    }
}

/// A random variable as the script describes it; `set $v.mean=...` of old may still change it.
#[derive(Debug, Clone)]
pub(super) enum Random {
    Randvar(Randvar),
    Cvar(Draw),
}

impl Random {
    /// As `echo` prints it.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Random::Cvar(_) => "custom variable",
            Random::Randvar(random) => match random.shape() {
                Shape::Uniform => "uniform random var",
                Shape::Gamma => "gamma random var",
                Shape::Tabular => "tabular random var",
            },
        }
    }
}

/// A `--set name=value`.
#[derive(Debug, Clone)]
pub(super) struct Override {
    pub(super) text: String,
    pub(super) value: Spanned<Expr>,
    /// Its value has been put into the variable.
    pub(super) applied: bool,
}

/// Arguments of the composite flowop that is being expanded.
pub(super) type Scope = BTreeMap<String, Datum>;

/// A `define file` or `define fileset`, resolved at the latest moment.
pub(super) struct FilesetSlot<'a> {
    pub(super) single: bool,
    pub(super) attributes: &'a [Attribute],
    pub(super) span: Span,
    pub(super) resolved: Option<workload::Fileset>,
}

/// A `define flowop`.
#[derive(Clone, Copy)]
pub(super) struct Composite<'a> {
    pub(super) attributes: &'a [Attribute],
    pub(super) arguments: &'a [Attribute],
    pub(super) body: &'a [Flowop],
}

/// A `define process`.
pub(super) struct ProcessSlot<'a> {
    pub(super) attributes: &'a [Attribute],
    pub(super) threads: &'a [Thread],
    pub(super) span: Span,
}

/// An interactive script between `create processes` and its end.
#[derive(Debug, Clone, Default)]
pub(super) struct Interactive {
    /// Seconds slept between one `stats clear` and the next; the last is the present one.
    pub(super) windows: Vec<u64>,
    /// The rate of events has been changed on the way.
    pub(super) rate_changed: bool,
}

/// A `target=` to be found when all flowops are known.
#[derive(Debug)]
pub(super) struct TargetRef {
    pub(super) place: (usize, usize),
    pub(super) prefix: String,
    pub(super) span: Span,
}

/// A use of a slot without a fileset to open a file from.
#[derive(Debug)]
pub(super) struct SlotUse {
    pub(super) slot: u8,
    pub(super) span: Span,
    pub(super) kind: Kind,
}

/// Checks that wait for other flowops.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) place: (usize, usize),
    pub(super) targets: VecDeque<TargetRef>,
    pub(super) uses: Vec<SlotUse>,
    pub(super) opened: Vec<u8>,
    pub(super) opens_any: bool,
}

/// A script on its way to a workload.
pub(super) struct Lowering<'a> {
    pub(super) script: &'a Script,
    pub(super) settings: &'a Settings,
    pub(super) diagnostics: Diagnostics,
    pub(super) variables: BTreeMap<String, Datum>,
    /// Variables whose `set` failed, which has been reported.
    pub(super) broken: std::collections::HashSet<String>,
    pub(super) overrides: HashMap<String, Override>,
    pub(super) randoms: Vec<Random>,
    pub(super) filesets: Vec<FilesetSlot<'a>>,
    pub(super) fileset_index: HashMap<String, usize>,
    /// A fileset could not be resolved, so that a missing name proves nothing.
    pub(super) fileset_failed: bool,
    pub(super) processes: Vec<ProcessSlot<'a>>,
    pub(super) composite_slots: Vec<(Composite<'a>, Span)>,
    pub(super) composites: HashMap<String, Composite<'a>>,
    pub(super) end: EndMode,
    pub(super) seed: Option<u64>,
    pub(super) latency_counters: bool,
    pub(super) eventgen: Option<&'a [Attribute]>,
    pub(super) steps: Vec<Step>,
    pub(super) programs: Vec<Program>,
    pub(super) warmup: u64,
    pub(super) interactive: Option<Interactive>,
    pub(super) loads: Option<Spanned<String>>,
    /// Commands executed inside `foreach`.
    pub(super) unrolled: usize,
    /// Flowops that composite ones were expanded to.
    pub(super) expanded: usize,
    /// `indexed` variables brought to the range of a fileset: (variable, entries) to variable.
    pub(super) scaled: HashMap<(usize, u64), usize>,
    pub(super) pending: Pending,
}

impl Lowering<'_> {
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    pub(super) fn fail<T>(&mut self, diagnostic: Diagnostic) -> Result<T, Failed> {
        self.report(diagnostic);
        Err(Failed)
    }
}
