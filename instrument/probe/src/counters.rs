//! Counters of the kernel before and after a load: what the load cost beside its own operations.

use serde::{Deserialize, Serialize};

use crate::others::{self, Own};
use crate::root::Root;

/// Events of /proc/vmstat that tell how hard the page cache worked.
const VM_EVENTS: [(&str, &str); 9] = [
    ("pgfault", "page_faults"),
    ("pgmajfault", "major_page_faults"),
    ("nr_dirtied", "pages_dirtied"),
    ("nr_written", "pages_written"),
    ("pgscan_direct", "pages_scanned_direct"),
    ("pgsteal_direct", "pages_reclaimed_direct"),
    ("pgsteal_kswapd", "pages_reclaimed_kswapd"),
    ("workingset_refault_file", "page_cache_refaults"),
    ("pswpout", "pages_swapped_out"),
];

/// Values of the counters at one moment. What cannot be read is `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Monotonic seconds at the sample.
    pub at_seconds: f64,
    /// This process and the children it has waited for.
    pub process: Option<ProcessCounters>,
    /// Busy CPU seconds of the whole machine (user, system, interrupts; not idle, waiting or stolen).
    pub machine_cpu_seconds: Option<f64>,
    /// CPU seconds that the hypervisor gave to others.
    pub stolen_cpu_seconds: Option<f64>,
    /// CPU seconds of other processes, see [`crate::others`].
    pub others_cpu_seconds: Option<f64>,
    /// Seconds in which some task waited for memory (/proc/pressure/memory, `some`).
    pub memory_pressure_seconds: Option<f64>,
    /// Of /proc/vmstat: (name of ours, value).
    pub vm: Vec<(String, u64)>,
    /// The target's device.
    pub device: Option<DeviceCounters>,
    /// The lowest device below it, when that is another one.
    pub disk: Option<DeviceCounters>,
    /// What others keep: see [`crate::beside`].
    pub beside: Vec<(String, f64)>,
}

/// Of getrusage(2).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessCounters {
    /// CPU seconds in user mode.
    pub user_seconds: f64,
    /// CPU seconds in the kernel.
    pub system_seconds: f64,
    /// Times it waited of itself.
    pub voluntary_switches: u64,
    /// Times the scheduler took the processor away.
    pub involuntary_switches: u64,
}

/// One line of /proc/diskstats (Documentation/admin-guide/iostats.rst).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceCounters {
    /// Completed reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Milliseconds with I/O in flight.
    pub busy_ms: u64,
    /// Completed discards; `None` before kernel 4.18.
    pub discards: Option<u64>,
    /// Completed flushes; `None` before kernel 5.5.
    pub flushes: Option<u64>,
}

/// A scalar with its unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Delta {
    /// Name, e.g. `device_flushes`.
    pub name: String,
    /// Unit: `s`, `bytes` or `1`.
    pub unit: &'static str,
    /// By how much the counter grew.
    pub value: f64,
}

impl Counters {
    /// Reads the counters now. `device` and `disk` are kernel names such as `loop3` and `vda`.
    pub fn sample(device: Option<&str>, disk: Option<&str>) -> Self {
        let mut counters = Self::sample_below(&Root::default(), device, disk);
        counters.others_cpu_seconds = others::cpu_seconds(&Root::default(), &Own::this());
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        counters.at_seconds = now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9;
        counters.process =
            usage(libc::RUSAGE_SELF).zip(usage(libc::RUSAGE_CHILDREN)).map(|(own, children)| {
                ProcessCounters {
                    user_seconds: own.user_seconds + children.user_seconds,
                    system_seconds: own.system_seconds + children.system_seconds,
                    voluntary_switches: own.voluntary_switches + children.voluntary_switches,
                    involuntary_switches: own.involuntary_switches + children.involuntary_switches,
                }
            });
        counters
    }

    /// Reads what the files below `root` tell: all but the clock, the process and the others.
    pub fn sample_below(root: &Root, device: Option<&str>, disk: Option<&str>) -> Self {
        let diskstats = root.text("/proc/diskstats").unwrap_or_default();
        let stat = root.text("/proc/stat").unwrap_or_default();
        let vmstat = root.text("/proc/vmstat").unwrap_or_default();
        let vm_value = |key: &str| {
            let line = vmstat.lines().find(|line| line.split(' ').next() == Some(key))?;
            line.split(' ').nth(1)?.parse().ok()
        };
        let (machine_cpu_seconds, stolen_cpu_seconds) = cpu_seconds(&stat).unzip();
        Counters {
            at_seconds: 0.0,
            process: None,
            machine_cpu_seconds,
            stolen_cpu_seconds,
            others_cpu_seconds: None,
            memory_pressure_seconds: root.text("/proc/pressure/memory").and_then(|text| stalled(&text)),
            vm: VM_EVENTS.iter().filter_map(|(key, name)| Some((name.to_string(), vm_value(key)?))).collect(),
            device: device.and_then(|name| disk_line(&diskstats, name)),
            disk: disk.filter(|disk| Some(*disk) != device).and_then(|name| disk_line(&diskstats, name)),
            beside: Vec::new(),
        }
    }

    /// The same with counters that others keep.
    pub fn with(mut self, beside: impl IntoIterator<Item = (String, f64)>) -> Self {
        self.beside.extend(beside);
        self
    }

    /// What grew from this sample to a later one; counters that one of the two lacks are left out.
    pub fn until(&self, later: &Counters) -> Vec<Delta> {
        let mut deltas = Vec::new();
        let mut push = |name: &str, unit, value: f64| {
            deltas.push(Delta { name: name.to_string(), unit, value: value.max(0.0) });
        };
        push("counted_seconds", "s", later.at_seconds - self.at_seconds);
        if let (Some(a), Some(b)) = (&self.process, &later.process) {
            push("cpu_user_seconds", "s", b.user_seconds - a.user_seconds);
            push("cpu_system_seconds", "s", b.system_seconds - a.system_seconds);
            push("voluntary_context_switches", "1", grown(a.voluntary_switches, b.voluntary_switches));
            push("involuntary_context_switches", "1", grown(a.involuntary_switches, b.involuntary_switches));
        }
        if let (Some(a), Some(b)) = (self.machine_cpu_seconds, later.machine_cpu_seconds) {
            push("machine_cpu_seconds", "s", b - a);
        }
        if let (Some(a), Some(b)) = (self.stolen_cpu_seconds, later.stolen_cpu_seconds) {
            push("stolen_cpu_seconds", "s", b - a);
        }
        if let (Some(a), Some(b)) = (self.others_cpu_seconds, later.others_cpu_seconds) {
            push("others_cpu_seconds", "s", b - a);
        }
        if let (Some(a), Some(b)) = (self.memory_pressure_seconds, later.memory_pressure_seconds) {
            push("memory_pressure_seconds", "s", b - a);
        }
        for (name, before) in &self.vm {
            if let Some((_, after)) = later.vm.iter().find(|(other, _)| other == name) {
                push(name, "1", grown(*before, *after));
            }
        }
        for (name, before) in &self.beside {
            if let Some((_, after)) = later.beside.iter().find(|(other, _)| other == name) {
                push(name, "1", after - before);
            }
        }
        for (prefix, before, after) in
            [("device", &self.device, &later.device), ("disk", &self.disk, &later.disk)]
        {
            if let (Some(a), Some(b)) = (before, after) {
                a.until(b, prefix, &mut push);
            }
        }
        deltas
    }
}

impl DeviceCounters {
    fn until(&self, later: &DeviceCounters, prefix: &str, push: &mut impl FnMut(&str, &'static str, f64)) {
        let mut push = |name: &str, unit, value| push(&format!("{prefix}_{name}"), unit, value);
        push("reads", "1", grown(self.reads, later.reads));
        push("read_bytes", "bytes", grown(self.read_bytes, later.read_bytes));
        push("writes", "1", grown(self.writes, later.writes));
        push("written_bytes", "bytes", grown(self.written_bytes, later.written_bytes));
        push("busy_seconds", "s", grown(self.busy_ms, later.busy_ms) / 1000.0);
        if let (Some(a), Some(b)) = (self.discards, later.discards) {
            push("discards", "1", grown(a, b));
        }
        if let (Some(a), Some(b)) = (self.flushes, later.flushes) {
            push("flushes", "1", grown(a, b));
        }
    }
}

/// Growth of a counter that may have been reset or have wrapped, which counts as none.
fn grown(before: u64, after: u64) -> f64 {
    after.saturating_sub(before) as f64
}

fn usage(who: libc::c_int) -> Option<ProcessCounters> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage writes one rusage to the pointer, which is valid for it.
    let result = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    if result != 0 {
        return None;
    }
    // SAFETY: all-zero bytes are a valid rusage, and getrusage succeeded.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    Some(ProcessCounters {
        user_seconds: seconds(usage.ru_utime),
        system_seconds: seconds(usage.ru_stime),
        voluntary_switches: u64::try_from(usage.ru_nvcsw).unwrap_or(0),
        involuntary_switches: u64::try_from(usage.ru_nivcsw).unwrap_or(0),
    })
}

/// Busy and stolen seconds of the first line of /proc/stat (proc_stat(5)).
fn cpu_seconds(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let second = rustix::param::clock_ticks_per_second().max(1) as f64;
    // user, nice, system, (idle, iowait,) irq, softirq, steal; guest time is within user.
    let busy: f64 = [0, 1, 2, 5, 6].iter().filter_map(|at| ticks.get(*at)).sum();
    (ticks.len() >= 7).then(|| (busy / second, ticks.get(7).copied().unwrap_or(0.0) / second))
}

/// Seconds of the `some` line of a pressure file, whose total is in microseconds (Documentation/accounting/psi.rst).
fn stalled(pressure: &str) -> Option<f64> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let total: f64 = line.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()?;
    Some(total * 1e-6)
}

fn disk_line(diskstats: &str, name: &str) -> Option<DeviceCounters> {
    let line = diskstats.lines().find(|line| line.split_whitespace().nth(2) == Some(name))?;
    let numbers: Vec<u64> = line.split_whitespace().skip(3).map_while(|word| word.parse().ok()).collect();
    Some(DeviceCounters {
        reads: *numbers.first()?,
        read_bytes: numbers.get(2)?.saturating_mul(512),
        writes: *numbers.get(4)?,
        written_bytes: numbers.get(6)?.saturating_mul(512),
        busy_ms: *numbers.get(9)?,
        discards: numbers.get(11).copied(),
        flushes: numbers.get(15).copied(),
    })
}
