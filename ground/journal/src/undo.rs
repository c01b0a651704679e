//! Taking one resource away, after making sure that it is still the one that was recorded.

use std::os::fd::OwnedFd;
use std::time::Duration;

use camino::Utf8Path;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::file::Entry;
use crate::identity::{CreatedFile, FileId};
use crate::{Outcome, Resource, tree};
use host::wait::wait_until;
use host::{Host, ProcessId, cgroup, loopdev, mount, mountinfo, place, ublk};

/// How long a busy mount is tried again before it is detached lazily.
const UNMOUNT_PATIENCE: Duration = Duration::from_secs(1);
/// How long a process may take to end after SIGTERM, and again after SIGKILL.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Takes what `entry` names away. Idempotent: what is gone stays gone. `same_boot`: the machine was not started again
/// since it was made.
pub(crate) fn undo(host: &Host, entry: &Entry, same_boot: bool) -> Outcome {
    match &entry.resource {
        Resource::Tree { path, nonce } => tree::remove(host, path, nonce),
        Resource::Directory { path } => named(path, undo_directory),
        Resource::ImageFile { path } => {
            named(path, |parent, name| undo_image(parent, name, entry.made, same_boot))
        }
        Resource::LoopDevice { device, backing_file } => undo_loop(host, device, backing_file),
        Resource::UblkDevice { number, tag, .. } => undo_ublk(host, *number, *tag),
        Resource::Mount { target, source, fs_type } => undo_mount(host, target, source, fs_type),
        Resource::Cgroup { path } => undo_cgroup(host, path),
        Resource::Process { process, orphans, .. } => {
            let outcome = undo_process(host, *process);
            let killed = orphans.as_ref().map_or(0, |orphans| orphans.kill(host));
            if killed > 0 && matches!(outcome, Outcome::AlreadyGone) { Outcome::Undone } else { outcome }
        }
    }
}

/// Does something to a name within its directory, to which no link may lead.
fn named(path: &Utf8Path, remove: impl FnOnce(&OwnedFd, &str) -> Result<Outcome, Errno>) -> Outcome {
    match place::parent(path) {
        Ok((parent, name)) => match remove(&parent, name) {
            Ok(outcome) => outcome,
            Err(Errno::NOENT) => Outcome::AlreadyGone,
            Err(error) => Outcome::Failed(error.to_string()),
        },
        Err(error) if tree::is_absent(&error) => Outcome::AlreadyGone,
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// An open name, and what it is; nothing is done to it by opening.
fn look(parent: &OwnedFd, name: &str) -> Result<(OwnedFd, Stat), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&found)?;
    Ok((found, stat))
}

fn foreign_owner(stat: &Stat) -> Option<Outcome> {
    let ours = stat.st_uid == rustix::process::geteuid().as_raw();
    (!ours).then(|| Outcome::LeftAlone(format!("belongs to user {}", stat.st_uid)))
}

fn undo_directory(parent: &OwnedFd, name: &str) -> Result<Outcome, Errno> {
    let (_, stat) = look(parent, name)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Ok(Outcome::LeftAlone("is not a directory".into()));
    }
    if let Some(left) = foreign_owner(&stat) {
        return Ok(left);
    }
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Outcome::LeftAlone("is not empty".into())),
        removed => removed.map(|()| Outcome::Undone),
    }
}

fn undo_image(parent: &OwnedFd, name: &str, made: CreatedFile, same_boot: bool) -> Result<Outcome, Errno> {
    let (file, stat) = look(parent, name)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(Outcome::LeftAlone("is not a regular file".into()));
    }
    if let Some(left) = foreign_owner(&stat) {
        return Ok(left);
    }
    let left = match made {
        CreatedFile::File(made) => match FileId::of(&file) {
            Ok(found) => (!made.is(&found, same_boot)).then_some("is not the file that was made there"),
            Err(error) => return Ok(Outcome::Failed(error.to_string())),
        },
        // killed right after making it: then it is one large hole, from which nothing is lost
        CreatedFile::NotYet => holds_data(parent, name)?.then_some("holds data that the run did not write"),
        CreatedFile::Untold => None,
    };
    if let Some(why) = left {
        return Ok(Outcome::LeftAlone(why.into()));
    }
    rustix::fs::unlinkat(parent, name, AtFlags::empty()).map(|()| Outcome::Undone)
}

/// Whether a regular file is more than one large hole. Where the file system does not tell holes, any length is data.
fn holds_data(parent: &OwnedFd, name: &str) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    match rustix::fs::seek(&file, SeekFrom::Data(0)) {
        Err(Errno::NXIO) => Ok(false),
        Ok(_) => Ok(true),
        Err(_) => Ok(rustix::fs::fstat(&file)?.st_size > 0),
    }
}

/// The regular file at `path` now, if there is one.
pub(crate) fn file_at(path: &Utf8Path) -> Option<FileId> {
    let (parent, name) = place::parent(path).ok()?;
    let (file, stat) = look(&parent, name).ok()?;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    regular.then(|| FileId::of(&file).ok()).flatten()
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

fn undo_ublk(host: &Host, number: u32, tag: u64) -> Outcome {
    let control = match ublk::Control::open(host) {
        Ok(control) => control,
        // without the module there is no device
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Outcome::AlreadyGone,
        Err(error) => return Outcome::Failed(format!("{}: {error}", ublk::CONTROL)),
    };
    match control.tag(number) {
        Ok(None) => Outcome::AlreadyGone,
        Ok(Some(other)) if other != tag => Outcome::LeftAlone("is somebody else's now".into()),
        Ok(Some(_)) => match control.delete(number) {
            Ok(true) => Outcome::Undone,
            Ok(false) => Outcome::AlreadyGone,
            Err(error) => Outcome::Failed(error.to_string()),
        },
        Err(error) => Outcome::Failed(error.to_string()),
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
