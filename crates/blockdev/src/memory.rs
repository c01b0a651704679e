//! Keeping the daemon out of the way of its own device: a daemon that has to wait for memory which only a write
//! to its own device can free waits for ever. And keeping others out of its way.

use camino::Utf8PathBuf;
use rustix::mm::{MlockAllFlags, mlockall};
use stack::Host;

/// Moves this process to the root of the memory cgroups; a workload's limit must not hit it.
pub(crate) fn leave_cgroup(host: &Host) -> Result<(), String> {
    let mounts = host.mounts().map_err(|error| error.to_string())?;
    let holds_memory = |m: &&stack::mountinfo::MountEntry| {
        let v1 = m.fs_type == "cgroup" && m.options.split(',').any(|o| o == "memory");
        let controllers = || host.read(m.target.join("cgroup.controllers")).unwrap_or_default();
        v1 || m.fs_type == "cgroup2" && controllers().split(' ').any(|c| c == "memory")
    };
    let Some(root) = mounts.iter().find(holds_memory) else { return Ok(()) };
    let procs: Utf8PathBuf = root.target.join("cgroup.procs");
    host.write(&procs, &std::process::id().to_string())
        .map_err(|error| format!("the daemon stays in its memory cgroup: {procs}: {error}"))
}

/// Locks what is and will be touched.
pub(crate) fn lock() -> Result<(), String> {
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).map_err(|error| {
        format!("the daemon's memory is not locked ({error}): give it CAP_IPC_LOCK or raise RLIMIT_MEMLOCK")
    })
}

/// Lets this thread and those it starts run before ordinary ones, so that answers are not late on a busy
/// machine, or again like any other.
pub(crate) fn urgent(on: bool) -> Result<(), String> {
    let (policy, sched_priority) = if on { (libc::SCHED_RR, 1) } else { (libc::SCHED_OTHER, 0) };
    let how = libc::sched_param { sched_priority };
    // SAFETY: thread 0 is this one, and `how` is a valid structure that the kernel only reads.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const how) } == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(format!("answers may be late on a busy machine: real-time priority: {error} (needs CAP_SYS_NICE)"))
}

/// Lets sleeps of this thread (and those it starts) end on time instead of up to 50 us late.
pub(crate) fn precise_sleep() {
    // SAFETY: PR_SET_TIMERSLACK takes one number and touches no memory of ours.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0usize, 0usize, 0usize) };
}
