//! The workloads that come with loadline: they load without a warning, and are sized to the machine.

mod common;

use common::run_of;
use std::path::{Path, PathBuf};
use wml::{Loaded, Machine, Settings};
use workload::{Distribution, Value};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "f"))
        .collect();
    files.sort();
    files
}

fn load(path: &Path, machine: Machine, set: Vec<(String, String)>) -> Loaded {
    let text = std::fs::read(path).unwrap();
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let shown = path.display().to_string();
    match wml::load(&text, &Settings { machine, set, name }) {
        Ok(loaded) => loaded,
        Err(found) => panic!("{}", found.render(&shown, &text, false)),
    }
}

fn mean(loaded: &Loaded, value: Value) -> f64 {
    match value {
        Value::Int(value) => value as f64,
        Value::Draw(index) => match &loaded.workload.draws[index].distribution {
            Distribution::Gamma { shift, shape, scale } => shift + shape * scale,
            Distribution::Table { rows, .. } => {
                rows.iter().map(|row| row.percent / 100.0 * (row.low + row.high) / 2.0).sum()
            }
            other => panic!("unexpected {other:?}"),
        },
    }
}

const GIB: u64 = 1 << 30;

#[test]
fn what_they_resolve_to_survives_being_sent_as_json() {
    let files = files();
    assert!(files.len() >= 23, "{files:?}");
    for path in &files {
        let machine = Machine { ram_bytes: 24 * GIB, cores: 2, free_bytes: 7 * GIB };
        let sent = load(path, machine, Vec::new()).workload;
        let json = serde_json::to_string(&sent).unwrap();
        let received: workload::Workload = serde_json::from_str(&json).unwrap();
        assert_eq!(received, sent, "{}", path.display());
    }
}

#[test]
fn all_load_without_a_warning_and_run_a_minute() {
    let files = files();
    assert!(files.len() >= 23, "{files:?}");
    for path in &files {
        let machine = Machine { ram_bytes: 24 * GIB, cores: 2, free_bytes: 7 * GIB };
        let loaded = load(path, machine, Vec::new());
        assert!(loaded.warnings.is_empty(), "{}: {}", path.display(), loaded.warnings);
        assert_eq!(run_of(&loaded).0, Some(60), "{}", path.display());
        let names: Vec<&str> = loaded.variables.iter().map(|(name, _)| name.as_str()).collect();
        for expected in ["dir", "nthreads", "runtime"] {
            let found = names.contains(&expected) || (expected == "nthreads" && names.contains(&"nshadows"));
            assert!(found, "{} has no ${expected}", path.display());
        }
    }
}

#[test]
fn their_files_fit_the_target() {
    for (ram, cores, free) in [(24, 2, 7), (1, 1, 1), (512, 128, 4000), (8, 4, 100)] {
        let machine = Machine { ram_bytes: ram * GIB, cores, free_bytes: free * GIB };
        for path in files() {
            let loaded = load(&path, machine, Vec::new());
            let mut bytes = 0.0;
            let mut entries = 0;
            for fileset in &loaded.workload.filesets {
                bytes += mean(&loaded, fileset.size) * fileset.entries as f64;
                entries += fileset.entries + fileset.leafdirs;
            }
            let limit = (free * GIB) as f64 * 0.6;
            assert!(bytes <= limit, "{} wants {bytes} bytes of {free} GiB", path.display());
            assert!(entries > 0 && entries <= 50_000, "{}: {entries} entries", path.display());
        }
    }
}

#[test]
fn their_variables_can_be_set() {
    let machine = Machine { ram_bytes: 4 * GIB, cores: 4, free_bytes: 20 * GIB };
    for path in files() {
        let set = vec![("runtime".to_owned(), "5".to_owned()), ("dir".to_owned(), "/mnt/x".to_owned())];
        let loaded = load(&path, machine, set);
        assert_eq!(run_of(&loaded).0, Some(5));
        assert!(loaded.workload.filesets.iter().all(|fileset| fileset.path == "/mnt/x"));
    }
}

#[test]
fn the_families_are_complete() {
    let names: Vec<String> =
        files().iter().map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    for name in [
        "varmail",
        "fileserver",
        "webserver",
        "webproxy",
        "videoserver",
        "oltp",
        "mongo",
        "networkfs",
        "copyfiles",
        "randomread",
        "randomwrite",
        "randomrw",
        "seqread",
        "seqwrite",
        "randwrite4k_fsync",
        "createfiles",
        "deletefiles",
        "openfiles",
        "statfiles",
        "listdirs",
        "makedirs",
        "removedirs",
        "append",
    ] {
        assert!(names.iter().any(|found| found == name), "{name} is missing");
    }
}

#[test]
fn they_say_what_they_are() {
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(header.len() >= 3, "{}", path.display());
        assert!(header.iter().any(|line| line.starts_with("# Covers ")), "{}", path.display());
        assert!(header.iter().any(|line| line.starts_with("# Size: ")), "{}", path.display());
        assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 120), "{}", path.display());
    }
}

#[test]
fn the_examples_of_the_documentation_run() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/wml.md")).unwrap();
    let blocks: Vec<String> = text
        .split("\n\n")
        .filter(|block| block.lines().all(|line| line.starts_with("    ")))
        .map(|block| block.lines().filter(|line| line.trim() != "...").collect::<Vec<_>>().join("\n"))
        .collect();
    assert_eq!(blocks.len(), 2);
    common::load_clean(&blocks[0]);
    // The second is a composite flowop and a use of it, which has to stand in a thread.
    let (definition, usage) = blocks[1].rsplit_once('\n').unwrap();
    let text = format!(
        "define fileset name=sources,path=/tmp,entries=1,dirwidth=1\n{definition}\n\
         define process name=p {{ thread name=t {{ {usage}\n }} }}"
    );
    common::load_clean(&text);
}
