//! The core stays small: few lines, and few constants, all in one place.

use std::path::{Path, PathBuf};

/// Lines without tests and simulator.
const LINES_MAX: usize = 1_000;
/// Constants of the policy, each with its unit, range and reason.
const CONSTANTS_MAX: usize = 12;

fn sources() -> Vec<PathBuf> {
    let all = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    all.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
}

#[test]
fn the_core_is_small() {
    let lines = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        text.split("#[cfg(test)]").next().unwrap().lines().count()
    };
    let lines: usize = sources().iter().map(lines).sum();
    assert!((500..=LINES_MAX).contains(&lines), "{lines}");
}

#[test]
fn the_policy_has_few_constants() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tuning.rs")).unwrap();
    let constants = text.lines().filter(|line| line.starts_with("pub const ")).count();
    assert!((8..=CONSTANTS_MAX).contains(&constants), "{constants}");
}
