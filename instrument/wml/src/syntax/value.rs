//! Values and expressions.

use super::cursor::{Cursor, MAX_OPERATORS, MAX_TEXT, Parsed};
use super::lex::Token;
use crate::ast::{Expr, Operator, Piece, Spanned};
use crate::diagnostic::{Diagnostic, Span};
use crate::tables;

type Value = Spanned<Expr>;

const VALUE_HELP: &str = "a value is a number (`16k`), `true` or `false`, a word, a quoted string, \
                          a `$variable` or an expression of numbers and variables";

impl Cursor<'_> {
    /// A value: what stands behind `=`.
    pub(super) fn value(&mut self) -> Parsed<Value> {
        if self.value_depth == 0 {
            self.operators = 0;
        }
        self.value_depth += 1;
        let value = self.nested(Self::sum);
        self.value_depth -= 1;
        value
    }

    /// A value from outside the script; it must fill the text.
    pub(super) fn outside_value(&mut self) -> Parsed<Value> {
        let value = self.value()?;
        if self.token == Token::End { Ok(value) } else { self.unexpected("the end of the value", None) }
    }

    /// The operator that follows on this line, if `wanted` has it. Only numbers, variables, calls and
    /// parentheses can be
    /// followed by one; the bytes are looked at directly, since the lexer would take `/` or `-` into a word.
    fn operator(&mut self, operand: &Value, wanted: &[(u8, Operator)]) -> Option<Operator> {
        let computes = matches!(
            operand.node,
            Expr::Int(_) | Expr::Variable(_) | Expr::Binary(..) | Expr::Call(..) | Expr::Negate(_)
        );
        if !computes {
            return None;
        }
        let start = self.last_end;
        let saved = self.lexer.at;
        self.lexer.at = start;
        let found = self.lexer.peek_on_line();
        let operator = found.and_then(|(at, byte)| {
            wanted.iter().find(|(known, _)| *known == byte).map(|&(_, operator)| (at, operator))
        });
        match operator {
            Some((at, operator)) => {
                self.lexer.at = at + 1;
                self.last_end = at + 1;
                self.read();
                Some(operator)
            }
            None => {
                self.lexer.at = saved;
                None
            }
        }
    }

    fn sum(&mut self) -> Parsed<Value> {
        let mut left = self.product()?;
        while let Some(operator) = self.operator(&left, &[(b'+', Operator::Add), (b'-', Operator::Subtract)])
        {
            let right = self.product()?;
            left = self.binary(operator, left, right)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed<Value> {
        let wanted = [(b'*', Operator::Multiply), (b'/', Operator::Divide), (b'%', Operator::Remainder)];
        let mut left = self.operand()?;
        while let Some(operator) = self.operator(&left, &wanted) {
            let right = self.operand()?;
            left = self.binary(operator, left, right)?;
        }
        Ok(left)
    }

    /// Bounded, since a chain of operators is as deep a tree as it is long.
    fn binary(&mut self, operator: Operator, left: Value, right: Value) -> Parsed<Value> {
        let span = left.span.to(right.span);
        self.operators += 1;
        if self.operators > MAX_OPERATORS {
            let message = format!("this expression has more than {MAX_OPERATORS} operators");
            return self.fail(Diagnostic::error(span, message));
        }
        Ok(Spanned { node: Expr::Binary(operator, Box::new(left), Box::new(right)), span })
    }

    fn operand(&mut self) -> Parsed<Value> {
        let span = self.span;
        if self.at_statement() {
            return self.unexpected("a value", Some(VALUE_HELP));
        }
        if span.end - span.start > MAX_TEXT {
            let message = format!("this text is longer than {} KiB", MAX_TEXT >> 10);
            return self.fail(Diagnostic::error(span, message));
        }
        let node = match self.token {
            Token::Int(Some(value)) => {
                self.advance();
                Expr::Int(value)
            }
            Token::Int(None) => {
                self.report(
                    Diagnostic::error(span, "this number does not fit in 64 bits").label("too large"),
                );
                self.advance();
                Expr::Int(0)
            }
            Token::Minus => {
                self.advance();
                let inner = self.nested(Self::operand)?;
                Expr::Negate(Box::new(inner))
            }
            Token::OpenParen => {
                self.advance();
                let inner = self.nested(Self::sum)?;
                self.expect(&Token::CloseParen, "close the parenthesis with `)`")?;
                return Ok(Spanned { span: Span::new(span.start, self.last_end), node: inner.node });
            }
            Token::Variable(name) => self.after_variable(name),
            Token::Quoted(_) => match self.advance() {
                Token::Quoted(pieces) => Expr::Text(self.mention_pieces(pieces)),
                _ => Expr::Text(Vec::new()),
            },
            Token::Word(word) => return self.word_value(word),
            _ => return self.unexpected("a value", Some(VALUE_HELP)),
        };
        Ok(Spanned { node, span: Span::new(span.start, self.last_end.max(span.end)) })
    }

    /// `$dir` alone, or with text that touches it, as in `$dir.log`.
    fn after_variable(&mut self, name: &str) -> Expr {
        let span = self.span;
        let tail = match (self.lexer.at == span.end).then(|| self.lexer.ahead(0)).flatten() {
            Some(b'.' | b':' | b';' | b'_' | b'~' | b'@') => self.lexer.take_word().to_owned(),
            _ => String::new(),
        };
        self.span.end += tail.len();
        self.advance();
        if tail.is_empty() {
            return Expr::Variable(name.to_owned());
        }
        Expr::Text(vec![Piece::Variable(Spanned { node: name.to_owned(), span }), Piece::Literal(tail)])
    }

    pub(super) fn mention_pieces(&mut self, pieces: Vec<Piece>) -> Vec<Piece> {
        for piece in &pieces {
            if let Piece::Variable(name) = piece {
                self.mention(&name.node);
            }
        }
        pieces
    }

    fn word_value(&mut self, word: &str) -> Parsed<Value> {
        let span = self.span;
        self.advance();
        let opens = self.token == Token::OpenParen;
        let node = match word {
            "true" => Expr::Bool(true),
            "false" => Expr::Bool(false),
            "randvar" | "cvar" if opens => {
                self.advance();
                let attributes = self.nested(|cursor| cursor.attributes(Some(&Token::CloseParen)))?;
                self.expect(&Token::CloseParen, "attributes are separated by `,`, and `)` ends them")?;
                if word == "cvar" { Expr::Cvar(attributes) } else { Expr::Randvar(attributes) }
            }
            _ if opens && self.touches_last() => {
                let Some(function) = tables::function(word) else {
                    let known = crate::suggest::list(tables::FUNCTIONS.iter().map(|&(name, _)| name));
                    return self.fail(
                        Diagnostic::error(
                            span,
                            format!("there is no function `{}`", super::lex::shorten(word)),
                        )
                        .label("unknown function")
                        .help(format!("functions are {known}; random values are randvar(...), cvar(...)")),
                    );
                };
                self.advance();
                let arguments = self.nested(Self::call_arguments)?;
                Expr::Call(function, arguments)
            }
            _ => Expr::Word(word.to_owned()),
        };
        Ok(Spanned { node, span: Span::new(span.start, self.last_end) })
    }

    fn call_arguments(&mut self) -> Parsed<Vec<Value>> {
        let mut arguments = vec![self.value()?];
        while self.token == Token::Comma {
            self.advance();
            arguments.push(self.value()?);
        }
        self.expect(&Token::CloseParen, "arguments are separated by `,`, and `)` ends them")?;
        Ok(arguments)
    }

    /// `{{percent, low, high}, ...}`.
    pub(super) fn table(&mut self) -> Parsed<Value> {
        const HELP: &str = "a randtable is written {{percent, low, high}, {percent, low, high}}";
        let start = self.expect(&Token::OpenBrace, HELP)?;
        let mut rows = Vec::new();
        loop {
            self.expect(&Token::OpenBrace, HELP)?;
            let percent = self.value()?;
            self.expect(&Token::Comma, HELP)?;
            let low = self.value()?;
            self.expect(&Token::Comma, HELP)?;
            let high = self.value()?;
            self.expect(&Token::CloseBrace, HELP)?;
            rows.push([percent, low, high]);
            if self.token != Token::Comma {
                break;
            }
            self.advance();
        }
        self.expect(&Token::CloseBrace, HELP)?;
        Ok(Spanned { node: Expr::Table(rows), span: Span::new(start.start, self.last_end) })
    }
}
