//! Keeping the daemon out of the way of its own file system: one that has to wait for memory which only a write to
//! its own files can free waits for ever.

use rustix::mm::{MlockAllFlags, mlockall};
use stack::Host;

/// `PR_SET_IO_FLUSHER` of linux/prctl.h (5.6).
const SET_IO_FLUSHER: i32 = 57;

/// Heaps of the allocator. Each keeps what was freed in it, and by default there are eight for each processor: with so
/// many threads that hand their data to others they grow to several times what is in use.
#[cfg(target_env = "gnu")]
const HEAPS_MAX: i32 = 2;

/// Limits the allocator's heaps; only before threads were started.
pub(crate) fn limit_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: this request takes numbers and touches no memory of ours.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX) };
}

/// Marks this process as one that I/O depends on: its allocations do not wait for I/O.
pub(crate) fn flush_io() {
    // SAFETY: this request takes numbers and touches no memory of ours.
    let _ = unsafe { libc::prctl(SET_IO_FLUSHER, 1usize, 0usize, 0usize, 0usize) };
}

/// Moves this process to the root of the memory cgroups; a workload's limit must not hit it.
pub(crate) fn leave_cgroup(host: &Host) -> Result<(), String> {
    let mounts = host.mounts().map_err(|error| error.to_string())?;
    let holds_memory = |m: &&stack::mountinfo::MountEntry| {
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
pub(crate) fn lock() -> Result<(), String> {
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).map_err(|error| {
        format!("the daemon's memory is not locked ({error}): give it CAP_IPC_LOCK or raise RLIMIT_MEMLOCK")
    })
}
