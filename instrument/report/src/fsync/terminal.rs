//! Pictures for a terminal of 80 columns: one fsync as a waterfall, many as a table.

use std::fmt::Write;

use study::fsync::Part;
use study::fsync::interval::{Interval, union};
use study::fsync::summary::{LevelSummary, Summary, Times};
use study::fsync::{Breakdown, LevelBreakdown};

/// Columns of the bar.
const BAR: usize = 24;
/// More rows than this per level are only counted.
const ROWS_MAX: usize = 48;

/// A row of the picture.
pub(super) struct Row<'a> {
    pub span: Interval,
    /// `None`: a moment of the journal, not a time.
    pub part: Option<Part>,
    pub label: &'a str,
    pub rwbs: &'a str,
    pub bytes: u64,
}

/// The stages, journal steps and, at the top, the gaps of host time of a level, in order of time.
pub(super) fn rows(level: &LevelBreakdown, call: Option<Interval>) -> Vec<Row<'_>> {
    let stages = level.stages.iter().map(|stage| Row {
        span: stage.span(),
        part: Some(stage.part),
        label: &stage.label,
        rwbs: &stage.rwbs,
        bytes: stage.bytes,
    });
    let mark = |at_ns| Interval::new(at_ns, at_ns);
    let marks = level.marks.iter();
    let marks = marks.map(|m| Row { span: mark(m.at_ns), part: None, label: &m.label, rwbs: "", bytes: 0 });
    let mut rows: Vec<Row<'_>> = stages.chain(marks).collect();
    let mut at = call.map(|call| call.start_ns);
    for span in union(level.stages.iter().map(|stage| stage.span()).collect()) {
        rows.extend(at.and_then(|from| host(from, span.start_ns)));
        at = at.map(|_| span.end_ns);
    }
    rows.extend(at.zip(call).and_then(|(from, call)| host(from, call.end_ns)));
    rows.sort_by_key(|row| (row.span.start_ns, row.part));
    rows
}

fn host<'a>(from: u64, to: u64) -> Option<Row<'a>> {
    let part = Some(Part::Host);
    (from < to).then(|| Row { span: Interval::new(from, to), part, label: "host", rwbs: "", bytes: 0 })
}

/// One fsync: a row for each stage, with its place in time.
pub fn waterfall(fsync: &Breakdown) -> String {
    let call = Interval::new(fsync.start_ns, fsync.start_ns + fsync.total_ns);
    let mut out = String::new();
    let left = clip(&title(fsync), 62);
    let _ = writeln!(out, "{left:<62} {:>14} us", micros(fsync.total_ns));
    for (depth, level) in fsync.levels.iter().enumerate() {
        let of = if depth == 0 { "the call" } else { "the device time above" };
        let _ = writeln!(out, "{}: {} us, {of}", level.name, micros(level.windows_ns));
        let _ = writeln!(out, "  stage                op     bytes start us       us");
        let rows = rows(level, (depth == 0).then_some(call));
        for row in rows.iter().take(ROWS_MAX) {
            let _ = writeln!(out, "{}", line(row, &call));
        }
        if rows.len() > ROWS_MAX {
            let _ = writeln!(out, "  ... {} more", rows.len() - ROWS_MAX);
        }
        let _ = writeln!(out, "{}", sum_line(level));
    }
    out
}

/// `fsync of inode 12 by python3 (77)`.
pub(super) fn title(fsync: &Breakdown) -> String {
    let name = if fsync.data_only { "fdatasync" } else { "fsync" };
    let file = fsync.inode.map(|inode| format!(" of inode {inode}")).unwrap_or_default();
    let comm = if fsync.comm.is_empty() { "thread" } else { &fsync.comm };
    format!("{name}{file} by {comm} ({})", fsync.pid)
}

fn line(row: &Row<'_>, call: &Interval) -> String {
    let start = micros(row.span.start_ns.saturating_sub(call.start_ns));
    let bytes = if row.bytes > 0 { row.bytes.to_string() } else { String::new() };
    let time = if row.part.is_some() { micros(row.span.length()) } else { String::new() };
    let label = clip(row.label, 20);
    format!("  {label:<20} {:<5} {bytes:>6} {start:>8} {time:>8} |{}|", row.rwbs, bar(row, call))
}

fn bar(row: &Row<'_>, call: &Interval) -> String {
    let whole = call.length().max(1) as u128;
    let column = |at: u64| {
        let offset = u128::from(at.saturating_sub(call.start_ns)).min(whole);
        (offset * BAR as u128 / whole) as usize
    };
    let from = column(row.span.start_ns).min(BAR - 1);
    let to = column(row.span.end_ns).clamp(from + 1, BAR);
    let letter = match row.part {
        None => '^',
        Some(Part::DataWrite) => '#',
        Some(Part::JournalWrite) => '=',
        Some(Part::Flush) => '~',
        Some(Part::Fua) => '*',
        Some(Part::Other) => '+',
        Some(Part::Queue) => '.',
        Some(Part::Host) => '-',
    };
    (0..BAR).map(|at| if (from..to).contains(&at) { letter } else { ' ' }).collect()
}

/// `  = data write 60.2 + flush 12.1 + host 3.4`, in two lines when it is too long for one.
fn sum_line(level: &LevelBreakdown) -> String {
    let terms = Part::ALL.iter().filter(|part| level.parts.get(**part) > 0);
    let mut lines = vec![String::from("  =")];
    for (at, part) in terms.enumerate() {
        let plus = if at == 0 { " " } else { " + " };
        let term = format!("{plus}{} {}", part.name(), micros(level.parts.get(*part)));
        match lines.last_mut() {
            Some(line) if line.len() + term.len() <= 80 => line.push_str(&term),
            _ => lines.push(format!("   {term}")),
        }
    }
    lines.join("\n")
}

/// All fsyncs: for each level and part mean, share and quantiles in microseconds.
pub fn table(summary: &Summary) -> String {
    let mut out = format!("{} fsyncs; times in us\n", summary.fsyncs);
    for level in &summary.levels {
        let _ = writeln!(out, "{}", clip(&level.name, 80));
        let _ =
            writeln!(out, "  part               mean   share        p50        p90        p99        max");
        let whole = level.whole.mean_ns;
        for (part, times) in level.parts.iter().filter(|(_, times)| times.max_ns > 0) {
            table_line(&mut out, part.name(), times, whole);
        }
        table_line(&mut out, "total", &level.whole, whole);
        let _ = writeln!(out, "  {}", per_fsync(level));
    }
    out
}

fn table_line(out: &mut String, name: &str, times: &Times, whole: f64) {
    let share = if whole > 0.0 { 100.0 * times.mean_ns / whole } else { 0.0 };
    let mean = times.mean_ns / 1000.0;
    let quantile = |ns: u64| format!("{:>10}", micros(ns));
    let quantiles: Vec<String> =
        [times.p50_ns, times.p90_ns, times.p99_ns, times.max_ns].into_iter().map(quantile).collect();
    let _ = writeln!(out, "  {name:<13} {mean:>9.1} {share:>5.1} % {}", quantiles.join(" "));
}

fn per_fsync(level: &LevelSummary) -> String {
    let syncs = if level.syncs_mean > 0.0 {
        format!(", {:.2} backing-file syncs", level.syncs_mean)
    } else {
        String::new()
    };
    format!(
        "per fsync: {:.2} writes ({:.0} bytes), {:.2} flushes{syncs}",
        level.writes_mean, level.written_bytes_mean, level.flushes_mean
    )
}

/// Microseconds with one decimal.
pub(super) fn micros(ns: u64) -> String {
    let tenths = (u128::from(ns) + 50) / 100;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn clip(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_rounded() {
        assert_eq!((micros(0), micros(49), micros(50)), ("0.0".into(), "0.0".into(), "0.1".into()));
        assert_eq!(micros(1_234_567), "1234.6");
        assert_eq!(micros(u64::MAX), "18446744073709551.6");
    }

    #[test]
    fn bars_lie_where_the_time_is() {
        let call = Interval::new(1000, 3400);
        let row = |from, to, part| Row { span: Interval::new(from, to), part, label: "", rwbs: "", bytes: 0 };
        assert_eq!(bar(&row(1000, 1200, Some(Part::DataWrite)), &call), format!("##{}", " ".repeat(22)));
        assert_eq!(bar(&row(3399, 3400, Some(Part::Flush)), &call), format!("{}~", " ".repeat(23)));
        assert_eq!(bar(&row(2200, 2200, None), &call), format!("{}^{}", " ".repeat(12), " ".repeat(11)));
        assert_eq!(bar(&row(0, 9999, Some(Part::Host)), &call), "-".repeat(24));
    }
}
