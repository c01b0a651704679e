//! The machine around a load: the one place that samples it, outside of whatever executes the load.

use std::path::{Path, PathBuf};

use probe::Counters;
use probe::external_cpu::TrialProcesses;
use probe::root::Root;
use probe::yardstick::{self, Rounds};
use stats::metric::{Metric, names};

/// Counters of the emulated flash that tell what a load asked of it.
const FLASH: [&str; 9] = [
    "commands",
    "host_read_blocks",
    "host_write_blocks",
    "stalled_writes",
    "flushes",
    "host_programs",
    "gc_programs",
    "moved_blocks",
    "erases",
];

/// Hears of each sample that bounds a measurement: false before it is taken, true after. For tests.
pub type SampleHook = std::sync::Arc<dyn Fn(bool) + Send + Sync>;

/// What is sampled.
#[derive(Clone)]
pub(crate) struct MachineSampler {
    /// Whose CPU time is the load's; all others' counts as theirs.
    pub(crate) own: TrialProcesses,
    /// Kernel names of the target's block device, and of the disk below it.
    pub(crate) device: Option<String>,
    pub(crate) disk: Option<String>,
    /// Name of the emulated SSD among those of the home.
    pub(crate) ssd: Option<String>,
    pub(crate) home: PathBuf,
    /// The target's directory.
    pub(crate) root: PathBuf,
    pub(crate) sampled: Option<SampleHook>,
}

impl MachineSampler {
    /// The counters of the machine, of the target's devices and its file system now.
    pub(crate) fn sample(&self) -> Counters {
        let device = self.device.as_deref();
        let file_system = probe::fs_counters::file_system(&Root::default(), device, &self.root);
        Counters::sample_for(&self.own, device, self.disk.as_deref())
            .with(file_system)
            .with(self.flash().unwrap_or_default())
    }

    fn flash(&self) -> Option<Vec<(String, f64)>> {
        let home = camino::Utf8Path::from_path(Path::new(&self.home))?;
        let status = blockdev::stats(home, self.ssd.as_deref()?).ok()?;
        let one = |name: &&str| Some((format!("flash_{name}"), *status.counters.get(*name)? as f64));
        Some(FLASH.iter().filter_map(one).collect())
    }

    fn bound(&self) -> Counters {
        let tell = |is_over| self.sampled.iter().for_each(|sampled| sampled(is_over));
        tell(false);
        let counters = self.sample();
        tell(true);
        counters
    }
}

/// A measurement of the machine, from before a load to after it.
pub(crate) struct MachineMeasurement {
    machine: MachineSampler,
    additions_per_second: f64,
    rounds: Option<Rounds>,
    before: Option<Counters>,
}

impl MachineMeasurement {
    /// Measures how fast the machine is, before the load; with the yardstick, which takes 0.1 s, when the load is long.
    pub(crate) fn new(machine: MachineSampler, is_long: bool) -> MachineMeasurement {
        let rounds = is_long.then(yardstick::pieces);
        MachineMeasurement {
            machine,
            additions_per_second: probe::speed::additions_per_second(),
            rounds,
            before: None,
        }
    }

    /// The measured interval begins, if it has not yet.
    pub(crate) fn begin(&mut self) {
        self.before.get_or_insert_with(|| self.machine.bound());
    }

    /// It has ended: what the machine did in it, and how fast it was.
    pub(crate) fn end(&mut self) -> Vec<Metric> {
        let grown = |before: Counters| before.machine_until(&self.machine.bound());
        let mut metrics = self.before.take().map_or_else(Vec::new, grown);
        let additions = self.additions_per_second.max(probe::speed::additions_per_second());
        metrics.push(Metric::machine(names::ADDITIONS_PER_SECOND, "1/s", additions));
        let rounds = self.rounds.take().map(|before| before.and(yardstick::pieces()));
        let per_second = rounds.and_then(Rounds::per_second);
        metrics.extend(per_second.map(|value| Metric::machine(names::YARDSTICK_PER_SECOND, "1/s", value)));
        metrics
    }
}
