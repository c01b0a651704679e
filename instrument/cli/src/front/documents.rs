//! The documentation held against the program: its commands can be typed, its links lead somewhere, and no common
//! misspelling is in it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::tests::typed;

/// Misspellings that are no words of their own, and what was meant.
const MISSPELT: &str = include_str!("misspelt.txt");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Pages of the documentation with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut found: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md"]
            .iter()
            .map(|name| root().join(name))
            .collect();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the documentation").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        (path, text)
    };
    found.into_iter().map(read).collect()
}

/// Lines of a page, with their numbers from 1, and whether they are code: indented by four, or fenced.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut fenced = false;
    text.lines().enumerate().map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (at + 1, line, fenced && !is_fence || line.starts_with("    "))
    })
}

/// Whether a line is a form to be filled in: `...`, or a number of the reader's own in capitals.
fn is_form(line: &str) -> bool {
    line.contains("...") || line.split_whitespace().any(|word| ["SEED", "N", "PID"].contains(&word))
}

#[test]
fn each_command_of_the_documentation_can_be_typed() {
    let (mut wrong, mut typed_lines) = (Vec::new(), 0);
    for (path, text) in pages() {
        let mut begun = String::new();
        for (at, line, is_code) in lines(&text) {
            if !is_code {
                continue;
            }
            let line = line.trim().trim_start_matches("$ ");
            let whole = format!("{begun}{line}");
            if let Some(goes_on) = whole.strip_suffix('\\') {
                begun = goes_on.to_string();
                continue;
            }
            begun.clear();
            let whole = whole.trim_start_matches("sudo ");
            if whole.starts_with("loadline ") && !is_form(whole) {
                typed_lines += 1;
                let said = whole.split(" #").next().unwrap_or_default();
                wrong.extend(typed(said).err().map(|error| format!("{}:{at}: {error}", path.display())));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(typed_lines > 100, "{typed_lines} commands were found");
}

/// Where a heading is found: GitHub's rule, which mdBook follows.
fn anchor(heading: &str) -> String {
    let plain = heading.trim().trim_start_matches('#').trim();
    let kept = plain.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Anchors of a page; of equal headings the later ones have a number.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let headings = lines(text).filter(|(_, line, is_code)| !is_code && line.starts_with('#'));
    headings
        .map(|(_, line, _)| {
            let anchor = anchor(line);
            let before = seen.entry(anchor.clone()).or_default();
            *before += 1;
            if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
        })
        .collect()
}

#[test]
fn each_link_leads_somewhere() {
    let pages = pages();
    let mut wrong = Vec::new();
    for (path, text) in &pages {
        for (at, line, is_code) in lines(text) {
            for link in line.split("](").skip(1).filter(|_| !is_code) {
                let link = link.split(')').next().unwrap_or_default();
                // those pages are made of the program as the book is built
                let is_made = link.starts_with("reference/");
                if is_made || link.contains("://") || link.starts_with('`') || link.contains(' ') {
                    continue;
                }
                let (file, wanted) = link.split_once('#').unwrap_or((link, ""));
                let target = match file {
                    "" => path.clone(),
                    file => path.parent().expect("a page is in a folder").join(file),
                };
                let Ok(text) = std::fs::read_to_string(&target).or_else(|error| match target.is_dir() {
                    true => Ok(String::new()),
                    false => Err(error),
                }) else {
                    wrong.push(format!("{}:{at}: {link}: there is no such file", path.display()));
                    continue;
                };
                if !wanted.is_empty() && !anchors(&text).iter().any(|known| known == wanted) {
                    wrong.push(format!("{}:{at}: {link}: there is no such heading", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_common_misspelling() {
    let known: HashMap<&str, &str> = MISSPELT.lines().filter_map(|line| line.split_once(' ')).collect();
    assert!(known.len() > 100);
    let mut wrong = Vec::new();
    for (path, text) in pages() {
        for (at, line, is_code) in lines(&text) {
            let words = line.split(|letter: char| !letter.is_alphabetic()).filter(|_| !is_code);
            for word in words {
                if let Some(meant) = known.get(word.to_lowercase().as_str()) {
                    wrong.push(format!("{}:{at}: {word}: {meant} is meant", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
