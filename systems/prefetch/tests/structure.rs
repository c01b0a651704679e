//! No type of the core has more fields than one can keep in mind, and the policy few constants.

use std::path::{Path, PathBuf};

/// The most fields of a type.
const FIELDS_MAX: usize = 15;
/// The most constants of the policy, each with its unit, range and reason.
const CONSTANTS_MAX: usize = 20;

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The structs of a file and how many fields each has: rustfmt gives each field a line of its own, or all of them one.
fn structs(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(at) = words.iter().position(|word| *word == "struct") else { continue };
        let is_item = words.iter().take(at).all(|word| word.starts_with("pub"));
        let Some(name) = words.get(at + 1).filter(|_| is_item) else { continue };
        let name = name.split(['<', '(', ';', '{']).next().unwrap_or_default().to_owned();
        let indent = line.len() - line.trim_start().len();
        let fields = match line.trim_end().ends_with('{') {
            true => {
                let end = format!("{:indent$}}}", "");
                let body = lines.by_ref().take_while(|line| *line != end);
                let is_field = |line: &&str| {
                    let line = line.strip_prefix(&format!("{:1$}", "", indent + 4)).unwrap_or_default();
                    line.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
                        && line.contains(": ")
                };
                body.filter(is_field).count()
            }
            // In parentheses or on one line.
            false => line.matches(',').count() + 1,
        };
        found.push((name, fields));
    }
    found
}

#[test]
fn no_type_has_more_fields_than_one_can_keep_in_mind() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut all: Vec<(String, usize)> = Vec::new();
    for file in &files {
        all.extend(structs(&std::fs::read_to_string(file).unwrap()));
    }
    assert!(all.len() > 30, "{all:?}");
    for (name, fields) in &all {
        assert!(*fields <= FIELDS_MAX, "{name} has {fields} fields: give a part of them a type and rules");
    }
}

#[test]
fn the_policy_has_few_constants() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tuning.rs")).unwrap();
    let constants = text.lines().filter(|line| line.starts_with("    pub const ")).count();
    assert!((10..=CONSTANTS_MAX).contains(&constants), "{constants}");
}

#[test]
fn fields_are_counted() {
    let text = "/// A.\npub struct A {\n    /// One: yes.\n    pub a: u64,\n    pub(super) b: (u64, u64),\n    c: u8,\n}\n\n\
                struct B;\nstruct C(u8, u8);\nmod x {\n    struct D<'a> {\n        e: &'a u8,\n    }\n}\n";
    let names = ["A", "B", "C", "D"].map(str::to_owned);
    assert_eq!(structs(text), names.into_iter().zip([3, 1, 2, 1]).collect::<Vec<_>>());
}
