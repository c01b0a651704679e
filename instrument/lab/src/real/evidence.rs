//! What is kept of a trial beside what was measured: commands, environment, counters of devices and memory.

use blockdev::SsdStatus;
use probe::CaptureSubject;
use stack::MountedStack;
use stats::Metric;
use study::environment::Environment;
use study::results::Command;

use crate::runner::Job;

/// A loop device has no FUA: what the figure of that part stands for.
pub fn fua_note(status: &SsdStatus) -> Option<String> {
    let flushes = *status.counters.get("flushes")?;
    if status.has_fua() {
        let writes = status.counters.get("fua_writes").copied().unwrap_or(0);
        let queues = status.queues;
        let plural = if queues == 1 { "queue" } else { "queues" };
        return Some(format!(
            "the kernel sends FUA as it is ({writes} writes) to the emulated device, by {queues} hardware {plural}"
        ));
    }
    Some(match status.counters.get("fua_flushes").copied().unwrap_or(0) {
        0 if ["barrier", "streams"].contains(&status.regime.as_str()) => {
            "the emulated device keeps order: the first flush of a commit of ext4 is an epoch boundary, the second one a \
             flush"
                .to_string()
        }
        0 => "the kernel sends a flush instead of FUA, and the emulated device took it for one".to_string(),
        as_fua => format!(
            "the kernel sends a flush instead of FUA; {as_fua} of the emulated device's {flushes} flushes took the \
             time of a FUA write"
        ),
    })
}

/// What a reader must know of a device whose time is stretched.
pub(super) fn scale_note(factor: f64) -> Option<String> {
    let stretched = (factor - 1.0).abs() > f64::EPSILON;
    stretched.then(|| {
        format!(
            "the emulated device's time is stretched {factor} times: compare ratios between stacks, not rates; what the \
             processors do is not stretched"
        )
    })
}

/// Its counters as metrics.
pub(super) fn ssd_metrics(status: &SsdStatus) -> Vec<Metric> {
    let metric = |name: &str, value: f64| Metric::machine(name, "1", value);
    let amplification = status.write_amplification.map(|value| metric("ssd_write_amplification", value));
    let counters = status.counters.iter().map(|(name, value)| metric(&format!("ssd_{name}"), *value as f64));
    amplification.into_iter().chain(counters).collect()
}

pub(super) fn commands(built: &MountedStack) -> Vec<Command> {
    let purpose = |line: &str| {
        let program = line.split_whitespace().next().unwrap_or_default();
        let name = program.rsplit('/').next().unwrap_or(program);
        name.split('.').next().unwrap_or(name).to_string()
    };
    let ran = built.record().commands.iter().map(|command| &command.line);
    ran.map(|line| Command { purpose: purpose(line), line: line.clone() }).collect()
}

/// The machine, for a load that needs no place.
pub(super) fn without_place() -> Environment {
    probe::capture(&CaptureSubject {
        path: None,
        device: None,
        mkfs: None,
        memory_limit_bytes: None,
        programs: &[],
    })
}

pub(super) fn environment(job: &Job<'_>, built: &MountedStack) -> Environment {
    let mkfs = built.record().commands.iter().map(|command| &command.line).find(|line| line.contains("mkfs"));
    // The number of a loop device differs in every trial and would show as a difference of settings.
    let device = built.device_path().map_or(String::new(), |device| format!(" {device}"));
    let mkfs = mkfs.map(|line| line.strip_suffix(&device).unwrap_or(line));
    let mut environment = probe::capture(&CaptureSubject {
        path: Some(built.path().as_std_path()),
        device: built.device_path().map(camino::Utf8Path::as_std_path),
        mkfs,
        memory_limit_bytes: job.study.study.memory.map(|limit| limit.0),
        programs: &[],
    });
    let versions = built.record().tool_versions.iter();
    environment.tools = versions
        .map(|(name, version)| study::environment::Tool { name: name.clone(), version: version.clone() })
        .collect();
    environment
}
