//! The commands in order.

use super::random::named_variable;
use super::state::{Composite, Datum, FilesetSlot, Interactive, Lowering, ProcessSlot, Scope};
use crate::ast::{Attribute, Command, CommandKind, Expr, Spanned};
use crate::diagnostic::Diagnostic;
use crate::loaded::Program;
use crate::syntax::Failed;
use crate::{suggest, tables};
use std::ops::ControlFlow;
use workload::Step;

/// Commands that all `foreach` together may execute.
const MAX_UNROLLED: usize = 4096;

/// Goes on, or ends the script.
type Flow = ControlFlow<()>;

impl<'a> Lowering<'a> {
    /// Executes the script and appends the run where it has none.
    pub(super) fn execute(&mut self, commands: &'a [Command]) -> Result<(), Failed> {
        for (index, command) in commands.iter().enumerate() {
            if self.command(command)?.is_break() {
                self.warn_about_rest(&commands[index + 1..]);
                break;
            }
        }
        if !matches!(self.steps.last(), Some(Step::Run { .. })) {
            self.implicit_run();
        }
        Ok(())
    }

    /// There is nothing to run.
    pub(super) fn no_process(&mut self) {
        let end = self.script.commands.last().map(|command| command.span).unwrap_or_default();
        let diagnostic = match self.loads.clone() {
            Some(name) => Diagnostic::error(
                name.span,
                format!("`load {}` is not supported, and without it no process is defined", name.node),
            )
            .help(format!(
                "run the file of the workload `{}` itself, with --set for its variables",
                name.node
            )),
            None => Diagnostic::error(end, "the script defines no process, so there is nothing to run")
                .help("define process name=p { thread name=t { flowop ... } }"),
        };
        self.report(diagnostic);
    }

    /// Nothing behind the run is executed; only what would have had an effect is worth a word.
    fn warn_about_rest(&mut self, rest: &[Command]) {
        let lost = rest.iter().find(|command| {
            !matches!(
                command.kind,
                CommandKind::Nothing { .. }
                    | CommandKind::Echo(_)
                    | CommandKind::ListFilesets
                    | CommandKind::Quit
                    | CommandKind::Shutdown
                    | CommandKind::StatsSnap
                    | CommandKind::StatsClear
            )
        });
        if let Some(command) = lost {
            self.report(
                Diagnostic::warning(command.span, "nothing behind the run is executed")
                    .label("ignored, and all that follows"),
            );
        }
    }

    /// An interactive script runs as long as it sleeps. What it sleeps before the first `stats clear` is its
    /// warm-up, or where there is nothing, a first window that differs from all others; several windows of one
    /// length behind that are periodic reports.
    fn implicit_run(&mut self) {
        let windows = self.interactive.take().map(|state| state.windows).unwrap_or_default();
        let before = windows.first().copied().unwrap_or(0);
        let cleared: Vec<u64> = windows.into_iter().skip(1).filter(|&seconds| seconds > 0).collect();
        let (warmup, measured) = match (before, cleared.as_slice()) {
            (0, []) => return self.push_run(None, None, None, 0),
            (_, []) => (0, std::slice::from_ref(&before)),
            (0, [first, rest @ ..]) if !rest.is_empty() && !rest.contains(first) => (*first, rest),
            (_, all) => (before, all),
        };
        let seconds = measured.iter().fold(0u64, |sum, &seconds| sum.saturating_add(seconds));
        let periodic = measured.len() > 1 && measured.iter().all(|&seconds| seconds == measured[0]);
        let period = i64::try_from(measured[0]).ok().filter(|_| periodic).map(|seconds| -seconds);
        self.push_run(Some(seconds), None, period, warmup);
    }

    fn push_run(&mut self, seconds: Option<u64>, ops: Option<u64>, period: Option<i64>, warmup: u64) {
        self.steps.push(Step::Run {
            seconds,
            ops,
            report_period_seconds: period,
            warmup_seconds: self.warmup.saturating_add(warmup),
        });
    }

    fn command(&mut self, command: &'a Command) -> Result<Flow, Failed> {
        if self.diagnostics.full() {
            return Err(Failed);
        }
        match &command.kind {
            CommandKind::Set { variable, value } => {
                self.set(&variable.node, value);
            }
            CommandKind::SetField { variable, field, value } => self.set_field_of(variable, field, value),
            CommandKind::ModeQuit(end) => self.end = *end,
            CommandKind::ModeSeed(value) => self.seed = self.fixed_value(value, "seed").ok(),
            CommandKind::DefineFileset { single, attributes } => self.filesets.push(FilesetSlot {
                single: *single,
                attributes,
                span: command.span,
                resolved: None,
            }),
            CommandKind::DefineProcess { attributes, threads } => {
                self.processes.push(ProcessSlot { attributes, threads, span: command.span });
            }
            CommandKind::DefineFlowop { attributes, arguments, body } => {
                self.composite_slots.push((Composite { attributes, arguments, body }, command.span));
            }
            CommandKind::DefineRandvar { attributes } => self.define_randvar(attributes, command),
            CommandKind::CreateFiles => {
                self.resolve_filesets();
                self.steps.push(Step::CreateFiles);
            }
            CommandKind::CreateProcesses => {
                self.interactive = Some(Interactive { windows: vec![0], rate_changed: false })
            }
            CommandKind::EventGen(attributes) => self.event_generator(attributes, command),
            CommandKind::EnableLatencyHistogram => self.latency_counters = true,
            CommandKind::Echo(text) => {
                let text = self.message(text);
                self.steps.push(Step::Echo(text));
            }
            CommandKind::System(text) => {
                let command_line = self.message(text);
                self.programs.push(Program { span: command.span, command: command_line.clone() });
                self.steps.push(Step::System(command_line));
            }
            CommandKind::ListFilesets => {
                self.steps.push(Step::ListFilesets { defined: self.filesets.len() });
            }
            CommandKind::Foreach { variable, values, body } => {
                return self.foreach(variable, values, body, command);
            }
            CommandKind::Warmup(value) => {
                self.warmup = self.fixed_value(value, "warmup").unwrap_or(0);
            }
            CommandKind::Load(name) => {
                self.report(Diagnostic::warning(name.span, "`load` is not supported").label("ignored"));
                self.loads = Some(name.clone());
            }
            CommandKind::Nothing { why: Some(why) } => {
                self.report(Diagnostic::warning(command.span, "this command has no effect").label(*why));
            }
            CommandKind::Nothing { why: None } | CommandKind::ModeNoUseStats | CommandKind::StatsSnap => {}
            CommandKind::Sleep(value) => self.sleep(value, command),
            CommandKind::StatsClear => self.stats_clear(),
            CommandKind::Run { .. }
            | CommandKind::PeriodicRun { .. }
            | CommandKind::Quit
            | CommandKind::Shutdown => return Ok(self.ending(&command.kind)),
        }
        Ok(Flow::Continue(()))
    }

    /// Commands that end the script.
    fn ending(&mut self, kind: &'a CommandKind) -> Flow {
        match kind {
            CommandKind::Run { seconds, attributes } => self.run(seconds.as_ref(), attributes),
            CommandKind::PeriodicRun { period, seconds } => {
                self.periodic_run(period.as_ref(), seconds.as_ref())
            }
            CommandKind::Quit => {}
            // `shutdown` ends an interactive run; before one it means nothing.
            _ if self.interactive.is_some() => {}
            _ => return Flow::Continue(()),
        }
        Flow::Break(())
    }

    fn run(&mut self, seconds: Option<&Spanned<Expr>>, attributes: &'a [Attribute]) {
        let length = seconds.and_then(|value| self.fixed_value(value, "run").ok());
        let fields = self.fields(attributes, tables::RUN, "run");
        let scope = Scope::default();
        let ops = self.fixed_if_given(&fields, "ops", &scope).ok().flatten();
        let warmup = self.fixed(&fields, "warmup", 0, &scope).unwrap_or(0);
        if ops == Some(0) {
            let span = fields.span("ops", crate::Span::default());
            self.report(Diagnostic::error(span, "`ops` must be at least 1"));
        }
        self.push_run(length.filter(|&length| length > 0), ops, None, warmup);
    }

    fn periodic_run(&mut self, period: Option<&Spanned<Expr>>, seconds: Option<&Spanned<Expr>>) {
        let mut every = 10;
        if let Some(value) = period
            && let Ok(number) = self.eval_number(value, &Scope::default())
        {
            match i64::try_from(number) {
                Ok(number) if number != 0 && number != i64::MIN => every = number,
                _ => self.report(
                    Diagnostic::error(value.span, "the period of psrun must not be 0")
                        .help("seconds between reports; negative: counters restart at each"),
                ),
            }
        }
        let length = seconds.and_then(|value| self.fixed_value(value, "psrun").ok());
        self.push_run(length.filter(|&length| length > 0), None, Some(every), 0);
    }

    fn sleep(&mut self, value: &Spanned<Expr>, command: &Command) {
        let Ok(seconds) = self.fixed_value(value, "sleep") else { return };
        match &mut self.interactive {
            Some(state) => {
                if let Some(window) = state.windows.last_mut() {
                    *window = window.saturating_add(seconds);
                }
            }
            None if seconds == 0 => self.report(
                Diagnostic::warning(command.span, "`sleep 0` would wait for ever")
                    .label("ignored")
                    .help("give it a number of seconds"),
            ),
            None => self.steps.push(Step::SleepSeconds(seconds)),
        }
    }

    /// There is one rate for a whole run, the last.
    fn event_generator(&mut self, attributes: &'a [Attribute], command: &Command) {
        self.eventgen = Some(attributes);
        let Some(state) = &mut self.interactive else { return };
        let running = state.windows.iter().any(|&seconds| seconds > 0);
        if running && !std::mem::replace(&mut state.rate_changed, true) {
            self.report(
                Diagnostic::warning(command.span, "the rate of events cannot change during the run")
                    .label("the last rate of the script holds from the beginning"),
            );
        }
    }

    /// In an interactive script the measurement begins anew.
    fn stats_clear(&mut self) {
        if let Some(state) = &mut self.interactive {
            state.windows.push(0);
        }
    }

    fn set_field_of(
        &mut self,
        variable: &Spanned<String>,
        field: &Spanned<String>,
        value: &'a Spanned<Expr>,
    ) {
        match self.variables.get(&variable.node) {
            Some(&Datum::Random(index)) => {
                let _ = self.set_field(index, field, value);
            }
            _ => {
                let known: Vec<&str> = self
                    .variables
                    .iter()
                    .filter(|(_, value)| matches!(value, Datum::Random(_)))
                    .map(|(name, _)| name.as_str())
                    .collect();
                let mut diagnostic =
                    Diagnostic::error(variable.span, format!("`${}` is no random variable", variable.node));
                if let Some(help) = suggest::did_you_mean(&variable.node, known, "$") {
                    diagnostic = diagnostic.help(help);
                }
                self.report(diagnostic);
            }
        }
    }

    fn define_randvar(&mut self, attributes: &'a [Attribute], command: &Command) {
        let fields = self.fields(attributes, tables::RANDVAR, "randvar");
        let Some(name) = named_variable(&fields) else {
            self.report(
                Diagnostic::error(command.span, "this randvar has no name")
                    .help("as in `set $size=randvar(type=gamma, mean=16k)`"),
            );
            return;
        };
        if self.apply_override(&name.node) {
            return;
        }
        match self.randvar(attributes, command.span, &Scope::default()) {
            Ok(index) => self.assign(&name.node, Datum::Random(index)),
            Err(Failed) => {
                self.broken.insert(name.node);
            }
        }
    }

    fn foreach(
        &mut self,
        variable: &Spanned<String>,
        values: &'a [Spanned<Expr>],
        body: &'a [Command],
        command: &Command,
    ) -> Result<Flow, Failed> {
        if let Some(run) = body.iter().find(|command| holds_run(command)) {
            let list: Vec<String> = values
                .iter()
                .filter_map(|value| {
                    let value = self.eval(value, &Scope::default()).ok()?;
                    Some(self.display(&value))
                })
                .collect();
            let help = format!("take the loop out and run with `--set {}={}`", variable.node, list.join(","));
            return self.fail(
                Diagnostic::error(run.span.to(command.span), "several runs in one script are not supported")
                    .label("this loop holds a run")
                    .help(help),
            );
        }
        for value in values {
            if let Ok(value) = self.eval(value, &Scope::default()) {
                self.assign(&variable.node, value);
            }
            for command in body {
                self.unrolled += 1;
                if self.unrolled > MAX_UNROLLED {
                    let message = format!("foreach executes more than {MAX_UNROLLED} commands");
                    return self.fail(Diagnostic::error(command.span, message));
                }
                if self.command(command)?.is_break() {
                    return Ok(Flow::Break(()));
                }
            }
        }
        Ok(Flow::Continue(()))
    }
}

fn holds_run(command: &Command) -> bool {
    match &command.kind {
        CommandKind::Run { .. } | CommandKind::PeriodicRun { .. } | CommandKind::CreateProcesses => true,
        CommandKind::Foreach { body, .. } => body.iter().any(holds_run),
        _ => false,
    }
}
