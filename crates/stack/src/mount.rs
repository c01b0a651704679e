//! Mounting with mount(8), unmounting with the system call, and saying why either did not work.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::mount::{FsOpenFlags, UnmountFlags};

use crate::journal::wait_until;
use crate::runner::CommandLine;
use crate::{Host, place};

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

/// The line by which `program` (loadline) mounts betrfs: its daemon stays in the background. Unless the options name a
/// transport it is the fastest that works: what is measured is betrfs at its best.
pub(crate) fn betrfs_command(
    program: &Utf8Path,
    options: &[String],
    source: &str,
    target: &Utf8Path,
) -> CommandLine {
    let mut args: Vec<String> = ["mount", "betrfs", source, target.as_str()].map(str::to_string).into();
    let mut options = options.to_vec();
    if !options.iter().any(|option| option.starts_with("transport=")) {
        options.push("transport=fastest".into());
    }
    args.extend(["-o".to_string(), options.join(",")]);
    CommandLine::new(program.as_str(), args)
}

/// The mount(8) line for `source` at `target`.
pub(crate) fn command(fs_type: &str, options: &[String], source: &str, target: &Utf8Path) -> CommandLine {
    let mut args = vec!["-t".to_string(), fs_type.to_string()];
    if !options.is_empty() {
        args.push("-o".into());
        args.push(options.iter().map(|option| protected(option)).collect::<Vec<_>>().join(","));
    }
    args.extend([source.to_string(), target.to_string()]);
    CommandLine::new("mount", args)
}

/// mount(8) splits at commas outside double quotes, so a value with a comma goes in quotes.
fn protected(option: &str) -> String {
    match option.split_once('=') {
        Some((key, value)) if value.contains(',') => format!("{key}=\"{value}\""),
        _ => option.to_string(),
    }
}

/// Asks the kernel's file-system context why a mount fails: fsopen(2) has a log where mount(2) has one error
/// number. Nothing gets mounted. `None` when the kernel has nothing to say.
pub(crate) fn explain(fs_type: &str, options: &[String], source: &str) -> Option<String> {
    let context = rustix::mount::fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    let set = |option: &str| match option.split_once('=') {
        Some((key, value)) => rustix::mount::fsconfig_set_string(&context, key, value),
        None => rustix::mount::fsconfig_set_flag(&context, option),
    };
    rustix::mount::fsconfig_set_string(&context, "source", source).ok()?;
    for option in options.iter().filter(|option| !is_generic_option(option)) {
        if let Err(error) = set(option) {
            let why = read_log(&context).unwrap_or_else(|| error.to_string());
            return Some(format!("option `{option}`: {why}"));
        }
    }
    match rustix::mount::fsconfig_create(&context) {
        Ok(()) => None,
        Err(_) => read_log(&context),
    }
}

/// The context's messages, one for each read, each after a letter for its level.
fn read_log(context: &impl std::os::fd::AsFd) -> Option<String> {
    let mut lines = Vec::new();
    let mut buffer = [0u8; 1024];
    while let Ok(len) = rustix::io::read(context, &mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..len]).trim().to_string();
        if len == 0 || lines.len() >= 16 {
            break;
        }
        lines.push(text.strip_prefix("e ").map(str::to_string).unwrap_or(text));
    }
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Unmounts, trying again for `patience` while something uses the mount (then the error is EBUSY).
pub(crate) fn unmount(target: &Utf8Path, patience: Duration) -> io::Result<()> {
    let mut result = Ok(());
    let (_parent, target) = pinned(target)?;
    wait_until(patience, || {
        result = rustix::mount::unmount(target.as_str(), UnmountFlags::NOFOLLOW);
        result != Err(rustix::io::Errno::BUSY)
    });
    Ok(result?)
}

/// A path of the mount point that no link can lead astray as long as the descriptor is open.
fn pinned(target: &Utf8Path) -> io::Result<(OwnedFd, Utf8PathBuf)> {
    let (parent, name) = place::parent(target)?;
    let path = format!("/proc/self/fd/{}/{name}", parent.as_raw_fd());
    Ok((parent, path.into()))
}

/// How long the daemon of an unmounted file system may write before it lets go of its device.
const RELEASE_PATIENCE: Duration = Duration::from_secs(120);

/// Waits until the daemon behind an unmounted file system in user space has let go of its block device: it writes
/// its last data after the mount is gone. False when it has not in two minutes. Others are released at once.
pub(crate) fn wait_released(fs_type: &str, source: &str) -> bool {
    if !fs_type.starts_with("fuse.") || !source.starts_with("/dev/") {
        return true;
    }
    let claim = || OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(source);
    wait_until(RELEASE_PATIENCE, || !claim().is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY)))
}

/// Takes the mount out of sight now; it ends when its last user lets go.
pub(crate) fn detach(target: &Utf8Path) -> io::Result<()> {
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
pub(crate) fn users(host: &Host, target: &Utf8Path) -> Vec<User> {
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

pub(crate) fn users_text(users: &[User]) -> String {
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
    fn options_keep_their_order_and_commas() {
        let options = ["data=journal".to_string(), "context=a,b".to_string(), "noatime".to_string()];
        let line = command("ext4", &options, "/dev/loop0", "/mnt/x".into());
        let expected = "mount -t ext4 -o 'data=journal,context=\"a,b\",noatime' /dev/loop0 /mnt/x";
        assert_eq!(line.to_string(), expected);
        assert_eq!(command("xfs", &[], "/dev/sdx", "/m".into()).to_string(), "mount -t xfs /dev/sdx /m");
    }

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
