//! The house is as ARCHITECTURE.md draws it: storeys, crates, arrows, purity, circles of modules.
//!
//! Every fact stands in that page alone; this test holds manifests and sources against it.

mod circles;
mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use page::{Page, Room, STOREYS};

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .find(|dir| dir.join("ARCHITECTURE.md").exists())
        .expect("the repository's root")
        .to_owned()
}

fn page() -> Page {
    Page::parse(&std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md"))
}

fn folder(room: &Room) -> PathBuf {
    root().join(room.storey).join(&room.name)
}

/// The names in a crate's `[dependencies]`.
fn dependencies(room: &Room) -> BTreeSet<String> {
    let manifest = std::fs::read_to_string(folder(room).join("Cargo.toml")).expect("a manifest");
    let section = manifest.split("[dependencies]").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    section.lines().filter_map(|line| Some(line.split(['.', ' ', '=']).next()?.to_owned())).collect()
}

/// Texts of a crate's sources.
fn sources(room: &Room) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut left = vec![folder(room).join("src")];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

#[test]
fn every_crate_is_on_the_page_in_its_storey() {
    let page = page();
    for storey in STOREYS {
        let drawn: BTreeSet<&str> =
            page.rooms.iter().filter(|room| room.storey == storey).map(|room| room.name.as_str()).collect();
        let built: BTreeSet<String> = std::fs::read_dir(root().join(storey))
            .expect("a storey's folder")
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let built: BTreeSet<&str> = built.iter().map(String::as_str).collect();
        assert_eq!(drawn, built, "left: ARCHITECTURE.md, right: the folder {storey}/");
    }
}

#[test]
fn arrows_are_those_that_are_drawn() {
    let page = page();
    let names: BTreeSet<&str> = page.rooms.iter().map(|room| room.name.as_str()).collect();
    for room in &page.rooms {
        let built: BTreeSet<String> =
            dependencies(room).into_iter().filter(|name| names.contains(name.as_str())).collect();
        assert_eq!(
            room.uses, built,
            "left: what ARCHITECTURE.md says that {} uses, right: its Cargo.toml",
            room.name
        );
        let code: String = sources(room).into_iter().map(|(_, text)| text).collect();
        for used in &built {
            let path = format!("{}::", used.replace('-', "_"));
            assert!(code.contains(&path), "{} has {used} in its Cargo.toml and never names it", room.name);
        }
    }
}

#[test]
fn arrows_go_down() {
    let page = page();
    let floor: BTreeMap<&str, usize> = page
        .rooms
        .iter()
        .map(|room| {
            (room.name.as_str(), STOREYS.iter().position(|storey| *storey == room.storey).expect("a storey"))
        })
        .collect();
    for room in &page.rooms {
        for used in &room.uses {
            assert!(
                floor[used.as_str()] <= floor[room.name.as_str()],
                "{} is in {}/ and uses {used}, which is above it",
                room.name,
                room.storey
            );
        }
    }
}

#[test]
fn pure_crates_do_no_io() {
    const WORDS: [&str; 6] =
        ["std::fs", "std::net", "std::process::Command", "std::thread", "Instant::now", "SystemTime"];
    let page = page();
    for room in page.rooms.iter().filter(|room| room.is_pure) {
        for (path, text) in sources(room) {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for word in WORDS {
                assert!(!code.contains(word), "{} is pure and uses {word}: {}", room.name, path.display());
            }
        }
        for used in &room.uses {
            let used = page.rooms.iter().find(|one| one.name == *used).expect("a room");
            assert!(used.is_pure, "{} is pure and uses {}, which is not", room.name, used.name);
        }
    }
}

/// At most one circle of modules a crate, and the page gives its reason.
#[test]
fn circles_of_modules_are_known() {
    let page = page();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for room in &page.rooms {
        let circles = circles::circles(&folder(room).join("src"));
        assert!(circles.len() <= 1, "{} has more than one circle of modules: {circles:?}", room.name);
        if let Some(circle) = circles.into_iter().next() {
            found.insert(room.name.clone(), circle);
        }
    }
    let built: BTreeSet<&str> = found.keys().map(String::as_str).collect();
    let drawn: BTreeSet<&str> = page.circles.keys().map(String::as_str).collect();
    assert_eq!(drawn, built, "left: circles that ARCHITECTURE.md explains, right: {found:?}");
}

#[test]
fn circles_are_found() {
    let src = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(src.path().join(name), text).unwrap();
    file("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\n");
    file("a.rs", "use crate::b::B;\npub struct A(B);\n");
    file("b.rs", "// crate::c::C\nuse crate::{c::C};\npub struct B(C);\n");
    file("c.rs", "pub struct C;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n");
    assert!(circles::circles(src.path()).is_empty());
    // through what the root hands on
    file("c.rs", "use crate::A;\npub struct C(Option<Box<A>>);\n");
    assert_eq!(circles::circles(src.path()), [["a", "b", "c"]]);
}
