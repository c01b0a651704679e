//! Keeping everybody else from a device or a file, which its path led to once: what is asked and done later goes by
//! descriptor, so that a name that somebody changes meanwhile leads nowhere else.
//!
//! The same bytes can have several names: a file, loop devices that show it or a part of it, their partitions, loop devices
//! on these. So whoever holds one of them looks at the others, after he has it himself: of two that do so at once one at
//! least sees the other.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, FlockOperation, flock, fstat};
use rustix::io::Errno;

use super::loops::Loops;
use super::subject::{Subject, locate, reopen_path};
use super::usage::uses_of;
use crate::Host;

/// What keeps others from a device or a file as long as it lives.
#[derive(Debug)]
pub struct Hold {
    file: File,
    /// What shows the same bytes and can be had beside it: the file below a loop device, which partitions share, and other
    /// devices of that file.
    _others: Vec<File>,
}

/// Somebody else has it: the thing itself, or another one that has the same bytes.
#[derive(Debug)]
pub struct InUse(pub PathBuf);

impl Hold {
    /// What is held, open for reading or for both, as it was asked for.
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// Keeps others away from `path`. A block device is claimed with O_EXCL (open(2)): mount, swapon, mkfs and other claims fail
/// meanwhile, ordinary opens do not. A file is locked (flock(2)), which binds those that lock it too, as all of loadline
/// does; so is the file below a loop device. What shows any of the same bytes must not be claimed either.
///
/// A device among these that nobody uses is claimed, too, so that nobody begins to: always when it shows only what `path`
/// does. One that shows more, such as a second loop device of the file in which `path` is a partition, is claimed unless a
/// partition or loop device exists that shows none of the bytes of `path` and whose claim has to ask for it. So partitions
/// of one disk can be claimed side by side; what shows both stays open to programs that know nothing of loadline.
///
/// # Errors
/// It cannot be opened, or is neither a block device, a file nor a directory.
pub fn hold(path: &Path) -> io::Result<Result<Hold, InUse>> {
    hold_located(&Host::system(), &locate(path)?)
}

/// As [`hold`], open for writing too. What is written through [`Hold::file`] and is under way when the process is killed keeps
/// others away until it has ended: the kernel closes the file only then.
///
/// # Errors
/// It cannot be opened.
pub fn hold_to_write(path: &Path) -> io::Result<Result<Hold, InUse>> {
    hold_located_to_write(&Host::system(), &locate(path)?)
}

/// As [`hold`], of what was located.
pub(super) fn hold_located(host: &Host, at: &OwnedFd) -> io::Result<Result<Hold, InUse>> {
    hold_as(host, at, OpenOptions::new().read(true))
}

/// As [`hold_to_write`], of what was located.
pub(super) fn hold_located_to_write(host: &Host, at: &OwnedFd) -> io::Result<Result<Hold, InUse>> {
    hold_as(host, at, OpenOptions::new().read(true).write(true))
}

fn hold_as(host: &Host, at: &OwnedFd, open: &OpenOptions) -> io::Result<Result<Hold, InUse>> {
    let path = reopen_path(at);
    let kind = FileType::from_raw_mode(fstat(at)?.st_mode);
    let is_block = kind == FileType::BlockDevice;
    // opening is enough to start some devices, such as a watchdog
    if !is_block && !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a block device nor a file"));
    }
    let Some(file) = claim(open, &path, is_block, FlockOperation::NonBlockingLockExclusive)? else {
        return Ok(Err(InUse(std::fs::read_link(&path).unwrap_or(path))));
    };
    let mut held = Vec::new();
    let loops = Loops::read(host, host.mounts().unwrap_or_default());
    // what has no name in /sys has no loop device either
    let Ok(subject) = Subject::of(host, at) else { return Ok(Ok(Hold { file, _others: held })) };
    let others = loops.sharing(host, &subject);
    for other in &others {
        match claim_other(other) {
            Ok(None) => return Ok(Err(InUse(other.path.clone().into()))),
            Ok(Some(file)) if other.name.is_none() => held.push(file),
            Ok(Some(_)) => {}
            // one that cannot be opened (gone, another user's, no node of it here) may be used all the same
            Err(_) if is_locked(host, other) || !uses_of(host, other).is_empty() => {
                return Ok(Err(InUse(other.path.clone().into())));
            }
            Err(_) => {}
        }
    }
    // after all were asked: who has a whole device is in the way of whoever asks for a partition of it
    for device in loops.to_hold(host, &subject, &others).into_iter().map(Subject::device) {
        match claim_other(&device) {
            Ok(None) => return Ok(Err(InUse(device.path.into()))),
            claimed => held.extend(claimed.ok().flatten()),
        }
    }
    Ok(Ok(Hold { file, _others: held }))
}

/// Claims what shows the same bytes, beside others that do so; `None` when somebody has it for himself.
fn claim_other(other: &Subject) -> io::Result<Option<File>> {
    let at = locate(other.path.as_std_path())?;
    let found = fstat(&at)?;
    if other.id.is_some_and(|id| id != (found.st_dev, found.st_ino)) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let (read, is_block) = (OpenOptions::new().read(true).clone(), other.name.is_some());
    claim(&read, &reopen_path(&at), is_block, FlockOperation::NonBlockingLockShared)
}

/// Whether somebody has a file for himself that is not found by its name. Its inode's number alone is looked for (proc(5),
/// /proc/locks): some file systems tell another device there than stat(2) does.
fn is_locked(host: &Host, file: &Subject) -> bool {
    let Some((_, inode)) = file.id else { return false };
    let locks = host.read("/proc/locks").unwrap_or_default();
    let alone = |line: &&str| line.contains(" FLOCK ") && line.contains(" WRITE ");
    locks.lines().filter(alone).any(|line| {
        let place = line.split_whitespace().find(|word| word.matches(':').count() == 2);
        place.and_then(|place| place.rsplit(':').next()?.parse().ok()) == Some(inode)
    })
}

/// Opens a block device exclusively, or a file with a lock; `None` when somebody else has it.
fn claim(open: &OpenOptions, path: &Path, is_block: bool, lock: FlockOperation) -> io::Result<Option<File>> {
    let mut open = open.clone();
    // without O_NONBLOCK the open of a fifo would wait for a writer
    open.custom_flags(libc::O_NONBLOCK | if is_block { libc::O_EXCL } else { 0 });
    let file = match open.open(path) {
        Err(error) if is_block && error.raw_os_error() == Some(libc::EBUSY) => return Ok(None),
        opened => opened?,
    };
    if is_block {
        // a lock besides would only meet those that look at new devices, such as udev
        return Ok(Some(file));
    }
    match flock(&file, lock) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It would be a file without loop devices.
    #[test]
    fn a_file_whose_name_is_not_utf8_is_known_by_what_it_is() {
        use std::os::unix::ffi::OsStrExt;

        let dir = tempfile::tempdir().unwrap();
        let name = std::ffi::OsStr::from_bytes(b"image\xff");
        let file = dir.path().join(name);
        std::fs::write(&file, "image").unwrap();
        let sys = dir.path().join("sys/class/block/loop999999");
        std::fs::create_dir_all(sys.join("loop")).unwrap();
        let shown = [file.as_os_str().as_bytes(), b"\n"].concat();
        std::fs::write(sys.join("loop/backing_file"), shown).unwrap();
        std::fs::write(sys.join("dev"), "7:999\n").unwrap();
        let host = Host::rooted(camino::Utf8Path::from_path(dir.path()).unwrap());
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        let mounts = b"2 0 0:99 / /tmp/\xff rw - fuse.x x rw\n1 0 7:999 / /a rw - ext4 /dev/loop999999 rw\n";
        std::fs::write(dir.path().join("proc/self/mountinfo"), mounts).unwrap();
        let held = hold_located(&host, &locate(&file).unwrap()).unwrap();
        assert!(held.is_err_and(|InUse(what)| what == Path::new("/dev/loop999999")));
    }

    #[test]
    fn character_devices_are_not_opened() {
        let refused = hold(Path::new("/dev/null")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_loop_device_without_a_node_that_is_mounted_keeps_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("image ");
        std::fs::write(&file, "image").unwrap();
        let sys = dir.path().join("sys/class/block/loop999999");
        std::fs::create_dir_all(sys.join("loop")).unwrap();
        std::fs::write(sys.join("loop/backing_file"), format!("{}\n", file.display())).unwrap();
        std::fs::write(sys.join("dev"), "7:999\n").unwrap();
        let host = Host::rooted(camino::Utf8Path::from_path(dir.path()).unwrap());
        let held = || hold_located(&host, &locate(&file).unwrap()).unwrap();
        assert!(held().is_ok(), "nobody uses it");
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        let mount = "1 0 7:999 / /a rw - ext4 /dev/loop999999 rw\n";
        std::fs::write(dir.path().join("proc/self/mountinfo"), mount).unwrap();
        assert!(held().is_err_and(|InUse(what)| what == Path::new("/dev/loop999999")));
    }
}
