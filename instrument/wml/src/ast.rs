//! The script as written: commands in order, attributes unresolved, every piece with its span.

use crate::diagnostic::Span;
use std::collections::BTreeSet;

/// A whole script.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    /// Commands in order.
    pub commands: Vec<Command>,
    /// Names (without `$`) of all variables that the script mentions anywhere.
    pub mentioned: BTreeSet<String>,
}

/// A piece of syntax and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Spanned<T> {
    /// The piece.
    pub node: T,
    /// Its place.
    pub span: Span,
}

/// One command.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// What it is.
    pub kind: CommandKind,
    /// From its first to its last byte.
    pub span: Span,
}

/// Commands of the language, the interactive era's included.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandKind {
    /// `set $variable = value`.
    Set {
        /// Variable, without `$`.
        variable: Spanned<String>,
        /// Value.
        value: Spanned<Expr>,
    },
    /// `set $variable.field = value` of dialects before 1.5.
    SetField {
        /// Variable, without `$`.
        variable: Spanned<String>,
        /// `mean`, `type` ...
        field: Spanned<String>,
        /// Value.
        value: Spanned<Expr>,
    },
    /// `set mode quit ...`.
    ModeQuit(workload::EndMode),
    /// `set mode nousestats`.
    ModeNoUseStats,
    /// `set mode seed N`.
    ModeSeed(Spanned<Expr>),
    /// `define file` (`single`) or `define fileset`.
    DefineFileset {
        /// `define file`.
        single: bool,
        /// Attributes.
        attributes: Vec<Attribute>,
    },
    /// `define process { thread ... }`.
    DefineProcess {
        /// Attributes.
        attributes: Vec<Attribute>,
        /// Threads in order.
        threads: Vec<Thread>,
    },
    /// `define flowop { ... }`: a composite one.
    DefineFlowop {
        /// `name`, `iters`.
        attributes: Vec<Attribute>,
        /// `$argument [= default]`.
        arguments: Vec<Attribute>,
        /// Inner flowops.
        body: Vec<Flowop>,
    },
    /// `define randvar name=$v, ...` of dialects before 1.5.
    DefineRandvar {
        /// Attributes, `name` among them.
        attributes: Vec<Attribute>,
    },
    /// `create files` (and `create fileset` of old).
    CreateFiles,
    /// `create processes` of old: the run begins.
    CreateProcesses,
    /// `run [seconds] [ops=N] [warmup=N]`.
    Run {
        /// Length.
        seconds: Option<Spanned<Expr>>,
        /// `ops=`, `warmup=`.
        attributes: Vec<Attribute>,
    },
    /// `psrun [period [seconds]]`.
    PeriodicRun {
        /// Seconds between reports.
        period: Option<Spanned<Expr>>,
        /// Length.
        seconds: Option<Spanned<Expr>>,
    },
    /// `sleep seconds`.
    Sleep(Spanned<Expr>),
    /// `warmup seconds` of old.
    Warmup(Spanned<Expr>),
    /// `eventgen rate=...`.
    EventGen(Vec<Attribute>),
    /// `enable lathist`.
    EnableLatencyHistogram,
    /// `echo text`.
    Echo(Spanned<Expr>),
    /// `list fileset`.
    ListFilesets,
    /// `system text`.
    System(Spanned<Expr>),
    /// `foreach $variable in a, b { ... }` of old.
    Foreach {
        /// Variable, without `$`.
        variable: Spanned<String>,
        /// Values.
        values: Vec<Spanned<Expr>>,
        /// Body.
        body: Vec<Command>,
    },
    /// `stats snap`, `stats dump ...`: the result of an interactive measurement.
    StatsSnap,
    /// `stats clear`: its begin.
    StatsClear,
    /// `shutdown ...` of old.
    Shutdown,
    /// `quit` or `exit`.
    Quit,
    /// `load X` of old.
    Load(Spanned<String>),
    /// Accepted without any effect.
    Nothing {
        /// Why nothing happens, when the author should know.
        why: Option<&'static str>,
    },
}

/// `name [= value]`, or `$name [= value]` for arguments of composite flowops.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Name, without `$`.
    pub name: Spanned<String>,
    /// Value; none: true.
    pub value: Option<Spanned<Expr>>,
}

/// `thread attributes { flowops }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    /// Attributes.
    pub attributes: Vec<Attribute>,
    /// Flowops in order.
    pub body: Vec<Flowop>,
    /// The word `thread`.
    pub span: Span,
}

/// `flowop type attributes`.
#[derive(Debug, Clone, PartialEq)]
pub struct Flowop {
    /// Type: a built-in one or a composite's name.
    pub kind: Spanned<String>,
    /// Attributes.
    pub attributes: Vec<Attribute>,
    /// Arguments for a composite.
    pub arguments: Vec<Attribute>,
}

/// A value, or a computation of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// `16k`.
    Int(u64),
    /// `true`, `false`.
    Bool(bool),
    /// A bare word.
    Word(String),
    /// A quoted string.
    Text(Vec<Piece>),
    /// `$name`, without `$`.
    Variable(String),
    /// `-x`.
    Negate(Box<Spanned<Expr>>),
    /// `a op b`.
    Binary(Operator, Box<Spanned<Expr>>, Box<Spanned<Expr>>),
    /// `min(a, b)`, ...
    Call(Function, Vec<Spanned<Expr>>),
    /// `randvar(...)`.
    Randvar(Vec<Attribute>),
    /// `cvar(...)`.
    Cvar(Vec<Attribute>),
    /// `{{percent, low, high}, ...}`.
    Table(Vec<[Spanned<Expr>; 3]>),
}

/// A piece of a quoted string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text, escapes resolved.
    Literal(String),
    /// `$name`.
    Variable(Spanned<String>),
}

impl Eq for Spanned<String> {}

/// Binary operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Functions of expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Smallest argument.
    Min,
    /// Largest argument.
    Max,
    /// First argument rounded up to a multiple of the second.
    RoundUp,
    /// First argument rounded down to a multiple of the second.
    RoundDown,
}
