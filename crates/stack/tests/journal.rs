//! The journal: on disk before the thing, undone after a death, never undoing what is not ours.

mod common;

use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use common::{fake_host, names, temp_dir};
use stack::journal::WhyDead;
use stack::{Host, Journal, JournalError, Outcome, ProcessId, Resource, UndoReport};

fn outcomes(report: &UndoReport) -> Vec<Outcome> {
    report.steps.iter().map(|step| step.outcome.clone()).collect()
}

fn image(path: Utf8PathBuf) -> Resource {
    Resource::ImageFile { path }
}

/// Writes the journal of a run whose owner is this process, but started earlier: as kill -9 leaves it.
fn journal_of_the_dead(dir: &Utf8Path, resources: &[Resource]) -> Utf8PathBuf {
    let journal = Journal::open(dir, "dead").unwrap();
    for resource in resources {
        journal.record(resource.clone()).unwrap();
    }
    let path = dir.join("dead-1.journal");
    let text = std::fs::read_to_string(journal.path()).unwrap();
    let me = ProcessId::current(&Host::system()).unwrap();
    let (mine, theirs) = (format!("\"start_ticks\":{}", me.start_ticks), "\"start_ticks\":1");
    assert!(text.contains(&mine));
    std::fs::write(&path, text.replacen(&mine, theirs, 1)).unwrap();
    std::fs::remove_file(journal.path()).unwrap();
    // the living journal's entries must not be undone by anyone but the leftover
    drop(journal);
    path
}

#[test]
fn the_entry_is_on_disk_before_the_thing_is_made() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("j"), "run-1").unwrap();
    let file = dir.path.join("image");
    let made = journal.create(image(file.clone()), || {
        let text = std::fs::read_to_string(journal.path()).unwrap();
        assert!(text.contains(file.as_str()));
        std::fs::write(&file, "x").unwrap();
        Ok::<(), JournalError>(())
    });
    made.unwrap();
    assert_eq!(journal.entries().len(), 1);
    assert_eq!(outcomes(&journal.undo()), [Outcome::Undone]);
    assert!(!file.exists());
    assert!(names(&dir.path.join("j")).is_empty(), "an empty journal leaves no file");
    assert!(journal.undo().steps.is_empty(), "undoing again does nothing");
}

#[test]
fn undo_goes_backwards_and_what_is_gone_is_no_error() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("j"), "r").unwrap();
    let outer = dir.path.join("outer");
    for path in [outer.clone(), outer.join("inner")] {
        journal.record(Resource::Directory { path: path.clone() }).unwrap();
        std::fs::create_dir(path).unwrap();
    }
    journal.record(image(dir.path.join("never-made"))).unwrap();
    let report = journal.undo();
    assert_eq!(outcomes(&report), [Outcome::AlreadyGone, Outcome::Undone, Outcome::Undone]);
    assert!(report.is_clean() && !outer.exists());
}

#[test]
fn after_undo_nothing_new_is_made() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path, "r").unwrap();
    journal.undo();
    let made =
        journal.create(image(dir.path.join("x")), || -> Result<(), JournalError> { panic!("was made") });
    assert!(matches!(made, Err((None, JournalError::Closed))));
    assert!(matches!(journal.begin(), Err(JournalError::Closed)));
}

#[test]
fn undo_waits_for_what_another_thread_is_making() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("j"), "r").unwrap();
    let file = dir.path.join("image");
    let (begun, wait) = std::sync::mpsc::channel();
    let undoing = std::thread::scope(|scope| {
        let maker: Arc<Journal> = journal.clone();
        let path = file.clone();
        scope.spawn(move || {
            let made = maker.create(image(path.clone()), || {
                begun.send(()).unwrap();
                // made only once the undo has begun, so that an undo that does not wait would miss it
                while !maker.is_closed() {
                    std::thread::yield_now();
                }
                std::fs::write(&path, "x").unwrap();
                Ok::<(), JournalError>(())
            });
            made.unwrap();
        });
        wait.recv().unwrap();
        journal.undo()
    });
    assert_eq!(outcomes(&undoing), [Outcome::Undone]);
    assert!(!file.exists());
}

#[test]
fn what_was_replaced_is_left_alone() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("j"), "r").unwrap();
    let (as_image, as_dir) = (dir.path.join("image"), dir.path.join("full"));
    std::fs::create_dir_all(&as_image).unwrap();
    std::fs::create_dir_all(as_dir.join("mine")).unwrap();
    journal.record(image(as_image.clone())).unwrap();
    journal.record(Resource::Directory { path: as_dir.clone() }).unwrap();
    // a tree without our mark, one with another run's mark, one that a link replaces
    for (name, mark) in [("unmarked", None), ("foreign", Some("other"))] {
        let tree = dir.path.join(name);
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(tree.join("data"), "precious").unwrap();
        if let Some(mark) = mark {
            std::fs::write(tree.join(".loadline"), mark).unwrap();
        }
        journal.record(Resource::Tree { path: tree, nonce: "ours".into() }).unwrap();
    }
    let link = dir.path.join("link");
    std::os::unix::fs::symlink(&as_dir, &link).unwrap();
    journal.record(Resource::Tree { path: link, nonce: "ours".into() }).unwrap();
    let report = journal.undo();
    assert!(outcomes(&report).iter().all(|outcome| matches!(outcome, Outcome::LeftAlone(_))), "{report}");
    assert_eq!(report.steps.len(), 5);
    assert!(as_image.is_dir() && as_dir.join("mine").is_dir());
    assert!(dir.path.join("unmarked/data").is_file() && dir.path.join("foreign/data").is_file());
}

#[test]
fn a_tree_is_removed_with_its_contents_or_when_killed_before_marking() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("j"), "r").unwrap();
    let (full, empty) = (dir.path.join("full"), dir.path.join("empty"));
    std::fs::create_dir_all(full.join("a/b")).unwrap();
    std::fs::write(full.join(".loadline"), "ours").unwrap();
    std::fs::create_dir(&empty).unwrap();
    for path in [&full, &empty] {
        journal.record(Resource::Tree { path: path.clone(), nonce: "ours".into() }).unwrap();
    }
    assert_eq!(outcomes(&journal.undo()), [Outcome::Undone, Outcome::Undone]);
    assert!(!full.exists() && !empty.exists());
}

#[test]
fn a_loop_device_with_another_file_is_left_alone() {
    let dir = temp_dir();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let files = [
        (format!("proc/{}/stat", std::process::id()), stat.as_str()),
        ("sys/block/loop3/loop/backing_file".into(), "/somebody/elses.img\n"),
        ("sys/block/loop4/size".into(), "0\n"),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let host = fake_host(&dir.path, &files);
    let journal = Journal::open_on(&host, &dir.path.join("j"), "r").unwrap();
    for device in ["/dev/loop3", "/dev/loop4"] {
        let backing_file = "/our/image".into();
        journal.record(Resource::LoopDevice { device: device.into(), backing_file }).unwrap();
    }
    let report = journal.undo();
    assert_eq!(report.steps[0].outcome, Outcome::AlreadyGone);
    let shown = "/dev/loop3 now shows /somebody/elses.img".to_string();
    assert_eq!(report.steps[1].outcome, Outcome::LeftAlone(shown));
}

#[test]
fn a_mount_of_something_else_is_left_alone_and_one_below_another_is_kept() {
    let dir = temp_dir();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let pid_stat = format!("proc/{}/stat", std::process::id());
    let mounts = "1 0 8:1 / /a rw - ext4 /dev/sda1 rw\n\
                  2 0 7:3 / /b rw - ext4 /dev/loop3 rw\n3 0 8:1 / /b rw - ext4 /dev/sda1 rw\n";
    let host = fake_host(&dir.path, &[(&pid_stat, &stat), ("proc/self/mountinfo", mounts)]);
    let journal = Journal::open_on(&host, &dir.path.join("j"), "r").unwrap();
    for target in ["/a", "/b", "/c"] {
        let (source, fs_type) = ("/dev/loop3".into(), "ext4".into());
        journal.record(Resource::Mount { target: target.into(), source, fs_type }).unwrap();
    }
    let report = journal.undo();
    assert_eq!(report.steps[0].outcome, Outcome::AlreadyGone);
    assert!(
        matches!(&report.steps[1].outcome, Outcome::Failed(why) if why.contains("on top of ours")),
        "{report}"
    );
    assert!(
        matches!(&report.steps[2].outcome, Outcome::LeftAlone(why) if why.contains("/dev/sda1")),
        "{report}"
    );
    assert_eq!(journal.entries().len(), 1, "what failed is tried again by the next undo");
    assert!(journal.path().exists());
}

#[test]
fn processes_are_ended_unless_they_are_others() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path, "r").unwrap();
    let mut ours = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let mut other = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    journal.record_process(ours.id(), "a sleeper").unwrap();
    let mut reused = Host::system().process(other.id()).unwrap();
    reused.start_ticks -= 1;
    journal.record(Resource::Process { process: reused, what: "an older one".into() }).unwrap();
    let report = journal.undo();
    assert_eq!(outcomes(&report), [Outcome::AlreadyGone, Outcome::Undone]);
    assert!(!ours.wait().unwrap().success());
    assert!(other.try_wait().unwrap().is_none(), "a process that only has the same number still runs");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn a_process_that_ignores_the_polite_signal_is_killed() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path, "r").unwrap();
    let script = "trap '' TERM; echo ready; while :; do sleep 1; done";
    let mut child = std::process::Command::new("sh")
        .args(["-c", script])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    journal.record_process(child.id(), "a stubborn one").unwrap();
    assert_eq!(outcomes(&journal.undo()), [Outcome::Undone]);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
}

#[test]
fn the_journal_of_a_dead_run_is_found_and_undone_once() {
    let dir = temp_dir();
    let journals = dir.path.join("j");
    let file = dir.path.join("image");
    std::fs::write(&file, "x").unwrap();
    let path = journal_of_the_dead(&journals, &[image(file.clone()), image(dir.path.join("never-made"))]);
    let leftovers = Journal::leftovers(&journals).unwrap();
    assert_eq!(leftovers.len(), 1);
    assert_eq!(leftovers[0].why, WhyDead::ProcessGone);
    assert_eq!((leftovers[0].run_id.as_str(), leftovers[0].resources.len()), ("dead", 2));
    assert!(leftovers[0].to_string().contains("image file"));
    let report = leftovers[0].clean().unwrap();
    assert_eq!(outcomes(&report), [Outcome::AlreadyGone, Outcome::Undone]);
    assert!(!file.exists() && !path.exists());
    assert!(leftovers[0].clean().unwrap().steps.is_empty(), "cleaning again does nothing");
    assert!(Journal::leftovers(&journals).unwrap().is_empty());
}

#[test]
fn living_runs_and_absent_directories_leave_nothing_to_clean() {
    let dir = temp_dir();
    assert!(Journal::leftovers(&dir.path.join("none")).unwrap().is_empty());
    let journal = Journal::open(&dir.path, "alive").unwrap();
    journal.record(image(dir.path.join("x"))).unwrap();
    assert!(Journal::leftovers(&dir.path).unwrap().is_empty());
    // a dropped journal with entries stays for the doctor
    let path = journal.path().to_owned();
    drop(journal);
    assert!(path.exists());
}

#[test]
fn a_reboot_takes_mounts_and_processes_away_but_not_files() {
    let dir = temp_dir();
    let file = dir.path.join("image");
    std::fs::write(&file, "x").unwrap();
    let me = ProcessId::current(&Host::system()).unwrap();
    let journals = dir.path.join("j");
    let backing_file = file.clone();
    let journal = Journal::open(&journals, "r").unwrap();
    journal.record(image(file.clone())).unwrap();
    journal.record(Resource::LoopDevice { device: "/dev/loop0".into(), backing_file }).unwrap();
    journal.record(Resource::Process { process: me, what: "its number is ours now".into() }).unwrap();
    let path = journal.path().to_owned();
    drop(journal);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen(&Host::system().boot_id(), "an-earlier-boot", 1)).unwrap();
    let leftovers = Journal::leftovers(&journals).unwrap();
    assert_eq!(leftovers[0].why, WhyDead::Rebooted);
    let report = leftovers[0].clean().unwrap();
    assert_eq!(outcomes(&report), [Outcome::AlreadyGone, Outcome::AlreadyGone, Outcome::Undone]);
    assert!(!path.exists());
}

#[test]
fn a_cut_off_line_is_dropped_and_a_damaged_file_is_kept() {
    let dir = temp_dir();
    let file = dir.path.join("image");
    std::fs::write(&file, "x").unwrap();
    let journals = dir.path.join("j");
    let path = journal_of_the_dead(&journals, &[image(file.clone())]);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{whole}{{\"add\":2,\"resour")).unwrap();
    assert_eq!(outcomes(&Journal::leftovers(&journals).unwrap()[0].clean().unwrap()), [Outcome::Undone]);
    assert!(!path.exists());

    std::fs::write(&file, "x").unwrap();
    std::fs::write(&path, format!("{whole}nonsense\n")).unwrap();
    let leftovers = Journal::leftovers(&journals).unwrap();
    assert!(leftovers[0].to_string().contains("line 3 cannot be read"), "{}", leftovers[0]);
    assert_eq!(outcomes(&leftovers[0].clean().unwrap()), [Outcome::Undone]);
    assert!(path.exists() && !file.exists(), "a person should look at it");

    std::fs::write(&path, "not json\n").unwrap();
    let leftovers = Journal::leftovers(&journals).unwrap();
    assert!(leftovers[0].damage.as_ref().unwrap().contains("not a journal"));
    assert!(leftovers[0].clean().is_err());
}

#[test]
fn two_doctors_do_not_undo_twice() {
    let dir = temp_dir();
    let journals = dir.path.join("j");
    let path = journal_of_the_dead(&journals, &[image(dir.path.join("image"))]);
    let leftover = Journal::leftovers(&journals).unwrap().remove(0);
    let held = std::fs::File::open(&path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(leftover.clean().unwrap().steps.is_empty());
    assert!(path.exists());
    drop(held);
    assert_eq!(leftover.clean().unwrap().steps.len(), 1);
}

#[test]
fn run_ids_that_are_no_file_names_are_refused() {
    let dir = temp_dir();
    for run_id in ["", "a/b", "a b"] {
        assert!(matches!(Journal::open(&dir.path, run_id), Err(JournalError::BadRunId { .. })), "{run_id}");
    }
}

/// The real thing: a process that is killed with SIGKILL in the middle of a run.
#[test]
fn a_killed_process_leaves_a_journal_that_undoes_its_work() {
    if let Ok(place) = std::env::var("LOADLINE_TEST_VICTIM") {
        let place = Utf8PathBuf::from(place);
        let journal = Journal::open(&place.join("j"), "victim").unwrap();
        let file = place.join("image");
        journal
            .create(image(file.clone()), || Ok::<_, JournalError>(std::fs::write(&file, "x")))
            .unwrap()
            .1
            .unwrap();
        std::fs::write(place.join("ready"), "").unwrap();
        loop {
            std::thread::sleep(Duration::from_secs(600));
        }
    }
    let dir = temp_dir();
    let journals = dir.path.join("j");
    let name = "a_killed_process_leaves_a_journal_that_undoes_its_work";
    let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env("LOADLINE_TEST_VICTIM", &dir.path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !dir.path.join("ready").exists() {
        assert!(victim.try_wait().unwrap().is_none(), "the victim ended by itself");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(Journal::leftovers(&journals).unwrap().is_empty(), "it still lives");
    victim.kill().unwrap();
    victim.wait().unwrap();
    let leftovers = Journal::leftovers(&journals).unwrap();
    assert_eq!(leftovers[0].pid, victim.id());
    assert_eq!(outcomes(&leftovers[0].clean().unwrap()), [Outcome::Undone]);
    assert!(!dir.path.join("image").exists());
}
