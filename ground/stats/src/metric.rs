//! Scalar results beside the operations: a name, a unit, a value, and what the value belongs to.

use serde::{Deserialize, Serialize};

/// What a metric belongs to: it decides what becomes of it where several parts (containers, ranks) are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricScope {
    /// The processes of the load (CPU seconds, context switches, operations of a kind): parts are added.
    #[default]
    Process,
    /// The machine, a device or a server that all parts share. Each part that reads it sees the whole, so it is sampled
    /// once, outside of the parts; the parts' own samples are never added.
    Machine,
    /// A rate, share, mean or quantile: of several parts it is neither their sum nor one of them.
    Rate,
    /// A length of time within the measured interval: of several parts the longest.
    Duration,
}

/// A scalar result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Name, e.g. `cpu_user_seconds`.
    pub name: String,
    /// Unit, e.g. `s`, `bytes`, `1`.
    pub unit: String,
    /// The value.
    pub value: f64,
    /// What it belongs to. Results stored before this was known have none, and are read as of the process.
    #[serde(default)]
    pub scope: MetricScope,
}

impl Metric {
    /// A figure of the load's own processes.
    pub fn process(name: impl Into<String>, unit: &str, value: f64) -> Metric {
        Metric::scoped(MetricScope::Process, name, unit, value)
    }

    /// A figure of the machine, or of a device or server that all parts of a load share.
    pub fn machine(name: impl Into<String>, unit: &str, value: f64) -> Metric {
        Metric::scoped(MetricScope::Machine, name, unit, value)
    }

    /// A rate, share, mean or quantile.
    pub fn rate(name: impl Into<String>, unit: &str, value: f64) -> Metric {
        Metric::scoped(MetricScope::Rate, name, unit, value)
    }

    /// Seconds within the measured interval.
    pub fn duration(name: impl Into<String>, seconds: f64) -> Metric {
        Metric::scoped(MetricScope::Duration, name, "s", seconds)
    }

    fn scoped(scope: MetricScope, name: impl Into<String>, unit: &str, value: f64) -> Metric {
        Metric { name: name.into(), unit: unit.into(), value, scope }
    }

    /// The same of a part of the load: `PART/NAME`.
    pub fn of_part(mut self, part: &str) -> Metric {
        self.name = format!("{part}/{}", self.name);
        self
    }
}

/// Names of metrics. Counters of the kernel and of devices are named where they are read, in crate `probe`.
pub mod names {
    /// Seconds between the two samples of the machine's counters.
    pub const COUNTED_SECONDS: &str = "counted_seconds";
    /// CPU seconds of the load's processes in user mode.
    pub const CPU_USER_SECONDS: &str = "cpu_user_seconds";
    /// CPU seconds of the load's processes in the kernel.
    pub const CPU_SYSTEM_SECONDS: &str = "cpu_system_seconds";
    /// Busy CPU seconds of the whole machine.
    pub const MACHINE_CPU_SECONDS: &str = "machine_cpu_seconds";
    /// CPU seconds that the hypervisor gave to others.
    pub const STOLEN_CPU_SECONDS: &str = "stolen_cpu_seconds";
    /// CPU seconds of processes that are not the load's.
    pub const OTHERS_CPU_SECONDS: &str = "others_cpu_seconds";
    /// Seconds in which some task waited for memory.
    pub const MEMORY_PRESSURE_SECONDS: &str = "memory_pressure_seconds";
    /// Speed of one processor: a chain of additions.
    pub const ADDITIONS_PER_SECOND: &str = "additions_per_second";
    /// Speed of the machine at a small fixed load.
    pub const YARDSTICK_PER_SECOND: &str = "yardstick_per_second";
    /// CPU seconds of a database server.
    pub const SERVER_CPU_SECONDS: &str = "server_cpu_seconds";
    /// Seconds in which the load's process, or its machine, stood still.
    pub const STOPPED_SECONDS: &str = "stopped_seconds";
    /// How late threads woke from their waits for due times, in nanoseconds: the quantile of each name.
    pub const DUE_TIME_LATENESS: [(&str, f64); 2] =
        [("due_time_lateness_p50", 0.5), ("due_time_lateness_p99", 0.99)];
    /// The most memory that the load's group has used.
    pub const MEMORY_PEAK_BYTES: &str = "memory_peak_bytes";
    /// How often that group met its limit.
    pub const MEMORY_LIMIT_HITS: &str = "memory_limit_hits";
    /// Number of containers that ran the load.
    pub const CONTAINERS: &str = "containers";
    /// From the first overlay to the last container that was ready.
    pub const CONTAINER_READY_SECONDS: &str = "container_ready_seconds";
    /// From the moment of the release to the first container that began.
    pub const CONTAINER_FIRST_START_SECONDS: &str = "container_first_start_seconds";
    /// From the first container that began to the last.
    pub const CONTAINER_START_SKEW_SECONDS: &str = "container_start_skew_seconds";
    /// Rate of the slowest container.
    pub const CONTAINER_SLOWEST_OPS_PER_SECOND: &str = "container_slowest_ops_per_second";
    /// Rate of the median container.
    pub const CONTAINER_MEDIAN_OPS_PER_SECOND: &str = "container_median_ops_per_second";
    /// Rate of the fastest container.
    pub const CONTAINER_FASTEST_OPS_PER_SECOND: &str = "container_fastest_ops_per_second";
    /// The most memory that any container has used.
    pub const CONTAINER_MEMORY_PEAK_BYTES: &str = "container_memory_peak_bytes";
    /// Number of ranks that ran the load.
    pub const RANKS: &str = "ranks";
    /// How late the latest rank began.
    pub const RANK_START_LATE_MAX_SECONDS: &str = "rank_start_late_max_seconds";
    /// How wrong a rank's clock can be known.
    pub const RANK_CLOCK_BOUND_MAX_SECONDS: &str = "rank_clock_bound_max_seconds";
    /// When the first rank was done.
    pub const RANK_FIRST_DONE_SECONDS: &str = "rank_first_done_seconds";
    /// When the last rank was done.
    pub const RANK_LAST_DONE_SECONDS: &str = "rank_last_done_seconds";
    /// Rate of the median rank.
    pub const RANK_MEDIAN_OPS_PER_SECOND: &str = "rank_median_ops_per_second";
    /// How unequal the ranks were.
    pub const RANK_IMBALANCE: &str = "rank_imbalance";
    /// Jain's index of the ranks' rates.
    pub const RANK_FAIRNESS: &str = "rank_fairness";
    /// Transactions that were tried again.
    pub const RETRIES: &str = "retries";
    /// Transactions that were rolled back.
    pub const ROLLED_BACK: &str = "rolled_back";
    /// Answers of a cluster that a key is elsewhere.
    pub const REDIRECTIONS: &str = "redirections";
    /// TPC-C's throughput.
    pub const NEW_ORDERS_PER_MINUTE: &str = "new_orders_per_minute";
    /// Files that were only appended to and cut back to their size.
    pub const APPEND_ONLY_FILES_CUT_BACK: &str = "append_only_files_cut_back";
}
