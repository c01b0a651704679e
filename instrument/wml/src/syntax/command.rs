//! Commands, those of older dialects included.

use super::cursor::{Cursor, Failed, Parsed};
use super::entity::is_plural;
use super::lex::{Token, shorten};
use crate::ast::{Command, CommandKind, Expr, Spanned};
use crate::diagnostic::{Diagnostic, Span};
use crate::{suggest, tables};
use workload::EndMode;

impl Cursor<'_> {
    /// The commands up to the end of the text; errors are skipped over.
    pub(super) fn script(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        while self.token != Token::End && !self.full() {
            if self.token == Token::CloseBrace && self.has_errors() {
                // What it closes was not understood, which has been said.
                self.advance();
                continue;
            }
            match self.command() {
                Ok(command) => commands.push(command),
                Err(Failed) => self.skip_to_command(),
            }
        }
        commands
    }

    fn command(&mut self) -> Parsed<Command> {
        let span = self.span;
        let Token::Word(word) = self.token else {
            let failed = self.unexpected("a command", Some("a command begins with set, define, run, ..."));
            self.advance();
            return failed;
        };
        self.advance();
        let kind = self.after_keyword(word, span)?;
        Ok(Command { kind, span: Span::new(span.start, self.last_end) })
    }

    fn after_keyword(&mut self, word: &str, span: Span) -> Parsed<CommandKind> {
        Ok(match word {
            "set" => return self.set(),
            "define" => return self.define(),
            "create" => return self.create(),
            "run" => return self.run(),
            "psrun" => self.psrun()?,
            "sleep" => CommandKind::Sleep(self.value()?),
            "warmup" => CommandKind::Warmup(self.value()?),
            "eventgen" => return self.eventgen(),
            "enable" => return self.enable(),
            "echo" => CommandKind::Echo(self.text()?),
            "system" => CommandKind::System(self.text()?),
            "foreach" => return self.nested(Self::foreach),
            "stats" => return self.stats(),
            "quit" | "exit" => CommandKind::Quit,
            "load" => CommandKind::Load(self.word("the name of a workload", None)?),
            "shutdown" => {
                self.skip_line();
                CommandKind::Shutdown
            }
            "usage" | "log" => {
                self.text()?;
                CommandKind::Nothing { why: None }
            }
            "debug" => {
                self.value()?;
                CommandKind::Nothing { why: None }
            }
            "list" => self.list(),
            "version" | "vars" | "help" => {
                self.skip_line();
                CommandKind::Nothing { why: None }
            }
            "fsflush" | "fscheck" => {
                self.skip_line();
                CommandKind::Nothing {
                    why: Some("the runner itself decides about the state of caches and file systems"),
                }
            }
            "enable_osprof" | "disable_osprof" => {
                self.skip_line();
                CommandKind::Nothing { why: Some("OSprof is gone; latency histograms are always recorded") }
            }
            "domultisync" => {
                self.attributes(None)?;
                CommandKind::Nothing {
                    why: Some("several clients are not supported here; the script runs alone"),
                }
            }
            _ => return self.unknown_command(word, span),
        })
    }

    fn unknown_command(&mut self, word: &str, span: Span) -> Parsed<CommandKind> {
        let mut diagnostic = Diagnostic::error(span, format!("there is no command `{}`", shorten(word)))
            .label("unknown command");
        if word == "flowop" || word == "thread" {
            diagnostic = diagnostic
                .help(format!("a {word} stands inside `define process ... {{ thread ... {{ ... }} }}`"));
        } else if let Some(near) = suggest::nearest(word, tables::COMMANDS.iter().copied()) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        }
        self.fail(diagnostic)
    }

    fn set(&mut self) -> Parsed<CommandKind> {
        const HELP: &str = "as in `set $nfiles=1000` or `set mode quit alldone`";
        if self.at_word("mode") {
            self.advance();
            return self.set_mode();
        }
        let variable = self.variable("a variable or `mode`", Some(HELP))?;
        if let Token::Word(word) = self.token
            && let Some(field) = word.strip_prefix('.').filter(|_| self.touches_last())
        {
            let field = Spanned { node: field.to_owned(), span: self.span };
            self.advance();
            self.expect(&Token::Equals, HELP)?;
            return Ok(CommandKind::SetField { variable, field, value: self.value()? });
        }
        self.expect(&Token::Equals, HELP)?;
        let value = self.value()?;
        self.check_end_of_value()?;
        Ok(CommandKind::Set { variable, value })
    }

    /// What is left on the line after the value of `set` must be a new command.
    fn check_end_of_value(&mut self) -> Parsed<()> {
        let stray = match &self.token {
            Token::Word(word) => !tables::COMMANDS.contains(word),
            Token::End | Token::CloseBrace => false,
            _ => true,
        };
        if stray && !self.first_on_line {
            let help = "text with blanks or special characters must stand in double quotes";
            return self.unexpected("the end of the line", Some(help));
        }
        Ok(())
    }

    fn set_mode(&mut self) -> Parsed<CommandKind> {
        const HELP: &str =
            "`set mode quit timeout|alldone|firstdone`, `set mode seed N` or `set mode nousestats`";
        let mode = self.word("a mode", Some(HELP))?;
        match mode.node.as_str() {
            "nousestats" | "usestats" => return Ok(CommandKind::ModeNoUseStats),
            "seed" => {
                if self.token == Token::Equals {
                    self.advance();
                }
                return Ok(CommandKind::ModeSeed(self.value()?));
            }
            "quit" => {}
            _ => return self.fail(Diagnostic::error(mode.span, "there is no such mode").help(HELP)),
        }
        let end = self.word("timeout, alldone or firstdone", Some(HELP))?;
        match end.node.as_str() {
            "timeout" => Ok(CommandKind::ModeQuit(EndMode::Timeout)),
            "alldone" => Ok(CommandKind::ModeQuit(EndMode::AllDone)),
            "firstdone" => Ok(CommandKind::ModeQuit(EndMode::FirstDone)),
            _ => self.fail(Diagnostic::error(end.span, "there is no such end of a run").help(HELP)),
        }
    }

    fn create(&mut self) -> Parsed<CommandKind> {
        let what = self.word("`files`", Some("as in `create files`"))?;
        match what.node.as_str() {
            "file" | "files" => Ok(CommandKind::CreateFiles),
            name if is_plural(name, "fileset") => Ok(CommandKind::CreateFiles),
            "process" | "processes" => Ok(CommandKind::CreateProcesses),
            _ => {
                self.fail(Diagnostic::error(what.span, "this cannot be created").help("as in `create files`"))
            }
        }
    }

    /// Does a number follow (which then belongs to the command)?
    fn number_follows(&self) -> bool {
        matches!(self.token, Token::Int(_) | Token::Variable(_) | Token::Minus | Token::OpenParen)
    }

    fn run(&mut self) -> Parsed<CommandKind> {
        let seconds = if self.number_follows() { Some(self.value()?) } else { None };
        let mut attributes = Vec::new();
        if self.token == Token::Comma {
            self.advance();
        }
        if matches!(self.token, Token::Word("ops" | "warmup")) {
            attributes = self.attributes(None)?;
        } else if !self.first_on_line
            && matches!(self.token, Token::Word(word) if !tables::COMMANDS.contains(&word))
        {
            return self.unexpected("a number of seconds", Some("as in `run 60` or `run 60 ops=100000`"));
        }
        Ok(CommandKind::Run { seconds, attributes })
    }

    fn psrun(&mut self) -> Parsed<CommandKind> {
        let period = if self.number_follows() { Some(self.value()?) } else { None };
        if self.token == Token::Comma {
            self.advance();
        }
        let seconds = if period.is_some() && self.number_follows() { Some(self.value()?) } else { None };
        Ok(CommandKind::PeriodicRun { period, seconds })
    }

    fn eventgen(&mut self) -> Parsed<CommandKind> {
        if !self.at_word("rate") {
            return Ok(CommandKind::EventGen(Vec::new()));
        }
        Ok(CommandKind::EventGen(self.attributes(None)?))
    }

    fn enable(&mut self) -> Parsed<CommandKind> {
        let what = self.word("`lathist`", Some("as in `enable lathist`"))?;
        match what.node.as_str() {
            "lathist" => Ok(CommandKind::EnableLatencyHistogram),
            "multi" => {
                self.attributes(None)?;
                Ok(CommandKind::Nothing {
                    why: Some("several clients are not supported here; the script runs alone"),
                })
            }
            _ => self
                .fail(Diagnostic::error(what.span, "this cannot be enabled").help("as in `enable lathist`")),
        }
    }

    /// Text of `echo`, `system` and the like: one quoted string, or what else gives a value.
    fn text(&mut self) -> Parsed<Spanned<Expr>> {
        match self.token {
            Token::Quoted(_) | Token::Word(_) | Token::Int(_) | Token::Variable(_) => self.value(),
            _ => self.unexpected("text in double quotes", Some("as in `echo \"starting\"`")),
        }
    }

    fn stats(&mut self) -> Parsed<CommandKind> {
        let what = self.word("snap, clear, dump, ...", None)?;
        self.skip_line();
        Ok(match what.node.as_str() {
            "snap" | "dump" | "xmldump" | "multidump" => CommandKind::StatsSnap,
            "clear" => CommandKind::StatsClear,
            _ => CommandKind::Nothing { why: Some("the runner keeps the statistics and says where") },
        })
    }

    /// Of the entities that Filebench lists, filesets alone are known to the run; `list flowop` is accepted.
    fn list(&mut self) -> CommandKind {
        let filesets = !self.first_on_line
            && matches!(self.token, Token::Word(word) if is_plural(word, "fileset") || is_plural(word, "file"));
        self.skip_line();
        if filesets { CommandKind::ListFilesets } else { CommandKind::Nothing { why: None } }
    }

    /// Leaves out the rest of the line.
    fn skip_line(&mut self) {
        while self.token != Token::End && !self.first_on_line && self.token != Token::CloseBrace {
            self.advance();
        }
    }

    fn foreach(&mut self) -> Parsed<CommandKind> {
        const HELP: &str = "as in `foreach $iosize in 4k, 64k { ... }`";
        let variable = self.variable("a variable", Some(HELP))?;
        if !self.at_word("in") {
            return self.unexpected("`in`", Some(HELP));
        }
        self.advance();
        let mut values = vec![self.value()?];
        while self.token == Token::Comma {
            self.advance();
            values.push(self.value()?);
        }
        let open = self.expect(&Token::OpenBrace, HELP)?;
        let mut body = Vec::new();
        loop {
            match self.token {
                Token::CloseBrace => break,
                Token::End => return self.unclosed(open),
                _ => {}
            }
            if self.full() {
                return Err(Failed);
            }
            match self.command() {
                Ok(command) => body.push(command),
                Err(Failed) => self.skip_inside(&[]),
            }
        }
        self.advance();
        Ok(CommandKind::Foreach { variable, values, body })
    }
}
