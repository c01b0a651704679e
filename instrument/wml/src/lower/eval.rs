//! Variables and the evaluation of expressions.

use super::state::{Datum, Lowering, Scope};
use crate::ast::{Expr, Function, Operator, Piece, Spanned};
use crate::diagnostic::{Diagnostic, Span};
use crate::suggest;
use crate::syntax::Failed;

impl Lowering<'_> {
    /// The value of an expression. Failures have been reported.
    pub(super) fn eval(&mut self, expr: &Spanned<Expr>, scope: &Scope) -> Result<Datum, Failed> {
        match &expr.node {
            Expr::Int(value) => Ok(Datum::Int(i128::from(*value))),
            Expr::Bool(value) => Ok(Datum::Bool(*value)),
            Expr::Word(word) => Ok(Datum::Text(word.clone())),
            Expr::Text(pieces) => self.interpolate(pieces, scope).map(Datum::Text),
            Expr::Variable(name) => self.lookup(name, expr.span, scope),
            Expr::Negate(inner) => {
                let value = self.eval_number(inner, scope)?;
                Ok(Datum::Int(-value))
            }
            Expr::Binary(operator, left, right) => self.eval_binary(*operator, left, right, scope),
            Expr::Call(function, arguments) => self.eval_call(*function, arguments, expr.span, scope),
            Expr::Randvar(attributes) => self.randvar(attributes, expr.span, scope).map(Datum::Random),
            Expr::Cvar(attributes) => self.cvar(attributes, expr.span, scope).map(Datum::Random),
            Expr::Table(_) => {
                self.fail(Diagnostic::error(expr.span, "a table stands only behind `randtable=`"))
            }
        }
    }

    fn lookup(&mut self, name: &str, span: Span, scope: &Scope) -> Result<Datum, Failed> {
        if let Some(found) = scope.get(name).or_else(|| self.variables.get(name)) {
            return Ok(found.clone());
        }
        if self.broken.contains(name) {
            return Err(Failed);
        }
        let known = scope.keys().chain(self.variables.keys()).map(String::as_str);
        let help = suggest::did_you_mean(name, known, "$")
            .unwrap_or_else(|| format!("give it a value before it is used: `set ${name}=...`"));
        self.fail(
            Diagnostic::error(span, format!("the variable `${name}` has no value"))
                .label("not set")
                .help(help),
        )
    }

    fn interpolate(&mut self, pieces: &[Piece], scope: &Scope) -> Result<String, Failed> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Variable(name) => {
                    let value = self.lookup(&name.node, name.span, scope)?;
                    text.push_str(&self.display(&value));
                    self.check_length(&text, name.span)?;
                }
            }
        }
        Ok(text)
    }

    /// Text can double at every `set`; a script that grows it without end is refused.
    fn check_length(&mut self, text: &str, span: Span) -> Result<(), Failed> {
        const MAX_BYTES: usize = 4096;
        if text.len() <= MAX_BYTES {
            return Ok(());
        }
        let message = format!("with its variables this text is longer than {MAX_BYTES} bytes");
        self.fail(Diagnostic::error(span, message))
    }

    /// Text of `echo` and `system`: a variable without a value shows its name, as in Filebench.
    pub(super) fn message(&mut self, expr: &Spanned<Expr>) -> String {
        let scope = Scope::default();
        let pieces = match &expr.node {
            Expr::Text(pieces) => pieces.clone(),
            Expr::Variable(name) => {
                vec![Piece::Variable(Spanned { node: name.clone(), span: expr.span })]
            }
            _ => return self.eval(expr, &scope).map_or_else(|_| String::new(), |value| self.display(&value)),
        };
        let mut text = String::new();
        for piece in &pieces {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Variable(name) => match self.variables.get(&name.node).cloned() {
                    Some(value) => {
                        text.push_str(&self.display(&value));
                        if self.check_length(&text, name.span).is_err() {
                            break;
                        }
                    }
                    None => {
                        let message = format!("the variable `${}` has no value here", name.node);
                        self.report(Diagnostic::warning(name.span, message).label("printed as it stands"));
                        text.push('$');
                        text.push_str(&name.node);
                    }
                },
            }
        }
        text
    }

    /// The value as `echo` prints it.
    pub(super) fn display(&self, value: &Datum) -> String {
        match value {
            Datum::Int(value) => value.to_string(),
            Datum::Bool(value) => value.to_string(),
            Datum::Text(text) => text.clone(),
            Datum::Random(index) => self.randoms[*index].describe().to_owned(),
        }
    }

    pub(super) fn eval_number(&mut self, expr: &Spanned<Expr>, scope: &Scope) -> Result<i128, Failed> {
        let value = self.eval(expr, scope)?;
        self.number_of(value, expr.span)
    }

    fn number_of(&mut self, value: Datum, span: Span) -> Result<i128, Failed> {
        match value {
            Datum::Int(value) => Ok(value),
            other => {
                let message = format!("arithmetic needs numbers, and this is {}", other.describe());
                let help = match other {
                    Datum::Random(_) => {
                        "a random variable is drawn during the run, arithmetic is done before"
                    }
                    _ => "numbers are whole, with a unit k, m, g or t if wanted: 16k",
                };
                self.fail(Diagnostic::error(span, message).label("not a number").help(help))
            }
        }
    }

    fn eval_binary(
        &mut self,
        operator: Operator,
        left: &Spanned<Expr>,
        right: &Spanned<Expr>,
        scope: &Scope,
    ) -> Result<Datum, Failed> {
        let span = left.span.to(right.span);
        let left_value = self.eval(left, scope)?;
        if let (Operator::Divide, Datum::Text(base)) = (operator, &left_value) {
            // `$dir/sub`: not a division but a path.
            let tail = self.eval(right, scope)?;
            let path = format!("{}/{}", base.trim_end_matches('/'), self.display(&tail));
            self.check_length(&path, span)?;
            return Ok(Datum::Text(path));
        }
        let a = self.number_of(left_value, left.span)?;
        let b = self.eval_number(right, scope)?;
        let result = match operator {
            Operator::Add => a.checked_add(b),
            Operator::Subtract => a.checked_sub(b),
            Operator::Multiply => a.checked_mul(b),
            Operator::Divide | Operator::Remainder if b == 0 => {
                return self.fail(Diagnostic::error(right.span, "division by zero").label("this is 0"));
            }
            Operator::Divide => a.checked_div(b),
            Operator::Remainder => a.checked_rem(b),
        };
        self.in_range(result, span)
    }

    fn in_range(&mut self, result: Option<i128>, span: Span) -> Result<Datum, Failed> {
        // Twice 64 bits leaves room for any product of two valid numbers.
        match result {
            Some(value) => Ok(Datum::Int(value)),
            None => self.fail(Diagnostic::error(span, "the result does not fit in 128 bits")),
        }
    }

    fn eval_call(
        &mut self,
        function: Function,
        arguments: &[Spanned<Expr>],
        span: Span,
        scope: &Scope,
    ) -> Result<Datum, Failed> {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.eval_number(argument, scope)?);
        }
        match (function, values.as_slice()) {
            (Function::Min, values) => self.in_range(values.iter().min().copied(), span),
            (Function::Max, values) => self.in_range(values.iter().max().copied(), span),
            (Function::RoundUp | Function::RoundDown, &[value, multiple]) => {
                if multiple <= 0 {
                    let message = "rounding needs a multiple of at least 1";
                    return self.fail(Diagnostic::error(arguments[1].span, message));
                }
                let down = value.div_euclid(multiple).checked_mul(multiple);
                let rounded = if function == Function::RoundDown || down == Some(value) {
                    down
                } else {
                    down.and_then(|down| down.checked_add(multiple))
                };
                self.in_range(rounded, span)
            }
            _ => self.fail(
                Diagnostic::error(span, "this function takes two arguments")
                    .help("round_up(value, multiple), round_down(value, multiple)"),
            ),
        }
    }
}
