//! The list after `--on`, where one comma separates stacks and another one options.

use super::lex::{split, unquote};
use super::{FsKind, ParseError, ParseErrorKind, StackSpec};

pub(super) fn parse_list(text: &str) -> Result<Vec<StackSpec>, ParseError> {
    let pieces = pieces(text).map_err(|kind| ParseError { input: text.to_string(), kind })?;
    if pieces.is_empty() {
        return Err(ParseError { input: text.to_string(), kind: ParseErrorKind::Empty });
    }
    pieces.iter().map(|piece| piece.parse()).collect()
}

fn pieces(text: &str) -> Result<Vec<String>, ParseErrorKind> {
    let mut stacks = Vec::new();
    for chunk in split(text, |c| c == ';' || c.is_whitespace())? {
        // "ext4, xfs" leaves a comma at the end of the first chunk
        let chunk = chunk.trim_matches(',');
        if chunk.is_empty() {
            continue;
        }
        let mut current: Option<String> = None;
        for word in split(chunk, |c| c == ',')? {
            match &mut current {
                Some(stack) if !starts_stack(word) => {
                    check_not_misspelt(word)?;
                    stack.push(',');
                    stack.push_str(word);
                }
                _ => stacks.extend(current.replace(word.to_string())),
            }
        }
        stacks.extend(current);
    }
    Ok(stacks)
}

fn starts_stack(word: &str) -> bool {
    let head = word.split('@').next().unwrap_or_default();
    word.starts_with("dir:") || head == "dir" || FsKind::from_name(head).is_some()
}

fn check_not_misspelt(word: &str) -> Result<(), ParseErrorKind> {
    let head = word.split('@').next().unwrap_or_default();
    match near_fs(head) {
        Some(fs) => Err(ParseErrorKind::LooksLikeFs { word: unquote(word), fs }),
        None => Ok(()),
    }
}

/// The file system whose name is one slip (a letter more, less, other, or two swapped) away.
pub(super) fn near_fs(word: &str) -> Option<&'static str> {
    let lower = word.to_ascii_lowercase();
    FsKind::ALL
        .into_iter()
        .filter(|fs| *fs != FsKind::Dir)
        .map(FsKind::name)
        .find(|name| lower == *name || one_slip(lower.as_bytes(), name.as_bytes()))
}

fn one_slip(a: &[u8], b: &[u8]) -> bool {
    let prefix = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[prefix..], &b[prefix..]);
    match (a, b) {
        ([], [_]) | ([_], []) => true,
        ([_, rest @ ..], [_, other @ ..]) if rest == other => true,
        ([_, rest @ ..], other) if rest == other => true,
        (other, [_, rest @ ..]) if rest == other => true,
        ([x1, x2, rest @ ..], [y1, y2, other @ ..]) => x1 == y2 && x2 == y1 && rest == other,
        _ => false,
    }
}
