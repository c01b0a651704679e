//! Two systems in turns (`loadline ab`): a line after each block, and the answer.

use analysis::turns::InterimComparison;
use stats::Verdict;
use study::results::MetricName;

use crate::format;
use crate::view::verdict::{doubt, word};

/// A line while it runs: `block 13 of 110: B/A 1.021 (1.004 .. 1.038), next look after 17`.
pub fn line(so_far: &InterimComparison) -> String {
    let next = so_far.next_look.map(|n| format!(", next look after {n}")).unwrap_or_default();
    let interval = interval(so_far).unwrap_or_else(|| "no look yet".into());
    let InterimComparison { blocks, blocks_max, .. } = so_far;
    let unit = if so_far.kept_blocks.is_some() { "build" } else { "block" };
    format!("{unit} {blocks} of at most {blocks_max}: B/A {} ({interval}){next}", ratio_of(so_far.ratio))
}

/// The answer in sentences: verdict, ratio with its interval, what it rests on, what would have been seen.
pub fn answer(so_far: &InterimComparison) -> String {
    let [a, b] = &so_far.names;
    let names = if a == b { format!("A and B are both {a}.") } else { format!("A is {a}, B is {b}.") };
    let means: Vec<String> = so_far.means.iter().map(|mean| figure(so_far.metric, *mean)).collect();
    let units = match so_far.kept_blocks {
        None => format!("{} of four trials", format::plural(so_far.blocks, "block")),
        Some(kept) => {
            let kept = format::plural(kept, "block");
            format!("{} of {kept} of four slices", format::plural(so_far.blocks, "build"))
        }
    };
    let rests = format!(
        "Mean {}: A {}, B {}; {units}, {}.",
        metric_word(so_far.metric),
        means[0],
        means[1],
        format::span_seconds(so_far.seconds)
    );
    let interval = interval(so_far).map_or_else(String::new, |interval| format!(" ({interval})"));
    let ratio = format!("B/A {}{interval}", ratio_of(so_far.ratio));
    let target = format::digits(so_far.target * 100.0);
    let verdict = match &so_far.verdict {
        None => format!("Not decided yet: {ratio}."),
        Some(Verdict::Better) => format!("B is better: {ratio}."),
        Some(Verdict::Worse) => format!("B is worse: {ratio}."),
        Some(Verdict::Same) => format!("The same within {target} %: {ratio}."),
        Some(verdict @ Verdict::CannotTell { .. }) => {
            let why = doubt(verdict);
            let why = if so_far.kept_blocks.is_some() { why.replace("block", "build") } else { why };
            format!("Cannot tell: {ratio}; {why}.")
        }
    };
    let seen = so_far
        .would_have_seen
        .filter(|_| matches!(so_far.verdict, Some(Verdict::CannotTell { .. } | Verdict::Same)))
        .map(|least| {
            format!(
                " A difference of {} % would have been seen four times of five.",
                format::digits(least * 100.0)
            )
        })
        .unwrap_or_default();
    let builds = so_far.builds.map(|builds| {
        let percent = |part: f64| format::digits(part * 100.0);
        format!(
            " Built anew, the same two differ by {} % from build to build (sd); slices alone would scatter by {} %.",
            percent(builds.sd),
            percent(builds.of_blocks)
        )
    });
    let ages = so_far.drift.map(|drift| {
        format!(
            " The ratio changes as the stacks age: {} at first, {} at last (p {}); it is no single number.",
            ratio_of(drift.first),
            ratio_of(drift.last),
            format::p_value(drift.p)
        )
    });
    format!("{names} {verdict} {rests}{seen}{}{}", builds.unwrap_or_default(), ages.unwrap_or_default())
}

/// The verdict in a word or two.
pub fn verdict(so_far: &InterimComparison) -> &'static str {
    so_far.verdict.as_ref().map_or("not decided", word)
}

fn interval(so_far: &InterimComparison) -> Option<String> {
    let interval = so_far.interval?;
    Some(format!("{} .. {}", ratio_of(interval.low), ratio_of(interval.high)))
}

/// One per mille counts here.
fn ratio_of(value: f64) -> String {
    if value.is_finite() && value < 9.9995 { format!("{value:.3}") } else { format::ratio(value) }
}

fn metric_word(metric: MetricName) -> &'static str {
    match metric {
        MetricName::Throughput => "throughput",
        MetricName::Bandwidth => "bandwidth",
        MetricName::LatencyP50 => "median latency",
        MetricName::LatencyP99 => "99th percentile",
        MetricName::LatencyP999 => "99.9th percentile",
        MetricName::LatencyMean => "mean latency",
        MetricName::Seconds => "time",
    }
}

fn figure(metric: MetricName, value: f64) -> String {
    match metric {
        MetricName::Throughput => format!("{} ops/s", format::scaled(value)),
        MetricName::Bandwidth => format!("{} MiB/s", format::mebibytes(value)),
        MetricName::Seconds => format::duration_ns(value * 1e9),
        MetricName::LatencyP50
        | MetricName::LatencyP99
        | MetricName::LatencyP999
        | MetricName::LatencyMean => format::duration_ns(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_its_unit() {
        assert_eq!(figure(MetricName::Bandwidth, 512.0 * f64::from(1 << 20)), "512 MiB/s");
        assert_eq!(figure(MetricName::Throughput, 512.0), "512 ops/s");
        assert_eq!(figure(MetricName::Seconds, 1.5), "1.50 s");
    }
}
