//! Circles among the modules of a crate, read from its sources.
//!
//! A module is a file. It uses another one when it names something of it by a path (`crate::a::B`, `super::b::c`, a
//! path that begins with a child's name). A name that a module only hands on (`pub use a::B`) counts for the module
//! that it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A module's path below the crate's root: empty for `lib.rs`.
type Name = Vec<String>;

/// A module as its file tells it.
struct Module {
    /// Its text without comments, strings and test code.
    text: String,
    /// Paths that it names, as written, from `crate`, `self`, `super` or a first word; braces multiplied out.
    paths: Vec<Vec<String>>,
    /// What it hands on: name to path.
    handed_on: BTreeMap<String, Vec<String>>,
}

/// The circles of the crate in `src`, each as the sorted paths of its files.
pub fn circles(src: &Path) -> Vec<Vec<String>> {
    let modules = modules(src);
    let names: Vec<&Name> = modules.keys().collect();
    let mut uses: BTreeMap<&Name, BTreeSet<&Name>> = BTreeMap::new();
    for (name, module) in &modules {
        for path in &module.paths {
            let Some(used) = resolve(&modules, name, path, 0) else { continue };
            if used != *name
                && let Some(used) = names.iter().find(|one| ***one == used)
            {
                uses.entry(name).or_default().insert(used);
            }
        }
    }
    let reach: BTreeMap<&Name, BTreeSet<&Name>> =
        names.iter().map(|name| (*name, reached(&uses, name))).collect();
    let mut found: Vec<Vec<String>> = Vec::new();
    for name in &names {
        let mutual =
            names.iter().filter(|other| reach[*name].contains(**other) && reach[**other].contains(*name));
        let circle: Vec<String> = mutual.map(|name| shown(name)).collect();
        if circle.len() > 1 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

fn shown(name: &Name) -> String {
    if name.is_empty() { "the root".into() } else { name.join("::") }
}

fn reached<'a>(uses: &BTreeMap<&'a Name, BTreeSet<&'a Name>>, from: &'a Name) -> BTreeSet<&'a Name> {
    let mut seen = BTreeSet::new();
    let mut left = vec![from];
    while let Some(next) = left.pop() {
        for used in uses.get(next).into_iter().flatten() {
            if seen.insert(*used) {
                left.push(used);
            }
        }
    }
    seen
}

/// The module that `path`, written in `from`, leads to; `None` when it leads out of the crate or is no module's.
fn resolve(modules: &BTreeMap<Name, Module>, from: &Name, path: &[String], depth: u32) -> Option<Name> {
    const DEPTH_MAX: u32 = 8;
    let first = path.first()?;
    let (mut at, mut rest): (Name, &[String]) = match first.as_str() {
        "crate" => (Vec::new(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        "super" => (parent(from)?, &path[1..]),
        word => {
            let mut child = from.clone();
            child.push(word.to_string());
            if !modules.contains_key(&child) {
                return None;
            }
            (child, &path[1..])
        }
    };
    while let Some(word) = rest.first() {
        if word == "super" {
            at = parent(&at)?;
            rest = &rest[1..];
            continue;
        }
        let mut child = at.clone();
        child.push(word.clone());
        if modules.contains_key(&child) {
            (at, rest) = (child, &rest[1..]);
            continue;
        }
        let handed_on = modules.get(&at)?.handed_on.get(word);
        return match handed_on {
            Some(source) if depth < DEPTH_MAX => resolve(modules, &at, source, depth + 1),
            _ => Some(at),
        };
    }
    // a path that ends at a module imports the module itself: what is used of it follows by name
    Some(at)
}

fn parent(name: &Name) -> Option<Name> {
    let (_, parent) = name.split_last()?;
    Some(parent.to_vec())
}

fn modules(src: &Path) -> BTreeMap<Name, Module> {
    let mut found = BTreeMap::new();
    let mut left: Vec<PathBuf> = vec![src.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.extension().is_none_or(|extension| extension != "rs") || is_test {
            continue;
        }
        let relative = path.strip_prefix(src).unwrap().with_extension("");
        let mut name: Name =
            relative.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        if matches!(name.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            name.pop();
        }
        let text = code(&std::fs::read_to_string(&path).unwrap());
        found.insert(name, Module { paths: Vec::new(), handed_on: handed_on(&text), text });
    }
    let names: BTreeSet<Name> = found.keys().cloned().collect();
    for (name, module) in &mut found {
        let children = names.iter().filter(|other| parent(other).as_ref() == Some(name));
        let words: BTreeSet<&str> = children
            .filter_map(|child| child.last())
            .map(String::as_str)
            .chain(["crate", "self", "super"])
            .collect();
        module.paths = paths(&module.text, &words);
    }
    found
}

/// `pub use a::{B, C as D};` as B and D with their paths.
fn handed_on(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for start in text.match_indices("pub use ").chain(text.match_indices("pub(crate) use ")).map(|(at, _)| at)
    {
        let statement = &text[start..];
        let statement = &statement[statement.find("use ").unwrap() + 4..];
        let Some(end) = statement.find(';') else { continue };
        for (path, name) in expand(&statement[..end]) {
            found.insert(name, path);
        }
    }
    found
}

/// Every path in `text` that begins with one of `words`, and every path of a `use`; a `pub use` only hands on.
fn paths(text: &str, words: &BTreeSet<&str>) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut before = ' ';
    let mut skip_to = 0;
    for (at, letter) in text.char_indices() {
        let begins = is_word(letter) && !is_word(before) && before != ':' && before != '\'' && before != '.';
        before = letter;
        if !begins || at < skip_to {
            continue;
        }
        let rest = &text[at..];
        let word = &rest[..rest.find(|letter| !is_word(letter)).unwrap_or(rest.len())];
        if word == "use" {
            let Some(end) = rest.find(';') else { continue };
            let before_it = text[..at].trim_end();
            if !(before_it.ends_with("pub") || before_it.ends_with("pub(crate)")) {
                found.extend(expand(&rest[4..end]).into_iter().map(|(path, _)| path));
            }
            skip_to = at + end;
        } else if words.contains(word) && rest[word.len()..].starts_with("::") {
            let end = rest.find(|letter: char| !is_word(letter) && letter != ':').unwrap_or(rest.len());
            let path = rest[..end].trim_end_matches(':');
            found.push(path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect());
        }
    }
    found
}

/// `a::{B, c::D as E}` as (a::B, B) and (a::c::D, E).
fn expand(tree: &str) -> Vec<(Vec<String>, String)> {
    let tree = tree.trim();
    if let Some(open) = tree.find('{') {
        let before: Vec<String> = tree[..open]
            .split("::")
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        let inside = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
        let with_head = |(path, name): (Vec<String>, String)| {
            let tail = path.into_iter().filter(|part| part != "self");
            let path: Vec<String> = before.iter().cloned().chain(tail).collect();
            let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name };
            (path, name)
        };
        return split(inside).into_iter().flat_map(expand).map(with_head).collect();
    }
    let (path, name) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name.trim())));
    let path: Vec<String> =
        path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect();
    let Some(last) = path.last().cloned() else { return Vec::new() };
    vec![(path, name.map_or(last, str::to_owned))]
}

/// Splits at the commas that no brace holds.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The text without comments, strings and what `#[cfg(test)]` marks at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let mut quoted = false;
        let mut escaped = false;
        for letter in line.chars() {
            if letter == '"' && !escaped {
                quoted = !quoted;
            }
            escaped = letter == '\\' && !escaped;
            out.push(if quoted { ' ' } else { letter });
        }
        out.push('\n');
    }
    out
}
