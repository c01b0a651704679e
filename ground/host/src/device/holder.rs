//! Who keeps a device or file from others, for people: the process, and where it shows it as a file system.

use std::collections::HashMap;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};

use crate::mountinfo::{self, MountEntry};
use crate::{Host, text};

/// A process that has a device or file open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// It is the daemon of a file system in user space.
    pub serves: bool,
    /// Where that is mounted, in this mount namespace and in others.
    pub mounts: Vec<ServedMount>,
}

/// A mount that a [`Holder`] serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedMount {
    /// Where.
    pub target: Utf8PathBuf,
    /// Number and name of a process in its mount namespace, when that is not this process's.
    pub elsewhere: Option<(u32, String)>,
}

impl Holder {
    /// Who has `path` open, other than this process: the one that serves a file system before others. `None` when nobody can
    /// be seen: of other users' processes only root sees what they have open.
    pub fn find(host: &Host, path: &Path) -> Option<Holder> {
        let wanted = std::fs::metadata(path).ok()?;
        let has_it = |pid: &u32| *pid != std::process::id() && has_open(host, *pid, &wanted);
        let mut holders = processes(host).into_iter().filter(has_it).map(|pid| Holder::of(host, pid));
        let first = holders.next()?;
        if first.serves { Some(first) } else { Some(holders.find(|other| other.serves).unwrap_or(first)) }
    }

    fn of(host: &Host, pid: u32) -> Holder {
        let (serves, connection) = fuse_of(host, pid);
        let mounts = if serves { served_mounts(host, pid, connection) } else { Vec::new() };
        Holder { pid, name: name_of(host, pid), serves, mounts }
    }

    /// Whether it is about to let go: its file system is unmounted everywhere, and it writes what is left.
    pub fn is_ending(&self) -> bool {
        self.serves && self.mounts.is_empty()
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holder { pid, name, .. } = self;
        if self.is_ending() {
            return write!(f, "process {pid} ({name}) has not ended since it was unmounted");
        }
        let Some(mount) = self.mounts.iter().find(|m| m.elsewhere.is_none()).or(self.mounts.first()) else {
            return write!(f, "process {pid} ({name}) has it");
        };
        let target = &mount.target;
        write!(f, "process {pid} ({name}) serves it, mounted at {target}")?;
        match &mount.elsewhere {
            None => write!(f, " (umount {target})"),
            Some((other, other_name)) => write!(
                f,
                " in another mount namespace, such as a container's: that of process {other} ({other_name}). It goes when \
                 that ends, or by `nsenter -t {other} -m umount {target}`"
            ),
        }
    }
}

fn processes(host: &Host) -> Vec<u32> {
    host.names("/proc").iter().filter_map(|name| name.parse().ok()).collect()
}

fn name_of(host: &Host, pid: u32) -> String {
    host.read(format!("/proc/{pid}/comm")).map(|name| name.trim().to_owned()).unwrap_or_default()
}

/// Descriptors of a process, by number and what /proc calls their files.
fn descriptors(host: &Host, pid: u32) -> Vec<(String, Utf8PathBuf)> {
    let dir = Utf8PathBuf::from(format!("/proc/{pid}/fd"));
    let link = |name: String| Some((name.clone(), host.path(dir.join(&name)).read_link_utf8().ok()?));
    host.names(&dir).into_iter().filter_map(link).collect()
}

fn has_open(host: &Host, pid: u32, wanted: &Metadata) -> bool {
    let is_block = wanted.file_type().is_block_device();
    descriptors(host, pid).iter().any(|(number, file)| {
        // a file of a file system that does not answer is not asked: only what /proc says can be the one
        let may_be = match is_block {
            true => file.starts_with("/dev"),
            false => fdinfo(host, pid, number, "ino") == Some(wanted.ino()),
        };
        let open = || host.path(format!("/proc/{pid}/fd/{number}")).metadata().ok();
        may_be
            && open().is_some_and(|open| match is_block {
                true => open.file_type().is_block_device() && open.rdev() == wanted.rdev(),
                false => (open.dev(), open.ino()) == (wanted.dev(), wanted.ino()),
            })
    })
}

/// A number of /proc/PID/fdinfo.
fn fdinfo(host: &Host, pid: u32, descriptor: &str, key: &str) -> Option<u64> {
    let info = host.read(format!("/proc/{pid}/fdinfo/{descriptor}")).ok()?;
    text::value_of(&info, key, ':')?.parse().ok()
}

/// Numbers of the FUSE connections that a process serves, which Linux tells since 6.16.
pub fn fuse_connections(host: &Host, pid: u32) -> Vec<u64> {
    let open = descriptors(host, pid).into_iter().filter(|(_, file)| file == "/dev/fuse");
    open.filter_map(|(number, _)| fdinfo(host, pid, &number, "fuse_connection")).collect()
}

/// Whether a process serves through /dev/fuse, and the number of the connection, as far as it is told.
fn fuse_of(host: &Host, pid: u32) -> (bool, Option<u64>) {
    let serves = descriptors(host, pid).iter().any(|(_, file)| file == "/dev/fuse");
    (serves, fuse_connections(host, pid).first().copied())
}

/// Mounts of all namespaces that a daemon serves: known by the connection's number, which is their device's; on a kernel
/// that does not tell it by the directory that the daemon was started with.
fn served_mounts(host: &Host, daemon: u32, connection: Option<u64>) -> Vec<ServedMount> {
    let started_with = host.read(format!("/proc/{daemon}/cmdline")).unwrap_or_default();
    let is_served = |mount: &MountEntry| match connection {
        Some(number) => mount.device_number == format!("0:{number}"),
        None => started_with.split('\0').any(|word| Utf8Path::new(word) == mount.target),
    };
    let namespace = |pid: &str| host.path(format!("/proc/{pid}/ns/mnt")).read_link_utf8().ok();
    let own = namespace("self");
    // a namespace is named by its first process that is not the daemon
    let mut seen: HashMap<Utf8PathBuf, u32> = HashMap::new();
    for pid in processes(host) {
        if let Some(found) = namespace(&pid.to_string()) {
            let known = seen.entry(found).or_insert(pid);
            if *known == daemon {
                *known = pid;
            }
        }
    }
    let mut mounts: Vec<ServedMount> = Vec::new();
    for (namespace, pid) in seen {
        let Ok(table) = host.read(format!("/proc/{pid}/mountinfo")) else { continue };
        let elsewhere = (Some(&namespace) != own.as_ref()).then(|| (pid, name_of(host, pid)));
        let served =
            mountinfo::parse(&table).into_iter().filter(|m| m.fs_type.starts_with("fuse") && is_served(m));
        mounts.extend(served.map(|m| ServedMount { target: m.target, elsewhere: elsewhere.clone() }));
    }
    // the number of a connection that is unmounted is given to another one, which then has another daemon
    let has_number = |pid: &u32| *pid != daemon && fuse_of(host, *pid).1 == connection;
    if connection.is_some() && !mounts.is_empty() && processes(host).iter().any(has_number) {
        return Vec::new();
    }
    mounts.sort_by_key(|mount| mount.elsewhere.as_ref().map(|(pid, _)| *pid));
    mounts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_a_file_open_is_found_whatever_its_name_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("image"), dir.path().join("moved"));
        let file = std::fs::File::create(&path).unwrap();
        let host = Host::system();
        assert_eq!(Holder::find(&host, &path), None, "this process does not count");
        let mut child = std::process::Command::new("sleep").arg("600").stdin(file).spawn().unwrap();
        std::fs::rename(&path, &moved).unwrap();
        let found = crate::wait::wait_until(std::time::Duration::from_secs(10), || {
            Holder::find(&host, &moved).is_some_and(|holder| holder.name == "sleep")
        });
        let holder = Holder::find(&host, &moved);
        child.kill().unwrap();
        child.wait().unwrap();
        let holder = holder.unwrap();
        assert!(found && holder.pid == child.id() && !holder.serves && !holder.is_ending(), "{holder:?}");
        assert!(holder.to_string().contains(&format!("process {} (sleep) has it", child.id())), "{holder}");
    }

    #[test]
    fn a_copy_of_the_mount_in_another_namespace_is_named_with_its_remedy() {
        let elsewhere = ServedMount { target: "/mnt/x".into(), elsewhere: Some((77, "bash".into())) };
        let mut holder = Holder { pid: 7, name: "loadline".into(), serves: true, mounts: vec![elsewhere] };
        let said = holder.to_string();
        assert!(
            said.contains("process 77 (bash)") && said.contains("nsenter -t 77 -m umount /mnt/x"),
            "{said}"
        );
        holder.mounts.push(ServedMount { target: "/mnt/x".into(), elsewhere: None });
        assert!(holder.to_string().ends_with("mounted at /mnt/x (umount /mnt/x)"), "{holder}");
        holder.mounts.clear();
        assert!(holder.is_ending() && holder.to_string().contains("has not ended"), "{holder}");
    }
}
