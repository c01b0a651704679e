//! The rules of the design's table and those in the code have the same names, each once.

use std::path::{Path, PathBuf};

/// Where the core's sources, the library's and the design are, from this crate.
const SOURCES: [&str; 2] = ["src", "../prefetch-preload/src"];
const DESIGN: &str = "../../docs/design/prefetch.md";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The names of `/// Rule: Name.` below a directory.
fn in_code(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names.extend(in_code(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let rules = text.lines().filter_map(|line| line.trim().strip_prefix("/// Rule: "));
            names.extend(rules.map(|rule| rule.trim_end_matches('.').to_owned()));
        }
    }
    names
}

/// The names in bold that begin the rows of the table under "Rules of the policy".
fn in_design(text: &str) -> Vec<String> {
    let section = text.split("## Rules of the policy").nth(1).expect("the section of the rules");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| **")?.split_once(".**"));
    rows.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn every_rule_is_in_the_design_and_in_the_code() {
    let mut code: Vec<String> = SOURCES.iter().flat_map(|source| in_code(&here(source))).collect();
    let mut design = in_design(&std::fs::read_to_string(here(DESIGN)).unwrap());
    code.sort();
    design.sort();
    assert!(design.len() > 10, "{design:?}");
    assert_eq!(code, design);
}
