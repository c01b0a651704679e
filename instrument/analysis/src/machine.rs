//! What a run says of its machine, and what of its result the machine explains.

use stats::machine::Conditions;
use stats::metric::names;
use stats::{Outcome, covariate};

use study::Study;
use study::environment::Environment;
use study::results::{MetricName, Run};

/// What a run says of its machine: hardware and kernel, which the first environment of its trials tells, and what happened
/// over the trials, as the median of those that measured it. Old runs have less of it.
pub fn conditions(run: &Run) -> Conditions {
    let Some(environment) = run.trials.iter().find_map(|trial| trial.environment.as_ref()) else {
        return Conditions::default();
    };
    let (cpu, memory) = (&environment.cpu, &environment.memory);
    let gib = memory.total_bytes.map(|bytes| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30)));
    let cores = cores(environment);
    let bound = bound(environment).zip(cpu.cores_online).map(|(own, all)| format!("{own} of {all} CPUs"));
    let processors = bound.or_else(|| cpu.cores_online.map(|cores| format!("{cores} CPUs")));
    let parts = [cpu.model.clone(), processors, gib];
    let hardware: Vec<String> = parts.into_iter().flatten().collect();
    let median = |of: &dyn Fn(&Outcome) -> Option<f64>| {
        let done = run.trials.iter().filter(|trial| trial.status.is_done());
        let values: Vec<f64> = done.filter_map(|trial| of(trial.outcome.as_ref()?)).collect();
        Some(stats::Sample::new(&values).ok()?.median())
    };
    let rate = |name: &str| median(&|outcome| rate(outcome, name));
    // what is stolen is of all cores
    let of_online = cores.zip(cpu.cores_online).map_or(1.0, |(own, all)| own / f64::from(all.max(1)));
    // under a limit of its own, a load waits for memory by itself
    let settings = Study::from_stored(&run.study).map(|study| study.study);
    let limited = settings.as_ref().is_ok_and(|settings| settings.memory.is_some());
    Conditions {
        cores,
        others: rate(names::OTHERS_CPU_SECONDS),
        steal: rate(names::STOLEN_CPU_SECONDS).map(|steal| steal * of_online),
        yardstick: median(&|outcome| {
            value(outcome, names::YARDSTICK_PER_SECOND).filter(|speed| *speed > 0.0)
        })
        .map(f64::ln),
        boot: environment.kernel.boot.clone(),
        additions: median(&|outcome| value(outcome, names::ADDITIONS_PER_SECOND)),
        memory_pressure: (!limited).then(|| rate(names::MEMORY_PRESSURE_SECONDS)).flatten(),
        kernel: environment.kernel.release.clone(),
        hardware: (!hardware.is_empty()).then(|| hardware.join(", ")),
        in_turns: settings.is_ok_and(|settings| settings.interleave.is_some()),
    }
}

/// Cores that the load may use. Of a load that is bound to some of them, what others took is told of all: it may be said to be
/// disturbed where others kept to the other cores.
fn cores(environment: &Environment) -> Option<f64> {
    bound(environment).or(environment.cpu.cores_online).map(f64::from)
}

/// The number of cores of a load that is bound to some of those online.
fn bound(environment: &Environment) -> Option<u32> {
    let own = environment.cpu.cores_allowed?;
    environment.cpu.cores_online.is_some_and(|all| own < all).then_some(own)
}

/// When the machine was started, in seconds since 1970.
pub fn booted(run: &Run) -> Option<i64> {
    run.trials.iter().find_map(|trial| trial.environment.as_ref())?.kernel.booted
}

/// A metric's values of the same cell in two runs as they would be with all of the CPU left to the load; `None` where a
/// trial did not measure what others took, nor for a load that is bound to some of the cores: nobody knows on which ones
/// others were. More of it must be better for the metric.
///
/// The slope is the share of the CPU left that the load's own process used, over both runs: one for both, so that a stack
/// that works more is not forgiven its own work. What works for the load in kernel threads or daemons is not in it; so
/// it is taken out too little rather than too much.
pub fn cpu_taken_out(a: (&Run, u32), b: (&Run, u32), metric: MetricName) -> Option<[Vec<f64>; 2]> {
    let sides = [trials(a, metric)?, trials(b, metric)?];
    let number = sides.iter().map(Vec::len).sum::<usize>() as f64;
    let mean = |of: fn(&Measured) -> f64| sides.iter().flatten().map(of).sum::<f64>() / number;
    let slope = covariate::cpu_slope(mean(|one| one.used), mean(|one| one.left.exp()));
    let freed = |side: &Vec<Measured>| {
        let of = |one: &Measured| covariate::adjusted(one.value.ln(), one.left, one.cores.ln(), slope).exp();
        side.iter().map(of).collect::<Vec<f64>>()
    };
    Some([freed(&sides[0]), freed(&sides[1])])
}

/// A trial's value, `ln` of the CPU left, the CPU that its process used, and the cores.
struct Measured {
    value: f64,
    left: f64,
    used: f64,
    cores: f64,
}

fn trials((run, cell): (&Run, u32), metric: MetricName) -> Option<Vec<Measured>> {
    let environment = run.trials.iter().find_map(|trial| trial.environment.as_ref())?;
    let cores = cores(environment).filter(|_| bound(environment).is_none())?;
    let done = run.trials_of(cell).filter(|trial| trial.status.is_done());
    let of = |outcome: &Outcome| {
        let others = rate(outcome, names::OTHERS_CPU_SECONDS)?;
        let steal = rate(outcome, names::STOLEN_CPU_SECONDS).unwrap_or(0.0);
        // in turns a trial counts all loads' seconds, and used the CPU in its own
        let used = value(outcome, names::CPU_USER_SECONDS)? + value(outcome, names::CPU_SYSTEM_SECONDS)?;
        let used = used / outcome.measured_seconds.max(f64::MIN_POSITIVE);
        let left = covariate::cpu_left(cores, others, steal)?;
        Some(Measured { value: metric.of(outcome)?, left, used, cores })
    };
    let values = done.map(|trial| of(trial.outcome.as_ref()?)).collect::<Option<Vec<Measured>>>()?;
    (!values.is_empty()).then_some(values)
}

fn value(outcome: &Outcome, name: &str) -> Option<f64> {
    outcome.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
}

/// What a counter of seconds grew by in each counted second.
fn rate(outcome: &Outcome, name: &str) -> Option<f64> {
    let seconds = value(outcome, names::COUNTED_SECONDS).filter(|seconds| *seconds > 0.0)?;
    Some(value(outcome, name)? / seconds)
}
