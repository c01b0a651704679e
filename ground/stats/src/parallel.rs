//! What several processes measured at the same time with the same load, as one outcome.

use crate::metric::{Metric, MetricScope};
use crate::outcome::{Ended, OpOutcome, Outcome};

/// Adds what the parts measured. Histograms lose nothing; operations are matched by name and kind, in the order of the first
/// part that has them; series start together. The interval is the longest one: when all measured equally long, the rate is
/// the sum of theirs, and else it is never more. `None` without parts.
///
/// Of the metrics those of the processes are added, and of durations the longest is kept. Metrics of the machine are left out:
/// each part saw the whole machine, so whoever combines the parts adds what was sampled once, outside. Rates are left out as well.
pub fn combine(parts: impl IntoIterator<Item = Outcome>) -> Option<Outcome> {
    let combinable = |mut part: Outcome| {
        part.metrics.retain(|metric| matches!(metric.scope, MetricScope::Process | MetricScope::Duration));
        part
    };
    parts.into_iter().map(combinable).reduce(|mut all, one| {
        all.measured_seconds = all.measured_seconds.max(one.measured_seconds);
        all.warmup_seconds = all.warmup_seconds.max(one.warmup_seconds);
        if rank(&one.ended) > rank(&all.ended) {
            all.ended = one.ended;
        }
        for op in one.ops {
            match all.ops.iter_mut().find(|known| (&known.name, &known.kind) == (&op.name, &op.kind)) {
                Some(known) => add(known, op),
                None => all.ops.push(op),
            }
        }
        one.metrics.into_iter().for_each(|metric| combine_metric(&mut all.metrics, metric));
        for note in one.notes {
            if !all.notes.contains(&note) {
                all.notes.push(note);
            }
        }
        all
    })
}

fn combine_metric(all: &mut Vec<Metric>, one: Metric) {
    match all.iter_mut().find(|known| known.name == one.name) {
        Some(known) if one.scope == MetricScope::Duration => known.value = known.value.max(one.value),
        Some(known) => known.value += one.value,
        None => all.push(one),
    }
}

/// The end that counts for all: the worst.
fn rank(ended: &Ended) -> u8 {
    match ended {
        Ended::Done => 0,
        Ended::TimeUp => 1,
        Ended::OpsReached => 2,
        Ended::Interrupted => 3,
        Ended::Failed { .. } => 4,
    }
}

fn add(all: &mut OpOutcome, one: OpOutcome) {
    all.ops += one.ops;
    all.bytes += one.bytes;
    all.errors += one.errors;
    all.starved += one.starved;
    all.service.merge(&one.service);
    match (&mut all.intended, one.intended) {
        (Some(all), Some(one)) => all.merge(&one),
        (all @ None, one) => *all = one,
        (Some(_), None) => {}
    }
    match (&mut all.over_time, one.over_time) {
        (Some(all), Some(one)) => all.merge(&one),
        (all @ None, one) => *all = one,
        (Some(_), None) => {}
    }
    for (all, one) in
        [(&mut all.ops_per_second, one.ops_per_second), (&mut all.bytes_per_second, one.bytes_per_second)]
    {
        all.resize(all.len().max(one.len()), 0);
        all.iter_mut().zip(one).for_each(|(all, one)| *all = all.saturating_add(one));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use crate::outcome::{Direction, OpClass};

    fn part(seconds: f64, latencies_ns: &[u64], by_second: &[u64], ended: Ended) -> Outcome {
        let op = OpOutcome {
            name: "append".into(),
            kind: "appendfile".into(),
            class: OpClass::Io,
            direction: Direction::Write,
            ops: latencies_ns.len() as u64,
            bytes: 10,
            errors: 1,
            starved: 2,
            service: latencies_ns.iter().copied().collect(),
            intended: Some(Histogram::new()),
            ops_per_second: by_second.to_vec(),
            bytes_per_second: vec![],
            over_time: None,
        };
        Outcome {
            measured_seconds: seconds,
            warmup_seconds: 0.0,
            ended,
            ops: vec![op],
            metrics: vec![
                Metric::process("cpu_user_seconds", "s", 0.5),
                Metric::machine("machine_cpu_seconds", "s", 20.0),
                Metric::rate("additions_per_second", "1/s", 1e9),
                Metric::duration("append/seconds", seconds),
            ],
            notes: vec!["a".into()],
        }
    }

    #[test]
    fn nothing_is_lost() {
        let all: Vec<u64> = (1..=1000).map(|n| n * 977).collect();
        let parts = all.chunks(250).map(|chunk| part(10.0, chunk, &[1, 2], Ended::TimeUp));
        let sum = combine(parts).unwrap();
        let op = &sum.ops[0];
        let whole: Histogram = all.iter().copied().collect();
        assert!(op.service.iter().eq(whole.iter()), "every bucket");
        assert_eq!(
            (op.service.sum(), op.service.min(), op.service.max()),
            (whole.sum(), whole.min(), whole.max())
        );
        assert_eq!((op.ops, op.bytes, op.errors, op.starved), (1000, 40, 4, 8));
        assert_eq!(op.ops_per_second, [4, 8]);
        assert_eq!(sum.notes.len(), 1);
        assert_eq!(sum.io_ops_per_second(), 100.0);
    }

    #[test]
    fn what_each_part_saw_of_the_whole_machine_is_never_added() {
        let sum =
            combine([part(9.0, &[1], &[1], Ended::TimeUp), part(10.0, &[2], &[1], Ended::TimeUp)]).unwrap();
        let cpu = Metric::process("cpu_user_seconds", "s", 1.0);
        assert_eq!(sum.metrics, [cpu, Metric::duration("append/seconds", 10.0)]);
        let alone = combine([part(9.0, &[1], &[1], Ended::TimeUp)]).unwrap();
        assert!(
            alone.metrics.iter().all(|metric| metric.scope != MetricScope::Machine),
            "of one part neither"
        );
    }

    #[test]
    fn the_longest_interval_and_the_worst_end_count() {
        let failed = Ended::Failed { message: "EIO".into() };
        let sum = combine([
            part(9.0, &[1], &[1], Ended::TimeUp),
            part(10.0, &[2], &[1, 1, 1], failed.clone()),
            part(8.0, &[3], &[], Ended::Interrupted),
        ]);
        let sum = sum.unwrap();
        assert_eq!(
            (sum.measured_seconds, sum.ended, &*sum.ops[0].ops_per_second),
            (10.0, failed, &[2, 1, 1][..])
        );
        assert_eq!(combine([]), None);
    }
}
