//! Mounts: their generic options, taking them away, who uses them.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::mount::UnmountFlags;

use crate::Host;
use crate::place;
use crate::wait::wait_until;

/// Generic mount options (mount(8), "filesystem-independent"), which the file system's own parser does not
/// know.
const GENERIC: [&str; 26] = [
    "rw",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "diratime",
    "nodiratime",
    "dev",
    "nodev",
    "exec",
    "noexec",
    "suid",
    "nosuid",
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "nosymfollow",
    "symfollow",
    "owner",
    "group",
    "users",
    "nouser",
];

/// Whether a mount option is mount(8)'s own, so that the file system's parser does not know it.
pub fn is_generic_option(option: &str) -> bool {
    GENERIC.contains(&option)
}

/// Unmounts, trying again for `patience` while something uses the mount (then the error is EBUSY).
pub fn unmount(target: &Utf8Path, patience: Duration) -> io::Result<()> {
    let mut result = Ok(());
    let (_parent, target) = pinned(target)?;
    wait_until(patience, || {
        result = rustix::mount::unmount(target.as_str(), UnmountFlags::NOFOLLOW);
        result != Err(rustix::io::Errno::BUSY)
    });
    Ok(result?)
}

/// A path of the mount point `target` (absolute) that no link can lead astray as long as the descriptor is open. Its last part
/// is not followed: say so where it is used (`UMOUNT_NOFOLLOW`).
///
/// # Errors
/// A link leads to it, or its parent cannot be opened.
pub fn pinned(target: &Utf8Path) -> io::Result<(OwnedFd, Utf8PathBuf)> {
    let (parent, name) = place::parent(target)?;
    let path = format!("/proc/self/fd/{}/{name}", parent.as_raw_fd());
    Ok((parent, path.into()))
}

/// How long the daemon of an unmounted file system may write before it lets go of its device.
const RELEASE_PATIENCE: Duration = Duration::from_secs(120);

/// Waits until the daemon behind an unmounted file system in user space has let go of its block device: it writes
/// its last data after the mount is gone. False when it has not in two minutes. Others are released at once.
pub fn wait_released(fs_type: &str, source: &str) -> bool {
    if !fs_type.starts_with("fuse.") || !source.starts_with("/dev/") {
        return true;
    }
    let claim = || OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(source);
    wait_until(RELEASE_PATIENCE, || !claim().is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY)))
}

/// Takes the mount out of sight now; it ends when its last user lets go.
pub fn detach(target: &Utf8Path) -> io::Result<()> {
    let (_parent, target) = pinned(target)?;
    Ok(rustix::mount::unmount(target.as_str(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?)
}

/// A process that keeps a mount busy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// A path it holds.
    pub path: Utf8PathBuf,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({}) holds {}", self.pid, self.name, self.path)
    }
}

/// Processes with an open file, a working directory, a root or a program below `target`; at most eight.
pub fn users(host: &Host, target: &Utf8Path) -> Vec<User> {
    let pids = host.names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let path = held_path(host, pid, target)?;
        let name = host.read(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(User { pid, name, path })
    })
    .take(8)
    .collect()
}

fn held_path(host: &Host, pid: u32, target: &Utf8Path) -> Option<Utf8PathBuf> {
    let dir = format!("/proc/{pid}");
    let links = ["cwd", "root", "exe"].map(|link| format!("{dir}/{link}"));
    let fds = host.names(format!("{dir}/fd")).into_iter().map(|fd| format!("{dir}/fd/{fd}"));
    links
        .into_iter()
        .chain(fds)
        .filter_map(|link| host.path(link).read_link_utf8().ok())
        .find(|path| path.starts_with(target))
}

/// Those users in words.
pub fn users_text(users: &[User]) -> String {
    if users.is_empty() {
        return "no process is seen to use it (a mount below it, another mount namespace, or the kernel may)"
            .into();
    }
    users.iter().map(User::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_an_open_file_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(dir.path().canonicalize().unwrap()).unwrap();
        let _file = std::fs::File::create(path.join("held")).unwrap();
        let users = users(&Host::system(), &path);
        assert_eq!(users.len(), 1);
        assert_eq!(users[0].pid, std::process::id());
        assert_eq!(users[0].path, path.join("held"));
    }
}
