//! The memory limit of a load's processes: made, and told of when they have ended.

use std::sync::Arc;

use journal::{Cgroup, CgroupError, CgroupStats, Journal, MemoryLimit};
use stats::metric::{Metric, names};

use crate::trial::supervisor::WorkersOutcome;

/// A group of that name whose processes may use so many bytes, page cache included.
pub(crate) fn group(name: &str, bytes: u64, journal: &Arc<Journal>) -> Result<Arc<Cgroup>, CgroupError> {
    Cgroup::create(name, MemoryLimit::bytes(bytes), journal).map(Arc::new)
}

/// Takes the figures of a memory group and removes it.
pub(crate) fn leave(group: &Cgroup, departure: &mut WorkersOutcome) {
    if let Ok(used) = group.stats() {
        if used.oom_kills > 0
            && let Err(message) = &mut departure.result
        {
            message.push_str("; the memory limit was met and the kernel killed it");
        }
        if let Ok(outcome) = &mut departure.result {
            outcome.metrics.extend(metrics(&used));
        }
    }
    if let Err(error) = group.destroy() {
        departure.raw_output.push_str(&format!("{error}\n"));
    }
}

fn metrics(used: &CgroupStats) -> Vec<Metric> {
    let metric = |name: &str, unit: &str, value: u64| Metric::process(name, unit, value as f64);
    let peak = used.peak_bytes.map(|peak| metric(names::MEMORY_PEAK_BYTES, "bytes", peak));
    let hits = used.limit_hits.map(|hits| metric(names::MEMORY_LIMIT_HITS, "1", hits));
    peak.into_iter().chain(hits).collect()
}
