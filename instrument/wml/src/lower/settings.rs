//! Values from outside: the machine's variables and `--set`.

use super::state::{Datum, Lowering, Override, Scope};
use crate::ast::{Expr, Piece, Spanned};
use crate::diagnostic::{Diagnostic, Level, Span};
use crate::suggest;
use crate::syntax::{self, Failed};

impl Lowering<'_> {
    /// `$ram`, `$cores`, `$free`.
    pub(super) fn predefine(&mut self) {
        let machine = self.settings.machine;
        for (name, value) in
            [("ram", machine.ram_bytes), ("cores", machine.cores.max(1)), ("free", machine.free_bytes)]
        {
            self.variables.insert(name.to_owned(), Datum::Int(i128::from(value)));
        }
    }

    /// Reads the `--set` values; those that need no variable of the script are applied at once.
    pub(super) fn read_overrides(&mut self) {
        for (name, text) in &self.settings.set {
            let name = name.strip_prefix('$').unwrap_or(name);
            if !self.script.mentioned.contains(name) {
                self.unknown_override(name);
                continue;
            }
            let Some(value) = self.parse_override(name, text) else { continue };
            self.overrides.insert(name.to_owned(), Override { text: text.clone(), value, applied: false });
        }
        let names: Vec<String> = self.settings.set.iter().map(|(name, _)| bare(name).to_owned()).collect();
        for name in &names {
            let ready = self.overrides.get(name).is_some_and(|found| self.is_known(&found.value.node));
            if ready {
                self.apply_override(name);
            }
        }
    }

    fn unknown_override(&mut self, name: &str) {
        let known: Vec<&str> = self.script.mentioned.iter().map(String::as_str).collect();
        let help = suggest::did_you_mean(name, known.iter().copied(), "").or_else(|| {
            (!known.is_empty()).then(|| format!("its variables are {}", suggest::list(known.iter().copied())))
        });
        self.report(Diagnostic {
            level: Level::Error,
            message: format!("--set {name}: the script has no variable `${name}`"),
            span: None,
            label: String::new(),
            help,
        });
    }

    /// A value as the script would have it; what is no expression is text.
    fn parse_override(&mut self, name: &str, text: &str) -> Option<Spanned<Expr>> {
        let text_value = || {
            let node = Expr::Text(vec![Piece::Literal(text.to_owned())]);
            Spanned { node, span: Span::default() }
        };
        if text.trim().is_empty() {
            self.outside_error(name, text, "the value is empty");
            return None;
        }
        match syntax::parse_value(text) {
            Ok(value) => Some(value),
            Err(diagnostics) if text.contains('(') || text.contains('$') => {
                let problem = diagnostics.iter().next().map_or(String::new(), |found| found.message.clone());
                self.outside_error(name, text, &problem);
                None
            }
            Err(_) => Some(text_value()),
        }
    }

    fn outside_error(&mut self, name: &str, text: &str, problem: &str) {
        self.report(Diagnostic {
            level: Level::Error,
            message: format!("--set {name}={}: {problem}", syntax::shorten(text)),
            span: None,
            label: String::new(),
            help: None,
        });
    }

    /// Have all variables of an expression got values?
    fn is_known(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Variable(name) => self.variables.contains_key(name),
            Expr::Text(pieces) => pieces.iter().all(|piece| match piece {
                Piece::Literal(_) => true,
                Piece::Variable(name) => self.variables.contains_key(&name.node),
            }),
            Expr::Negate(inner) => self.is_known(&inner.node),
            Expr::Binary(_, left, right) => self.is_known(&left.node) && self.is_known(&right.node),
            Expr::Call(_, arguments) => arguments.iter().all(|argument| self.is_known(&argument.node)),
            Expr::Randvar(attributes) | Expr::Cvar(attributes) => attributes
                .iter()
                .all(|attribute| attribute.value.as_ref().is_none_or(|value| self.is_known(&value.node))),
            Expr::Table(rows) => rows.iter().flatten().all(|cell| self.is_known(&cell.node)),
            Expr::Int(_) | Expr::Bool(_) | Expr::Word(_) => true,
        }
    }

    /// Is the variable set from outside? Then its value is put in place, and the script's own is left out.
    pub(super) fn apply_override(&mut self, name: &str) -> bool {
        let Some(found) = self.overrides.get_mut(name) else { return false };
        if found.applied {
            return true;
        }
        found.applied = true;
        let (text, value) = (found.text.clone(), found.value.clone());
        let before = self.diagnostics.0.len();
        let result = self.eval(&value, &Scope::default());
        let message = |problem: &str| format!("--set {name}={}: {problem}", syntax::shorten(&text));
        // The spans are of the value's text, not of the script's.
        for diagnostic in &mut self.diagnostics.0[before..] {
            diagnostic.message = message(&diagnostic.message);
            diagnostic.span = None;
        }
        match result {
            Ok(value) => self.assign(name, value),
            Err(Failed) => {
                self.broken.insert(name.to_owned());
            }
        }
        true
    }

    /// Applies what the script itself never sets.
    pub(super) fn apply_late_overrides(&mut self) {
        let names: Vec<String> = self.settings.set.iter().map(|(name, _)| bare(name).to_owned()).collect();
        for name in names {
            self.apply_override(&name);
        }
    }

    /// Gives a variable its value.
    pub(super) fn assign(&mut self, name: &str, value: Datum) {
        if let Datum::Random(index) = value {
            self.name_random(index, name);
        }
        self.variables.insert(name.to_owned(), value);
    }

    /// `set $variable = value` of the script.
    pub(super) fn set(&mut self, name: &str, value: &Spanned<Expr>) {
        if self.apply_override(name) {
            return;
        }
        match self.eval(value, &Scope::default()) {
            Ok(value) => self.assign(name, value),
            Err(Failed) => {
                self.broken.insert(name.to_owned());
            }
        }
    }
}

fn bare(name: &str) -> &str {
    name.strip_prefix('$').unwrap_or(name)
}
