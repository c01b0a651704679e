//! The machine as a trial found it. What cannot be read is `None` or missing from its list, never an error.

use serde::{Deserialize, Serialize};

/// Everything about the machine and the target that may change a result.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Version of loadline.
    pub loadline: String,
    /// Kernel and distribution.
    pub kernel: Kernel,
    /// Processors and clock.
    pub cpu: Cpu,
    /// Memory and writeback.
    pub memory: Memory,
    /// The file system under the load.
    pub target: Option<Target>,
    /// The target's block device first, then what it lies on (a loop device's backing disk ...).
    pub devices: Vec<Device>,
    /// How busy the machine was. Differs in every trial.
    pub load: Load,
    /// Versions of the programs that built the stack.
    pub tools: Vec<Tool>,
    /// The guest that all this is of; `None`: the machine itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<Guest>,
}

/// A guest under an emulator.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Guest {
    /// What executed it: `kvm`, `tcg`.
    pub accelerator: Option<String>,
    /// Why it is not KVM.
    pub why: Option<String>,
    /// The kernel's package with version and checksum, or its path.
    pub kernel: Option<String>,
    /// Checksum of its first file system.
    pub image: Option<String>,
    /// QEMU's version.
    pub qemu: Option<String>,
    /// Its memory in MiB.
    pub memory_mib: Option<u64>,
    /// Its virtual processors.
    pub cores: Option<u32>,
    /// Of a deterministic one: what all chance came from. `None`: it ran by the machine's clock.
    pub seed: Option<u64>,
    /// Of a deterministic one: checksum of all that was measured.
    pub raw_data: Option<String>,
}

impl Guest {
    /// What a reader of its results must know.
    pub fn remark(&self) -> Option<String> {
        let accelerator = self.accelerator.as_deref()?;
        if self.seed.is_some() {
            return Some(
                "deterministic guest: each instruction takes one virtual ns on one CPU without caches, branches or \
                 memory bandwidth; compare with such guests only"
                    .into(),
            );
        }
        let why = self.why.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
        (accelerator == "tcg").then(|| {
            format!(
                "guest under TCG{why}: an emulated CPU, ten to thirty times slower; compare with guests under TCG only"
            )
        })
    }
}

/// Kernel and distribution.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Kernel {
    /// `uname -r`.
    pub release: Option<String>,
    /// `uname -v`.
    pub version: Option<String>,
    /// `uname -m`.
    pub machine: Option<String>,
    /// Words of the kernel's command line that change performance (mitigations, isolcpus, hugepages ...).
    pub command_line: Vec<String>,
    /// The boot's id (`/proc/sys/kernel/random/boot_id`).
    pub boot: Option<String>,
    /// When it was, in seconds since 1970 (`btime` of `/proc/stat`).
    pub booted: Option<i64>,
    /// `PRETTY_NAME` of os-release.
    pub distribution: Option<String>,
}

/// Processors and clock.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Model name of the first processor.
    pub model: Option<String>,
    /// Processors online.
    pub cores_online: Option<u32>,
    /// Processors that the load may run on (`taskset`, cpusets); those online when it is bound to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores_allowed: Option<u32>,
    /// Governor of the first processor, e.g. `performance`.
    pub governor: Option<String>,
    /// Frequency driver, e.g. `intel_pstate`.
    pub frequency_driver: Option<String>,
    /// Lowest frequency that the policy allows, in kHz.
    pub frequency_khz_min: Option<u64>,
    /// Highest frequency that the policy allows, in kHz.
    pub frequency_khz_max: Option<u64>,
    /// Turbo or boost allowed.
    pub boost: Option<bool>,
    /// Hyper-threading: `on`, `off`, `notsupported` ...
    pub smt: Option<String>,
    /// The hypervisor, when the machine looks like a guest.
    pub virtualisation: Option<String>,
    /// Kernel clock source, e.g. `tsc`.
    pub clocksource: Option<String>,
}

/// Memory and writeback.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Total memory in bytes.
    pub total_bytes: Option<u64>,
    /// Memory limit of the workload in bytes, when one was set.
    pub limit_bytes: Option<u64>,
    /// Total swap in bytes.
    pub swap_bytes: Option<u64>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// `vm.swappiness`.
    pub swappiness: Option<u64>,
    /// `vm.dirty_ratio` in percent.
    pub dirty_ratio_percent: Option<u64>,
    /// `vm.dirty_background_ratio` in percent.
    pub dirty_background_ratio_percent: Option<u64>,
    /// `vm.dirty_bytes`; 0: the ratio holds.
    pub dirty_bytes: Option<u64>,
    /// `vm.dirty_background_bytes`; 0: the ratio holds.
    pub dirty_background_bytes: Option<u64>,
    /// `vm.dirty_expire_centisecs`.
    pub dirty_expire_centiseconds: Option<u64>,
    /// `vm.dirty_writeback_centisecs`.
    pub dirty_writeback_centiseconds: Option<u64>,
    /// `vm.vfs_cache_pressure`.
    pub vfs_cache_pressure: Option<u64>,
}

/// The file system under the load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Target {
    /// Type as the kernel names it, e.g. `ext4`.
    pub fs_type: Option<String>,
    /// What is mounted, e.g. `/dev/loop3`.
    pub source: Option<String>,
    /// Mount options of the mount and of the file system, sorted, each once.
    pub mount_options: Vec<String>,
    /// The mkfs command line, when loadline made the file system.
    pub mkfs: Option<String>,
    /// Size of the file system in bytes.
    pub size_bytes: Option<u64>,
    /// Bytes free to an ordinary user before the load.
    pub free_bytes: Option<u64>,
}

/// A block device and its queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Kernel name, e.g. `loop3`, `nvme0n1`.
    pub name: String,
    /// Model, when the device tells one.
    pub model: Option<String>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Active I/O scheduler.
    pub scheduler: Option<String>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Forced unit access supported.
    pub fua: Option<bool>,
    /// Spinning.
    pub rotational: Option<bool>,
    /// `nr_requests`.
    pub queue_requests: Option<u64>,
    /// `max_sectors_kb`.
    pub max_request_kib: Option<u64>,
    /// `read_ahead_kb`.
    pub read_ahead_kib: Option<u64>,
    /// `logical_block_size`.
    pub logical_block_bytes: Option<u64>,
    /// `physical_block_size`.
    pub physical_block_bytes: Option<u64>,
    /// Largest discard in bytes; 0: none.
    pub discard_bytes_max: Option<u64>,
    /// Writeback throttling target in microseconds; 0: off.
    pub wbt_latency_us: Option<i64>,
    /// A loop device's backing file uses direct I/O.
    pub loop_direct_io: Option<bool>,
    /// Type of the file system that holds a loop device's backing file.
    pub backing_fs: Option<String>,
}

/// How busy the machine was.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// Load averages over 1, 5 and 15 minutes.
    pub average: Option<[f64; 3]>,
    /// Runnable threads at that moment, this one included.
    pub runnable: Option<u64>,
    /// Available memory in bytes.
    pub available_bytes: Option<u64>,
    /// Bytes a second that all processors copied in memory when the run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_bytes_per_second: Option<u64>,
    /// Share of the last 10 s in which some task waited for a processor, in percent (PSI; off in many
    /// kernels).
    pub cpu_pressure_percent: Option<f64>,
    /// The same for I/O.
    pub io_pressure_percent: Option<f64>,
    /// The same for memory.
    pub memory_pressure_percent: Option<f64>,
}

/// A program and what it says of its version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tool {
    /// The program, e.g. `mkfs.ext4`.
    pub name: String,
    /// First line of its version output.
    pub version: String,
}
