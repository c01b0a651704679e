//! Two runs side by side; the claims of a study.

use analysis::compare::{CellPair, Conclusion, RunComparison};
use stats::between::Basis;

use study::results::{Answer, Judgement, MetricName};

use super::summary::{verdict_paint, why_lines};
use super::table::{Align, Cell, Table};
use super::{Paint, Style};
use crate::format;
use crate::view::verdict::{doubt, sign, word};

/// A comparison: a verdict for each pair of cells, what differs in the environment, the conclusion.
pub fn comparison(compared: &RunComparison, style: Style) -> String {
    let said = format!("{}{}", by_words(compared.by), conclusion(compared.conclusion));
    let mut text = style.paint(conclusion_paint(compared.conclusion), &said);
    text.push_str("\n\n");
    let several = compared.pairs.iter().any(|pair| pair.baseline != pair.candidate);
    let head = |name: &str, align| (Cell::new(name, Paint::Strong), align);
    let mut table = Table::new(vec![
        head("load", Align::Left),
        head("verdict", Align::Left),
        (Cell::new("candidate", Paint::Strong).line("baseline", Paint::Faint), Align::Right),
        head("ratio", Align::Right),
        head("p", Align::Right),
    ]);
    for pair in &compared.pairs {
        add(&mut table, pair, several);
    }
    if !table.is_empty() {
        text.push_str(&table.render(style));
    }
    let mut differed: Vec<&String> = Vec::new();
    for reason in compared.pairs.iter().flat_map(|pair| &pair.lines).flat_map(|line| &line.differed) {
        if !differed.contains(&reason) {
            differed.push(reason);
        }
    }
    if !differed.is_empty() {
        text.push_str(&style.heading("In what the machine differed"));
        for reason in differed {
            text.push_str(&format!("{}\n", style.paint(Paint::Warn, &style.paragraph(reason, 2))));
        }
    }
    let (of_baseline, of_candidate) = &compared.unpaired;
    for (side, cells) in [("baseline", of_baseline), ("candidate", of_candidate)] {
        if !cells.is_empty() {
            let line = format!("Only in the {side}: {}.", cells.join("; "));
            text.push_str(&format!("\n{}\n", style.paragraph(&line, 2)));
        }
    }
    if !compared.environment.is_empty() {
        text.push_str(&style.heading("What differs between the environments"));
        for difference in &compared.environment {
            let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "not known".into());
            let line =
                format!("{}: {} -> {}", difference.name, known(&difference.left), known(&difference.right));
            let paint = if difference.weight == analysis::diff::Importance::Fundamental {
                Paint::Warn
            } else {
                Paint::Plain
            };
            text.push_str(&format!("{}\n", style.paint(paint, &style.paragraph(&line, 2))));
        }
    }
    text
}

fn add(table: &mut Table, pair: &CellPair, several: bool) {
    let label = if several {
        format!("{} {} / {}", pair.load, pair.candidate, pair.baseline)
    } else {
        format!("{} {}", pair.load, pair.candidate)
    };
    if pair.lines.is_empty() {
        let mut row = vec![Cell::label(&label, 22, Paint::Plain), Cell::new("? no result", Paint::Warn)];
        row.extend((0..3).map(|_| Cell::default()));
        table.row(row);
    }
    for (number, line) in pair.lines.iter().enumerate() {
        let verdict = &line.finding.verdict;
        let interval = line.finding.interval;
        let first = if number == 0 { Cell::label(&label, 22, Paint::Plain) } else { Cell::default() };
        let said = Cell::new(format!("{} {}", sign(verdict), word(verdict)), verdict_paint(verdict));
        let said = said.line(metric(line.metric), Paint::Faint);
        let why = doubt(verdict);
        table.row(vec![
            first,
            if why.is_empty() { said } else { why_lines(said, &why) },
            Cell::new(show(line.metric, line.candidate), Paint::Plain)
                .line(format!("was {}", show(line.metric, line.baseline)), Paint::Faint),
            Cell::new(format::ratio(line.finding.ratio), Paint::Plain)
                .line(
                    format!("{}..{}", format::ratio(interval.low), format::ratio(interval.high)),
                    Paint::Faint,
                )
                .lines(machine_words(line).into_iter().map(|words| (words, Paint::Faint)).collect()),
            Cell::new(format::p_value(line.p_adjusted), Paint::Faint),
        ]);
    }
}

/// Which part of the interval is the machine's, and in what it differed.
pub fn machine_words(line: &analysis::compare::MetricComparison) -> Vec<String> {
    let mut lines = Vec::new();
    if line.machine_half_width >= 0.001 {
        lines.push(format!("machine {:.1} %", line.machine_half_width * 100.0));
    }
    if line.of_cpu_left.abs() >= 0.001 {
        lines.push(format!("less CPU {:+.1} %", line.of_cpu_left * 100.0));
    }
    if line.basis == Some(Basis::Anchor) {
        lines.push("by the anchor".into());
    }
    lines
}

/// What the conclusion is by, where that is not throughput.
pub fn by_words(by: MetricName) -> String {
    if by == MetricName::Throughput { String::new() } else { format!("By {}: ", metric(by)) }
}

/// The conclusion as a sentence.
pub fn conclusion(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::NoWorse => "Nothing is worse.",
        Conclusion::SomeWorse => "Something is worse.",
        Conclusion::CannotTell => "Nothing is known to be worse, but of some it cannot be told.",
    }
}

fn conclusion_paint(conclusion: Conclusion) -> Paint {
    match conclusion {
        Conclusion::NoWorse => Paint::Good,
        Conclusion::SomeWorse => Paint::Bad,
        Conclusion::CannotTell => Paint::Warn,
    }
}

/// What a metric is called.
pub fn metric(metric: MetricName) -> &'static str {
    match metric {
        MetricName::Throughput => "throughput",
        MetricName::Bandwidth => "bandwidth",
        MetricName::LatencyP50 => "median latency",
        MetricName::LatencyP99 => "p99 latency",
        MetricName::LatencyP999 => "p99.9 latency",
        MetricName::LatencyMean => "mean latency",
        MetricName::Seconds => "time",
    }
}

/// A metric's value with its unit.
pub fn show(metric: MetricName, value: f64) -> String {
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

/// The claims of a study with their answers.
pub fn claims(judgements: &[Judgement], style: Style) -> String {
    let mut text = String::new();
    for judgement in judgements {
        let (sign, paint) = match judgement.answer {
            Answer::Reproduced => ("+ reproduced", Paint::Good),
            Answer::NotReproduced => ("- not reproduced", Paint::Bad),
            Answer::CannotTell => ("? cannot tell", Paint::Warn),
        };
        text.push_str(&format!("{}\n", style.paint(paint, sign)));
        let source = judgement.source.as_ref().map(|source| format!(" [{source}]")).unwrap_or_default();
        for line in [format!("{}{source}", judgement.claim), judgement.reason.clone()] {
            text.push_str(&format!("    {}\n", style.indented(&line, 4)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_is_shown_in_its_own_unit() {
        assert_eq!(show(MetricName::Seconds, 2.5), "2.50 s");
        assert_eq!(show(MetricName::LatencyP99, 2_500.0), "2.50 us");
        assert_eq!(show(MetricName::Bandwidth, 1048576.0), "1.00 MiB/s");
    }
}
