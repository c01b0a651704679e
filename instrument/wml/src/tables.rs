//! The names that the language knows.

use crate::ast::Function;

/// What the language does with an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It has a meaning here.
    Meant,
    /// It has a meaning here, but only older dialects write it (or it is a synonym).
    Old,
    /// Older dialects had it; it is accepted and has no effect.
    Ignored,
}

/// Attributes of an entity: (name as written, name it stands for, what is done with it).
pub(crate) type Attributes = &'static [(&'static str, &'static str, Use)];

use Use::{Ignored, Meant, Old};

/// `define file`, `define fileset`.
pub(crate) const FILESET: Attributes = &[
    ("name", "name", Meant),
    ("path", "path", Meant),
    ("entries", "entries", Meant),
    ("leafdirs", "leafdirs", Meant),
    ("dirwidth", "dirwidth", Meant),
    ("dirgamma", "dirgamma", Meant),
    ("dirdepthrv", "dirdepthrv", Meant),
    ("size", "size", Meant),
    ("filesize", "size", Old),
    ("prealloc", "prealloc", Meant),
    ("paralloc", "paralloc", Meant),
    ("reuse", "reuse", Meant),
    ("trusttree", "trusttree", Meant),
    ("readonly", "readonly", Meant),
    ("writeonly", "writeonly", Meant),
    ("directory", "path", Old),
    ("filesizegamma", "filesizegamma", Old),
    ("sizegamma", "filesizegamma", Old),
    ("cached", "cached", Ignored),
    ("namelength", "namelength", Ignored),
    ("client", "client", Ignored),
];

/// `define process`.
pub(crate) const PROCESS: Attributes = &[
    ("name", "name", Meant),
    ("procname", "name", Old),
    ("instances", "instances", Meant),
    ("nice", "nice", Meant),
];

/// `thread`.
pub(crate) const THREAD: Attributes = &[
    ("name", "name", Meant),
    ("instances", "instances", Meant),
    ("memsize", "memsize", Meant),
    ("ioprio", "ioprio", Meant),
    ("useism", "useism", Ignored),
];

/// `flowop` inside a thread or a composite one.
pub(crate) const FLOWOP: Attributes = &[
    ("name", "name", Meant),
    ("filesetname", "filesetname", Meant),
    ("filename", "filesetname", Old),
    ("fileset", "filesetname", Old),
    ("fd", "fd", Meant),
    ("srcfd", "srcfd", Meant),
    ("iosize", "iosize", Meant),
    ("workingset", "workingset", Meant),
    ("random", "random", Meant),
    ("offset", "offset", Meant),
    ("dsync", "dsync", Meant),
    ("directio", "directio", Meant),
    ("noreadahead", "noreadahead", Meant),
    ("iters", "iters", Meant),
    ("indexed", "indexed", Meant),
    ("opennext", "opennext", Meant),
    ("value", "value", Meant),
    ("target", "target", Meant),
    ("highwater", "highwater", Meant),
    ("blocking", "blocking", Meant),
    ("cached", "cached", Ignored),
    ("namelength", "namelength", Ignored),
];

/// Flowops of older dialects that are accepted and do nothing: (name, why).
pub(crate) const IGNORED_FLOWOPS: &[(&str, &str)] =
    &[("aiosubmit", "from an older dialect, ignored: `aiowrite` submits by itself")];

/// Use of a composite flowop.
pub(crate) const COMPOSITE: Attributes = &[("name", "name", Meant), ("iters", "iters", Meant)];

/// `randvar(...)`.
pub(crate) const RANDVAR: Attributes = &[
    ("name", "name", Meant),
    ("type", "type", Meant),
    ("seed", "seed", Meant),
    ("min", "min", Meant),
    ("max", "max", Meant),
    ("mean", "mean", Meant),
    ("gamma", "gamma", Meant),
    ("round", "round", Meant),
    ("randtable", "randtable", Meant),
    ("randsrc", "randsrc", Ignored),
];

/// `cvar(...)`.
pub(crate) const CVAR: Attributes = &[
    ("name", "name", Meant),
    ("type", "type", Meant),
    ("parameters", "parameters", Meant),
    ("min", "min", Meant),
    ("max", "max", Meant),
    ("round", "round", Meant),
    ("seed", "seed", Meant),
];

/// `eventgen`.
pub(crate) const EVENTGEN: Attributes = &[("rate", "rate", Meant)];

/// `run`.
pub(crate) const RUN: Attributes = &[("ops", "ops", Meant), ("warmup", "warmup", Meant)];

/// Commands, for suggestions.
pub(crate) const COMMANDS: &[&str] = &[
    "set",
    "define",
    "create",
    "run",
    "psrun",
    "sleep",
    "warmup",
    "eventgen",
    "enable",
    "disable_osprof",
    "enable_osprof",
    "domultisync",
    "echo",
    "system",
    "list",
    "debug",
    "version",
    "quit",
    "exit",
    "usage",
    "load",
    "log",
    "vars",
    "help",
    "foreach",
    "stats",
    "shutdown",
    "fscheck",
    "fsflush",
];

/// Sub-fields of random variables that older dialects could set (`set $v.mean=...`).
pub(crate) const FIELDS: &[&str] = &["type", "randsrc", "seed", "min", "max", "mean", "gamma", "round"];

/// Functions of expressions.
pub(crate) const FUNCTIONS: &[(&str, Function)] = &[
    ("min", Function::Min),
    ("max", Function::Max),
    ("round_up", Function::RoundUp),
    ("round_down", Function::RoundDown),
];

/// The function of that name.
pub(crate) fn function(name: &str) -> Option<Function> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|&(_, function)| function)
}

/// Bytes of a unit suffix, in any case: `k`, `m`, `g`, `t`, with `b` or `ib` behind if one likes; all are
/// powers of 1024.
pub(crate) fn unit(suffix: &str) -> Option<u64> {
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    Some(1 << shift)
}
