//! Control groups of all containers of a crowd, in the journal: one in every hierarchy, since runc makes groups in all of them.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use host::Host;
use host::cgroup::{Hierarchy, PREFIX, enable_memory};
use journal::{Resource, Scope};

use crate::error::{ContainerError, failed};
use crate::runtime::Runtime;

/// The child group that runc starts in: on v2 a group with limited children may hold no processes itself.
const STARTER: &str = "starter";

/// The groups.
#[derive(Debug)]
pub(crate) struct Groups {
    host: Host,
    hierarchy: Hierarchy,
    /// The parent of all in the hierarchy with the memory controller.
    path: Utf8PathBuf,
}

impl Groups {
    /// Makes `loadline-NAME` in every hierarchy that the runtime uses, that with memory last: it is the first to be undone,
    /// with every process in it.
    pub(crate) fn make(scope: &mut Scope, name: &str, runtime: &Runtime) -> Result<Groups, ContainerError> {
        let host = scope.journal().host().clone();
        let hierarchy = Hierarchy::detect(&host)?;
        enable_memory(&host, &hierarchy)?;
        let mut roots: Vec<Utf8PathBuf> = Vec::new();
        if let Runtime::Runc { .. } = runtime {
            let mounts = host.mounts().map_err(failed("reading", Utf8Path::new("/proc/self/mountinfo")))?;
            for mount in mounts.into_iter().filter(|mount| matches!(&*mount.fs_type, "cgroup" | "cgroup2")) {
                if mount.target != hierarchy.root() && !roots.contains(&mount.target) {
                    roots.push(mount.target);
                }
            }
        }
        roots.push(hierarchy.root().to_owned());
        let mut path = Utf8PathBuf::new();
        for root in roots {
            path = root.join(format!("{PREFIX}{name}"));
            let made = scope.journal().create_exclusive(Resource::Cgroup { path: path.clone() }, || {
                std::fs::create_dir(&path).map_err(failed("making the control group", &path))
            });
            let (entry, ()) = made?;
            scope.adopt(entry);
        }
        let groups = Groups { host, hierarchy, path };
        groups.child(STARTER)?;
        if let Hierarchy::V2(_) = groups.hierarchy {
            let control = groups.path.join("cgroup.subtree_control");
            groups.host.write(&control, "+memory").map_err(failed("writing", &control))?;
        }
        Ok(groups)
    }

    /// The path of a container's group within its hierarchy, as OCI has it.
    pub(crate) fn oci_path(&self, name: &str) -> Utf8PathBuf {
        Utf8Path::new("/").join(self.path.file_name().unwrap_or_default()).join(name)
    }

    /// The directory of a container's memory group.
    pub(crate) fn of(&self, name: &str) -> Utf8PathBuf {
        self.path.join(name)
    }

    fn child(&self, name: &str) -> Result<Utf8PathBuf, ContainerError> {
        let path = self.path.join(name);
        std::fs::create_dir(&path).map_err(failed("making the control group", &path))?;
        Ok(path)
    }

    /// Makes a container's memory group with its limit, where no runtime does.
    pub(crate) fn limited(&self, name: &str, memory_bytes: u64) -> Result<(), ContainerError> {
        let path = self.child(name)?;
        let bytes = memory_bytes.to_string();
        let (limit, swap, swap_bytes) = match self.hierarchy {
            Hierarchy::V1(_) => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", &*bytes),
            Hierarchy::V2(_) => ("memory.max", "memory.swap.max", "0"),
        };
        let limit = path.join(limit);
        self.host.write(&limit, &bytes).map_err(failed("writing", &limit))?;
        let swap = path.join(swap);
        // absent when the kernel does not account swap
        if self.host.exists(&swap) {
            self.host.write(&swap, swap_bytes).map_err(failed("writing", &swap))?;
        }
        Ok(())
    }

    /// Has a command start in a group from its first moment: that of a container, or that for starting.
    pub(crate) fn start_in(&self, name: Option<&str>, command: &mut Command) -> Result<(), ContainerError> {
        let path = self.path.join(name.unwrap_or(STARTER)).join("cgroup.procs");
        let procs = File::options().write(true).open(&path).map_err(failed("opening", &path))?;
        let enter = move || rustix::io::write(&procs, b"0").map(drop).map_err(io::Error::from);
        // SAFETY: between fork and exec only write(2) is called, and nothing is allocated.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }

    /// The most memory that a container has used, in bytes, and how many of its processes were killed for want of it.
    pub(crate) fn used(&self, name: &str) -> (Option<u64>, u64) {
        let group = self.of(name);
        let read = |file: &str| self.host.read(group.join(file)).unwrap_or_default();
        let (peak, events) = match self.hierarchy {
            Hierarchy::V1(_) => ("memory.max_usage_in_bytes", "memory.oom_control"),
            Hierarchy::V2(_) => ("memory.peak", "memory.events"),
        };
        let kills = read(events).lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
        (read(peak).trim().parse().ok(), kills.unwrap_or(0))
    }
}
