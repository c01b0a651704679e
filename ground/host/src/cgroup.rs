//! Memory control groups, v1 and v2: where they are, and taking one away.

use std::io;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::Access;
use rustix::process::{Pid, Signal, kill_process};

use crate::wait::wait_until;
use crate::{Host, Unavailable};

/// The beginning of every group's name; nothing else is ever removed.
pub const PREFIX: &str = "loadline-";
/// How long the processes of a group may take to die before its removal counts as failed.
const KILL_PATIENCE: Duration = Duration::from_secs(3);
/// `f_type` of v1 and v2 (statfs(2)).
const CGROUP_MAGICS: [u64; 2] = [0x0027_e0eb, 0x6367_7270];
/// Groups within groups deeper than this are not removed.
const MAX_DEPTH: u32 = 8;

/// Where memory groups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    /// The v1 memory controller, mounted here.
    V1(Utf8PathBuf),
    /// The unified hierarchy, mounted here, with the memory controller.
    V2(Utf8PathBuf),
}

impl Hierarchy {
    /// Finds the memory controller in /proc/self/mountinfo: v1 if it is mounted there, else v2.
    pub fn detect(host: &Host) -> Result<Self, Unavailable> {
        let mounts = host
            .mounts()
            .map_err(|error| Unavailable::new(format!("/proc/self/mountinfo: {error}"), "mount /proc"))?;
        let has_memory = |options: &str| options.split(',').any(|option| option == "memory");
        let v1 = mounts.iter().find(|m| m.fs_type == "cgroup" && has_memory(&m.options));
        let v2 = mounts.iter().find(|m| {
            let controllers = host.read(m.target.join("cgroup.controllers")).unwrap_or_default();
            m.fs_type == "cgroup2" && controllers.split_whitespace().any(|word| word == "memory")
        });
        let found = match (v1, v2) {
            (Some(mount), _) => Hierarchy::V1(mount.target.clone()),
            (None, Some(mount)) => Hierarchy::V2(mount.target.clone()),
            (None, None) => {
                return Err(Unavailable::new(
                    "no control group hierarchy with the memory controller is mounted",
                    "mount one (mount -t cgroup2 none /sys/fs/cgroup); boot without cgroup_disable=memory",
                ));
            }
        };
        rustix::fs::access(host.path(found.root()).as_str(), Access::WRITE_OK).map_err(|error| {
            let reason = format!("control groups may not be made in {} ({error})", found.root());
            Unavailable::new(reason, "run as root; in a container, mount the control groups writable")
        })?;
        Ok(found)
    }

    /// Where it is mounted.
    pub fn root(&self) -> &Utf8Path {
        match self {
            Hierarchy::V1(root) | Hierarchy::V2(root) => root,
        }
    }
}

/// On v2 a group's children have a controller only if the group passes it on.
pub fn enable_memory(host: &Host, hierarchy: &Hierarchy) -> Result<(), Unavailable> {
    let Hierarchy::V2(root) = hierarchy else { return Ok(()) };
    let control = root.join("cgroup.subtree_control");
    if host.read(&control).unwrap_or_default().split_whitespace().any(|word| word == "memory") {
        return Ok(());
    }
    host.write(&control, "+memory").map_err(|error| {
        let reason = format!("the memory controller cannot be enabled in {control} ({error})");
        let remedy =
            "run in a delegated group (systemd-run --scope -p Delegate=yes) or outside of the container";
        Unavailable::new(reason, remedy)
    })
}

/// Bytes of memory that this process's group may have, the groups above it included; None without a limit, or where that
/// cannot be told. On v1 no limit is a number larger than any memory: the machine's is none either.
pub fn memory_limit(host: &Host) -> Option<u64> {
    let mounts = host.mounts().ok()?;
    let groups = host.read("/proc/self/cgroup").ok()?;
    let has_memory = |list: &str| list.split(',').any(|word| word == "memory");
    let v1 = mounts.iter().find(|m| m.fs_type == "cgroup" && has_memory(&m.options));
    let (mount, file) = match v1 {
        Some(mount) => (mount, "memory.limit_in_bytes"),
        None => (mounts.iter().find(|m| m.fs_type == "cgroup2")?, "memory.max"),
    };
    // number:controllers:path; v2 has no controllers
    let path = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let wanted = if v1.is_some() { has_memory(controllers) } else { controllers.is_empty() };
        wanted.then_some(path)
    })?;
    // of a mount that shows a part of the hierarchy
    let root = mount.root.as_str().trim_end_matches('/');
    let below = path.strip_prefix(root).unwrap_or(path).trim_matches('/');
    let group = mount.target.join(below);
    let limits = group.ancestors().take_while(|dir| dir.starts_with(&mount.target));
    let least = limits.filter_map(|dir| host.read(dir.join(file)).ok()?.trim().parse::<u64>().ok()).min()?;
    (least < host.memory_bytes().unwrap_or(u64::MAX)).then_some(least)
}

/// Processes of a group.
pub fn pids(host: &Host, group: &Utf8Path) -> Vec<u32> {
    let text = host.read(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Ends the processes in the group (this one moves to the parent instead) and removes it with the groups
/// within it. False when it does not exist.
pub fn kill_and_remove(host: &Host, path: &Utf8Path) -> io::Result<bool> {
    if !host.exists(path) {
        return Ok(false);
    }
    let other = |message: String| io::Error::other(message);
    if !path.file_name().is_some_and(|name| name.starts_with(PREFIX)) {
        return Err(other(format!("not removed, since its name does not begin with {PREFIX}")));
    }
    // asked of the file system itself: below a plain directory, numbers in cgroup.procs would be anybody's
    let magic = rustix::fs::statfs(host.path(path).as_str())?.f_type as u64;
    if !CGROUP_MAGICS.contains(&magic) {
        return Err(other("not removed, since it does not lie in a control group file system".into()));
    }
    let parent = path.parent().unwrap_or(path).to_owned();
    remove_tree(host, path, &parent, 0)?;
    Ok(true)
}

fn remove_tree(host: &Host, group: &Utf8Path, parent: &Utf8Path, depth: u32) -> io::Result<()> {
    if depth >= MAX_DEPTH {
        return Err(io::Error::other(format!("groups are nested more than {MAX_DEPTH} deep")));
    }
    for name in host.names(group) {
        let child = group.join(&name);
        if host.path(&child).is_dir() {
            remove_tree(host, &child, parent, depth + 1)?;
        }
    }
    let mut result = Ok(());
    wait_until(KILL_PATIENCE, || {
        for pid in pids(host, group) {
            if pid == std::process::id() {
                // if it cannot move, rmdir says EBUSY
                let _ = host.write(parent.join("cgroup.procs"), &pid.to_string());
            } else if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // one that has ended meanwhile is what we want
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        result = std::fs::remove_dir(host.path(group));
        !matches!(&result, Err(error) if error.raw_os_error() == Some(libc::EBUSY))
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of 4,000 MiB with these mounts, groups of this process, and limits.
    fn host(dir: &tempfile::TempDir, mounts: &str, groups: &str, limits: &[(&str, &str)]) -> Host {
        let host = Host::rooted(Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap());
        std::fs::create_dir_all(host.path("/proc/self")).unwrap();
        host.write("/proc/meminfo", "MemTotal:       4096000 kB\n").unwrap();
        host.write("/proc/self/mountinfo", mounts).unwrap();
        host.write("/proc/self/cgroup", groups).unwrap();
        for (file, limit) in limits {
            let file = Utf8Path::new(file);
            std::fs::create_dir_all(host.path(file.parent().unwrap())).unwrap();
            host.write(file, limit).unwrap();
        }
        host
    }

    const V1: &str = "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n";
    const V2: &str = "35 31 0:32 / /cg rw - cgroup2 none rw\n";
    const NONE: &str = "9223372036854771712\n";

    #[test]
    fn the_least_limit_from_the_group_upwards_counts() {
        let dir = tempfile::tempdir().unwrap();
        let limits = [
            ("/cg/memory/memory.limit_in_bytes", NONE),
            ("/cg/memory/a/memory.limit_in_bytes", "1000000\n"),
            ("/cg/memory/a/b/memory.limit_in_bytes", "2000000\n"),
        ];
        let found = memory_limit(&host(&dir, V1, "9:cpu:/\n4:memory:/a/b\n0::/\n", &limits));
        assert_eq!(found, Some(1_000_000));
        assert_eq!(memory_limit(&host(&dir, V1, "4:memory:/\n", &limits)), None);

        let dir = tempfile::tempdir().unwrap();
        let limits = [("/cg/a/memory.max", "max\n"), ("/cg/a/b/memory.max", "3000000\n")];
        assert_eq!(memory_limit(&host(&dir, V2, "0::/a/b\n", &limits)), Some(3_000_000));
        assert_eq!(memory_limit(&host(&dir, V2, "0::/a\n", &limits)), None);
    }

    #[test]
    fn a_part_of_the_hierarchy_may_be_all_that_is_seen_and_too_much_is_no_limit() {
        let dir = tempfile::tempdir().unwrap();
        let mounts = "35 31 0:32 /box /cg/memory rw - cgroup cgroup rw,memory\n";
        let limits = [
            ("/cg/memory/memory.limit_in_bytes", "5000000000\n"),
            ("/cg/memory/a/memory.limit_in_bytes", "7000\n"),
        ];
        assert_eq!(memory_limit(&host(&dir, mounts, "4:memory:/box/a\n", &limits)), Some(7000));
        assert_eq!(memory_limit(&host(&dir, mounts, "4:memory:/box\n", &limits)), None, "more than there is");
        assert_eq!(memory_limit(&host(&dir, "", "0::/\n", &[])), None);
    }
}
