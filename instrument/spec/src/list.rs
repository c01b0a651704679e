//! The list after `--on`, where one comma separates stacks and another one options.

use super::fs::near_fs;
use super::lex::{split, unquote};
use super::network;
use super::{FsKind, ParseError, ParseErrorKind, StackSpec};

impl StackSpec {
    /// Reads the list that follows `--on`. Stacks are separated by blanks, by `;`, or by a comma that is
    /// followed by a file system's name (or `dir:`); every other comma belongs to the options of the stack
    /// before it.
    /// `ext4,noatime,xfs` is therefore two stacks. A bare word one typing slip away from a file system's
    /// name is an error rather than an option.
    pub fn parse_list(text: &str) -> Result<Vec<StackSpec>, ParseError> {
        let pieces = pieces(text).map_err(|kind| ParseError { input: text.to_string(), kind })?;
        if pieces.is_empty() {
            return Err(ParseError { input: text.to_string(), kind: ParseErrorKind::Empty });
        }
        pieces.iter().map(|piece| piece.parse()).collect()
    }
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
    word.starts_with("dir:") || head == "dir" || FsKind::from_name(head).is_some() || network::begins(word)
}

fn check_not_misspelt(word: &str) -> Result<(), ParseErrorKind> {
    let head = word.split('@').next().unwrap_or_default();
    match near_fs(head) {
        Some(fs) => Err(ParseErrorKind::LooksLikeFs { word: unquote(word), fs }),
        None => Ok(()),
    }
}
