//! Counters of the kernel before and after a load: what the load cost beside its own operations.

use serde::{Deserialize, Serialize};
use stats::metric::{Metric, MetricScope, names};

use crate::external_cpu::{self, Processes, TrialProcesses};
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
    /// CPU time of all processes, of which others' growth is told, see [`crate::external_cpu`].
    pub processes: Option<Processes>,
    /// Seconds in which some task waited for memory (/proc/pressure/memory, `some`).
    pub memory_pressure_seconds: Option<f64>,
    /// Of /proc/vmstat: (name of ours, value).
    pub vm: Vec<(String, u64)>,
    /// The target's device.
    pub device: Option<DeviceCounters>,
    /// The lowest device below it, when that is another one.
    pub disk: Option<DeviceCounters>,
    /// What others keep: see [`crate::fs_counters`].
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

impl Counters {
    /// Reads the counters now. `device` and `disk` are kernel names such as `loop3` and `vda`.
    pub fn sample(device: Option<&str>, disk: Option<&str>) -> Self {
        Self::sample_for(&TrialProcesses::of_this_process(), device, disk)
    }

    /// Reads the counters now; whoever is not among `own` counts as others.
    pub fn sample_for(own: &TrialProcesses, device: Option<&str>, disk: Option<&str>) -> Self {
        Counters {
            processes: external_cpu::sample(&Root::default(), own),
            process: Self::sample_process().process,
            at_seconds: monotonic_seconds(),
            ..Self::sample_below(&Root::default(), device, disk)
        }
    }

    /// Reads what this process alone has used: for a part of a load whose machine is sampled outside.
    pub fn sample_process() -> Self {
        let own_and_children = usage(libc::RUSAGE_SELF).zip(usage(libc::RUSAGE_CHILDREN));
        let process = own_and_children.map(|(own, children)| ProcessCounters {
            user_seconds: own.user_seconds + children.user_seconds,
            system_seconds: own.system_seconds + children.system_seconds,
            voluntary_switches: own.voluntary_switches + children.voluntary_switches,
            involuntary_switches: own.involuntary_switches + children.involuntary_switches,
        });
        Counters { at_seconds: monotonic_seconds(), process, ..Counters::default() }
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
            processes: None,
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
    pub fn growth_until(&self, later: &Counters) -> Vec<Metric> {
        let mut metrics = vec![machine(names::COUNTED_SECONDS, "s", later.at_seconds - self.at_seconds)];
        if let (Some(a), Some(b)) = (&self.process, &later.process) {
            metrics.extend(a.until(b));
        }
        let seconds: [(&str, SecondsOf); 3] = [
            (names::MACHINE_CPU_SECONDS, |at| at.machine_cpu_seconds),
            (names::STOLEN_CPU_SECONDS, |at| at.stolen_cpu_seconds),
            (names::MEMORY_PRESSURE_SECONDS, |at| at.memory_pressure_seconds),
        ];
        for (name, of) in seconds {
            metrics.extend(of(self).zip(of(later)).map(|(a, b)| machine(name, "s", b - a)));
        }
        let processes = self.processes.as_ref().zip(later.processes.as_ref());
        let others = processes.map(|(a, b)| machine(names::OTHERS_CPU_SECONDS, "s", a.others_until(b)));
        metrics.extend(others);
        for (name, before) in &self.vm {
            let after = later.vm.iter().find(|(other, _)| other == name);
            metrics.extend(after.map(|(_, after)| machine(name, "1", grown(*before, *after))));
        }
        for (name, before) in &self.beside {
            let after = later.beside.iter().find(|(other, _)| other == name);
            metrics.extend(after.map(|(_, after)| machine(name, "1", after - before)));
        }
        for (prefix, before, after) in
            [("device", &self.device, &later.device), ("disk", &self.disk, &later.disk)]
        {
            if let (Some(a), Some(b)) = (before, after) {
                metrics.extend(a.until(b, prefix));
            }
        }
        metrics
    }

    /// What grew of the machine and its devices alone: for whoever samples outside of the processes of the load.
    pub fn machine_until(&self, later: &Counters) -> Vec<Metric> {
        let mut metrics = self.growth_until(later);
        metrics.retain(|metric| metric.scope == MetricScope::Machine);
        metrics
    }
}

fn monotonic_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// A counter of seconds.
type SecondsOf = fn(&Counters) -> Option<f64>;

/// Growth of a counter of the machine; one that was reset has not grown.
fn machine(name: &str, unit: &str, growth: f64) -> Metric {
    Metric::machine(name, unit, growth.max(0.0))
}

impl ProcessCounters {
    fn until(&self, later: &ProcessCounters) -> [Metric; 4] {
        let process = |name: &str, unit: &str, growth: f64| Metric::process(name, unit, growth.max(0.0));
        let switches = |name: &str, a: u64, b: u64| process(name, "1", grown(a, b));
        [
            process(names::CPU_USER_SECONDS, "s", later.user_seconds - self.user_seconds),
            process(names::CPU_SYSTEM_SECONDS, "s", later.system_seconds - self.system_seconds),
            switches("voluntary_context_switches", self.voluntary_switches, later.voluntary_switches),
            switches("involuntary_context_switches", self.involuntary_switches, later.involuntary_switches),
        ]
    }
}

impl DeviceCounters {
    fn until(&self, later: &DeviceCounters, prefix: &str) -> Vec<Metric> {
        let metric = |name: &str, unit: &str, growth: f64| machine(&format!("{prefix}_{name}"), unit, growth);
        let mut metrics = vec![
            metric("reads", "1", grown(self.reads, later.reads)),
            metric("read_bytes", "bytes", grown(self.read_bytes, later.read_bytes)),
            metric("writes", "1", grown(self.writes, later.writes)),
            metric("written_bytes", "bytes", grown(self.written_bytes, later.written_bytes)),
            metric("busy_seconds", "s", grown(self.busy_ms, later.busy_ms) / 1000.0),
        ];
        let discards = self.discards.zip(later.discards).map(|(a, b)| metric("discards", "1", grown(a, b)));
        let flushes = self.flushes.zip(later.flushes).map(|(a, b)| metric("flushes", "1", grown(a, b)));
        metrics.extend(discards.into_iter().chain(flushes));
        metrics
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
