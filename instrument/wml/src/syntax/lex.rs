//! Tokens. The parser asks for one at a time, since what `-` or `/` begins depends on what is expected.

use crate::ast::{Piece, Spanned};
use crate::diagnostic::{Diagnostic, Span};
use crate::tables;
use std::borrow::Cow;

/// A token; its text is a slice of the source.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    /// A bare word: keyword, name, path.
    Word(&'a str),
    /// A number with its unit applied; `None` when it does not fit in 64 bits.
    Int(Option<u64>),
    /// `$name`.
    Variable(&'a str),
    /// `"..."`.
    Quoted(Vec<Piece>),
    Comma,
    Equals,
    OpenParen,
    CloseParen,
    OpenBrace,
    CloseBrace,
    /// `-` before a number, a variable or a parenthesis.
    Minus,
    /// `+`, `*` or `%`; the parser looks at the bytes itself, this only keeps them from being reported.
    Operator(char),
    End,
}

impl Token<'_> {
    /// How an error message calls it.
    pub(super) fn describe(&self) -> String {
        match self {
            Token::Word(word) => format!("`{}`", shorten(word)),
            Token::Int(_) => "a number".into(),
            Token::Variable(name) => format!("`${}`", shorten(name)),
            Token::Quoted(_) => "a quoted string".into(),
            Token::Comma => "`,`".into(),
            Token::Equals => "`=`".into(),
            Token::OpenParen => "`(`".into(),
            Token::CloseParen => "`)`".into(),
            Token::OpenBrace => "`{`".into(),
            Token::CloseBrace => "`}`".into(),
            Token::Minus => "`-`".into(),
            Token::Operator(sign) => format!("`{sign}`"),
            Token::End => "the end of the file".into(),
        }
    }
}

/// A name for messages, cut when it is very long.
pub(crate) fn shorten(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(60) {
        Some((at, _)) => Cow::Owned(format!("{}...", &name[..at])),
        None => Cow::Borrowed(name),
    }
}

/// The source as text of the same length: bytes that are not UTF-8 become `?`, so that spans stay true.
pub(super) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    let mut rest = match std::str::from_utf8(bytes) {
        Ok(text) => return Cow::Borrowed(text),
        Err(_) => bytes,
    };
    let mut text = String::with_capacity(bytes.len());
    while !rest.is_empty() {
        let (good, bad) = match std::str::from_utf8(rest) {
            Ok(_) => (rest.len(), 0),
            Err(error) => {
                let good = error.valid_up_to();
                (good, error.error_len().unwrap_or(rest.len() - good))
            }
        };
        text.push_str(&String::from_utf8_lossy(&rest[..good]));
        text.extend(std::iter::repeat_n('?', bad));
        rest = &rest[good + bad..];
    }
    Cow::Owned(text)
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'/' | b'-' | b'_' | b'~' | b'.' | b'@') || byte >= 0x80
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'/' | b'.' | b'_' | b':' | b';' | b'-' | b'~' | b'@' | b'+')
        || byte >= 0x80
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Cuts tokens off the source.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Where the next token is looked for.
    pub(super) at: usize,
}

/// A token with its place, and whether it is the first on its line.
pub(super) struct Lexed<'a> {
    pub(super) token: Token<'a>,
    pub(super) span: Span,
    pub(super) first_on_line: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Lexer { text, at }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// The byte at an offset behind the position.
    pub(super) fn ahead(&self, offset: usize) -> Option<u8> {
        self.byte(self.at + offset)
    }

    /// Skips blanks and comments; true when a line ended.
    fn skip_blank(&mut self) -> bool {
        let mut newline = self.at == 0;
        while let Some(byte) = self.byte(self.at) {
            match byte {
                b'\n' => newline = true,
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => {}
                b'#' => {
                    let rest = &self.text.as_bytes()[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                    continue;
                }
                _ => break,
            }
            self.at += 1;
        }
        newline
    }

    /// The first byte that is not blank on this line, without moving.
    pub(super) fn peek_on_line(&self) -> Option<(usize, u8)> {
        let mut at = self.at;
        while matches!(self.byte(at), Some(b' ' | b'\t' | b'\r')) {
            at += 1;
        }
        self.byte(at).map(|byte| (at, byte))
    }

    /// The length of the run of bytes at `from` that satisfy `keep`.
    fn run(&self, from: usize, keep: impl Fn(u8) -> bool) -> usize {
        self.text.as_bytes()[from.min(self.text.len())..].iter().take_while(|&&byte| keep(byte)).count()
    }

    /// Takes the word bytes that follow without a blank.
    pub(super) fn take_word(&mut self) -> &'a str {
        let start = self.at;
        self.at += self.run(start, is_word);
        &self.text[start..self.at]
    }

    /// The next token. Bytes that begin none are reported and skipped.
    pub(super) fn next(&mut self, report: &mut dyn FnMut(Diagnostic)) -> Lexed<'a> {
        let mut first_on_line = false;
        loop {
            first_on_line |= self.skip_blank();
            let start = self.at;
            let Some(byte) = self.byte(start) else {
                return Lexed { token: Token::End, span: Span::new(start, start), first_on_line: true };
            };
            if let Some(token) = self.token(byte, report) {
                return Lexed { token, span: Span::new(start, self.at), first_on_line };
            }
            self.at = start + self.run(start, begins_nothing).max(1);
            let span = Span::new(start, self.at);
            report(
                Diagnostic::error(span, "these characters mean nothing here").label("unexpected").help(
                    "comments begin with `#`; text with special characters must stand in double quotes",
                ),
            );
        }
    }

    fn token(&mut self, byte: u8, report: &mut dyn FnMut(Diagnostic)) -> Option<Token<'a>> {
        let single = match byte {
            b',' => Some(Token::Comma),
            b'=' => Some(Token::Equals),
            b'(' => Some(Token::OpenParen),
            b')' => Some(Token::CloseParen),
            b'{' => Some(Token::OpenBrace),
            b'}' => Some(Token::CloseBrace),
            b'+' | b'*' | b'%' => Some(Token::Operator(char::from(byte))),
            _ => None,
        };
        if single.is_some() {
            self.at += 1;
            return single;
        }
        match byte {
            b'"' => Some(Token::Quoted(self.quoted(report))),
            b'$' => self.variable().map(Token::Variable),
            b'0'..=b'9' => Some(self.number()),
            b'-' if matches!(self.ahead(1), Some(b'0'..=b'9' | b'$' | b'(')) => {
                self.at += 1;
                Some(Token::Minus)
            }
            byte if is_word_start(byte) => Some(Token::Word(self.take_word())),
            _ => None,
        }
    }

    /// `$name`, `${name}` or `$(name)`; `None` (and no move) when it is none of them.
    fn variable(&mut self) -> Option<&'a str> {
        let (open, close) = match self.ahead(1)? {
            b'{' => (1, Some(b'}')),
            b'(' => (1, Some(b')')),
            _ => (0, None),
        };
        let start = self.at + 1 + open;
        let length = self.run(start, is_name);
        let closed = close.is_none() || self.byte(start + length) == close;
        let first = self.byte(start)?;
        if length == 0 || !closed || !(first.is_ascii_alphabetic() || first == b'_') {
            return None;
        }
        self.at = start + length + open;
        Some(&self.text[start..start + length])
    }

    /// A number with a unit; digits followed by something else of a word are a word.
    fn number(&mut self) -> Token<'a> {
        let start = self.at;
        let digits = self.run(start, |byte| byte.is_ascii_digit());
        let letters = self.run(start + digits, |byte| byte.is_ascii_alphabetic());
        let suffix = &self.text[start + digits..start + digits + letters];
        let next = self.byte(start + digits + letters);
        let ends = match next {
            Some(b'-' | b'+' | b'/') | None => true,
            Some(byte) => !is_word(byte),
        };
        let Some(factor) = tables::unit(suffix).filter(|_| ends) else {
            return Token::Word(self.take_word());
        };
        self.at = start + digits + letters;
        let value = self.text[start..start + digits].parse::<u64>().ok();
        Token::Int(value.and_then(|value| value.checked_mul(factor)))
    }

    /// A quoted string, after its opening quote at the position.
    fn quoted(&mut self, report: &mut dyn FnMut(Diagnostic)) -> Vec<Piece> {
        let open = self.at;
        self.at += 1;
        let mut pieces = Vec::new();
        let mut literal = String::new();
        loop {
            let start = self.at;
            match self.byte(start) {
                None => {
                    self.unterminated(open, report);
                    break;
                }
                Some(b'"') => {
                    self.at += 1;
                    break;
                }
                Some(b'\\') => {
                    let known = match self.ahead(1) {
                        Some(b'n') => Some('\n'),
                        Some(b't') => Some('\t'),
                        Some(byte @ (b'$' | b'"' | b'\\')) => Some(char::from(byte)),
                        _ => None,
                    };
                    literal.push(known.unwrap_or('\\'));
                    self.at += if known.is_some() { 2 } else { 1 };
                }
                Some(b'$') => match self.variable() {
                    Some(name) => {
                        if !literal.is_empty() {
                            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                        }
                        let span = Span::new(start, self.at);
                        pieces.push(Piece::Variable(Spanned { node: name.to_owned(), span }));
                    }
                    None => {
                        literal.push('$');
                        self.at += 1;
                    }
                },
                Some(_) => {
                    let length = self.run(start, |byte| !matches!(byte, b'"' | b'\\' | b'$'));
                    literal.push_str(&self.text[start..start + length]);
                    self.at = start + length;
                }
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        pieces
    }

    fn unterminated(&mut self, open: usize, report: &mut dyn FnMut(Diagnostic)) {
        let line_end = open + self.run(open, |byte| byte != b'\n');
        self.at = line_end;
        report(
            Diagnostic::error(Span::new(open, line_end), "this quoted string never ends")
                .label("opened here")
                .help("close it with `\"`; a quote inside is written `\\\"`"),
        );
    }
}

/// Bytes that no token begins with.
fn begins_nothing(byte: u8) -> bool {
    !(is_word_start(byte)
        || byte.is_ascii_digit()
        || byte.is_ascii_whitespace()
        || matches!(byte, b',' | b'=' | b'(' | b')' | b'{' | b'}' | b'"' | b'#' | b'$' | b'-')
        || matches!(byte, b'+' | b'*' | b'%'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> (Vec<Token<'_>>, usize) {
        let mut lexer = Lexer::new(text);
        let (mut found, mut errors) = (Vec::new(), 0);
        loop {
            let lexed = lexer.next(&mut |_| errors += 1);
            assert!(lexed.span.end <= text.len());
            if lexed.token == Token::End {
                return (found, errors);
            }
            found.push(lexed.token);
        }
    }

    #[test]
    fn words_take_what_paths_and_parameters_need() {
        for word in [
            "/tmp/x-1",
            "mean:16384;gamma:1.5",
            "-x",
            "~/data",
            "_x",
            "a+b",
            "lg-write",
            "1abc",
            "1.5",
            "12:30",
        ] {
            assert_eq!(tokens(word), (vec![Token::Word(word)], 0), "{word}");
        }
    }

    #[test]
    fn numbers_end_where_their_unit_ends() {
        assert_eq!(tokens("16k,"), (vec![Token::Int(Some(16 << 10)), Token::Comma], 0));
        assert_eq!(tokens("1t)"), (vec![Token::Int(Some(1 << 40)), Token::CloseParen], 0));
        assert_eq!(tokens("17179869184g"), (vec![Token::Int(None)], 0), "2^64");
        assert_eq!(tokens("17179869183g"), (vec![Token::Int(Some((17_179_869_183) << 30))], 0));
        assert_eq!(tokens("4kx"), (vec![Token::Word("4kx")], 0));
    }

    #[test]
    fn brackets_of_variables_must_match() {
        assert_eq!(tokens("${a}$(b)$c)").0.len(), 4);
        assert_eq!(tokens("${a"), (vec![Token::OpenBrace, Token::Word("a")], 1), "a stray `$` is reported");
        assert_eq!(tokens("$1").1, 1);
    }

    #[test]
    fn quoted_text_knows_its_escapes() {
        let (found, errors) = tokens(r#""a\n\$b\"\\\q$ $x#""#);
        let literal = |text: &str| Piece::Literal(text.to_owned());
        let Token::Quoted(pieces) = &found[0] else { panic!("{found:?}") };
        assert_eq!((found.len(), errors, pieces.len()), (1, 0, 3));
        assert_eq!(pieces[0], literal("a\n$b\"\\\\q$ "));
        assert!(
            matches!(&pieces[1], Piece::Variable(name) if name.node == "x" && name.span == Span::new(15, 17))
        );
        assert_eq!(pieces[2], literal("#"));
    }

    #[test]
    fn bytes_that_are_no_text_keep_their_places() {
        let bytes = b"set \xff\xfe $a # \xc3\xa9";
        let text = text_of(bytes);
        assert_eq!(text.len(), bytes.len());
        assert!(text.starts_with("set ?? $a") && text.ends_with('\u{e9}'));
    }
}
