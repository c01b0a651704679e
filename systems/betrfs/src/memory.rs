//! Memory: how much of it the cache gets, and keeping the daemon out of the way of its own file system, since one that has to
//! wait for memory which only a write to its own files can free waits for ever.

use host::{Host, cgroup};

pub(crate) use host::daemon::{leave_cgroup, lock_memory as lock};

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

/// Bytes of a cache at least, and at most where nobody has said how much it may have.
const CACHE: [u64; 2] = [64 << 20, 1 << 30];
/// A mount's cache is this part of the free memory: what is read is in the kernel's page cache as well.
const PART_MOUNTED: u64 = 8;
/// In process it is this part of what the process may have.
const PART_IN_PROCESS: u64 = 2;

/// Bytes of a cache for most purposes: an eighth of the free memory, from 64 MiB to 1 GiB.
pub(crate) fn cache_bytes(host: &Host) -> usize {
    let [least, most] = CACHE;
    host.available_memory().map_or(256 << 20, |free| (free / PART_MOUNTED).clamp(least, most)) as usize
}

/// Bytes of a cache in a process of its own. Under a limit on memory no kernel keeps files beside it: half the limit. Of the other
/// half the store takes 256 MiB at most, and the rest is the program's. Without a limit the same as for a mount.
pub(crate) fn cache_bytes_in_process(host: &Host) -> usize {
    let within = |limit: u64| (limit / PART_IN_PROCESS).max(CACHE[0]) as usize;
    cgroup::memory_limit(host).map_or_else(|| cache_bytes(host), within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_on_the_process_sizes_the_cache_in_process_and_no_mounts_cache() {
        let dir = tempfile::tempdir().unwrap();
        let root = camino::Utf8PathBuf::try_from(dir.path().to_owned()).unwrap();
        let host = Host::rooted(root);
        std::fs::create_dir_all(host.path("/proc/self")).unwrap();
        std::fs::create_dir_all(host.path("/cg/a")).unwrap();
        let write = |file: &str, text: &str| host.write(file, text).unwrap();
        write("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 4194304 kB\n");
        write("/proc/self/mountinfo", "35 31 0:32 / /cg rw - cgroup2 none rw\n");
        write("/proc/self/cgroup", "0::/a\n");
        write("/cg/a/memory.max", "max\n");
        assert_eq!((cache_bytes(&host), cache_bytes_in_process(&host)), (512 << 20, 512 << 20));
        write("/cg/a/memory.max", "4294967296\n");
        assert_eq!((cache_bytes(&host), cache_bytes_in_process(&host)), (512 << 20, 2 << 30));
        write("/cg/a/memory.max", "10000000\n");
        assert_eq!(cache_bytes_in_process(&host), 64 << 20);
        write("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 16777216 kB\n");
        write("/cg/a/memory.max", "max\n");
        assert_eq!(cache_bytes_in_process(&host), 1 << 30);
    }
}
