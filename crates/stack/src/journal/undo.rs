//! Taking one resource away, after making sure that it is still the one that was recorded.

use std::io;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{Outcome, Resource, tree};
use crate::{Host, ProcessId, cgroup, loopdev, mount, mountinfo};

/// How long a busy mount is tried again before it is detached lazily.
const UNMOUNT_PATIENCE: Duration = Duration::from_secs(1);
/// How long a process may take to end after SIGTERM, and again after SIGKILL.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Takes `resource` away. Idempotent: what is gone stays gone.
pub(super) fn undo(host: &Host, resource: &Resource) -> Outcome {
    match resource {
        Resource::Tree { path, nonce } => tree::remove(host, path, nonce),
        Resource::Directory { path } => outcome(std::fs::remove_dir(path)),
        Resource::ImageFile { path } => match std::fs::symlink_metadata(path) {
            Ok(meta) if !meta.is_file() => Outcome::LeftAlone("is not a regular file".into()),
            _ => outcome(std::fs::remove_file(path)),
        },
        Resource::LoopDevice { device, backing_file } => undo_loop(host, device, backing_file),
        Resource::Mount { target, source, fs_type } => undo_mount(host, target, source, fs_type),
        Resource::Cgroup { path } => undo_cgroup(host, path),
        Resource::Process { process, .. } => undo_process(host, *process),
    }
}

fn outcome(result: io::Result<()>) -> Outcome {
    match result {
        Ok(()) => Outcome::Undone,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Outcome::AlreadyGone,
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            Outcome::LeftAlone("is not empty".into())
        }
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

fn undo_loop(host: &Host, device: &Utf8Path, backing_file: &Utf8Path) -> Outcome {
    match loopdev::backing_file(host, device) {
        None => Outcome::AlreadyGone,
        Some(other) if other != backing_file => Outcome::LeftAlone(format!("{device} now shows {other}")),
        Some(_) => match loopdev::detach(host, device, backing_file) {
            Ok(true) => Outcome::Undone,
            Ok(false) => Outcome::Deferred("it is in use, and goes when its last user closes it".into()),
            Err(error) => Outcome::Failed(error.to_string()),
        },
    }
}

fn undo_mount(host: &Host, target: &Utf8Path, source: &str, fs_type: &str) -> Outcome {
    let mounts = match host.mounts() {
        Ok(mounts) => mounts,
        Err(error) => return Outcome::Failed(format!("cannot tell what is mounted: {error}")),
    };
    let is_ours =
        |m: &&mountinfo::MountEntry| m.target == target && m.source == source && m.fs_type == fs_type;
    let Some(top) = mountinfo::topmost_at(&mounts, target) else { return Outcome::AlreadyGone };
    if !is_ours(&top) {
        let what = format!("{} ({}) is mounted there", top.source, top.fs_type);
        return match mounts.iter().find(is_ours) {
            Some(_) => Outcome::Failed(format!("{what}, on top of ours; unmount that first")),
            None => Outcome::LeftAlone(what),
        };
    }
    match mount::unmount(target, UNMOUNT_PATIENCE) {
        Ok(()) if mount::wait_released(fs_type, source) => Outcome::Undone,
        Ok(()) => Outcome::Deferred(format!("unmounted, but its daemon still writes to {source}")),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            let users = mount::users_text(&mount::users(host, target));
            match mount::detach(target) {
                Ok(()) => Outcome::Deferred(format!("busy, so detached lazily; {users}")),
                Err(error) => Outcome::Failed(format!("busy ({users}), and lazy unmount: {error}")),
            }
        }
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

fn undo_cgroup(host: &Host, path: &Utf8Path) -> Outcome {
    match cgroup::kill_and_remove(host, path) {
        Ok(true) => Outcome::Undone,
        Ok(false) => Outcome::AlreadyGone,
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

fn undo_process(host: &Host, process: ProcessId) -> Outcome {
    if process.pid == std::process::id() {
        return Outcome::LeftAlone("is this very process".into());
    }
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else {
        return Outcome::LeftAlone("not a process number".into());
    };
    // the descriptor pins the process, so that a reused number can never be signalled
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return Outcome::AlreadyGone };
    if !process.is_alive(host) {
        return Outcome::AlreadyGone;
    }
    for signal in [Signal::TERM, Signal::KILL] {
        if let Err(error) = pidfd_send_signal(&pidfd, signal) {
            return match error {
                rustix::io::Errno::SRCH => Outcome::Undone,
                error => Outcome::Failed(format!("cannot be signalled: {error}")),
            };
        }
        if wait_until(END_PATIENCE, || !process.is_alive(host)) {
            return Outcome::Undone;
        }
    }
    Outcome::Failed("does not end, not even when killed; it hangs in the kernel".into())
}

/// Asks again and again, at growing intervals, until `done` or until the time is over.
pub(crate) fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if done() {
            return true;
        }
        if start.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
