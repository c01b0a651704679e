//! IOR's, mdtest's and IO500's patterns with threads as tasks: what is on disk, what is counted, what is found when data is not
//! what was written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use apps::ranks::{RankInfo, Ranks};
use apps::span::Span;
use apps::{App, AppError, Hooks, LoadPacing, LoadSite};
use probe::Counters;
use stats::{Outcome, parallel};

/// What all tasks have in common.
struct Hall {
    barrier: Barrier,
    values: Mutex<Vec<u64>>,
    aligned: AtomicUsize,
    /// Before the phase of this number (from 1) begins, one byte of this file is changed.
    spoil: Option<(usize, PathBuf)>,
}

struct Task {
    roll: RankInfo,
    hall: Arc<Hall>,
    spans: Mutex<Vec<Span>>,
}

impl Ranks for Task {
    fn rank_info(&self) -> &RankInfo {
        &self.roll
    }

    fn all_gather(&self, value: u64, aligned: bool) -> Result<Vec<u64>, String> {
        self.hall.values.lock().unwrap()[self.roll.rank as usize] = value;
        if self.hall.barrier.wait().is_leader()
            && aligned
            && let Some((phase, path)) = &self.hall.spoil
            && self.hall.aligned.fetch_add(1, Ordering::Relaxed) + 1 == *phase
        {
            let mut bytes = std::fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(path, bytes).unwrap();
        }
        self.hall.barrier.wait();
        let values = self.hall.values.lock().unwrap().clone();
        self.hall.barrier.wait();
        Ok(values)
    }

    fn report_span(&self, span: &Span) {
        self.spans.lock().unwrap().push(span.clone());
    }
}

type Ran = Result<(Outcome, Vec<Span>), AppError>;

fn each(name: &str, options: &str, root: &Path, hosts: &[&str], spoil: Option<(usize, PathBuf)>) -> Vec<Ran> {
    let hall = Arc::new(Hall {
        barrier: Barrier::new(hosts.len()),
        values: Mutex::new(vec![0; hosts.len()]),
        aligned: AtomicUsize::new(0),
        spoil,
    });
    let hosts: Vec<String> = hosts.iter().map(|host| host.to_string()).collect();
    let app = |name: &str| App::new(name, &[("options".to_string(), options.to_string())]).unwrap();
    std::thread::scope(|scope| {
        let tasks: Vec<_> = (0..hosts.len() as u32)
            .map(|rank| {
                let task = Task {
                    roll: RankInfo { rank, hosts: hosts.clone() },
                    hall: hall.clone(),
                    spans: Mutex::new(vec![]),
                };
                let app = app(name);
                scope.spawn(move || {
                    let place = LoadSite { root, home: root, seed: 7, pace: LoadPacing::default() };
                    let hooks = Hooks {
                        sample: &Counters::default,
                        stopped: &|| false,
                        tell: &|_| {},
                        ready: &|| task.all_gather(0, false).map(drop),
                        ranks: Some(&task),
                    };
                    let outcome = app.run(0, place, hooks)?;
                    Ok((outcome, std::mem::take(&mut *task.spans.lock().unwrap())))
                })
            })
            .collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    })
}

/// All tasks as one outcome, as rank 0 makes it; and each task's spans.
fn together(name: &str, options: &str, root: &Path, hosts: &[&str]) -> (Outcome, Vec<Vec<Span>>) {
    let ran: Vec<(Outcome, Vec<Span>)> = each(name, options, root, hosts, None)
        .into_iter()
        .map(|one| one.unwrap_or_else(|error| panic!("{name} {options}: {error}")))
        .collect();
    let (outcomes, spans): (Vec<_>, Vec<_>) = ran.into_iter().unzip();
    let mut whole = parallel::combine(outcomes).unwrap();
    let app = App::new(name, &[("options".to_string(), options.to_string())]).unwrap();
    app.conclude(&spans, 0, &mut whole);
    (whole, spans)
}

fn metric(outcome: &Outcome, name: &str) -> f64 {
    let found = outcome.metrics.iter().find(|metric| metric.name == name);
    found.unwrap_or_else(|| panic!("no {name}: {:?}", outcome.metrics)).value
}

fn op(outcome: &Outcome, name: &str) -> (u64, u64) {
    let found = outcome.ops.iter().find(|op| op.name == name).unwrap_or_else(|| panic!("no {name}"));
    (found.ops, found.bytes)
}

fn files(folder: &Path) -> BTreeSet<(String, u64)> {
    fn add(top: &Path, folder: &Path, all: &mut BTreeSet<(String, u64)>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let data = entry.metadata().unwrap();
            if data.is_dir() {
                add(top, &entry.path(), all);
            }
            let name = entry.path().strip_prefix(top).unwrap().to_str().unwrap().to_string();
            all.insert((name, if data.is_dir() { 0 } else { data.len() }));
        }
    }
    let mut all = BTreeSet::new();
    add(folder, folder, &mut all);
    all
}

/// Whatever the pattern: all bytes are written once, read once by another task, and found right.
#[test]
fn data_is_written_once_and_read_by_another() {
    let hosts = ["a", "a", "b"];
    for (options, expected) in [
        ("-b 192k -t 64k -s 2 -w -r -R -C -e -g", vec![("testFile", 3 * 384)]),
        ("-b 40000 -t 40000 -s 20 -w -r -R -Z -l o", vec![("testFile", 3 * 800_000 / 1024)]),
        ("-b 64k -t 16k -z -s 3 -w -r -R -W", vec![("testFile", 3 * 192)]),
        (
            "-F -b 128k -t 32k -w -r -R -C -Q 2 -Y -o x",
            vec![("x.00000000", 128), ("x.00000001", 128), ("x.00000002", 128)],
        ),
        (
            "-F -u -z -b 64k -t 8k -w -R -Z -X 5",
            vec![("0/testFile.00000000", 64), ("1/testFile.00000001", 64), ("2/testFile.00000002", 64)],
        ),
    ] {
        let root = tempfile::tempdir().unwrap();
        let (whole, spans) = together("ior", options, root.path(), &hosts);
        let found: Vec<(String, u64)> =
            files(root.path()).into_iter().filter(|(_, bytes)| *bytes > 0).collect();
        let found: Vec<(&str, u64)> =
            found.iter().map(|(name, bytes)| (name.as_str(), bytes / 1024)).collect();
        assert_eq!(found, expected, "{options}");
        let bytes: u64 = files(root.path()).iter().map(|(_, bytes)| bytes).sum();
        assert_eq!((op(&whole, "write").1, op(&whole, "read").1), (bytes, bytes), "{options}");
        assert!(metric(&whole, "write/mib_per_second") > 0.0 && metric(&whole, "read/ops_per_second") > 0.0);
        assert!(
            spans.iter().all(|task| task.len() == 2 && task.iter().all(|span| span.marks_ns.is_sorted()))
        );
    }
}

#[test]
fn data_that_is_not_what_was_written_is_found() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("testFile");
    let spoiled = each("ior", "-b 128k -t 32k -w -r -R", root.path(), &["a"], Some((2, path)));
    let error = spoiled.into_iter().next().unwrap().unwrap_err().to_string();
    assert!(error.contains("byte 65536 is not what task 0 has written"), "{error}");
    let root = tempfile::tempdir().unwrap();
    let item = root.path().join("test-dir.0-0/mdtest_tree.0/file.mdtest.0.0");
    let spoiled = each("mdtest", "-n 1 -F -w 100 -e 100 -X -C -E", root.path(), &["a"], Some((3, item)));
    let error = spoiled.into_iter().next().unwrap().unwrap_err().to_string();
    assert!(error.contains("file.mdtest.0.0: holds something else"), "{error}");
}

/// At the stonewall all tasks go on to the largest count; what was written then is what is read.
#[test]
fn a_stonewall_wears_out() {
    let root = tempfile::tempdir().unwrap();
    let options = "-F -b 1g -t 4k -w -r -R -C -D 0.03 -O stoneWallingWearOut=1";
    let (whole, spans) = together("ior", options, root.path(), &["a", "a", "a"]);
    let counts: Vec<u64> = spans.iter().map(|task| task[0].ops).collect();
    assert!(counts.iter().all(|count| *count == counts[0] && *count > 0), "{counts:?}");
    assert!(spans.iter().all(|task| task[0].wall.is_some_and(|wall| wall.ops <= counts[0])));
    assert!(op(&whole, "read").0 <= op(&whole, "write").0 && op(&whole, "read").0 > 0);
    assert!(metric(&whole, "write/stonewall_seconds") >= 0.03);
    // mdtest prints the number that was asked for
    let root = tempfile::tempdir().unwrap();
    let (whole, spans) = together("mdtest", "-n 100000000 -D -C -T -r -W 0.03", root.path(), &["a", "a"]);
    let made = spans.iter().map(|task| task[1].ops).sum::<u64>();
    assert!(made < 100_000_000 && spans[0][1].ops == spans[1][1].ops);
    assert_eq!((op(&whole, "directory-create").0, op(&whole, "directory-stat").0), (made, made));
    assert_eq!(op(&whole, "directory-remove").0, made);
    let rate = metric(&whole, "directory-create/ops_per_second");
    assert!(
        (rate * metric(&whole, "directory-create/seconds") - made as f64).abs() < made as f64 * 0.1,
        "{rate}"
    );
}

#[test]
fn trees_are_filled_seen_and_emptied() {
    for (options, tasks, items) in [
        ("-n 20", 3, 20),
        ("-n 13 -u -z 2 -b 3", 2, 13),
        ("-I 3 -z 2 -b 2 -L -u -N 1 -y", 3, 12),
        ("-n 20 -I 5 -N 1 -R 3 -w 100 -e 50 -X -Y", 3, 20),
    ] {
        let root = tempfile::tempdir().unwrap();
        let (whole, _) = together("mdtest", options, root.path(), &vec!["a"; tasks]);
        for phase in [
            "directory-create",
            "directory-stat",
            "directory-rename",
            "directory-remove",
            "file-create",
            "file-stat",
        ] {
            assert_eq!(op(&whole, phase).0, items * tasks as u64, "{options}: {phase}");
            assert!(metric(&whole, &format!("{phase}/ops_per_second")) > 0.0);
        }
        assert_eq!(
            (op(&whole, "file-read").0, op(&whole, "file-remove").0),
            (items * tasks as u64, items * tasks as u64)
        );
        assert!(
            files(root.path()).iter().all(|(name, _)| !name.contains('/')),
            "{options}: {:?}",
            files(root.path())
        );
    }
    let root = tempfile::tempdir().unwrap();
    together("mdtest", "-n 4 -F -C -u -w 10", root.path(), &["a", "b"]);
    let made = files(root.path());
    let file =
        |rank: u32, item: u32| (format!("test-dir.0-0/mdtest_tree.{rank}.0/file.mdtest.{rank}.{item}"), 10);
    assert!((0..2).all(|rank| (0..4).all(|item| made.contains(&file(rank, item)))), "{made:?}");
}

#[test]
fn io500_has_its_twelve_phases_and_a_score() {
    let root = tempfile::tempdir().unwrap();
    let (whole, _) = together("io500", "-D 0.05 -b 8m -s 100 -n 200", root.path(), &["a", "a"]);
    let (bandwidth, metadata) = (metric(&whole, "io500/bandwidth"), metric(&whole, "io500/metadata"));
    let score = metric(&whole, "io500/score");
    assert!((score * score - bandwidth * metadata).abs() < 1e-6 * score * score);
    let phases = whole.metrics.iter().filter(|metric| metric.name.starts_with("io500/")).count();
    assert_eq!(phases, 12 + 3);
    let (items, easy) = (op(&whole, "mdtest-hard-write").0, op(&whole, "mdtest-easy-write").0);
    assert!(items > 0 && items <= 400 && op(&whole, "ior-hard-write").0 <= 200);
    assert_eq!(op(&whole, "mdtest-hard-read"), (items, items * 3901));
    assert_eq!(op(&whole, "mdtest-easy-delete").0, easy);
    assert_eq!(op(&whole, "ior-hard-read"), op(&whole, "ior-hard-write"));
    // all files but none of its own: two of ior-easy, one of ior-hard, the stamp, the items
    assert_eq!(op(&whole, "find").0, 2 + 1 + 1 + easy + items);
    assert!(whole.notes.iter().any(|note| note.contains("not an official IO500 result")));
}

/// One task alone: no launcher, no others.
#[test]
fn one_task_needs_no_others() {
    let root = tempfile::tempdir().unwrap();
    let app = App::new("ior", &[("options".into(), "-F -b 64k -t 16k -C".into())]).unwrap();
    let place = LoadSite { root: root.path(), home: root.path(), seed: 1, pace: LoadPacing::default() };
    let hooks = Hooks {
        sample: &Counters::default,
        stopped: &|| false,
        tell: &|_| {},
        ready: &|| Ok(()),
        ranks: None,
    };
    let outcome = app.run(0, place, hooks).unwrap();
    assert!(metric(&outcome, "write/mib_per_second") > 0.0);
    assert!(outcome.notes.iter().any(|note| note.contains("one task reads what it has written")));
}
