//! Quotes and parentheses: cutting a stack into pieces without looking inside them.

use super::ParseErrorKind;

/// What begins the kernel of a guest behind a stack.
pub(super) const KERNEL: &str = "+kernel:";
/// What begins the virtual time of a guest behind a stack.
pub(super) const DETERMINISTIC: &str = "+deterministic";

/// Cuts `text` at every character for which `cut` holds, outside double quotes and parentheses.
pub(super) fn split(text: &str, cut: impl Fn(char) -> bool) -> Result<Vec<&str>, ParseErrorKind> {
    let mut pieces = Vec::new();
    let (mut start, mut quoted, mut depth) = (0, false, 0u32);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or(ParseErrorKind::OpenParen)?,
            _ if depth == 0 && cut(c) => {
                pieces.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    if quoted {
        return Err(ParseErrorKind::OpenQuote);
    }
    if depth != 0 {
        return Err(ParseErrorKind::OpenParen);
    }
    pieces.push(&text[start..]);
    Ok(pieces)
}

/// Cuts at the first `mark` outside quotes and parentheses.
pub(super) fn split_once(text: &str, mark: char) -> Result<(&str, Option<&str>), ParseErrorKind> {
    let first = split(text, |c| c == mark)?[0];
    let rest = &text[first.len()..];
    Ok((first, rest.strip_prefix(mark)))
}

/// The text with its double quotes taken away.
pub(super) fn unquote(text: &str) -> String {
    text.replace('"', "")
}

/// The word, in quotes when the syntax would otherwise take it apart.
pub(super) fn quoted(word: &str) -> String {
    quote_if(word, |c| c.is_whitespace() || ",;@()".contains(c))
}

/// As [`quoted`], for a device path, where a colon could be taken for the regime's.
pub(super) fn quoted_device(path: &str) -> String {
    quote_if(path, |c| c.is_whitespace() || ",;@():".contains(c))
}

fn quote_if(word: &str, special: impl Fn(char) -> bool) -> String {
    let names_guest = [KERNEL, DETERMINISTIC].iter().any(|part| word.contains(part));
    if names_guest || word.contains(special) { format!("\"{word}\"") } else { word.to_string() }
}
