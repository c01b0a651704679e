//! The journal: on disk before the thing, undone after a death, never undoing what is not ours.

mod common;

use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use common::{fake_host, names, temp_dir};
use host::{Host, ProcessId};
use journal::WhyDead;
use journal::{Journal, JournalError, Outcome, Resource, UndoReport};

fn outcomes(report: &UndoReport) -> Vec<Outcome> {
    report.steps.iter().map(|step| step.outcome.clone()).collect()
}

fn image(path: Utf8PathBuf) -> Resource {
    Resource::ImageFile { path }
}

/// Records what is there already as if it were made now.
fn adopt(journal: &Journal, resource: Resource) {
    journal.create(resource, || Ok::<(), JournalError>(())).unwrap();
}

/// Writes the journal of a run whose owner is this process, but started earlier: as kill -9 leaves it.
fn journal_of_the_dead(dir: &Utf8Path, resources: &[Resource]) -> Utf8PathBuf {
    let journal = Journal::open(dir, "dead").unwrap();
    for resource in resources {
        adopt(&journal, resource.clone());
    }
    let path = dir.join("dead-1.journal");
    let text = std::fs::read_to_string(journal.path()).unwrap();
    let me = ProcessId::current(&Host::system()).unwrap();
    let (mine, theirs) = (format!("\"start_ticks\":{}", me.start_ticks), "\"start_ticks\":1");
    assert!(text.contains(&mine));
    write_private(&path, &text.replacen(&mine, theirs, 1));
    std::fs::remove_file(journal.path()).unwrap();
    // the living journal's entries must not be undone by anyone but the leftover
    drop(journal);
    path
}

/// Writes a file to which only its owner may write, whatever the umask.
fn write_private(path: &Utf8Path, text: &str) {
    std::fs::write(path, text).unwrap();
    chmod(path, 0o600);
}

fn chmod(path: &Utf8Path, mode: u32) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
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
fn what_a_dead_server_has_forked_is_ended_too() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path, "r").unwrap();
    let folder = dir.path.join("data");
    std::fs::create_dir(&folder).unwrap();
    let sleep = |folder: &camino::Utf8Path| {
        std::process::Command::new("sleep").arg("600").current_dir(folder).spawn().unwrap()
    };
    let (mut server, mut forked, mut elsewhere) = (sleep(&folder), sleep(&folder), sleep(&dir.path));
    // same folder, another program: such as its user's shell
    let mut other = std::process::Command::new("cat");
    let mut other = other.stdin(std::process::Stdio::piped()).current_dir(&folder).spawn().unwrap();
    journal.record_server(server.id(), "a server", &folder).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(outcomes(&journal.undo()), [Outcome::Undone]);
    assert!(!forked.wait().unwrap().success());
    for one in [&mut elsewhere, &mut other] {
        assert!(one.try_wait().unwrap().is_none(), "who works elsewhere or is another program still runs");
        one.kill().unwrap();
        one.wait().unwrap();
    }
}

#[test]
fn processes_are_ended_unless_they_are_others() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path, "r").unwrap();
    let mut ours = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let mut other = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    journal.record_process(ours.id(), "a sleeper").unwrap();
    let mut reused = ProcessId::read(&Host::system(), other.id()).unwrap();
    reused.start_ticks -= 1;
    journal
        .record(Resource::Process { process: reused, what: "an older one".into(), orphans: None })
        .unwrap();
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

/// A program that was to mount outlives the run that has started it.
#[test]
fn what_comes_after_the_doctor_has_looked_is_found_by_the_next() {
    let dir = temp_dir();
    let (journals, work) = (dir.path.join("j"), dir.path.join("work"));
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join(".loadline"), "ours").unwrap();
    let mount =
        Resource::Mount { target: work.join("mnt"), source: "/dev/loop3".into(), fs_type: "ext4".into() };
    let tree = Resource::Tree { path: work.clone(), nonce: "ours".into() };
    journal_of_the_dead(&journals, &[tree, mount]);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let pid_stat = format!("proc/{}/stat", std::process::id());
    let boot_id = ("proc/sys/kernel/random/boot_id", &*Host::system().boot_id());
    let clean = |mounts: &str| {
        let host = fake_host(&dir.path, &[(&pid_stat, &stat), boot_id, ("proc/self/mountinfo", mounts)]);
        Journal::leftovers_on(&host, &journals).unwrap()[0].clean().unwrap()
    };
    // another's mount keeps the directory
    let report = clean(&format!("1 0 8:1 / {work}/other rw - ext4 /dev/sda1 rw\n"));
    assert_eq!(report.steps[0].outcome, Outcome::AlreadyGone);
    assert!(matches!(&report.steps[1].outcome, Outcome::Failed(_)), "{report}");
    // now it is there, and is to be unmounted, which fails since it is none really
    let report = clean(&format!("2 0 7:3 / {work}/mnt rw - ext4 /dev/loop3 rw\n"));
    assert!(matches!(&report.steps[0].outcome, Outcome::Failed(_)), "{report}");
    let report = clean("\n");
    assert_eq!(outcomes(&report), [Outcome::AlreadyGone, Outcome::Undone]);
    assert!(!work.exists() && names(&journals).iter().all(|name| !name.ends_with(".journal")));
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
    adopt(&journal, image(file.clone()));
    journal.record(Resource::LoopDevice { device: "/dev/loop0".into(), backing_file }).unwrap();
    journal
        .record(Resource::Process { process: me, what: "its number is ours now".into(), orphans: None })
        .unwrap();
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
    let path = journal_of_the_dead(&journals, &[image(file.clone())]);
    let whole = std::fs::read_to_string(&path).unwrap();
    let line = whole.lines().count() + 1;
    std::fs::write(&path, format!("{whole}nonsense\n")).unwrap();
    let leftovers = Journal::leftovers(&journals).unwrap();
    let told = leftovers[0].to_string();
    assert!(told.contains(&format!("line {line} cannot be read")), "{told}");
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
fn who_holds_the_lock_is_alive_whatever_its_process_number_means_here() {
    let dir = temp_dir();
    let journals = dir.path.join("j");
    let path = journal_of_the_dead(&journals, &[image(dir.path.join("image"))]);
    assert_eq!(Journal::leftovers(&journals).unwrap().len(), 1);
    let held = std::fs::File::open(&path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(Journal::leftovers(&journals).unwrap().is_empty(), "as seen from another container");
}

#[test]
fn the_owner_holds_the_lock_and_its_children_do_not() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path, "r").unwrap();
    journal.record(image(dir.path.join("x"))).unwrap();
    let path = journal.path().to_owned();
    let lock = || {
        let file = std::fs::File::open(&path).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
    };
    assert_eq!(lock(), Err(rustix::io::Errno::WOULDBLOCK));
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    drop(journal);
    // a process that another test is starting has it until its exec; a child that inherits it has it for ten minutes
    let begin = std::time::Instant::now();
    let mut free = lock();
    while free.is_err() && begin.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
        free = lock();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(free, Ok(()), "the child has inherited the lock");
}

#[test]
fn one_journal_that_cannot_be_read_does_not_hide_the_others() {
    let dir = temp_dir();
    let journals = dir.path.join("j");
    let file = dir.path.join("image");
    std::fs::write(&file, "x").unwrap();
    journal_of_the_dead(&journals, &[image(file.clone())]);
    std::fs::create_dir(journals.join("a.journal")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        journals.join("b.journal").as_str(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let newer = r#"{"loadline_journal":9,"run_id":"r","owner":{"pid":5,"start_ticks":6},"boot_id":"b"}"#;
    write_private(&journals.join("c.journal"), &format!("{newer}\n"));
    write_private(&journals.join("e.journal"), "");
    std::os::unix::fs::symlink("dead-1.journal", journals.join("f.journal")).unwrap();
    write_private(&journals.join("g.journal"), "");
    chmod(&journals.join("g.journal"), 0o666);
    let leftovers = Journal::leftovers(&journals).unwrap();
    let damage = |name: &str| {
        let of = leftovers.iter().find(|leftover| leftover.path.file_name() == Some(name)).unwrap();
        assert!(of.clean().is_err(), "{name}");
        of.to_string()
    };
    for (name, why) in [
        ("a.journal", "directory"),
        ("b.journal", "not a regular file"),
        ("c.journal", "newer loadline"),
        ("e.journal", "not a journal"),
        ("f.journal", "symbolic link"),
        ("g.journal", "chmod go-w"),
    ] {
        assert!(damage(name).contains(why), "{}", damage(name));
    }
    let dead = leftovers.iter().find(|leftover| leftover.run_id == "dead").unwrap();
    assert_eq!(outcomes(&dead.clean().unwrap()), [Outcome::Undone]);
    assert!(!file.exists());
}

#[test]
fn what_others_can_steer_is_refused_with_a_remedy() {
    let dir = temp_dir();
    let journals = dir.path.join("home/journal");
    let file = dir.path.join("image");
    std::fs::write(&file, "x").unwrap();
    journal_of_the_dead(&journals, &[image(file.clone())]);
    for place in [&journals, &dir.path.join("home")] {
        chmod(place, 0o777);
        let refused = Journal::leftovers(&journals).unwrap_err();
        assert!(matches!(refused, JournalError::Unsafe { .. }), "{refused}");
        assert!(refused.to_string().contains(&format!("chmod go-w {place}")), "{refused}");
        assert!(matches!(Journal::open(&journals, "r"), Err(JournalError::Unsafe { .. })));
        assert!(matches!(Journal::sweep(&journals), Err(JournalError::Unsafe { .. })));
        chmod(place, 0o755);
    }
    if rustix::process::geteuid().is_root() {
        // somebody's home: root must not do what is written there
        std::os::unix::fs::chown(dir.path.join("home"), Some(12_345), None).unwrap();
        let refused = Journal::leftovers(&journals).unwrap_err().to_string();
        assert!(refused.contains("belongs to user 12345") && refused.contains("--home"), "{refused}");
        std::os::unix::fs::chown(dir.path.join("home"), Some(0), None).unwrap();
    }
    assert!(file.exists());
    assert_eq!(Journal::leftovers(&journals).unwrap().len(), 1, "mended, it is read again");
}

#[test]
fn a_link_put_into_a_path_leads_nowhere() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("j"), "r").unwrap();
    let (place, precious) = (dir.path.join("place"), dir.path.join("precious"));
    std::fs::create_dir(&place).unwrap();
    for name in ["image", "empty", "loadline-ours/data"] {
        let path = place.join(name);
        match name {
            "image" => std::fs::write(path, "x").unwrap(),
            _ => std::fs::create_dir_all(path).unwrap(),
        }
    }
    std::fs::write(place.join("loadline-ours/.loadline"), "ours").unwrap();
    adopt(&journal, image(place.join("image")));
    adopt(&journal, Resource::Directory { path: place.join("empty") });
    adopt(&journal, Resource::Tree { path: place.join("loadline-ours"), nonce: "ours".into() });
    std::fs::rename(&place, &precious).unwrap();
    std::os::unix::fs::symlink(&precious, &place).unwrap();
    let report = journal.undo();
    assert!(
        report.steps.iter().all(|step| matches!(&step.outcome, Outcome::Failed(why)
        if why.contains("symbolic link"))),
        "{report}"
    );
    assert_eq!(names(&precious), ["empty", "image", "loadline-ours"]);
    // without the link it is ours again
    std::fs::remove_file(&place).unwrap();
    std::fs::rename(&precious, &place).unwrap();
    assert_eq!(outcomes(&journal.undo()), [Outcome::Undone, Outcome::Undone, Outcome::Undone]);
}

#[test]
fn links_within_a_private_directory_are_removed_and_not_followed() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("j"), "r").unwrap();
    let precious = dir.path.join("precious");
    std::fs::create_dir(&precious).unwrap();
    std::fs::write(precious.join("file"), "x").unwrap();
    let tree = journal::PrivateTree::new(&journal, &dir.path).unwrap();
    let path = tree.path().to_owned();
    std::fs::create_dir_all(path.join("a/b/c")).unwrap();
    std::os::unix::fs::symlink(&precious, path.join("a/link")).unwrap();
    std::os::unix::fs::symlink(precious.join("file"), path.join("a/b/link")).unwrap();
    drop(tree);
    assert!(!path.exists() && precious.join("file").exists());
    assert!(journal.is_empty());
}

#[test]
fn a_tree_whose_marker_a_power_cut_took_is_not_forgotten() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("j"), "r").unwrap();
    for (nonce, mark, data) in [("aaa", "", false), ("bbb", "bb", false), ("ccc", "", true)] {
        let path = dir.path.join(format!("loadline-{nonce}"));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join(".loadline"), mark).unwrap();
        if data {
            std::fs::write(path.join("data"), "x").unwrap();
        }
        journal.record(Resource::Tree { path, nonce: nonce.into() }).unwrap();
    }
    let report = journal.undo();
    assert!(matches!(&report.steps[0].outcome, Outcome::Failed(why) if why.contains("by hand")), "{report}");
    assert_eq!(outcomes(&report)[1..], [Outcome::Undone, Outcome::Undone]);
    assert_eq!(journal.entries().len(), 1, "the entry is kept");
    assert!(dir.path.join("loadline-ccc/data").exists());
}

#[test]
fn another_file_in_the_place_of_an_image_is_left_alone() {
    let dir = temp_dir();
    let journals = dir.path.join("j");
    let (file, other) = (dir.path.join("image"), dir.path.join("other"));
    std::fs::write(&file, "x").unwrap();
    journal_of_the_dead(&journals, &[image(file.clone())]);
    std::fs::write(&other, "precious").unwrap();
    std::fs::rename(&other, &file).unwrap();
    let report = Journal::leftovers(&journals).unwrap()[0].clean().unwrap();
    assert!(
        matches!(&report.steps[0].outcome, Outcome::LeftAlone(why) if why.contains("not the file")),
        "{report}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn an_image_that_was_never_told_goes_only_while_it_is_a_hole() {
    let dir = temp_dir();
    let journal = Journal::open(&dir.path.join("j"), "r").unwrap();
    let (hole, data) = (dir.path.join("hole"), dir.path.join("data"));
    std::fs::File::create(&hole).unwrap().set_len(1 << 30).unwrap();
    std::fs::write(&data, "precious").unwrap();
    for path in [&hole, &data] {
        journal.record(image(path.clone())).unwrap();
    }
    let report = journal.undo();
    assert!(matches!(&report.steps[0].outcome, Outcome::LeftAlone(_)), "{report}");
    assert_eq!(report.steps[1].outcome, Outcome::Undone);
    assert!(!hole.exists() && data.exists());
}

/// As the first version wrote it: nothing tells which file an image is.
#[test]
fn journals_of_the_first_format_are_still_undone() {
    let dir = temp_dir();
    let journals = dir.path.join("j");
    drop(Journal::open(&journals, "makes-the-directory").unwrap());
    let (file, tree) = (dir.path.join("image"), dir.path.join("loadline-0123456789ab"));
    std::fs::write(&file, "x").unwrap();
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join(".loadline"), "ba9876543210").unwrap();
    let (pid, boot) = (std::process::id(), Host::system().boot_id());
    let text = format!(
        r#"{{"loadline_journal":1,"run_id":"old","owner":{{"pid":{pid},"start_ticks":1}},"boot_id":"{boot}"}}
{{"add":1,"resource":{{"kind":"tree","path":"{tree}","nonce":"ba9876543210"}}}}
{{"add":2,"resource":{{"kind":"image_file","path":"{file}"}}}}
{{"add":3,"resource":{{"kind":"directory","path":"{tree}/gone"}}}}
{{"done":3}}
"#
    );
    write_private(&journals.join("old-1.journal"), &text);
    let leftovers = Journal::leftovers(&journals).unwrap();
    assert_eq!((leftovers[0].run_id.as_str(), &leftovers[0].damage), ("old", &None));
    assert_eq!(outcomes(&leftovers[0].clean().unwrap()), [Outcome::Undone, Outcome::Undone]);
    assert!(!file.exists() && !tree.exists() && names(&journals).is_empty());
}

#[test]
fn unfinished_journals_of_the_dead_are_swept_and_those_of_the_living_are_not() {
    let dir = temp_dir();
    drop(Journal::open(&dir.path.join("j"), "makes-the-directory").unwrap());
    let path = |name: &str| dir.path.join("j").join(name);
    for name in [".r-1-aa.new", ".r-2-bb.new", "other.new", ".hidden"] {
        write_private(&path(name), "");
    }
    let held = std::fs::File::open(path(".r-2-bb.new")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert_eq!(Journal::sweep(&dir.path.join("j")).unwrap(), 1);
    assert_eq!(names(&dir.path.join("j")), [".hidden", ".r-2-bb.new", "other.new"]);
    assert_eq!(Journal::sweep(&dir.path.join("none")).unwrap(), 0);
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

/// The kernel drops the partitions of a device that is closed at the moment at which we ask it to.
#[test]
fn a_partition_that_went_by_itself_does_not_keep_its_device_attached() {
    needs::needs!(Loop);
    let dir = temp_dir();
    let file = dir.path.canonicalize_utf8().unwrap().join("image");
    std::fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let journal = Journal::open(&dir.path.join("j"), "run").unwrap();
    let options = host::loopdev::LoopOptions { direct_io: false, sector_bytes: 0 };
    let (device, entry) = journal::loopdev::attach(&Host::system(), &journal, &file, options).unwrap();
    // The real device, and a /sys that still shows a partition of it.
    let name = device.file_name().unwrap();
    let (root, shown) = (dir.path.join("root"), format!("root/sys/block/{name}"));
    std::fs::create_dir_all(dir.path.join(&shown).join("loop")).unwrap();
    std::fs::create_dir(dir.path.join(&shown).join(format!("{name}p9"))).unwrap();
    std::fs::write(dir.path.join(&shown).join("loop/backing_file"), file.as_str()).unwrap();
    std::os::unix::fs::symlink("/dev", root.join("dev")).unwrap();
    let detached = host::loopdev::detach(&Host::rooted(&root), &device, &file);
    let left = host::loopdev::backing_file(&Host::system(), &device);
    assert!(journal.undo_entries(&[entry]).is_clean());
    detached.unwrap();
    assert_ne!(left, Some(file), "the device stays attached");
}
