//! The limit of FUSE as a stack beside others, and by itself: nothing of either is left. And what signals do to a mount in
//! the foreground, its own and one of betrfs.

mod common;

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{Place, WORKLOAD, names, text};
use needs::needs;
use rustix::process::{Pid, Signal, kill_process};

/// How long a process may take to come or to go.
const PATIENCE: Duration = Duration::from_secs(300);

fn fs_type(path: &str) -> Option<String> {
    let mounts = host::Host::system().mounts().expect("the table of mounts");
    let top = host::mountinfo::topmost_at(&mounts, path.into())?;
    Some(top.fs_type.clone())
}

#[test]
fn a_load_runs_on_it_and_leaves_nothing() {
    needs!(Root, Mounts, Fuse);
    let place = Place::new();
    std::fs::write(place.dir.path().join("work.f"), WORKLOAD).unwrap();
    let words = ["run", "work.f", "--on", "fuse-limit,size=64M", "-n", "1", "--ops", "300", "--cold"];
    let output = place.command(&words).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let here = place.dir.path().to_str().unwrap();
    let serves = |process: &String| {
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains("fuse-limit-daemon") && line.contains(here)
    };
    // The daemon ends after its mount.
    host::wait::wait_until(PATIENCE, || !names("/proc".as_ref()).iter().any(serves));
    place.is_clean();
}

#[test]
fn an_interrupt_unmounts_it_and_what_it_does_not_know_it_refuses() {
    needs!(Root, Mounts, Fuse);
    let place = Place::new();
    let mount = place.dir.path().join("m");
    std::fs::create_dir(&mount).unwrap();
    let refused = place.command(&["mount", "fuse-limit", "x", "m", "-o", "cache=1G"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("`cache=1G`: is not known"), "{}", text(&refused));

    let mut served = Foreground::start(&place, &["fuse-limit", "x", "m", "-o", "size=64M"]);
    served.is_seen();
    std::fs::write(mount.join("f"), "text").unwrap();
    assert_eq!(std::fs::read_to_string(mount.join("f")).unwrap(), "text");
    served.ends_by(Signal::INT);
}

/// `loadline mount .. m --foreground`.
struct Foreground {
    process: Child,
    dir: String,
}

impl Foreground {
    fn start(place: &Place, what: &[&str]) -> Foreground {
        let words = [&["mount"], what, &["--foreground"]].concat();
        let process = place.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Foreground { process, dir: place.dir.path().join("m").to_str().unwrap().to_owned() }
    }

    fn mounted(&self) -> bool {
        fs_type(&self.dir).is_some_and(|fs_type| fs_type.starts_with("fuse."))
    }

    /// Looks without a pause: whoever looks now and then comes late.
    fn is_seen(&mut self) {
        let begin = Instant::now();
        while !self.mounted() {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none() && begin.elapsed() < PATIENCE, "no mount: {ended:?}");
        }
    }

    fn ends_by(mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        let ended = self.process.wait().unwrap();
        assert!(ended.success(), "{signal:?}: {ended}");
        assert!(!self.mounted());
    }
}

#[test]
fn a_signal_unmounts_from_the_moment_on_that_the_mount_is_seen() {
    needs!(Root, Mounts, Fuse);
    let place = Place::new();
    std::fs::create_dir(place.dir.path().join("m")).unwrap();
    let made = place.command(&["mkfs", "betrfs", "--size", "64M", "d.img"]).output().unwrap();
    assert!(made.status.success(), "{}", text(&made));
    for signal in [Signal::INT, Signal::TERM] {
        for what in [&["fuse-limit", "x", "m"], &["betrfs", "d.img", "m"]] {
            let mut served = Foreground::start(&place, what);
            served.is_seen();
            served.ends_by(signal);
        }
    }
    let checked = place.command(&["fsck", "betrfs", "d.img"]).output().unwrap();
    assert!(checked.status.success(), "{}", text(&checked));
}
