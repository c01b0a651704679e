//! The store: everything survives, old stores open, several processes share one.

mod common;

use std::path::Path;

use common::{eight_cells, outcome, study};
use jiff::Timestamp;
use lab::store::{Store, StoreError};
use needs::needs;
use study::results::{Command, Run, Status, Trial};

fn trial(cell: u32, index: u32, status: Status) -> Trial {
    Trial {
        cell,
        index,
        order: 5,
        outcome: status.is_done().then(|| outcome(1234 + u64::from(index))),
        status,
        environment: Some(study::environment::Environment {
            loadline: "0.1.0".into(),
            devices: vec![study::environment::Device {
                name: "loop3".into(),
                fua: Some(false),
                ..Default::default()
            }],
            ..Default::default()
        }),
        commands: vec![Command { purpose: "mkfs".into(), line: "mkfs.ext4 -q /dev/loop3".into() }],
        log: vec!["files: 100".into()],
        raw_output: "text with \u{0} and \u{fc}\n".repeat(100),
        started: "2026-11-20T19:15:00.123456789Z".parse().unwrap(),
        seconds: 1.0 / 3.0,
        fsync: None,
        extras: Default::default(),
        variables: Vec::new(),
    }
}

fn statuses() -> Vec<Status> {
    vec![
        Status::Done,
        Status::Failed { message: "EIO".into() },
        Status::TimedOut { after_seconds: 2.5 },
        Status::Interrupted,
        Status::Unavailable { reason: "no f2fs".into(), remedy: "another kernel".into() },
    ]
}

fn open(folder: &Path) -> Store {
    Store::open(folder).unwrap()
}

#[test]
fn all_of_a_run_survives() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let study = study(
        "stacks = ['ext4', 'xfs']\n[study]\ntitle = 'T'\nseed = 9\ntrials = 3\n[[workload]]\nname = 'a'\ntext = 'run'\n\
         [[published]]\ncell = { stack = 'xfs' }\nvalue = 1.5\nunit = 'kops/s'\nsource = 'table 1'\n",
    );
    let mut run = store.begin(&study, &["loadline".into(), "run".into(), "a b".into()]).unwrap();
    for (at, status) in statuses().into_iter().enumerate() {
        let trial = trial(at as u32 % 2, at as u32, status);
        store.add_trial(&run.id, &trial).unwrap();
        run.trials.push(trial);
    }
    run.finished = Some(store.finish(&run.id).unwrap());
    drop(store);
    let stored = open(folder.path()).load_run("last").unwrap();
    assert_eq!(stored, run);
    assert_eq!(stored.published[0].cell, 1);
    assert_eq!((stored.seed, stored.title.as_str(), stored.planned_trials), (9, "T", 3));
}

#[test]
fn the_newest_attempt_counts_and_the_older_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let run = store.begin(&eight_cells(1, ""), &[]).unwrap();
    store.add_trial(&run.id, &trial(0, 0, Status::Failed { message: "x".into() })).unwrap();
    store.add_trial(&run.id, &trial(0, 0, Status::Done)).unwrap();
    let loaded = store.load_run(&run.id).unwrap();
    assert_eq!(loaded.trials, [trial(0, 0, Status::Done)]);
    let summary = &store.runs().unwrap()[0];
    assert_eq!((summary.trials_done, summary.trials_planned), (1, 8));
    let connection = rusqlite::Connection::open(folder.path().join("loadline.db")).unwrap();
    let rows: i64 = connection.query_row("SELECT count(*) FROM trials", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 2);
}

#[test]
fn histograms_are_there_for_other_tools() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let run = store.begin(&eight_cells(1, ""), &[]).unwrap();
    store.add_trial(&run.id, &trial(0, 0, Status::Done)).unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("loadline.db")).unwrap();
    let (name, ops, hdr): (String, i64, String) = connection
        .query_row("SELECT name, ops, service_hdr FROM ops", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!((name.as_str(), ops), ("write1", 1234));
    assert_eq!(stats::Histogram::from_hdr_v2_base64(&hdr).unwrap().count(), 1234);
}

#[test]
fn runs_are_found_by_abbreviation() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    assert!(matches!(store.load_run("last"), Err(StoreError::NoSuchRun { .. })));
    let ids: Vec<String> = (0..3).map(|_| store.begin(&eight_cells(1, ""), &[]).unwrap().id).collect();
    assert_eq!(&store.find("last").unwrap(), &ids[2]);
    assert_eq!(&store.find(&ids[1]).unwrap(), &ids[1]);
    assert!(matches!(store.find("20"), Err(StoreError::Ambiguous { matches, .. }) if matches.len() == 3));
    assert!(matches!(store.find("%"), Err(StoreError::NoSuchRun { .. })));
    assert!(matches!(store.find(""), Err(StoreError::Ambiguous { .. })));
    store.delete(&ids[0]).unwrap();
    assert!(matches!(store.find(&ids[0]), Err(StoreError::NoSuchRun { .. })));
    assert_eq!(store.runs().unwrap().len(), 2);
}

/// Ids of the same second differ by a random part: the last run is the one that began last, not the greatest id.
#[test]
fn the_last_run_is_the_one_that_began_last() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    for _ in 0..20 {
        let run = store.begin(&eight_cells(1, ""), &[]).unwrap();
        assert_eq!(store.find("last").unwrap(), run.id);
    }
}

#[test]
fn unfinished_runs_of_a_study_are_found_by_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let (one, other) = (eight_cells(1, ""), eight_cells(2, ""));
    assert_ne!(one.hash(), other.hash());
    let first = store.begin(&one, &[]).unwrap();
    store.begin(&other, &[]).unwrap();
    let ids = |store: &Store| -> Vec<String> {
        store.unfinished(&one.hash()).unwrap().into_iter().map(|run| run.id).collect()
    };
    assert_eq!(ids(&store), [first.id.as_str()]);
    store.finish(&first.id).unwrap();
    assert_eq!(ids(&store), [] as [&str; 0]);
}

#[test]
fn deleting_a_run_takes_its_trials_along() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let run = store.begin(&eight_cells(1, ""), &[]).unwrap();
    store.add_trial(&run.id, &trial(0, 0, Status::Done)).unwrap();
    store.delete(&run.id).unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("loadline.db")).unwrap();
    for table in ["runs", "trials", "ops"] {
        let rows: i64 =
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

#[test]
fn many_writers_neither_lose_nor_block() {
    let folder = tempfile::tempdir().unwrap();
    let (writers, trials) = (4, 10);
    std::thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(|| {
                // Each opens the store itself, as a process would: making and switching it to WAL is part of
                // the race.
                let mut store = open(folder.path());
                let run = store.begin(&eight_cells(1, ""), &[]).unwrap();
                for index in 0..trials {
                    store.add_trial(&run.id, &trial(0, index, Status::Done)).unwrap();
                    store.runs().unwrap();
                }
                store.finish(&run.id).unwrap();
            });
        }
    });
    let store = open(folder.path());
    let runs = store.runs().unwrap();
    assert_eq!(runs.len(), writers);
    assert!(runs.iter().all(|run| run.trials_done == u64::from(trials) && run.finished.is_some()));
}

#[test]
fn a_run_that_another_living_process_extends_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let run = store.begin(&eight_cells(1, ""), &[]).unwrap();
    let set_owner = |owner: &str| {
        let connection = rusqlite::Connection::open(folder.path().join("loadline.db")).unwrap();
        connection.execute("UPDATE runs SET owner = ?1", [owner]).unwrap();
    };
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let stat = std::fs::read_to_string("/proc/1/stat").unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap();
    set_owner(&format!("{}:1:{start}", boot.trim()));
    assert!(matches!(store.resume(&run.id), Err(StoreError::InUse { pid: 1, .. })));
    assert!(matches!(store.delete(&run.id), Err(StoreError::InUse { pid: 1, .. })));
    set_owner(&format!("{}:1:{start}0", boot.trim()));
    assert!(store.resume(&run.id).is_ok(), "the number was used again by another process");
}

#[test]
fn a_store_of_the_future_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let connection = rusqlite::Connection::open(folder.path().join("loadline.db")).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::TooNew { found: 99, .. })));
}

#[test]
fn the_past_is_told_with_and_without_the_index_that_an_older_store_gets() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let study = eight_cells(2, "");
    let ids: Vec<String> = (0..3).map(|_| store.begin(&study, &[]).unwrap().id).collect();
    // of the second run nothing; of the others in another order than their ids may have
    for id in [&ids[2], &ids[0]] {
        let failed = || Status::Failed { message: "EIO".into() };
        for (cell, index, status) in [
            (1, 1, Status::Done),
            (0, 0, failed()),
            (0, 0, Status::Done),
            (1, 0, Status::Done),
            (2, 0, Status::Done),
        ] {
            store.add_trial(id, &trial(cell, index, status)).unwrap();
        }
        store.add_trial(id, &trial(2, 0, failed())).unwrap();
    }
    let past = store.past().unwrap();
    let seen: Vec<_> = past.iter().map(|one| (one.run.clone(), one.cell, one.values.len())).collect();
    let of = |id: &String| [(id.clone(), 0, 1), (id.clone(), 1, 2)];
    assert_eq!(seen, [of(&ids[0]), of(&ids[2])].concat(), "the latest attempt of each trial counts");
    assert!(past[1].values[0] < past[1].values[1], "in the order of the trials: {:?}", past[1].values);
    let each: Vec<_> = ids.iter().flat_map(|id| store.past_of(id).unwrap()).collect();
    assert_eq!(each, past);
    drop(store);
    let file = folder.path().join("loadline.db");
    let index = "SELECT count(*) FROM sqlite_master WHERE name = 'trials_in_short'";
    let has_index = || -> i64 {
        rusqlite::Connection::open(&file).unwrap().query_row(index, [], |row| row.get(0)).unwrap()
    };
    rusqlite::Connection::open(&file).unwrap().execute("DROP INDEX trials_in_short", []).unwrap();
    let looking = Store::open_to_read(folder.path()).unwrap();
    assert_eq!((looking.past().unwrap(), has_index()), (past.clone(), 0), "whoever reads changes nothing");
    assert_eq!((open(folder.path()).past().unwrap(), has_index()), (past, 1));
}

#[test]
fn what_studies_ask_is_kept_and_found_where_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let studies = [eight_cells(2, ""), eight_cells(2, "title = 'another'"), eight_cells(2, "cold = true")];
    let begun: Vec<Run> = studies.iter().map(|study| store.begin(study, &[]).unwrap()).collect();
    store.begin(&studies[0], &[]).unwrap();
    let texts = |store: &Store| -> Vec<String> {
        let asks = store.cell_definitions().unwrap();
        begun.iter().map(|run| format!("{:?}", asks.cells(&run.study_hash))).collect()
    };
    let kept = texts(&store);
    for (run, kept) in begun.iter().zip(&kept) {
        let anew: Vec<_> = analysis::trend::defined_cells(run).into_iter().map(std::sync::Arc::new).collect();
        assert_eq!((format!("{anew:?}"), anew.len()), (kept.clone(), 8));
        assert_eq!(store.kept_asks_of(&run.study_hash).unwrap(), Some(anew));
    }
    assert!(kept[0] == kept[1] && kept[0] != kept[2], "a title asks nothing, cold caches do");
    drop(store);
    // as an older loadline leaves it: without, and with a run that is not kept
    let file = folder.path().join("loadline.db");
    let table = |name: &str| format!("asked_{name}_{}", analysis::trend::ASKS_VERSION);
    let rows = |name: &str| -> i64 {
        let count = format!("SELECT count(*) FROM {}", table(name));
        rusqlite::Connection::open(&file).unwrap().query_row(&count, [], |row| row.get(0)).unwrap()
    };
    assert_eq!((rows("studies"), rows("cells")), (3, 16), "equal cells are kept once");
    let change = |text: &str| rusqlite::Connection::open(&file).unwrap().execute_batch(text).unwrap();
    change(&format!("DELETE FROM {} WHERE study_hash = '{}'", table("studies"), begun[1].study_hash));
    assert_eq!(texts(&Store::open_to_read(folder.path()).unwrap()), kept);
    assert_eq!(open(folder.path()).kept_asks_of(&begun[1].study_hash).unwrap(), None);
    change(&format!("DROP TABLE {}; DROP TABLE {}", table("studies"), table("cells")));
    let looking = Store::open_to_read(folder.path()).unwrap();
    assert_eq!(looking.kept_asks_of(&begun[0].study_hash).unwrap(), None);
    assert_eq!(texts(&looking), kept, "whoever reads does without");
    // a record that nobody can read keeps nobody from the others
    change(&format!("UPDATE runs SET record = x'00' WHERE id = '{}'", begun[2].id));
    let mut store = open(folder.path());
    assert_eq!(rows("studies"), 2, "filled again");
    assert!(matches!(store.cell_definitions(), Err(StoreError::Damaged { .. })));
    store.delete(&begun[1].id).unwrap();
    store.delete(&begun[0].id).unwrap();
    assert_eq!(rows("studies"), 1, "one run of that study is left");
}

#[test]
fn a_damaged_record_is_an_error_and_not_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let run = store.begin(&eight_cells(1, ""), &[]).unwrap();
    store.add_trial(&run.id, &trial(0, 0, Status::Done)).unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("loadline.db")).unwrap();
    connection.execute("UPDATE trials SET record = x'00'", []).unwrap();
    assert!(matches!(store.load_run(&run.id), Err(StoreError::Damaged { .. })));
}

/// The run in `fixtures/store-v1.db`; made once by `LOADLINE_WRITE_FIXTURE=1 cargo test -p loadline-lab
/// --test store` when a schema version is released, and never again.
fn fixture_run() -> (Run, Vec<Trial>) {
    let text = include_str!("fixtures/store-v1.json");
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_store_of_version_1_still_opens() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    if std::env::var_os("LOADLINE_WRITE_FIXTURE").is_some() {
        return write_fixture(&fixtures);
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(fixtures.join("store-v1.db"), folder.path().join("loadline.db")).unwrap();
    let stored = open(folder.path()).load_run("last").unwrap();
    let (run, trials) = fixture_run();
    assert_eq!(stored, Run { trials, ..run });
    assert!(study::Study::from_stored(&stored.study).is_ok(), "its study still reads");
}

fn write_fixture(fixtures: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let study = eight_cells(5, "title = 'fixture'\nstop_early = 0.1\ncold = true\nio = 'uring:8'");
    let mut run = store.begin(&study, &["loadline".into(), "run".into(), "fixture.toml".into()]).unwrap();
    let mut trials = Vec::new();
    for (at, status) in statuses().into_iter().enumerate() {
        trials.push(trial(at as u32, 0, status));
        store.add_trial(&run.id, &trials[at]).unwrap();
    }
    run.finished = Some(store.finish(&run.id).unwrap());
    assert!(run.finished < Some(Timestamp::now()));
    drop(store);
    std::fs::create_dir_all(fixtures).unwrap();
    let from = rusqlite::Connection::open(folder.path().join("loadline.db")).unwrap();
    let target = fixtures.join("store-v1.db");
    from.execute("VACUUM INTO ?1", [target.to_str().unwrap()]).unwrap();
    std::fs::write(fixtures.join("store-v1.json"), serde_json::to_string_pretty(&(run, trials)).unwrap())
        .unwrap();
}

#[test]
fn runs_are_found_by_name_and_by_how_long_ago() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let study = study("stacks = ['ext4']\n[[workload]]\nname = 'a'\ntext = 'run'\n");
    let ids: Vec<String> = (0..3).map(|_| store.begin(&study, &[]).unwrap().id).collect();
    store.name(&ids[0], "before").unwrap();
    store.name(&ids[1], "before").unwrap();
    assert_eq!(store.find("before").unwrap(), ids[1], "the latest of this name");
    assert_eq!(
        (store.find("last").unwrap(), store.find("last~2").unwrap()),
        (ids[2].clone(), ids[0].clone())
    );
    assert!(store.find("last~3").unwrap_err().to_string().contains("so many are not stored"));
    assert_eq!(store.runs().unwrap()[1].name.as_deref(), Some("before"));
    for name in ["", "2026", "last", "last~1", "a b", "-x"] {
        assert!(store.name(&ids[2], name).is_err(), "{name}");
    }
}

/// Mounts a little memory, and takes it away.
struct Tight(std::path::PathBuf);

impl Tight {
    fn new(path: &Path) -> Tight {
        std::fs::create_dir(path).unwrap();
        let size = ["-t", "tmpfs", "-o", "size=512k,mode=755", "loadline-store-test"];
        let mounted = std::process::Command::new("mount").args(size).arg(path).status().unwrap();
        assert!(mounted.success());
        Tight(path.to_owned())
    }

    /// Takes all the room that is left; the file that holds it.
    fn fill(&self) -> std::path::PathBuf {
        let path = self.0.join("filler");
        let mut file = std::fs::File::options().append(true).create(true).open(&path).unwrap();
        while std::io::Write::write_all(&mut file, &[1; 512]).is_ok() {}
        path
    }
}

impl Drop for Tight {
    fn drop(&mut self) {
        // Lazily: what another test starts at this moment has its descriptors until it runs its program.
        assert!(std::process::Command::new("umount").arg("--lazy").arg(&self.0).status().unwrap().success());
    }
}

#[test]
fn a_full_disk_is_told_with_a_remedy_and_loses_nothing() {
    needs!(Root, Mounts);
    let folder = tempfile::tempdir().unwrap();
    let tight = Tight::new(&folder.path().join("tight"));
    let mut store = open(&tight.0);
    let id = store.begin(&eight_cells(1, ""), &[]).unwrap().id;
    store.add_trial(&id, &trial(0, 0, Status::Done)).unwrap();
    drop(store);
    // there is no room for what SQLite makes beside a store that is closed, not even to read it
    let filler = tight.fill();
    // What another test starts at this moment may still have held a file that SQLite has removed: then there is room once more.
    let mut opened = (0..100).map(|_| {
        tight.fill();
        Store::open(&tight.0).and_then(|store| store.runs())
    });
    let error = opened.find_map(Result::err).expect("the disk is full").to_string();
    assert!(error.contains("full") && error.contains("--home"), "{error}");
    // what is stored can still be shown
    assert_eq!(Store::open_to_show(&tight.0).unwrap().runs().unwrap().len(), 1);
    std::fs::remove_file(filler).unwrap();
    // the disk fills up while a run is stored
    let mut store = open(&tight.0);
    let filler = tight.fill();
    let mut added = (1..1000).map(|index| store.add_trial(&id, &trial(0, index, Status::Done)));
    let error = added.find_map(Result::err).expect("a full disk takes 1000 trials").to_string();
    assert!(error.contains("full") && error.contains("--home"), "{error}");
    drop(store);
    std::fs::remove_file(filler).unwrap();
    let mut store = open(&tight.0);
    assert!(store.load_run(&id).unwrap().trials.contains(&trial(0, 0, Status::Done)));
    store.add_trial(&id, &trial(1, 0, Status::Done)).unwrap();
}

#[test]
fn a_closed_store_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (open(folder.path()), open(folder.path()));
    drop(one);
    assert_eq!(two.runs().unwrap(), []);
    drop(two);
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["loadline.db"], "the log was not written back");
}

/// A store whose blocks are smaller than pages of memory: the index of the log in shared memory has holes then, and a store
/// to a hole of a full disk is a SIGBUS.
#[test]
fn a_nearly_full_disk_of_small_blocks_ends_no_process() {
    needs!(Root, Mounts, Loop, Ext4);
    let folder = tempfile::tempdir().unwrap();
    let (image, place) = (folder.path().join("image"), folder.path().join("small"));
    std::fs::File::create(&image).and_then(|file| file.set_len(4 << 20)).unwrap();
    std::fs::create_dir(&place).unwrap();
    let run = |program: &str, words: &[&str], last: &[&Path]| {
        let status = std::process::Command::new(program).args(words).args(last).status().unwrap();
        assert!(status.success(), "{program}");
    };
    run("mkfs.ext4", &["-q", "-b", "1024", "-m", "0"], &[&image]);
    run("mount", &["-o", "loop"], &[&image, &place]);
    let small = Tight(place);
    let mut store = open(&small.0);
    let id = store.begin(&eight_cells(1, ""), &[]).unwrap().id;
    store.add_trial(&id, &trial(0, 0, Status::Done)).unwrap();
    drop(store);
    let filler = small.fill();
    let full = std::fs::metadata(&filler).unwrap().len();
    for free_kib in [0, 1, 4, 9, 16, 33, 48, 64, 80, 128] {
        let file = std::fs::File::options().write(true).open(&filler).unwrap();
        file.set_len(full - (free_kib << 10)).unwrap();
        let shown = Store::open_to_show(&small.0).unwrap().load_run(&id).unwrap();
        assert_eq!(shown.trials.len(), 1, "{free_kib} KiB free");
        // it takes trials as long as there is room, and then says so
        if let Err(error) =
            Store::open(&small.0).and_then(|mut store| store.add_trial(&id, &trial(0, 0, Status::Done)))
        {
            assert!(error.to_string().contains("full"), "{free_kib} KiB free: {error}");
        }
    }
}

#[test]
fn a_run_with_a_damaged_trial_can_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let mut ids = Vec::new();
    for table in ["trials", "runs"] {
        let id = store.begin(&eight_cells(1, ""), &[]).unwrap().id;
        store.add_trial(&id, &trial(0, 0, Status::Done)).unwrap();
        let column = if table == "runs" { "id" } else { "run" };
        let other = rusqlite::Connection::open(folder.path().join("loadline.db")).unwrap();
        other.execute(&format!("UPDATE {table} SET record = x'00' WHERE {column} = ?1"), [&id]).unwrap();
        assert!(matches!(store.load_run(&id), Err(StoreError::Damaged { .. })));
        ids.push(id);
    }
    for id in ids {
        assert_eq!(store.delete(&id).unwrap(), id);
    }
    assert_eq!(store.runs().unwrap(), []);
}

#[test]
fn a_store_is_its_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let home = folder.path().join("new/home");
    let mut store = open(&home);
    store.begin(&eight_cells(1, ""), &[]).unwrap();
    // as root, servers that refuse root pass through it
    assert_eq!(mode(&home) & 0o066, 0, "{:o}", mode(&home));
    for name in ["loadline.db", "loadline.db-wal", "loadline.db-shm"] {
        assert_eq!(mode(&home.join(name)), 0o600, "{name}");
    }
    drop(store);
    // one of before, which a group shares
    let database = home.join("loadline.db");
    std::fs::set_permissions(&database, PermissionsExt::from_mode(0o664)).unwrap();
    std::fs::set_permissions(&home, PermissionsExt::from_mode(0o775)).unwrap();
    assert_eq!(open(&home).runs().unwrap().len(), 1);
    assert_eq!((mode(&home), mode(&database)), (0o775, 0o660), "the folder may be one of theirs");
}

#[test]
fn what_an_older_loadline_stored_shows_no_password() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let words = ["loadline", "run", "--address", "redis://:s3 c@ret@h"].map(String::from);
    let id = store.begin(&eight_cells(1, ""), &words).unwrap().id;
    let message = "no: redis://:s3cret@h".to_string();
    let bad = Trial { raw_output: message.clone(), ..trial(0, 0, Status::Failed { message }) };
    store.add_trial(&id, &bad).unwrap();
    let read = store.load_run(&id).unwrap();
    assert_eq!(read.command_line[3], "redis://:***@h");
    assert_eq!(read.trials[0].raw_output, "no: redis://:***@h");
    // as it was written before passwords were left out
    let other = rusqlite::Connection::open(folder.path().join("loadline.db")).unwrap();
    let old = Run { command_line: vec!["redis://:s3cret@h".into()], ..read };
    let record = zstd::bulk::compress(&serde_json::to_vec(&old).unwrap(), 6).unwrap();
    other.execute("UPDATE runs SET record = ?2 WHERE id = ?1", rusqlite::params![id, record]).unwrap();
    assert_eq!(store.load_run(&id).unwrap().command_line, ["redis://:***@h"]);
}
