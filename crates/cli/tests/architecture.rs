//! The crates' dependencies are those of ARCHITECTURE.md: arrows go one way, pure crates do no I/O.

use std::path::{Path, PathBuf};

/// A crate and the rooms that it may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("stats", &[]),
    ("workload", &[]),
    ("wml", &["workload"]),
    ("engine", &["workload", "stats"]),
    ("stack", &[]),
    ("probe", &["stats"]),
    ("apps", &["prefetch", "prefetch-os", "probe", "stack", "stats"]),
    ("lab", &["apps", "betrfs", "stats", "workload", "wml", "engine", "stack", "blockdev", "probe"]),
    ("report", &["lab", "stats", "probe"]),
    ("reproduce", &["apps", "lab", "stack", "stats"]),
    (
        "cli",
        &[
            "apps",
            "betrfs",
            "blockdev",
            "crash",
            "engine",
            "harm",
            "lab",
            "prefetch",
            "prefetch-daemon",
            "prefetch-os",
            "probe",
            "report",
            "reproduce",
            "ssd",
            "stack",
            "stats",
            "wml",
            "workload",
        ],
    ),
    ("bench", &["engine", "stack", "stats", "wml", "workload"]),
    ("blockdev", &["fusewire", "ssd", "stack"]),
    ("ssd", &[]),
    ("prefetch", &[]),
    ("prefetch-os", &["prefetch"]),
    ("harm", &["blockdev", "prefetch", "prefetch-os", "stack", "stats"]),
    ("prefetch-daemon", &["prefetch", "prefetch-os", "probe"]),
    ("prefetch-preload", &["prefetch", "prefetch-os"]),
    ("betree", &[]),
    ("betrfs", &["betree", "fusewire", "stack"]),
    ("fusewire", &[]),
    ("crash", &["blockdev", "ssd", "stack"]),
    ("needs", &[]),
];

/// Crates without I/O, clock or threads.
const PURE: [&str; 6] = ["stats", "workload", "wml", "report", "ssd", "prefetch"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/").to_owned()
}

/// The lines of a crate's `[dependencies]`.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = std::fs::read_to_string(crates().join(name).join("Cargo.toml")).expect("a manifest");
    let section = manifest.split("[dependencies]").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    section.lines().filter_map(|line| Some(line.split(['.', ' ', '=']).next()?.to_owned())).collect()
}

#[test]
fn arrows_go_one_way() {
    for (name, allowed) in ARROWS {
        for dependency in dependencies(name) {
            let is_room = ARROWS.iter().any(|(room, _)| *room == dependency);
            assert!(
                !is_room || allowed.contains(&dependency.as_str()),
                "{name} uses {dependency}: change the arrows in ARCHITECTURE.md first, if that is meant"
            );
        }
    }
}

#[test]
fn every_crate_is_on_the_map() {
    for entry in std::fs::read_dir(crates()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(ARROWS.iter().any(|(room, _)| *room == name), "crates/{name} is not in ARCHITECTURE.md");
    }
}

#[test]
fn pure_crates_do_no_io() {
    for name in PURE {
        let mut left = vec![crates().join(name).join("src")];
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for word in
                ["std::fs", "std::net", "std::process::Command", "std::thread", "Instant::now", "SystemTime"]
            {
                assert!(!code.contains(word), "{} uses {word}", path.display());
            }
        }
    }
}
