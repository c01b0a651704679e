//! Keeping a daemon that serves a file system or device out of the way of its own work: one that has to wait for
//! memory which only a write to itself can free waits for ever.

use rustix::mm::{MlockAllFlags, mlockall};

use crate::Host;
use crate::mountinfo::MountEntry;

/// Moves this process to the root of the memory cgroups; a workload's limit must not hit it.
///
/// # Errors
/// What could not be done, for the daemon's notes.
pub fn leave_cgroup(host: &Host) -> Result<(), String> {
    let mounts = host.mounts().map_err(|error| error.to_string())?;
    let holds_memory = |m: &&MountEntry| {
        let v1 = m.fs_type == "cgroup" && m.options.split(',').any(|o| o == "memory");
        let controllers = || host.read(m.target.join("cgroup.controllers")).unwrap_or_default();
        v1 || m.fs_type == "cgroup2" && controllers().split(' ').any(|c| c == "memory")
    };
    let Some(root) = mounts.iter().find(holds_memory) else { return Ok(()) };
    let procs = root.target.join("cgroup.procs");
    host.write(&procs, &std::process::id().to_string())
        .map_err(|error| format!("the daemon stays in its memory cgroup: {procs}: {error}"))
}

/// Locks what is and will be touched.
///
/// # Errors
/// What could not be done, for the daemon's notes.
pub fn lock_memory() -> Result<(), String> {
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).map_err(|error| {
        format!("the daemon's memory is not locked ({error}): give it CAP_IPC_LOCK or raise RLIMIT_MEMLOCK")
    })
}
