//! The limit of FUSE as a stack beside others, and by itself: nothing of either is left.

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::{Place, WORKLOAD, names, text};
use needs::needs;
use rustix::process::{Pid, Signal, kill_process};

/// How long a process may take to come or to go.
const PATIENCE: Duration = Duration::from_secs(60);

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

    let mut command = place.command(&["mount", "fuse-limit", "x", "m", "--foreground", "-o", "size=64M"]);
    let mut served = command.stdout(Stdio::null()).spawn().unwrap();
    let at = mount.to_str().unwrap();
    let mounted = || fs_type(at).as_deref() == Some("fuse.fuse-limit");
    let waited = host::wait::wait_until(PATIENCE, || mounted() || served.try_wait().unwrap().is_some());
    assert!(waited && mounted());
    std::fs::write(mount.join("f"), "text").unwrap();
    assert_eq!(std::fs::read_to_string(mount.join("f")).unwrap(), "text");
    kill_process(Pid::from_child(&served), Signal::INT).unwrap();
    assert!(served.wait().unwrap().success());
    assert!(!mounted());
}
