//! The parser's state: one token ahead, the errors so far, and how it goes on after one.

use super::lex::{Lexer, Token};
use crate::ast::Spanned;
use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use crate::tables;
use std::collections::BTreeSet;

/// The construct could not be read; the reason has been reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed;

/// What a parsing function gives.
pub(super) type Parsed<T> = Result<T, Failed>;

/// Nesting of expressions and blocks beyond which a script is refused.
pub(super) const MAX_DEPTH: usize = 32;

/// Attributes and arguments of one entity beyond which a script is refused.
pub(super) const MAX_ATTRIBUTES: usize = 256;

/// Bytes of a word or a quoted string beyond which a script is refused.
pub(super) const MAX_TEXT: usize = 16 << 10;

/// Operators in one value beyond which a script is refused.
pub(super) const MAX_OPERATORS: usize = 200;

pub(super) struct Cursor<'a> {
    pub(super) lexer: Lexer<'a>,
    pub(super) token: Token<'a>,
    pub(super) span: Span,
    pub(super) first_on_line: bool,
    /// End of the token taken last.
    pub(super) last_end: usize,
    pub(super) depth: usize,
    /// Values being read inside each other.
    pub(super) value_depth: usize,
    /// Operators in the outermost value so far.
    pub(super) operators: usize,
    mentioned: BTreeSet<String>,
    diagnostics: Diagnostics,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut cursor = Cursor {
            lexer: Lexer::new(text),
            token: Token::End,
            span: Span::default(),
            first_on_line: true,
            last_end: 0,
            depth: 0,
            value_depth: 0,
            operators: 0,
            mentioned: BTreeSet::new(),
            diagnostics: Diagnostics::default(),
        };
        cursor.read();
        cursor.last_end = 0;
        cursor
    }

    pub(super) fn finish(self) -> (BTreeSet<String>, Diagnostics) {
        (self.mentioned, self.diagnostics)
    }

    /// Cuts the next token, without treating the present one as taken.
    pub(super) fn read(&mut self) {
        let diagnostics = &mut self.diagnostics;
        let lexed = self.lexer.next(&mut |found| diagnostics.push(found));
        self.token = lexed.token;
        self.span = lexed.span;
        self.first_on_line = lexed.first_on_line;
        if let Token::Variable(name) = &self.token
            && !self.mentioned.contains(*name)
        {
            self.mentioned.insert((*name).to_owned());
        }
    }

    /// Takes the present token.
    pub(super) fn advance(&mut self) -> Token<'a> {
        self.last_end = self.span.end;
        let token = std::mem::replace(&mut self.token, Token::End);
        self.read();
        token
    }

    /// The text position right behind the token taken last, when the present token touches it.
    pub(super) fn touches_last(&self) -> bool {
        self.span.start == self.last_end && self.token != Token::End
    }

    pub(super) fn mention(&mut self, name: &str) {
        self.mentioned.insert(name.to_owned());
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    pub(super) fn fail<T>(&mut self, diagnostic: Diagnostic) -> Parsed<T> {
        self.report(diagnostic);
        Err(Failed)
    }

    /// The present token is not what is needed.
    pub(super) fn unexpected<T>(&mut self, expected: &str, help: Option<&str>) -> Parsed<T> {
        let message = format!("expected {expected}, found {}", self.token.describe());
        let mut diagnostic = Diagnostic::error(self.span, message).label(format!("expected {expected}"));
        if let Some(help) = help {
            diagnostic = diagnostic.help(help);
        }
        self.fail(diagnostic)
    }

    pub(super) fn at_word(&self, word: &str) -> bool {
        matches!(self.token, Token::Word(found) if found == word)
    }

    pub(super) fn expect(&mut self, token: &Token<'_>, help: &str) -> Parsed<Span> {
        if self.token == *token {
            let span = self.span;
            self.advance();
            return Ok(span);
        }
        let expected = token.describe();
        self.unexpected(&expected, Some(help))
    }

    pub(super) fn word(&mut self, expected: &str, help: Option<&str>) -> Parsed<Spanned<String>> {
        if let Token::Word(word) = self.token {
            let span = self.span;
            self.advance();
            return Ok(Spanned { node: word.to_owned(), span });
        }
        self.unexpected(expected, help)
    }

    pub(super) fn variable(&mut self, expected: &str, help: Option<&str>) -> Parsed<Spanned<String>> {
        if let Token::Variable(name) = self.token {
            let span = self.span;
            self.advance();
            return Ok(Spanned { node: name.to_owned(), span });
        }
        self.unexpected(expected, help)
    }

    /// Enters a nested construct.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            let message = format!("nested more than {MAX_DEPTH} levels deep");
            return self.fail(Diagnostic::error(self.span, message));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    pub(super) fn has_errors(&self) -> bool {
        self.diagnostics.has_errors()
    }

    /// Too many errors: nothing more is worth reading.
    pub(super) fn full(&self) -> bool {
        self.diagnostics.full()
    }

    /// After an error: goes on to the next command that begins a line.
    pub(super) fn skip_to_command(&mut self) {
        loop {
            match &self.token {
                Token::End => return,
                Token::Word(word) if self.first_on_line && tables::COMMANDS.contains(word) => return,
                _ => {
                    self.advance();
                }
            }
        }
    }

    /// After an error inside braces: goes on to the next line that begins with one of `words`, to the closing
    /// brace, or
    /// to the next command.
    pub(super) fn skip_inside(&mut self, words: &[&str]) {
        loop {
            match &self.token {
                Token::End | Token::CloseBrace => return,
                Token::Word(word)
                    if self.first_on_line && (words.contains(word) || tables::COMMANDS.contains(word)) =>
                {
                    return;
                }
                _ => {
                    self.advance();
                }
            }
        }
    }
}
