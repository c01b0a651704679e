//! One write and fsync, taken apart: what Figure 11 of OPIMQ (FAST'25) shows.

use order::programs::write_sync;
use order::trace::Trace;
use order::{Layout, Op, Simulation, Sync, View};
use stats::Histogram;
use stats::outcome::{Direction, Ended, Metric, OpClass, OpOutcome, Outcome};

use crate::disk::DiskFull;
use crate::error::SimulateError;
use crate::job::Job;

/// The device is idle for so long before, ns.
const IDLE_NS: u64 = 1_000_000_000;
/// The device's time to leave its idle state, ns: fitted on the artifact's shipped logs, which show 0.15-0.64 ms.
const IDLE_WAKE_NS: u64 = 458_700;
/// Writes before the one that is measured, on a device that is not idle: the journal's map is then in memory.
const WARM_WRITES: u32 = 8;
/// Writes with fsync of the quick test (`fio size=16k bs=4k fsync=1` syncs three times).
const QUICK_TEST: u32 = 3;
/// Long enough for all of it, ns.
const END_NS: u64 = 60_000_000_000;

fn simulate(job: &Job, seed: u64, count: u32, cold: bool) -> Result<Simulation<'static>, SimulateError> {
    let mut setup =
        job.setup(Layout { journal: 1 << 18, groups: 1, inodes: 64, dirs: 10, data: 1024 }, seed)?;
    setup.profile.power.idle_states = cold;
    setup.profile.power.idle_wake_ns = IDLE_WAKE_NS;
    setup.traced = true;
    let mut sim = Simulation::new(setup)?;
    let full = || DiskFull("one file does not fit".into());
    let file = sim.dir(0).and_then(|dir| sim.file(dir, 64, None)).ok_or_else(full)?;
    let mut program = write_sync(file, count, Sync::Fsync);
    let mut slept = !cold;
    sim.spawn(
        "fio",
        move |view: View| {
            if std::mem::replace(&mut slept, true) { program(view) } else { Op::Sleep(IDLE_NS) }
        },
    );
    sim.run(END_NS);
    Ok(sim)
}

/// The commands of the artifact's quick test: three fsyncs of a new file.
///
/// # Errors
/// A stack or device that does not exist.
pub fn trace(job: &Job, seed: u64) -> Result<Trace, SimulateError> {
    Ok(simulate(job, seed, QUICK_TEST, false)?.trace())
}

/// The parts of one fsync, as metrics in ms.
///
/// # Errors
/// A stack or device that does not exist.
pub fn run(job: &Job, seed: u64) -> Result<Outcome, SimulateError> {
    let count = if job.cold { 1 } else { WARM_WRITES + 1 };
    let sim = simulate(job, seed, count, job.cold)?;
    let (from, to) = sim.report().tally.last.unwrap_or_default();
    let split = sim.trace().split(from, to);
    let mut service = Histogram::new();
    service.record(split.total);
    let ms = |ns: u64| ns as f64 / 1e6;
    let union = split.device.saturating_sub(split.flush + split.fua);
    let parts = [
        ("total_ms", split.total),
        ("dma_ms", union),
        ("dma_sum_ms", split.dma),
        ("flush_ms", split.flush),
        ("fua_ms", split.fua),
        ("flush_and_fua_ms", split.flush + split.fua),
        ("host_ms", split.host),
    ];
    let metric = |(name, ns): (&str, u64)| Metric::rate(name, "ms", ms(ns));
    let verdict = sim.audit();
    let ended = if verdict.is_clean() || job.stack == "ext4-nobarrier" {
        Ended::Done
    } else {
        Ended::Failed { message: format!("the simulated stack broke its promises: {verdict:?}") }
    };
    Ok(Outcome {
        measured_seconds: split.total as f64 / 1e9,
        warmup_seconds: 0.0,
        ended,
        ops: vec![OpOutcome {
            ops: 1,
            bytes: 4096,
            service,
            ..OpOutcome::new("fsync", "fsync", OpClass::Io, Direction::Write)
        }],
        metrics: parts.map(metric).to_vec(),
        notes: vec![format!("simulated in virtual time: one fsync on {}, device {}", job.stack, job.device)],
    })
}
