//! Bytes to a script: lexer, parser, recovery after errors.
//!
//! | module | holds |
//! |---|---|
//! | `lex` | tokens, cut on demand |
//! | `cursor` | the parser's state: one token ahead, errors, recovery |
//! | `value` | values and expressions |
//! | `entity` | attribute lists, `define`, threads and flowops |
//! | `command` | commands |

mod command;
mod cursor;
mod entity;
mod lex;
mod value;

use crate::ast::Script;
use crate::diagnostic::Diagnostics;
use cursor::Cursor;

pub(crate) use cursor::Failed;
pub(crate) use lex::shorten;

/// Parses the text; the script holds what could be understood.
pub(crate) fn parse_text(bytes: &[u8]) -> (Script, Diagnostics) {
    let text = lex::text_of(bytes);
    let mut cursor = Cursor::new(&text);
    let commands = cursor.script();
    let (mentioned, diagnostics) = cursor.finish();
    (Script { commands, mentioned }, diagnostics)
}

/// Parses a value from outside the script (`--set`): a whole expression, or a plain string when it is none.
pub(crate) fn parse_value(text: &str) -> Result<crate::ast::Spanned<crate::ast::Expr>, Diagnostics> {
    let mut cursor = Cursor::new(text);
    let value = cursor.outside_value();
    let (_, diagnostics) = cursor.finish();
    match value {
        Ok(value) if !diagnostics.has_errors() => Ok(value),
        _ => Err(diagnostics),
    }
}
