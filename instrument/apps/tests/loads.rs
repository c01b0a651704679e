//! Every load runs on a plain directory and measures what it says.

use std::path::Path;

use apps::{App, Hooks, LoadSite};
use needs::needs;
use probe::Counters;
use stats::Outcome;

/// A home with a tiny source tree, so that nothing is fetched.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("sources/tree-small");
    let folder = place.join("linux/kernel/sched");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..40 {
        let text = format!("int v{number} = cpu_to_be64({number});\n").repeat(40);
        std::fs::write(folder.join(format!("f{number}.c")), text).unwrap();
    }
    std::fs::write(folder.join("wait.c"), "int wait;\n").unwrap();
    std::fs::write(place.join("LABEL"), "a tiny tree").unwrap();
    home
}

/// The load that these words mean: its name, then its parameters.
fn load(words: &str) -> Result<App, apps::AppError> {
    let mut words = words.split(' ');
    let name = words.next().unwrap();
    let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_string(), value.to_string()));
    App::new(name, &words.filter_map(pair).collect::<Vec<_>>())
}

/// Runs all phases of a load.
fn run(words: &str, home: &Path) -> Outcome {
    let root = tempfile::tempdir().unwrap();
    let app = load(words).unwrap();
    app.provide(home, &mut |_| {}).unwrap();
    let place = LoadSite { root: root.path(), home, seed: 1, pace: apps::LoadPacing::default() };
    let phase = |phase| {
        let hooks = Hooks {
            sample: &Counters::default,
            stopped: &|| false,
            tell: &|_| {},
            ready: &|| Ok(()),
            ranks: None,
        };
        app.run(phase, place, hooks).unwrap_or_else(|error| panic!("phase {phase}: {error}"))
    };
    apps::join((0..app.phases()).map(phase)).unwrap()
}

fn value(outcome: &Outcome, name: &str) -> f64 {
    let metric = outcome.metrics.iter().find(|metric| metric.name == name);
    metric.unwrap_or_else(|| panic!("no {name} in {:?}", outcome.metrics)).value
}

#[test]
fn a_large_file_is_written_and_read_whole() {
    let outcome = run("large-file file_bytes=1000001 buffers=3", Path::new("/"));
    assert_eq!(outcome.ops.iter().map(|op| op.bytes).collect::<Vec<_>>(), [1_000_001; 2]);
    assert_eq!(outcome.ops[0].ops, 25);
    let seconds = value(&outcome, "seq-write/seconds");
    assert!((value(&outcome, "seq-write") - 1.000001 / seconds).abs() < 1e-6);
    assert!(value(&outcome, "seq-read") > 0.0);
}

#[test]
fn random_writes_are_counted_and_repeated_aligned() {
    for (bytes, column) in [(4096, "rand-write-4096"), (4, "rand-write-4")] {
        let words = format!("random-write file_bytes=1000000 writes=300 write_bytes={bytes}");
        let outcome = run(&words, Path::new("/"));
        assert_eq!(outcome.ops[1].name, column);
        assert_eq!((outcome.ops[1].ops, outcome.ops[1].bytes), (300, 300 * bytes));
        assert_eq!(outcome.ops[1].service.count(), 300);
        assert!(value(&outcome, &format!("{column}-aligned")) > 0.0);
    }
    assert!(load("random-write write_bytes=512").is_err());
}

#[test]
fn tokubench_creates_every_file() {
    // 8, 5 and 1 directories for 4 threads
    for files in [1003, 600, 100] {
        let outcome = run(&format!("tokubench files={files} threads=4"), Path::new("/"));
        assert_eq!((outcome.io_ops(), outcome.io_bytes()), (files, files * 200));
        assert!(value(&outcome, "tokubench-synced") <= value(&outcome, "tokubench"));
    }
}

/// Runs programs on a source tree: each of these columns is measured.
fn on_the_source_tree(load: &str, columns: &[&str]) {
    let outcome = run(load, home().path());
    columns.iter().for_each(|column| assert!(value(&outcome, column) > 0.0, "{column}"));
    assert!(outcome.notes.iter().any(|note| note.contains("a tiny tree")), "{:?}", outcome.notes);
}

#[test]
fn the_source_tree_is_searched_packed_and_deleted() {
    on_the_source_tree("tree", &["find", "grep", "del", "del-synced"]);
    on_the_source_tree("tar", &["untar", "tar", "untar-synced"]);
}

#[test]
fn the_source_tree_is_copied_by_rsync() {
    needs!(Rsync);
    on_the_source_tree("rsync", &["rsync", "rsync-inplace"]);
}

#[test]
fn the_source_tree_is_cloned_by_git() {
    needs!(Git);
    on_the_source_tree("git", &["git-clone", "git-diff"]);
}

#[test]
fn imap_clients_work_on_a_private_server() {
    needs!(Root, Mounts, Dovecot);
    let outcome = run("imap messages=20 ops=30", Path::new("/"));
    assert_eq!(outcome.io_ops(), 8 * 30);
    assert!(value(&outcome, "mailserver") > 0.0);
}

#[test]
fn what_is_not_known_is_refused() {
    let wrong = |words: &str| load(words).unwrap_err().to_string();
    assert!(wrong("nothing").contains("large-file"));
    assert!(wrong("tree size=3").contains("no parameter `size`"));
    assert!(wrong("tree subset=huge").contains("medium"));
    assert!(wrong("tokubench files=0").contains("files = 0"));
}
